"""Mathematical functions and bit operations: pure, lane by lane."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import lanes_of, like
from tirlower.ir.op import Op, Purity

UNARY_MATH = (
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin",
    "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "fabs", "floor", "ceil",
    "round", "trunc", "nearbyint",
)  # fmt: skip
"""Functions of one float argument. ``round`` takes halves away from zero, ``nearbyint`` to even."""

BINARY_MATH = ("pow", "atan2", "fmod", "copysign", "nextafter", "hypot")
"""Functions of two float arguments of one type."""

for _name in UNARY_MATH:
    Op.register(f"tir.{_name}", 1, infer=like(0), elementwise=True)
for _name in BINARY_MATH:
    Op.register(f"tir.{_name}", 2, infer=like(0), elementwise=True)
Op.register("tir.ldexp", 2, infer=like(0), elementwise=True)
Op.register("tir.fma", 3, infer=like(0), elementwise=True)
for _name in ("isnan", "isinf", "isfinite"):
    Op.register(f"tir.{_name}", 1, infer=lanes_of(0, "bool"), elementwise=True)

for _name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
    Op.register(f"tir.{_name}", 2, infer=like(0), elementwise=True)
Op.register("tir.bitwise_not", 1, infer=like(0), elementwise=True)
Op.register("tir.popcount", 1, infer=like(0), elementwise=True)
Op.register("tir.clz", 1, infer=lanes_of(0, "int32"), elementwise=True)

# Fixed-point multiplication of quantised networks: (x * y) rounded, shifted right by q + s.
Op.register("tir.q_multiply_shift", 4, infer=like(0), elementwise=True)
Op.register("tir.q_multiply_shift_per_axis", 7, infer=like(0), elementwise=True)

# A 64-bit constant as its two halves (low, high).
Op.register("tir.large_uint_imm", 2, Purity.PURE, dtype_first=True)
Op.register("tir.dp4a", 3, infer=like(2))
