"""Simplify with what is known of the values in buffers: which conditions they decide, and which loads they replace."""

from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import Simplify


@pytest.mark.parametrize("values", [False, True])
def test_what_an_init_stores_is_not_known_in_the_body(values: bool) -> None:
    before = parse("""
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), B: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 3):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = 2
            B[vi] = B[vi] * A[vi, vk] + T.if_then_else(B[vi] == 2, 1, 0)
""")
    one = Simplify(propagate_knowns_to_prove_conditional=True, propagate_knowns_to_simplify_expressions=values)
    check(one, before, idempotent=False)
    assert "B[vi] * A[vi, vk]" in one(before).script()


PROVE = Simplify(propagate_knowns_to_prove_conditional=True)
VALUES = Simplify(propagate_knowns_to_simplify_expressions=True)


def test_known_contents_decide_conditions_when_asked() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        A[0] = 0
        if A[0] == 0:
            A[0] = 42
        for i in range(16):
            B[i] = i
        for i in range(16):
            if B[i] < 16:
                B[i] = A[0]
            else:
                A[i] = 3

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.func_attr({"tir.noalias": True})
        A[0] = 0
        A[0] = 42
        for i in range(16):
            B[i] = i
        for i in range(16):
            B[i] = A[0]

    check(PROVE, before, expected)
    check(Simplify(), before, before)


def test_known_contents_take_the_place_of_loads_when_asked() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        A[0] = n + 1
        A[1] = 5
        B[0] = A[0] - n
        B[A[1]] = A[1] * A[2]

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        A[0] = n + 1
        A[1] = 5
        B[0] = 1
        B[5] = A[2] * 5

    check(VALUES, before, expected)
    check(PROVE, before, before)


def test_assumed_contents_hold_in_the_loop_that_changes_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(14 <= i or A[i] == 0))
        for i in range(16):
            if 14 <= i:
                if A[i] == 0:
                    A[i] = 42
            else:
                if A[i] == 0:
                    A[i] = 100

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(14 <= i or A[i] == 0))
        for i in range(16):
            if 14 <= i:
                if A[i] == 0:
                    A[i] = 42
            else:
                A[i] = 100

    for last in (0, 7):
        array = np.zeros(16, "int32")
        array[14:] = last
        check(PROVE, before, expected, inputs=[[array]])


def test_contents_that_other_iterations_change_are_unknown() -> None:
    @T.prim_func
    def before(A: T.Buffer((17,), "int32"), B: T.Buffer((4, 4), "int32")):
        for i in range(17):
            A[i] = 0
        for i in range(16):
            if A[i] == 0:
                A[i + 1] = 1
        for i, j in T.grid(4, 4):
            B[i, j] = 0
        for i, j in T.grid(4, 4):
            if B[j, i] == 0:
                B[i, j] = B[j, i] + 1
        for k in range(2):
            for i in range(4):
                if B[i, 0] < 5:
                    B[i, 0] = k + 5

    check(PROVE, before, before)
    check(VALUES, before)


def test_lanes_share_the_last_ones_value() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        T.func_attr({"tir.noalias": True})
        for i in T.vectorized(8):
            A[0] = i
            B[i] = A[0]
            C[i] = i * 2
            A[i] = C[i]

    text = check(VALUES, before).script()
    assert "B[i] = A[0]" in text and "A[i] = i * 2" in text


def test_arithmetic_on_data_wraps_in_known_values_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        C = T.alloc_buffer((2,), "int32")
        x: T.int32 = A[0]
        C[0] = x * 4
        B[0] = C[0] // 4
        if C[0] // 4 == x:
            B[1] = 1

    big = np.array([2**30 + 3, 0, 0, 0], "int32")
    both = Simplify(propagate_knowns_to_prove_conditional=True, propagate_knowns_to_simplify_expressions=True)
    check(both, before, inputs=[[big, big], [big[::-1].copy(), big]])


def test_what_is_known_of_one_view_is_not_of_another() -> None:
    before = parse("""
@T.prim_func
def main(A: T.Buffer((2, 4), "int32"), B: T.Buffer((8,), "int32")):
    W = T.decl_buffer((8,), "int32", data=A.data)
    V = T.decl_buffer((4, 2), "int32", data=A.data)
    W[3] = 5
    V[1, 1] = 7
    for j in range(4):
        B[j] = A[0, j] + W[j] + V[1, j % 2]
        A[0, j] = j
    for j in range(8):
        B[j] = B[j] + W[j]
""")
    check(Simplify(propagate_knowns_to_simplify_expressions=True), before, idempotent=False)


def known(body: str, params: str = 'A: T.Buffer((24,), "int32"), B: T.Buffer((24,), "int32"), F: T.Buffer((3,), "int32")') -> PrimFunc:  # fmt: skip
    return parse(f"@T.prim_func\ndef f({params}):\n    T.func_attr({{'tir.noalias': True}})\n{body}")


KNOWN = Simplify(propagate_knowns_to_prove_conditional=True, propagate_knowns_to_simplify_expressions=True)


@pytest.mark.parametrize(
    ("before", "test"),
    [
        # Assumed under a condition, then incremented.
        ("""
    for i in range(24):
        if i >= 14:
            A[i] = 5
    for i in range(24):
        T.evaluate(T.assume(i < 14 or A[i] == 5))
    for i in range(24):
        A[i] = A[i] + 1
    for i in range(24):
        if i >= 14:
            if A[i] == 6:
                B[i] = 7
""", "A[i] == 6"),
        # Written by an earlier loop.
        ("""
    for i in range(24):
        A[i] = i
    for j in range(24):
        if A[j] == j:
            B[j] = 7
""", "A[j] == j"),
        # Written by vectors: the same for all lanes, counted, spread, in a loop.
        ("""
    A[T.Ramp(0, 1, 24)] = T.Broadcast(3, 24)
    for i in range(24):
        if A[i] == 3:
            B[i] = 7
""", "A[i] == 3"),
        ("""
    A[T.Ramp(0, 1, 24)] = T.Ramp(11, 2, 24)
    for i in range(24):
        if A[i] == i * 2 + 11:
            B[i] = 7
""", "A[i] =="),
        ("""
    A[T.Ramp(23, -1, 24)] = T.Ramp(0, 1, 24)
    for i in range(24):
        if A[i] == 23 - i:
            B[i] = 7
""", "A[i] =="),
        ("""
    for i in range(6):
        A[T.Ramp(i * 4, 1, 4)] = T.Ramp(i * 4, 1, 4)
    for i in range(24):
        if A[i] == i:
            B[i] = 7
""", "A[i] == i"),
        # Written by a nest whose index counts in several digits.
        ("""
    for i, j, k in T.grid(3, 4, 2):
        A[i * 8 + j * 2 + k] = i * 8 + j * 2 + k
    for i in range(24):
        if A[i] == i:
            B[i] = 7
""", "A[i] == i"),
        # Known padding scattered over a window adds nothing; the sums stand in another loop than the zeros.
        ("""
    for i in range(24):
        if i < 3 or i >= 17:
            A[i] = 0
    for i in range(24):
        T.evaluate(T.assume((3 <= i and i < 17) or A[i] == 0))
    for i in range(24):
        B[i] = 0
    for i in range(24):
        for f in range(3):
            if i + f < 24:
                B[i + f] = B[i + f] + A[i] * F[f]
    for i in range(24):
        if i < 3 or 19 <= i:
            if B[i] != 0:
                B[i] = 0
""", "B[i] != 0"),
        # A window over known padding sums up to a known sum.
        ("""
    for i in range(24):
        if i < 3 or i >= 17:
            A[i] = 0
    for i in range(24):
        T.evaluate(T.assume((3 <= i and i < 17) or A[i] == 0))
    for i in range(24):
        B[i] = 0
        for f in range(3):
            if 0 <= i - f:
                B[i] = B[i] + A[i - f] * F[f]
    for i in range(24):
        if i < 3 or 19 <= i:
            if B[i] != 0:
                B[i] = 0
""", "B[i] != 0"),
    ],
)  # fmt: skip
def test_values_followed_through_loops(before: str, test: str) -> None:
    func = known(before)
    assert test in func.script()
    after = check(KNOWN, func, idempotent=False)
    assert test not in after.script()


@pytest.mark.parametrize(
    "before",
    [
        # Another lane, an element that a later store reaches, lanes that wrap, a window that reaches further.
        "A[T.Ramp(0, 2, 12)] = T.Broadcast(3, 12)\n    for i in range(24):\n        if A[i] == 3: B[i] = 7",
        "A[T.Ramp(0, 1, 24)] = T.Broadcast(3, 24)\n    A[B[0] % 24] = 4\n    for i in range(24):\n        if A[i] == 3: B[i] = 7",
        "for i in range(5):\n        A[T.Ramp(i * 3, 1, 4)] = T.Ramp(i * 4, 1, 4)\n    for i in range(15):\n        if A[i] == i: B[i] = 7",
        "A[T.Ramp(0, 1, 24)] = T.Ramp(2147483640, 1, 24)\n    for i in range(24):\n        if A[i] > 0: B[i] = 7",
        "for i in range(24):\n        T.evaluate(T.assume(i < 17 or A[i] == A[i]))\n    for i in range(24):\n        B[i] = 0\n"
        "        for f in range(3):\n            B[i] = B[i] + F[f]\n    for i in range(24):\n        if B[i] != 0: A[i] = 0",
    ],
)  # fmt: skip
def test_values_that_are_not_known(before: str) -> None:
    func = known("    " + before)
    after = check(KNOWN, func, idempotent=False)
    assert after.script().count("if ") == 1
