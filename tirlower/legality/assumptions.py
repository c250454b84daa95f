"""What a program states with ``T.assume``, for the report."""

from __future__ import annotations

from tirlower.ir.expr import Call, Expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate
from tirlower.legality.notes import AccessNote

__all__ = ["ASSUME", "assumptions"]

ASSUME = Op.get("tir.assume")


def assumptions(name: str, func: PrimFunc, *, checked: bool) -> tuple[AccessNote, ...]:
    """A note on each ``T.assume`` of a function: its condition, its place, and whether runs check it."""
    found: list[AccessNote] = []
    reason = "checked at run time" if checked else "taken on trust"

    def look(op: Node) -> bool:
        if isinstance(op, Evaluate) and isinstance(op.value, Call) and op.value.op is ASSUME:
            found.append(AccessNote(name, str(op.value.args[0]), str(op.span) if op.span else "", reason))
        return not isinstance(op, Expr)

    pre_order_visit(func.body, look)
    return tuple(found)
