"""What passes that copy loops share: conditions decided inside a statement, and a limit to what copies may add."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from tirlower.analysis.purity import side_effect
from tirlower.arith.conditions import negated
from tirlower.arith.interner import Interner
from tirlower.ir.expr import Call, Expr, IntImm, Select, const
from tirlower.ir.functor import Mutator
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import For, IfThenElse, Seq, Stmt, is_no_op, seq
from tirlower.rewrite.fact_mutator import without_likely

__all__ = ["Decider", "EqualDecider", "SizeBudget", "statements"]

_LIKELY = Op.get("tir.likely")
_ITE = Op.get("tir.if_then_else")


class Decider(Mutator):
    """Puts truth values in the place of conditions, given as nodes, and takes the branches that they decide.

    A loop that is left without a body goes.
    """

    folds = True

    def __init__(self, true: Iterable[Expr] = (), false: Iterable[Expr] = ()) -> None:
        self.values: dict[Expr, Expr] = {op: const(True, "bool") for op in true}
        self.values.update({op: const(False, "bool") for op in false})

    def enter_Expr(self, op: Expr) -> Expr | None:
        return self.values.get(op)

    def visit_Call(self, op: Call) -> Expr:
        if op.op is _ITE and isinstance(op.args[0], IntImm):
            return op.args[1 if op.args[0].value else 2]
        return op.args[0] if op.op is _LIKELY and isinstance(op.args[0], IntImm) else op

    def visit_Select(self, op: Select) -> Expr:
        if isinstance(op.condition, IntImm):
            return op.true_value if op.condition.value else op.false_value
        return op

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        made: IfThenElse = self.generic(op)
        if not isinstance(made.condition, IntImm):
            return made
        chosen = made.then_case if made.condition.value else made.else_case
        return seq() if chosen is None else as_scope(chosen)

    def visit_For(self, op: For) -> Stmt:
        made: For = self.generic(op)
        pure = max(side_effect(made.min), side_effect(made.extent)) <= Purity.READS
        return seq() if made is not op and pure and is_no_op(made.body) else made

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        same = all(a is b for a, b in zip(done, op.stmts, strict=True))
        return op if same else as_scope(seq(*done))


class EqualDecider(Decider):
    """Decides every condition that is structurally equal to one, or to its negation."""

    def __init__(self, condition: Expr, value: bool) -> None:
        super().__init__()
        self.interner = Interner()
        rep = self.interner.representative
        plain = without_likely(condition)
        self.values = {rep(negated(plain)): const(not value, "bool"), rep(plain): const(value, "bool")}
        self.values[rep(condition)] = const(value, "bool")

    def enter_Expr(self, op: Expr) -> Expr | None:
        return (
            self.values.get(self.interner.representative(op))
            if op.dtype.is_bool and not op.is_leaf
            else self.values.get(op)
        )


def statements(stmt: Stmt) -> int:
    """The number of statements in (and including) one."""
    size = 0
    stack: list[Node] = [stmt]
    while stack:
        size += 1
        stack += [c for c in stack.pop().children() if not isinstance(c, Expr)]
    return size


class SizeBudget:
    """How many statements the copies of one function's loops may add: ``least``, or its own number if that is more."""

    def __init__(self, name: str, body: Stmt, least: int) -> None:
        self.name = name
        self.allowed = self.left = max(least, statements(body))

    def allows(self, loop: For, copied: Stmt, copies: int) -> bool:
        """Whether there is room for more copies of a statement of a loop, which are then counted. If not, a warning
        names the loop."""
        added = statements(copied) * copies
        if added > self.left:
            warnings.warn(
                f"{self.name} leaves loop {loop.loop_var.name!r} as it is: copying its body would add {added} "
                f"statements, and {self.left} of {self.allowed} are left for this function",
                stacklevel=2,
            )
            return False
        self.left -= added
        return True
