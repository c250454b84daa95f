"""Build and lower refuse loops that are not what they claim to be, and say which iterations disagree."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError, TransformError
from tirlower.script import tir as T
from tirlower.transforms import VectorizeLoop


@T.prim_func
def scan(A: T.Buffer((16,), "float32")):
    for i in T.parallel(15):
        A[i + 1] = A[i] + A[i + 1]


@T.prim_func
def vector_sum(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    for i in T.vectorized(16):
        B[0] = B[0] + A[i]


@T.prim_func
def scatter(A: T.Buffer((16,), "float32"), Index: T.Buffer((16,), "int32")):
    for i in T.parallel(16):
        A[Index[i]] = T.float32(1)


@T.prim_func
def trusted(A: T.Buffer((16,), "float32"), Index: T.Buffer((16,), "int32")):
    for i in T.parallel(16, annotations={"tir.unchecked": "Index is a permutation"}):
        A[Index[i]] = T.float32(1)


@T.prim_func
def halves(A: T.Buffer((32,), "float32")):
    for i in T.parallel(16):
        A[i] = A[i + 16]


@pytest.mark.parametrize("use", [tl.build, tl.lower])
def test_a_refuted_loop_shows_its_witness(use):
    with pytest.raises(LegalityError, match="parallel loop `i` of 'scan' is not legal") as info:
        use(scan)
    text = str(info.value)
    assert "at i = 0 writes A[1]" in text
    assert "at i = 1 reads A[1]" in text
    assert "A[i + 1] = A[i] + A[i + 1]" in text


def test_a_reduction_names_itself():
    with pytest.raises(LegalityError, match="carries the reduction of B"):
        tl.build(vector_sum)


def test_an_unknown_one_is_refused_with_the_remedy():
    with pytest.raises(LegalityError, match="cannot be proved legal") as info:
        tl.build(scatter)
    assert "tir.unchecked" in (info.value.help or "")


def test_a_trusted_one_runs_and_is_reported():
    kernel = tl.build(trusted)
    a = np.zeros(16, "float32")
    kernel(a, np.arange(16, dtype="int32")[::-1].copy())
    np.testing.assert_array_equal(a, 1)
    assert any("Index is a permutation" in str(note) for note in kernel.report().loops)


def test_disjoint_halves_are_accepted():
    a = np.arange(32, dtype="float32")
    tl.build(halves)(a)
    np.testing.assert_array_equal(a[:16], np.arange(16, 32))


def test_the_check_can_be_turned_off_and_misspelt():
    with tl.PassContext(config={"tir.legality": "off"}):
        tl.lower(scan)
    with tl.PassContext(config={"tir.legality": "of"}), pytest.raises(TransformError, match="'check' or 'off'"):
        tl.lower(scan)


def test_a_pass_by_hand_never_checks():
    VectorizeLoop()(vector_sum)
