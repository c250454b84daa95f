from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check
from tirlower.ir import PrimFunc
from tirlower.script import tir as T
from tirlower.transforms import RemoveAssume, UseAssumeToReduceBranches

PASS = UseAssumeToReduceBranches()


def padded(shape: int | tuple[int, ...], valid: int, kind: str = "int32", seed: int = 0) -> np.ndarray:
    """An array whose last axis is 0 from ``valid`` on."""
    rng = np.random.default_rng(seed)
    made = rng.integers(1, 50, shape).astype(kind)
    made[..., valid:] = 0
    return made


def runs(*arrays: Any) -> list[list[Any]]:
    return [list(arrays)]


def removed(func: PrimFunc) -> bool:
    return "if_then_else" not in PASS(func).script() and "Select" not in PASS(func).script()


def test_padding_known_to_be_zero() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i] * 3, 0)

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = A[i] * 3

    inputs = runs(padded(16, 14), padded(16, 16))
    after = check(PASS, before, expected, inputs=inputs)
    check(RemoveAssume(), after, inputs=inputs)


def test_other_padding_values_and_forms_of_the_assumption() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(not (i >= 14) or A[i] == 7))
            T.evaluate(T.assume(not (i >= 12 and i < 14) or 5 == A[i]))
        for i in range(16):
            B[i] = T.if_then_else(i >= 14, 8, A[i] + 1)
            C[i] = T.Select(i < 12 or i >= 14, A[i] * 2, 10)

    a = padded(16, 12)
    a[12:14], a[14:] = 5, 7
    after = check(PASS, before, inputs=runs(a, padded(16, 3), padded(16, 5)))
    assert removed(before) and "A[i] + 1" in after.script()


def test_arms_that_differ_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i] + 1, 0) + T.if_then_else(i < 13, A[i], 0)

    check(PASS, before, before, inputs=runs(padded(16, 14), padded(16, 3)))


def test_what_is_not_assumed_of_all_elements_is_not_used() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(15):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i], 0)

    a = padded(16, 14)
    a[15] = 9
    check(PASS, before, before, inputs=runs(a, padded(16, 3)))


def test_loads_outside_the_buffer_stay_guarded() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((14,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i] * C[i], 0)

    check(PASS, before, before, inputs=runs(padded(16, 14), padded(16, 3), padded(14, 14)))


def test_memory_that_was_written_since_is_unknown() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        A[n] = 5
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i], 0)

    check(PASS, before, before, inputs=[[padded(16, 14), padded(16, 3), n] for n in (3, 15)])


def test_a_loop_that_writes_later_iterations_elements() -> None:
    @T.prim_func
    def before(A: T.Buffer((17,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in range(17):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i], 0)
            A[i + 1] = 4

    check(PASS, before, before, inputs=runs(padded(17, 14), padded(16, 3)))


def test_parameters_may_overlap() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(i < 14 or A[i] == 0))
        C[15] = 3
        for i in range(16):
            B[i] = T.if_then_else(i < 14, A[i], 0)

    shared = padded(16, 14)
    check(PASS, before, before, inputs=[[shared, padded(16, 3), shared]])


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "uint16", "float64"])
def test_dtypes(kind: str) -> None:
    @T.prim_func
    def before(A: T.Buffer((3, 16), kind), B: T.Buffer((3, 16), kind)):
        T.func_attr({"tir.noalias": True})
        for j, i in T.grid(3, 16):
            T.evaluate(T.assume(i < 14 or A[j, i] == T.Cast(kind, 0)))
        for j, i in T.grid(3, 16):
            B[j, i] = T.if_then_else(i < 14, A[j, i], T.Cast(kind, 0))

    check(PASS, before, inputs=runs(padded((3, 16), 14, kind), padded((3, 16), 3, kind)))
    assert removed(before)


def test_symbolic_extents_and_shifted_indices() -> None:
    @T.prim_func
    def before(a: T.handle, b: T.handle, n: T.int32):
        T.func_attr({"tir.noalias": True})
        A = T.match_buffer(a, (n + 8,), "int32")
        B = T.match_buffer(b, (n + 8,), "int32")
        for i in range(2, n + 8):
            T.evaluate(T.assume(i < n + 5 or A[i] == 0))
        for i in range(n + 6):
            B[i] = T.if_then_else(i + 2 < n + 5, A[i + 2], 0)

    for n in (1, 5):
        check(PASS, before, inputs=runs(padded(n + 8, n + 5), padded(n + 8, 3), n))
    assert removed(before)


def test_in_blocks() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(4, 16):
            with T.block("assume"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes()
                T.evaluate(T.assume(vj < 14 or A[vi, vj] == 0))
        for i, j in T.grid(4, 16):
            with T.block("compute"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(vj < 14, A[vi, vj] * 5, 0)

    check(PASS, before, inputs=runs(padded((4, 16), 14), padded((4, 16), 3)))
    assert removed(before)


def test_values_stored_before_count_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        C = T.alloc_buffer((16,), "int32")
        T.evaluate(T.assume(n >= 0))
        for i in range(16):
            if i < 12:
                C[i] = A[i]
            else:
                C[i] = 0
        for i in range(16):
            B[i] = T.if_then_else(i < 12, C[i], 0)

    check(PASS, before)
    assert removed(before)


def test_bindings_inside_loops_do_not_leak() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        C = T.alloc_buffer((16,), "int32")
        T.evaluate(T.assume(n >= 0))
        for i in range(16):
            x: T.int32 = i * n
            y: T.int32 = A[i]
            C[i] = x
            if n > 3:
                C[i] = y
        for i in range(16):
            B[i] = T.if_then_else(n <= 3, C[i], 0) + T.if_then_else(i == 0, 0, C[i])

    check(PASS, before, samples=6)


def test_diagonal_stores_are_not_generalised() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((8, 4), "int32")):
        C = T.alloc_buffer((16,), "int32")
        T.evaluate(T.assume(A[0] > -1000))
        for i in range(16):
            C[i] = 0
        for i, j in T.grid(8, 4):
            C[i + j] = j
        for i, j in T.grid(8, 4):
            B[i, j] = T.if_then_else(C[i + j] == j, 1, 0) + T.if_then_else(j < 2, C[i + j], j)

    check(PASS, before)


def test_without_assumptions_nothing_changes() -> None:
    @T.prim_func
    def before(B: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = T.if_then_else(i < 16, 1, 2)

    check(PASS, before, before)
