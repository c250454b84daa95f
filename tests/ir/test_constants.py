"""Constants are values of their types."""

from __future__ import annotations

import math

import pytest

from tirlower import ir
from tirlower.diagnostics import WellFormedError

FIT = [
    (0, "uint8"), (255, "uint8"), (-128, "int8"), (2**31 - 1, "int32"), (-(2**31), "int32"), (2**64 - 1, "uint64"),
    (2.0, "int32"), (True, "int8"), (1, "bool"), (0.1, "float32"), (65504.0, "float16"), (math.inf, "float16"),
    (math.nan, "float32"), (1e300, "float64"), (3, "float32"), (7, "int32x4"), (1e-60, "float32"),
]  # fmt: skip
MISFIT = [
    (256, "uint8"), (-1, "uint8"), (-129, "int8"), (2**31, "int32"), (-1, "uint64"), (2**64, "uint64"), (2.5, "int32"),
    (math.nan, "int32"), (math.inf, "int64"), (2, "bool"), (7.0, "float4_e2m1fn"), (math.inf, "float6_e3m2fn"), (math.nan, "float4_e2m1fn"), (1e40, "float32"), (70000.0, "float16"), (10**40, "float32"),
    (300, "uint8x4"), (1e40, "float32x2"), (500.0, "float8_e4m3fn"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), FIT)
def test_what_a_type_holds_is_a_constant_of_it(value, dtype):
    made = ir.const(value, dtype)
    inner = made.value if isinstance(made, ir.Broadcast) else made
    assert str(made.dtype) == dtype
    assert (
        math.isnan(inner.value) if value != value else inner.value == pytest.approx(float(value), rel=1e-6, abs=1e-40)
    )


@pytest.mark.parametrize(("value", "dtype"), MISFIT)
def test_what_a_type_does_not_hold_is_refused(value, dtype):
    with pytest.raises(WellFormedError, match=r"does not fit in "):
        ir.const(value, dtype)


def test_a_conversion_wraps():
    assert ir.const(300).astype("uint8").value == 44
