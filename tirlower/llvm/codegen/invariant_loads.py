"""Elements that an innermost loop reads over and over, read once ahead of it: ``for j: LU[i, j] -= LU[i, k] * LU[k, j]``.

LLVM keeps an element in a register where it knows that the loop's stores do not meet it. Between buffers it is told; within
one it compares addresses of whole rows at run time, and reads again in what is left over. The ranges of the variables
say more: where ``j`` begins behind ``k``, no store is to ``LU[i, k]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.data import data_parameters
from tirlower.ir.expr import And, BufferLoad, Call, Expr, IntImm, Let, Or, Select, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, For, ForKind, IfThenElse, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.fact_mutator import FactMutator, know_shapes

__all__ = ["lift_loads"]

_IF: Final = Op.get("tir.if_then_else")


def lift_loads(func: PrimFunc, body: Stmt) -> Stmt:
    """A body of a function, with such elements in variables."""
    params = {buffer.data for buffer in func.buffer_map.values()}
    own: set[Var] = set()
    loops: list[For] = []

    def look(op: Node) -> bool:
        if isinstance(op, AllocBuffer):
            own.add(op.buffer.data)
        elif isinstance(op, For):
            loops.append(op)
        return not isinstance(op, Expr)

    pre_order_visit(body, look)
    if not any(_candidates(loop, params, own) for loop in loops):
        return body
    return _Lifter(func, params, own).visit(body)


class _Lifter(FactMutator):
    def __init__(self, func: PrimFunc, params: set[Var], own: set[Var]) -> None:
        self.analyzer = analyzer = DataAnalyzer(data_parameters(func))
        self.wrapping = analyzer.wrapping
        self.params = params
        self.own = own
        know_shapes(analyzer, func)

    def visit_expr(self, root: Expr) -> Expr:
        return root

    def visit_For(self, op: For) -> Stmt:
        candidates = _candidates(op, self.params, self.own)
        if not candidates:
            return super().visit_For(op)
        with self.in_loop(op.loop_var, op.min, op.extent):
            apart = [load for load in candidates if self._is_kept(load, _stores(op.body))]
        if not apart:
            return op
        kept = [(load, Var("kept", load.dtype, span=load.span)) for load in apart]
        loop = op.with_(body=_Kept(kept).visit(op.body))
        lifted = Seq((*(Bind(var, load, span=load.span) for load, var in kept), loop))
        if isinstance(op.extent, IntImm):
            return lifted
        # A loop that does not run reads nothing.
        return IfThenElse(build.gt(op.extent, const(0, op.extent.dtype)), lifted, None, span=op.span)

    def _is_kept(self, load: BufferLoad, stores: Sequence[BufferStore]) -> bool:
        """Whether no store is to the element of a load. Of the element that it is of, as sums are, nothing is to be proved."""
        same = [store for store in stores if store.buffer.data is load.buffer.data]
        if any(structural_equal(store.indices[0], load.indices[0]) for store in same):
            return False
        return all(self.differ(load, store) for store in same)

    def differ(self, load: BufferLoad, store: BufferStore) -> bool:
        """Whether a store to a buffer is never to the element of it that is loaded."""
        (a,), (b,) = store.indices, load.indices
        if a.dtype is not b.dtype:
            return False
        distance, one = build.sub(a, b), const(1, a.dtype)
        return self.analyzer.can_prove(build.ge(distance, one)) or self.analyzer.can_prove(
            build.le(distance, build.neg(one))
        )


def _stores(body: Stmt) -> list[BufferStore]:
    """The stores that a body consists of; none where there is more in it."""
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    stores = [stmt for stmt in stmts if isinstance(stmt, BufferStore) and _is_flat(stmt.buffer)]
    return stores if len(stores) == len(stmts) else []


def _candidates(op: For, params: set[Var], own: set[Var]) -> list[BufferLoad]:
    """What a loop reads in each iteration from one place of a buffer that it writes elsewhere; each element once.

    Only of loops of plain stores, and where stores to other memory are to memory that is surely other: parameters may be
    one array, and other pointers may point anywhere.
    """
    stores = _stores(op.body)
    if (
        op.kind is not ForKind.SERIAL
        or not stores
        or is_const_int(op.extent, 0)
        or (isinstance(op.extent, IntImm) and op.extent.value < 2)
    ):
        return []
    written = {store.buffer.data for store in stores}
    if not written <= params | own:
        return []
    found: list[BufferLoad] = []
    stack: list[tuple[Expr, bool]] = []
    for store in stores:
        if store.predicate is not None or len(store.indices) != 1 or not store.value.dtype.is_scalar:
            return []
        stack += [(store.value, True), (store.indices[0], True)]
    seen: set[tuple[int, bool]] = set()
    while stack:
        expr, certain = stack.pop()
        if (id(expr), certain) in seen:
            continue  # operands may be shared
        seen.add((id(expr), certain))
        if isinstance(expr, Let) or (
            isinstance(expr, Call) and (not isinstance(expr.op, Op) or expr.op.purity is not Purity.PURE)
        ):
            return []
        # What is read under a condition may lie outside where the condition does not hold.
        inside = certain and not (isinstance(expr, (And, Or, Select)) or (isinstance(expr, Call) and expr.op is _IF))
        if not expr.is_leaf or isinstance(expr, BufferLoad):
            stack += [(child, inside) for child in expr.children()]
        if not (isinstance(expr, BufferLoad) and certain and expr.buffer.data in written and _is_flat(expr.buffer)):
            continue
        (index,) = expr.indices
        others = written - {expr.buffer.data}
        same = [s.buffer.dtype is expr.buffer.dtype for s in stores if s.buffer.data is expr.buffer.data]
        if index.dtype.is_vector or mentions(index, (op.loop_var,)) or _reads(index) or not all(same):
            continue
        if (others <= own or expr.buffer.data in own) and not any(structural_equal(expr, other) for other in found):
            found.append(expr)
    return found


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0)


def _reads(root: Expr) -> bool:
    found = False

    def look(op: Expr) -> bool:
        nonlocal found
        found = found or isinstance(op, BufferLoad)
        return not found

    pre_order_visit(root, look)
    return found


class _Kept(Mutator):
    """Puts variables in the place of loads."""

    def __init__(self, kept: list[tuple[BufferLoad, Var]]) -> None:
        self.kept = kept

    def enter_BufferLoad(self, op: BufferLoad) -> Expr | None:
        return next((var for load, var in self.kept if structural_equal(load, op)), None)
