"""What a loop with the annotation ``tir.reduction`` accumulates into, and the arithmetic of its partial results.

An accumulator is a buffer that the loop's body touches in updates of one associative operation only, recognised by
meaning as :mod:`tirlower.poly` does. Whatever else reads or writes it would see partial results, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from tirlower.diagnostics import Label, LegalityError, Span
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Max, Min, Select, Var, const
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import Bind, BufferStore, DeclBuffer, For, IfThenElse, Seq, Stmt
from tirlower.poly.reductions import guarded_extremum, reduction_of

__all__ = ["Accumulator", "find_accumulators", "mentions", "refuse"]

ORIGIN = "tir.PrivatizeReductions"
_IF_THEN_ELSE = Op.get("tir.if_then_else")

_COMBINE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": build.add,
    "product": build.mul,
    "min": build.min_,
    "max": build.max_,
    "and": build.logical_and,
    "or": build.logical_or,
    "bitwise and": build.bitwise_and,
    "bitwise or": build.bitwise_or,
    "bitwise xor": build.bitwise_xor,
}


@dataclass(frozen=True)
class Accumulator:
    """A buffer and the operation by which it is updated.

    ``compared`` says that a minimum or maximum is spelt by a comparison (``select(x < a, x, a)``), which treats NaNs
    otherwise than ``T.min`` and ``T.max``.
    """

    buffer: Buffer
    op: str
    compared: bool = False

    @property
    def identity(self) -> Expr:
        """What combined with any value gives that value, bit for bit.

        A float sum starts at -0.0, since 0.0 + -0.0 is 0.0. ``T.min`` of a NaN and a number is the number, so that a NaN
        is its identity; a comparison is never true of a NaN, and starts at infinity.
        """
        dtype = self.buffer.dtype
        if self.op in ("min", "max"):
            return const(self._extreme(dtype.element), dtype)
        if self.op == "sum":
            return const(-0.0 if _has(dtype, -0.0) else 0, dtype)
        if self.op == "bitwise and":
            return const(-1 if dtype.element.is_int else dtype.element.max_value, dtype)
        return const({"product": 1, "and": True}.get(self.op, 0), dtype)

    def _extreme(self, kind: DataType) -> int | float:
        last = kind.max_value if self.op == "min" else kind.min_value
        if not kind.is_float:
            return last
        if not self.compared and _has(kind, float("nan")):
            return float("nan")
        infinity = float("inf") if self.op == "min" else float("-inf")
        return infinity if _has(kind, infinity) else last

    def combine(self, old: Expr, new: Expr) -> Expr:
        """The old value with a partial result."""
        if self.compared and self.buffer.dtype.is_float:
            return build.select(build.lt(new, old) if self.op == "min" else build.gt(new, old), new, old)
        return _COMBINE[self.op](old, new)


def _has(dtype: DataType, value: float) -> bool:
    """Whether a float type holds a zero with a sign, an infinity or a NaN."""
    if not dtype.is_float:
        return False
    with np.errstate(all="ignore"):
        kept = np.asarray(value).astype(dtype.element.numpy).astype(np.float64)
    same = np.isnan(kept) if value != value else kept == value and np.signbit(kept) == np.signbit(value)
    return bool(same)


def refuse(loop: For, what: str, help: str, span: Span | None = None, said: str = "") -> NoReturn:
    """Refuse to privatize the reductions of a loop; ``span`` is the statement at fault, underlined with ``said``."""
    labels = [Label(loop.span, f"{loop.kind.value} here", primary=span is None)] if loop.span is not None else []
    if span is not None:
        labels.append(Label(span, said))
    raise LegalityError(
        f"the reductions of the {loop.kind.value} loop {loop.loop_var.name!r} cannot be privatized: {what}",
        origin=ORIGIN,
        labels=labels,
        help=help,
    )


def find_accumulators(loop: For, data: Collection[Var]) -> list[Accumulator]:
    """The accumulators of a loop whose data variables are ``data``, in the order of their first update.

    Raises :class:`LegalityError` where one of them is touched otherwise than by updates of one operation.
    """
    finder = _Finder(loop, data)
    finder.visit(loop.body)
    return list(finder.found.values())


class _Finder(Visitor):
    """Visits a loop's body; what it meets of an accumulator outside its updates is refused."""

    def __init__(self, loop: For, data: Collection[Var]) -> None:
        self.loop = loop
        self.data = frozenset(data)
        self.found: dict[Var, Accumulator] = {}
        self.updated: Var | None = None
        self.at: Span | None = None

    def update(self, op: Stmt, store: BufferStore, how: str, value: Expr) -> None:
        """Note an update, and look at what its operands read of other accumulators."""
        buffer = store.buffer
        made = Accumulator(buffer, how, how in ("min", "max") and _compared(value, buffer))
        known = self.found.setdefault(buffer.data, made)
        if known.op != how:
            self.offend(buffer, op.span, f"it is updated by {known.op} and by {how}")
        if known.buffer is not buffer:
            self.offend(buffer, op.span, f"it is seen through the views {known.buffer.name!r} and {buffer.name!r}")
        if made.compared:
            self.found[buffer.data] = made
        self.updated = buffer.data
        self.visit(value)
        self.updated = None
        for index in store.indices:
            self.visit(index)

    def offend(self, buffer: Buffer, span: Span | None, why: str) -> NoReturn:
        refuse(
            self.loop,
            f"{buffer.name!r} is not only updated: {why}",
            "read the result after the loop, give each use an accumulator of its own, or keep the loop serial",
            span or self.at,
            "here",
        )

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.at = op.span
        if op.buffer.data not in self.data:
            self.generic(op)
            return
        found = reduction_of(op)
        if found is None:
            self.offend(op.buffer, op.span, "this store is no update of a sum, product, minimum, maximum or the like")
        self.update(op, op, found.op, op.value)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.at = op.span
        found = guarded_extremum(op)
        if found is None or found[0].buffer.data not in self.data:
            self.generic(op)
            return
        store, how = found
        own = BufferLoad(store.buffer, store.indices)
        self.update(op, store, how.op, Select(op.condition, store.value, own))

    def visit_Seq(self, op: Seq) -> None:
        """``t = a + x; a = t`` is one update, if nothing else uses ``t``."""
        position = 0
        while position < len(op.stmts):
            stmt: Node = op.stmts[position]
            after: object = op.stmts[position + 1] if position + 1 < len(op.stmts) else None
            position += 1
            if (
                isinstance(stmt, Bind)
                and isinstance(after, BufferStore)
                and after.value is stmt.var
                and after.buffer.data in self.data
                and not any(mentions(rest, stmt.var) for rest in (*op.stmts[position + 1 :], *after.indices))
            ):
                found = reduction_of(after, stmt.value)
                if found is not None:
                    self.update(after, after, found.op, stmt.value)
                    position += 1
                    continue
            self.visit(stmt)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        data = op.buffer.data
        if data in self.data and data is not self.updated:
            self.offend(op.buffer, op.span, f"{op} is read")

    def visit_Var(self, op: Var) -> None:
        if op in self.data:
            refuse(
                self.loop,
                f"the address of {op.name!r} is taken",
                "call the function after the loop, or keep the loop serial",
                self.at,
                "here",
            )

    def visit_BufferRegion(self, op: BufferRegion) -> None:
        for part in op.region:
            self.visit(part)

    def visit_MatchBufferRegion(self, op: MatchBufferRegion) -> None:
        if op.source.buffer.data in self.data:
            self.offend(op.source.buffer, op.span, f"{op.buffer.name!r} matches a region of it")
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        if op.buffer.data in self.data:
            self.offend(op.buffer, op.span, f"{op.buffer.name!r} is a view of it")


def mentions(node: Node, var: Var) -> bool:
    """Whether a statement or expression uses a variable, or a buffer whose data it is."""
    stack: list[Node] = [node]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if op is var:
            return True
        if id(op) in seen:
            continue
        seen.add(id(op))
        buffer = getattr(op, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.data is var:
            return True
        stack += op.children()
    return False


def _compared(value: Expr, buffer: Buffer) -> bool:
    """Whether a recognised minimum or maximum is made by comparing, under whatever guards."""
    while not isinstance(value, (Min, Max)):
        if isinstance(value, Select):
            condition, arms = value.condition, (value.true_value, value.false_value)
        elif isinstance(value, Call) and value.op is _IF_THEN_ELSE:
            condition, arms = value.args[0], (value.args[1], value.args[2])
        else:
            return True
        if mentions(condition, buffer.data):
            return True
        own = isinstance(arms[0], BufferLoad) and arms[0].buffer is buffer
        value = arms[1] if own else arms[0]
    return False
