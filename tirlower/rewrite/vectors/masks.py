"""Conditions that differ between the lanes of a vectorized loop, as masks on the accesses under them."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.analysis.overflow import Wrapping
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.cancel import expr_key
from tirlower.ir.expr import (
    LT,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Mod,
    Or,
    Ramp,
    Select,
    const,
    is_const_int,
)
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore, Evaluate, For, ForKind, IfThenElse, Stmt

__all__ = ["Masker", "Scalarize", "always_read", "mask_of", "may_fault", "reads_memory", "some_lane"]


class Scalarize(Exception):
    """Raised while vectorizing an expression that has no vector form: the statement around it is scalarized."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def mask_of(condition: Expr, wrapping: Wrapping) -> Expr:
    """A vector condition as a mask: ``base + lane < limit`` as the lane mask that targets have, others as they are.

    The lane mask does not wrap: where the base is data, or so large that 64 bits end, the sum may, and the comparison stays.
    """
    while isinstance(condition, Call) and condition.op is Op.get("tir.likely"):
        condition = condition.args[0]
    if isinstance(condition, LT) and isinstance(condition.a, Ramp) and isinstance(condition.b, Broadcast):
        ramp, limit = condition.a, condition.b.value
        wraps = wrapping.is_data(ramp.base) or wrapping.past(ramp)
        if is_const_int(ramp.stride, 1) and limit.dtype.is_scalar and not wraps:
            return Call(Op.get("tir.get_active_lane_mask"), (ramp.base, limit), condition.dtype, span=condition.span)
    return condition


def some_lane(mask: Expr) -> Expr | None:
    """Whether a mask has any lane, as a condition that is no vector; None where none is as short.

    The lanes of ``T.get_active_lane_mask(base, limit)`` are the first ones: there are some where there is the first.
    """
    if isinstance(mask, Call) and mask.op is Op.get("tir.get_active_lane_mask"):
        base, limit = mask.args
        return build.lt(base, limit)
    return None


def always_read(condition: Expr) -> frozenset[object]:
    """The scalar loads, by their keys, that a vector condition evaluates for all lanes, whatever holds: they are inside of their buffers
    where it was evaluated. Indices that read memory may have become others since; such loads are left out."""
    found = set[object]()
    stack = [condition]
    while stack:
        op = stack.pop()
        if isinstance(op, (And, Or)):
            stack.append(op.a)
        elif isinstance(op, Select):
            stack.append(op.condition)
        elif isinstance(op, Call) and op.op is Op.get("tir.if_then_else"):
            stack.append(op.args[0])
        elif not (isinstance(op, BufferLoad) and op.predicate is not None):
            stack += op.children()
            if isinstance(op, BufferLoad) and not any(map(reads_memory, op.indices)):
                found.add(_key(op))
    return frozenset(found)


def _key(load: BufferLoad) -> object:
    return (id(load.buffer), *map(expr_key, load.indices))


class Masker(Mutator):
    """Puts a mask on every vector access of a vectorized statement; raises :class:`Scalarize` where it cannot.

    ``own`` says of which stores and loads no other thread has the memory, and all lanes are inside of it: they need no mask.
    With ``in_some`` the statement will run where the mask has some lane: loads that do not depend on the lanes are what these
    read. ``asks`` says whether anything rests on that. ``read`` are loads that certainly may run (:func:`always_read`). ``dead`` says at which indices of which buffers nothing ever
    looks at the other lanes: they hold what was computed with zeros.
    """

    def __init__(
        self,
        mask: Expr,
        own: Callable[[Buffer, Expr], bool] | None = None,
        in_some: bool = False,
        dead: Callable[[Buffer, Expr], bool] = lambda buffer, index: False,
        read: frozenset[object] = frozenset(),
    ) -> None:
        self.mask = mask
        self.read = read
        self.own = own
        self.dead = dead
        self.fills = False
        self.in_some = in_some
        self.asks = False

    def _is_own(self, op: BufferLoad | BufferStore) -> bool:
        if not self.in_some or self.own is None or op.predicate is not None or not self.own(op.buffer, op.indices[-1]):
            return False
        self.asks = True
        return True

    def _merge(self, predicate: Expr | None, index: Expr) -> Expr:
        mask = self.mask
        if index.dtype.lanes != mask.dtype.lanes or index.dtype.scalable != mask.dtype.scalable:
            raise Scalarize("an access under the condition has other lanes than the loop")
        return mask if predicate is None else And(mask, predicate)

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        # A load that does not depend on the lanes may be outside its buffer where the condition holds for none.
        if not op.indices or not op.indices[-1].dtype.is_vector:
            if self.read and _key(op) in self.read:
                return op
            if not self.in_some:
                raise Scalarize("a scalar load under a condition that differs between lanes")
            self.asks = True
            return op
        if self._is_own(op):
            return op
        made = op.with_(predicate=self._merge(op.predicate, op.indices[-1]))
        return Select(self.mask, made, const(0, op.dtype), span=op.span) if self.fills else made

    def _filled(self, op: BufferStore) -> Stmt:
        self.fills = True
        try:
            return self.generic(op)
        finally:
            self.fills = False

    def visit_Call(self, op: Call) -> Expr:
        if not isinstance(op.op, Op) or op.op.purity >= Purity.WRITES:
            raise Scalarize(f"a call of {op.op.name} under a condition that differs between lanes")
        return op

    def _no_division(self, op: BinaryOp) -> Expr:
        if op.dtype.is_integral and not _nonzero(op.b):
            raise Scalarize("a division that may be by zero under a condition that differs between lanes")
        return op

    visit_Div = visit_Mod = visit_FloorDiv = visit_FloorMod = _no_division

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if not op.indices or not op.indices[-1].dtype.is_vector:
            raise Scalarize("a scalar store under a condition that differs between lanes")
        if self._is_own(op):
            if self.dead(op.buffer, op.indices[-1]):
                return self._filled(op)
            mask, old = self._merge(None, op.indices[-1]), BufferLoad(op.buffer, op.indices, span=op.span)
            op = self.generic(op)
            return op.with_(value=Select(mask, op.value, old, span=op.span))
        op = self.generic(op)
        return op.with_(predicate=self._merge(op.predicate, op.indices[-1]))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if isinstance(op.value, Call):
            raise Scalarize("a call under a condition that differs between lanes")
        return op

    def visit_For(self, op: For) -> Stmt:
        # The same iterations for all lanes: those that the condition leaves out run them in vain.
        if op.kind not in (ForKind.SERIAL, ForKind.UNROLLED) or any(map(may_fault, (op.min, op.extent))):
            return self._refuse(op)
        return op.with_(body=self.visit(op.body))

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        if may_fault(op.condition):
            return self._refuse(op)
        else_case = None if op.else_case is None else self.visit(op.else_case)
        return op.with_(then_case=self.visit(op.then_case), else_case=else_case)

    def _refuse(self, op: Stmt) -> Stmt:
        raise Scalarize(f"a {type(op).__name__} under a condition that differs between lanes")

    visit_While = visit_Assert = visit_AttrStmt = visit_AllocBuffer = visit_DeclBuffer = _refuse


def reads_memory(expr: Expr) -> bool:
    """Whether an expression's value depends on memory."""
    return any(isinstance(op, BufferLoad) or not _pure(op) for op in each((BufferLoad, Call), expr))


def may_fault(expr: Expr) -> bool:
    """Whether evaluating an expression in vain could fault, or have an effect."""
    return reads_memory(expr) or any(
        op.dtype.is_integral and not _nonzero(op.b) for op in each((Div, Mod, FloorDiv, FloorMod), expr)
    )


def _pure(op: Call) -> bool:
    return isinstance(op.op, Op) and op.op.purity <= Purity.PURE


def _nonzero(expr: Expr) -> bool:
    if isinstance(expr, Broadcast):
        return _nonzero(expr.value)
    return is_const_int(expr) and not is_const_int(expr, 0)
