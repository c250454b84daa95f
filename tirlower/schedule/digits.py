"""The digits of an index: of which loops it is made, and with which weights, where each value is one combination of them."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.arith.iter_detect import detect_iter_map
from tirlower.arith.iter_map import IterMark, IterSplit, IterSum
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, ExprLike, IntImm, Var, const, is_const_int

__all__ = ["digits_of", "number"]


def number(value: Expr) -> int | None:
    """The value of a constant; None for others."""
    return int(value.value) if isinstance(value, IntImm) else None


def digits_of(index: Expr, ranges: Mapping[Var, Range], predicate: ExprLike = True) -> list[IterSplit] | None:
    """The digits of an index, each of one loop, the highest first; None where there are others, or values are left out.

    >>> from tirlower.ir import Range, Var
    >>> i, j = Var("i", "int32"), Var("j", "int32")
    >>> found = digits_of(j * 4 + i, {i: Range(0, 4), j: Range(0, 3)})
    >>> [(one.source.var.name, one.extent.value, one.scale.value) for one in found]
    [('j', 3, 4), ('i', 4, 1)]
    """
    found = detect_iter_map([index], ranges, predicate, "bijective")
    if not found.indices or not is_const_int(found.indices[0].base, 0):
        return None
    made = _digits(found.indices[0])
    total = 1
    for split in (made or [])[::-1]:
        if not is_const_int(split.scale, total):
            return None
        total *= number(split.extent) or 0
    return made


def _digits(total: IterSum, factor: int = 1) -> list[IterSplit] | None:
    made: list[IterSplit] = []
    for split in total.args:
        scale = number(split.scale)
        if scale is None or number(split.extent) is None or number(split.lower_factor) is None:
            return None
        source: Expr | IterSum = split.source.source
        if isinstance(source, IterSum):
            inner = _digits(source, factor * scale) if _whole(split, split.source) else None
            if inner is None or not is_const_int(source.base, 0):
                return None
            made += inner
        elif split.source.var is not None:
            made.append(split.scaled(const(scale * factor, split.scale.dtype)))
        else:
            return None
    return sorted(made, key=lambda split: -(number(split.scale) or 0))


def _whole(split: IterSplit, mark: IterMark) -> bool:
    """Whether a digit is all of its iterator."""
    return is_const_int(split.lower_factor, 1) and number(split.extent) == number(mark.extent)
