"""``reorder``: nested loops in another order, where no dependence is turned round."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.path import Path, replace_at
from tirlower.ir.stmt import For, ForKind, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["REORDER"]


def _nest(step: Step) -> tuple[Site, list[For], list[For]]:
    """The place of the outermost loop, the loops from it to the innermost, and these in the order that is asked for."""
    handles = step.handles("ordered_loops")
    wanted = [step.loop(handle) for handle in handles]
    if not wanted:
        raise ValueError("'reorder' requires at least 1 loop(s)")
    if len(set(wanted)) < len(wanted):
        raise BadArgument("a loop is named twice in the new order")
    sites = [step.site(handle) for handle in handles]
    top = min(sites, key=lambda site: len(site.steps))
    bottom = max(sites, key=lambda site: len(site.steps))
    for site, loop in zip(sites, wanted, strict=True):
        if site.func != bottom.func or bottom.steps[: len(site.steps)] != site.steps:
            step.refuse(f"the loop `{loop.loop_var.name}` is not around all the others", loop, "name nested loops")
    chain: list[For] = []
    for stmt in step.chain(bottom)[len(step.chain(top)) - 1 :]:
        if (chain and chain[-1].body is not stmt) or not isinstance(stmt, For):
            inner = wanted[sites.index(bottom)].loop_var.name
            step.refuse(
                f"the loop `{chain[-1].loop_var.name}` has more in its body than what leads to the loop `{inner}`",
                stmt,
                "distribute the loop over its statements first",
            )
        chain.append(stmt)
    places = iter(wanted)
    return top, chain, [next(places) if loop in wanted else loop for loop in chain]


def _check(step: Step) -> Verdict:
    top, chain, order = _nest(step)
    if chain == order:
        return PROVED
    func = step.func(top)
    verdict, step.exactness = step.facts.order_kept(func, top.steps, order, step.policy.reassociate)
    if not verdict.proved:
        return verdict
    made, loops = _reordered(chain, order)
    new = None
    for old, loop in zip(order, loops, strict=True):
        # What more loops than before stand in may run at once with what it did not before.
        if old.kind not in (ForKind.SERIAL, ForKind.UNROLLED) and set(order[order.index(old) :]) - set(
            chain[chain.index(old) :]
        ):
            new = new if new is not None else replace_at(func, Path(top.steps), made)
            place = (*top.steps, *["body"] * loops.index(loop))
            verdict = step.facts.concurrent(new, place, loop, loop.kind, loop.thread_tag or "")
            if not verdict.proved:
                return verdict
    return PROVED


def _reordered(chain: Sequence[For], order: Sequence[For]) -> tuple[Stmt, list[For]]:
    """The nest in another order, and its loops, the outermost first."""
    body: Stmt = chain[-1].body
    loops: list[For] = []
    for loop in reversed(order):
        body = loop.with_(body=body)
        loops.append(body)
    return body, loops[::-1]


def _rewrite(step: Step) -> Change:
    top, chain, order = _nest(step)
    made, loops = _reordered(chain, order)
    if chain == order:
        return Change()
    forward = Forward()
    for old, loop in zip(order, loops, strict=True):
        forward.keep(old, loop)
    return Change(Edit(top, made), forward)


REORDER = Kind(
    "Reorder",
    "reorder",
    (Slot("ordered_loops", Takes.LOOP, rest=True, keyword=""),),
    _rewrite,
    """Put nested loops in the given order, the outermost first; loops between them keep their place.

    Legal where no dependence is turned round. The updates of one reduction may change their order where that cannot be
    told from the result, or where a block says that it is a reduction.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 6), "int32")):
    ...     for i, j in T.grid(3, 5):
    ...         A[i + 1, j] = A[i, j + 1]
    ... '''))
    >>> try:
    ...     sch.reorder(sch.loop("j"), sch.loop("i"))
    ... except tl.ScheduleError as error:
    ...     print(error.witness)
    iteration (i = 0, j = 1) writes A[1, 1] and iteration (i = 1, j = 0) reads A[1, 1]
    """,
    check=_check,
)
