"""``rfactor``: a reduction in partial results along one of its loops, which a second reduction brings together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import Add, BinaryOp, BufferLoad, Expr, Max, Min, Mul, Var, const, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, mentions
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import AllocBuffer, Block, BlockIter, BufferStore, For, ForKind, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.poly.dataflow import covers
from tirlower.poly.left_out import is_quiet
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.draft import Draft
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, place_new
from tirlower.schedule.places import blocks_at, loops_at, statements_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Site
from tirlower.schedule.step import Step

__all__ = ["RFACTOR"]

_COMBINE = {Add: build.add, Mul: build.mul, Min: build.min_, Max: build.max_}


@dataclass(frozen=True)
class _Sum:
    """The reduction: where its loop stands, its loops from the outermost on, what it adds, and how."""

    site: Site
    top: int
    loops: tuple[For, ...]
    factor: For
    store: BufferStore
    block: Block | None
    term: Expr
    kind: type[BinaryOp]

    @property
    def buffer(self) -> Buffer:
        """What is summed up to."""
        return self.store.buffer


def identity(found: _Sum) -> Expr:
    """The value that changes nothing; of floats an infinity, but for extrema that begin with the least or greatest number."""
    kind, dtype = found.kind, found.buffer.dtype
    if kind is Add:
        return const(0, dtype)
    if kind is Mul:
        return const(1, dtype)
    bound = build.max_value(dtype) if kind is Min else build.min_value(dtype)
    init = found.block.init if found.block is not None else None
    if not dtype.is_float or (isinstance(init, BufferStore) and structural_equal(init.value, bound)):
        return bound
    return const(math.inf if kind is Min else -math.inf, dtype)


def _sum(step: Step) -> _Sum:
    site, factor = step.site(step.handle("loop")), step.loop(step.handle("loop"))
    func = step.func(site)
    inner: Stmt = factor
    path = site.steps
    while isinstance(inner, For):
        path = (*path, "body")
        inner = inner.body
    block = inner if isinstance(inner, Block) else None
    store = block.body if block is not None else inner
    if not isinstance(store, BufferStore):
        step.refuse("one update in a nest of loops is meant", inner)
    scope = blocks_at(func, path)
    around = loops_at(func, path)
    loops = [loop for way, loop in around if not scope or len(way) > len(scope[-1][0])]
    chain = [stmt for way, stmt in statements_at(func, path) if loops and len(way) >= len(_path_of(around, loops[0]))]
    if any(not isinstance(stmt, For) for stmt in chain[:-1]):
        step.refuse("more stands in the loops than the reduction", factor, "name a loop of a nest of its own")
    value = store.value
    if not isinstance(value, BinaryOp) or type(value) not in _COMBINE:
        step.refuse(f"{value} is no sum, product, minimum or maximum with the old value", store)
    own = BufferLoad(store.buffer, store.indices)
    first, second = (isinstance(x, BufferLoad) and structural_equal(x, own) for x in (value.a, value.b))
    if not first and not second:
        step.refuse(f"{value} does not combine the old value of {store.buffer.name} with another one", store)
    kind, term = type(value), value.b if first else value.a
    if any(load.buffer is store.buffer for root in (term, *store.indices) for load in each(BufferLoad, root)):
        step.refuse(f"what is added reads {store.buffer.name} itself", store)
    return _Sum(site, len(around) - len(loops), tuple(loops), factor, store, block, term, kind)


def _path_of(around: Sequence[tuple[tuple[object, ...], For]], loop: For) -> tuple[object, ...]:
    return next(way for way, one in around if one is loop)


def _check(step: Step) -> Verdict:
    found = _sum(step)
    dims = len(found.buffer.shape)
    axis = step["factor_axis"]
    assert isinstance(axis, int)
    if not -dims - 1 <= axis <= dims:
        raise BadArgument(f"factor_axis={axis} is out of range: the partial results have {dims + 1} dimensions")
    values = {it.var: it.value for it in found.block.iters if it.value is not None} if found.block else {}
    if any(mentions(substitute(index, values), {found.factor.loop_var}) for index in found.store.indices):
        step.refuse(
            f"`{found.factor.loop_var.name}` is no loop of the reduction: {found.buffer.name} is indexed by it",
            found.factor,
        )
    for loop in found.loops:
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or mentions(
            loop.extent, {x.loop_var for x in found.loops}
        ):
            step.refuse(f"`{loop.loop_var.name}` is no serial loop of the same bounds in all iterations", loop)
    if not is_quiet(found.store):
        step.refuse("what is computed may fail, or has effects", found.store)
    floats = found.buffer.dtype.is_float and found.kind in (Add, Mul)
    if floats:
        licence = step.policy.reassociate
        declared = found.block is not None and any(it.kind is IterKind.REDUCE for it in found.block.iters)
        if licence is False or (licence == "declared" and not declared):
            return Verdict(
                "unknown",
                f"the sum into {found.buffer.name} rounds differently in another order",
                help="allow it with reassociate=True, or declare the reduction by a block",
            )
        step.exactness = f"reassociated({found.buffer.name}, {found.kind.__name__.lower()})"
    draft, _, partial = _draft(step)
    scop = step.facts.scop(draft.func())
    writes = [a for a in scop.accesses if a.data is partial.data and a.is_write]
    reads = [a for a in scop.accesses if a.data is partial.data and not a.is_write]
    covered = covers(scop, writes, reads)
    if covered.refuted:
        return Verdict(
            "unknown", f"a partial result in {partial.name} would be read before it is begun: {covered.reason}"
        )
    return PROVED if covered.proved else covered


def _draft(step: Step) -> tuple[Draft, Stmt, Buffer]:
    """The edits, what is given a handle, and the buffer of partial results."""
    if isinstance(step.plan, tuple):
        return step.plan
    found = _sum(step)
    func = step.func(found.site)
    draft = Draft(step, found.site.func)
    axis = step["factor_axis"]
    assert isinstance(axis, int)
    at = axis if axis >= 0 else axis + len(found.buffer.shape) + 1
    factor = found.factor
    shape = [*found.buffer.shape[:at], factor.extent, *found.buffer.shape[at:]]
    partial = Buffer(f"{found.buffer.name}.rf", tuple(shape), found.buffer.dtype, scope=found.buffer.scope)
    way = next(way for way, one in loops_at(func, (*found.site.steps, "body")) if one is found.loops[0])
    make = _of_block if found.block is not None else _of_loops
    parts, handle, ends = make(draft, found, partial, at)
    draft.replace(way, *parts)
    row = Row.around(func, way)
    if row.body == way:
        draft.before(way, AllocBuffer(partial))
    else:
        place_new(draft, row, partial)
    for old, new in ends.items():
        draft.forward.keep(old, new)
    step.plan = draft, handle, partial
    return draft, handle, partial


def _number(factor: For, var: Expr) -> Expr:
    """The number of an iteration, from 0 on."""
    return var if is_const_int(factor.min, 0) else build.sub(var, factor.min)


def _of_block(draft: Draft, found: _Sum, partial: Buffer, at: int) -> tuple[list[Stmt], Stmt, dict[Stmt, Stmt]]:
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
    term = substitute(found.term, names)
    more = any(it.kind is IterKind.REDUCE for it in own.values())
    value = _COMBINE[found.kind](BufferLoad(partial, spot), term) if more else term
    init = BufferStore(partial, identity(found), spot) if more else None
    iters = (own[factor.loop_var], *(it.with_(var=mine[it.var]) for it in spatial))
    iters = (*iters, *(it for var, it in own.items() if var is not factor.loop_var))
    rf = with_regions(
        Block(
            f"{block.name}_rf", iters, substitute(block.predicate, names) if has_iters(block.predicate, block) else block.predicate,
            (), (), init, (), {}, BufferStore(partial, value, spot),
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
    update = BufferStore(
        found.buffer,
        _COMBINE[found.kind](BufferLoad(found.buffer, found.store.indices), BufferLoad(partial, place)),
        found.store.indices,
    )
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


def _of_loops(draft: Draft, found: _Sum, partial: Buffer, at: int) -> tuple[list[Stmt], Stmt, dict[Stmt, Stmt]]:
    """The nests of plain loops: partial results begun, computed, brought together."""
    factor = found.factor
    indices = found.store.indices
    outer = [loop for loop in found.loops if loop is factor or any(mentions(i, {loop.loop_var}) for i in indices)]
    spot = (*indices[:at], _number(factor, factor.loop_var), *indices[at:])
    combine = _COMBINE[found.kind]

    def nest(loops: Sequence[For], names: dict[Var, Var], body: Stmt) -> Stmt:
        for loop in reversed(loops):
            body = For(names[loop.loop_var], loop.min, loop.extent, ForKind.SERIAL, None, {}, body)
        return body

    names = [{loop.loop_var: copy_var(loop.loop_var) for loop in outer} for _ in range(2)]
    begun = nest(outer, names[0], substitute(BufferStore(partial, identity(found), spot), dict(names[0])))
    body: Stmt = BufferStore(partial, combine(BufferLoad(partial, spot), found.term), spot)
    handle = body
    draft.forward.keep(found.store, body)
    for loop in reversed(found.loops):
        body = loop.with_(body=body)
        draft.forward.keep(loop, body)
    update = BufferStore(found.buffer, combine(BufferLoad(found.buffer, indices), BufferLoad(partial, spot)), indices)
    return [begun, body, nest(outer, names[1], substitute(update, dict(names[1])))], handle, {}


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

    Sums, products, minima and maxima. ``factor_axis``: the dimension of the partial results' buffer ``<B>.rf`` that the loop
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
