"""``merge``: nests that stand beside each other become one nest that does what all of them do."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.expr import Expr, Var
from tirlower.ir.functor import substitute
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import For, Stmt, seq
from tirlower.poly.forms import constant, single
from tirlower.poly.order_kept import Coordinate
from tirlower.poly.verdict import Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.siblings import Siblings, need_alike, siblings_of
from tirlower.schedule.positions import loop_around, order_verdict, place_in, scop_in
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["MERGE"]


def _nests(step: Step) -> Siblings:
    handles = step.handles("loops")
    if len(handles) < 2:
        raise ValueError("'merge' requires at least 2 loop(s)")
    beside = siblings_of(step, handles)
    first, analyzer = beside.chains[0], step.analyzer(beside.site)
    for chain in beside.chains[1:]:
        if len(chain) != len(first):
            step.refuse(
                f"the loops `{first[-1].loop_var.name}` and `{chain[-1].loop_var.name}` are at different depths of their "
                f"nests: {len(first)} and {len(chain)}",
                chain[-1],
            )
        same: dict[Var, Expr] = {}
        for one, two in zip(first, chain, strict=True):
            need_alike(step, [one, two])
            if not analyzer.can_prove_equal(one.extent, substitute(build.cast(one.loop_var.dtype, two.extent), same)):
                step.refuse(
                    f"the extents of `{one.loop_var.name}` and `{two.loop_var.name}` differ: {one.extent} and {two.extent}",
                    two,
                    "fuse_siblings() takes loops of different extents",
                )
            number = build.add(build.sub(one.loop_var, one.min), build.cast(one.loop_var.dtype, two.min))
            same[two.loop_var] = build.cast(two.loop_var.dtype, number)
    scop = scop_in(step, beside.site, loop_around(step, beside.site))
    for chain in beside.chains:
        for node in chain:
            loop = scop.loop(node)
            if loop.leaves or (loop.continues and chain is not beside.chains[-1]):
                step.refuse(f"a statement ends iterations of `{loop.name}` early, or leaves it", node)
    return beside


def _made(step: Step, beside: Siblings) -> tuple[list[For], Forward]:
    """The loops of the merged nest, the outermost first."""
    forward, analyzer = Forward(), step.analyzer(beside.site)
    first = beside.chains[0]
    variables = [copy_var(loop.loop_var, f"{loop.loop_var.name}_m") for loop in first]
    own: dict[Var, Expr] = {loop.loop_var: var for loop, var in zip(first, variables, strict=True)}
    heads = [
        loop.with_(loop_var=var, min=substitute(loop.min, own), extent=substitute(loop.extent, own))
        for loop, var in zip(first, variables, strict=True)
    ]
    bodies: list[Stmt] = []
    for chain in beside.chains:
        values: dict[Var, Expr] = {}
        for head, loop in zip(heads, chain, strict=True):
            start = substitute(loop.min, values)
            number = build.sub(head.loop_var, head.min)
            values[loop.loop_var] = analyzer.simplify(build.add(build.cast(start.dtype, number), start))
        body = substitute(chain[-1].body, values)
        forward.like(chain[-1].body, body)
        bodies.append(body)
    made: Stmt = seq(bodies)
    loops: list[For] = []
    for head in reversed(heads):
        made = head.with_(body=made)
        loops.append(made)
    loops.reverse()
    for chain in beside.chains:
        for old, new in zip(chain, loops, strict=True):
            forward.end(old, new)
    return loops, forward


def _check(step: Step) -> Verdict:
    beside = _nests(step)
    around = loop_around(step, beside.site)
    scop = scop_in(step, beside.site, around)
    here = [*place_in(step, scop, around), constant(scop.loop(beside.chains[-1][0]).order)]
    positions: dict[Stmt, list[Coordinate]] = {}
    for number, chain in enumerate(beside.chains):
        numbers = [single(scop.loop(loop).var) - scop.loop(loop).start for loop in chain]
        positions[chain[-1].body] = [*here, *numbers, number]
    loops, _ = _made(step, beside)
    return order_verdict(step, beside.site, positions, around, beside.with_last(loops[0]))


def _rewrite(step: Step) -> Change:
    beside = _nests(step)
    loops, forward = _made(step, beside)
    return Change(Edit(beside.site, beside.with_last(loops[0])), forward, tuple(loops[-1:]))


MERGE = Kind(
    "Merge",
    "merge",
    (Slot("loops", Takes.LOOP, rest=True, keyword=""),),
    _rewrite,
    """Merge nests that stand beside each other, given by their innermost loops, into one that runs each iteration of all of
    them together, where the last one stood. Legal where no dependence is turned round.

    The variables are ``i_m`` …. Returns the innermost loop.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32")):
    ...     for i, j in T.grid(4, 6):
    ...         A[i, j] = i
    ...     for k, l in T.grid(4, 6):
    ...         B[k, l] = A[k, l] + l
    ... '''))
    >>> sch.merge("j", "l")
    LoopRV('j_m')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 6), "int32"), B: T.Buffer((4, 6), "int32")):
        for i_m, j_m in T.grid(4, 6):
            A[i_m, j_m] = i_m
            B[i_m, j_m] = A[i_m, j_m] + j_m
    """,
    check=_check,
    returns="one",
)
