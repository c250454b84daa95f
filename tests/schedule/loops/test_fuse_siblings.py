"""Two loops that stand beside each other, in step."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

PAIR = """
@T.prim_func
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), n: T.int32):
    for i in range({low}, {high}):
        A[i] = A[i] * 2 + i
    for j in range({first}, {last}):
        B[j] = B[j] + A[j + {ahead}]
"""


@pytest.mark.parametrize(
    ("low", "high", "first", "last"),
    [
        ("0", "9", "0", "9"),
        ("0", "9", "0", "7"),
        ("2", "n", "0", "n"),
        ("0", "0", "0", "5"),
        ("0", "n", "3", "n - 1"),
        ("1", "2", "0", "11"),
    ],
)
@pytest.mark.parametrize("shift", [0, 1, 3, -1])
def test_in_step_where_nothing_is_needed_too_soon(low: str, high: str, first: str, last: str, shift: int) -> None:
    for ahead in (0, 1, 3):
        func = parse(PAIR.format(low=low, high=high, first=first, last=last, ahead=ahead))
        sch = tl.Schedule(func, debug_mask="all")
        i, j = sch.loop("i"), sch.loop("j")
        verdict = sch.can("fuse_siblings", i, j, shift=shift)
        if low == first == "0" and high == last:
            assert verdict.proved == (shift >= ahead)
        if not verdict.proved:
            assert verdict.witness is not None
            continue
        fused = sch.fuse_siblings(i, j, shift=shift)
        assert sch.get(i) is sch.get(fused)
        roundtrips(sch.mod["main"])
        executes_alike(
            func,
            sch.mod["main"],
            inputs=[[np.arange(32, dtype="int32"), np.ones(32, "int32"), n] for n in (-3, 0, 1, 2, 5, 20)],
        )
        again(func, sch)


def test_blocks_with_something_between() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((1,), "int32")):
    for t in range(3):
        for i in range(32):
            with T.block("A"):
                vi = T.axis.spatial(32, i)
                A[vi] = A[vi] + vi
        C[0] = C[0] + t
        for j in range(30):
            with T.block("B"):
                vj = T.axis.spatial(30, j)
                B[vj] = A[vj + 2]
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.fuse_siblings("i", "j", shift=2)
    assert "T.where" in str(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    wrong = parse(func.script().replace("C[0] + t", "A[t]"))
    with pytest.raises(IllegalStep):
        tl.Schedule(wrong).fuse_siblings("i", "j", shift=2)


def test_what_has_not_the_form() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        for j in range(8):
            A[i, j] = 1
    for k in T.parallel(8):
        B[k] = 2
    for l in range(B[0]):
        A[l, 0] = 3
""")
    sch = tl.Schedule(func)
    for pair, word in (
        (("i", "j"), "beside"),
        (("k", "i"), "before"),
        (("i", "k"), "kinds"),
        (("i", "l"), "read memory"),
        (("j", "k"), "depths"),
    ):
        with pytest.raises(NotApplicable, match=word):
            sch.fuse_siblings(*pair)
