"""Expressions over loops and sizes that arguments of verbs state as text: ``"n // 2"``, ``"k + 1"``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import nodes
from tirlower.ir.stmt import Block, For
from tirlower.schedule.places import statements_at
from tirlower.schedule.sites import Steps

__all__ = ["expression", "expressions", "names_at", "parts_of"]


def names_at(func: PrimFunc, path: Steps) -> dict[str, Var]:
    """What names mean at a place: integers that are passed, sizes of buffers, loops around it, iterators of blocks around it and of
    one that it is; of two of one name the inner one."""
    found = {param.name: param for param in func.params if param.dtype.is_integral}
    for buffer in func.buffers:
        found |= {var.name: var for size in buffer.shape for var in nodes(size) if isinstance(var, Var)}
    for way, stmt in statements_at(func, path):
        if isinstance(stmt, For) and way != path:
            found[stmt.loop_var.name] = stmt.loop_var
        elif isinstance(stmt, Block):
            found |= {it.var.name: it.var for it in stmt.iters}
    return found


def parts_of(text: str) -> list[str]:
    """What commas outside of brackets part."""
    parts, depth, last = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append(text[last:at])
            last = at + 1
    return [*parts, text[last:]]


def expressions(text: str, names: dict[str, Var]) -> list[Expr]:
    """Expressions that commas part: ``"m, n // 2"``. Raises :class:`BadArgument`."""
    return [expression(part, names) for part in parts_of(text)]


def expression(text: str, names: dict[str, Var]) -> Expr:
    """An expression over loops and sizes: sums, products, quotients, remainders."""

    def visit(op: ast.expr) -> Expr:
        if isinstance(op, ast.Constant) and isinstance(op.value, int):
            return const(op.value, "int32")
        if isinstance(op, ast.Name) and op.id in names:
            return names[op.id]
        if isinstance(op, ast.UnaryOp) and isinstance(op.op, ast.USub):
            return build.sub(0, visit(op.operand))
        if isinstance(op, ast.BinOp) and type(op.op) in _OPERATIONS:
            return _OPERATIONS[type(op.op)](visit(op.left), visit(op.right))
        raise BadArgument(
            f"{ast.unparse(op)!r} is no expression over the loops around: {', '.join(names) or 'there are none'}"
        )

    try:
        return visit(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError as error:
        raise BadArgument(f"{text!r} is no expression") from error


_OPERATIONS: dict[type, Callable[[Expr, Expr], Expr]] = {
    ast.Add: build.add,
    ast.Sub: build.sub,
    ast.Mult: build.mul,
    ast.FloorDiv: build.floordiv,
    ast.Mod: build.floormod,
}
