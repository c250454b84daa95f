"""Extents of arrays as calls compute them: numbers, symbols, and compound expressions of symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tirlower.diagnostics import LoweringError
from tirlower.ir.evaluator import Evaluator
from tirlower.ir.expr import Add, Call, Expr, IntImm, Mul, Sub, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.integers import within, wrapped
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Evaluate

__all__ = ["Compound", "Extent", "Sym", "compound", "extent_of", "extent_text", "names_in"]

_RET: Final = Op.get("tir.ret")


@dataclass(frozen=True, slots=True)
class Sym:
    """A symbolic dimension, or an integer scalar parameter of that name, standing bare; ``dtype`` int32 or int64."""

    name: str
    dtype: str = "int64"

    @property
    def text(self) -> str:
        """The symbol as messages show it."""
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols that it reads: itself."""
        return (self.name,)

    def evaluate(self, env: Mapping[str, float]) -> int:
        """Its value."""
        return int(env[self.name])


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    """An expression of symbols that is checked and never solved, like the ``n * 2`` of a shape.

    ``variables`` has the name of the symbol or scalar parameter behind each variable, in the order in which ``expr``
    reads them.
    """

    expr: Expr
    variables: Mapping[Var, str]
    evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "evaluator", Evaluator(self.expr))

    @property
    def text(self) -> str:
        """The expression as messages show it."""
        return str(self.expr)

    @property
    def names(self) -> tuple[str, ...]:
        """The symbols that it reads."""
        return tuple(dict.fromkeys(self.variables.values()))

    def evaluate(self, env: Mapping[str, float]) -> int:
        """The value. Raises ZeroDivisionError where it has none, and OverflowError where it leaves its type."""
        if self.evaluator.strange is not None:
            return self._interpreted(env)
        return int(self.evaluator.at({var: int(env[name]) for var, name in self.variables.items()}, _checked))

    def _interpreted(self, env: Mapping[str, float]) -> int:
        # What has more in it is rare, and not worth the import before.
        from tirlower.interp.interpreter import Interpreter

        body = Evaluate(Call(_RET, (self.expr,), self.expr.dtype))
        func = PrimFunc(tuple(self.variables), {}, self.expr.dtype, {"global_symbol": "value"}, body)
        return int(Interpreter(func).call("value", *[env[name] for name in self.variables.values()]))


Extent: TypeAlias = int | Sym | Compound


def extent_text(extent: Extent) -> str:
    """An extent as messages show it."""
    return str(extent) if isinstance(extent, int) else extent.text


def names_in(extent: Extent) -> tuple[str, ...]:
    """The symbols and scalar parameters that an extent reads."""
    return () if isinstance(extent, int) else extent.names


def extent_of(expr: Expr, names: Mapping[Var, str], what: str, *, integral: bool = True) -> Extent:
    """An extent as calls take it: a number, a symbol, or a compound expression of symbols.

    ``names`` gives the symbols' names; ``what`` is how an error calls the place; ``integral`` says that machine code
    computes it, which has arithmetic of integers alone.

    Raises:
        LoweringError: the expression holds a variable that is no symbol, or something that is not computed.
    """
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return Sym(_name(expr, names, what), str(expr.dtype))
    return compound(expr, names, what, integral=integral)


def compound(expr: Expr, names: Mapping[Var, str], what: str, *, integral: bool = True) -> Compound:
    """A compound expression of symbols; the arguments are those of :func:`extent_of`, and so are the errors."""
    made = Compound(expr, {var: _name(var, names, what) for var in each(Var, expr)})
    strange = made.evaluator.strange
    if integral and strange is not None:
        raise LoweringError(
            f"{what} is `{expr}`, which has more in it than integer arithmetic: {type(strange).__name__}",
            origin="call",
            help="use + - * // % min max and comparisons of integer symbols",
        )
    return made


def _name(var: Var, names: Mapping[Var, str], what: str) -> str:
    found = names.get(var)
    if found is None:
        raise LoweringError(
            f"{what} depends on `{var.name}`, which is no parameter and no symbol of a parameter's shape",
            origin="call",
            help=f"make `{var.name}` a parameter",
        )
    return found


def _checked(op: Expr, exact: int) -> int:
    """What leaves its type: a sum, difference or product with a sign has no value, anything else wraps."""
    return int((within if isinstance(op, (Add, Sub, Mul)) and op.dtype.is_int else wrapped)(op, exact))
