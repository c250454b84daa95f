"""Structural equality: the same program up to the names of what it binds; and the error that shows a difference."""

from __future__ import annotations

from tirlower.diagnostics import Label, TirError
from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import expr_deep_equal, expr_digest, structural_hash
from tirlower.ir.equality import compare, path_of
from tirlower.ir.expr import Expr
from tirlower.ir.node import Node
from tirlower.ir.path import Path
from tirlower.ir.stmt import Stmt
from tirlower.ir.text import locate

__all__ = [
    "StructuralMismatch",
    "assert_structural_equal",
    "expr_deep_equal",
    "expr_digest",
    "get_first_structural_mismatch",
    "structural_equal",
    "structural_hash",
]


class StructuralMismatch(TirError, AssertionError, ValueError):
    """Two trees that were asserted to be structurally equal are not.

    ``path`` is where they part (``body.stmts[0].extent``), ``lhs`` and ``rhs`` are what stands there.
    """

    path: str = ""
    lhs: object = None
    rhs: object = None


def structural_equal(a: object, b: object, map_free_vars: bool = False) -> bool:
    """Whether two expressions, statements, functions, modules (or attribute values) are structurally equal.

    Bound variables, buffers and blocks may have other names; free variables must be the same ones, unless
    ``map_free_vars`` pairs them one to one. Data types, pointer scopes, alignment, regions, annotations and function
    attributes are compared; names and spans are not. A NaN equals itself; 0.0 and -0.0 differ.

    >>> from tirlower.ir import Add, Var
    >>> x, y = Var("x"), Var("y")
    >>> structural_equal(Add(x, 1), Add(x, 1)), structural_equal(Add(x, 1), Add(y, 1))
    (True, False)
    >>> structural_equal(Add(x, 1), Add(y, 1), map_free_vars=True)
    True
    """
    return compare(a, b, map_free_vars) is None


def get_first_structural_mismatch(lhs: object, rhs: object, map_free_vars: bool = False) -> tuple[Path, Path] | None:
    """Where two trees part first: the path in each; None where they are structurally equal.

    >>> from tirlower.ir import Add, Var
    >>> x = Var("x")
    >>> [str(path) for path in get_first_structural_mismatch(Add(x, 1), Add(x, 2))]
    ['b', 'b']
    """
    failed = compare(lhs, rhs, map_free_vars)
    if failed is None:
        return None
    trail = failed.mismatch[0] if failed.mismatch is not None else None
    return path_of(trail, 0), path_of(trail, 1)


def assert_structural_equal(a: object, b: object, map_free_vars: bool = False) -> None:
    """Raise :class:`StructuralMismatch` unless the two are structurally equal.

    The error names the path to the first difference and shows it, underlined, in both scripts.
    """
    failed = compare(a, b, map_free_vars)
    if failed is None:
        return
    trail, x, y, why = failed.mismatch or (None, a, b, "")
    where = str(path_of(trail, 0))
    labels = []
    for root, side, name, value in ((a, 0, "<left>", x), (b, 1, "<right>", y)):
        if _has_symbols(root) or (value is None and why):
            continue  # not of the language, or not there: no script shows it
        span = locate(root, name, path_of(trail, side).chain(root))
        if span is not None:
            labels.append(Label(span, _describe(value), primary=True))
    what = f"{_describe(x)} and {_describe(y)}"
    raise_at = f"the two differ at `{where}`" if where else "the two differ"
    if why:
        what = why if x is None or y is None else f"{why} ({what})"
    error = StructuralMismatch(f"{raise_at}: {what}", labels=labels)
    error.path, error.lhs, error.rhs = where, x, y
    raise error


def _has_symbols(value: object) -> bool:
    """Whether something is a node of graphs: it has symbols of its own."""
    return isinstance(value, Node) and (value.is_symbol or value.binds_symbols)


def _describe(value: object) -> str:
    if isinstance(value, Stmt):
        return f"a {type(value).__name__}"
    if isinstance(value, (Expr, Buffer)):
        text = str(value)
    elif isinstance(value, Node):
        text = repr(value) if _has_symbols(value) else f"a {type(value).__name__}"
    elif isinstance(value, str):
        text = str.__repr__(value)
    else:
        text = repr(value)
    text = text.replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."
