"""Strides that a call brings: where a proof took subscripts for elements, and two of them are one, the call is refused, or runs
what was written."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.annotations import STRIDES_APART
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, const
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import Assert, ForKind, IfThenElse, seq
from tirlower.poly import Scop

__all__ = ["require_nested_strides"]


def require_nested_strides(func: PrimFunc, scop: Scop, body: PrimFunc, written: PrimFunc | None = None) -> PrimFunc:
    """``body`` (the function with its guards) behind an assertion for each parameter of symbolic strides that it writes where that
    matters: in a parallel, vectorized or thread-bound loop of ``func``, or anywhere once its loops were put into another order.
    It says that no two of its subscripts name one element. A call for which that is not so runs ``written`` where that is given.
    """
    reordered = bool(func.attrs.get(STRIDES_APART))
    asserts = []
    for buffer, accesses in scop.nested_strides.items():
        at_once = any(loop.kind is not ForKind.SERIAL for a in accesses if a.is_write for loop in a.loops)
        if at_once or reordered:
            text = (
                f"{func.name}: the strides of {buffer.name} may let two of its subscripts name one element "
                f"(shape {_braces(buffer, 0)}, strides in elements {_braces(buffer, len(buffer.shape))}), "
                f"and its loops run {'at once' if at_once else 'in another order'}: "
                "pass an array whose rows do not overlap, such as a copy"
            )
            message = failure("ValueError", text, *buffer.shape, *buffer.strides)
            asserts.append(Assert(_nested(buffer), message, span=None))
    if not asserts:
        return body
    if written is None:
        return body.with_body(seq(*asserts, body.body))
    return body.with_body(
        IfThenElse(build.all_of(*(each.condition for each in asserts)), body.body, refresh_binders(written.body))
    )


def _braces(buffer: Buffer, first: int) -> str:
    return f"({', '.join(f'{{{first + n}}}' for n in range(len(buffer.shape)))})"


def _nested(buffer: Buffer) -> Expr:
    """That each stride is beyond all that the dimensions of lesser strides reach (or that there are no elements)."""
    one, zero = const(1, "int64"), const(0, "int64")
    shape = [build.cast("int64", extent) for extent in buffer.shape]
    strides = [build.cast("int64", stride) for stride in buffer.strides]
    sizes = [build.max_(stride, build.sub(zero, stride)) for stride in strides]
    conditions = []
    for k, (extent, size) in enumerate(zip(shape, sizes, strict=True)):
        reach: Expr = one
        for j, (other, less) in enumerate(zip(shape, sizes, strict=True)):
            if j != k:
                below = build.le(less, size) if j < k else build.lt(less, size)
                part = build.mul(less, build.sub(other, one))
                reach = build.add(reach, build.select(below, part, zero))
        conditions.append(build.logical_or(build.le(extent, one), build.ge(size, reach)))
    empty: Expr = build.logical_not(build.all_of(*(build.gt(extent, zero) for extent in shape)))
    return build.logical_or(empty, build.all_of(*conditions))
