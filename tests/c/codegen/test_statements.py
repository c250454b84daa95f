"""The text of statements."""

from __future__ import annotations

import pytest

from tests.c.batch import lines_of
from tirlower.diagnostics import LoweringError


def function(params: str, *body: str) -> list[str]:
    return lines_of("\n".join(["@T.prim_func", f"def f({params}):", *(f"    {line}" for line in body)]))


A = 'A: T.Buffer((100,), "int32")'


@pytest.mark.parametrize(
    ("loop", "head"),
    [
        ("range(100)", "for (int32_t i = 0; i < 100; ++i) {"),
        ("T.parallel(100)", "for (int32_t i = 0; i < 100; ++i) {"),
        ("T.unroll(3, 9)", "for (int32_t i = 3; i < 9; ++i) {"),
        ("T.serial(T.int64(100))", "for (int64_t i = 0; i < 100; ++i) {"),
        ("T.serial(T.int8(100))", "for (int8_t i = 0; i < 100; ++i) {"),
        ("T.serial(T.int8(28), T.int8(127))", "for (int8_t i = 28; i < 127; ++i) {"),
    ],
)
def test_loops(loop, head):
    assert function(A, f"for i in {loop}:", "    A[T.Cast('int32', i) % 100] = 1")[0] == head


def test_a_counter_that_would_leave_its_type_is_a_wider_one():
    lines = function(
        f"n: T.uint32, {A}", "for i in T.serial(T.uint32(0), n):", "    if i < T.uint32(100):", "        A[i] = 1"
    )
    assert lines[:3] == [
        "const int64_t stop = (int64_t)n;",
        "for (int64_t i_at = 0; i_at < stop; ++i_at) {",
        "const uint32_t i = (uint32_t)i_at;",
    ]


def test_while_loops_are_left_from_within():
    lines = function(
        A, "while A[0] < 10:", "    A[0] = A[0] + 1", "    if A[0] == 7:", "        continue", "    A[1] = 3"
    )
    assert lines[:4] == ["while (1) {", "if (!(A[0] < 10)) {", "break;", "}"] and "continue;" in lines


def test_assertions_record_the_values_of_their_variables():
    lines = function(f"n: T.int32, x: T.float64, {A}", 'assert x < 1.0, "too large"', "A[0] = n")
    assert lines[:5] == [
        "if (!(x < 1.0)) {",
        "err->code = 0;",
        "err->nvals = 1;",
        "err->vals[0] = (int64_t)tir_bits_f64(x);",
        "return 1;",
    ]


def test_branches_and_returns():
    lines = lines_of(
        "@T.prim_func\ndef f(n: T.int32) -> T.int32:\n    if n > 0:\n        return n\n    else:\n        return T.int32(5)\n"
    )
    assert lines == [
        "*ret = 0;",
        "if (0 < n) {",
        "*ret = (uint64_t)(uint32_t)n;",
        "return 0;",
        "} else {",
        "*ret = UINT64_C(5);",
        "return 0;",
        "}",
    ]


def test_thread_loops_are_refused():
    with pytest.raises(LoweringError, match=r"threadIdx.x is run by threads of a GPU"):
        function(A, 'for i in T.thread_binding(100, thread="threadIdx.x"):', "    A[i] = 1")
