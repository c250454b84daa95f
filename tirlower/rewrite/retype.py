"""A mutator for passes that change the types of expressions: operands are brought together before a node is rebuilt.

The plain :class:`Mutator` puts rewritten operands into a copy of their node at once, which fails where an operation's
two operands no longer have one type. Here :meth:`Retyper.rebuild` gets the node and its new operands, and decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tirlower.ir.expr import BufferLoad, Call, Expr, Let, Var
from tirlower.ir.functor import Mutator

__all__ = ["Retyper", "with_operands"]

ExprT = TypeVar("ExprT", bound=Expr)


def with_operands(op: ExprT, operands: Sequence[Expr]) -> ExprT:
    """A node with other children, in the order of ``op.children()``; the same object when none changed."""
    waiting = iter(operands)
    return op.map_children(lambda _: next(waiting))


class Retyper(Mutator):
    """Rewrites expressions bottom-up where types change; statements as :class:`Mutator` does.

    Subclasses override :meth:`rebuild` (any node with operands), :meth:`leaf`, :meth:`enter` (a node before its
    operands; not None means done) and :meth:`let_value` (what a ``Let`` binds).
    Variables, buffers and attribute values that changed are found in ``vars`` and through :meth:`map_buffer`.
    """

    def __init__(self) -> None:
        self.vars: dict[Var, Var] = {}

    def enter(self, op: Expr) -> Expr | None:
        """A replacement for a node whose operands are not to be rewritten, or None."""
        return None

    def leaf(self, op: Expr) -> Expr:
        """The replacement of a node without operands."""
        return self.vars.get(op, op) if op.__class__ is Var else op

    def let_value(self, op: Let, value: Expr) -> Expr:
        """What to bind the variable of a ``Let`` to, given the rewritten value: that value."""
        return value

    def define_let(self, op: Let, value: Expr) -> None:
        """Called between the value and the body of a ``Let``: a value of a new type renews the variable."""
        if value.dtype is not op.var.dtype:
            self.vars[op.var] = Var(op.var.name, value.dtype, op.var.nonneg, span=op.var.span)

    def rebuild(self, op: Expr, operands: list[Expr]) -> Expr:
        """The node with its new operands."""
        made = with_operands(op, operands)
        if made.__class__ is BufferLoad:
            return made.with_(buffer=self.map_buffer(made.buffer))
        if made.__class__ is Call and made.annotations:
            return made.with_(annotations=self.map_attr(made.annotations))
        return made

    def visit_expr(self, root: Expr) -> Expr:
        """Rewrite an expression; each distinct node once."""
        memo: dict[int, Expr] = {}
        bound: dict[int, Expr] = {}
        entered: set[int] = set()
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            key = id(op)
            if key in memo:
                stack.pop()
                continue
            if op.is_leaf:
                memo[key] = self.leaf(op)
                stack.pop()
                continue
            if key not in entered:
                entered.add(key)
                replaced = self.enter(op)
                if replaced is not None:
                    memo[key] = replaced
                    stack.pop()
                    continue
            if op.__class__ is Let:
                if id(op.value) not in memo:
                    stack.append(op.value)
                    continue
                if key not in bound:
                    # The body is visited only now: it uses what is defined here.
                    bound[key] = self.let_value(op, memo[id(op.value)])
                    self.define_let(op, bound[key])
                    stack.append(op.body)
                    continue
                stack.pop()
                value, body = bound[key], memo[id(op.body)]
                var = self.vars.get(op.var, op.var)
                memo[key] = op.with_(var=var, value=value, body=body)
                continue
            waiting = [c for c in op.children() if id(c) not in memo]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            stack.pop()
            memo[key] = self.rebuild(op, [memo[id(c)] for c in op.children()])
        return memo[id(root)]

    def map_var_def(self, var: Var) -> Var:
        """The renewed variable."""
        return self.vars.get(var, var)

    def map_attr(self, value: object) -> object:
        """Variables, buffers and expressions that attribute values name are the new ones."""
        return self.vars.get(value, value) if isinstance(value, Var) else self.map_named(value)
