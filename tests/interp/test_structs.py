from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tirlower.interp.structs import Struct, pack_arguments, tensor_struct
from tirlower.interp.values import Fault
from tirlower.ir.struct_field import ArgumentCode, StructField


def test_tensor_descriptors_have_dlpacks_fields():
    array = np.zeros((3, 5), np.float32)
    for a, strides in ((array, None), (array.T, [1, 5])):
        struct = tensor_struct(a, "a")
        shape = struct.get(0, StructField.SHAPE).view("int64")
        assert [shape.get(n) for n in range(2)] == list(a.shape)
        got = struct.get(0, StructField.STRIDES)
        assert got is None if strides is None else [got.view("int64").get(n) for n in range(2)] == strides
        assert struct.get(0, StructField.NDIM) == 2
        assert (struct.get(0, StructField.TYPE_CODE), struct.get(0, StructField.TYPE_BITS)) == (2, 32)


def test_type_codes():
    for dtype, code, bits in (
        (np.bool_, 6, 8),
        (np.uint8, 1, 8),
        (ml_dtypes.bfloat16, 4, 16),
        (ml_dtypes.float8_e5m2, 12, 8),
    ):
        struct = tensor_struct(np.zeros(1, dtype), "a")
        assert (struct.get(0, StructField.TYPE_CODE), struct.get(0, StructField.TYPE_BITS)) == (code, bits)


def test_packed_arguments():
    values, codes, count = pack_arguments([np.zeros(2, np.int32), 5, 2.5, None])
    view = codes.view("int32")
    assert [view.get(n) for n in range(count)] == [
        ArgumentCode.TENSOR,
        ArgumentCode.INT,
        ArgumentCode.FLOAT,
        ArgumentCode.NULL,
    ]
    assert values.get(1, StructField.VALUE) == 5 and values.get(3, StructField.VALUE) is None


def test_elements_and_unset_fields():
    struct = Struct("s")
    struct.get(2, StructField.ADDRESS).set(1, StructField.NDIM, 4)
    assert struct.get(3, StructField.NDIM) == 4
    with pytest.raises(Fault, match="field 4 of element 0 of s was never set"):
        struct.get(0, StructField.NDIM)
