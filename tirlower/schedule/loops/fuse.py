"""``fuse``: nested loops become one loop with the same iterations in the same order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, is_const_int
from tirlower.ir.query import has, mentions
from tirlower.ir.stmt import For, ForKind, Stmt
from tirlower.poly.rebound import rebound
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite import loop_nests
from tirlower.schedule.bindings import forward_predicated, predicated, with_simple_bindings
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.bounds import bounds_divide, bounds_stay
from tirlower.schedule.loops.siblings import said
from tirlower.schedule.loops.tight import tight
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["FUSE"]

_BOUNDS = ("guard", "tight")
"""What becomes of bounds that depend on another one of the loops."""


def _check(step: Step) -> Verdict:
    loops = [step.loop(handle) for handle in step.handles("loops")]
    if not loops:
        raise ValueError("'fuse' requires at least 1 loop(s)")
    if len(set(loops)) < len(loops):
        raise BadArgument("a loop is named twice")
    if step["bounds"] not in _BOUNDS:
        raise BadArgument(f"bounds= is one of {', '.join(map(repr, _BOUNDS))}, got {step['bounds']!r}")
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
            if has((BufferLoad, Call), loop.min, loop.extent):
                step.refuse(f"the bounds of the loop `{loop.loop_var.name}` read memory", loop)
            _box(step, loops) if step["bounds"] == "guard" else tight(step, step.site(step.handles("loops")[0]), loops)
    bounds_stay(step, loops)
    bounds_divide(step, step.site(step.handles("loops")[0]), loops[1:])
    return PROVED


def _depend(loops: list[For]) -> bool:
    variables = [loop.loop_var for loop in loops]
    return any(mentions(loop.min, variables) or mentions(loop.extent, variables) for loop in loops)


def _box(step: Step, loops: list[For]) -> tuple[list[For], Expr | None]:
    """Loops whose bounds do not depend on each other, and the condition under which the body runs then."""
    if not _depend(loops):
        return loops, None
    site = step.site(step.handles("loops")[0])
    scop = step.facts.part(step.func(site), site.steps)
    tests: list[Expr] = []
    made: list[For] = []
    variables = [loop.loop_var for loop in loops]
    for at, loop in enumerate(loops):
        if not mentions(loop.min, variables) and not mentions(loop.extent, variables):
            made.append(loop)
            continue
        # What the variable can be at all: its range where it is outside of the loops around it.
        nest = loops[: at + 1]
        hull = rebound(scop, nest, [loop, *nest[:-1]]).ranges[0]
        made.append(loop.with_(min=hull.min, extent=hull.extent))
        stop = build.add(loop.min, loop.extent)
        tests += [build.ge(loop.loop_var, loop.min), build.lt(loop.loop_var, stop)]
    return made, build.all_of(*tests)


def _rewrite(step: Step) -> Change:
    handles = step.handles("loops")
    loops, site = [step.loop(handle) for handle in handles], step.site(handles[0])
    body, forward = loops[-1].body, Forward()
    if step["bounds"] == "tight" and _depend(loops):
        return _tight(step, loops)
    box, condition = _box(step, loops)
    inner = body if condition is None else predicated(body, condition)
    made: Stmt = loop_nests.fuse(box, inner, step.analyzer(site))
    made = with_simple_bindings(made, step.ranges(site), step.analyzer(site), bool(step["preserve_unit_iters"]))
    assert isinstance(made, For)
    if condition is None:
        forward.like(body, made.body)
    else:
        forward_predicated(forward, body, made.body)
    for loop in loops:
        forward.end(loop, made)
    return Change(Edit(site, made), forward, (made,), relabel=_digits(box, made))


def _tight(step: Step, loops: list[For]) -> Change:
    site, forward = step.site(step.handles("loops")[0]), Forward()
    fused = tight(step, site, loops)
    ranges = {**step.ranges(site), fused.loop.loop_var: Range(fused.loop.min, fused.loop.extent)}
    inner = fused.inside(loops[-1].body)
    inner = with_simple_bindings(inner, ranges, step.analyzer(site), bool(step["preserve_unit_iters"]))
    made = fused.around(inner)
    forward.like(loops[-1].body, inner)
    for loop in loops:
        forward.end(loop, made)
    return Change(Edit(site, made), forward, (made,), relabel=fused.values)


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
        Slot("bounds", Takes.STRING, default="guard", attr=True, extra=True),
    ),
    _rewrite,
    """Fuse loops that stand directly in each other, the outermost first, into one; always legal.

    Where bounds depend on one of the loops, it goes over the box around all, under a condition; with ``bounds="tight"``
    over the iterations alone: a row's start is subtracted, and the row of a triangle is a root, made exact by whole numbers.
    For that an extent is a multiple of one of the loops and a number besides.

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
