"""``decompose_padding``: the constant of a padding is filled in front of a loop, and the rest computed only where it is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.arith.linear import detect_linear_equation
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import GE, GT, LE, LT, And, BufferLoad, Call, Expr, FloatImm, IntImm, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op
from tirlower.ir.query import has, mentions
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, ForKind, IfThenElse, Stmt
from tirlower.schedule.draft import Draft, Made, ValueStep, mapped
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import loops_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Site, Steps
from tirlower.schedule.step import Step

__all__ = ["DECOMPOSE_PADDING"]

_IF = Op.get("tir.if_then_else")


def _make(step: Step) -> Made:
    stage, place = step.stage("block"), step.site(step.handle("loop"))
    site, block, loop = stage.site, stage.block, step.loop(step.handle("loop"))
    stores = stage.stores()
    if len(stores) != 1 or (block is not None and block.body is not stores[0][1]):
        step.refuse("a block of one store is meant, or one store", stage.stmt)
    [(way, store)] = stores
    if block is None:
        site = Site(site.func, (*site.steps, *way))
    if site.func != place.func or site.steps[: len(place.steps)] != place.steps:
        named = f"block `{block.name}`" if block is not None else f"store to {store.buffer.name}"
        step.refuse(f"the loop `{loop.loop_var.name}` is not around the {named}", loop)
    value = store.value
    if not isinstance(value, Call) or value.op is not _IF or not isinstance(value.args[2], (IntImm, FloatImm)):
        step.refuse("what is stored is no if_then_else(…, …, constant)", store)
    condition, inner, filler = value.args
    if has(BufferLoad, condition):
        step.refuse(f"the condition {condition} reads memory", store)
    func = step.func(site)
    loops = [one for way, one in loops_at(func, site.steps) if len(way) >= len(place.steps)]
    draft = Draft(step, site.func)
    if block is None:
        return _plain(step, draft, site, place, loops, store, condition)
    names: dict[Var, Expr] = {one.loop_var: copy_var(one.loop_var) for one in loops}
    own = {it.var: copy_var(it.var) for it in block.iters}
    iters = tuple(
        it.with_(var=own[it.var], value=None if it.value is None else substitute(it.value, names)) for it in block.iters
    )
    fill = BufferStore(store.buffer, filler, tuple(substitute(index, dict(own)) for index in store.indices))
    predicate = substitute(block.predicate, names)
    made = with_regions(Block(f"{block.name}_pad_const", iters, predicate, (), (), None, (), {}, fill))
    draft.before(place.steps, _around(made, loops, names))
    # The constant is the value of the old store where the condition does not hold; elsewhere it is overwritten.
    bound = substitute(condition, {it.var: it.value for it in block.iters if it.value is not None})
    draft.stores(fill, store, names)
    draft.where[fill] = build.logical_not(substitute(bound, names))
    trimmed = _trimmed(step, block, loops, condition)
    if trimmed is not None:
        _put_trimmed(draft, place.steps, block, loops, store, inner, *trimmed)
        return Made(draft, (made,))
    kept = store.with_(value=inner)
    both = bound if is_const_int(block.predicate, 1) else build.logical_and(block.predicate, bound)
    rest = with_regions(block.with_(body=kept, predicate=both, reads=(), writes=()))
    draft.replace(site.steps, rest)
    draft.same(kept, store)
    draft.same(rest, block)
    draft.forward.keep(block, rest)
    draft.forward.keep(store, kept)
    return Made(draft, (made,))


def _around(inner: Stmt, loops: Sequence[For], names: Mapping[Var, Expr]) -> Stmt:
    """Loops of their own, serial ones, around what fills."""
    for one in reversed(loops):
        var = names[one.loop_var]
        assert isinstance(var, Var)
        inner = For(var, substitute(one.min, names), substitute(one.extent, names), ForKind.SERIAL, None, {}, inner)
    return inner


def _plain(
    step: Step, draft: Draft, site: Site, place: Site, loops: Sequence[For], store: BufferStore, condition: Expr
) -> Made:
    """The same of a store without a block: its loops go over the region alone, and an ``if`` has what else is asked."""
    assert isinstance(store.value, Call)
    _, inner, filler = store.value.args
    names: dict[Var, Expr] = {one.loop_var: copy_var(one.loop_var) for one in loops}
    fill = BufferStore(store.buffer, filler, tuple(substitute(index, names) for index in store.indices))
    nest = _around(fill, loops, names)
    draft.before(place.steps, nest)
    draft.stores(fill, store, names)
    draft.where[fill] = build.logical_not(substitute(condition, names))
    kept = store.with_(value=inner)
    draft.same(kept, store)
    draft.forward.keep(store, kept)
    chain: list[Stmt] = [*loops, store]
    if any(isinstance(one, For) and one.body is not below for one, below in itertools.pairwise(chain)):
        draft.replace(site.steps, IfThenElse(condition, kept))
        return Made(draft, (nest,))
    own = {one.loop_var: Range(one.min, one.extent) for one in loops}
    found, rest = _region(step.analyzer(place), own, list(own), condition)
    made: Stmt = IfThenElse(reduce(build.logical_and, rest), kept) if rest else kept
    for loop in reversed(loops):
        at = found[loop.loop_var]
        made = loop.with_(min=at.min, extent=at.extent, body=made)
        draft.forward.keep(loop, made)
    draft.replace(place.steps, made)
    return Made(draft, (nest,))


def _region(
    known: Analyzer, own: Mapping[Var, Range], iters: Sequence[Var], condition: Expr
) -> tuple[dict[Var, Range], list[Expr]]:
    """Where a condition holds as ranges of variables, and what else it says."""
    found, rest = dict(own), list[Expr]()
    for part in _conjuncts(condition):
        side = _side(part, iters)
        if side is None or side[0] not in own:
            rest.append(part)
            continue
        var, low, end = side
        old = found[var]
        stop = build.add(old.min, old.extent)
        least = old.min if low is None else known.simplify(build.max_(old.min, low))
        past = stop if end is None else known.simplify(build.min_(stop, end))
        found[var] = Range(least, known.simplify(build.sub(past, least)))
    return found, rest


def _trimmed(
    step: Step, block: Block, loops: Sequence[For], condition: Expr
) -> tuple[dict[Var, Range], list[Expr]] | None:
    """Where the condition holds as ranges of iterators that are bound to loops of their own, and what else it says; None where it says nothing
    of these, or more stands in the loops."""
    chain: list[Stmt] = [*loops, block]
    if not is_const_int(block.predicate, 1) or any(
        isinstance(one, For) and one.body is not inner for one, inner in itertools.pairwise(chain)
    ):
        return None
    known = step.analyzer(step.site(step.handle("loop")))
    own = {it.var: it.domain for it in block.iters if _has_own_loop(it, block, loops, known)}
    found, rest = _region(known, own, [it.var for it in block.iters], condition)
    changed = {var: at for var, at in found.items() if not known.can_prove_equal(at.extent, own[var].extent)}
    if not changed or not all(known.can_prove(build.gt(at.extent, 0)) for at in changed.values()):
        return None
    return changed, rest


def _has_own_loop(it: BlockIter, block: Block, loops: Sequence[For], known: Analyzer) -> bool:
    """Whether an iterator goes over a loop that nothing else depends on, from 0 on."""
    loop = next((one for one in loops if one.loop_var is it.value), None)
    if loop is None or not is_const_int(loop.min, 0) or not is_const_int(it.domain.min, 0):
        return False
    others = [one.value for one in block.iters if one is not it and one.value is not None]
    others += [part for one in loops for part in (one.min, one.extent)]
    alone = not any(mentions(one, {loop.loop_var}) for one in others)
    return alone and known.can_prove_equal(loop.extent, it.domain.extent)


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [] if is_const_int(condition, 1) else [condition]


def _side(part: Expr, iters: Sequence[Var]) -> tuple[Var, Expr | None, Expr | None] | None:
    """A comparison as a bound of one iterator: from where on, or up to where, exclusive."""
    if not isinstance(part, (LT, LE, GT, GE)):
        return None
    small, large = (part.a, part.b) if isinstance(part, (LT, LE)) else (part.b, part.a)
    names = [var for var in iters if mentions(part, {var})]
    if len(names) != 1:
        return None
    [var] = names
    form = detect_linear_equation(build.sub(large, small), [var])
    if not form or not isinstance(form[0], IntImm) or abs(form[0].value) != 1 or mentions(form[1], set(iters)):
        return None
    # large - small is c * var + rest, and is at least 1 (or 0).
    rest = form[1] if isinstance(part, (LE, GE)) else build.sub(form[1], 1)
    return (var, build.sub(0, rest), None) if form[0].value == 1 else (var, None, build.add(rest, 1))


def _put_trimmed(
    draft: Draft,
    place: Steps,
    block: Block,
    loops: Sequence[For],
    store: BufferStore,
    inner: Expr,
    trimmed: Mapping[Var, Range],
    rest: Sequence[Expr],
) -> None:
    """The block in loops over its own region alone, which count from 0; ``rest`` is what else its condition says."""
    known = Analyzer()
    for it in block.iters:
        known.bind(it.var, Range(const(0, it.var.dtype), trimmed.get(it.var, it.domain).extent))
    by_loop = {it.value: trimmed[it.var] for it in block.iters if it.var in trimmed}
    moved: dict[Var, Expr] = {var: build.add(var, at.min) for var, at in trimmed.items()}
    values: dict[Var, Expr] = {
        it.value: build.add(it.value, trimmed[it.var].min)
        for it in block.iters
        if it.var in trimmed and isinstance(it.value, Var)
    }

    def load(old: BufferLoad, new: BufferLoad) -> Expr:
        made = new.with_(indices=tuple(known.simplify(index) for index in new.indices))
        return draft.load(made, store, old, values)

    indices = tuple(known.simplify(substitute(index, moved)) for index in store.indices)
    kept = BufferStore(store.buffer, mapped(inner, load, moved), indices, span=store.span)
    draft.stores(kept, store, values)
    draft.forward.keep(store, kept)
    iters = tuple(
        it.with_(domain=Range(const(0, it.var.dtype), trimmed[it.var].extent)) if it.var in trimmed else it
        for it in block.iters
    )
    bindings = {it.var: it.value for it in block.iters if it.value is not None}
    only = [substitute(substitute(part, moved), bindings) for part in rest]
    predicate = reduce(build.logical_and, only) if only else block.predicate
    made: Stmt = with_regions(block.with_(iters=iters, body=kept, predicate=predicate))
    draft.forward.keep(block, made)
    for loop in reversed(loops):
        extent = by_loop[loop.loop_var].extent if loop.loop_var in by_loop else loop.extent
        made = loop.with_(extent=extent, body=made)
        draft.forward.keep(loop, made)
    draft.replace(place, made)


_STEP = ValueStep(_make)
DECOMPOSE_PADDING = Kind(
    "DecomposePadding",
    "decompose_padding",
    (Slot("block", Takes.STAGE), Slot("loop", Takes.LOOP)),
    _STEP.rewrite,
    """Fill the constant of a padding in front of a loop, in a block ``<b>_pad_const``, which is returned; the block itself then
    stores only where its condition holds: in loops over that region alone, where it is a box of iterators that have loops of their own, else under
    the condition. Of a store without a block it is done likewise, and the loop that fills is returned.

    Legal where nothing in between sees or changes what is filled.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((10,), "int32")):
    ...     for i in range(10):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(10, i)
    ...             B[v] = T.if_then_else(1 <= v and v < 9, A[v - 1], 0)
    ... '''))
    >>> sch.decompose_padding("B", sch.get_loops("B")[0])
    BlockRV('B_pad_const')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((10,), "int32")):
        for i in range(10):
            with T.block("B_pad_const"):
                v = T.axis.spatial(10, i)
                T.reads()
                T.writes(B[v])
                B[v] = 0
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(B[v + 1])
                B[v + 1] = A[v]
    """,
    check=_STEP.check,
    returns="one",
)
