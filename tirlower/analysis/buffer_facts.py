"""Facts about the contents of buffers, and what statements and conditions say that makes or ends them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tirlower.analysis.purity import side_effect
from tirlower.arith.conditions import conjuncts, negated
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import EQ, BufferLoad, Call, Expr, Not, Or, Var
from tirlower.ir.functor import Visitor, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import statements
from tirlower.ir.stmt import Bind, Block, BufferStore, Evaluate, For, Stmt

__all__ = [
    "Effects",
    "Fact",
    "alternatives",
    "defined",
    "has_stray_effects",
    "is_pure",
    "stated",
    "stores_to",
]

_ASSUME = Op.get("tir.assume")


@dataclass(frozen=True, eq=False)
class Fact:
    """``buffer[indices] == value`` for all ``params`` in their ranges for which ``condition`` holds.

    ``params`` are (variable, least, number). ``stored``: the value was written there, rather than assumed.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    condition: Expr
    params: tuple[tuple[Var, Expr, Expr], ...] = ()
    stored: bool = False

    def substituted(self, values: dict[Var, Expr]) -> Fact:
        """The fact with variables replaced."""
        parts = [substitute(part, values) for part in self.parts()]
        ranges = tuple((var, substitute(low, values), substitute(n, values)) for var, low, n in self.params)
        return replace(self, indices=tuple(parts[:-2]), value=parts[-2], condition=parts[-1], params=ranges)

    def parts(self) -> tuple[Expr, ...]:
        """Every expression of the fact but the ranges."""
        return (*self.indices, self.value, self.condition)


def is_pure(expr: Expr) -> bool:
    """Whether an expression reads no memory and has no effects."""
    return side_effect(expr) is Purity.PURE


class Effects(Visitor):
    """The data variables that a statement may write, and whether it may write anything."""

    def __init__(self) -> None:
        self.written: set[Var] = set()
        self.anything = False

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.written.add(op.buffer.data)
        self.generic(op)

    def visit_Call(self, op: Call) -> None:
        if not isinstance(op.op, Op) or (op.op.purity > Purity.READS and op.op is not _ASSUME):
            self.anything = True

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.written.add(op)


class _StrayEffects(Visitor):
    def __init__(self) -> None:
        self.found = False

    def visit_Evaluate(self, op: Evaluate) -> None:
        """A call that is a statement is followed; its arguments are expressions like others."""
        for root in op.value.args if isinstance(op.value, Call) else (op.value,):
            self.visit(root)

    def visit_Call(self, op: Call) -> None:
        self.found = self.found or not isinstance(op.op, Op) or op.op.purity > Purity.READS


def has_stray_effects(stmt: Stmt) -> bool:
    """Whether calls with effects stand in the midst of expressions."""
    effects = _StrayEffects()
    effects.visit(stmt)
    return effects.found


def alternatives(condition: Expr) -> list[Expr]:
    """The terms of a disjunction; ``not (a and b)`` is one."""
    found: list[Expr] = []
    stack: list[Expr] = [condition]
    while stack:
        op = stack.pop()
        if isinstance(op, Or):
            stack += [op.b, op.a]
        elif isinstance(op, Not) and isinstance(op.a, Not):
            stack.append(op.a.a)
        elif isinstance(op, Not) and len(conjuncts(op.a)) > 1:
            stack += [negated(term) for term in conjuncts(op.a)]
        else:
            found.append(op)
    return found


def stated(term: Node) -> tuple[BufferLoad, Expr] | None:
    """The element and value of ``A[i] == value``."""
    if isinstance(term, EQ):
        for load, value in ((term.a, term.b), (term.b, term.a)):
            if isinstance(load, BufferLoad) and load.predicate is None and is_pure(value):
                return load, value
    return None


def stores_to(stmt: Stmt, data: Var) -> list[BufferStore]:
    """The stores inside a statement through a data variable."""
    return [op for op in statements(stmt) if isinstance(op, BufferStore) and op.buffer.data is data]


def defined(stmt: Stmt) -> set[Var]:
    """The variables that a statement binds for what is inside it."""
    found: set[Var] = set()
    for op in statements(stmt):
        if isinstance(op, For):
            found.add(op.loop_var)
        elif isinstance(op, Bind):
            found.add(op.var)
        elif isinstance(op, Block):
            found.update(it.var for it in op.iters)
    return found
