"""Constants: arrays and splats, compared by their contents."""

import numpy as np
import pytest

from tirlower.graph import ConstantData, GraphError


def test_arrays_are_equal_by_dtype_shape_and_contents():
    a = np.arange(6, dtype="int32")
    one = ConstantData(a)
    assert one == ConstantData(a.copy())
    assert hash(one) == hash(ConstantData(a.copy()))
    assert one != ConstantData(a.reshape(2, 3))
    assert one != ConstantData(a.astype("int64"))
    assert one != ConstantData(a[::-1])
    assert ConstantData(a[::-1]) == ConstantData(np.ascontiguousarray(a[::-1]))
    assert one != 3


def test_splats():
    one = ConstantData.splat(1, (2, 3), "float16")
    assert (one.value, one.nbytes, one.numpy().tolist()) == (1.0, 0, [[1, 1, 1]] * 2)
    assert one == ConstantData.splat(1.0, (2, 3), "float16")
    assert one != ConstantData.splat(1.0, (3, 2), "float16")
    assert ConstantData.splat(2, (), "int8") == ConstantData(np.array(2, "int8"))
    assert ConstantData.splat(0.0, (), "float32") != ConstantData.splat(-0.0, (), "float32")
    for value, dtype in [(300, "int8"), (-1, "uint8"), (1.5, "int32")]:
        with pytest.raises(GraphError, match=f"{value} is no value of {dtype}"):
            ConstantData.splat(value, (), dtype)


def test_the_array_cannot_be_written_through_it():
    a = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        ConstantData(a).numpy()[0] = 1
    a[0] = 1


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.ones(2, complex), np.array("2020", "M8[D]")])
def test_other_arrays_are_refused(array):
    with pytest.raises(GraphError, match="tensors hold numbers and bools, got an array of"):
        ConstantData(array)


def test_abstract_constants():
    a = ConstantData(np.arange(3))
    for digits in (a.digest, a.digest[:8]):
        abstract = ConstantData.abstract(digits, (3,), "int64")
        assert abstract.is_abstract
        assert not a.is_abstract
        assert abstract == a
        assert hash(abstract) == hash(a)
        assert abstract.nbytes == 0
        assert repr(abstract) == repr(a)
        with pytest.raises(GraphError, match=r"the contents of the constant .* of int64\[3\] are not here"):
            abstract.numpy()


def test_splats_of_numbers_that_no_other_type_holds():
    for value, dtype in [(2**53 + 1, "int64"), (-(2**63), "int64"), (2**64 - 1, "uint64")]:
        assert int(ConstantData.splat(value, (2,), dtype).numpy()[1]) == value
    assert ConstantData.splat(2**70, (2,), "float32").numpy().tolist() == [float(2**70)] * 2
    for value in (10**400, -(10**400)):
        with pytest.raises(GraphError, match="that it holds, or infinity"):
            ConstantData.splat(value, (), "float64")
