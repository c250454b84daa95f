"""The road from a prim func to a callable: ``lower``, ``build``, ``jit``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, overload

from tirlower.call.gil import GilChoice
from tirlower.call.parameters import passed_names
from tirlower.diagnostics import TirError, paused_collection, user_frames
from tirlower.driver.backend import pipeline_for
from tirlower.driver.build import build_module
from tirlower.driver.kernel import BuiltKernel, Executable, ForeignKernel, Kernel
from tirlower.driver.lazy import LazyKernel
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.packed import Packed
from tirlower.machine.target import Target
from tirlower.transforms import PassContext

__all__ = ["JitFunction", "build", "jit", "lower"]


def _module_of(program: Any) -> tuple[IRModule, bool]:
    """A module, and whether a single function was given."""
    if isinstance(program, PrimFunc):
        name = program.name
        return IRModule({name: program.with_attr("global_symbol", name)}), True
    if isinstance(program, IRModule):
        return program, False
    if isinstance(program, BuiltKernel):
        return _module_of(program.func)
    raise TirError(
        f"expected a PrimFunc or an IRModule, got {type(program).__name__}",
        help="decorate the function with @T.prim_func, the class with @I.ir_module",
    )


def _target_of(target: Any) -> Target:
    found = Target.current() if target is None else Target(target)
    return found if found is not None else Target("llvm")


def lower(program: PrimFunc | IRModule, target: Any = None, *, until: str | None = None) -> IRModule:
    """The module after the passes of the target's pipeline, or after the first run of the pass ``until``.

    ``target`` is a :class:`Target` or its text; the current one, or ``"llvm"``, when left out.
    The module is what :func:`build` compiles for arrays that share no memory, as its attributes ``tir.noalias`` say.
    Loops and accesses are checked first, and what is not proved inside its buffer gets a guard (docs/legality.md).
    Raises :class:`WellFormedError` for an ill-formed program, :class:`LegalityError` for a loop or an access that is
    refused, :class:`TransformError` from the passes.

    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer((4, 4), "float32")):
    ...     for i, j in T.grid(4, 4):
    ...         A[i, j] = T.float32(1)
    >>> "A_1[i * 4 + j]" in lower(f, until="FlattenBuffer").script()
    True
    """
    # What a kernel from the disk cache does without.
    from tirlower.ir.verify import verify_well_formed
    from tirlower.legality.check import check_legality
    from tirlower.legality.versions import apart

    with user_frames():
        mod, _ = _module_of(program)
        where = _target_of(target)
        with paused_collection():
            verify_well_formed(mod)
            checked = check_legality(apart(mod), PassContext.current(), lifts=not where.is_gpu)
            return pipeline_for(where).run(checked.module, PassContext.current(), until)


@overload
def build(
    program: PrimFunc, target: Any = None, *, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Kernel: ...
@overload
def build(
    program: IRModule, target: Any = None, *, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Executable: ...
def build(
    program: PrimFunc | IRModule,
    target: Any = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
) -> Kernel | Executable:
    """Compile a function to a :class:`Kernel`, or a module to an :class:`Executable` of its exported functions.

    ``target``: a :class:`Target` or its text (``"llvm -mcpu=x86-64-v4"``); the current one, or the host's, when left
    out. ``outputs``: names of parameters (or, for a module, of each function's) that calls do not pass; they are
    allocated and returned. The attribute ``tir.outputs`` says the same. ``gil``: whether calls release the global
    interpreter lock; ``"auto"`` does when the work is longer than a few microseconds.

    Machine code is kept on disk, keyed by everything that determines it (``Kernel.explain_miss`` says why it was not
    found). Loops and accesses are checked as :func:`lower` does. Raises :class:`WellFormedError`,
    :class:`LegalityError`, :class:`TransformError`, :class:`LoweringError` or :class:`CodegenError`.

    >>> import numpy as np
    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    ...     for i in range(n):
    ...         B[i] = A[i] + 1
    >>> build(f, outputs=["B"])(np.arange(3, dtype="int32"))
    array([1, 2, 3], dtype=int32)
    """
    with user_frames():
        _check_options(outputs, gil)
        mod, single = _module_of(program)
        where = _target_of(target)
        made = build_module(mod, where, PassContext.current(), outputs, gil)
        if not single:
            return Executable(*made)
        _, kernels = made
        kernel: Kernel = next(iter(kernels.values()))
        return kernel


class JitFunction(Kernel):
    """A prim func that is compiled at its first call. Until then calls go through Python; afterwards, none does."""

    @property
    def func(self) -> PrimFunc:
        """The function as it was written."""
        return self._source

    _source: PrimFunc
    _options: dict[str, Any]

    def passed(self) -> list[str]:
        """The names of the parameters that a call passes, without compiling."""
        return passed_names(self._source, self._options["outputs"])

    def __reduce__(self) -> Any:
        return _jit_again, (Packed(self._source), self._options)

    def __repr__(self) -> str:
        return f"<tirlower.jit {self.call_text} for {self.artifact.target}>"

    def compile(self) -> Kernel:
        """Compile now, if that has not happened."""
        return self

    def script(self, **options: Any) -> str:
        """The script of the function."""
        return self._source.script(**options)


class _ForeignJit(ForeignKernel, JitFunction):
    # Compiled, for a processor that this machine is not. A docstring would hide the kernel's own.
    __doc__ = JitFunction.__dict__["__doc__"]


class _Pending(JitFunction):
    """A :class:`JitFunction` before its first call: the first use makes it one."""

    def __init__(self, source: PrimFunc, options: dict[str, Any]) -> None:
        # The entry's own state comes with the compilation.
        self._source = source
        self._options = options
        self._lock = threading.Lock()
        self.named(source, source.name)

    def compile(self) -> Kernel:
        """Compile, and become a :class:`JitFunction`. Of several threads one compiles, the others wait."""
        with self._lock:
            # Once a JitFunction, the object may be executing: its code must not be replaced.
            return self._become() if type(self) is _Pending else self

    def _become(self) -> Kernel:
        where = _target_of(self._options["target"])
        if where.kind == "c":
            raise TirError(
                f"`{self.name}` is to be compiled for the current target {where}, which its decorator does not name",
                help="write @tl.jit(target='c'), or call tl.build",
            )
        artifact, kernels = build_module(
            _module_of(self._source)[0],
            where,
            PassContext.current(),
            self._options["outputs"],
            self._options["gil"],
        )
        kernel = kernels[self.name]
        kernel.move_into(self)
        self.artifact = artifact
        if isinstance(kernel, ForeignKernel):
            self.__dict__["lacking"] = kernel.lacking
        self.__class__ = _ForeignJit if isinstance(kernel, ForeignKernel) else JitFunction  # type: ignore[assignment]
        return self

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compile, then call."""
        with user_frames():
            kernel = self.compile()
        return kernel(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tirlower.jit {self.call_text}, not compiled yet>"

    def __getattr__(self, key: str) -> Any:
        # What a compiled kernel knows (artifact, signature, …) asks for the compilation.
        if key.startswith("__") or key in ("_source", "_options", "_lock", "name"):
            raise AttributeError(key)
        return getattr(self.compile(), key)


def _jit_again(func: Packed, options: dict[str, Any]) -> JitFunction:
    """What unpickling a function of :func:`jit` calls: it is compiled at its first call there."""
    return jit(**options)(func.unpacked())


def _check_options(outputs: Any, gil: Any) -> None:
    """Raise :class:`TirError` for options that :func:`build` and :func:`jit` do not have."""
    if gil not in (True, False, "auto"):
        raise TirError(f"gil= is True, False or 'auto', got {gil!r}", help="'auto' releases the lock for longer work")
    if outputs is None:
        return
    if not isinstance(outputs, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in outputs):
        raise TirError(
            f"outputs= is a list of parameter names, got {outputs!r}",
            help=f"write outputs=[{outputs!r}]" if isinstance(outputs, str) else "name the parameters by strings",
        )


@overload
def jit(program: PrimFunc) -> JitFunction: ...
@overload
def jit(
    program: None = None, *, target: Any = None, outputs: Sequence[str] | None = None, gil: GilChoice = "auto"
) -> Callable[[PrimFunc], JitFunction]: ...
def jit(
    program: PrimFunc | None = None,
    *,
    target: Any = None,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
) -> JitFunction | Callable[[PrimFunc], JitFunction]:
    """Compile a prim func at its first call (or from the disk cache); ``@tl.jit`` or ``@tl.jit(target=…, outputs=[…])``.

    The options are those of :func:`build`.
    """

    _check_options(outputs, gil)
    options = {"target": target, "outputs": outputs, "gil": gil}

    def decorate(func: PrimFunc) -> JitFunction:
        if not isinstance(func, PrimFunc):
            with user_frames():
                raise TirError(
                    f"tl.jit decorates a prim func, got {type(func).__name__}", help="write @T.prim_func below @tl.jit"
                )
        if target is not None and Target(target).kind != "llvm":
            lazy: Any = LazyKernel(func, lambda: build(func, **options), (_jit_again, (Packed(func), options)))
            made: JitFunction = lazy
            return made
        return _Pending(func, options)

    return decorate if program is None else decorate(program)
