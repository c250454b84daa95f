"""What is sent to be measured, and what becomes of it there."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from tests.tuning.stand_in import job_of, transposed
from tirlower.diagnostics import TirError
from tirlower.tuning.job import LARGE, Plan, inputs_of, made_from


def test_small_arrays_integers_and_numbers_go_as_they_are():
    given = [
        np.arange(7, dtype="float32"),
        np.arange(LARGE, dtype="int32"),  # large, and what is in it may be subscripts
        np.array([True, False]),
        np.ones((2, 3), ml_dtypes.bfloat16),
        np.array(2.5),
        3,
        2.5,
        True,
        np.int64(4),
    ]
    args, kwargs = made_from(inputs_of(given, {}))
    assert kwargs == {} and len(args) == len(given)
    for one, made in zip(given, args, strict=True):
        assert np.array_equal(one, made) and np.asarray(one).dtype == np.asarray(made).dtype
        assert np.shape(one) == np.shape(made)
    assert type(args[7]) is bool and type(args[5]) is int


def test_large_arrays_of_floats_are_random_numbers_the_same_each_time():
    given = inputs_of([np.zeros((300, 400), "float64")], {"B": np.zeros((300, 400), ml_dtypes.bfloat16)})
    assert len(pickle.dumps(given)) < 1000
    [first], named = made_from(given)
    [again], _ = made_from(given)
    assert isinstance(first, np.ndarray) and first.dtype == np.float64 and first.shape == (300, 400)
    assert np.array_equal(first, again) and abs(first.mean()) < 0.02 and abs(first.std() - 1) < 0.02
    assert isinstance(named["B"], np.ndarray) and named["B"].dtype == ml_dtypes.bfloat16
    assert not np.array_equal(first[0, :4], named["B"][0, :4].astype("float64"))


@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("offset", [0, 4, 16, 60])
def test_arrays_begin_where_those_that_were_given_do_in_their_line(offset: int, size: int):
    room = np.zeros(size + 64, "float32")
    start = (-room.ctypes.data % 64 + offset) // 4
    [made], _ = made_from(inputs_of([room[start : start + size]], {}))
    assert isinstance(made, np.ndarray) and made.ctypes.data % 64 == offset and made.flags.writeable
    assert made.shape == (size,) and made.flags.c_contiguous


def test_one_array_given_twice_is_one_array_there():
    a, b = np.zeros(5, "int32"), np.zeros(5, "int32")
    args, kwargs = made_from(inputs_of([a, b, a], {"D": b}))
    assert args[0] is args[2] and args[1] is kwargs["D"] and args[0] is not args[1]
    same = inputs_of([1, 1], {})
    assert made_from(same)[0] == [1, 1]


@pytest.mark.parametrize("value", ["text", None, object(), [object()], np.array(["a"]), np.array("2020", "M8[s]")])
def test_what_cannot_be_sent_is_named(value: object):
    with pytest.raises(TirError, match=r"args\[1\] is neither a number nor an array"):
        inputs_of([1.0, value], {})


def test_a_job_can_be_pickled():
    func, arrays = transposed()
    job = job_of(func, arrays, [Plan("a"), Plan("b", False)], Plan("c"))
    again = pickle.loads(pickle.dumps(job))
    assert again.plans == job.plans and again.base == job.base and again.target == job.target
    assert again.program.unpacked()["f"].script() == job.program.unpacked()["f"].script()
    assert again.choices == job.choices and again.given == job.given
