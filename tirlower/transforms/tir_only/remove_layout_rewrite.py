"""RemoveWeightLayoutRewriteBlock: weights arrive in the layout that the computation wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tirlower.analysis.undefined import undefined_vars
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.expr import BufferLoad, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.index_map import IndexMap
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore, Evaluate, Seq, Stmt, is_no_op
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["LAYOUT_REWRITE", "RemoveWeightLayoutRewriteBlock"]

LAYOUT_REWRITE = "meta_schedule.layout_rewrite_preproc"
"""The annotation of a block that only copies a weight into another layout."""


@dataclass(frozen=True)
class _Rewrite:
    """A weight, the buffer it is copied into, and where each of its elements goes."""

    weight: Buffer
    rewritten: Buffer
    index_map: IndexMap
    block: Block


def _read(block: Block) -> _Rewrite:
    """What a marked block does. Raises TransformError where it is no plain copy."""

    def refuse(why: str) -> NoReturn:
        raise TransformError(
            f"block {block.name!r} is marked as the rewriting of a weight's layout, but {why}",
            span=block.span,
            help=f"remove the annotation {LAYOUT_REWRITE!r}",
        )

    if block.alloc_buffers or block.match_buffers or block.init is not None:
        refuse("it allocates, matches or initialises")
    store = block.body
    if not isinstance(store, BufferStore) or not isinstance(store.value, BufferLoad):
        refuse("its body is no copy of one element")
    load = store.value
    if store.predicate is not None or load.predicate is not None:
        refuse("its copy has a predicate")
    iterators = {it.var for it in block.iters}
    indices = [index for index in load.indices if isinstance(index, Var) and index in iterators]
    if len(indices) != len(load.indices) or len(set(indices)) != len(indices):
        refuse("it does not read the weight at its iterators, one for each dimension")
    if load.buffer.dtype is not store.buffer.dtype:
        refuse("it converts")
    return _Rewrite(load.buffer, store.buffer, IndexMap(tuple(indices), tuple(store.indices)), block)


class _Finder(Visitor):
    """The marked blocks, and the buffers that anything else accesses."""

    def __init__(self) -> None:
        self.rewrites: list[_Rewrite] = []
        self.allocated: set[Buffer] = set()
        self.used: dict[Buffer, object] = {}

    def visit_Block(self, op: Block) -> None:
        marked = op.annotations.get(LAYOUT_REWRITE)
        if marked in (True, 1) and not is_no_op(op.body):
            self.rewrites.append(_read(op))
        else:
            for part in (op.init, op.body, *op.match_buffers, *(it.value for it in op.iters), op.predicate):
                if part is not None:
                    self.visit(part)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.allocated.add(op.buffer)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.used.setdefault(op.buffer, op)
        self.generic(op)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.used.setdefault(op.buffer, op)

    def visit_BufferRegion(self, op: BufferRegion) -> None:
        self.used.setdefault(op.buffer, op)


class _Remover(StmtMutator):
    """Marked blocks do nothing; their results are no longer allocated, constants are in their layout."""

    def __init__(self, rewrites: list[_Rewrite], skip_data: bool) -> None:
        self.blocks = {rewrite.block for rewrite in rewrites}
        self.by_weight = {rewrite.weight: rewrite for rewrite in rewrites}
        self.gone = {rewrite.rewritten for rewrite in rewrites}
        self.skip_data = skip_data

    def visit_Seq(self, op: Seq) -> Stmt:
        kept = tuple([s for s in op.stmts if not (isinstance(s, AllocBuffer) and s.buffer in self.gone)])
        made = self.generic(op if len(kept) == len(op.stmts) else op.with_(stmts=kept))
        return made if made.stmts else Evaluate(const(0))

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        """An allocation that stands alone."""
        return Evaluate(const(0)) if op.buffer in self.gone else op

    def visit_Block(self, op: Block) -> Stmt:
        if op in self.blocks:
            return op.with_(body=Evaluate(const(0), span=op.body.span), reads=(), writes=())
        made = self.generic(op)
        # The regions of blocks around: the weight is not read there any more, its copy not written.
        reads = tuple([r for r in made.reads if r.buffer not in self.by_weight])
        writes = tuple([w for w in made.writes if w.buffer not in self.gone])
        same = len(reads) == len(made.reads) and len(writes) == len(made.writes)
        return made if same else made.with_(reads=reads, writes=writes)

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        found = self.by_weight.get(op.buffer)
        if found is None:
            return op
        shape = tuple([int(extent.value) for extent in found.rewritten.shape if isinstance(extent, IntImm)])
        if self.skip_data:
            data = np.zeros(shape, op.data.dtype)
        else:
            extents = [int(extent.value) for extent in op.buffer.shape if isinstance(extent, IntImm)]
            data = found.index_map.map_ndarray(op.data.reshape(extents))
            if data.shape != shape:
                raise TransformError(
                    f"block {found.block.name!r} maps {op.buffer.name!r} to the shape {data.shape}, and "
                    f"{found.rewritten.name!r} has the shape {shape}",
                    span=found.block.span,
                )
        return op.with_(buffer=found.rewritten, data=data)


class RemoveWeightLayoutRewriteBlock(FuncPass):
    """Blocks that only copy a weight into another layout do nothing any more: the weight is given in that layout.

    A block with the annotation ``meta_schedule.layout_rewrite_preproc`` copies a parameter or a constant, read at the
    block's iterators, into a buffer in some other order. Its body becomes a no-op and that buffer takes the weight's place: as
    the parameter's buffer (the caller passes the rewritten array from then on), or as the constant, whose array is
    rewritten. With ``skip_ndarray_rewrite=True`` the array only gets its new shape, filled with zeros: where a program is
    measured, its numbers do not matter and rewriting large arrays costs. The block's loops stay; RemoveNoOp removes them.

    At the block stage, needs nothing. Raises :class:`TransformError` where a marked block is no plain copy, where its result is
    not an allocation of the function, where anything else uses the weight, and where the new shape mentions a symbol that
    only the old one bound. As TIR's, which does not check the latter three. It changes what the function takes, so
    before and after compute the same from the weight and the rewritten weight.

    >>> from tirlower.script import parse
    >>> print(RemoveWeightLayoutRewriteBlock()(parse('''
    ... @T.prim_func
    ... def f(W: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    ...     Wt = T.alloc_buffer((6, 4), "float32")
    ...     for i, j in T.grid(4, 6):
    ...         with T.block("rewrite"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
    ...             Wt[vj, vi] = W[vi, vj]
    ...     for i, j in T.grid(4, 6):
    ...         with T.block("use"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = Wt[vj, vi]
    ... ''')).script())
    @T.prim_func
    def f(Wt: T.Buffer((6, 4), "float32"), B: T.Buffer((4, 6), "float32")):
        for i, j in T.grid(4, 6):
            with T.block("rewrite"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes()
                T.block_attr({"meta_schedule.layout_rewrite_preproc": True})
                T.evaluate(0)
        for i, j in T.grid(4, 6):
            with T.block("use"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(Wt[vj, vi])
                T.writes(B[vi, vj])
                B[vi, vj] = Wt[vj, vi]
    """

    name = "tir.RemoveWeightLayoutRewriteBlock"
    stage = Stage.BLOCK
    skip_ndarray_rewrite: bool = option(default=False, kw_only=False)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Remove the marked blocks of a function."""
        found = _Finder()
        found.visit(func.body)
        if not found.rewrites:
            return func
        _check(func, found)
        worker = _Remover(found.rewrites, self.skip_ndarray_rewrite)
        buffer_map = {
            param: worker.by_weight[buffer].rewritten if buffer in worker.by_weight else buffer
            for param, buffer in func.buffer_map.items()
        }
        after = func.with_(body=worker.visit(func.body), buffer_map=buffer_map)
        left = undefined_vars(after)
        if left:
            raise TransformError(
                f"without the rewriting of the weights' layouts nothing defines {', '.join(var.name for var in left)}",
                span=func.span,
                help="make the extents of the rewritten weight constant, and its constant visible where it is used",
            )
        return after


def _check(func: PrimFunc, found: _Finder) -> None:
    taken: set[Buffer] = set()
    for rewrite in found.rewrites:
        why = None
        if rewrite.weight in found.used:
            why = f"{rewrite.weight.name!r} is used outside of it too: in {found.used[rewrite.weight]}".rstrip()
        elif rewrite.rewritten not in found.allocated:
            why = f"the function does not allocate {rewrite.rewritten.name!r}"
        elif rewrite.weight in taken or rewrite.rewritten in taken:
            why = f"another block rewrites {rewrite.weight.name!r} or writes {rewrite.rewritten.name!r}"
        elif rewrite.rewritten.scope != rewrite.weight.scope:
            why = f"{rewrite.rewritten.name!r} is in {rewrite.rewritten.scope!r}"
        if why is not None:
            raise TransformError(
                f"the layout of {rewrite.weight.name!r} cannot be rewritten ahead of block {rewrite.block.name!r}: {why}",
                span=rewrite.block.span,
            )
        taken |= {rewrite.weight, rewrite.rewritten}
