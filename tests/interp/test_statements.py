from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.script import tir as T


def test_while_break_and_continue():
    @T.prim_func
    def collatz(A: T.Buffer((10,), "int32"), S: T.Buffer((10,), "int32")):
        for i in range(10):
            x = T.alloc_buffer((1,), "int32")
            x[0] = A[i]
            S[i] = 0
            while x[0] != 1:
                if x[0] % 2 == 0:
                    x[0] = x[0] // 2
                else:
                    x[0] = 3 * x[0] + 1
                S[i] += 1

    def steps(n: int) -> int:
        count = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count

    a, s = np.arange(1, 11, dtype=np.int32), np.zeros(10, np.int32)
    interpret(collatz, a, s)
    assert s.tolist() == [steps(n) for n in a.tolist()]


def test_break_and_continue_leave_only_their_loop():
    @T.prim_func
    def kernel(A: T.Buffer((4, 6), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            C[i] = 0
            for j in range(6):
                if A[i, j] < 0:
                    T.evaluate(T.continue_loop())
                if A[i, j] > 90:
                    T.evaluate(T.break_loop())
                C[i] += A[i, j]

    a = np.random.default_rng(3).integers(-50, 100, (4, 6)).astype(np.int32)
    a[1, 2], a[2, 0] = 99, 95
    c = np.zeros(4, np.int32)
    interpret(kernel, a, c)
    want = []
    for row in a.tolist():
        total = 0
        for value in row:
            if value < 0:
                continue
            if value > 90:
                break
            total += value
        want.append(total)
    assert c.tolist() == want


def test_a_vectorized_loop_runs_each_statement_for_all_lanes():
    @T.prim_func
    def kernel(A: T.Buffer((9,), "int32"), B: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            A[i] = A[i + 1]
            B[i] = A[7 - i]

    @T.prim_func
    def shift_up(A: T.Buffer((9,), "int32")):
        for i in T.vectorized(8):
            A[i + 1] = A[i]

    a, b = np.arange(9, dtype=np.int32), np.zeros(8, np.int32)
    interpret(kernel, a, b)
    moved = np.arange(9)
    moved[:8] = moved[1:].copy()
    assert a.tolist() == moved.tolist() and b.tolist() == moved[7::-1].tolist()
    a = np.arange(9, dtype=np.int32)
    interpret(shift_up, a)
    assert a.tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7]  # serially it would be all zero


def test_inner_loops_of_lanes_advance_in_step():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), L: T.Buffer((12,), "int32"), n: T.Buffer((1,), "int32")):
        n[0] = 0
        for i in T.vectorized(4):
            for j in range(i):
                L[i * 3 + j] = A[i] * 10 + j
                A[3 - i] = A[3 - i] + 1

    lanes = np.array([1, 2, 3, 4], np.int32)
    log, n = np.full(12, -1, np.int32), np.zeros(1, np.int32)
    interpret(kernel, lanes, log, n)
    # j = 0: lanes 1, 2, 3 log, then add to 2, 1, 0; j = 1: lanes 2, 3; j = 2: lane 3
    a, want = [1, 2, 3, 4], [-1] * 12
    for j in range(3):
        active = [i for i in range(4) if j < i]
        for i in active:
            want[i * 3 + j] = a[i] * 10 + j
        new = {3 - i: a[3 - i] + 1 for i in active}
        for k, v in new.items():
            a[k] = v
    assert log.tolist() == want and lanes.tolist() == a


def test_branches_of_lanes_are_masked():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in T.vectorized(8):
            if A[i] % 2 == 0:
                t: T.int32 = A[i] // 2
                C[i] = t
                A[(i + 1) % 8] = 100
            else:
                C[i] = A[i] * 3

    a, c = np.array([0, 1, 2, 4, 5, 6, 7, 9], np.int32), np.zeros(8, np.int32)
    want = np.where(a % 2 == 0, a // 2, 0)
    after = a.copy()
    for i in range(8):
        if a[i] % 2 == 0:
            after[(i + 1) % 8] = 100
    want = np.where(a % 2 == 0, want, after * 3)
    interpret(kernel, a, c)
    assert c.tolist() == want.tolist() and a.tolist() == after.tolist()


def test_each_lane_has_its_own_memory_and_while():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
        for i in T.vectorized(6):
            t = T.alloc_buffer((1,), "int32")
            t[0] = A[i]
            C[i] = 0
            while t[0] > 0:
                t[0] = t[0] // 2
                C[i] += 1

    a, c = np.array([0, 1, 7, 8, 100, 3], np.int32), np.zeros(6, np.int32)
    interpret(kernel, a, c)
    assert c.tolist() == [int(v).bit_length() for v in a]


def test_a_break_in_one_lane_is_an_error():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        for i in T.vectorized(4):
            if A[i] > 2:
                T.evaluate(T.break_loop())
            A[i] = 0

    with pytest.raises(InterpreterError, match="a break in one lane"):
        interpret(kernel, np.arange(4, dtype=np.int32))


def test_every_kind_of_loop_and_empty_ones():
    @T.prim_func
    def kernel(A: T.Buffer((5,), "int32"), n: T.int32):
        for i in T.parallel(5):
            A[i] = i
        for i in T.unroll(5):
            A[i] += 10
        for i in T.serial(2, 4):
            A[i] += 100
        for i in range(n, 2):
            A[i] = -1
        for i in T.vectorized(0):
            A[i] = -1

    a = np.zeros(5, np.int32)
    interpret(kernel, a, 7)
    assert a.tolist() == [10, 11, 112, 113, 14]


def test_binds_and_lets():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        for i in range(4):
            x: T.let[T.int32] = i * 2
            with T.LetStmt(x + 1) as y:
                A[i] = x * y

    a = np.zeros(4, np.int32)
    interpret(kernel, a)
    assert a.tolist() == [2 * i * (2 * i + 1) for i in range(4)]


def test_memory_is_fresh_at_every_allocation():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        for i in range(4):
            t = T.alloc_buffer((1,), "int32")
            if i == 0:
                t[0] = 5
            A[i] = t[0]

    with pytest.raises(UnboundError, match=r"t\[0\] is read before it is written") as error:
        interpret(kernel, np.zeros(4, np.int32))
    assert "i = 1" in str(error.value)


def test_undefined_values():
    @T.prim_func
    def stored(A: T.Buffer((2,), "int32")):
        t = T.alloc_buffer((1,), "int32")
        t[0] = 1
        t[0] = T.undef("int32")
        A[0] = t[0]

    @T.prim_func
    def used(A: T.Buffer((2,), "int32")):
        A[0] = T.undef("int32") + 1

    with pytest.raises(UnboundError, match="read before it is written"):
        interpret(stored, np.zeros(2, np.int32))
    with pytest.raises(UnboundError, match="undefined value"):
        interpret(used, np.zeros(2, np.int32))


def test_faults_tell_their_place():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = 12 // A[i]
        for j in range(4):
            A[j] = T.Cast("int32", B[j])

    with pytest.raises(InterpreterError, match="division by zero: 12 divided by 0") as error:
        interpret(kernel, np.array([1, 2, 0, 3], np.int32), np.zeros(4, np.float32))
    text = str(error.value)
    assert "i = 2" in text and "A[i] = 12 // A[i]" in text
    with pytest.raises(InterpreterError, match="out of range"):
        interpret(kernel, np.ones(4, np.int32), np.full(4, 1e10, np.float32))


def test_a_buffer_whose_allocation_did_not_happen_has_no_memory() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8,), "int32"), k: T.int32):
    D_data = T.allocate([8], "int32", "global", condition=k > 2)
    D = T.Buffer((8,), "int32", data=D_data)
    if k > 1:
        D[0] = 3
        A[0] = D[0]
""")
    array = np.zeros(8, "int32")
    interpret(func, array, 1)
    assert array[0] == 0
    interpret(func, array, 3)
    assert array[0] == 3
    with pytest.raises(BoundsError, match="'D', which has 0 elements"):
        interpret(func, array, 2)
