"""Extents that are known only when the graph runs, as a traced function sees them in ``x.shape``.

They are computed with as numbers are. A comparison is answered where what is stated of the dims decides it, and refused
where it does not: the function's own ``if`` is run once, while it is traced.

>>> import tirlower.graph as tg
>>> def rows(x):
...     return x if x.shape[0] > 0 else x + 1
>>> tg.trace(rows, tg.spec((tg.dim("N", 1), 4), "float32")).ops
()
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NoReturn, TypeAlias

import numpy as np

from tirlower.graph.core.dims import Dim, DimEnv, Extent, extent_expr
from tirlower.graph.core.extents import extent_text
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.recording import place
from tirlower.ir import Expr, Var, build
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import each
from tirlower.ir.structural import expr_digest

__all__ = ["SymbolicExtent", "UserExtent", "plain", "symbolic"]


class SymbolicExtent:
    """An expression of dims with what is stated of them: arithmetic gives others, comparisons give what is known."""

    __slots__ = ("_env", "_expr")
    __array_ufunc__ = None  # NumPy's scalars leave arithmetic to it

    def __init__(self, expr: Expr, env: DimEnv) -> None:
        self._expr = expr
        self._env = env

    def as_expr(self) -> Expr:
        """The expression."""
        return self._expr

    def __repr__(self) -> str:
        return extent_text(self._expr)

    def __hash__(self) -> int:
        return hash(expr_digest(self._expr))

    # Arithmetic

    def _with(self, function: Callable[[ExprLike, ExprLike], object], a: object, b: object) -> object:
        x, y = _operand(a), _operand(b)
        if x is None or y is None:
            return NotImplemented
        found = function(x, y)
        assert isinstance(found, (int, Expr))
        return symbolic(self._env.simplify(found), self._env) if isinstance(found, Expr) else found

    def __add__(self, other: object) -> object:
        return self._with(operator.add, self, other)

    def __radd__(self, other: object) -> object:
        return self._with(operator.add, other, self)

    def __sub__(self, other: object) -> object:
        return self._with(operator.sub, self, other)

    def __rsub__(self, other: object) -> object:
        return self._with(operator.sub, other, self)

    def __mul__(self, other: object) -> object:
        return self._with(operator.mul, self, other)

    def __rmul__(self, other: object) -> object:
        return self._with(operator.mul, other, self)

    def __floordiv__(self, other: object) -> object:
        return self._with(operator.floordiv, self, other)

    def __rfloordiv__(self, other: object) -> object:
        return self._with(operator.floordiv, other, self)

    def __mod__(self, other: object) -> object:
        return self._with(operator.mod, self, other)

    def __rmod__(self, other: object) -> object:
        return self._with(operator.mod, other, self)

    def __neg__(self) -> object:
        return 0 - self

    # Comparisons

    def __eq__(self, other: object) -> bool:
        value = _operand(other)
        if value is None:
            return NotImplemented
        found = self._env.equal(self._expr, value)
        if found is None and self._env.analyzer.can_prove(build.ne(self._expr, extent_expr(value))):
            found = False
        return self._unknown(f"{self!r} == {_shown(value)}") if found is None else found

    def __ne__(self, other: object) -> bool:
        return not bool(self == other)

    def _ordered(self, other: object, holds: _Compare, fails: _Compare, sign: str) -> bool | None:
        value = _operand(other)
        if value is None:
            return None
        proves, bound = self._env.analyzer.can_prove, extent_expr(value)
        if proves(holds(self._expr, bound)):
            return True
        return False if proves(fails(self._expr, bound)) else self._unknown(f"{self!r} {sign} {_shown(value)}")

    def __lt__(self, other: object) -> bool:
        found = self._ordered(other, build.lt, build.ge, "<")
        return NotImplemented if found is None else found

    def __le__(self, other: object) -> bool:
        found = self._ordered(other, build.le, build.gt, "<=")
        return NotImplemented if found is None else found

    def __gt__(self, other: object) -> bool:
        found = self._ordered(other, build.gt, build.le, ">")
        return NotImplemented if found is None else found

    def __ge__(self, other: object) -> bool:
        found = self._ordered(other, build.ge, build.lt, ">=")
        return NotImplemented if found is None else found

    def __bool__(self) -> bool:
        return self != 0

    def _unknown(self, question: str) -> NoReturn:
        names = {var.name for var in each(Var, self._expr)}
        stated = ", ".join(one.facts for one in self._env if one.name in names)
        raise GraphError(
            f"whether {question} at {place()} is known only when the graph runs: stated is {stated or 'nothing'}",
            help="state the dim's range so that it is decided, tg.dim(name, low, high), or its number in the spec; "
            "or write the general case: the function is run once, for all calls",
        )

    def __int__(self) -> NoReturn:
        raise GraphError(
            f"the extent {self!r} at {place()} is known only when the graph runs, and is wanted as a number",
            help="compute with it as it is; give the spec a number where one is needed",
        )


_Compare: TypeAlias = "Callable[[ExprLike, ExprLike], Expr]"
UserExtent: TypeAlias = "int | SymbolicExtent"
"""An extent of a tensor as the user sees it."""


def _operand(given: object) -> Extent | None:
    """A number or an expression; None for what is neither."""
    if isinstance(given, (SymbolicExtent, Dim)):
        return given.as_expr()
    if isinstance(given, (int, np.integer)):
        return int(given)
    return given if isinstance(given, Expr) else None


def _shown(extent: Extent) -> str:
    return extent_text(extent)


def symbolic(extent: Extent, env: DimEnv) -> UserExtent:
    """An extent as the user sees it."""
    return SymbolicExtent(extent, env) if isinstance(extent, Expr) else extent


def plain(given: object) -> object:
    """An argument with expressions for what the user sees of them, also in tuples, lists, dicts and slices."""
    if isinstance(given, SymbolicExtent):
        return given.as_expr()
    if isinstance(given, slice):
        return slice(plain(given.start), plain(given.stop), plain(given.step))
    if type(given) in (tuple, list):
        several = [plain(one) for one in given]  # type: ignore[attr-defined]  # a tuple or a list
        return tuple(several) if type(given) is tuple else several
    if type(given) is dict:
        return {key: plain(one) for key, one in given.items()}
    return given
