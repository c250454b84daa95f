"""The backend of the target ``c``: C text, compiled by the system's compiler and loaded."""

from __future__ import annotations

import time
from typing import Final

from tirlower.c.codegen.module import CModule, generate
from tirlower.c.compile import Compiled, compile_text
from tirlower.c.library import Library, packed
from tirlower.call.gil import GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.call.slowpath import FallbackEntry, PackedKernel, SlowPath
from tirlower.driver.build import Overlapping
from tirlower.driver.kernel import BuiltKernel
from tirlower.driver.progress import Progress
from tirlower.driver.report import Report, report_of
from tirlower.driver.result import BuildResult
from tirlower.driver.steps import compile_version
from tirlower.emit.compile import CompileOptions
from tirlower.ir.expr import Call, StringImm
from tirlower.ir.func import IRModule
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.llvm.codegen.symbols import find_symbol
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

__all__ = ["BACKEND", "CBackend", "CKernel"]

_EXTERN = (Op.get("tir.call_extern"), Op.get("tir.call_pure_extern"))


class CKernel(BuiltKernel, FallbackEntry):
    """A function compiled by the system's C compiler: calls are checked in Python and made through ctypes."""

    @classmethod
    def made(cls, result: BuildResult, name: str, slow: SlowPath, library: Library) -> CKernel:
        """A kernel from the call of its library's function."""
        kernel = cls(slow, 0, library)
        kernel.artifact = result
        kernel.named(result.function(name), name)
        return kernel


class CBackend:
    """Portable C by the system's compiler, called through ctypes."""

    def resolve(self, target: Target, ctx: PassContext) -> tuple[Target, CompileOptions]:
        """The C compiler has its options from the target alone."""
        return target, CompileOptions()

    def compiled(self, result: BuildResult, ctx: PassContext) -> Library:
        """A loaded library: compiled for every build."""
        result.miss = lambda: "what the system's C compiler makes is not kept on disk"
        library = compile_version(result, ctx)
        assert isinstance(library, Library)
        return library

    def generate(self, result: BuildResult) -> CModule:
        """The C text."""
        spec, lowered = result.spec, result.lowered
        keys = {str(f.attrs.get("global_symbol", key)): key for key, f in lowered.items()}
        module = result.code = generate(
            lowered,
            outputs={keys[name]: chosen for name, chosen in spec.outputs.items() if name in keys},
            in_place=result.in_place,
            registered=_registered(lowered),
            check_assumptions=bool(spec.context().option("tir.enable_debug")),
        )
        return module

    def compile(self, result: BuildResult, code: CModule, progress: Progress) -> Library:
        """The library, loaded."""
        progress.begin("C compiler")
        start = time.perf_counter()
        level = result.target.get("opt-level")
        level = (0 if result.spec.choices["opt_level"] == 0 else 2) if level is None else level
        compiled: Compiled = compile_text(code.text, (f"-O{level}",))
        library = Library(compiled)
        library.fill(code, _registered(result.lowered))
        result.code_bytes = compiled.size
        result.timings["compile"] = (time.perf_counter() - start) * 1e3
        return library

    def bind(self, result: BuildResult, compiled: Library) -> dict[str, CKernel]:
        """The callables of the library's functions."""
        spec = result.spec
        kernels = {}
        for name, kernel in _code(result).kernels.items():
            written = [p.name for p in kernel.signature.buffers if p.written]
            pairs = result.in_place.get(name, ())
            signature = call_signature(spec.function(name), written, spec.outputs.get(name, ()), pairs)
            overlap = Overlapping(result, name) if signature.alias_pairs() else None
            slow = SlowPath(signature, self.packed(result, compiled, name), GilPolicy(release=spec.gil), overlap)
            kernels[name] = CKernel.made(result, name, slow, compiled)
        return kernels

    def packed(self, result: BuildResult, compiled: Library, name: str) -> PackedKernel:
        """A function of the library."""
        code = _code(result)
        return packed(compiled, code, code.kernels[name])

    def text(self, result: BuildResult, kind: str) -> str:
        """The C text."""
        return _code(result).text

    def report(self, result: BuildResult) -> Report:
        """What the build did."""
        return report_of(result)


BACKEND: Final = CBackend()


def _code(result: BuildResult) -> CModule:
    assert isinstance(result.code, CModule)
    return result.code


def _registered(mod: IRModule) -> dict[str, int]:
    """The external functions of a module that are registered in this process, which no linker would find.

    Raises CodegenError for one that is neither registered nor loaded.
    """
    found: dict[str, int] = {}

    def look(op: Node) -> None:
        if op.__class__ is Call and op.op in _EXTERN and isinstance(op.args[0], StringImm):
            address = find_symbol(op.args[0].value)
            if address is not None:
                found[op.args[0].value] = address

    for func in mod.functions.values():
        pre_order_visit(func.body, look)
    return found
