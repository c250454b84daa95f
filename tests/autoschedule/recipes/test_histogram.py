"""Updates at places that data names: tables a thread, every bit of the loops as written, and what is left alone."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX2, planned, replays, same_bits
from tirlower.autoschedule.recipes import histogram

PLAIN = """
def f(A: T.Buffer(({n},), "{a}"), W: T.Buffer(({n},), "{d}"), H: T.Buffer(({bins},), "{d}")):
    for i in range({n}):
        H[{at}] = {update}
"""
BLOCK = """
def f(A: T.Buffer(({0}, {1}), "uint8"), H: T.Buffer((256,), "{2}")):
    for i, j in T.grid({0}, {1}):
        with T.block("H"):
            vi, vj = T.axis.remap("RR", [i, j])
            H[T.Cast("int32", A[vi, vj])] = H[T.Cast("int32", A[vi, vj])] + T.{2}(1)
"""


def program(n: int | str, d: str = "int32", op: str = "{h} + {w}", a: str = "uint8", bins: int = 256) -> str:
    at = 'T.Cast("int32", A[i])' if bins == 256 else f'T.Cast("int32", A[i]) % {bins}'
    text = PLAIN.format(n="N", a=a, d=d, bins=bins, at=at, update=op.format(h=f"H[{at}]", w="W[i]"))
    return text.replace("range(N)", f"range({n})").replace("(N,)", f'("{n}",)' if isinstance(n, str) else f"({n},)")


@pytest.mark.parametrize("n", [131072, 65537, 99991])
@pytest.mark.parametrize("d", ["int32", "uint8", "int64"])
def test_tables_of_integers(n: int, d: str):
    found = planned(program(n, d))
    [nest] = found.nests
    assert (nest.recipe, nest.exactness, nest.steps) == ("histogram", "bitwise equal", 2 + (n % 1024 > 0))
    replays(found)
    same_bits(found)


@pytest.mark.parametrize("op", ["T.max({h}, {w})", "T.min({h}, {w})", "{h} * {w}", "T.bitwise_xor({h}, {w})"])
def test_other_updates(op: str):
    found = planned(program(70001, op=op))
    assert [nest.recipe for nest in found.nests] == ["histogram"]
    same_bits(found)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (program(70001, "float32"), "sum kept in order: no permission"),
        (program(5000), "not parallel: 5000 updates do not pay for 64 tables"),
        (program(1 << 20, "int32", bins=1 << 17), "its table is too large"),
        (program(1 << 20, op="{w}"), "it has not one reduction"),
        (program(1 << 20).replace('T.Cast("int32", A[i])', "7"), "what is updated moves evenly"),
    ],
)
def test_what_is_left_alone(text: str, why: str):
    [nest] = planned(text).nests
    assert nest.recipe != "histogram" and any(f"no histogram: {why}" in note for note in nest.notes), nest.notes


def test_one_thread_keeps_one_table():
    [nest] = planned(program(70001), AVX2.replace("threads=2", "threads=1")).nests
    assert not nest.recipe and any("a thread alone" in note for note in nest.notes)


@pytest.mark.parametrize("d", ["int32", "float32"])
def test_blocks_leave_the_order_free(d: str):
    found = planned(BLOCK.format(300, 601, d))
    [nest] = found.nests
    assert (nest.recipe, nest.parameters["piece"]) == ("histogram", 0)
    assert nest.exactness == ("bitwise equal" if d == "int32" else "equal up to the order of the sum into H")
    same_bits(found, tolerance=1e-6)
    [few] = planned(BLOCK.format(3, 60100, d)).nests
    assert any("`i` runs 3 times" in note for note in few.notes)


def test_sizes_that_the_caller_alone_knows(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(histogram, "PIECE", 8)
    monkeypatch.setattr(histogram, "SHARE", 1e9)
    func = planned(program("n")).written
    with tl.PassContext(config={"tir.auto.least": 0}):
        made = tl.build(func, AVX2)
    plain = tl.build(func, AVX2, schedule="none")
    assert made.report().nests[0].recipe == "histogram"
    rng = np.random.default_rng(0)
    for n in (0, 1, 7, 8, 1009, 50021):
        data, weights = rng.integers(0, 256, n).astype(np.uint8), rng.integers(-9, 9, n).astype(np.int32)
        one, other = np.zeros((2, 256), np.int32)
        made(data, weights, one)
        plain(data, weights, other)
        assert one.tobytes() == other.tobytes() and one.sum() == weights.sum()


def test_weights_that_are_the_table():
    """Arrays that overlap run the loops as written."""
    func = planned(program(70001)).written
    made, plain = tl.build(func, AVX2), tl.build(func, AVX2, schedule="none")
    rng = np.random.default_rng(1)
    data, first = rng.integers(0, 256, 70001).astype(np.uint8), rng.integers(0, 9, 70001).astype(np.int32)
    results = []
    for kernel in (made, plain):
        weights = first.copy()
        kernel(data, weights, weights[100:356])
        results.append(weights.tobytes())
    assert results[0] == results[1]
