from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.script import tir as T
from tirlower.transforms import PassContext, RemoveAssume


def test_an_assumption_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        T.evaluate(T.assume(n > -1000))
        A[0] = n

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), n: T.int32):
        A[0] = n

    check(RemoveAssume(), before, expected)


def test_loops_over_nothing_but_assumptions_go_with_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), B: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            T.evaluate(T.assume(A[i, j] >= -1000))
        for i, j in T.grid(4, 4):
            if i > j:
                T.evaluate(T.assume(A[i, j] <= 1000))
            B[i * 4 + j] = A[i, j]

    @T.prim_func
    def expected(A: T.Buffer((4, 4), "int32"), B: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            B[i * 4 + j] = A[i, j]

    check(RemoveAssume(), before, expected)


def test_an_effect_of_what_is_assumed_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        T.evaluate(T.assume(T.call_extern("int32", "abs", A[0]) >= 0))
        A[1] = 2

    after = check(RemoveAssume(), before)
    assert "abs" in after.script() and "assume" not in after.script()


def test_in_blocks_with_iterators() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int8")):
        for i in range(8):
            with T.block("copy"):
                vi = T.axis.spatial(8, i)
                T.evaluate(T.assume(A[vi] > T.int8(-128)))
                B[vi] = A[vi]

    after = check(RemoveAssume(), before)
    assert "assume" not in after.script()


def test_what_has_no_effect_goes_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for _i in range(8):
            T.evaluate(0)
        A[0] = 1

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        A[0] = 1

    check(RemoveAssume(), before, expected)


def test_nothing_to_do() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A[i] + T.Cast("int32", T.likely(i < 4))

    check(RemoveAssume(), before, before)


def test_the_options_of_remove_no_op_apply() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        T.evaluate(T.assume(A[0] > -1000))
        A[0] = 1
        A[0] = 2

    with PassContext(config={"tir.RemoveNoOp": {"use_dataflow_analysis": True}}):
        check(RemoveAssume(), before)


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_bindings_used_only_by_assumptions_go(extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(2, 2 + extent):
            x: T.int32 = i * 3
            T.evaluate(T.assume(x > 1))
            y: T.int32 = i + n
            A[i] = y
        A[0] = n

    after = check(RemoveAssume(), before)
    assert "* 3" not in after.script()
