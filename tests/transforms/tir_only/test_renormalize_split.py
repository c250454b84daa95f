from __future__ import annotations

import itertools

import pytest

from tests.checking import check
from tirlower.ir import Broadcast, BufferStore, FloorDiv, FloorMod, PrimFunc, Ramp, Var, const
from tirlower.ir.buffer import decl_buffer
from tirlower.script import tir as T
from tirlower.transforms import CommonSubexprElimTIR, RenormalizeSplitPattern, Simplify


def test_quotient_of_a_remainder() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i] = i % 16 // 4

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32")):
        for i in range(64):
            A[i] = i // 4 % 4

    check(RenormalizeSplitPattern(), before, expected)


@pytest.mark.parametrize(("modulus", "divisor"), list(itertools.product([1, 4, 6, 12, -8], [1, 2, 3, 4, 12, -2])))
def test_every_pair_of_constants(modulus: int, divisor: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(-32, 32):
            A[i + 32] = T.FloorDiv(T.FloorMod(i + n, modulus), divisor)

    text = check(RenormalizeSplitPattern(), before).script()
    assert modulus != 1 or divisor != 1 or "A[i + 32] = 0" in text


@pytest.mark.parametrize(("factor", "divisor"), list(itertools.product([-6, -1, 2, 4, 9, 12], [2, 3, 4, 6, 12])))
def test_sums_by_the_common_divisor(factor: int, divisor: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(-4, 4):
            for j in range(-4, 4):
                A[(i + 4) * 8 + j + 4] = (i * factor + j) // divisor + (j + i * factor) // divisor

    check(RenormalizeSplitPattern(), before)


def test_a_sum_that_divides_out() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for i, j in T.grid(4, 8):
            A[i, j] = (i * 8 + j) // 4 + (i * 6 + n) // 4 + (i * 8 + j % 16 // 4 * 4) // 4

    @T.prim_func
    def expected(A: T.Buffer((4, 8), "int32"), n: T.int32):
        for i, j in T.grid(4, 8):
            A[i, j] = i * 2 + j // 4 + (i * 3 + n // 2) // 2 + (i * 2 + j // 4 % 4)

    check(RenormalizeSplitPattern(), before, expected)


def test_comparisons_are_shifted() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if i + 3 < 12:
                A[i] = 1
            if 2 + i >= 9:
                A[i] = A[i] + 2
            if n + -1 <= 4:
                A[i] = A[i] + 4
            if i + 2147483647 > -5:
                A[i] = A[i] + 8

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            if i < 9:
                A[i] = 1
            if i >= 7:
                A[i] = A[i] + 2
            if n <= 5:
                A[i] = A[i] + 4
            if i + 2147483647 > -5:
                A[i] = A[i] + 8

    after = check(RenormalizeSplitPattern(), before, expected, execute=False)
    assert "2147483647" in after.script()


def test_narrow_unsigned_and_read_sums_may_wrap_and_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((256,), "int8"), B: T.Buffer((256,), "uint8"), C: T.Buffer((256,), "int32")):
        for i in range(256):
            A[i] = (A[i] * T.int8(4) + A[255 - i]) // T.int8(2)
            B[i] = (B[i] * T.uint8(4) + B[255 - i]) // T.uint8(2)
            if A[i] + T.int8(100) < T.int8(20):
                A[i] = T.int8(0)
            if C[i] + 3 < 12:
                C[i] = 0

    check(RenormalizeSplitPattern(), before, before)


def test_narrow_remainders_do_not_wrap() -> None:
    @T.prim_func
    def before(A: T.Buffer((256,), "int8"), B: T.Buffer((256,), "uint16")):
        for i in range(256):
            A[i] = A[i] % T.int8(16) // T.int8(4)
            B[i] = B[i] % T.uint16(16) // T.uint16(4)

    text = check(RenormalizeSplitPattern(), before, idempotent=True).script()
    assert "% T.int8(4)" in text and "// T.uint16(4) % T.uint16(4)" in text


@pytest.mark.parametrize(("base", "stride"), [(0, 1), (4, 1), (2, 1), (0, 8), (3, 4), (5, -4)])
def test_vectors(base: int, stride: int) -> None:
    out, param, n = decl_buffer((4,), "int32", "A"), Var("A", "handle"), Var("n")
    ramp = Ramp(n * 16 + base, const(stride), 4)
    value = FloorDiv(ramp, Broadcast(const(4), 4)) + FloorDiv(
        FloorMod(ramp, Broadcast(const(8), 4)), Broadcast(const(2), 4)
    )
    store = BufferStore(out, value, (Ramp(const(0), const(1), 4),))
    before = PrimFunc((param, n), {param: out}, None, {}, store)
    after = check(RenormalizeSplitPattern(), before)
    assert "// T.Broadcast(2, 4) % T.Broadcast(4, 4)" in after.script() or stride % 2 == 0


def test_fused_and_split_loops_show_equal_terms() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
        for f in range(32):
            B[f // 4, f % 16 % 4] = A[f % 32 // 4, f % 4]

    after = check(RenormalizeSplitPattern(), before)
    check(CommonSubexprElimTIR(), after)


def test_against_the_simplifier() -> None:
    @T.prim_func
    def before(A: T.Buffer((512,), "int32"), n: T.int32):
        for i in range(n):
            for j in range(12):
                A[(i * 12 + j) % 512] = (i * 12 + j) % 24 // 6 + (i * 12 + j) // 4 % 3

    once = check(RenormalizeSplitPattern(), before, sizes=(3, 9))
    check(RenormalizeSplitPattern(), Simplify()(once), sizes=(3, 9))


def test_a_multiple_anywhere_in_a_sum() -> None:
    @T.prim_func
    def before(A: T.Buffer((256,), "int32"), n: T.int32):
        for i, j in T.grid(8, 4):
            A[(n * 8 + i + 3) // 4] = i
            A[(j + 3 + i * 12 + n) // 8] = j

    @T.prim_func
    def expected(A: T.Buffer((256,), "int32"), n: T.int32):
        for i, j in T.grid(8, 4):
            A[n * 2 + (i + 3) // 4] = i
            A[((j + 3 + n) // 4 + i * 3) // 2] = j

    check(RenormalizeSplitPattern(), before, expected, sizes=(0, 1, 7))
