"""How a kernel runs here: which threads take turns, and what a device would refuse to launch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tirlower.diagnostics import InterpreterError
from tirlower.interp.interleave import Interleaver
from tirlower.interp.races import RaceDetector
from tirlower.interp.scope import WAITING_OPS, Frame, Place, State
from tirlower.interp.threads import is_virtual
from tirlower.ir.expr import Call
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import For, ForKind, Stmt, While

__all__ = ["Launching", "Limits", "count_shared", "has_inner_axis", "polls_memory", "schedule_of"]


class Limits(NamedTuple):
    """What a device gives a block; None where nothing is checked.

    ``static_bytes`` are of the scope ``shared``, ``shared_bytes`` of that and ``shared.dyn`` together.
    """

    threads: int | None = None
    static_bytes: int | None = None
    shared_bytes: int | None = None


@dataclass(frozen=True)
class Launching:
    """How the threads of one axis run.

    ``innermost`` says that no other axis is inside; ``schedule`` how the threads of a block take turns: in
    ``"lockstep"``; as the interleaver decides, ``"threads"`` each on its own or ``"warps"`` each in lockstep; or
    ``"alone"`` one after another, since they meet nowhere. ``launched`` has the extents that a launch stated, while
    there is one. ``private`` are the slots (of the pointer, and of the views) of memory that each thread has for itself, or
    (True) the lanes along ``threadIdx.x`` for themselves, though it was allocated outside of the loop over them.
    """

    interleaver: Interleaver
    detector: RaceDetector | None
    innermost: bool
    schedule: str
    max_threads: int | None
    launched: dict[str, int]
    private: tuple[tuple[int, tuple[int, ...], bool], ...] = ()


def schedule_of(stmt: For, seed: int | None) -> str:
    """How the threads of a kernel take turns: in step where that can be, each alone under a seed or to poll memory.

    Where threads wait for barrier objects, warps take turns, each in step.
    """
    if seed is not None or polls_memory(stmt):
        return "threads"
    return "warps" if _waits(stmt) else "lockstep"


def count_shared(frame: Frame, key: tuple[str, int], size: int, limits: Limits, place: Place) -> None:
    """Refuse a block that has more shared memory than the device gives it; each allocation counts once."""
    state: State = frame[0]
    # Memory in front of the loops over threads belongs to whatever block follows: it counts alone.
    counted: dict[tuple[str, int], int] = {}
    if state.group is not None:
        counted = state.group.block.shared.setdefault(count_shared, counted)
    counted[key] = max(size, counted.get(key, 0))
    static = sum(number for (scope, _), number in counted.items() if scope == "shared")
    total = sum(counted.values())
    for number, most, kind in ((static, limits.static_bytes, "static shared"), (total, limits.shared_bytes, "shared")):
        if most is not None and number > most:
            raise InterpreterError(
                f"a block has {number} bytes of {kind} memory, and the device gives it {most}",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
                help="use smaller tiles, the scope 'shared.dyn' for more than the static limit, or let "
                "MergeSharedMemoryAllocations share what is not live together",
            )


def has_inner_axis(stmt: For, around: set[str | None]) -> bool:
    """Whether a loop over threads holds one over another axis: its frames are not yet the threads of a block."""
    found = False

    def look(op: Node) -> None:
        nonlocal found
        if op.__class__ is For and op.kind is ForKind.THREAD_BINDING:
            found = found or op.thread_tag not in around or is_virtual(str(op.thread_tag))

    pre_order_visit(stmt.body, look)
    return found


def _calls(stmt: Stmt, wanted: Callable[[Call], bool]) -> bool:
    """Whether a call of some kind is anywhere in a statement."""
    found = False

    def look(op: Node) -> None:
        nonlocal found
        found = found or (op.__class__ is Call and wanted(op))

    pre_order_visit(stmt, look)
    return found


def _waits(stmt: Stmt) -> bool:
    return _calls(stmt, lambda call: isinstance(call.op, Op) and call.op.name in WAITING_OPS)


def polls_memory(stmt: Stmt) -> bool:
    """Whether a loop turns until another thread has changed memory: a ``while`` with an atomic in it."""
    found = False

    def look(op: Node) -> None:
        nonlocal found
        found = found or (op.__class__ is While and _calls(op, _is_atomic))

    pre_order_visit(stmt, look)
    return found


def _is_atomic(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name.startswith("tir.atomic_")
