"""Extents as text (``"B * 4"``): written by the printer, read in annotations and by the parser."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.dims import DimEnv, Extent, Shape, as_extent
from tirlower.graph.errors import GraphError
from tirlower.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
    build,
)  # fmt: skip
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import ExprLike, const

__all__ = ["extent_of", "extent_text", "parsed_extent", "readable", "shown"]

_SIGNS: dict[type[Expr], tuple[str, int]] = {
    Add: ("+", 1),
    Sub: ("-", 1),
    Mul: ("*", 2),
    FloorDiv: ("//", 2),
    FloorMod: ("%", 2),
}
"""The sign of each operation, and how tightly it binds."""
_CALLS: dict[type[Expr], str] = {Min: "min", Max: "max"}
_COMPARISONS: dict[type[Expr], str] = {LT: "<", LE: "<=", GT: ">", GE: ">=", EQ: "==", NE: "!="}
_JOINED: dict[type[Expr], str] = {And: "and", Or: "or"}

_Binary = Callable[[ExprLike, ExprLike], Expr]
_OPERATORS: dict[type[ast.operator], _Binary] = {
    ast.Add: build.add,
    ast.Sub: build.sub,
    ast.Mult: build.mul,
    ast.FloorDiv: build.floordiv,
    ast.Mod: build.floormod,
}
_FUNCTIONS: dict[str, _Binary] = {"min": build.min_, "max": build.max_}
_COMPARED: dict[type[ast.cmpop], _Binary] = {
    ast.Lt: build.lt,
    ast.LtE: build.le,
    ast.Gt: build.gt,
    ast.GtE: build.ge,
    ast.Eq: build.eq,
    ast.NotEq: build.ne,
}
_FORMS = "numbers, dims, + - * // %, min and max, and choices: B if B < 4 else 4"


def extent_text(extent: Extent) -> str:
    """An extent as Python over the names of dims.

    >>> from tirlower.graph.core.dims import dim
    >>> B = dim("B")
    >>> extent_text((B + 1) // 2 * 4), extent_text(7)
    ('(B + 1) // 2 * 4', '7')
    """
    return _text(extent, 0) if isinstance(extent, Expr) else str(extent)


def readable(extent: Extent) -> str:
    """An extent as messages show it: as :func:`extent_text` has it, or any other expression as it is.

    >>> from tirlower.graph.core.dims import dim
    >>> readable(dim("B") * 2), readable(build.shift_left(dim("B").var, 1))
    ('B * 2', 'T.shift_left(B, T.int64(1))')
    """
    try:
        return extent_text(extent)
    except GraphError:
        return str(extent)


def shown(shape: Shape) -> str:
    """A shape as text.

    >>> from tirlower.graph.core.dims import dim
    >>> shown((4, dim("B") * 2))
    '(4, B * 2)'
    """
    return f"({', '.join(extent_text(e) for e in shape)}{',' * (len(shape) == 1)})"


def _text(extent: Expr, around: int) -> str:
    if isinstance(extent, Var):
        return extent.name
    if isinstance(extent, IntImm):
        return str(extent.value) if extent.value >= 0 or not around else f"({extent.value})"
    call = _CALLS.get(type(extent))
    if call is not None:
        return f"{call}({', '.join(_text(e, 0) for e in extent.children())})"
    if isinstance(extent, Select):
        chosen = f"{_text(extent.true_value, 1)} if {_condition(extent.condition)} else {_text(extent.false_value, 0)}"
        return f"({chosen})" if around else chosen
    sign = _SIGNS.get(type(extent))
    if sign is None:
        raise GraphError(f"an extent is made of {_FORMS}, got {extent}")
    left, right = extent.children()
    text = f"{_text(left, sign[1])} {sign[0]} {_text(right, sign[1] + 1)}"
    return f"({text})" if sign[1] < around else text


def _condition(condition: Expr) -> str:
    """A condition on dims as Python."""
    if isinstance(condition, IntImm):
        return str(bool(condition.value))
    if isinstance(condition, Not):
        return f"not ({_condition(condition.a)})"
    sign = _COMPARISONS.get(type(condition))
    if sign is not None:
        return f" {sign} ".join(_text(e, 1) for e in condition.children())
    word = _JOINED.get(type(condition))
    if word is None:
        raise GraphError(f"a condition on dims compares them, got {condition}")
    return f" {word} ".join(f"({_condition(e)})" for e in condition.children())


def parsed_extent(text: str, env: DimEnv, what: str, new: bool = True) -> Extent:
    """The extent that a text says; names that the environment lacks become dims of no stated facts, if ``new``.

    >>> parsed_extent("4 * (2 + 1)", DimEnv(), "the shape")
    12

    Raises :class:`GraphError`, beginning with ``what``, for texts that are no extent.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return as_extent(extent_of(tree, env, f"{what} has {text!r}", new))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two of what nests too deeply
        few = text if len(text) <= 80 else f"{text[:80]}…"
        raise GraphError(f"{what} has {few!r}, which is no expression of dims", help='write "B" or "B * 4"') from None


def extent_of(tree: ast.expr, env: DimEnv, what: str, new: bool = False) -> int | Expr:
    """The value of a syntax tree over numbers and dims."""
    if isinstance(tree, ast.Constant) and type(tree.value) is int:
        return tree.value
    if isinstance(tree, ast.Name):
        if tree.id not in env.dims:
            if not new:
                near = nearest_name(tree.id, env.dims)
                raise GraphError(
                    f"{what}, but no dim is named {tree.id!r}", help=f"did you mean {near!r}?" if near else None
                )
            env.state(tree.id)
        return env.dims[tree.id].var
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = extent_of(tree.operand, env, what, new)
        return -inner if isinstance(inner, int) else build.sub(const(0, INT64), inner)
    if isinstance(tree, ast.IfExp):
        first, second = (_expr(extent_of(e, env, what, new)) for e in (tree.body, tree.orelse))
        return build.select(_condition_of(tree.test, env, what, new), first, second)
    made: _Binary | None = None
    parts: list[ast.expr] = []
    if isinstance(tree, ast.BinOp):
        made, parts = _OPERATORS.get(type(tree.op)), [tree.left, tree.right]
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) == 2 and not tree.keywords:
        made, parts = _FUNCTIONS.get(tree.func.id), tree.args
    if made is None:
        raise GraphError(f"{what}, which is no expression of dims", help=_FORMS)
    left, right = (extent_of(p, env, what, new) for p in parts)
    if (
        right == 0
        and isinstance(right, int)
        and isinstance(tree, ast.BinOp)
        and isinstance(tree.op, (ast.FloorDiv, ast.Mod))
    ):
        raise GraphError(f"{what}, which divides by 0")
    whole = made(_expr(left), _expr(right))
    return whole.value if isinstance(whole, IntImm) else whole


def _expr(extent: int | Expr) -> Expr:
    return const(extent, INT64) if isinstance(extent, int) else extent


def _condition_of(tree: ast.expr, env: DimEnv, what: str, new: bool) -> Expr:
    """The condition that a syntax tree over numbers and dims is."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, bool):
        return const(tree.value, "bool")
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        return build.logical_not(_condition_of(tree.operand, env, what, new))
    if isinstance(tree, ast.BoolOp) and len(tree.values) == 2:
        a, b = (_condition_of(e, env, what, new) for e in tree.values)
        return build.logical_and(a, b) if isinstance(tree.op, ast.And) else build.logical_or(a, b)
    compared = _COMPARED.get(type(tree.ops[0])) if isinstance(tree, ast.Compare) and len(tree.ops) == 1 else None
    if compared is None:
        raise GraphError(f"{what}, which has no condition on dims behind `if`", help=_FORMS)
    assert isinstance(tree, ast.Compare)
    left, right = (_expr(extent_of(e, env, what, new)) for e in (tree.left, tree.comparators[0]))
    return compared(left, right)
