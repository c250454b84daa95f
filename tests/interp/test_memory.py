from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp.memory import (
    Memory,
    OutsideMemory,
    Pointer,
    ReadOnlyMemory,
    UnwrittenMemory,
    View,
    compact_strides,
)
from tirlower.interp.values import UNDEF, Fault
from tirlower.ir import DataType


def values(view: View) -> list[object]:
    return [view.get(n) for n in range(view.length)]


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool"]
)
def test_views_read_and_write_numpy_memory(dtype):
    array = np.array([0, 1, 1, 0, 1]).astype(dtype)
    view = Pointer.of_array(array, "a").view("bool" if dtype == "bool" else dtype)
    assert values(view) == array.tolist()
    view.put(0, 1)
    assert array[0] == 1


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_narrow_floats_are_stored_by_their_bits(dtype):
    array = np.array([0.5, -0.0, 2.0, 3.5], dtype)
    view = Pointer.of_array(array, "a").view(DataType.from_numpy(array.dtype))
    assert values(view) == [0.5, 0.0, 2.0, 3.5]
    view.put(1, -1.25)
    assert float(array[1]) == -1.25


def test_odd_widths_sit_in_the_next_standard_width():
    array = np.array([7, -8, 8], np.int8)
    view = Pointer.of_array(array, "a").view("int4")
    assert values(view) == [7, -8, -8]  # 8 is -8 in four bits
    wide = np.zeros(2, np.int32)
    Pointer.of_array(wide, "w").view("int20").put(1, -5)
    assert wide.tolist() == [0, -5]


def test_views_of_other_types_share_the_bytes():
    memory = Memory.allocate(16, "m")
    Pointer(memory).view("float32").put(1, 1.0)
    assert Pointer(memory).view("uint32").get(1) == 0x3F800000
    assert Pointer(memory, 4).view("uint32").start == 1
    halves = Pointer(memory).view("uint16")
    assert [halves.get(2), halves.get(3)] == [0x0000, 0x3F80]
    with pytest.raises(UnwrittenMemory):
        Pointer(memory).view("uint64").get(0)  # bytes 0 to 3 were never written


def test_unaligned_pointers():
    memory = Memory.allocate(12, "m")
    view = View(Pointer(memory, 2), DataType("int32"), (2,), (1,), 0)
    assert view.length == 2 and view.start == 0
    view.put(0, 0x01020304)
    assert memory.raw.tolist()[2:6] == [4, 3, 2, 1]


def test_strided_and_reversed_arrays():
    base = np.arange(24, dtype=np.int32).reshape(4, 6)
    for array in (base[::2, ::3], base[::-1, 1::2], base.T, base[1:2, 5:]):
        pointer = Pointer.of_array(array, "a")
        strides = tuple(s // 4 for s in array.strides)
        view = View(pointer, DataType("int32"), array.shape, strides, 0)
        got = [
            view.get(view.start + i * strides[0] + j * strides[1])
            for i in range(array.shape[0])
            for j in range(array.shape[1])
        ]
        assert got == array.ravel().tolist()
    view.put(view.start, -1)
    assert base[1, 5] == -1


def test_zero_sizes():
    view = Pointer.of_array(np.zeros((3, 0), np.float32), "a").view("float32")
    assert view.length == 0
    with pytest.raises(OutsideMemory):
        view.get(0)


def test_limits_and_permissions():
    array = np.zeros(4, np.float32)
    view = Pointer.of_array(array, "a").view("float32")
    for position in (-1, 4):
        with pytest.raises(OutsideMemory):
            view.get(position)
        with pytest.raises(OutsideMemory):
            view.put(position, 0.0)
    array.flags.writeable = False
    with pytest.raises(ReadOnlyMemory):
        Pointer.of_array(array, "a").view("float32").put(0, 1.0)
    with pytest.raises(InterpreterError, match="no memory for"):
        Memory.allocate(1 << 62, "huge")


def test_undefined_stores_take_back_what_was_written():
    memory = Memory.allocate(8, "m")
    view = Pointer(memory).view("int32")
    view.put(0, 5)
    assert view.get(0) == 5
    view.put(0, UNDEF)
    with pytest.raises(UnwrittenMemory):
        view.get(0)


def test_pointers_of_foreign_functions():
    memory = Memory.allocate(16, "m")
    pointer = Pointer(memory, 4)
    pointer.array("float32", 2)[:] = [1.0, 2.0]
    assert [pointer.view("float32").get(n) for n in (1, 2)] == [1.0, 2.0]
    with pytest.raises(Fault, match="reach outside"):
        pointer.array("float32", 4)
    other = Pointer(Memory.allocate(16, "n"))
    other.copy_from(Pointer(memory), 12)
    with pytest.raises(UnwrittenMemory):
        other.view("float32").get(0)  # what was unknown stays unknown
    assert other.view("float32").get(2) == 2.0
    with pytest.raises(Fault, match="reaches outside"):
        other.copy_from(Pointer(memory), 17)
    assert pointer == Pointer(memory) + 4 and pointer != other and pointer.address == memory.address + 4


def test_compact_strides_against_numpy():
    for shape in ((), (5,), (2, 3), (4, 1, 3), (2, 3, 4, 5)):
        assert compact_strides(shape) == tuple(s // 8 for s in np.zeros(shape, np.int64).strides)
