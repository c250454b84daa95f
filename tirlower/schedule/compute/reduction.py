"""``decompose_reduction``: the init of a reduction as a block of its own, in front of a loop."""

from __future__ import annotations

from functools import reduce

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.expr import And, Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Block, For, ForKind, Stmt
from tirlower.schedule.compute.moved import sees_all
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import loops_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.step import Step

__all__ = ["DECOMPOSE_REDUCTION"]


def _make(step: Step) -> Made:
    handle, around = step.handle("block"), step.handle("loop")
    site, place = step.site(handle), step.site(around)
    block, loop = step.stmt(handle), step.loop(around)
    if not isinstance(block, Block) or block.init is None:
        step.refuse(
            "the block has no init", block if isinstance(block, Stmt) else None, "name a reduction with T.init()"
        )
    if site.func != place.func or site.steps[: len(place.steps)] != place.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is not around the block `{block.name}`", loop)
    func = step.func(site)
    loops = [one for way, one in loops_at(func, site.steps) if len(way) >= len(place.steps)]
    draft = Draft(step, site.func)
    spatial = [it for it in block.iters if it.kind is not IterKind.REDUCE]
    reduced = [it for it in block.iters if it.kind is IterKind.REDUCE]
    used = [one for one in loops if any(it.value is not None and mentions(it.value, {one.loop_var}) for it in spatial)]
    names = {one.loop_var: copy_var(one.loop_var, f"{one.loop_var.name}_init") for one in used}
    values: dict[Var, Expr] = {one.loop_var: names.get(one.loop_var, one.min) for one in loops}
    own = {it.var: copy_var(it.var) for it in spatial}
    iters = tuple(
        it.with_(var=own[it.var], value=None if it.value is None else substitute(it.value, values)) for it in spatial
    )
    predicate = _predicate(step, block, values)
    firsts = {it.var: it.domain.min for it in reduced}
    init = refresh_binders(substitute(substitute(block.init, firsts), dict(own)))
    init_block: Stmt = Block(f"{block.name}_init", iters, predicate, (), (), None, (), {}, init)
    assert isinstance(init_block, Block)
    init_block = with_regions(init_block)
    sees_all(
        step,
        func,
        site.steps,
        place.steps,
        init_block,
        f"what the init uses is declared inside of `{loop.loop_var.name}`",
    )
    nest: Stmt = init_block
    for one in reversed(used):
        bounds = Range(substitute(one.min, values), substitute(one.extent, values))
        nest = For(names[one.loop_var], bounds.min, bounds.extent, ForKind.SERIAL, None, {}, nest)
    draft.before(place.steps, nest)
    draft.same(init_block.body, block.init, values)
    draft.same(init_block, block, values)
    update = with_regions(block.with_(name=f"{block.name}_update", init=None, reads=(), writes=()))
    draft.replace(site.steps, update)
    draft.keep(block.body, update.body)
    draft.same(update, block)
    draft.forward.keep(block, update)
    for _, stmt in step.facts.inside(block.init):
        draft.forward.end(stmt)
    return Made(draft, (init_block,))


def _predicate(step: Step, block: Block, values: dict[Var, Expr]) -> Expr:
    """Where the init runs: where the block does, in the first iteration of what is reduced."""
    found: list[Expr] = []
    dropped = {var for var, value in values.items() if not isinstance(value, Var)}
    for part in _conjuncts(block.predicate):
        if not mentions(part, dropped):
            found.append(substitute(part, values))
    analyzer: Analyzer = step.analyzer(step.site(step.handle("loop")))
    for it in block.iters:
        if it.kind is IterKind.REDUCE and it.value is not None:
            first = analyzer.simplify(build.eq(substitute(it.value, values), it.domain.min))
            if not is_const_int(first, 1):
                found.append(first)
    return reduce(build.logical_and, found) if found else const(1, "bool")


def _conjuncts(predicate: Expr) -> list[Expr]:
    if isinstance(predicate, And):
        return [*_conjuncts(predicate.a), *_conjuncts(predicate.b)]
    return [] if is_const_int(predicate, 1) else [predicate]


_STEP = ValueStep(_make)
DECOMPOSE_REDUCTION = Kind(
    "DecomposeReduction",
    "decompose_reduction",
    (Slot("block", Takes.BLOCK), Slot("loop", Takes.LOOP)),
    _STEP.rewrite,
    """Put the init of a reduction in a block of its own, in front of a loop around the reduction. Returns that block.

    Legal where nothing in between sees or changes what the init writes. The block is named ``<b>_init``, the loops that it
    needs ``<i>_init``; what is left, the block's handle too, is ``<b>_update``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i, k in T.grid(4, 8):
    ...         with T.block("C"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 C[vi] = 0
    ...             C[vi] += A[vi, vk]
    ... '''))
    >>> i, k = sch.get_loops("C")
    >>> sch.decompose_reduction("C", k)
    BlockRV('C_init')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("C_init"):
                vi = T.axis.spatial(4, i)
                T.reads()
                T.writes(C[vi])
                C[vi] = 0
            for k in range(8):
                with T.block("C_update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(C[vi], A[vi, vk])
                    T.writes(C[vi])
                    C[vi] = C[vi] + A[vi, vk]
    """,
    check=_STEP.check,
    returns="one",
)
