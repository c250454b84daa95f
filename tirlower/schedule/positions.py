"""The check that steps which only change an order share: new positions are asked about, and concurrent loops once more.

A step of this class says where its statements run afterwards; :func:`tirlower.poly.order_kept` answers. What runs at once
in or around of what was rewritten is then asked in the program that was made, for it now runs at once with other things.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tirlower.ir.annotations import REDUCTION, UNCHECKED
from tirlower.ir.path import Path, node_at
from tirlower.ir.query import each
from tirlower.ir.stmt import For, ForKind, Stmt, While
from tirlower.poly import Scop
from tirlower.poly.forms import Form, constant, single
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.edits import Edit, Rebuilt
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["Positions", "loop_around", "order_verdict", "place_in", "scop_in", "still_concurrent"]

Positions = Mapping[Stmt, Sequence[Coordinate]]


def loop_around(step: Step, site: Site) -> Site | None:
    """The place of the innermost loop around a place."""
    around = [place for place, stmt in step.way(site) if isinstance(stmt, (For, While))]
    return around[-1] if around else None


def scop_in(step: Step, site: Site, around: Site | None) -> Scop:
    """What is known of a loop alone, or of the whole function of a place."""
    func = step.func(site)
    return step.facts.scop(func) if around is None else step.facts.part(func, around.steps)


def place_in(step: Step, scop: Scop, around: Site | None) -> list[Form]:
    """How the positions of what stands in a loop begin, by its place and its iteration."""
    if around is None:
        return []
    loop = scop.loop(_loop_at(step, around))
    return [constant(loop.order), single(loop.var)]


def _loop_at(step: Step, site: Site) -> For | While:
    loop = step.chain(site)[-1]
    assert isinstance(loop, (For, While))
    return loop


def order_verdict(step: Step, site: Site, positions: Positions, part: Site | None, made: Stmt | None = None) -> Verdict:
    """Whether what stands in the loop at ``part`` (in the function, without it) may run at new positions; ``made`` is then
    what stands at the place. What the results are up to is the step's to say afterwards."""
    func, loop = step.func(site), None if part is None else _loop_at(step, part)
    steps = () if part is None else part.steps
    found, step.exactness = step.facts.positions_kept(func, steps, positions, loop, step.policy.reassociate)
    if found.proved and made is not None:
        return still_concurrent(step, site, made)
    return found


def still_concurrent(step: Step, site: Site, made: Stmt, settled: Collection[For] = ()) -> Verdict:
    """Whether the concurrent loops in and around a place still may run as they do where another statement stands there;
    those in it that are ``settled`` are not asked about.

    A parallel loop around it has the same iterations as before; lanes and threads around it run it in step.
    """
    func = step.func(site)
    old = {*each(For, step.chain(site)[-1]), *settled}
    inside = any(loop not in old and loop.kind in _CONCURRENT for loop in each(For, made))
    around = [
        place.steps
        for place, loop in step.way(site)
        if isinstance(loop, For) and loop.kind in (ForKind.VECTORIZED, ForKind.THREAD_BINDING)
    ]
    if not inside and not around:
        return PROVED
    rebuilt = Rebuilt(func, [Edit(site, made)])
    new = rebuilt.func
    asked = [
        ((*way, *rest), loop)
        for way, part in rebuilt.made()
        for rest, loop in step.facts.inside(part)
        if isinstance(loop, For) and loop not in old and loop.kind in _CONCURRENT
    ]
    asked += [(steps, node_at(new, Path(steps))) for steps in around]  # type: ignore[misc]
    for steps, loop in asked:
        if UNCHECKED in loop.annotations:
            continue
        reductions = bool(loop.annotations.get(REDUCTION))
        verdict = step.facts.concurrent(new, steps, loop, loop.kind, loop.thread_tag or "", reductions)
        if not verdict.proved:
            return verdict
    return PROVED


_CONCURRENT = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)
