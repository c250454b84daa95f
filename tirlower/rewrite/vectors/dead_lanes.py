"""Lanes of a thread's own arrays that nothing ever looks at: a store to them needs no mask.

A tile under a mask (the columns that a matrix has beyond whole vectors) is begun, updated and copied out under one condition on the
lane. What its other lanes hold is never seen, and keeping it would take an instruction for each update.
"""

from __future__ import annotations

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import each, may_move, mentions
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, For, ForKind, IfThenElse
from tirlower.ir.structural import structural_equal

__all__ = ["DeadLanes"]


class DeadLanes(Visitor):
    """The arrays of a function that are read under one mask alone, with that.

    >>> from tirlower.ir import BufferStore
    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(n: T.int32, A: T.Buffer((8,), "float32")):
    ...     L = T.alloc_buffer((8,), "float32", scope="local")
    ...     for i in T.vectorized(8):
    ...         if i < n:
    ...             L[i] = A[i]
    ...     for j in T.vectorized(8):
    ...         if j < n:
    ...             A[j] = L[j] * T.float32(2)
    ... ''')
    >>> loop = next(each(For, func.body))
    >>> [store] = each(BufferStore, loop)
    >>> DeadLanes(func).are_of(store.buffer, 8, loop.body.condition, loop.loop_var)
    True
    """

    def __init__(self, func: PrimFunc) -> None:
        self.lane = Var("lane", INT32)
        self._aliases = Aliases(func)
        self._masks: dict[Buffer, tuple[int, Expr] | None] = {}
        self._bound: dict[Var, int] = {}
        """Names, numbered in the order of the text."""
        self._arrays: dict[Var, Buffer] = {}
        self._loop: For | None = None
        self._held: tuple[Expr | None, ...] = ()
        """The conditions on the lanes of the vectorized loop at hand; None for one that is not to hold."""
        self._known = Analyzer()
        self.visit(func.body)

    def are_of(self, buffer: Buffer, lanes: int, condition: Expr, lane: Var) -> bool:
        """Whether nothing ever looks at an array in the lanes, of vectors of so many that begin at a multiple of that, in which a
        condition does not hold."""
        wide, mask = self._masks.get(buffer) or (0, condition)
        return wide == lanes and structural_equal(substitute(condition, {lane: self.lane}), mask)

    def _binds(self, var: Var) -> None:
        self._bound[var] = len(self._bound)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self._binds(op.buffer.data)
        self._arrays[op.buffer.data] = op.buffer

    def visit_Bind(self, op: Bind) -> None:
        self._binds(op.var)
        self.generic(op)

    def visit_For(self, op: For) -> None:
        self._binds(op.loop_var)
        if may_move(op.min, op.extent):
            self._known.bind(op.loop_var, Range(op.min, op.extent))
        outer, held = self._loop, self._held
        if outer is None and op.kind is ForKind.VECTORIZED:
            self._loop, self._held = op, ()
        self.generic(op)
        self._loop, self._held = outer, held

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if isinstance(op.node, Var):
            self._binds(op.node)
        self.generic(op)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        if self._loop is None or not mentions(op.condition, {self._loop.loop_var}):
            for arm in filter(None, (op.then_case, op.else_case)):
                self.visit(arm)
            return
        held = self._held
        self._held = (*held, op.condition)
        self.visit(op.then_case)
        self._held = (*held, None)
        if op.else_case is not None:
            self.visit(op.else_case)
        self._held = held

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        array = self._arrays.get(op.buffer.data)
        if array is not None:
            found = self._mask(op) if op.buffer is array else None
            known = self._masks.setdefault(array, found)
            same = found is not None and known is not None and found[0] == known[0]
            if not (same and structural_equal(found[1], known[1])):  # type: ignore[index]
                self._masks[array] = None
        self.generic(op)

    def _mask(self, op: BufferLoad) -> tuple[int, Expr] | None:
        """The lanes and the mask of a load of a whole vector of an array, which begins at a multiple of the lanes; else None."""
        loop, data = self._loop, op.buffer.data
        if loop is None or len(self._held) != 1 or len(op.indices) != 1 or op.predicate is not None:
            return None
        [held], [index], var = self._held, op.indices, loop.loop_var
        if held is None or not isinstance(loop.extent, IntImm) or not is_const_int(loop.min, 0):
            return None
        if not var.dtype == index.dtype == self.lane.dtype or self._aliases.is_taken(data):
            return None
        base = substitute(index, {var: const(0, var.dtype)})
        whole = build.eq(build.floormod(base, loop.extent), 0)
        if not (self._known.can_prove(whole) and self._known.can_prove(build.eq(index, build.add(base, var)))):
            return None
        mask = substitute(held, {var: self.lane})
        fixed = all(self._bound.get(one, -1) < self._bound[data] for one in each(Var, mask))
        return (loop.extent.value, mask) if fixed and side_effect(held) is Purity.PURE else None
