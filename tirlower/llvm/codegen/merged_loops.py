"""Nests that walk along memory, as one loop: ``for o in 330: for i in 7: B[o * 7 + i] = A[o * 7 + i]``.

Splits leave such nests. LLVM unrolls a short inner loop before it looks for vectors, and vectorizes none around it; of a
longer one each round has a remainder. Only innermost loops are merged, and only over the memory of parameters: small
arrays of the function become registers where their loops are unrolled.
"""

from __future__ import annotations

import functools
from typing import Final

from tirlower.analysis.undefined import undefined_vars
from tirlower.ir import build
from tirlower.ir.expr import Add, BufferLoad, Expr, IntImm, Mul, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import Bind, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt

__all__ = ["merge_loops"]

_LONGEST: Final = 256
"""Inner loops of more iterations have little overhead of their own."""
_BODIES: Final = (Bind, BufferStore, Evaluate, IfThenElse, Seq)


def merge_loops(func: PrimFunc) -> Stmt:
    """The body of a function, with nests merged."""
    return _Merger({buffer.data for buffer in func.buffer_map.values()}).visit(func.body)


class _Merger(Mutator):
    def __init__(self, outside: set[Var]) -> None:
        self.outside = outside

    def visit_expr(self, root: Expr) -> Expr:
        return root

    def visit_For(self, op: For) -> Stmt:
        op = self.generic(op)
        inner = op.body
        if not (isinstance(inner, For) and _plain(op) and _plain(inner) and self.is_simple(inner.body)):
            return op
        outer_count, count = op.extent.value, inner.extent.value  # type: ignore[attr-defined]
        dtype = inner.loop_var.dtype
        if count > _LONGEST or outer_count * count > int(dtype.max_value) or op.loop_var.dtype is not dtype:
            return op
        place = Var(f"{op.loop_var.name}_{inner.loop_var.name}", dtype)
        body = _Places(op.loop_var, inner.loop_var, count, place).visit(inner.body)
        left = undefined_vars(body)
        if op.loop_var in left or inner.loop_var in left:
            return op
        return inner.with_(loop_var=place, extent=IntImm(dtype, outer_count * count), body=body)

    def is_simple(self, body: Stmt) -> bool:
        """Whether a loop's body is that of an innermost loop over scalars of parameters, which nothing leaves early."""
        simple = not jumps_out(body)

        def look(op: Node) -> bool:
            nonlocal simple
            if isinstance(op, (BufferLoad, BufferStore)):
                simple = simple and op.buffer.data in self.outside and op.indices[0].dtype.is_scalar
            elif isinstance(op, Stmt) and not isinstance(op, _BODIES):
                simple = False
            return simple

        pre_order_visit(body, look)
        return simple


def _plain(op: For) -> bool:
    """Whether a loop runs a constant number of times (twice or more) from 0, in order, and nothing is asked of it."""
    counted = is_const_int(op.min, 0) and isinstance(op.extent, IntImm) and op.extent.value > 1
    return op.kind is ForKind.SERIAL and counted and not op.annotations


class _Places(Mutator):
    """Puts a variable in the place of ``outer * count + inner``, terms of sums."""

    def __init__(self, outer: Var, inner: Var, count: int, place: Var) -> None:
        self.outer = outer
        self.inner = inner
        self.count = count
        self.place = place

    def enter_Add(self, op: Add) -> Expr | None:
        terms: list[Expr] = []
        stack: list[Expr] = [op]
        while stack:
            term = stack.pop()
            if term.__class__ is Add:
                stack += (term.b, term.a)
            else:
                terms.append(term)
        inner = [t for t in terms if t is self.inner]
        outer = [t for t in terms if t.__class__ is Mul and t.a is self.outer and is_const_int(t.b, self.count)]
        if len(inner) != 1 or len(outer) != 1:
            return None
        rest = [self.visit(t) for t in terms if t is not inner[0] and t is not outer[0]]
        return build.add(functools.reduce(build.add, rest), self.place) if rest else self.place
