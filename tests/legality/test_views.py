"""Views of memory: accesses inside the shape that a view states, but outside the memory behind it."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import tir as T


def test_views_that_lie_in_their_memory_are_proved():
    @T.prim_func
    def f(A: T.Buffer(("n", 4), "float32")):
        V = T.decl_buffer((n * 4,), "float32", data=A.data)
        for i in range(n * 4):
            V[i] = T.float32(1)

    report = tl.build(f).report()
    assert report.proved == {"f": 1} and not report.guarded


def test_a_view_larger_than_its_memory_is_guarded():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), k: T.int32):
        V = T.decl_buffer((4, 4), "int32", data=A.data)
        for i in range(k):
            for j in range(4):
                if i < 4:
                    V[i, j] = i + 1

    kernel, a = tl.build(f), np.zeros(8, "int32")
    (note,) = kernel.report().guarded
    assert "may reach outside the memory of A" in note.reason
    kernel(a, 2)
    np.testing.assert_array_equal(a, [1] * 4 + [2] * 4)
    with pytest.raises(
        IndexError, match=r"V\[2, 0\] is outside the memory of A: element 8 of 8 elements, at i = 2, j = 0"
    ):
        kernel(a, 3)
    with pytest.raises(IndexError):
        tl.interpret(f, a, 3)


def test_views_of_another_element_size():
    @T.prim_func
    def f(A: T.Buffer((6,), "int32"), k: T.int32):
        V = T.decl_buffer((16,), "int16", data=A.data)
        if k >= 0 and k < 16:
            V[k] = T.int16(7)

    kernel, a = tl.build(f), np.zeros(6, "int32")
    kernel(a, 11)
    assert a.view("int16")[11] == 7
    with pytest.raises(IndexError, match=r"element 12 of 12 elements"):
        kernel(a, 12)


def test_matched_regions():
    @T.prim_func
    def f(A: T.Buffer(("n", 8), "int32"), X: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                T.reads([])
                T.writes(A[X[vi], 0:8])
                R = T.match_buffer(A[X[vi], 0:8], (8,), "int32", elem_offset=T.int32(), offset_factor=1)
                for j in range(8):
                    R[j] = j + vi

    kernel, a = tl.build(f), np.zeros((5, 8), "int32")
    kernel(a, np.array([4, 0, 2, 1], "int32"))
    np.testing.assert_array_equal(a[4], range(8))
    np.testing.assert_array_equal(a[1], range(3, 11))
    with pytest.raises(
        IndexError, match=r"R\[0\], which is of a region of A, is out of bounds: index 5 of dimension 0"
    ):
        kernel(a, np.array([4, 5, 2, 1], "int32"))


def test_matched_regions_inside_are_proved():
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads([])
                T.writes(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                R = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4],
                    (4, 4),
                    "int32",
                    strides=[T.int32(), 1],
                    offset_factor=1,
                )
                for p, q in T.grid(4, 4):
                    R[p, q] = p + q

    report = tl.build(f).report()
    assert not report.guarded and report.proved == {"f": 1}


def test_memory_behind_a_pointer_is_trusted_and_listed():
    @T.prim_func
    def f(p: T.handle("float32"), n: T.int32):
        V = T.decl_buffer((n,), "float32", data=p)
        for i in range(n):
            V[i] = T.float32(0)

    low = tl.lower(f)
    assert "Assert" not in low.script()
    notes = tl.build(f).report().trusted
    assert any("pointer p" in note.reason for note in notes)
