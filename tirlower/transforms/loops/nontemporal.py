"""MarkNonTemporal: loops whose stores are to go past the caches become regions that say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tirlower.analysis.purity import side_effect
from tirlower.analysis.streamed import streamed
from tirlower.ir.annotations import NOALIAS, NONTEMPORAL, number_of
from tirlower.ir.expr import BufferLoad, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Purity
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import AttrStmt, Bind, BufferStore, For, ForKind, Seq, Stmt
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["MarkNonTemporal"]


class _Marker(FactMutator):
    """Marks the regions, and vectorizes the plain loops in them."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.arrays = [buffer.data for buffer in func.buffers]
        self.apart = bool(func.attrs.get(NOALIAS)) or len(self.arrays) == 1
        self.streams: frozenset[Var] = frozenset()

    @contextmanager
    def streaming(self, region: Stmt) -> Iterator[None]:
        outer = self.streams
        self.streams = outer | streamed(region, self.arrays)
        yield
        self.streams = outer

    def visit_For(self, op: For) -> Stmt:
        if NONTEMPORAL not in op.annotations:
            made = super().visit_For(op)
            return self._in_vectors(made) if self.streams and isinstance(made, For) else made
        asked = bool(number_of(op.annotations, NONTEMPORAL))
        plain = op.with_(annotations={key: value for key, value in op.annotations.items() if key != NONTEMPORAL})
        if not asked:
            return self.visit(plain)
        with self.streaming(plain.body):
            made = self.visit(plain)
        return AttrStmt(None, NONTEMPORAL, const(True, "bool"), made, span=op.span)

    def _in_vectors(self, loop: For) -> Stmt:
        """A plain loop that only fills arrays, each with elements in a row, as a vectorized one: the same in any order."""
        if loop.kind is not ForKind.SERIAL or loop.annotations or not self.apart:
            return loop
        filled: set[Var] = set()
        stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        with self.in_loop(loop.loop_var, loop.min, loop.extent):
            for stmt in stmts:
                if isinstance(stmt, BufferStore):
                    if (
                        stmt.buffer.data not in self.streams
                        or stmt.buffer.data in filled
                        or not self._in_a_row(stmt, loop)
                    ):
                        return loop
                    filled.add(stmt.buffer.data)
                elif not isinstance(stmt, Bind):
                    return loop
                if side_effect(stmt.value) > Purity.READS or self.wrapping.may_fail(stmt.value):
                    return loop
        return loop.with_(kind=ForKind.VECTORIZED)

    def _in_a_row(self, store: BufferStore, loop: For) -> bool:
        """Whether each iteration stores the element behind the one of the iteration before."""
        if store.predicate is not None or not store.value.dtype.is_scalar or len(store.indices) != 1:
            return False
        (index,) = store.indices
        if any(True for _ in each(BufferLoad, index)) or self.wrapping.wraps(index):
            return False
        return is_const_int(self.moves(index, loop.loop_var), 1)


class MarkNonTemporal(FuncPass):
    """Loops annotated with ``tir.nontemporal`` become regions of that name, which stay where the loop vanishes.

    What such a region stores to the arrays of parameters, in vectors of whole registers, and does not read, is stored
    past the caches by code generation. A plain loop inside that does nothing but fill such arrays in a row becomes a
    vectorized one, for elements alone are too short for that; so only where the function's arrays are apart.

    The annotation is ours, not TIR's. Needs FlattenBuffer, and stands before VectorizeLoop.

    >>> from tirlower.script import parse
    >>> print(MarkNonTemporal()(parse('''
    ... @T.prim_func
    ... def copy(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     for i in T.serial(1024, annotations={"tir.nontemporal": True}):
    ...         B[i] = A[i]
    ... ''')).script())
    @T.prim_func
    def copy(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
        T.func_attr({"tir.noalias": True})
        with T.attr(None, "tir.nontemporal", T.bool(True)):
            for i in T.vectorized(1024):
                B[i] = A[i]
    """

    name = "tir.MarkNonTemporal"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Mark the regions of a function."""
        marked = any(isinstance(op, For) and NONTEMPORAL in op.annotations for op in statements(func.body))
        return func.with_body(_Marker(func).visit(func.body)) if marked else func
