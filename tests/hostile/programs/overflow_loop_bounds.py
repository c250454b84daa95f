"""Loops whose bounds are passed or loaded: the ends of int32, differences that wrap, narrow types, none at all."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def between(lo: T.int32, hi: T.int32, A: T.Buffer((64,), "int32"), n: T.Buffer((1,), "int32")):
    n[0] = 0
    for i in range(lo, hi):
        n[0] = n[0] + 1
        if i < 64 and i >= 0:
            A[i] = A[i] + i


@T.prim_func
def from_below(lo: T.int32, hi: T.int32, A: T.Buffer((64,), "int32")):
    if lo >= 0:
        for i in range(lo, hi):
            if i < 64:
                A[i] = A[i] + i


@T.prim_func
def loaded(R: T.Buffer((2,), "int32"), A: T.Buffer((64,), "int32")):
    for i in range(R[0], R[1]):
        if i < 64 and i >= 0:
            A[i] = A[i] + i


@T.prim_func
def bytes_(lo: T.uint8, hi: T.uint8, A: T.Buffer((512,), "int32")):
    for i in range(lo, hi):
        A[i] = A[i] + 1


@T.prim_func
def signed(lo: T.int8, hi: T.int8, A: T.Buffer((256,), "int32")):
    for i in range(lo, hi):
        A[i + 128] = A[i + 128] + 1


@T.prim_func
def words(lo: T.uint32, hi: T.uint32, A: T.Buffer((64,), "int32")):
    for i in range(lo, hi):
        if i < T.int64(64):
            A[i] = A[i] + 1


TOP, LOW = 2**31 - 1, -(2**31)


def test_pairs(pairs: list[tuple[int, int]]) -> None:
    for lo, hi in pairs:
        want = np.arange(64, dtype="int32") * 3
        for i in range(max(lo, 0), min(hi, 64)):
            want[i] += i
        for run in (tl.build(between), lambda *args: tl.interpret(between, *args)):
            out, count = np.arange(64, dtype="int32") * 3, np.zeros(1, "int32")
            run(lo, hi, out, count)
            assert (out == want).all() and count[0] == max(hi - lo, 0), (lo, hi, count)
        out = np.arange(64, dtype="int32") * 3
        tl.build(from_below)(lo, hi, out)
        assert (out == (want if lo >= 0 else np.arange(64, dtype="int32") * 3)).all()
        out = np.arange(64, dtype="int32") * 3
        tl.build(loaded)(np.array([lo, hi], "int32"), out)
        assert (out == want).all()


test_pairs([(0, 64), (3, 70), (-5, 9), (9, 3), (TOP, LOW), (TOP - 3, TOP), (LOW, LOW + 4), (TOP, 7), (7, LOW)])
for lo, hi in [(0, 255), (200, 100), (255, 0), (250, 255), (3, 3), (128, 127)]:
    for run in (tl.build(bytes_), lambda *args: tl.interpret(bytes_, *args)):
        out = np.zeros(512, "int32")
        run(lo, hi, out)
        assert out.sum() == max(hi - lo, 0) and out[hi:].sum() == 0 and out[:lo].sum() == 0
for lo, hi in [(-128, 127), (127, -128), (-1, 1), (100, 127)]:
    out = np.zeros(256, "int32")
    tl.build(signed)(lo, hi, out)
    assert out.sum() == max(hi - lo, 0) and (out[lo + 128 : max(hi, lo) + 128] == 1).all()
for lo, hi in [(3, 9), (9, 3), (2**32 - 2, 2**32 - 1), (2**32 - 1, 0)]:
    out = np.zeros(64, "int32")
    tl.build(words)(lo, hi, out)
    assert out.sum() == max(min(hi, 64) - min(lo, 64), 0)
