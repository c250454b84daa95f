"""GPU threads: how frames fork into the threads of a block, and what they do together.

The threads of a block run in lockstep: each statement runs for every thread before the next one begins, which is one
of the orders that the hardware may take. A program whose threads only meet through barriers computes the same in all
of them; a program with a race, or without a needed barrier, computes something here. Other orders are those of
:mod:`tirlower.interp.interleave`, and :mod:`tirlower.interp.races` reports races. Blocks run one after another.

A call that threads make together (a shuffle, a vote, a reduction) is evaluated for the team before the statement in
which it stands; it then finds its result in its frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.memory import Pointer
from tirlower.interp.scope import Collective, Frame, Place, State, Team, ThreadGroup, Value
from tirlower.interp.values import Datum, Fault
from tirlower.ir.buffer import CommReducer
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var

__all__ = [
    "WARP_SIZE",
    "collective",
    "count_live",
    "fork_threads",
    "give_own_memory",
    "is_block_axis",
    "is_virtual",
    "take_own_memory",
    "together",
    "waiting",
]

WARP_SIZE = 32


def is_block_axis(tag: str) -> bool:
    """Whether an axis counts blocks, which share nothing: they run one after another."""
    return tag.startswith(("blockIdx", "clusterIdx", "clusterCtaIdx"))


def is_virtual(tag: str) -> bool:
    """Whether an axis is one of virtual threads."""
    return tag.startswith(("vthread", "cthread"))


def fork_threads(team: Team, slot: int, tag: str, indices: list[range]) -> list[Team]:
    """For each frame of a team, the frames of the threads of one axis: copies with their index in ``slot``.

    Threads share the group of the frame they come from; a virtual thread is a group of its own within the block.
    """
    parts: dict[tuple[int, int], ThreadGroup] = {}
    forked: list[Team] = []
    for frame, span in zip(team, indices, strict=True):
        state: State = frame[0]
        home = state.group or ThreadGroup()
        threads: Team = []
        for index in span:
            group = home
            if is_virtual(tag):
                group = parts.setdefault((id(home), index), ThreadGroup(home.block))
            extents = {**state.extents, tag: len(span)}
            thread = frame.copy()
            thread[0] = State({**state.threads, tag: index - span.start}, extents, group)
            thread[0].clock = state.clock
            thread[slot] = index
            threads.append(thread)
        forked.append(threads)
    return forked


def give_own_memory(frame: Frame, threads: Team, private: Sequence[tuple[int, tuple[int, ...], bool]]) -> None:
    """Give threads that were forked from a frame each their own memory of what only one thread sees, or (by the third of
    each) the lanes along ``threadIdx.x`` alone."""
    for data, views, of_lanes in private:
        pointer = frame[data]
        if pointer is None or not threads:
            continue
        keys: list[object] = [
            tuple((tag, at) for tag, at in thread[0].threads.items() if not (of_lanes and tag == "threadIdx.x"))
            for thread in threads
        ]
        for thread, memory in zip(threads, pointer.memory.of_threads(keys, alone=not of_lanes), strict=True):
            thread[data] = Pointer(memory, pointer.offset)
            for view in views:
                if thread[view] is not None:
                    thread[view] = thread[view].on(memory)


def take_own_memory(frame: Frame, threads: Team, private: Sequence[tuple[int, tuple[int, ...], bool]]) -> None:
    """Behind a loop over threads, what one thread sees is what the first one left."""
    for data, *_ in private:
        if frame[data] is not None and threads:
            frame[data].memory.leave_as(threads[0][data].memory)


def count_live(team: Team) -> dict[ThreadGroup, int]:
    """Set the number of live threads of each block to those of a freshly forked team; the numbers before."""
    before = {frame[0].group.block: frame[0].group.block.live for frame in team}
    for block in before:
        block.live = 0
    for frame in team:
        frame[0].group.block.live += 1
    return before


def _by_block(team: Team) -> dict[ThreadGroup | None, Team]:
    blocks: dict[ThreadGroup | None, Team] = {}
    for frame in team:
        group = frame[0].group
        blocks.setdefault(None if group is None else group.block, []).append(frame)
    return blocks


def _by_warp(team: Team, size: int = WARP_SIZE) -> dict[object, dict[int, Frame]]:
    """The frames of each warp (or other run of ``size`` threads) by lane."""
    warps: dict[object, dict[int, Frame]] = {}
    for frame in team:
        state: State = frame[0]
        linear = state.linear_thread()
        warps.setdefault((id(state.group), linear // size), {})[linear % size] = frame
    return warps


def collective(
    compiler: ExpressionCompiler, run: Callable[[Team, int], None], of_block: bool = False, size: int = WARP_SIZE
) -> Value:
    """The value of a call that a team makes together: ``run`` leaves it in a slot of each frame beforehand."""
    slot = compiler.hidden()
    compiler.collectives.append(Collective(lambda team: run(team, slot), slot, of_block, size=size))
    return lambda frame: frame[slot]


def together(
    compiler: ExpressionCompiler, call: Call, work: Callable[[list[Frame]], None], size: int = WARP_SIZE
) -> Value:
    """A call that whole warps (or warpgroups) make: ``work`` gets the frames of each in the order of its lanes.

    Raises InterpreterError when the call is run, if a lane is missing.
    """
    place = compiler.place(call.span)
    name = str(call.op.name).removeprefix("tir.")

    def run(team: Team, slot: int) -> None:
        for lanes in _by_warp(team, size).values():
            first = next(iter(lanes.values()))
            if len(lanes) != size:
                raise InterpreterError(
                    f"{name} is made by {len(lanes)} of the {size} threads that make it together",
                    origin="interpret",
                    span=place.span,
                    notes=place.notes(first),
                    help="move the call out of the condition that the other threads do not take, "
                    f"and start a multiple of {size} threads",
                )
            for frame in lanes.values():
                frame[slot] = 0
            try:
                work([lanes[lane] for lane in range(size)])
            except Fault as fault:
                raise place.error(fault, first) from None

    return collective(compiler, run, size=size)


def waiting(
    compiler: ExpressionCompiler,
    ready: Callable[[Frame], bool],
    over: Callable[[Frame], None],
    describe: Callable[[Frame], str],
    place: Place,
) -> Value:
    """A call at which each thread waits until ``ready``, and then does ``over``; ``describe`` says what is missing."""
    slot = compiler.hidden()

    def run(team: Team) -> None:
        for frame in team:
            over(frame)
            frame[slot] = 0

    compiler.collectives.append(Collective(run, slot, ready=ready, place=place, describe=describe))
    return lambda frame: frame[slot]


@intrinsic("tir.tvm_storage_sync", own_arguments=True)
def _storage_sync(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    place = compiler.place(call.span)
    scope = compiler.expression(call.args[0])
    detector = compiler.program.detector

    def run(team: Team, slot: int) -> None:
        for block, frames in _by_block(team).items():
            if block is None and any(tag.startswith("threadIdx") for tag in frames[0][0].threads):
                raise InterpreterError(
                    "a barrier in a function that a thread calls, which it runs by itself",
                    origin="interpret",
                    span=place.span,
                    notes=place.notes(frames[0]),
                    help="put the barrier into the kernel, in front of the call or behind it",
                )
            if scope(frames[0]) == "warp" and block is not None:
                for lanes in _by_warp(frames).values():
                    for _ in _named_lanes(lanes, _every_lane, "a barrier", place):
                        pass  # all of them are there
            if detector is not None:
                detector.barrier(scope(frames[0]), frames)
            for frame in frames:
                frame[slot] = 0
            if block is not None and len(frames) != block.live and scope(frames[0]) != "warp":
                raise InterpreterError(
                    f"a barrier is reached by {len(frames)} of the {block.live} threads of a block",
                    origin="interpret",
                    span=place.span,
                    notes=place.notes(frames[0]),
                    help="move the barrier out of the condition or loop that the other threads do not take",
                )

    of_warp = isinstance(call.args[0], StringImm) and call.args[0].value == "warp"
    return collective(compiler, run, of_block=not of_warp)


@intrinsic(
    "tir.tvm_warp_shuffle",
    "tir.tvm_warp_shuffle_up",
    "tir.tvm_warp_shuffle_down",
    "tir.tvm_warp_shuffle_xor",
    own_arguments=True,
)
def _shuffle(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """A value from another lane of the warp, within segments of ``width`` lanes; one's own beyond the segment."""
    # Compiled apart from the statement's expressions, because they are evaluated before those.
    mask, value, offset, width = (compiler.expression(arg) for arg in call.args[:4])
    unmasked = isinstance(call.args[0], IntImm) and call.args[0].value == 0  # as where shuffles take no mask
    name = call.op.name
    place = compiler.place(call.span)

    def those_of_a_mask(team: Team) -> Iterator[dict[int, Frame]]:
        for lanes in _by_warp(team).values():
            if unmasked:
                yield lanes
            else:
                for named, frames in _named_lanes(lanes, mask, "a shuffle", place):
                    yield dict(zip(named, frames, strict=True))

    def run(team: Team, slot: int) -> None:
        for lanes in those_of_a_mask(team):
            values = {lane: value(frame) for lane, frame in lanes.items()}
            for lane, frame in lanes.items():
                size = width(frame)
                first = lane - lane % size
                if name.endswith("_up"):
                    source = lane - offset(frame)
                elif name.endswith("_down"):
                    source = lane + offset(frame)
                elif name.endswith("_xor"):
                    source = lane ^ offset(frame)
                    # A partner in an earlier segment is read, one in a later segment is not.
                    first = min(first, source) if source >= 0 else first
                else:
                    source = first + offset(frame) % size
                if not first <= source < lane - lane % size + size:
                    source = lane
                if source not in values:
                    raise _absent(f"lane {lane} shuffles with lane {source}, which does not take part", frame, place)
                frame[slot] = values[source]

    return collective(compiler, run)


def _absent(message: str, frame: Frame, place: Place) -> InterpreterError:
    return InterpreterError(message, origin="interpret", span=place.span, notes=place.notes(frame))


def _every_lane(frame: Frame) -> Datum:
    return (1 << WARP_SIZE) - 1


def _named_lanes(
    lanes: dict[int, Frame], mask: Value, what: str, place: Place
) -> Iterator[tuple[list[int], list[Frame]]]:
    """The lanes of a warp by the mask that they state, each in its mask and with all others of it.

    Lanes that the block does not have, or that have returned, may be named. Raises InterpreterError for a lane outside
    its own mask, and for a lane of a mask that does not take part.
    """
    left = dict(sorted(lanes.items()))
    some_frame = next(iter(left.values()))
    state: State = some_frame[0]
    threads = math.prod(extent for tag, extent in state.extents.items() if tag.startswith("threadIdx"))
    here = threads - state.linear_thread() // WARP_SIZE * WARP_SIZE
    gone = state.group is not None and state.group.block.live < threads
    while left:
        lane, frame = next(iter(left.items()))
        stated = mask(frame)
        named = [other for other in range(min(WARP_SIZE, here)) if stated >> other & 1]
        if gone:
            named = [other for other in named if other in left]
        if lane not in named:
            raise _absent(f"lane {lane} makes {what} with the mask {stated:#x}, which does not name it", frame, place)
        for other in named:
            if other not in left or mask(left[other]) != stated:
                raise _absent(
                    f"{what} of the lanes {stated:#x} is made by lane {lane}, but lane {other} does not take part",
                    frame,
                    place,
                )
        yield named, [left.pop(other) for other in named]


@intrinsic("tir.ptx_vote_ballot", "tir.ptx_vote_any", "tir.ptx_vote_all", own_arguments=True)
def _vote(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(mask, condition): what the lanes of the mask make of their conditions."""
    mask, condition = (compiler.expression(arg) for arg in call.args)
    kind = call.op.name.rpartition("_")[2]
    place = compiler.place(call.span)

    def run(team: Team, slot: int) -> None:
        for lanes in _by_warp(team).values():
            for named, frames in _named_lanes(lanes, mask, "a vote", place):
                votes = [bool(condition(frame)) for frame in frames]
                result: Datum = {"any": any, "all": all}.get(kind, bool)(votes)
                if kind == "ballot":
                    result = sum(1 << lane for lane, vote in zip(named, votes, strict=True) if vote)
                for frame in frames:
                    frame[slot] = result

    return collective(compiler, run)


@intrinsic("tir.ptx_syncwarp", own_arguments=True)
def _syncwarp(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(mask): the lanes of the mask meet."""
    mask, place = compiler.expression(call.args[0]), compiler.place(call.span)
    detector = compiler.program.detector

    def run(team: Team, slot: int) -> None:
        for lanes in _by_warp(team).values():
            for _, frames in _named_lanes(lanes, mask, "a barrier", place):
                if detector is not None:
                    detector.barrier("warp", frames)
                for frame in frames:
                    frame[slot] = 0

    return collective(compiler, run)


@intrinsic("tir.tvm_warp_activemask")
def _active_mask(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    def run(team: Team, slot: int) -> None:
        for lanes in _by_warp(team).values():
            mask = sum(1 << lane for lane in lanes)
            for frame in lanes.values():
                frame[slot] = mask

    return collective(compiler, run)


def compile_reducer(compiler: ExpressionCompiler, reducer: CommReducer) -> tuple[list[int], list[int], list[Value]]:
    """The slots of the left and right variables of a reducer, and its compiled results."""
    mark = compiler.mark()
    left = [compiler.define(var) for var in reducer.lhs]
    right = [compiler.define(var) for var in reducer.rhs]
    results = [compiler.expression(result) for result in reducer.result]
    compiler.leave(mark)
    return left, right, results


@intrinsic("tir.tvm_thread_allreduce", own_arguments=True)
def _allreduce(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """Combine values over thread axes, by the reducer of the enclosing ``reduce_scope``; each thread gets all results."""
    if not compiler.reducers:
        raise InterpreterError("an allreduce stands in no reduce_scope attribute, so it has no reducer", span=call.span)
    if not isinstance(call.args[0], IntImm):
        raise InterpreterError(f"the number of values of an allreduce is {call.args[0]}", span=call.span)
    count = call.args[0].value
    place = compiler.place(call.span)
    values = [compiler.expression(arg) for arg in call.args[1 : 1 + count]]
    condition = compiler.expression(call.args[1 + count])
    targets = [_target(compiler, node, place) for node in call.args[2 + count : 2 + 2 * count]]
    axes = [compiler.tags.get(var, "") for var in call.args[2 + 2 * count :] if isinstance(var, Var)]
    reducer = compiler.reducers[-1]
    left, right, results = compile_reducer(compiler, reducer)
    identities = [compiler.expression(value) for value in reducer.identity]

    def run(team: Team, slot: int) -> None:
        parts: dict[object, Team] = {}
        for frame in team:
            state: State = frame[0]
            others = tuple((tag, index) for tag, index in state.threads.items() if tag not in axes)
            parts.setdefault((id(state.group), others), []).append(frame)
        for frames in parts.values():
            first = frames[0]
            total = [identity(first) for identity in identities]
            for frame in frames:
                if condition(frame):
                    new = [value(frame) for value in values]
                    for slots, row in ((left, total), (right, new)):
                        for at, scalar in zip(slots, row, strict=True):
                            first[at] = scalar
                    total = [result(first) for result in results]
            for frame in frames:
                frame[slot] = 0
                for write, scalar in zip(targets, total, strict=True):
                    write(frame, scalar)

    return collective(compiler, run)


def _target(compiler: ExpressionCompiler, node: Expr, place: Place) -> Callable[[Frame, Datum], None]:
    """How a result of an allreduce is written: to a buffer element, or to the first element of a pointer."""
    if isinstance(node, BufferLoad):
        indices = [compiler.expression(index, exact=True) for index in node.indices]
        locate = compiler.access(node.buffer, indices, None, place).locate()

        def write_element(frame: Frame, value: Datum) -> None:
            view, position = locate(frame)
            view.put(position, value)

        return write_element
    pointer = compiler.expression(node)
    pointee = getattr(getattr(node, "type", None), "element", None)

    def write_pointer(frame: Frame, value: Datum) -> None:
        target = pointer(frame)
        if not isinstance(target, Pointer) or pointee is None:
            raise Fault(f"the result of an allreduce is no buffer element: {node}")
        view = target.view(pointee)
        view.put(view.start, value)

    return write_pointer
