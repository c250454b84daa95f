"""``vectorize`` with a number of lanes: vectors of so many iterations, and what becomes of those that are left."""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.expr import Expr, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import For, ForKind, Stmt
from tirlower.poly import Reduction
from tirlower.poly.verdict import Verdict
from tirlower.schedule.bindings import predicated
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.loops.bounds import bounds_stay
from tirlower.schedule.step import Step

__all__ = ["TAILS", "InVectors", "exactness_of_partials", "in_vectors"]

TAILS = ("exact", "mask", "scalar", "predicate", "shift")


def in_vectors(step: Step) -> Made:
    """The draft of a loop in vectors."""
    handle, lanes, tail = step.handle("loop"), step["lanes"], step["tail"]
    loop, site = step.loop(handle), step.site(handle)
    assert isinstance(lanes, int)
    if lanes < 1:
        raise BadArgument(f"lanes={lanes} is not positive")
    if tail not in TAILS:
        raise BadArgument(f"tail= is one of {', '.join(map(repr, TAILS))}, got {tail!r}")
    if loop.kind is not ForKind.SERIAL:
        step.refuse(f"the loop is {loop.kind.value}", loop)
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early", loop)
    bounds_stay(step, [loop])
    known = step.analyzer(site)
    kind = loop.loop_var.dtype
    width, extent = const(lanes, kind), loop.extent
    if not known.can_prove(build.ge(extent, const(0, kind))):
        extent = build.max_(extent, const(0, kind))
    whole = known.simplify(build.floordiv(extent, width))
    left = known.simplify(build.floormod(extent, width))
    rounds = known.simplify(build.floordiv(build.add(extent, const(lanes - 1, kind)), width))
    even = is_const_int(left, 0)
    if tail == "exact" and not even:
        step.refuse(
            f"the extent {loop.extent} is not known to be a multiple of {lanes}",
            loop,
            'tail="mask", "scalar", "predicate" or "shift" says what becomes of the rest',
        )
    if tail == "shift" and not known.can_prove(build.ge(extent, width)):
        step.refuse(f"the extent {loop.extent} is not known to be {lanes} at least", loop)
    carried = step.facts.carried(step.func(site), site.steps, loop) if step["reduction"] else ()
    notes: dict[str, object] = {REDUCTION: True} if carried else {}
    draft = Draft(step, site.func)
    name = loop.loop_var.name
    outer, lane = copy_var(loop.loop_var, f"{name}_0"), copy_var(loop.loop_var, f"{name}_1")
    number: Expr = build.add(build.mul(outer, width), lane)
    if tail == "shift" and not even:
        number = build.add(build.min_(build.mul(outer, width), build.sub(extent, width)), lane)
    body = _copy(draft, loop, number, first=True)
    if tail == "predicate" and not even:
        body = predicated(body, build.lt(number, extent))
    vector = For(lane, const(0, kind), width, ForKind.VECTORIZED, None, notes, body)
    steps = whole if even or tail in ("mask", "scalar") else rounds
    nest = For(outer, const(0, kind), steps, ForKind.SERIAL, None, loop.annotations, vector, span=loop.span)
    parts: list[Stmt] = [nest]
    if not even and tail in ("mask", "scalar"):
        parts.append(_rest(draft, loop, build.mul(whole, width), left, width, known, notes if tail == "mask" else None))
    draft.replace(site.steps, *parts)
    draft.forward.end(loop, nest, vector)
    return Made(draft, (nest, vector), exactness_of_partials(carried))


class InVectors(ValueStep):
    """The step from its draft. Vectors, and a loop behind them, run the very iterations of the loop in their order, as the loops of a
    split and of a partition do: what runs at once is all that is asked. That took a flow of values, and half of a softmax's schedule.
    """

    def check(self, step: Step) -> Verdict:
        """Whether the program after computes the same values."""
        draft = self.made(step).draft
        in_order = step["tail"] in ("exact", "scalar")
        return draft.concurrent() if in_order and not step.policy.proves_again else draft.verdict()


def exactness_of_partials(carried: Iterable[Reduction]) -> str:
    """What results are up to where reductions have partial results: the order of sums and products of floats tells."""
    told = [reduction.buffer.name for reduction in carried if not reduction.reorders]
    return f"reassociated({', '.join(told)})" if told else "bitwise"


def _copy(draft: Draft, loop: For, number: Expr, first: bool = False) -> Stmt:
    """The body in one iteration."""
    value = build.add(loop.min, number)
    body = substitute(loop.body, {loop.loop_var: value})
    if not first:
        body = refresh_binders(body)
    if body is loop.body:
        body = body.with_(span=body.span)
    draft.same(body, loop.body, {loop.loop_var: value})
    if first:
        draft.forward.like(loop.body, body)
    return body


def _rest(
    draft: Draft, loop: For, start: Expr, left: Expr, width: Expr, known: Analyzer, masked: dict[str, object] | None
) -> Stmt:
    """The iterations that fill no vector: one by one, or masked, as a loop of vectors with these annotations."""
    var = copy_var(loop.loop_var, f"{loop.loop_var.name}_rest")
    body = _copy(draft, loop, known.simplify(build.add(start, var)))
    zero = const(0, var.dtype)
    if masked is not None:
        return For(var, zero, width, ForKind.VECTORIZED, None, masked, predicated(body, build.lt(var, left)))
    return For(var, zero, left, ForKind.SERIAL, None, {}, body)
