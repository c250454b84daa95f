from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import RuntimeAssertError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import SkipAssert


def test_an_assert_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n < 1000, "n is small"
        A[0] = n

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = n

    check(SkipAssert(), before, expected)


def test_what_would_have_stopped_goes_on() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert n > 5, "n is large"
        A[0] = n

    after = check(SkipAssert(), before, inputs=[([0, 0, 0, 0], 6)], execute=False)
    out = np.zeros(4, "int32")
    with pytest.raises(RuntimeAssertError):
        interpret(before, out, 3)
    interpret(after, out, 3)
    assert out[0] == 3


def test_asserts_in_loops_branches_and_blocks() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float16"), n: T.int32):
        for i in range(4):
            assert i < 4, "in range"
            for j in range(n):
                assert True, "always"
            if i > 2:
                assert n > -100, "not so small"
            else:
                A[i, 0] = T.float16(1)
        for i in range(1, 4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                assert vi > 0, "from 1"
                A[vi, 1] = T.float16(2)

    after = check(SkipAssert(), before)
    assert "assert" not in after.script()


def test_an_effect_of_the_condition_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        assert T.call_extern("int32", "abs", A[0]) >= 0, "an absolute value"
        A[1] = 2

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        T.evaluate(T.call_extern("int32", "abs", A[0]) >= 0)
        A[1] = 2

    check(SkipAssert(), before, expected)


def test_nothing_to_do() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        x: T.int32 = A[0]
        A[1] = x

    check(SkipAssert(), before, before)


def test_a_body_of_nothing_but_an_assert() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        assert A[0] > -1000, "not so small"

    check(SkipAssert(), before)


def test_a_declaration_left_alone_keeps_its_scope() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            x: T.int32 = i * n
            assert x > -(2**30), "fits"
        A[0] = 1

    check(SkipAssert(), before)


@pytest.mark.parametrize("extent", [0, 1, 7])
def test_inside_while_and_empty_loops(extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int64")):
        for i in range(-1, -1 + extent):
            assert i < 8, "in range"
            A[i + 1] = T.Cast("int64", i)
        while A[0] < T.int64(5):
            assert A[0] < T.int64(5), "as tested"
            A[0] = A[0] + T.int64(1)

    assert "assert" not in check(SkipAssert(), before, sizes=(1, 2)).script()


GUARDED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), I: T.Buffer((8,), "int32"), n: T.int32):
    assert n <= 4, "n is at most 4"
    for i in range(8):
        T.Assert(0 <= I[i] and I[i] < 8, T.tvm_tuple("IndexError", "A[{0}] is out of bounds", I[i]))
        A[I[i]] = n
"""


def test_guards_may_be_kept():
    func = parse(GUARDED)
    kept = SkipAssert(keep_guards=True)(func).script()
    assert "n is at most 4" not in kept and "IndexError" in kept
    assert "IndexError" not in SkipAssert()(func).script()


def test_the_pipeline_drops_stated_asserts_when_asked_and_keeps_guards():
    func = parse(GUARDED.replace("        T.Assert", "        # T.Assert"))
    a, outside = np.zeros(8, np.int32), np.full(8, 9, np.int32)
    with pytest.raises(tl.RuntimeAssertError, match="n is at most 4"):
        tl.build(func, schedule="none")(a, np.arange(8, dtype=np.int32), 6)
    with tl.PassContext(config={"tir.disable_assert": True}):
        kernel = tl.build(func, schedule="none")
    kernel(a, np.arange(8, dtype=np.int32), 6)
    assert (a == 6).all()
    with pytest.raises(IndexError):
        kernel(a, outside, 6)
