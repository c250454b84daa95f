"""Nests of one store over a box; those whose accesses iterators and constants alone index, which ``pad_einsum`` takes; and
the value with which more iterations of such a one change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import (
    Add,
    BinaryOp,
    BufferLoad,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Var,
    as_expr,
    const,
    is_const_int,
)
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.poly.left_out import is_quiet
from tirlower.schedule.compute.not_neutral import example
from tirlower.schedule.draft import mapped
from tirlower.schedule.places import statements_at
from tirlower.schedule.sites import Steps
from tirlower.schedule.stages import Stage
from tirlower.schedule.step import Step

__all__ = ["Axis", "Nest", "einsum_of", "filler_of", "nest_of"]


@dataclass(frozen=True)
class Axis:
    """An iterator of the nest (a loop, where there is no block), the loop that it is bound to, and whether it is reduced."""

    var: Var
    loop: For
    extent: Expr
    reduced: bool


@dataclass(frozen=True)
class Nest:
    """The nest: its place, its loops from the outermost on, the block if there is one, its stores, its iterators."""

    path: Steps
    loops: tuple[For, ...]
    block: Block | None
    store: BufferStore
    init: BufferStore | None
    axes: tuple[Axis, ...]

    @property
    def loads(self) -> list[BufferLoad]:
        """All that is loaded by the update and the init, in the order of the text."""
        stores = [self.store] if self.init is None else [self.store, self.init]
        return [load for store in stores for load in each(BufferLoad, store.value)]

    @property
    def accumulates(self) -> bool:
        """Whether the old value of what is written is read."""
        return any(load.buffer is self.store.buffer for load in self.loads)

    def axis(self, index: Expr) -> Axis | None:
        """The iterator that an index is."""
        return next((axis for axis in self.axes if axis.var is index), None)


def einsum_of(step: Step, stage: Stage) -> Nest:
    """A stage as a nest whose accesses its iterators and constants index. Raises :class:`NotApplicable`."""
    found = nest_of(step, stage)
    store, init = found.store, found.init
    accesses: list[BufferStore | BufferLoad] = [store, *found.loads, *([init] if init is not None else [])]
    for access in accesses:
        for index in access.indices:
            if found.axis(index) is None and not isinstance(index, IntImm):
                step.refuse(f"the index {index} of {access.buffer.name} is neither an iterator nor a constant", store)
    own = [load for load in found.loads if load.buffer is store.buffer]
    if any(not structural_equal(load, BufferLoad(store.buffer, store.indices)) for load in own):
        step.refuse(f"other elements of {store.buffer.name} are read than the one that is written", store)
    return found


def nest_of(step: Step, stage: Stage) -> Nest:
    """A stage as a nest of one store that computes alike in all of a box. Raises :class:`NotApplicable`."""
    func, path, stmt = step.func(stage.site), stage.site.steps, stage.stmt
    block = stage.block
    chain = statements_at(func, path)
    loops: list[For] = []
    if block is None:
        inner: Stmt = stmt
        while isinstance(inner, For):
            loops.append(inner)
            inner = inner.body
        store, init = inner, None
    else:
        store, init = block.body, block.init
        for way, one in reversed(chain[:-1]):
            if not isinstance(one, For):
                break
            path = way
            loops.insert(0, one)
        if not is_const_int(block.predicate, 1) or block.match_buffers:
            step.refuse("the block has a predicate, or matches buffers", block)
    if not isinstance(store, BufferStore) or not (init is None or isinstance(init, BufferStore)):
        step.refuse("a nest of one store is meant", stage.stmt, "sum up in a block with T.init()")
    if not is_quiet(store) or (init is not None and not is_quiet(init)):
        step.refuse("what is computed may fail, or has effects", store)
    if init is not None and any(load.buffer is store.buffer for load in each(BufferLoad, init.value)):
        step.refuse("the init reads what it writes", init)
    return Nest(path, tuple(loops), block, store, init, _axes(step, loops, block, store))


def _axes(step: Step, loops: Sequence[For], block: Block | None, store: BufferStore) -> tuple[Axis, ...]:
    """The iterators, each bound to one loop of the nest that starts at 0."""
    variables = {loop.loop_var: loop for loop in loops}
    for loop in loops:
        if loop.kind is ForKind.THREAD_BINDING or mentions(loop.extent, set(variables)):
            step.refuse(f"`{loop.loop_var.name}` is bound to threads, or its bounds depend on another loop", loop)
        if not is_const_int(loop.min, 0):
            step.refuse(f"the loop `{loop.loop_var.name}` does not start at 0", loop, f"shift({loop.loop_var.name!r})")
    if block is None:
        return tuple(
            Axis(loop.loop_var, loop, loop.extent, not any(mentions(index, {loop.loop_var}) for index in store.indices))
            for loop in loops
        )
    found: list[Axis] = []
    for it in block.iters:
        bound = variables.pop(it.value, None) if isinstance(it.value, Var) else None
        if bound is None or it.kind not in (IterKind.SPATIAL, IterKind.REDUCE) or not is_const_int(it.domain.min, 0):
            step.refuse(f"the iterator `{it.var.name}` is not bound to a loop of its own", block)
        if not Analyzer().can_prove_equal(bound.extent, it.domain.extent):
            step.refuse(f"the loop `{bound.loop_var.name}` does not go over all of `{it.var.name}`", bound)
        found.append(Axis(it.var, bound, it.domain.extent, it.kind is IterKind.REDUCE))
    if any(not is_const_int(loop.extent, 1) for loop in variables.values()):
        step.refuse("a loop around the block binds no iterator", block)
    return tuple(found)


_OPS: dict[type[BinaryOp], tuple[float, ...]] = {
    Add: (0,),
    Mul: (1,),
    Max: (-math.inf, 0),
    Min: (math.inf, 0),
}
"""What an update combines with, and with what operands may be filled that it changes nothing."""


def filler_of(step: Step, found: Nest, padded: Sequence[Axis], finite: bool) -> tuple[float, str]:
    """What operands are filled with so that iterations beyond the old extents change nothing; and what that assumes.

    Raises :class:`NotApplicable` where no value is known. 0 where no reduced iterator is padded: nobody sees what is
    computed there.
    """
    reduced = [axis for axis in padded if axis.reduced]
    if not reduced:
        return 0, ""
    value, store = found.store.value, found.store
    if not isinstance(value, BinaryOp) or type(value) not in _OPS:
        step.refuse(f"{value} is no sum, product, minimum or maximum with the old value", store)
    own = BufferLoad(store.buffer, store.indices)
    first, second = (isinstance(x, BufferLoad) and structural_equal(x, own) for x in (value.a, value.b))
    term = value.b if first else value.a
    if first is second or any(load.buffer is store.buffer for load in each(BufferLoad, term)):
        step.refuse(f"{value} does not combine the old value of {store.buffer.name} with another one", store)
    if any(mentions(index, {axis.var}) for axis in reduced for index in store.indices):
        step.refuse("a reduced iterator indexes what is written", store)
    kind = type(value)
    assumed = ""
    well = not store.buffer.dtype.is_float or kind is Mul or _begins_well(found, kind)
    if not well:
        what = "-0.0 in" if kind is Add else "NaN in"
        assumed = f"no {what} {store.buffer.name} before"
    for sure in (True, False):
        for filler in _candidates(kind, store.buffer):
            if all(_is_neutral(term, axis, filler, kind, sure) for axis in reduced):
                if not sure:
                    assumed = "; ".join(x for x in (assumed, "all values are finite") if x)
                if assumed and not finite:
                    step.refuse(
                        f"that what is added changes nothing needs: {assumed}{_shown(store, reduced, filler, well)}",
                        store,
                        "say finite=True, if that holds",
                    )
                return filler, assumed
    tried = next(iter(_candidates(kind, store.buffer)), 0)
    step.refuse(
        f"no value is known with which {term} changes nothing in {store.buffer.name}{_shown(store, reduced, tried, well)}",
        store,
    )


def _shown(store: BufferStore, reduced: Sequence[Axis], filler: float, well: bool) -> str:
    """An iteration beyond the old extent that changes something, with the numbers."""
    for axis in reduced:
        shown = example(store, lambda load, var=axis.var: any(index is var for index in load.indices), filler, not well)  # type: ignore[misc]
        if shown:
            return f": with {filler} filled in, the iteration {axis.loop.loop_var.name} = {axis.extent} is one more, and {shown}"
    return ""


def _candidates(kind: type[BinaryOp], buffer: Buffer) -> list[float]:
    if kind in (Add, Mul):
        return [*_OPS[kind], 0]
    if buffer.dtype.is_float:
        return list(_OPS[kind])
    bound = build.min_value(buffer.dtype) if kind is Max else build.max_value(buffer.dtype)
    return [int(bound.value), 0] if isinstance(bound, IntImm) else []


def _begins_well(found: Nest, kind: type[BinaryOp]) -> bool:
    """Whether a float begins with a number from which no sum becomes -0.0, no extremum NaN."""
    init = found.init.value if found.init is not None else None
    if not isinstance(init, FloatImm) or math.isnan(init.value):
        return False
    return kind is not Add or math.copysign(1, init.value) > 0 or init.value != 0


def _is_neutral(term: Expr, axis: Axis, filler: float, kind: type[BinaryOp], sure: bool) -> bool:
    """Whether a term leaves what it is combined with alone where an iterator is beyond its old extent: what it indexes is
    filled, all else may be anything (a number, unless that is to be ``sure``)."""

    def fill(old: BufferLoad, new: BufferLoad) -> Expr:
        filled = any(index is axis.var for index in old.indices)
        return const(filler, old.dtype) if filled and (old.dtype.is_float or not math.isinf(filler)) else new

    got = _folded(mapped(term, fill), sure)
    if not isinstance(got, (IntImm, FloatImm)):
        return False
    wanted = {Add: 0.0, Mul: 1.0, Max: -math.inf, Min: math.inf}[kind]
    if isinstance(got, FloatImm):
        return got.value == wanted
    if kind in (Max, Min):
        bound = build.min_value(got.dtype) if kind is Max else build.max_value(got.dtype)
        return isinstance(bound, IntImm) and got.value == bound.value
    return got.value == wanted


def _folded(term: Expr, sure: bool) -> Expr:
    """A term with constants folded; a product with 0 is 0 for integers, and for floats where all are numbers."""
    known: dict[int, Expr] = {}
    analyzer = Analyzer()

    def visit(op: Expr) -> Expr:
        got = known.get(id(op))
        if got is None:
            got = op.map_children(lambda child: visit(child) if isinstance(child, Expr) else child)
            if isinstance(got, Mul) and (not sure or got.dtype.is_integral):
                zero = next((x for x in (got.a, got.b) if isinstance(x, (IntImm, FloatImm)) and x.value == 0), None)
                if zero is not None:
                    got = as_expr(const(0, got.dtype))
            if not isinstance(got, BufferLoad):
                got = analyzer.simplify(got)
            known[id(op)] = got
        return got

    return visit(term)
