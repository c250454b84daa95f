"""Compound extents for tests."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.call.extents import Compound, compound
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, Var


def compound_of(make: Callable[..., Expr], **dtypes: str) -> Compound:
    """``compound_of(lambda n: n * 2, n="int32")``: an expression of symbols by their names and dtypes."""
    variables = {name: Var(name, DataType(dtype)) for name, dtype in dtypes.items()}
    return compound(make(**variables), {var: name for name, var in variables.items()}, "the extent")
