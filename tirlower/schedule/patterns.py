"""Statements of the script with holes, as questions to a program: ``_`` for anything, ``_name`` for the same thing twice.

Expressions are compared as the script writes them; an update matches ``C[_] += e`` however it is written.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import Expr
from tirlower.ir.stmt import Block, BufferStore, Evaluate, For, IfThenElse, Seq, Stmt
from tirlower.poly.reductions import reduction_of

__all__ = ["ExprPattern", "Pattern"]

HELP = (
    'write a statement of the script with _ for what may be anything: "C[_] += _", "for k in _: ...", "if _: A[_] = 0"'
)
_UPDATES = {ast.Add: "sum", ast.Mult: "product"}


@dataclass
class Pattern:
    """A statement with holes. ``name`` is that of the buffer, loop or block which it names; "" where it names none."""

    text: str
    tree: ast.stmt = field(init=False)
    name: str = field(init=False, default="")

    def __post_init__(self) -> None:
        """The text is one statement. Raises :class:`BadArgument`."""
        try:
            body = ast.parse(self.text).body
        except SyntaxError as error:
            raise BadArgument(f"{self.text!r} is no statement: {error.msg}", help=HELP) from error
        if len(body) != 1 or not isinstance(body[0], (ast.Assign, ast.AugAssign, ast.For, ast.If, ast.With, ast.Expr)):
            raise BadArgument(f"{self.text!r} is no store, loop, condition, block or call", help=HELP)
        self.tree = body[0]
        named = _named(self.tree)
        self.name = "" if named.startswith("_") else named

    def matches(self, stmt: Stmt) -> bool:
        """Whether a statement is of this form."""
        return _statement(self.tree, stmt, {})


@dataclass
class ExprPattern:
    """An expression with holes.

    >>> from tirlower.ir import Var, build
    >>> i = Var("i")
    >>> ExprPattern("_ * 2").matches(build.mul(i, 2)), ExprPattern("_x + _x").matches(build.add(i, 2))
    (True, False)
    """

    text: str
    tree: ast.expr = field(init=False)

    def __post_init__(self) -> None:
        """The text is an expression. Raises :class:`BadArgument`."""
        try:
            self.tree = ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise BadArgument(
                f"{self.text!r} is no expression: {error.msg}", help='write for example "A[_] * 2"'
            ) from error

    def matches(self, value: Expr) -> bool:
        """Whether an expression is of this form."""
        return _expr(self.tree, value, {})


def _named(tree: ast.stmt) -> str:
    if isinstance(tree, (ast.Assign, ast.AugAssign)):
        target = tree.targets[0] if isinstance(tree, ast.Assign) else tree.target
        return target.value.id if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) else ""
    if isinstance(tree, ast.For):
        return tree.target.id if isinstance(tree.target, ast.Name) else ""
    return _block_name(tree) if isinstance(tree, ast.With) else ""


def _block_name(tree: ast.With) -> str:
    call = tree.items[0].context_expr
    named = call.args[0] if isinstance(call, ast.Call) and call.args else None
    return str(named.value) if isinstance(named, ast.Constant) else ""


Bound = dict[str, str]


def _hole(tree: ast.AST) -> str:
    """The name of a hole that a tree is; nothing for others."""
    return tree.id if isinstance(tree, ast.Name) and tree.id.startswith("_") else ""


def _body(trees: Sequence[ast.stmt], stmt: Stmt | None, bound: Bound) -> bool:
    """Whether statements are of these forms one after the other; ``...`` is any number of them."""
    stmts: list[Stmt] = [] if stmt is None else [*stmt.stmts] if isinstance(stmt, Seq) else [stmt]

    def at(tree: int, place: int, known: Bound) -> Bound | None:
        if tree == len(trees):
            return known if place == len(stmts) else None
        if _is_dots(trees[tree]):
            for behind in range(place, len(stmts) + 1):
                found = at(tree + 1, behind, known)
                if found is not None:
                    return found
            return None
        if place == len(stmts):
            return None
        mine = dict(known)
        return at(tree + 1, place + 1, mine) if _statement(trees[tree], stmts[place], mine) else None

    found = at(0, 0, bound)
    if found is not None:
        bound.update(found)
    return found is not None


def _is_dots(tree: ast.stmt) -> bool:
    return isinstance(tree, ast.Expr) and isinstance(tree.value, ast.Constant) and tree.value.value is Ellipsis


def _statement(tree: ast.stmt, stmt: Stmt, bound: Bound) -> bool:
    match tree, stmt:
        case ast.Expr(), Evaluate():
            return _expr(tree.value, stmt.value, bound)
        case ((ast.Assign() | ast.AugAssign()), BufferStore()):
            return _store(tree, stmt, bound)
        case ast.For(), For():
            named = _text(tree.target, stmt.loop_var.name, bound) and _range(tree.iter, stmt, bound)
            return named and _body(tree.body, stmt.body, bound)
        case ast.If(), IfThenElse():
            held = _expr(tree.test, stmt.condition, bound) and _body(tree.body, stmt.then_case, bound)
            return held and (_any(tree.orelse) or _body(tree.orelse, stmt.else_case, bound))
        case ast.With(), Block():
            return _block_name(tree) in ("", "_", stmt.name) and _body(tree.body, stmt.body, bound)
    return False


def _any(trees: Sequence[ast.stmt]) -> bool:
    return len(trees) == 1 and _is_dots(trees[0])


def _range(tree: ast.expr, loop: For, bound: Bound) -> bool:
    """``range(n)``, ``range(a, b)`` for the start and the end, or a hole."""
    if _hole(tree):
        return True
    if not isinstance(tree, ast.Call) or not 1 <= len(tree.args) <= 2:
        return False
    ends = [loop.extent] if len(tree.args) == 1 else [loop.min, loop.min + loop.extent]
    return all(_expr(one, end, bound) for one, end in zip(tree.args, ends, strict=True))


def _store(tree: ast.Assign | ast.AugAssign, stmt: BufferStore, bound: Bound) -> bool:
    target = tree.targets[0] if isinstance(tree, ast.Assign) else tree.target
    if not isinstance(target, ast.Subscript) or not _access(target, stmt.buffer.name, stmt.indices, bound):
        return False
    if isinstance(tree, ast.Assign):
        return _expr(tree.value, stmt.value, bound)
    found, wanted = reduction_of(stmt), _UPDATES.get(type(tree.op))
    if found is None or found.op != wanted:
        return False
    if _hole(tree.value):
        return True
    a, b = getattr(stmt.value, "a", None), getattr(stmt.value, "b", None)
    return any(isinstance(one, Expr) and _expr(tree.value, one, dict(bound)) for one in (a, b))


def _access(tree: ast.Subscript, name: str, indices: Sequence[Expr], bound: Bound) -> bool:
    if not _text(tree.value, name, bound):
        return False
    if _hole(tree.slice) == "_":
        return True
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    return len(parts) == len(indices) and all(
        _expr(part, index, bound) for part, index in zip(parts, indices, strict=True)
    )


def _text(tree: ast.AST, name: str, bound: Bound) -> bool:
    """Whether a name is meant: by itself, or by a hole."""
    hole = _hole(tree)
    if not hole:
        return isinstance(tree, ast.Name) and tree.id == name
    return hole == "_" or bound.setdefault(hole, name) == name


def _expr(tree: ast.expr, value: Expr, bound: Bound) -> bool:
    if _hole(tree) == "_":
        return True
    return _alike(tree, ast.parse(str(value), mode="eval").body, bound)


def _alike(tree: object, other: object, bound: Bound) -> bool:
    """Whether a tree of Python with holes is of the form of another one."""
    if isinstance(tree, ast.Name) and tree.id.startswith("_"):
        return tree.id == "_" or bound.setdefault(tree.id, ast.dump(other)) == ast.dump(other)  # type: ignore[arg-type]
    tree, other = _plain(tree), _plain(other)
    if isinstance(tree, list) and isinstance(other, list):
        return len(tree) == len(other) and all(_alike(a, b, bound) for a, b in zip(tree, other, strict=True))
    if not isinstance(tree, ast.AST) or not isinstance(other, ast.AST):
        return bool(tree == other)
    if isinstance(tree, ast.Subscript) and isinstance(other, ast.Subscript) and _hole(tree.slice) == "_":
        return _alike(tree.value, other.value, bound)
    if type(tree) is not type(other):
        return False
    return all(
        _alike(getattr(tree, name), getattr(other, name), bound) for name in tree._fields if name not in ("ctx", "kind")
    )


def _plain(tree: object) -> object:
    """A constant without its type: ``T.float32(0.0)`` is 0."""
    if isinstance(tree, ast.Call) and len(tree.args) == 1 and isinstance(tree.func, ast.Attribute):
        inner = tree.args[0]
        negative = isinstance(inner, ast.UnaryOp) and isinstance(inner.operand, ast.Constant)
        if isinstance(inner, ast.Constant) or negative:
            return inner
    return tree
