"""Products of fragments by a warp (``mma.sync``), in the layouts of :mod:`tirlower.interp.mma_layouts`.

The product of two elements is exact. Of floats, the products and the addend are summed in float64 and rounded once to
the type of C (float64 itself as a chain of fused operations along k); a device may round or truncate in between, so
that its results differ in the last bits where sums are not exact. Of integers, sums wrap around, or stop at the limits
where ``saturate`` is set. TF32 operands are float32 of which the lowest 13 bits are ignored.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.mma_layouts import PTX_TYPES, Fragment, mma_shape
from tirlower.interp.operands import Operand, constant_text
from tirlower.interp.scope import Frame, Value
from tirlower.interp.threads import together
from tirlower.interp.values import fused_multiply_add
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.expr import Call

__all__ = ["as_tf32", "exact_product", "matrix_values"]

Matrix: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64 | np.int64]]"


def as_tf32(values: Array) -> Array:
    """Float32 values with the 13 bits cleared that TF32 does not have.

    >>> float(as_tf32(np.array([1 + 2.0**-10 + 2.0**-11], np.float32))[0]) == 1 + 2.0**-10
    True
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)


def matrix_values(values: Array, name: str) -> Matrix:
    """Elements of a type by PTX's name, as float64 or int64."""
    if name == "tf32":
        values = as_tf32(values)
    return values.astype(np.int64) if values.dtype.kind in "iu" else values.astype(np.float64)


def exact_product(a: Matrix, b: Matrix, c: Matrix, result: DataType, saturate: bool = False) -> Array:
    """``a @ b + c`` of float64 or int64 matrices, as elements of the result's type.

    >>> exact_product(np.array([[100]]), np.array([[100]]), np.array([[2**31 - 1]]), DataType("int32"), True)
    array([[2147483647]], dtype=int32)
    """
    if result.bits == 64 and result.is_float:
        made = c.copy()
        for (i, j), start in np.ndenumerate(c):
            value = float(start)
            for k in range(a.shape[1]):
                value = fused_multiply_add(float(a[i, k]), float(b[k, j]), value, result)
            made[i, j] = value
        return made
    total: Matrix = np.einsum("ik,kj->ij", a, b) + c
    if saturate and result.is_integral:
        total = np.clip(total, int(result.min_value), int(result.max_value))
    return total.astype(result.numpy)


def _gather(operand: Operand, frames: list[Frame], fragment: Fragment, kind: str, extents: tuple[int, int]) -> Array:
    count = fragment.rows.shape[1]
    held = np.stack([operand.read(frame, kind, count) for frame in frames])
    matrix = np.zeros(extents, held.dtype)
    matrix[fragment.rows, fragment.columns] = held
    return matrix


@intrinsic("tir.ptx_mma", own_arguments=True)
def _mma(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(shape, A layout, B layout, A type, B type, C type, A, at, B, at, C, at, saturate[, bit operation])."""
    shape, a_layout, b_layout, a_name, b_name, c_name = (
        constant_text(call, position, "a name") for position in range(6)
    )
    made = mma_shape(shape, a_name, b_name, c_name)
    if made is None or len(call.args) > 13:
        raise InterpreterError(
            f"there is no product {shape} of {a_name} and {b_name} with sums of {c_name}",
            origin="interpret",
            span=call.span,
            help="m16n8k8 and m16n8k16 take fp16 and bf16, m16n8k4 and m16n8k8 tf32, m8n8k4 fp64, m16n8k16, m16n8k32 "
            "and m8n8k16 int8 and uint8, m16n8k32 e4m3 and e5m2",
        )
    if (a_layout, b_layout) != ("row", "col"):
        raise InterpreterError(
            f"{shape} takes A by rows and B by columns, got {a_layout!r} and {b_layout!r}",
            origin="interpret",
            span=call.span,
            help='state "row", "col", and transpose in ptx_ldmatrix',
        )
    a, b, c = (Operand(compiler, call, position) for position in (6, 8, 10))
    saturate = compiler.expression(call.args[12])
    a_kind, b_kind, result = PTX_TYPES[a_name], PTX_TYPES[b_name], DataType(PTX_TYPES[c_name])

    def work(frames: list[Frame]) -> None:
        left = matrix_values(_gather(a, frames, made.a, a_kind, (made.m, made.k)), a_name)
        right = matrix_values(_gather(b, frames, made.b, b_kind, (made.k, made.n)), b_name)
        addend = matrix_values(_gather(c, frames, made.c, str(result), (made.m, made.n)), c_name)
        total = exact_product(left, right, addend, result, bool(saturate(frames[0])))
        held = total[made.c.rows, made.c.columns]
        for frame, own in zip(frames, held, strict=True):
            c.write(frame, own)

    return together(compiler, call, work)
