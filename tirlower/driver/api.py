"""The road from a prim func to a callable: ``lower``, ``build``, ``jit``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

from tirlower.call.gil import GilChoice
from tirlower.diagnostics import TirError, paused_collection, user_frames
from tirlower.driver.backend import pipeline_for
from tirlower.driver.build import build_module, module_of, target_of
from tirlower.driver.kernel import Executable, Kernel
from tirlower.driver.lazy import JitFunction, LazyKernel
from tirlower.driver.tuned import with_tuned_plans
from tirlower.ir.func import IRModule, PrimFunc, Scheduled
from tirlower.machine.target import TargetLike
from tirlower.transforms import PassContext

if TYPE_CHECKING:
    from tirlower.driver.scheduling import ScheduleLike

__all__ = ["JitFunction", "build", "jit", "lower"]


def lower(
    program: PrimFunc | IRModule | Scheduled,
    target: TargetLike = None,
    *,
    until: str | None = None,
    schedule: ScheduleLike = "none",
) -> IRModule:
    """The module after the passes of the target's pipeline, or after the first run of the pass ``until``.

    ``program``: a function, a module, or a schedule of one. ``target`` is a :class:`Target` or its text; the current one,
    or ``"llvm"``, when left out. ``schedule`` is that of :func:`build`, ``"none"`` when left out. The module is what :func:`build` compiles for arrays that share no memory, as its
    attributes ``tir.noalias`` say.
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
        mod, _ = module_of(program)
        where = target_of(target)
        with paused_collection():
            verify_well_formed(mod)
            text, written = (
                with_tuned_plans(mod, _schedule(schedule, program), where, PassContext.current().choices),
                None,
            )
            if text != "none" and where.kind == "llvm":
                from tirlower.driver.scheduling import scheduled

                written = check_legality(apart(mod), PassContext.current()).module  # judges what was written
                mod = scheduled(mod, text, where, PassContext.current().config).module
            checked = check_legality(apart(mod), PassContext.current(), lifts=not where.is_gpu, written=written)
            return pipeline_for(where).run(checked.module, PassContext.current(), until)


@overload
def build(
    program: PrimFunc,
    target: TargetLike = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> Kernel: ...
@overload
def build(
    program: Scheduled,
    target: TargetLike = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> Kernel | Executable: ...
@overload
def build(
    program: IRModule,
    target: TargetLike = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> Executable: ...
def build(
    program: PrimFunc | IRModule | Scheduled,
    target: TargetLike = None,
    *,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> Kernel | Executable:
    """Compile a function to a :class:`Kernel`, or a module to an :class:`Executable` of its exported functions.

    A schedule is what it is of: a function or a module.

    ``target``: a :class:`Target` or its text (``"llvm -mcpu=x86-64-v4"``); the current one, or the host's, when left
    out. ``outputs``: names of parameters (or, for a module, of each function's) that calls do not pass; they are
    allocated and returned. The attribute ``tir.outputs`` says the same. ``gil``: whether calls release the global
    interpreter lock; ``"auto"`` does when the work is longer than a few microseconds. ``schedule``: ``"auto"`` finds one for
    the target's processor where all loops of a nest are serial, each step proved to keep every bit that no permission lets
    change, and ``kernel.schedule`` has the steps; ``"none"`` compiles what is written; a trace, or the path of a file with
    one as JSON, is applied. Without effect for targets other than ``llvm``, and for a schedule (docs/automatic_schedules.md).

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
        mod, single = module_of(program)
        where = target_of(target)
        made = build_module(mod, where, PassContext.current(), outputs, gil, _schedule(schedule, program))
        if not single:
            return Executable(*made)
        _, kernels = made
        return next(iter(kernels.values()))


def build_as(
    mod: IRModule, target: TargetLike, outputs: Sequence[str] | None, gil: GilChoice, schedule: str
) -> Executable:
    """Compile a module as another build did, whose schedule is given as the build kept it: what unpickling does."""
    return Executable(*build_module(mod, target_of(target), PassContext.current(), outputs, gil, schedule))


def _schedule(given: ScheduleLike, program: object = None) -> str:
    """What a build keeps of ``schedule=``: "none", "auto", or the JSON of a trace; "none" for a schedule, whose steps were taken."""
    if isinstance(given, str) and given in ("none", "auto"):
        return "none" if isinstance(program, Scheduled) else given
    from tirlower.driver.scheduling import schedule_text

    text = schedule_text(given)
    if isinstance(program, Scheduled):
        raise TirError("a schedule is built as it is, without the steps of another trace", help="apply the trace to it")
    return text


def _check_options(outputs: object, gil: object) -> None:
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
    program: None = None,
    *,
    target: TargetLike = None,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> Callable[[PrimFunc], JitFunction]: ...
def jit(
    program: PrimFunc | None = None,
    *,
    target: TargetLike = None,
    outputs: Sequence[str] | None = None,
    gil: GilChoice = "auto",
    schedule: ScheduleLike = "auto",
) -> JitFunction | Callable[[PrimFunc], JitFunction]:
    """Compile a prim func at its first call (or from the disk cache); ``@tl.jit`` or ``@tl.jit(target=…, outputs=[…])``.

    The options are those of :func:`build`.
    """

    _check_options(outputs, gil)
    with user_frames():
        text = _schedule(schedule)

    def decorate(func: PrimFunc) -> JitFunction:
        if not isinstance(func, PrimFunc):
            with user_frames():
                raise TirError(
                    f"tl.jit decorates a prim func, got {type(func).__name__}", help="write @T.prim_func below @tl.jit"
                )
        if target is not None:
            target_of(target)  # what it names is wrong here, not at the first call
        return LazyKernel(func, (target, outputs, gil, text))

    return decorate if program is None else decorate(program)
