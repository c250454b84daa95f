"""Data races: two threads touch one byte, at least one of them writes, and nothing orders the two.

Every element that threads touch remembers its last writer and the readers and atomic updates since. An access is
compared with them by what its thread knows to be over (:mod:`tirlower.interp.clocks`): all that came before a barrier
at which both threads were, a released and acquired atomic, a barrier object on which one arrived and for which the
other waited. An asynchronous copy is an actor of its own, which the threads know to be over only once they have waited
for it. Since what a thread knows depends on its barriers and not on the order of a run, one run in any order finds the
races of all orders that take the same branches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tirlower.diagnostics import InterpreterError, Label
from tirlower.interp.access import Access
from tirlower.interp.clocks import Agent, BlockClocks, Clock, Meeting, Stream, meet
from tirlower.interp.memory import Memory, OutsideMemory, Pointer, UnwrittenMemory, View
from tirlower.interp.proxies import Fences
from tirlower.interp.scope import Frame, Place, State, Team, Value
from tirlower.interp.values import Datum, lane_values
from tirlower.ir.dtype import DataType

__all__ = ["RaceDetector", "WatchedAccess", "touch_atomic"]

_WARP_SIZE = 32
_BLOCKS = ("blockIdx", "clusterIdx", "clusterCtaIdx")
_KEPT_BLOCKS = 64
"""Blocks run one after another, so few of them have threads that are still to come."""


class _Mark:
    """One access of an element: who made it, where it stands, and (with a view) which element it is."""

    __slots__ = (
        "actor", "alike", "atomic", "era", "over_for", "place", "position", "same", "text", "time", "view", "write"
    )  # fmt: skip

    def __init__(
        self, actor: Clock | Agent, write: bool, place: Place, text: str, view: View | None, position: int,
        atomic: str | None,
    ) -> None:  # fmt: skip
        self.actor = actor
        self.time = actor.time
        self.era = actor.block.era
        self.write = write
        self.place = place
        self.text = text
        self.view = view
        self.position = position
        self.atomic = atomic
        self.same = False
        """A write that left what was there."""
        self.alike: list[_Mark] = []
        """Writes before it, of other threads at the same place, that left the same and are over for nobody yet."""
        self.over_for: list[int] | None = None
        """What threads know (:attr:`Clock.base`) for whom all of those are over."""

    def again(self) -> _Mark:
        """The same access, of another element."""
        made = _Mark(self.actor, self.write, self.place, self.text, self.view, self.position, self.atomic)
        made.same = self.same
        return made

    def __str__(self) -> str:
        view = self.view
        if view is None:
            return self.text
        left = (self.position - view.start) // view.lanes
        found = [0] * len(view.shape)
        # The widest stride first, as the element lies in a compact layout.
        for axis in sorted(range(len(view.shape)), key=lambda axis: -view.strides[axis]):
            if view.strides[axis] > 0:
                found[axis] = min(left // view.strides[axis], view.shape[axis] - 1)
                left -= found[axis] * view.strides[axis]
        return f"{self.text}[{', '.join(map(str, found))}]"


class _Cell:
    """What is known about one element."""

    __slots__ = ("before", "reads", "updates", "write")

    def __init__(self) -> None:
        self.write: _Mark | None = None
        self.reads: dict[Hashable, _Mark] = {}
        self.before: dict[Hashable, _Mark] = {}
        """Reads in front of the last write: what writes the same at once races with them, and not with it."""
        self.updates: dict[Hashable, _Mark] = {}

    def copy(self) -> _Cell:
        """The same for a part of the element."""
        made = _Cell()
        made.write, made.reads, made.updates = self.write, dict(self.reads), dict(self.updates)
        made.before = dict(self.before)
        return made


class Shadow:
    """The cells of one memory, in units of the smallest access so far."""

    __slots__ = ("cells", "kernel", "unit")

    def __init__(self, kernel: object, unit: int) -> None:
        self.kernel = kernel
        self.unit = unit
        self.cells: dict[int, _Cell] = {}

    def refine(self, unit: int) -> None:
        """Make the unit smaller."""
        parts = self.unit // unit
        self.cells = {at * parts + i: cell.copy() for at, cell in self.cells.items() for i in range(parts)}
        self.unit = unit

    def covering(self, start: int, size: int) -> range:
        """The cells of some bytes."""
        while start % self.unit or size % self.unit:
            self.refine(self.unit // 2)
        return range(start // self.unit, (start + size) // self.unit)


class RaceDetector:
    """Watches the accesses of one run, and what orders them."""

    def __init__(self) -> None:
        self._kernel = object()
        self._blocks: dict[tuple[int, ...], BlockClocks] = {}
        self._meetings: dict[Hashable, Meeting] = {}
        self._fences: dict[BlockClocks, Fences] = {}

    def begin(self) -> None:
        """A kernel starts or ends: all before is ordered before all after."""
        self._kernel = object()
        self._blocks.clear()
        self._meetings.clear()
        self._fences.clear()

    def enter(self, team: Team) -> None:
        """Frames have become threads, or blocks: give each its clock, the one it had if it comes back.

        A thread comes with the clock of what it was forked from.
        """
        for frame in team:
            state: State = frame[0]
            outer = tuple([index for tag, index in state.threads.items() if tag.startswith(_BLOCKS)])
            inner = [item for item in state.threads.items() if not item[0].startswith(_BLOCKS)]
            block = self._blocks.get(outer)
            if block is None:
                if len(self._blocks) >= _KEPT_BLOCKS:
                    del self._blocks[next(iter(self._blocks))]
                block = self._blocks[outer] = BlockClocks(outer)
            axes, parent = frozenset(inner), state.clock
            clock = block.clocks.get(axes)
            if clock is None:
                clock = block.clocks[axes] = Clock(block, axes, state.threads)
                if parent is not None and parent.block is block:
                    parent.forks.append(clock)
            if parent is not None and parent.block is block and parent is not clock:
                clock.inherit(parent)
            state.clock = clock

    # ------------------------------------------------------------ what orders

    def barrier(self, scope: str, team: Team) -> None:
        """The threads of a team (of one block) meet; with the scope ``warp``, those of each warp among them.

        With threads meet those that have forked from them; at a barrier of a block all that forks in it.
        """
        parts: dict[object, dict[int, Clock]] = {}
        for frame in team:
            state: State = frame[0]
            if state.clock is not None:
                warp = state.linear_thread() // _WARP_SIZE if scope == "warp" else None
                parts.setdefault((state.clock.block, warp), {})[id(state.clock)] = state.clock
        for part in parts.values():
            clocks = list(part.values())
            if len(clocks[0].block.clocks) > len(clocks):
                more = _forked_from(clocks) if scope == "warp" else clocks[0].block.clocks.values()
                clocks += [clock for clock in more if id(clock) not in part]
            meet(clocks)
            if scope == "global":
                clocks[0].block.era += 1

    def release(self, frame: Frame, key: Hashable) -> None:
        """All that the thread has done is before what follows an :meth:`acquire` of the key."""
        clock = frame[0].clock
        if clock is not None:
            self._meetings.setdefault(key, Meeting()).release(clock)

    def acquire(self, frame: Frame, key: Hashable) -> None:
        """All that was released into a key is over for the thread."""
        clock, found = frame[0].clock, self._meetings.get(key)
        if clock is not None and found is not None:
            found.acquire(clock)

    # ------------------------------------------------------------ asynchronous operations

    def issue(
        self, frame: Frame, stream: Hashable, what: str = "an asynchronous copy", *, of_block: bool = False,
        engine: bool = False,
    ) -> Agent | None:  # fmt: skip
        """An asynchronous operation starts; those of one stream of a thread, or of the block, end in this order.

        ``engine``: it goes to memory the other way than threads do (:mod:`tirlower.interp.proxies`).
        """
        clock: Clock | None = frame[0].clock
        if clock is None:
            return None
        key = stream if of_block else (clock, stream)
        streams = clock.block.streams
        found = streams.get(key)
        if found is None:
            found = streams[key] = Stream(clock.block.new_slot())
        return Agent(clock, found, what, engine)

    def finish(self, frame: Frame, agent: Agent | None) -> None:
        """The thread has waited for the end of an operation, and so for those before it in its stream."""
        clock = frame[0].clock
        if agent is not None and clock is not None:
            clock.extra[agent.slot] = max(clock.extra.get(agent.slot, 0), agent.time)

    def finish_into(self, key: Hashable, agent: Agent | None) -> None:
        """The end of an operation, and of those before it in its stream, is over for who acquires the key."""
        if agent is not None:
            self._meetings.setdefault(key, Meeting()).release_end(agent)

    def fence(self, frame: Frame) -> None:
        """What the thread knows to be written may be read by copy engines and tensor cores (:mod:`.proxies`)."""
        clock = frame[0].clock
        if clock is not None:
            self._fences.setdefault(clock.block, Fences()).fence(clock)

    def read_by_engine(
        self, memory: Memory, start: int, size: int, agent: Agent | None, text: str, place: Place
    ) -> None:
        """An asynchronous operation reads shared memory: what threads wrote there must be behind a fence.

        Raises InterpreterError with the write and the operation where no fence stands between them.
        """
        shadow = memory.shadow
        if agent is None or shadow is None or shadow.kernel is not self._kernel:
            return
        fences = self._fences.get(agent.block)
        seen: tuple[object, int] | None = None
        for at in range(start // shadow.unit, -(-(start + size) // shadow.unit)):
            cell = shadow.cells.get(at)
            last = cell.write if cell is not None else None
            if last is None or last.actor.block is not agent.block or (last.actor, last.time) == seen:
                continue
            if isinstance(last.actor, Agent) and last.actor.engine:
                continue
            if fences is None or not fences.covers(last.actor, last.time, agent):
                self._refuse_unfenced(last, _Mark(agent, False, place, text, None, 0, None), memory)
            seen = (last.actor, last.time)

    @staticmethod
    def _refuse_unfenced(write: _Mark, read: _Mark, memory: Memory) -> None:
        raise InterpreterError(
            f"no fence on {memory.name!r}: {write.actor.who} writes {write} and {read.actor.who} reads {read}, which sees "
            "what threads write only behind a fence",
            origin="interpret",
            labels=[
                Label(mark.place.span, f"{mark.actor.who} {action} here", primary=mark is read)
                for mark, action in ((write, "writes"), (read, "reads"))
                if mark.place.span is not None
            ],
            help=f"call ptx_fence_proxy_async() behind the writes of {memory.name!r}, before the barrier that ends them",
        )

    # ------------------------------------------------------------ accesses

    def touch(
        self, frame: Frame, memory: Memory, start: int, size: int, write: bool, text: str, place: Place,
        *, atomic: str | None = None, agent: Agent | None = None,
    ) -> None:  # fmt: skip
        """Note an access of some bytes, by the thread or by an asynchronous operation that it starts.

        Raises InterpreterError with both accesses where it races with an earlier one.
        """
        actor = frame[0].clock if agent is None else agent
        if actor is not None and size > 0:
            self.note(memory, start, size, _Mark(actor, write, place, text, None, 0, atomic))

    def note(self, memory: Memory, start: int, size: int, mark: _Mark) -> None:
        """What :meth:`touch` does, for an access that is told already."""
        memory, start = memory.place(start)
        shadow = memory.shadow
        if memory.private and shadow is None and isinstance(mark.actor, Clock):
            return  # what a thread has to itself is of interest once a copy or product of it goes on by itself
        if shadow is None or shadow.kernel is not self._kernel:
            shadow = memory.shadow = Shadow(self._kernel, size & -size)
        actor, write = mark.actor, mark.write
        cells = shadow.cells
        if start % shadow.unit == 0 and size == shadow.unit:
            span = range(start // size, start // size + 1)
        else:
            span = shadow.covering(start, size)
            cells = shadow.cells
        for at in span:
            cell = cells.get(at)
            if cell is None:
                cell = cells[at] = _Cell()
            last = cell.write
            alike: list[_Mark] = []
            if last is not None and (last.alike or (last.actor is not actor and not _over(last, actor))):
                alike = self._behind_writes(last, mark, memory)
                if write and alike:
                    mark = mark.again()
                    mark.alike = alike
            if cell.updates:
                self._against(cell.updates, mark, memory)
            if write:
                if cell.reads:
                    self._against(cell.reads, mark, memory)
                if alike and cell.before:
                    self._against(cell.before, mark, memory)
                if mark.atomic is not None:
                    cell.updates[actor.key] = mark
                else:
                    again = alike or (last is not None and last.actor is actor)
                    if cell.reads:
                        cell.before = {**cell.before, **cell.reads} if again else cell.reads
                        cell.reads = {}
                    elif cell.before and not again:
                        cell.before = {}
                    cell.write = mark
                    if cell.updates:
                        cell.updates = {}
            else:
                reads = cell.reads
                if len(reads) == 1:
                    # A read that is over for this one need not be remembered beside it.
                    (only,) = reads.values()
                    if only.actor is not actor and _over(only, actor):
                        reads.clear()
                reads[actor.key] = mark

    def _behind_writes(self, last: _Mark, mark: _Mark, memory: Memory) -> list[_Mark]:
        """Refuse an access that races with the last write, or with one that wrote the same at once.

        Equal writes at one place race with nothing: what stands outside of the thread loops of a block is done by all its
        threads alike, to one effect. Those that stay unordered with this write are returned.
        """
        actor, earlier = mark.actor, last.alike
        if earlier and isinstance(actor, Clock) and not actor.extra and actor.base is last.over_for:
            return []
        left: list[_Mark] = []
        covered = isinstance(actor, Clock)
        for other in (*earlier, last):
            known = actor.base
            covered = covered and other.actor.slot < len(known) and known[other.actor.slot] >= other.time
            covered = covered and other.actor.block is actor.block
            if other.actor is actor or _over(other, actor):
                continue
            if not (mark.same and other.place is mark.place and other.actor.block is actor.block):
                self._refuse(other, mark, memory)
            left.append(other)
            if other is last and isinstance(last.actor, Clock) and last.actor.base is actor.base and earlier:
                return [*earlier, last]
        last.over_for = actor.base if covered else last.over_for
        return left

    def _against(self, earlier: dict[Hashable, _Mark], mark: _Mark, memory: Memory) -> None:
        for other in earlier.values():
            if other.actor is mark.actor or _over(other, mark.actor):
                continue
            if other.atomic is not None and mark.atomic is not None:
                # An atomic of the scope of its block is none for other blocks.
                near = "block" in (other.atomic, mark.atomic)
                if not near or other.actor.block is mark.actor.block:
                    continue
            self._refuse(other, mark, memory)

    @staticmethod
    def _refuse(first: _Mark, second: _Mark, memory: Memory) -> None:
        actions = ["writes" if mark.write else "reads" for mark in (first, second)]
        copies = [mark.actor for mark in (first, second) if isinstance(mark.actor, Agent)]
        one = first.actor.issuer is second.actor.issuer
        missing, remedy = (
            "no barrier in between",
            "put a barrier between the two accesses, as ThreadSync does, or let one thread do both",
        )
        if copies:
            missing = "no wait for its end" if one else "no wait for its end and no barrier in between"
            if isinstance(second.actor, Agent) and not isinstance(first.actor, Agent):
                missing = "no barrier in between"
            remedy = "wait for the group or the barrier object of the asynchronous operation" + (
                "" if one else ", and put a barrier behind the wait"
            )
        raise InterpreterError(
            f"a data race on {memory.name!r}: {first.actor.who} {actions[0]} {first} and "
            f"{second.actor.who} {actions[1]} {second}, with {missing}",
            origin="interpret",
            labels=[
                Label(mark.place.span, f"{mark.actor.who} {action} here", primary=mark is second)
                for mark, action in zip((first, second), actions, strict=True)
                if mark.place.span is not None
            ],
            help=remedy,
        )


def _over(mark: _Mark, actor: Clock | Agent) -> bool:
    """Whether an access is over for an actor that comes later in this run."""
    other = mark.actor
    if other is actor.issuer or mark.era != actor.block.era:
        return True
    if actor.reached(other.block, other.slot) >= mark.time:
        return True
    # Work outside of the loops of the threads that fork from it is done before or behind them.
    return other.block is actor.block and (other.axes < actor.axes or actor.axes < other.axes)


def _forked_from(clocks: list[Clock]) -> list[Clock]:
    """The clocks of all that has forked from some threads."""
    found: list[Clock] = []
    stack = [fork for clock in clocks for fork in clock.forks]
    while stack:
        clock = stack.pop()
        found.append(clock)
        stack += clock.forks
    return found


def _bytes_of(view: View, position: int) -> bytes:
    start, size = view.span(position)
    return view.memory.raw[start : start + size].tobytes()


class WatchedAccess(Access):
    """An access that is reported to a race detector."""

    __slots__ = ("detector",)

    detector: RaceDetector

    def load(self, vector: bool) -> Value:
        """The compiled load."""
        if vector or self.predicate is not None:

            def load_lanes(frame: Frame) -> Datum:
                view, found = self.positions(frame)
                self._note_lanes(frame, view, found, False)
                lanes = self._load_lanes(frame)
                return lanes if vector else lanes[0]

            return load_lanes
        locate, note, refuse = self.locate(), self._note, self._refuse

        def load(frame: Frame) -> Datum:
            view, position = locate(frame)
            note(frame, view, position, False)
            try:
                return view.get(position)
            except (OutsideMemory, UnwrittenMemory) as error:
                refuse(frame, view, error)

        return load

    def store(self, value: Value, vector: bool) -> Callable[[Team], None]:
        """The compiled store."""
        if vector or self.predicate is not None:

            def store_lanes(team: Team) -> None:
                pending = [(frame, *self.positions(frame), value(frame)) for frame in team]
                for frame, view, found, lanes in pending:
                    old = [b"" if at is None else _bytes_of(view, at) for at in found]
                    self._commit(frame, view, found, lane_values(lanes))
                    for at, before in zip(found, old, strict=True):
                        if at is not None:
                            self._note(frame, view, at, True, before)

            return store_lanes
        locate, note = self.locate(), self._note

        def store(team: Team) -> None:
            pending = [(frame, *locate(frame), value(frame)) for frame in team]
            for frame, view, position, scalar in pending:
                before = _bytes_of(view, position)
                self._commit(frame, view, [position], (scalar,))
                note(frame, view, position, True, before)

        return store

    def _note(self, frame: Frame, view: View, position: int, write: bool, before: bytes | None = None) -> None:
        clock = frame[0].clock
        if clock is None or (view.memory.private and view.memory.shadow is None):
            return
        start, size = view.span(position)
        mark = _Mark(clock, write, self.place, self.buffer.name, view, position, None)
        mark.same = before is not None and before == _bytes_of(view, position)
        self.detector.note(view.memory, start, size, mark)

    def _note_lanes(self, frame: Frame, view: View, found: list[int | None], write: bool) -> None:
        for position in found:
            if position is not None:
                self._note(frame, view, position, write)


def touch_atomic(
    detector: RaceDetector | None, frame: Frame, pointer: Pointer, kind: DataType, place: Place,
    *, order: str = "relaxed", scope: str = "device",
) -> None:  # fmt: skip
    """Note an atomic update through a pointer, with what its order acquires and releases."""
    if detector is None:
        return
    memory, clock = pointer.memory, frame[0].clock
    # An atomic of the scope of its block orders nothing for other blocks.
    near = clock.block if scope == "block" and clock is not None else None
    whole, begin = memory.place(pointer.offset)
    key = (id(whole), begin, near)
    if order in ("acquire", "acq_rel"):
        detector.acquire(frame, key)
    size = -(-kind.bits // 8)
    text = f"{memory.name} (atomically)"
    detector.touch(frame, memory, pointer.offset, size, True, text, place, atomic=scope)
    if order in ("release", "acq_rel"):
        detector.release(frame, key)
