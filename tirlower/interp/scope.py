"""Frames, and what is known about names while a function is compiled to closures.

A *frame* is a list: slot 0 holds the state of the activation or thread, the others the values of variables, the
pointers of data variables, the views of declared buffers and a few hidden values. A *team* is a list of frames that
execute in lockstep: one for ordinary code, one for each lane of a vectorized loop or each thread of a GPU block.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tirlower.diagnostics import InterpreterError, Span, UnboundError
from tirlower.interp.values import Datum, Fault
from tirlower.ir.buffer import Buffer, CommReducer
from tirlower.ir.expr import And, Call, Expr, Let, Or, Var
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.interp.clocks import Clock
    from tirlower.interp.memory import Memory

__all__ = [
    "WAITING_OPS",
    "Collective",
    "Frame",
    "Loops",
    "Place",
    "Scope",
    "State",
    "Team",
    "ThreadGroup",
    "Value",
    "Way",
    "shared_nodes",
    "ways_into",
]

Frame = list[Datum]
Team = list[Frame]
Named = TypeVar("Named")
Kept = TypeVar("Kept")
Value = Callable[[Frame], Datum]
"""A compiled expression."""

WAITING_OPS = frozenset({"tir.ptx_wait_barrier"})
"""The operations at which a thread waits for what others do, without meeting them."""


class ThreadGroup:
    """The threads that share memory and barriers: the forked frames of one block of one virtual thread.

    ``block`` is the group itself, or the group of which this is the part of a virtual thread; ``live`` counts the
    frames of a block that have not returned. ``memories`` holds the shared memory of each allocation, and ``shared``
    what else the threads share (barriers with a state), each under its maker's own keys.
    """

    __slots__ = ("block", "live", "memories", "shared")

    def __init__(self, block: ThreadGroup | None = None) -> None:
        self.block = block or self
        self.live = 0
        self.memories: dict[object, Memory] = {}
        self.shared: dict[object, Datum] = {}


class State:
    """What a frame knows apart from values: why it stopped, and which thread it is.

    ``signal`` is None, ``"break"``, ``"continue"`` or ``"return"``; ``threads`` maps thread tags to indices and
    ``extents`` to the number of threads. ``own`` holds what belongs to the thread besides its variables (copies on
    their way); ``clock`` is what a race detector knows about it.
    """

    __slots__ = ("_linear", "clock", "extents", "group", "own", "result", "signal", "threads")

    def __init__(
        self,
        threads: dict[str, int] | None = None,
        extents: dict[str, int] | None = None,
        group: ThreadGroup | None = None,
    ) -> None:
        self.signal: str | None = None
        self.result: Datum = None
        self.threads = threads or {}
        self.extents = extents or {}
        self.group = group
        self.own: dict[object, Datum] = {}
        self.clock: Clock | None = None
        self._linear = -1

    def lane(self) -> State:
        """The state of a lane of a vectorized loop in this thread, or of this activation."""
        made = State(self.threads, self.extents, self.group)
        made.own, made.clock = self.own, self.clock
        return made

    def linear_thread(self) -> int:
        """The index of the thread in its block, ``threadIdx.x`` fastest."""
        if self._linear < 0:
            index, step = 0, 1
            for axis in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
                index += self.threads.get(axis, 0) * step
                step *= self.extents.get(axis, 1)
            self._linear = index
        return self._linear


class Loops(NamedTuple):
    """The loop variables around a place, innermost first: a linked list, so that nesting costs nothing."""

    outer: Loops | None
    name: str
    slot: int


class Place(NamedTuple):
    """Where something stands: its span, and the loops around it."""

    span: Span | None
    loops: Loops | None

    def notes(self, frame: Frame) -> list[str]:
        """The values of the loop variables, outermost first, as one note."""
        values: list[str] = []
        seen: set[str] = set()
        loops = self.loops
        while loops is not None:
            if loops.name not in seen and frame[loops.slot] is not None:
                values.append(f"{loops.name} = {frame[loops.slot]}")
            seen.add(loops.name)
            loops = loops.outer
        values.reverse()
        state: State = frame[0]
        values += [f"{tag} = {index}" for tag, index in state.threads.items() if index is not None]
        return ["at " + ", ".join(values)] if values else []

    def error(self, fault: Fault, frame: Frame) -> InterpreterError:
        """The public error for a fault that happened here."""
        kind = UnboundError if fault.undefined else InterpreterError
        return kind(str(fault), origin="interpret", span=self.span, notes=self.notes(frame))


class Collective(NamedTuple):
    """A call that the threads of a team make together; ``run`` leaves each frame's result in ``slot``.

    ``of_block`` says that it is a barrier, which all threads of a block have to reach. With ``ready`` it is no meeting
    but a wait of each thread by itself: it is run for the threads for which ``ready`` holds, the others stay;
    ``describe`` says what a thread waits for. ``size`` threads with consecutive numbers make a call at least. ``reached``
    tells of a frame whether it comes to the call, where that stands in an arm of a choice or behind ``and`` or ``or``.
    """

    run: Callable[[Team], None]
    slot: int
    of_block: bool = False
    ready: Callable[[Frame], bool] | None = None
    place: Place | None = None
    describe: Callable[[Frame], str] | None = None
    size: int = 32
    reached: Callable[[Frame], bool] | None = None


class Scope:
    """Slots of variables and buffers while compiling, with an undo log for the ends of scopes.

    ``data`` are the integer variables that are no indices, ``beyond`` the indices that may be past what their type holds.
    """

    def __init__(self) -> None:
        self.width = 1
        self.slots: dict[Var, int] = {}
        self.data: set[Var] = set()
        self.beyond: set[Expr] = set()
        self.views: dict[Buffer, int] = {}
        self.tags: dict[Var, str] = {}
        self.loops: Loops | None = None
        self.collectives: list[Collective] = []
        self.reducers: list[CommReducer] = []
        self.schedule = "lockstep"
        self.in_thread = False
        self.meets = False
        self._log: list[Callable[[], None]] = []

    def hidden(self) -> int:
        """A slot for a value without a name."""
        self.width += 1
        return self.width - 1

    def define(self, var: Var) -> int:
        """A slot for a variable, until the end of the scope."""
        slot = self.hidden()
        self._set(self.slots, var, slot)
        return slot

    def declare(self, buffer: Buffer) -> int:
        """A slot for the view of a buffer, until the end of the scope."""
        slot = self.hidden()
        self._set(self.views, buffer, slot)
        return slot

    def define_loop(self, var: Var) -> int:
        """A slot for a variable whose value belongs in messages."""
        slot = self.define(var)
        self.loops = Loops(self.loops, var.name, slot)
        return slot

    def tag(self, var: Var, tag: str) -> None:
        """Note that a variable is the index of a thread axis."""
        self._set(self.tags, var, tag)

    def _set(self, table: dict[Named, Kept], key: Named, value: Kept) -> None:
        old = table.get(key)
        self._log.append(partial(table.__delitem__, key) if old is None else partial(table.__setitem__, key, old))
        table[key] = value

    def mark(self) -> tuple[int, Loops | None]:
        """The state to return to with :meth:`leave`."""
        return len(self._log), self.loops

    def leave(self, mark: tuple[int, Loops | None]) -> None:
        """End a scope: what it defined is gone, what it hid is visible again."""
        size, self.loops = mark
        while len(self._log) > size:
            self._log.pop()()

    def place(self, span: Span | None) -> Place:
        """A place for messages."""
        return Place(span, self.loops)

    def variable(self, var: Var, span: Span | None = None) -> Value:
        """The value of a variable. Raises InterpreterError when none of that identity is in scope."""
        slot = self.slots.get(var)
        if slot is None:
            same = [v.name for v in self.slots if v.name == var.name]
            raise InterpreterError(
                f"the variable {var.name!r} ({var.dtype!s}) is not defined here",
                origin="interpret",
                span=span,
                help="another variable of this name is in scope" if same else "bind it, or make it a parameter",
            )
        return operator.itemgetter(slot)


def shared_nodes(
    root: Expr, operands: Callable[[Expr], tuple[Expr, ...]]
) -> Iterator[tuple[Expr, tuple[Expr, ...], bool]]:
    """The distinct nodes of an expression, operands first, with their operands and whether several nodes use them."""
    uses: dict[int, int] = {}
    order: list[tuple[Expr, tuple[Expr, ...]]] = []
    stack: list[tuple[Expr, tuple[Expr, ...] | None]] = [(root, None)]
    while stack:
        node, children = stack.pop()
        if children is not None:
            order.append((node, children))
            continue
        count = uses.get(id(node), 0)
        uses[id(node)] = count + 1
        if count:
            continue
        children = operands(node)
        if children:
            stack.append((node, children))
            stack += [(child, None) for child in reversed(children)]
        else:
            order.append((node, children))
    for node, children in order:
        yield node, children, uses[id(node)] > 1


_CHOICE = Op.get("tir.if_then_else")

Way = tuple[tuple[Expr, bool], ...]
"""Conditions, and whether each has to hold, for a part of an expression to be evaluated."""


def ways_into(root: Expr, wanted: Collection[int], repeatable: Callable[[Expr], bool]) -> dict[int, list[Way]]:
    """The ways in which evaluation comes to the nodes of ``wanted`` (by identity), through the arms of scalar choices.

    A condition that is not ``repeatable`` is left out, as are those inside of a let.
    """
    found: dict[int, list[Way]] = {}
    stack: list[tuple[Expr, Way, bool]] = [(root, (), True)]
    seen: set[tuple[int, Way]] = set()
    while stack:
        node, way, known = stack.pop()
        if (id(node), way) in seen:
            continue
        seen.add((id(node), way))
        if id(node) in wanted:
            found.setdefault(id(node), []).append(way)
        known = known and not isinstance(node, Let)
        if isinstance(node, (And, Or)) and node.dtype.is_scalar:
            first: Way = ((node.a, isinstance(node, And)),) if known and repeatable(node.a) else ()
            stack += [(node.a, way, known), (node.b, way + first, known)]
        elif isinstance(node, Call) and node.op is _CHOICE and node.args[0].dtype.is_scalar:
            condition, then, other = node.args
            stack.append((condition, way, known))
            for arm, holds in ((then, True), (other, False)):
                more: Way = ((condition, holds),) if known and repeatable(condition) else ()
                stack.append((arm, way + more, known))
        else:
            stack += [(child, way, known) for child in node.children()]
    return found
