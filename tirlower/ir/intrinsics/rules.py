"""Type rules shared by the families: the type of a call from its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.ir.dtype import DataType
from tirlower.ir.op import TypeRule

if TYPE_CHECKING:
    from tirlower.ir.expr import Expr


def like(position: int) -> TypeRule:
    """The type of one argument."""

    def rule(args: Sequence[Expr]) -> DataType:
        return args[position].dtype

    return rule


def fixed(dtype: str) -> TypeRule:
    """Always this type."""
    kind = DataType(dtype)

    def rule(args: Sequence[Expr]) -> DataType:
        return kind

    return rule


def lanes_of(position: int, element: str) -> TypeRule:
    """This element type, with the lanes of one argument."""
    dtype = DataType(element)

    def rule(args: Sequence[Expr]) -> DataType:
        source = args[position].dtype
        return dtype.with_lanes(source.lanes, source.scalable)

    return rule
