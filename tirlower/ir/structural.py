"""Structural equality: the same program up to the names of what it binds; and the error that shows a difference."""

from __future__ import annotations

from tirlower.diagnostics import Label, TirError
from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import expr_deep_equal, expr_digest, structural_hash
from tirlower.ir.equality import Key, Path, Step, compare
from tirlower.ir.expr import Expr, Var
from tirlower.ir.node import Node
from tirlower.ir.stmt import Stmt, normalize_attr
from tirlower.ir.text import locate

__all__ = [
    "StructuralMismatch",
    "assert_structural_equal",
    "expr_deep_equal",
    "expr_digest",
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


def assert_structural_equal(a: object, b: object, map_free_vars: bool = False) -> None:
    """Raise :class:`StructuralMismatch` unless the two are structurally equal.

    The error names the path to the first difference and shows it, underlined, in both scripts.
    """
    failed = compare(a, b, map_free_vars)
    if failed is None:
        return
    path, x, y, why = failed.mismatch or (None, a, b, "")
    steps = _steps(path)
    where = _path_text(steps)
    labels = []
    for root, side, name, value in ((a, 0, "<left>", x), (b, 1, "<right>", y)):
        span = locate(root, name, _chain(root, steps, side))
        if span is not None:
            labels.append(Label(span, _describe(value), primary=True))
    what = f"{_describe(x)} and {_describe(y)}"
    raise_at = f"the two differ at `{where}`" if where else "the two differ"
    error = StructuralMismatch(f"{raise_at}: {why + ' (' + what + ')' if why else what}", labels=labels)
    error.path, error.lhs, error.rhs = where, x, y
    raise error


def _steps(path: Path | None) -> list[Step]:
    steps: list[Step] = []
    while path is not None:
        path, step = path
        steps.append(step)
    steps.reverse()
    return steps


def _path_text(steps: list[Step]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, str):
            text += f".{step}" if text else step
        elif isinstance(step, Key):
            text += f"[{step.lhs.name if isinstance(step.lhs, Var) else repr(step.lhs)}]"
        else:
            text += f"[{step}]"
    return text


def _chain(root: object, steps: list[Step], side: int) -> list[object]:
    """The values from the root along a path, on one side."""
    chain = [root]
    value: object = root
    for step in steps:
        try:
            if isinstance(step, str):
                value = getattr(value, step)
            elif isinstance(step, Key):
                if not isinstance(value, dict):
                    break
                value = value[step.rhs if side else step.lhs]
            else:
                value = normalize_attr(value)
                if not isinstance(value, (tuple, dict)):
                    break
                value = value[step]
        except (AttributeError, KeyError, IndexError, TypeError):
            break  # the side ends here: that is the difference
        chain.append(value)
    return chain


def _describe(value: object) -> str:
    if isinstance(value, Stmt):
        return f"a {type(value).__name__}"
    if isinstance(value, (Expr, Buffer)):
        text = str(value)
    elif isinstance(value, Node):
        text = f"a {type(value).__name__}"
    elif isinstance(value, str):
        text = str.__repr__(value)
    else:
        text = repr(value)
    text = text.replace("\n", " ")
    return text if len(text) <= 80 else text[:77] + "..."
