"""``fuse_siblings``: two loops that stand beside each other run in step."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, const
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import For, Stmt, seq
from tirlower.poly.forms import constant, single
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import Verdict
from tirlower.schedule.bindings import forward_predicated, predicated
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.siblings import Siblings, need_alike, siblings_of
from tirlower.schedule.positions import loop_around, order_verdict, place_in, scop_in
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["FUSE_SIBLINGS"]


def _pair(step: Step) -> tuple[Siblings, For, For, int]:
    beside = siblings_of(step, [step.handle("a"), step.handle("b")])
    for chain in beside.chains:
        if len(chain) > 1:
            step.refuse("the loops stand at different depths of their nests", chain[-1], "merge() takes whole nests")
    shift = step.number(step["shift"])
    if not isinstance(shift, int):
        raise BadArgument(f"shift= is a number of iterations, got {shift!r}")
    (first,), (second,) = beside.chains
    need_alike(step, [first, second])
    if first.loop_var.dtype != second.loop_var.dtype:
        step.refuse(f"the loops count in different types, {first.loop_var.dtype} and {second.loop_var.dtype}", second)
    scop = scop_in(step, beside.site, loop_around(step, beside.site))
    for loop in (scop.loop(first), scop.loop(second)):
        if loop.leaves or (loop.continues and loop.node is first):
            step.refuse(f"a statement ends iterations of `{loop.name}` early, or leaves it", loop.node)
    return beside, first, second, shift


def _made(step: Step, beside: Siblings, first: For, second: For, shift: int) -> tuple[For, Forward]:
    """The two in one loop: iteration n of the first with iteration n - shift of the second."""
    analyzer, var, dtype = step.analyzer(beside.site), first.loop_var, first.loop_var.dtype
    by, zero = const(shift, dtype), const(0, dtype)
    low, high = first.extent, build.add(second.extent, by)
    if shift == 0 and analyzer.can_prove_equal(first.extent, second.extent):
        begin, extent = first.min, first.extent
    else:
        start = build.min_(zero, by)
        begin = analyzer.simplify(build.add(first.min, start))
        extent = analyzer.simplify(build.sub(build.max_(low, high), start))
    number = build.sub(var, first.min)
    value = analyzer.simplify(build.add(build.sub(number, by), second.min))
    forward = Forward()
    analyzer.bind(var, Range(begin, extent), allow_override=True)
    bodies: list[Stmt] = []
    for loop, least, most, body in (
        (first, zero, low, first.body),
        (second, by, high, substitute(second.body, {second.loop_var: value})),
    ):
        tests: list[Expr] = [build.ge(number, least), build.lt(number, most)]
        held = [analyzer.simplify(test) for test in tests if not analyzer.can_prove(test)]
        made = predicated(body, build.all_of(*held)) if held else body
        if held:
            forward_predicated(forward, loop.body, made)
        else:
            forward.like(loop.body, made)
        bodies.append(made)
    return first.with_(min=begin, extent=extent, body=seq(bodies)), forward


def _check(step: Step) -> Verdict:
    beside, first, second, shift = _pair(step)
    around = loop_around(step, beside.site)
    scop = scop_in(step, beside.site, around)
    one, two = scop.loop(first), scop.loop(second)
    here = [*place_in(step, scop, around), constant(two.order)]
    positions: dict[Stmt, list[Coordinate]] = {
        first.body: [*here, single(one.var) - one.start, 0],
        second.body: [*here, single(two.var) - two.start + constant(shift), 1],
    }
    made, _ = _made(step, beside, first, second, shift)
    return order_verdict(step, beside.site, positions, around, beside.with_last(made))


def _rewrite(step: Step) -> Change:
    beside, first, second, shift = _pair(step)
    made, forward = _made(step, beside, first, second, shift)
    forward.keep(first, made)
    forward.end(second, made)
    return Change(Edit(beside.site, beside.with_last(made)), forward, (made,))


FUSE_SIBLINGS = Kind(
    "FuseSiblings",
    "fuse_siblings",
    (
        Slot("a", Takes.LOOP),
        Slot("b", Takes.LOOP),
        Slot("shift", Takes.INTEGER, default=0),
    ),
    _rewrite,
    """Run two loops that stand beside each other in step: iteration n of the first, then iteration n - ``shift`` of the
    second. Legal where none of the second needs, or overwrites, what a later one of the first does.

    The loop stands where the second one stood; where one of them is shorter, a condition leaves out what is too much.
    Returns it.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ...     for j in range(7):
    ...         B[j] = A[j + 1]
    ... '''))
    >>> sch.can("fuse_siblings", "i", "j").status
    'refuted'
    >>> sch.fuse_siblings("i", "j", shift=1)
    LoopRV('i')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in range(8):
            A[i] = i
            if 1 <= i:
                B[i - 1] = A[i - 1 + 1]
    """,
    check=_check,
    returns="one",
    tvm=False,
)
