"""``rfactor``: a reduction in partial results along one of its loops, which a second reduction brings together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, mentions
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BlockIter, BufferStore, For, ForKind, Seq, Stmt, seq
from tirlower.ir.structural import structural_equal
from tirlower.poly.dataflow import covers
from tirlower.poly.left_out import is_quiet
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.compute.reducers import Matched, match_reducer
from tirlower.schedule.draft import Draft
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, place_new
from tirlower.schedule.places import blocks_at, loops_at, statements_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Site
from tirlower.schedule.step import Step

__all__ = ["RFACTOR"]


@dataclass(frozen=True)
class _Sum:
    """The reduction: where its loop stands, its loops from the outermost on, what it writes, and how it combines what."""

    site: Site
    loops: tuple[For, ...]
    factor: For
    stores: tuple[BufferStore, ...]
    block: Block | None
    how: Matched

    @property
    def store(self) -> BufferStore:
        """The first of its stores: all have the same indices."""
        return self.stores[0]

    @property
    def names(self) -> str:
        """What is reduced to."""
        return ", ".join(store.buffer.name for store in self.stores)

    def begin(self) -> list[Expr]:
        """What partial results begin with."""
        if self.block is None and self.how.idempotent:
            # What stands there has a place that no number says; to be compared with it once more changes nothing.
            return [BufferLoad(store.buffer, store.indices) for store in self.stores]
        init = self.block.init if self.block is not None else None
        inits = {store.buffer: store.value for store in each(BufferStore, init)} if init is not None else {}
        buffers = [store.buffer for store in self.stores]
        return self.how.identity([one.dtype for one in buffers], [inits.get(one) for one in buffers])


def _sum(step: Step) -> _Sum:
    site, factor = step.site(step.handle("loop")), step.loop(step.handle("loop"))
    func = step.func(site)
    inner: Stmt = factor
    path = site.steps
    while isinstance(inner, For):
        path = (*path, "body")
        inner = inner.body
    block = inner if isinstance(inner, Block) else None
    stores, values = _updates(step, block.body if block is not None else inner)
    scope = blocks_at(func, path)
    around = loops_at(func, path)
    loops = [loop for way, loop in around if not scope or len(way) > len(scope[-1][0])]
    chain = [stmt for way, stmt in statements_at(func, path) if loops and len(way) >= len(_path_of(around, loops[0]))]
    if any(not isinstance(stmt, For) for stmt in chain[:-1]):
        step.refuse("more stands in the loops than the reduction", factor, "name a loop of a nest of its own")
    how = match_reducer(values, [BufferLoad(store.buffer, store.indices) for store in stores])
    if how is None:
        what = ", ".join(map(str, values))
        step.refuse(
            f"{what} is no sum, product, minimum or maximum with the old value, nor another reducer that is known",
            stores[0],
            "tirlower.schedule.compute.reducers.register_reducer makes one known",
        )
    if any(
        load.buffer is store.buffer for store in stores for index in store.indices for load in each(BufferLoad, index)
    ):
        step.refuse(f"the indices read {stores[0].buffer.name} itself", stores[0])
    return _Sum(site, tuple(loops), factor, tuple(stores), block, how)


def _updates(step: Step, body: Stmt) -> tuple[list[BufferStore], list[Expr]]:
    """The stores of an update, which are of one element each of different buffers at the same indices, with the values that names stand for."""
    names: dict[Var, Expr] = {}
    stores: list[BufferStore] = []
    values: list[Expr] = []
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        if isinstance(stmt, Bind) and not stores:
            names[stmt.var] = substitute(stmt.value, names)
            continue
        if not isinstance(stmt, BufferStore) or stmt.predicate is not None:
            step.refuse("one update in a nest of loops is meant", stmt)
        done = {store.buffer for store in stores}
        if stmt.buffer in done or any(load.buffer in done for load in each(BufferLoad, stmt.value)):
            step.refuse(
                f"{stmt.buffer.name} is computed of what was just written", stmt, "bind the values to names first"
            )
        stores.append(stmt)
        values.append(substitute(stmt.value, names))
    if not stores:
        step.refuse("one update in a nest of loops is meant", body)
    first = BufferLoad(stores[0].buffer, stores[0].indices)
    if not all(structural_equal(first, BufferLoad(first.buffer, store.indices)) for store in stores):
        step.refuse("the values are written at different indices", stores[0])
    return stores, values


def _path_of(around: Sequence[tuple[tuple[object, ...], For]], loop: For) -> tuple[object, ...]:
    return next(way for way, one in around if one is loop)


def _check(step: Step) -> Verdict:
    found = _sum(step)
    dims = len(found.store.buffer.shape)
    axis = step["factor_axis"]
    assert isinstance(axis, int)
    if not -dims - 1 <= axis <= dims:
        raise BadArgument(f"factor_axis={axis} is out of range: the partial results have {dims + 1} dimensions")
    values = {it.var: it.value for it in found.block.iters if it.value is not None} if found.block else {}
    if any(mentions(substitute(index, values), {found.factor.loop_var}) for index in found.store.indices):
        step.refuse(
            f"`{found.factor.loop_var.name}` is no loop of the reduction: {found.names} is indexed by it",
            found.factor,
        )
    for loop in found.loops:
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or mentions(
            loop.extent, {x.loop_var for x in found.loops}
        ):
            step.refuse(f"`{loop.loop_var.name}` is no serial loop of the same bounds in all iterations", loop)
    if not all(is_quiet(old.with_(value=term)) for old, term in zip(found.stores, found.how.terms, strict=True)):
        step.refuse("what is computed may fail, or has effects", found.store)
    parts = found.how.parts
    rounds = any(
        one.rounds and (store.buffer.dtype.is_float or one.ordered)
        for one, store in zip(parts, found.stores, strict=False)
    )
    if rounds or any(one.ordered for one in parts):
        licence = step.policy.reassociate
        declared = found.block is not None and any(it.kind is IterKind.REDUCE for it in found.block.iters)
        if licence is False or (licence == "declared" and not declared):
            why = (
                f"the sum into {found.names} rounds differently"
                if rounds
                else f"{found.names} may keep another one of equals"
            )
            return Verdict(
                "unknown",
                f"{why} in another order",
                help="allow it with reassociate=True, or declare the reduction by a block",
            )
        step.exactness = f"reassociated({found.names}, {found.how.name})"
    draft, _, partials = _draft(step)
    scop = draft.scop_after()
    for partial in partials:
        writes = [a for a in scop.accesses if a.data is partial.data and a.is_write]
        reads = [a for a in scop.accesses if a.data is partial.data and not a.is_write]
        covered = covers(scop, writes, reads)
        if covered.refuted:
            return Verdict(
                "unknown", f"a partial result in {partial.name} would be read before it is begun: {covered.reason}"
            )
        if not covered.proved:
            return covered
    return PROVED


def _draft(step: Step) -> tuple[Draft, Stmt, list[Buffer]]:
    """The edits, what is given a handle, and the buffers of partial results."""
    if isinstance(step.plan, tuple):
        return step.plan
    found = _sum(step)
    func = step.func(found.site)
    draft = Draft(step, found.site.func)
    axis = step["factor_axis"]
    assert isinstance(axis, int)
    dims = len(found.store.buffer.shape)
    at = axis if axis >= 0 else axis + dims + 1
    factor = found.factor
    partials: list[Buffer] = []
    for buffer in (store.buffer for store in found.stores):
        shape = [*buffer.shape[:at], factor.extent, *buffer.shape[at:]]
        partials.append(Buffer(f"{buffer.name}.rf", tuple(shape), buffer.dtype, scope=buffer.scope))
    way = next(way for way, one in loops_at(func, (*found.site.steps, "body")) if one is found.loops[0])
    make = _of_block if found.block is not None else _of_loops
    parts, handle, ends = make(draft, found, partials, at)
    draft.replace(way, *parts)
    row = Row.around(func, way)
    if row.body == way:
        draft.before(way, *map(AllocBuffer, partials))
    else:
        for partial in reversed(partials):
            place_new(draft, row, partial)
    for old, new in ends.items():
        draft.forward.keep(old, new)
    step.plan = draft, handle, partials
    return draft, handle, partials


def _body(stores: Sequence[BufferStore]) -> Stmt:
    """Stores of values that were all computed before the first of them is written."""
    if len(stores) == 1:
        return stores[0]
    bound = [Var(f"v_{store.buffer.name}", store.buffer.dtype) for store in stores]
    named = [Bind(var, store.value) for var, store in zip(bound, stores, strict=True)]
    return Seq((*named, *(store.with_(value=var) for store, var in zip(stores, bound, strict=True))))


def _number(factor: For, var: Expr) -> Expr:
    """The number of an iteration, from 0 on."""
    return var if is_const_int(factor.min, 0) else build.sub(var, factor.min)


def _of_block(
    draft: Draft, found: _Sum, partials: Sequence[Buffer], at: int
) -> tuple[list[Stmt], Stmt, dict[Stmt, Stmt]]:
    """The nests of a block: that of the partial results, and that which brings them together."""
    block = found.block
    assert block is not None
    reduced = [it for it in block.iters if it.kind is IterKind.REDUCE]
    spatial = [it for it in block.iters if it.kind is not IterKind.REDUCE]
    factor = found.factor
    # Each loop of the reduction is an iterator of the partial results.
    own: dict[Var, BlockIter] = {}
    for loop in found.loops:
        if any(it.value is not None and mentions(it.value, {loop.loop_var}) for it in reduced):
            kind = IterKind.SPATIAL if loop is factor else IterKind.REDUCE
            var = copy_var(loop.loop_var, f"v{loop.loop_var.name}")
            own[loop.loop_var] = BlockIter(var, Range(loop.min, loop.extent), kind, loop.loop_var)
    if factor.loop_var not in own:
        draft.step.refuse(f"`{factor.loop_var.name}` is no loop of the reduction", factor)
    bound = {it.var: substitute(it.value, {v: i.var for v, i in own.items()}) for it in reduced if it.value is not None}
    mine = {it.var: copy_var(it.var) for it in spatial}
    names = {**mine, **bound}
    indices = [substitute(index, names) for index in found.store.indices]
    spot = (*indices[:at], _number(factor, own[factor.loop_var].var), *indices[at:])
    values = [substitute(term, names) for term in found.how.terms]
    more = any(it.kind is IterKind.REDUCE for it in own.values())
    init: Stmt | None = None
    if more:
        values = found.how.combine([BufferLoad(partial, spot) for partial in partials], values)
        begun = [BufferStore(partial, unit, spot) for partial, unit in zip(partials, found.begin(), strict=True)]
        init = begun[0] if len(begun) == 1 else Seq(tuple(begun))
    body = _body([BufferStore(partial, value, spot) for partial, value in zip(partials, values, strict=True)])
    iters = (own[factor.loop_var], *(it.with_(var=mine[it.var]) for it in spatial))
    iters = (*iters, *(it for var, it in own.items() if var is not factor.loop_var))
    rf = with_regions(
        Block(
            f"{block.name}_rf", iters, substitute(block.predicate, names) if has_iters(block.predicate, block) else block.predicate,
            (), (), init, (), {}, body,
        )
    )  # fmt: skip
    nest: Stmt = rf
    for loop in reversed(found.loops):
        nest = loop.with_(body=nest)
        draft.forward.keep(loop, nest)
    last = copy_var(factor.loop_var, f"v{factor.loop_var.name}")
    loops = [loop for loop in found.loops if loop is factor or loop.loop_var not in own]
    fresh = {loop.loop_var: copy_var(loop.loop_var) for loop in loops}
    home = [it.with_(value=substitute(it.value, fresh)) for it in spatial if it.value is not None]
    over = BlockIter(last, Range(factor.min, factor.extent), IterKind.REDUCE, fresh[factor.loop_var])
    place = (*found.store.indices[:at], _number(factor, last), *found.store.indices[at:])
    olds = [BufferLoad(store.buffer, store.indices) for store in found.stores]
    both = found.how.combine(olds, [BufferLoad(partial, place) for partial in partials])
    update = _body([BufferStore(old.buffer, value, old.indices) for old, value in zip(olds, both, strict=True)])
    wb = with_regions(
        Block(block.name, (over, *home), const(1, "bool"), (), (), block.init, (), block.annotations, update)
    )
    back: Stmt = wb
    for loop in reversed(loops):
        back = For(fresh[loop.loop_var], loop.min, loop.extent, ForKind.SERIAL, None, {}, back)
    return [nest, back], rf, {block: wb}


def has_iters(predicate: Expr, block: Block) -> bool:
    """Whether a predicate names iterators of the block itself."""
    return mentions(predicate, {it.var for it in block.iters})


def _of_loops(
    draft: Draft, found: _Sum, partials: Sequence[Buffer], at: int
) -> tuple[list[Stmt], Stmt, dict[Stmt, Stmt]]:
    """The nests of plain loops: partial results begun, computed, brought together."""
    factor = found.factor
    indices = found.store.indices
    outer = [loop for loop in found.loops if loop is factor or any(mentions(i, {loop.loop_var}) for i in indices)]
    spot = (*indices[:at], _number(factor, factor.loop_var), *indices[at:])
    parts = [BufferLoad(partial, spot) for partial in partials]

    def nest(loops: Sequence[For], names: dict[Var, Var], body: Stmt) -> Stmt:
        for loop in reversed(loops):
            body = For(names[loop.loop_var], loop.min, loop.extent, ForKind.SERIAL, None, {}, body)
        return body

    names = [{loop.loop_var: copy_var(loop.loop_var) for loop in outer} for _ in range(2)]
    units = seq([BufferStore(one, unit, spot) for one, unit in zip(partials, found.begin(), strict=True)])
    begun = nest(outer, names[0], substitute(units, dict(names[0])))
    terms = found.how.combine(parts, found.how.terms)
    body = _body([BufferStore(partial, value, spot) for partial, value in zip(partials, terms, strict=True)])
    made = [one for one in (body.stmts if isinstance(body, Seq) else (body,)) if isinstance(one, BufferStore)]
    for old, new in zip(found.stores, made, strict=True):
        draft.forward.keep(old, new)
    for loop in reversed(found.loops):
        body = loop.with_(body=body)
        draft.forward.keep(loop, body)
    olds = [BufferLoad(store.buffer, indices) for store in found.stores]
    update = _body(
        [
            BufferStore(old.buffer, value, indices)
            for old, value in zip(olds, found.how.combine(olds, parts), strict=True)
        ]
    )
    return [begun, body, nest(outer, names[1], refresh_binders(update, dict(names[1])))], made[0], {}


def _rewrite(step: Step) -> Change:
    draft, handle, _ = _draft(step)
    return draft.change((handle,), step.exactness)


RFACTOR = Kind(
    "RFactor",
    "rfactor",
    (Slot("loop", Takes.LOOP), Slot("factor_axis", Takes.INTEGER, attr=True)),
    _rewrite,
    """Sum up in partial results, one for each iteration of a loop of a reduction, which a second reduction brings together.
    Returns the block of the partial results.

    Sums, products, minima and maxima, extrema with their places, several of these at once, and what :func:`~tirlower.schedule.compute.reducers.register_reducer`
    makes known. ``factor_axis``: the dimension of the partial results' buffer ``<B>.rf`` that the loop
    indexes, negative from the end. Sums of floats round in another order then, which a block with reduction iterators
    allows, or ``reassociate=True``.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
    ...     for i, k in T.grid(4, 8):
    ...         with T.block("C"):
    ...             vi, vk = T.axis.remap("SR", [i, k])
    ...             with T.init():
    ...                 C[vi] = T.float32(0)
    ...             C[vi] += A[vi, vk]
    ... '''))
    >>> i, k = sch.get_loops("C")
    >>> k_0, k_1 = sch.split(k, [None, 4])
    >>> sch.rfactor(k_1, 0)
    BlockRV('C_rf')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4,), "float32")):
        C_rf = T.alloc_buffer((4, 4))
        for i, k_0, k_1 in T.grid(4, 2, 4):
            with T.block("C_rf"):
                vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
                T.reads(A[vi, vk_0 * 4 + vk_1])
                T.writes(C_rf[vk_1, vi])
                with T.init():
                    C_rf[vk_1, vi] = T.float32(0)
                C_rf[vk_1, vi] = C_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
        for i, k_1 in T.grid(4, 4):
            with T.block("C"):
                vk_1, vi = T.axis.remap("RS", [k_1, i])
                T.reads(C_rf[vk_1, vi])
                T.writes(C[vi])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + C_rf[vk_1, vi]
    """,
    check=_check,
    returns="one",
)
