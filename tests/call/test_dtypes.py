from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tirlower.call.dtypes import element_type, numpy_dtype
from tirlower.diagnostics import LoweringError

#: of the DLPack specification
KIND_CODES = {"int": 0, "uint": 1, "float": 2, "bool": 6}
NUMPY = ["bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"]
EXTENDED = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn", "int4", "uint4"]


@pytest.mark.parametrize("name", NUMPY)
def test_types_that_numpy_has(name: str) -> None:
    made, theirs = element_type(name), np.dtype(name)
    bits = 1 if name == "bool" else theirs.itemsize * 8
    assert (made.name, made.bits, made.itemsize) == (name, bits, theirs.itemsize)
    assert made.dlpack == KIND_CODES[made.kind] | theirs.itemsize * 8 << 8 | 1 << 16
    assert made.kind == {"b": "bool", "i": "int", "u": "uint", "f": "float"}[theirs.kind]
    assert made.signed == (theirs.kind == "i") and numpy_dtype(name) == theirs
    if theirs.kind in "iu":
        assert made.int_range() == (np.iinfo(theirs).min, np.iinfo(theirs).max)
    assert element_type("bool").int_range() == (0, 1)


@pytest.mark.parametrize("name", EXTENDED)
def test_types_of_ml_dtypes(name: str) -> None:
    made = element_type(name)
    assert made.itemsize == np.dtype(getattr(ml_dtypes, name)).itemsize and numpy_dtype(name).name == name
    if "int" in name:
        theirs = ml_dtypes.iinfo(name)
        assert made.int_range() == (theirs.min, theirs.max) and made.bits == theirs.bits
    else:
        assert made.kind == "float" and made.bits == ml_dtypes.finfo(name).bits


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 9, 31, 33, 63, 64])
def test_integers_of_any_width_are_scalars(bits: int) -> None:
    signed, unsigned = element_type(f"int{bits}"), element_type(f"uint{bits}")
    assert signed.bits == unsigned.bits == bits and signed.signed and not unsigned.signed
    assert signed.int_range() == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) and unsigned.int_range() == (0, 2**bits - 1)


@pytest.mark.parametrize("name", ["int0", "int65", "float31", "complex64", "str", "int08", ""])
def test_what_no_call_passes(name: str) -> None:
    with pytest.raises(LoweringError, match="cannot pass"):
        element_type(name)


def test_handles_have_no_elements() -> None:
    made = element_type("handle")
    assert (made.kind, made.bits, made.itemsize, made.dlpack) == ("handle", 64, 0, -1)
