"""From LLVM IR text to machine code: parse, verify, optimise, emit an object.

Modules live in a context of their own that dies with them, so that a long-running process does not collect types
and metadata of every kernel it ever compiled. llvmlite serialises calls into LLVM: compiling in threads gains nothing.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding import ffi, newpassmanagers

from tirlower.diagnostics import CodegenError, Source, Span
from tirlower.machine import cpu as host

__all__ = [
    "CompileOptions",
    "CompiledObject",
    "compile_object",
    "emit_assembly",
    "is_valid",
    "join_parts",
    "optimized_ir",
    "parts_of",
]

Pipeline = Literal["default", "minimal", "none"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """How to compile a module. The defaults are for ``opt_level=3`` on a nameless processor; see :meth:`for_host`.

    ``pipeline`` is ``"default"`` (LLVM's own at ``opt_level``), ``"minimal"`` (inlining of what must be, registers for
    stack slots, peepholes: all that explicit vector code needs, at half the compile time), or ``"none"``. The SLP
    vectorizer is off: its time grows with the square of a block's length (36 s for 100,000 instructions) and gains
    nothing on code that comes from loops. Fast-math is a matter of each instruction's flags, not of the module.
    """

    cpu: str = ""
    features: str = ""
    triple: str = ""
    opt_level: int = 3
    pipeline: Pipeline = "default"
    loop_vectorize: bool = True
    loop_interleave: bool = True
    loop_unroll: bool = True
    slp_vectorize: bool = False
    inline_threshold: int | None = None

    def __post_init__(self) -> None:
        if self.opt_level not in (0, 1, 2, 3):
            raise CodegenError(f"opt_level is {self.opt_level!r}", origin="llvm", help="use 0, 1, 2 or 3")
        if self.pipeline not in ("default", "minimal", "none"):
            raise CodegenError(
                f"unknown pipeline {self.pipeline!r}", origin="llvm", help='use "default", "minimal" or "none"'
            )

    @staticmethod
    def for_host(opt_level: int = 3, pipeline: Pipeline = "default") -> CompileOptions:
        """Options for the processor we run on."""
        cpu = host.host_cpu()
        return CompileOptions(cpu.name, cpu.features, host.triple(), opt_level, pipeline)

    def with_(self, **changes: object) -> CompileOptions:
        """The options with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def key(self) -> dict[str, str]:
        """The options as named components of a cache key."""
        return {f"option {f.name}": str(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, slots=True)
class CompiledObject:
    """Machine code of a module.

    ``object`` is a relocatable object file; ``text`` the LLVM IR it was made from; ``timings`` the milliseconds of the
    steps ``parse``, ``optimize`` and ``emit``. The optimised IR and the assembly are made on request.
    """

    object: bytes
    text: str
    options: CompileOptions
    timings: Mapping[str, float] = field(default_factory=dict)
    ir: str | None = None

    @property
    def optimized_ir(self) -> str:
        """The LLVM IR after the passes."""
        return self.ir if self.ir is not None else optimized_ir(self.text, self.options)

    @property
    def assembly(self) -> str:
        """The assembly of the object."""
        return emit_assembly(self.text, self.options)


_PARTS = b"TIRPARTS"

#: An attribute of functions with guards in ``while`` loops. Loop passes prove most of those (of an index that only sinks,
#: say) or take them out of the loop, behind the passes that keep elements in registers from one iteration to the next:
#: these run once more.
SIMPLIFY_AGAIN: Final = "tirlower-simplify-again"


def join_parts(objects: Sequence[bytes]) -> bytes:
    """Several object files as one piece of data; one alone stays as it is."""
    if len(objects) == 1:
        return objects[0]
    return _PARTS + b"".join(len(one).to_bytes(8, "little") + one for one in objects)


def parts_of(data: bytes) -> list[bytes]:
    """The object files that :func:`join_parts` put together.

    Raises:
        CodegenError: the data ends within a part.
    """
    if not data.startswith(_PARTS):
        return [data]
    out, at = [], len(_PARTS)
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        at += 8 + size
        if at > len(data):
            raise CodegenError("the machine code is cut off", origin="link", help="clear the disk cache")
        out.append(data[at - size : at])
    return out


def compile_object(text: str, options: CompileOptions, *, want_ir: bool = False) -> CompiledObject:
    """Compile LLVM IR to an object; ``want_ir`` keeps the optimised IR, for those who will certainly show it.

    Raises:
        CodegenError: the IR is invalid (with the line at fault), or the target is unknown.
    """
    start = time.perf_counter()
    with _parsed(text, options) as (module, machine):
        parsed = time.perf_counter()
        _optimize(module, machine, options, again=SIMPLIFY_AGAIN in text)
        optimized = time.perf_counter()
        ir = str(module) if want_ir else None
        emitting = time.perf_counter()
        data: bytes = _emit(machine.emit_object, module)
        done = time.perf_counter()
    timings = {
        "parse": (parsed - start) * 1e3,
        "optimize": (optimized - parsed) * 1e3,
        "emit": (done - emitting) * 1e3,
    }
    return CompiledObject(data, text, options, timings, ir)


def optimized_ir(text: str, options: CompileOptions) -> str:
    """The module after the passes, as text.

    Raises:
        CodegenError: as :func:`compile_object`.
    """
    with _parsed(text, options) as (module, machine):
        _optimize(module, machine, options, again=SIMPLIFY_AGAIN in text)
        return str(module)


def emit_assembly(text: str, options: CompileOptions) -> str:
    """The assembly of the module (for an NVPTX triple, its PTX).

    Raises:
        CodegenError: as :func:`compile_object`.
    """
    with _parsed(text, options) as (module, machine):
        _optimize(module, machine, options, again=SIMPLIFY_AGAIN in text)
        assembly: str = _emit(machine.emit_assembly, module)
    return assembly


@functools.cache
def _initialize_all() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    # No CPU's code is affected: a GPU's shared, constant and local memory have addresses of 32 bits (see the data layout in
    # ``gpu/codegen/machine.py``), and LLVM computes with 64 unless it is told.
    llvm.set_option("tirlower", "--nvptx-short-ptr")


def _target_machine(options: CompileOptions) -> llvm.TargetMachine:
    native = options.triple in ("", host.triple())
    if native:
        host.initialize_native()
    else:
        _initialize_all()
    try:
        target = llvm.Target.from_triple(options.triple or host.triple())
    except RuntimeError as error:
        raise CodegenError(
            f"LLVM has no target for the triple {options.triple!r}",
            origin="llvm",
            notes=[str(error).strip()],
            help=f"use a triple such as {host.triple()!r}",
        ) from error
    return target.create_target_machine(
        cpu=options.cpu,
        features=options.features,
        opt=options.opt_level,
        reloc="pic",
        codemodel="small",
        jit=native,
    )


def is_valid(text: str) -> bool:
    """Whether LLVM takes a module."""
    context = llvm.create_context()
    try:
        with llvm.parse_assembly(text, context=context) as module:
            module.verify()
    except RuntimeError:
        return False
    return True


@contextmanager
def _parsed(text: str, options: CompileOptions) -> Iterator[tuple[llvm.ModuleRef, llvm.TargetMachine]]:
    """The verified module and its target machine.

    The module is closed here, on every path: a module that outlives its context (the two in one cycle of garbage, say,
    as a traceback makes it) crashes the process.
    """
    machine = _target_machine(options)
    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context=context)
    except RuntimeError as error:
        raise _invalid(text, str(error)) from error
    with module:
        try:
            module.verify()
        except RuntimeError as error:
            raise _invalid(text, str(error)) from error
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        yield module, machine


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine, options: CompileOptions, *, again: bool) -> None:
    if options.pipeline == "none":
        return
    tuning = llvm.create_pipeline_tuning_options(speed_level=options.opt_level)
    tuning.loop_vectorization = options.loop_vectorize
    tuning.loop_interleaving = options.loop_interleave
    tuning.loop_unrolling = options.loop_unroll
    tuning.slp_vectorization = options.slp_vectorize
    if options.inline_threshold is not None:
        tuning.inlining_threshold = options.inline_threshold
    builder = llvm.create_pass_builder(machine, tuning)
    if options.pipeline == "default":
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_global_dead_code_eliminate_pass()
    try:
        passes.run(module, builder)
    finally:
        _dispose(passes)
    if again and options.pipeline == "default" and options.opt_level >= 2:
        _simplify_again(module, builder)


def _simplify_again(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> None:
    marked = [f for f in module.functions if any(SIMPLIFY_AGAIN.encode() in text for text in f.attributes)]
    passes = builder.getFunctionPassManager()
    try:
        for function in marked:
            passes.run(function, builder)
    finally:
        _dispose(passes)


def _dispose(passes: llvm.ModulePassManager | llvm.FunctionPassManager) -> None:
    """Free a pass manager: llvmlite's wrapper inherits a ``_dispose`` that does nothing, which leaks 76 KB a module."""
    if type(passes)._dispose is ffi.ObjectRef._dispose:
        newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()
    else:
        passes.close()


def _emit(emit: Callable[[llvm.ModuleRef], _T], module: llvm.ModuleRef) -> _T:
    try:
        return emit(module)
    except RuntimeError as error:
        raise CodegenError(
            f"LLVM could not make machine code: {str(error).strip()}",
            origin="llvm",
            help="the target probably lacks an instruction that an intrinsic asks for",
        ) from error


_POSITION = re.compile(r"<string>:(\d+):(\d+): error: (.*)")


def _invalid(text: str, message: str) -> CodegenError:
    """The error for text that LLVM refused, pointing into it."""
    source = Source(text, "<LLVM IR>")
    found = _POSITION.search(message)
    if found:
        line, col = int(found[1]), int(found[2]) - 1
        span = Span(source, line, col, line, max(len(source.line(line)), col + 1))
        return CodegenError(f"invalid LLVM IR: {found[3]}", origin="llvm", span=span)
    # The verifier quotes instructions; the last one it quotes is where the rule is broken.
    headline, *quoted = [line.strip() for line in message.strip().splitlines()] or ["rejected by the verifier"]
    places: dict[str, int] = {}
    for number, content in enumerate(source.lines, start=source.first_line):
        places.setdefault(" ".join(content.split()), number)
    for quote in reversed(quoted):
        number = places.get(" ".join(quote.split()), 0)
        if number:
            text_at = source.line(number)
            span = Span(source, number, len(text_at) - len(text_at.lstrip()), number, len(text_at))
            return CodegenError(f"invalid LLVM IR: {headline}", origin="llvm", span=span, notes=quoted)
    return CodegenError(f"invalid LLVM IR: {headline}", origin="llvm", notes=quoted)
