"""The values of forms, and of the operations in them that are not affine: at a point, or at a vector of points."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from tirlower.ir import DataType, Expr, Var
from tirlower.ir.integers import Compute, Value, operation, word_of, wrapped
from tirlower.poly.conditions import Condition
from tirlower.poly.forms import Dim, Form

__all__ = ["Valuation", "evaluate", "operation_of"]


class Valuation(abc.ABC):
    """Values of variables, and what follows of them: numbers, or vectors of int64. None stands for what is not known."""

    def __init__(self, values: Mapping[Dim, Value]) -> None:
        self.values = values
        self.known: dict[Dim, Value] = {}

    def of(self, dim: Dim) -> Value:
        """The value of a dim."""
        found = self.values.get(dim)
        if found is not None or isinstance(dim, Var):
            return found
        if dim not in self.known:
            self.known[dim] = dim.at(self)
        return self.known[dim]

    @abc.abstractmethod
    def value(self, lin: Form) -> Value:
        """The value of a form."""

    @abc.abstractmethod
    def holds(self, condition: Condition) -> Value:
        """Whether a condition holds."""


class _Point(Valuation):
    """A point that gives numbers to variables."""

    def value(self, lin: Form) -> int | None:
        """The value of a form."""
        total = lin.const
        for dim, c in lin.terms.items():
            part = self.of(dim)
            if part is None:
                return None
            total += c * int(part)
        return total

    def holds(self, condition: Condition) -> bool | None:
        """Whether a condition holds."""
        return condition.holds(self.value)


def evaluate(lin: Form, values: Mapping[Dim, int]) -> int | None:
    """The value of a form at a point that gives values to variables; None where it has one without.

    >>> from tirlower.poly.forms import single
    >>> i = Var("i")
    >>> evaluate(single(i).scaled(3).shifted(1), {i: 2})
    7
    """
    return _Point(values).value(lin)


def operation_of(op: Expr) -> Compute | None:
    """What an operation computes of its operands, numbers or vectors of int64 (None where they have no value): None for
    one that is not known, or not of scalar integers.

    >>> from tirlower.ir import Var, build
    >>> found = operation_of(build.call("tir.bitwise_xor", Var("i"), 1, dtype="int32"))
    >>> found(-2, 1), operation_of(build.cast("int8", Var("i")))(200)
    (-1, -56)
    """
    compute = operation(word_of(op), op.dtype)
    if compute is None or not all(_is_number(x.dtype) for x in (op, *op.children())):
        return None
    apply = compute

    def wrapping(*values: Value) -> Value:
        try:
            return wrapped(op, apply(*values))
        except ArithmeticError:
            return None

    return wrapping


def _is_number(dtype: DataType) -> bool:
    return dtype.is_integral and dtype.is_scalar and not dtype.is_bool
