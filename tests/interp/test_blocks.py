from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError
from tirlower.interp import interpret
from tirlower.script import tir as T


def test_init_runs_where_all_reductions_start():
    @T.prim_func
    def kernel(A: T.Buffer((3, 4, 2), "int32"), C: T.Buffer((3,), "int32"), N: T.Buffer((1,), "int32")):
        for i, k, l in T.grid(3, 4, 2):
            with T.block("sum"):
                vi = T.axis.spatial(3, i)
                vk = T.axis.reduce((1, 5), k + 1)
                vl = T.axis.reduce(2, l)
                with T.init():
                    C[vi] = 100
                    N[0] = N[0] + 1
                C[vi] = C[vi] + A[vi, vk - 1, vl]

    a = np.random.default_rng(0).integers(0, 9, (3, 4, 2)).astype(np.int32)
    c, n = np.zeros(3, np.int32), np.zeros(1, np.int32)
    interpret(kernel, a, c, n)
    assert c.tolist() == (100 + a.sum((1, 2))).tolist() and n[0] == 3


def test_a_predicate_leaves_instances_out():
    @T.prim_func
    def kernel(C: T.Buffer((5,), "int32")):
        for i, j in T.grid(2, 4):
            with T.block("B"):
                T.where(i * 4 + j < 5)
                v = T.axis.spatial(5, i * 4 + j)
                C[v] = v + 1

    c = np.zeros(5, np.int32)
    interpret(kernel, c)
    assert c.tolist() == [1, 2, 3, 4, 5]


def test_an_iterator_outside_its_domain():
    @T.prim_func
    def kernel(C: T.Buffer((8,), "int32")):
        for i, j in T.grid(2, 4):
            with T.block("B"):
                v = T.axis.spatial(5, i * 4 + j)
                C[v] = v

    with pytest.raises(
        InterpreterError, match="iterator 'v' of block 'B' has the value 5, outside its domain 0 <= v < 5"
    ) as error:
        interpret(kernel, np.zeros(8, np.int32))
    assert "i = 1, j = 1" in str(error.value)


def test_nested_blocks_and_allocations_in_scope_of_init():
    @T.prim_func
    def kernel(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                acc = T.alloc_buffer((1,), "int32")
                for k in range(4):
                    with T.block("inner"):
                        vk = T.axis.reduce(4, k)
                        with T.init():
                            acc[0] = 0
                        acc[0] = acc[0] + A[vi, vk]
                C[vi] = acc[0]

    a, c = np.arange(16, dtype=np.int32).reshape(4, 4), np.zeros(4, np.int32)
    interpret(kernel, a, c)
    assert c.tolist() == a.sum(1).tolist()


def test_matched_regions():
    @T.prim_func
    def kernel(A: T.Buffer((8, 8), "int32"), C: T.Buffer((4, 4), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                T.writes(C[vi * 2 : vi * 2 + 2, vj * 2 : vj * 2 + 2])
                s0, s1 = T.int32(), T.int32()
                sub = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=[s0, s1], offset_factor=1
                )
                row = T.match_buffer(C[vi * 2 + 1, vj * 2 : vj * 2 + 2], (2,), "int32", offset_factor=1)
                flat = T.Buffer((64,), "int32", data=sub.data)
                C[vi * 2, vj * 2] = sub[1, 2] + s0 * 1000
                C[vi * 2, vj * 2 + 1] = flat[sub.elem_offset + s0 * 3 + s1]
                row[0] = sub[3, 3]
                row[1] = -1

    a, c = np.arange(64, dtype=np.int32).reshape(8, 8), np.zeros((4, 4), np.int32)
    interpret(kernel, a, c)
    want = np.zeros((4, 4), np.int32)
    for i in range(2):
        for j in range(2):
            sub = a[4 * i : 4 * i + 4, 4 * j : 4 * j + 4]
            want[2 * i : 2 * i + 2, 2 * j : 2 * j + 2] = [[sub[1, 2] + 8000, sub[3, 1]], [sub[3, 3], -1]]
    np.testing.assert_array_equal(c, want)


def test_accesses_of_a_matched_region_stay_in_it():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32")):
        for i in range(2):
            with T.block("b"):
                v = T.axis.spatial(2, i)
                T.reads()
                T.writes(A[v * 4 : v * 4 + 4])
                sub = T.match_buffer(A[v * 4 : v * 4 + 4], (4,), "int32", offset_factor=1)
                sub[v * 4] = 1

    with pytest.raises(BoundsError, match=r"sub\[4\] is out of bounds"):
        interpret(kernel, np.zeros(8, np.int32))


def test_a_matched_region_outside_its_source():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "int32")):
        for i in range(2):
            with T.block("b"):
                v = T.axis.spatial(2, i)
                T.reads()
                T.writes(A[v * 4 : v * 4 + 4])
                sub = T.match_buffer(A[v * 4 : v * 4 + 4], (4,), "int32", offset_factor=1)
                sub[0] = 1

    with pytest.raises(BoundsError, match="4 to 8 of dimension 0, which has 6 elements"):
        interpret(kernel, np.zeros(6, np.int32))


def test_blocks_in_a_vectorized_loop_mask_their_lanes():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
        for i in T.vectorized(8):
            with T.block("b"):
                T.where(i < 6)
                v = T.axis.spatial(6, i)
                C[v] = A[v] * 2

    a, c = np.arange(6, dtype=np.int32), np.zeros(6, np.int32)
    interpret(kernel, a, c)
    assert c.tolist() == (a * 2).tolist()
