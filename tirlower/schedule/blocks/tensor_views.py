"""May a part of a buffer be handed to an intrinsic's implementation as the buffer that it asks for: strides and offset?"""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import Expr, IntImm, Var, const, is_const_int

__all__ = ["misfit"]


def misfit(analyzer: Analyzer, wanted: Buffer, buffer: Buffer, base: Sequence[Expr]) -> str:
    """What keeps the part of a buffer that begins at ``base`` from being one as it is wanted; nothing where it may.

    Strides and offsets that are variables take any value, one variable the same in all places.

    >>> from tirlower.ir import decl_buffer
    >>> wanted = decl_buffer((4, 4), "int32", strides=[4, 1])
    >>> misfit(Analyzer(), wanted, decl_buffer((8, 12), "int32"), [const(0, "int32")] * 2)
    'it has strides [12, 1], wanted are [4, 1]'
    """
    strides = _strides(buffer)
    if wanted.strides:
        own = strides[len(strides) - len(wanted.shape) :]
        known: dict[Var, Expr] = {}
        for mine, stride, extent in zip(own, wanted.strides, wanted.shape, strict=True):
            asked = known.setdefault(stride, mine) if isinstance(stride, Var) else stride
            if not is_const_int(extent, 1) and not analyzer.can_prove_equal(build.cast(mine.dtype, asked), mine):
                return (
                    f"it has strides [{', '.join(map(str, own))}], wanted are [{', '.join(map(str, wanted.strides))}]"
                )
    offset: Expr = const(0, "int64")
    for begin, stride in zip(base, strides, strict=True):
        offset = build.add(offset, build.mul(build.cast("int64", begin), build.cast("int64", stride)))
    free = isinstance(wanted.elem_offset, Var)
    if buffer.elem_offset is not None and not is_const_int(buffer.elem_offset, 0):
        known_multiple = free and buffer.offset_factor and buffer.offset_factor % max(wanted.offset_factor, 1) == 0
        if not known_multiple:
            offset = build.add(offset, build.cast("int64", buffer.elem_offset))
    factor = IntImm(INT64, max(wanted.offset_factor, 1))
    if not analyzer.can_prove_equal(build.floormod(offset, factor), const(0, "int64")):
        return f"its offset {analyzer.simplify(offset)} is not known to be a multiple of {factor.value}"
    return ""


def _strides(buffer: Buffer) -> list[Expr]:
    """How many elements apart the neighbours in each dimension are."""
    if buffer.strides:
        return list(buffer.strides)
    made: list[Expr] = []
    step: Expr = const(1, buffer.shape[0].dtype if buffer.shape else "int32")
    for extent in buffer.shape[::-1]:
        made.append(step)
        step = build.mul(step, build.cast(step.dtype, extent))
    return made[::-1]
