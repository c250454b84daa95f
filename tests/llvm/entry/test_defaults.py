"""Calls that leave out scalars with defaults: in machine code, with the bits that Python gives the same values."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tirlower.call.scalars import scalar_bits
from tirlower.call.signature import BufferParam, ScalarParam, Signature, Sym
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError

DEFAULTS: list[tuple[str, Any]] = [
    ("int8", -128),
    ("int32", -3),
    ("int64", -(1 << 63)),
    ("uint8", 255),
    ("uint64", (1 << 64) - 1),
    ("int7", -5),
    ("bool", True),
    ("bool", False),
    ("float64", 0.1),
    ("float64", 3),
    ("float64", math.inf),
    ("float64", -0.0),
    ("float64", math.nan),
    ("float32", 0.1),
    ("float16", 0.1),
    ("bfloat16", 1.25),
]


@pytest.mark.parametrize(("dtype", "value"), DEFAULTS)
def test_defaults_arrive_without_python(fast_probe, dtype, value):
    call = fast_probe(Signature("f", (ScalarParam("n", "int64"), ScalarParam("x", dtype, value))))
    call(7)
    assert call.given == [7, scalar_bits(dtype, value)[0]]
    assert call.runs == 1


def test_what_is_passed_takes_the_place_of_the_default(probe):
    call = probe(
        Signature(
            "f", (ScalarParam("a", "int32", 5), ScalarParam("b", "float64", 0.25), ScalarParam("c", "bool", True))
        )
    )
    b = scalar_bits("float64", 0.25)[0]
    other = scalar_bits("float64", -2.0)[0]
    for args, kwargs, expected in [
        ((), {}, [5, b, 1]),
        ((9,), {}, [9, b, 1]),
        ((9, -2.0), {}, [9, other, 1]),
        ((9, -2), {}, [9, other, 1]),
        ((np.int32(9), np.float64(-2), False), {}, [9, other, 0]),
        ((), {"b": -2.0}, [5, other, 1]),
        ((9,), {"c": False}, [9, b, 0]),
    ]:
        call(*args, **kwargs)
        assert call.given == expected, (args, kwargs)
    runs = call.runs
    with pytest.raises(ArgumentTypeError):
        call(1, 2.0, True, 4)
    with pytest.raises(ArgumentTypeError, match="argument `b`"):
        call(1, "2.0")
    with pytest.raises(ArgumentValueError, match="argument `a`"):
        call(1 << 40)
    assert call.runs == runs


def test_only_the_last_parameters_may_be_left_out_by_position(probe):
    call = probe(
        Signature("f", (ScalarParam("a", "int64", 5), ScalarParam("b", "int64"), ScalarParam("c", "int64", 6)))
    )
    call(1, 2)
    assert call.given == [1, 2, 6]
    call(b=2)
    assert call.given == [5, 2, 6]
    for args in [(), (1,)]:
        with pytest.raises(ArgumentTypeError):
            call(*args)


def test_a_default_that_is_an_extent_is_compared_with_the_array(probe):
    signature = Signature("f", (BufferParam("A", "float64", (Sym("n", "int32"),)), ScalarParam("n", "int32", 3)))
    call = probe(signature)
    call(np.ones(3))
    assert call.given[1] == 3
    call(np.ones(4), 4)
    assert call.given[1] == 4
    with pytest.raises(ArgumentValueError):
        call(np.ones(4))


@pytest.mark.parametrize(("dtype", "value"), [("int8", 128), ("uint8", -1), ("float32", 1e300), ("int32", 0.5)])
def test_a_default_that_does_not_fit_is_refused_where_it_is_used(probe, dtype, value):
    call = probe(Signature("f", (ScalarParam("n", "int64"), ScalarParam("x", dtype, value))))
    with pytest.raises((ArgumentTypeError, ArgumentValueError), match="argument `x`"):
        call(7)
    call(7, 1)
    assert call.given[0] == 7


def test_the_bits_of_narrow_floats_are_those_of_numpy():
    assert scalar_bits("float16", 0.1)[0] == int(np.float16(0.1).view(np.uint16))
    assert scalar_bits("bfloat16", 1.25)[0] == int(np.asarray(1.25, ml_dtypes.bfloat16).view(np.uint16))
