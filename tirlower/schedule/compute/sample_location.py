"""``sample_compute_location``: where a block is computed is drawn, and remembered as a decision."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterator, Sequence

from tirlower.diagnostics import BadArgument, ScheduleError
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import is_const_int
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import Block, BlockIter, For
from tirlower.schedule.compute.compute_at import COMPUTE_AT
from tirlower.schedule.compute.inline import COMPUTE_INLINE
from tirlower.schedule.compute.location import INLINE, ROOT
from tirlower.schedule.conditions import violated
from tirlower.schedule.edits import Steps
from tirlower.schedule.handles import Handle, LoopRV
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import consumers_of, loops_around
from tirlower.schedule.places import reading
from tirlower.schedule.sampling import draw
from tirlower.schedule.sites import Change, Mark, Site
from tirlower.schedule.stages import Stage
from tirlower.schedule.step import Step, judge

__all__ = ["SAMPLE_COMPUTE_LOCATION", "locations"]


def locations(step: Step) -> dict[int, Site | Mark]:
    """Where the block of a step may be computed, by the numbers of decisions: -2 inlined, -1 where it stands, else the
    number of the loop around its first consumer.
    """
    stage = step.stage("block")
    found: dict[int, Site | Mark] = {}
    if _may(step.other(COMPUTE_INLINE, block=step["block"])):
        found[-2] = Mark(INLINE)
    found[-1] = Mark(ROOT)
    consumers = _consumers(step, stage)
    if not consumers:
        return found
    common = _common([site.steps for site in consumers])
    loops = [site for site in loops_around(step, consumers[0]) if len(consumers) == 1 or len(site.steps) <= len(common)]
    spatial = [_spatial(step, site) for site in loops]
    last = max((at for at, yes in enumerate(spatial) if yes), default=-1)
    reduced = False
    for at, site in enumerate(loops):
        if is_const_int(_loop(step, site).extent, 1):
            continue
        if spatial[at] and reduced:
            break
        if not spatial[at]:
            reduced = True
            if at > last:
                break
        if _may_move(step, site):
            found[at] = site
    return found


def _consumers(step: Step, stage: Stage) -> list[Site]:
    """What reads or writes again what a block writes; on plain loops the statements that read what a nest writes."""
    if stage.block is not None:
        return consumers_of(step, stage.site)
    func, own = step.func(stage.site), stage.site.steps
    found: dict[Steps, None] = {}
    for buffer in stage.writes:
        for way, _ in reading(step.facts, func, buffer):
            if way[: len(own)] != own:
                found[way] = None
    return [Site(stage.site.func, way) for way in found]


def _common(ways: Sequence[Steps]) -> Steps:
    depth = 0
    while all(len(way) > depth for way in ways) and len({way[depth] for way in ways}) == 1:
        depth += 1
    return ways[0][:depth]


def _loop(step: Step, site: Site) -> For:
    loop = step.chain(site)[-1]
    assert isinstance(loop, For)
    return loop


def _spatial(step: Step, site: Site) -> bool:
    """Whether what stands in a loop is another part of the result in each of its iterations."""
    loop = _loop(step, site)
    kinds = {it.kind for it in _bound(loop)}
    if kinds:
        return kinds == {IterKind.SPATIAL}
    return not any(each(Block, loop.body)) and not step.facts.carried(step.func(site), site.steps, loop)


def _bound(loop: For) -> Iterator[BlockIter]:
    for block in each(Block, loop.body):
        yield from (it for it in block.iters if it.value is not None and mentions(it.value, {loop.loop_var}))


def _may(step: Step) -> bool:
    """Whether a step may be taken, by what is asked of it here."""
    try:
        return not (step.policy.accept == "tvm" and violated(step)) and judge(step).proved
    except ScheduleError:
        return False


def _may_move(step: Step, site: Site) -> bool:
    handle = LoopRV("loop", step.handle("block").owner)
    other = step.other(COMPUTE_AT, block=step["block"], loop=handle)
    places: dict[Handle, object] = {**step.state.places, handle: site}
    other.state = dataclasses.replace(step.state, places=places)  # type: ignore[arg-type]
    return _may(other)


def _sample(step: Step) -> Change:
    found, decision, random = locations(step), step.decision, step.state.random
    numbers = sorted(found)
    if decision is None:
        at, random = draw(random, len(numbers))
    else:
        if not isinstance(decision, int) or isinstance(decision, bool) or decision < numbers[0]:
            raise BadArgument(
                f"the decision is -2 (inlined), -1 (where it stands) or the number of a loop around the first consumer, got {decision!r}",
                help=f"here it may be {', '.join(map(str, numbers))}",
            )
        at = bisect.bisect_right(numbers, decision) - 1
    return Change(outputs=(found[numbers[at]],), decision=numbers[at], random=random)


SAMPLE_COMPUTE_LOCATION = Kind(
    "SampleComputeLocation",
    "sample_compute_location",
    (Slot("block", Takes.STAGE),),
    _sample,
    """Draw where a block is computed: inlined (decision -2), where it stands (-1), or in a loop around its first consumer (the
    number of that loop), of those where :meth:`compute_at` is legal. What is drawn is for ``compute_at``.

    All are as likely. Loops of one iteration are left out, so are spatial loops inside a reduction loop, and reduction loops
    inside of the last spatial one. A decision that may not be taken any more becomes the next lower one.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    ...     B = T.alloc_buffer((4, 8), "int32")
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] * 2
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("C"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             C[vi, vj] = B[vi, vj] + 1
    ... '''))
    >>> sch.compute_at("B", sch.sample_compute_location("B", decision=0))
    >>> [loop.name for loop in sch.get_loops("B")]
    ['i', 'ax0']
    """,
    returns="one",
    pure=True,
    draws=True,
)
