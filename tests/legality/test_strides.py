"""Strides that a call brings: a proof that took subscripts for elements holds only where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tirlower as tl
from tirlower.script import parse

ROWS = """
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    m = T.int32()
    s = T.int32()
    t = T.int32()
    A = T.match_buffer(a, (n, m), "int32", strides=(s, t))
    for i in KIND:
        for j in range(m):
            A[i, j] = i * 100 + j
"""


def built(kind: str = "T.parallel(n)", text: str = ROWS) -> Any:
    func: Any = parse(text.replace("KIND", kind))
    return tl.build(func)


def memory() -> Any:
    return np.zeros(64, "int32")


def strided(shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Any:
    return as_strided(memory()[start:], shape, tuple(4 * s for s in strides))


APART = {
    "rows": ((4, 4), (4, 1), 0),
    "columns": ((4, 4), (1, 4), 0),
    "every other": ((4, 4), (12, 2), 0),
    "backwards": ((4, 4), (-4, 1), 12),
    "one row": ((1, 4), (0, 1), 0),
    "one column": ((4, 1), (1, 0), 0),
    "one element": ((1, 1), (0, 0), 0),
    "nothing": ((0, 4), (0, 0), 0),
}
TOGETHER = {
    "one row for all": ((4, 4), (0, 1)),
    "one element a row": ((4, 4), (4, 0)),
    "rows that overlap": ((4, 4), (2, 1)),
    "a diagonal": ((4, 4), (1, 1)),
    "the last of a row": ((4, 4), (3, 1)),
    "columns that overlap": ((4, 4), (1, 3)),
}


@pytest.mark.parametrize("kind", ["T.parallel(n)", "T.vectorized(n)"])
def test_arrays_whose_elements_are_apart(kind: str) -> None:
    kernel = built(kind)
    for shape, strides, start in APART.values():
        a = strided(shape, strides, start)
        kernel(a)
        np.testing.assert_array_equal(a, np.add.outer(np.arange(shape[0]) * 100, np.arange(shape[1])))


@pytest.mark.parametrize(("shape", "strides"), TOGETHER.values(), ids=TOGETHER)
def test_arrays_in_which_two_subscripts_are_one_element(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"the strides of A may let two of its subscripts name one element \(shape \(4, 4\)"
    ):
        built()(strided(shape, strides))


@pytest.mark.parametrize(("shape", "strides"), [*TOGETHER.values(), ((4, 4), (4, 1))], ids=[*TOGETHER, "rows"])
def test_serial_loops_take_any_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Automatic schedules go by subscripts: a call in which two of them are one element runs the loops as they are written."""
    func: Any = parse(ROWS.replace("KIND", "range(n)"))
    scheduled, plain = tl.build(func), tl.build(func, schedule="none")
    assert scheduled.schedule.insts and not plain.schedule.insts
    arrays = [strided(shape, strides) for _ in range(2)]
    for kernel, a in zip((scheduled, plain), arrays, strict=True):
        kernel(a)
    np.testing.assert_array_equal(arrays[0].base.base, arrays[1].base.base)
    for i, j in np.ndindex(shape):
        arrays[1].base.base[i * strides[0] + j * strides[1]] = i * 100 + j  # in the order of the text
    np.testing.assert_array_equal(arrays[0].base.base, arrays[1].base.base)


def test_a_schedule_with_another_order_needs_elements_that_are_apart() -> None:
    func: Any = parse(ROWS.replace("KIND", "range(n)"))
    sch = tl.Schedule(func)
    sch.reorder(sch.loop("j"), sch.loop("i"))
    kernel: Any = tl.build(sch)
    kernel(strided((4, 4), (4, 1)))
    with pytest.raises(ValueError, match=r"may let two of its subscripts name one element.*run in another order"):
        kernel(strided((4, 4), (1, 1)))
    sch = tl.Schedule(func)
    sch.split(sch.loop("j"), [None, 2])  # in the order of the text
    a = strided((4, 4), (0, 1))
    tl.build(sch)(a)
    np.testing.assert_array_equal(a[0], 300 + np.arange(4))


def test_three_dimensions_and_sizes_beside_constant_strides() -> None:
    kernel = built(
        "T.parallel(n)",
        """
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m, 2), "int32", strides=(8, 2, 1))
    for i in KIND:
        for j, k in T.grid(m, 2):
            A[i, j, k] = i * 100 + j * 10 + k
""",
    )
    kernel(strided((3, 4, 2), (8, 2, 1)))
    with pytest.raises(ValueError, match="strides of A"):
        kernel(strided((3, 5, 2), (8, 2, 1)))


def test_what_is_only_read_may_overlap() -> None:
    kernel = built(
        "T.parallel(n)",
        """
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n,), "int32", strides=(s,))
    B = T.match_buffer(b, (n,), "int32")
    for i in KIND:
        B[i] = A[i] + 1
""",
    )
    b = np.zeros(5, "int32")
    kernel(np.broadcast_to(np.int32(41), (5,)), b)
    np.testing.assert_array_equal(b, [42] * 5)


def test_a_repeated_row_is_not_written_at_once() -> None:
    func: Any = parse("""
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32", buffer_type="auto_broadcast")
    for i in T.parallel(n):
        A[i] = i
""")
    with pytest.raises(tl.LegalityError):
        tl.build(func)


def test_a_stride_of_0_is_no_matter_of_the_call() -> None:
    func: Any = parse("""
@T.prim_func
def f(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32", strides=(0,))
    for i in T.parallel(n):
        A[i] = i
""")
    with pytest.raises(tl.LegalityError, match="which iteration i = 1 writes"):
        tl.build(func)
