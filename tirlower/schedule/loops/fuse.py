"""``fuse``: nested loops become one loop with the same iterations in the same order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.query import mentions
from tirlower.ir.stmt import For, ForKind, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite import loop_nests
from tirlower.schedule.bindings import with_simple_bindings
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.siblings import said
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["FUSE"]


def _check(step: Step) -> Verdict:
    loops = [step.loop(handle) for handle in step.handles("loops")]
    if not loops:
        raise ValueError("'fuse' requires at least 1 loop(s)")
    if len(set(loops)) < len(loops):
        raise BadArgument("a loop is named twice")
    variables = [loop.loop_var for loop in loops]
    for outer, inner in itertools.pairwise(loops):
        if outer.body is not inner:
            step.refuse(
                f"the loop `{inner.loop_var.name}` is not all that the loop `{outer.loop_var.name}` has in its body",
                inner,
                "name loops that stand directly in each other, the outermost first",
            )
        if outer.kind is not inner.kind or dict(outer.annotations) != dict(inner.annotations):
            step.refuse(
                f"the loops `{outer.loop_var.name}` and `{inner.loop_var.name}` are of different kinds or annotations: "
                f"{said(outer)} and {said(inner)}",
                inner,
                "fuse the loops first, and annotate what they became",
            )
    for loop in loops:
        if loop.kind is ForKind.THREAD_BINDING:
            step.refuse(f"the loop is bound to {loop.thread_tag}", loop, "bind after fusing")
        if step.facts.leaves(loop) and len(loops) > 1:
            step.refuse(f"a statement leaves the loop `{loop.loop_var.name}` early", loop)
        if mentions(loop.min, variables) or mentions(loop.extent, variables):
            step.refuse(
                f"the bounds of the loop `{loop.loop_var.name}` depend on another one of the loops",
                loop,
                "fuse loops whose bounds are the same in all iterations",
            )
    return PROVED


def _rewrite(step: Step) -> Change:
    handles = step.handles("loops")
    loops, site = [step.loop(handle) for handle in handles], step.site(handles[0])
    body = loops[-1].body
    made: Stmt = loop_nests.fuse(loops, body, step.analyzer(site))
    made = with_simple_bindings(made, step.ranges(site), step.analyzer(site), bool(step["preserve_unit_iters"]))
    assert isinstance(made, For)
    forward = Forward()
    forward.like(body, made.body)
    for loop in loops:
        forward.end(loop, made)
    return Change(Edit(site, made), forward, (made,), relabel=_digits(loops, made))


def _digits(loops: Sequence[For], made: For) -> dict[Var, Expr] | None:
    """The old loops as digits of the new one; None where one of them never runs, so that there are none."""
    if any(is_const_int(loop.extent, 0) for loop in loops):
        return None
    found: dict[Var, Expr] = {}
    number: Expr = made.loop_var
    for loop in reversed(loops):
        extent = build.cast(made.loop_var.dtype, loop.extent)
        digit = number if loop is loops[0] else build.floormod(number, extent)
        found[loop.loop_var] = build.add(build.cast(loop.loop_var.dtype, digit), loop.min)
        number = build.floordiv(number, extent)
    return found


FUSE = Kind(
    "Fuse",
    "fuse",
    (
        Slot("loops", Takes.LOOP, rest=True, keyword=""),
        Slot("preserve_unit_iters", Takes.FLAG, default=True, attr=True),
    ),
    _rewrite,
    """Fuse loops that stand directly in each other, the outermost first, into one; always legal on rectangles.

    Its variable is ``i_j_fused``, and bindings and subscripts are its digits. Returns the loop.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 6), "int32")):
    ...     for i, j in T.grid(4, 6):
    ...         A[i, j] = 1
    ... '''))
    >>> loop = sch.fuse(sch.loop("i"), sch.loop("j"))
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 6), "int32")):
        for i_j_fused in range(24):
            A[i_j_fused // 6, i_j_fused % 6] = 1
    """,
    check=_check,
    returns="one",
)
