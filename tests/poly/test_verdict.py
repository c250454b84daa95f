from __future__ import annotations

import pytest

from tirlower.diagnostics import LegalityError
from tirlower.poly import Verdict, can_reorder, is_parallel, is_vectorizable
from tirlower.script import tir as T


@T.prim_func
def scan(A: T.Buffer(("n",), "float32"), n: T.int32):
    for i in range(n - 1):
        A[i + 1] = A[i]


def test_an_error_underlines_both_accesses_and_says_for_which_sizes():
    verdict = is_parallel(scan, "i")
    error = verdict.error("the loop 'i' cannot be parallel", "parallel")
    assert isinstance(error, LegalityError)
    text = str(error)
    assert text.startswith("error[parallel]: the loop 'i' cannot be parallel: iteration i = 0 writes A[1]")
    assert "A[i + 1] = A[i]" in text and "^" in text and "~" in text
    assert "i = 0 writes A[1]" in text and "i = 1 reads A[1]" in text and "n = 3" in text and "= help:" in text


def test_a_witness_has_small_sizes_where_there_are_such():
    """With the greatest size of all, which isl gives first, `i + 2 + n` leaves its type: no run shows the witness."""

    @T.prim_func
    def guarded(B: T.Buffer(("n + 10", 6), "int32"), n: T.int32, k: T.int32):
        for i in range(k - 1):
            if i - 1 + k < i * 4 + 3 and i + 2 + n >= n - 1:
                for j in range(n - 1):
                    for c in range(k):
                        B[c + n + 2, c * 2 + 1] = B[i * 4, 0]

    for question in (is_parallel, is_vectorizable):
        witness = question(guarded, "i").witness
        assert witness is not None and max(witness.parameters.values()) <= 4


def test_an_access_that_meets_itself_is_underlined_once():
    @T.prim_func
    def cell(A: T.Buffer((1,), "int32")):
        for i in range(4):
            A[0] = i

    text = str(is_parallel(cell, "i").error("no"))
    assert text.count("^^^") >= 1 and "i = 0 writes A[0], and at i = 1 writes A[0]" in text


def test_a_verdict_is_true_only_when_proved():
    assert Verdict("proved") and not Verdict("refuted") and not Verdict("unknown")
    assert Verdict("unknown").unknown and Verdict("refuted").refuted


def test_an_error_without_a_witness_still_says_why():
    @T.prim_func
    def triangle(A: T.Buffer((8, 8), "float32")):
        for i in range(8):
            for j in range(i):
                A[i, j] = 0.0

    error = can_reorder(triangle, ["j", "i"]).error("cannot reorder")
    with pytest.raises(LegalityError, match="depend on 'i'"):
        raise error
