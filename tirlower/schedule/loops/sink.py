"""``sink``: a statement beside a loop goes into its first or last iteration."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.expr import BufferLoad, Call, Expr
from tirlower.ir.query import has
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import DECLARATIONS, For, Stmt, seq
from tirlower.poly.verdict import Verdict
from tirlower.schedule.bindings import forward_predicated, predicated
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.statements import Placed, placed
from tirlower.schedule.positions import still_concurrent
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["SINK"]


def _parts(step: Step) -> tuple[Placed, Placed, For]:
    """The statement, the statement that the loop is in its sequence, and the loop."""
    one, loop = placed(step, step.handle("stmt")), step.loop(step.handle("into"))
    site = step.site(step.handle("into"))
    steps = site.steps
    if not steps or not isinstance(steps[-1], int) or steps[:-2] != one.site.steps or site.func != one.site.func:
        step.refuse(f"the loop `{loop.loop_var.name}` does not stand beside the statement", loop)
    two = Placed(one.site, one.node, steps[-1])
    if abs(one.number - two.number) != 1:
        step.refuse("the statement does not stand directly before or behind the loop", loop, "reorder_stmts() moves it")
    return one, two, loop


def _made(step: Step) -> tuple[For, Forward]:
    one, two, loop = _parts(step)
    analyzer, forward = step.analyzer(step.site(step.handle("into"))), Forward()
    at: Expr = loop.min
    if one.number > two.number:
        at = analyzer.simplify(build.sub(build.add(loop.min, loop.extent), 1))
    guarded: Stmt = one.stmt
    if not analyzer.can_prove_equal(loop.extent, 1):
        guarded = predicated(one.stmt, build.eq(loop.loop_var, at))
        forward_predicated(forward, one.stmt, guarded)
    parts = [guarded, loop.body] if one.number < two.number else [loop.body, guarded]
    made = loop.with_(body=seq(parts))
    forward.keep(loop, made)
    return made, forward


def _check(step: Step) -> Verdict:
    one, two, loop = _parts(step)
    if isinstance(one.stmt, DECLARATIONS):
        step.refuse("a declaration stays in front of what uses it", one.stmt)
    if has((BufferLoad, Call), loop.min, loop.extent):
        step.refuse("the bounds of the loop read memory", loop, "store them in scalars first")
    if not step.analyzer(step.site(step.handle("into"))).can_prove(build.gt(loop.extent, 0)):
        step.refuse(
            f"the loop `{loop.loop_var.name}` is not known to run at all", loop, "state its extent with T.assume(…)"
        )
    scop = step.facts.part(step.func(two.site), (*two.site.steps, "stmts", two.number))
    known = scop.loop(loop)
    if known.leaves or known.continues or jumps_out(one.stmt):
        step.refuse("a statement ends iterations early, or leaves the loop", loop)
    return still_concurrent(step, step.site(step.handle("into")), _made(step)[0])


def _rewrite(step: Step) -> Change:
    one, two, _ = _parts(step)
    made, forward = _made(step)
    steps = one.site / ("stmts",)
    return Change((Edit(steps / (one.number,), None), Edit(steps / (two.number,), made)), forward)


SINK = Kind(
    "Sink",
    "sink",
    (Slot("stmt", Takes.STAGE), Slot("into", Takes.LOOP)),
    _rewrite,
    """Move a statement that stands directly before or behind a loop into its first or last iteration. Legal where the loop
    certainly runs.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     A[0] = 7
    ...     for i in range(4):
    ...         B[i] = A[0]
    ... '''))
    >>> sch.sink("A", "i")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            if i == 0:
                A[0] = 7
            B[i] = A[0]
    """,
    check=_check,
    tvm=False,
)
