"""Other names for the functions that are called."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.diagnostics import deep_recursion
from tirlower.ir.expr import Call, Expr
from tirlower.ir.functor import Mutator
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import Stmt

__all__ = ["CalleeRenamer", "rename_callees"]


class CalleeRenamer(Mutator):
    """Calls of functions by some names become calls by others."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Call(self, op: Call) -> Expr:
        """The call by its callee's other name."""
        if isinstance(op.op, GlobalVar) and op.op.name in self.names:
            return op.with_(op=GlobalVar(self.names[op.op.name]))
        return op


def rename_callees(body: Stmt, names: Mapping[str, str]) -> Stmt:
    """A statement in which each function that is called has its other name, where there is one.

    >>> from tirlower.ir import Evaluate
    >>> body = Evaluate(Call(GlobalVar("f"), (), "int32"))
    >>> rename_callees(body, {"f": "g"}).value.op, rename_callees(body, {}) is body
    (GlobalVar('g'), True)
    """
    with deep_recursion():
        return CalleeRenamer(names).visit(body)
