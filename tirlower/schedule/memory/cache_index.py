"""``cache_index``: what indices are computed to, computed once for all iterators that they need, in buffers of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterKind, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import each, has, may_divide_by_zero
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, ForKind, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.draft import Draft
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, place_new, scope_body
from tirlower.schedule.places import loops_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Site
from tirlower.schedule.step import Step

__all__ = ["CACHE_INDEX"]


@dataclass(frozen=True)
class _Index:
    """An expression that is kept: the iterators (loops, without a block) that it is of, with their ranges, and its buffer."""

    expr: Expr
    over: tuple[tuple[Var, Range], ...]
    buffer: Buffer

    def load(self) -> BufferLoad:
        """What stands in the place of the expression."""
        return BufferLoad(self.buffer, tuple(build.sub(var, at.min) for var, at in self.over))


def _ranges(step: Step, constant: set[Var]) -> dict[Var, Range]:
    """What an index may be of: the iterators of the block, the loops of a nest; those whose ranges sizes alone tell."""
    stage = step.stage("block")
    func, site = step.func(stage.site), stage.site
    if stage.block is not None:
        found = {it.var: it.domain for it in stage.block.iters}
    else:
        loops = [loop for _, loop in loops_at(func, site.steps)]
        loops += [stmt for _, stmt in step.facts.inside(stage.stmt) if isinstance(stmt, For)]
        found = {loop.loop_var: Range(loop.min, loop.extent) for loop in loops}
    known = step.analyzer(Site(site.func, ("body",)))

    def told(at: Range) -> bool:
        free = {*each(Var, at.min), *each(Var, at.extent)}
        loads = has(BufferLoad, at.min) or has(BufferLoad, at.extent)
        return free <= constant and not loads and known.can_prove(build.ge(at.extent, 0))

    return {var: at for var, at in found.items() if told(at)}


def _parts(index: Expr) -> list[Expr]:
    """An index and what it is computed of, what is computed with more steps first."""
    found = [index]
    for child in index.children():
        if isinstance(child, Expr):
            found += _parts(child)
    return found


def _kept(step: Step) -> list[_Index]:
    """The expressions that are kept, in the order of the text."""
    stage = step.stage("block")
    least = step["cse_thresh"]
    assert isinstance(least, int)
    if least < 0:
        raise BadArgument(f"cse_thresh={least} is a number of times, 0 or more")
    constant = {*step.func(stage.site).params, *_sizes(step)}
    ranges = _ranges(step, constant)
    indices: list[Expr] = []
    for _, stmt in step.facts.inside(stage.stmt):
        if isinstance(stmt, BufferStore):
            indices += [index for load in each(BufferLoad, stmt.value) for index in load.indices]
    chosen: list[Expr] = []
    times: dict[str, int] = {}
    for index in indices:
        for part in _parts(index) if least else [index]:
            times[str(part)] = times.get(str(part), 0) + 1
    for index in indices:
        covered: list[Expr] = []
        for part in _parts(index) if least else [index]:
            inside = any(part is one or _within(part, one) for one in covered)
            if inside or times[str(part)] <= least or not _is_kept(part, ranges, constant):
                continue
            covered.append(part)
            if not any(structural_equal(part, one) for one in chosen):
                chosen.append(part)
    made: list[_Index] = []
    for expr in chosen:
        free = set(each(Var, expr))
        over = tuple((var, at) for var, at in ranges.items() if var in free)
        shape = tuple(build.cast(var.dtype, at.extent) for var, at in over)
        scope = str(step["storage_scope"])
        made.append(_Index(expr, over, Buffer(f"index_var_{len(made)}", shape, expr.dtype, scope=scope)))
    return made


def _sizes(step: Step) -> set[Var]:
    """The variables of the function's shapes."""
    func = step.func(step.stage("block").site)
    return {var for buffer in func.buffers for extent in buffer.shape for var in each(Var, extent)}


def _within(part: Expr, whole: Expr) -> bool:
    return any(part is one for one in _parts(whole))


def _is_kept(expr: Expr, ranges: dict[Var, Range], constant: set[Var]) -> bool:
    """Whether an index is computed at all, of iterators and sizes alone, without a failure or an effect wherever that is."""
    free = set(each(Var, expr))
    if isinstance(expr, (Var, IntImm)) or not expr.dtype.is_scalar or not free & set(ranges):
        return False
    return (
        free <= set(ranges) | constant
        and not has(BufferLoad, expr)
        and not has(Call, expr)
        and not may_divide_by_zero(expr)
    )


def _check(step: Step) -> Verdict:
    """Always legal where there is something to keep: what is computed is of iterators that do not change, in memory of its own."""
    _kept(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    stage, kept = step.stage("block"), _kept(step)
    func, site = step.func(stage.site), stage.site
    draft = Draft(step, site.func)
    if not kept:
        return Change()
    row = Row.at(func, scope_body(func, site.steps))
    home = row.place(row.of(site.steps))
    outputs: list[Stmt] = []
    for number, one in enumerate(kept):
        nest, made = _filled(one, number, stage.block is not None)
        draft.before(home, nest)
        outputs.append(made)

    def instead(expr: Expr) -> Expr:
        found = next((one for one in kept if structural_equal(one.expr, expr)), None)
        if found is not None:
            return found.load()
        return expr.map_children(lambda child: instead(child) if isinstance(child, Expr) else child)

    def indexed(expr: Expr) -> Expr:
        made = expr.map_children(lambda child: indexed(child) if isinstance(child, Expr) else child)
        if isinstance(made, BufferLoad):
            assert isinstance(expr, BufferLoad)
            return made.with_(indices=tuple(instead(index) for index in expr.indices))
        return made

    for way, stmt in step.facts.inside(stage.stmt):
        if isinstance(stmt, BufferStore) and has(BufferLoad, stmt.value):
            draft.header((*site.steps, *way), lambda old: old.with_(value=indexed(old.value)))  # type: ignore[attr-defined]
    block = stage.block
    if block is not None:
        regions = [_region(one) for one in kept]
        draft.header(site.steps, lambda old: old.with_(reads=(*block.reads, *regions), writes=block.writes))
    for one in reversed(kept):
        place_new(draft, row, one.buffer)
    return draft.change(tuple(outputs))


def _region(one: _Index) -> BufferRegion:
    return BufferRegion(one.buffer, tuple(Range(index, const(1, index.dtype)) for index in one.load().indices))


def _filled(one: _Index, number: int, blocks: bool) -> tuple[Stmt, Stmt]:
    """The nest that computes an expression for all iterators; and its block, or the store."""
    loops = [Var(f"ax{n}", var.dtype) for n, (var, _) in enumerate(one.over)]
    variables = [Var(f"v{n}", var.dtype) for n, (var, _) in enumerate(one.over)] if blocks else loops
    values = {var: build.add(at.min, own) for (var, at), own in zip(one.over, variables, strict=True)}
    store = BufferStore(one.buffer, substitute(one.expr, values), tuple(variables))
    made: Stmt = store
    sizes: Sequence[Expr] = one.buffer.shape
    if blocks:
        iters = tuple(
            BlockIter(own, Range(const(0, own.dtype), size), IterKind.SPATIAL, loop)
            for own, loop, size in zip(variables, loops, sizes, strict=True)
        )
        made = with_regions(Block(f"index_{number}", iters, const(1, "bool"), (), (), None, (), {}, store))
    nest = made
    for loop, size in zip(reversed(loops), reversed(sizes), strict=True):
        nest = For(loop, const(0, loop.dtype), size, ForKind.SERIAL, None, {}, nest)
    return nest, made


CACHE_INDEX = Kind(
    "CacheIndex",
    "cache_index",
    (
        Slot("block", Takes.STAGE),
        Slot("storage_scope", Takes.SCOPE, attr=True),
        Slot("cse_thresh", Takes.INTEGER, default=0, attr=True),
    ),
    _rewrite,
    """Compute the indices of what a block reads in front of it, to buffers ``index_var_0`` …, which it then reads. Returns the blocks
    ``index_0`` … that do.

    ``cse_thresh``: kept is what is computed more often than that; 0 for each whole index that is no iterator. Only what is computed of
    iterators and sizes is, without loads and calls.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((5, 5), "int32"), B: T.Buffer((8, 8), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]
    ... '''))
    >>> sch.cache_index("B", "global")
    [BlockRV('index_0'), BlockRV('index_1')]
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((5, 5), "int32"), B: T.Buffer((8, 8), "int32")):
        index_var_0 = T.alloc_buffer((8, 8), "int32")
        index_var_1 = T.alloc_buffer((8,), "int32")
        for ax0, ax1 in T.grid(8, 8):
            with T.block("index_0"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads()
                T.writes(index_var_0[v0, v1])
                index_var_0[v0, v1] = v0 // 4 + v1 // 4
        for ax0 in range(8):
            with T.block("index_1"):
                v0 = T.axis.spatial(8, ax0)
                T.reads()
                T.writes(index_var_1[v0])
                index_var_1[v0] = v0 // 2
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi // 4 + vj // 4, vj // 2], index_var_0[vi, vj], index_var_1[vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]
    """,
    check=_check,
    returns="many",
)
