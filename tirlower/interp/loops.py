"""Loops over teams: serial ones in step, vectorized ones as lanes, thread axes as blocks and threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tirlower.diagnostics import InterpreterError
from tirlower.interp.launching import Launching
from tirlower.interp.scope import Place, State, Team, ThreadGroup
from tirlower.interp.threads import (
    count_live,
    fork_threads,
    give_own_memory,
    is_block_axis,
    is_virtual,
    take_own_memory,
)
from tirlower.ir.stmt import For

__all__ = ["after_loop", "next_iteration", "running", "serial_loop", "thread_loop", "vector_loop"]

Runner = Callable[[Team], Team]
Ranges = Callable[[Team], list[range]]
"""The iterations of each frame."""


def running(team: Team) -> Team:
    """The frames that have not stopped."""
    return [frame for frame in team if frame[0].signal is None]


def next_iteration(team: Team) -> Team:
    """The frames that go on with a loop: those that ended its body, or continued."""
    for frame in team:
        if frame[0].signal == "continue":
            frame[0].signal = None
    return running(team)


def after_loop(team: Team) -> Team:
    """The frames that go on behind a loop: all but those that returned. The same list where none did."""
    returned = False
    for frame in team:
        signal = frame[0].signal
        if signal == "break":
            frame[0].signal = None
        elif signal is not None:
            returned = True
    return running(team) if returned else team


def serial_loop(ranges: Ranges, slot: int, body: Runner) -> Runner:
    """Iterations one after another; the frames of a team take each step together, as long as they have one."""

    def run(team: Team) -> Team:
        if len(team) == 1:
            (frame,) = team
            for index in ranges(team)[0]:
                frame[slot] = index
                if body(team) is not team and not next_iteration(team):
                    break
            return after_loop(team)
        spans = {id(frame): span for frame, span in zip(team, ranges(team), strict=True)}
        active = team
        step = 0
        while True:
            if any(step >= len(spans[id(frame)]) for frame in active):
                active = [frame for frame in active if step < len(spans[id(frame)])]
            if not active:
                break
            for frame in active:
                frame[slot] = spans[id(frame)][step]
            if body(active) is not active:
                active = next_iteration(active)
            step += 1
        return after_loop(team)

    return run


def vector_loop(ranges: Ranges, slot: int, body: Runner, place: Place) -> Runner:
    """Each lane becomes a frame; the lanes of a team run as one team."""

    def run(team: Team) -> Team:
        lanes: Team = []
        for frame, span in zip(team, ranges(team), strict=True):
            state: State = frame[0]
            for index in span:
                lane = frame.copy()
                lane[0] = state.lane()
                lane[slot] = index
                lanes.append(lane)
        if lanes and body(lanes) is not lanes:
            for lane in lanes:
                if lane[0].signal in ("break", "return"):
                    raise InterpreterError(
                        f"a {lane[0].signal} in one lane of a vectorized loop has no meaning for the others",
                        origin="interpret",
                        span=place.span,
                        notes=place.notes(lane),
                        help="make the loop serial",
                    )
        return team

    return run


def thread_loop(stmt: For, ranges: Ranges, slot: int, body: Runner, place: Place, launching: Launching) -> Runner:
    """A thread axis: blocks one after another, threads as forked frames; an axis bound around it is kept.

    A race detector hears where kernels begin and end, and which threads there are.
    """
    tag = stmt.thread_tag or ""
    detector, interleaver = launching.detector, launching.interleaver

    def rebound(team: Team, spans: list[range]) -> Team:
        """The axis is bound around this loop already: each thread runs the iteration that is its own."""
        own: Team = []
        for frame, span in zip(team, spans, strict=True):
            if len(span) > frame[0].extents[tag]:
                raise InterpreterError(
                    f"{tag} has {frame[0].extents[tag]} threads around this loop of {len(span)}",
                    origin="interpret",
                    span=place.span,
                    help="give the loops of one thread axis one extent",
                )
            index = span.start + frame[0].threads[tag]
            if index in span:
                frame[slot] = index
                own.append(frame)
        if own and body(own) is not own:
            return running(team)
        return team

    def blocks(team: Team, spans: list[range]) -> Team:
        for frame, span in zip(team, spans, strict=True):
            for at in interleaver.order(len(span)):
                block = frame.copy()
                block[0] = State({**frame[0].threads, tag: at}, {**frame[0].extents, tag: len(span)})
                block[slot] = span[at]
                give_own_memory(frame, [block], launching.private)
                if detector is not None:
                    detector.enter([block])
                _refuse_loop_signals(body([block]), [block], place)
        return team

    def threads(team: Team, spans: list[range]) -> Team:
        forked = fork_threads(team, slot, tag, spans)
        every = [thread for part in forked for thread in part]
        if not every:
            return team
        for frame, part in zip(team, forked, strict=True):
            give_own_memory(frame, part, launching.private)
        before = count_live(every)
        _limit(before, launching.max_threads, place)
        if detector is not None:
            detector.enter(every)
        if launching.schedule == "lockstep" or not launching.innermost:
            after = body(every)
        elif launching.schedule == "alone":
            parts = [[every[at]] for at in interleaver.order(len(every))]
            unchanged = [body(part) is part for part in parts]
            after = every if all(unchanged) else running(every)
        else:
            after = interleaver.run(body, every, launching.schedule == "warps")
        if launching.innermost:
            _close(every)
        for block, live in before.items():
            block.live = live
        for frame, part in zip(team, forked, strict=True):
            take_own_memory(frame, part, launching.private)
        if after is every:
            return team
        _refuse_loop_signals(after, every, place)
        if team[0][0].group is None:
            return team
        # An outer thread has returned when all that it forked into have.
        for frame, part in zip(team, forked, strict=True):
            if part and not running(part):
                frame[0].signal = "return"
        return running(team)

    def run(team: Team) -> Team:
        spans = ranges(team)
        # Virtual threads inside virtual threads are new ones, of the same name or not.
        if tag in team[0][0].threads and not is_virtual(tag):
            return rebound(team, spans)
        stated = launching.launched.get(tag)
        if stated is not None and any(len(span) != stated for span in spans):
            raise InterpreterError(
                f"the kernel runs over {len(spans[0])} values of {tag}, and was launched with {stated}",
                origin="interpret",
                span=place.span,
                help="launch a kernel with the extents of its thread loops",
            )
        whole = detector if not team[0][0].threads else None
        if whole is not None:
            whole.begin()
        after = blocks(team, spans) if is_block_axis(tag) else threads(team, spans)
        if whole is not None:
            whole.begin()
        return after

    return run


def _limit(blocks: Iterable[ThreadGroup], most: int | None, place: Place) -> None:
    """Refuse blocks of more threads than a device runs."""
    for block in blocks:
        if most is not None and block.live > most:
            raise InterpreterError(
                f"a block has {block.live} threads, and the device runs at most {most}",
                origin="interpret",
                span=place.span,
                help="use smaller blocks, and more of them",
            )


def _close(threads: Team) -> None:
    """The threads of blocks have ended: what they and their blocks hold is closed where it can be."""
    held = [found for frame in threads for found in frame[0].own.values()]
    for block in {id(frame[0].group.block): frame[0].group.block for frame in threads}.values():
        held += block.shared.values()
    for found in held:
        close = getattr(found, "close", None)
        if close is not None:
            close()


def _refuse_loop_signals(after: Team, team: Team, place: Place) -> None:
    if after is team:
        return
    for frame in team:
        if frame[0].signal == "break" or frame[0].result is not None:
            what = "break" if frame[0].signal == "break" else "returned value"
            raise InterpreterError(
                f"a {what} in one thread has no meaning for the others",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
            )
