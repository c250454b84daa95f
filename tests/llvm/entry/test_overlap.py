"""Which kernel runs where one is for arrays that share no memory, and another for any."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.call.gil import GilPolicy
from tirlower.call.signature import BufferParam, Signature, Sym
from tirlower.call.slowpath import FallbackEntry
from tirlower.diagnostics import ArgumentError
from tirlower.llvm.entry import NativeEntry, entry_parts, packed_kernel

from .conftest import Probe

N, S = Sym("n"), Sym("s")


def signature(extent: int | Sym, in_place: bool, **declared: bool) -> Signature:
    params = (
        BufferParam("A", "float32", (extent,), **declared),
        BufferParam("B", "float32", (extent,), written=True),
    )
    return Signature("k", params, apart=True, in_place=frozenset({("A", "B")} if in_place else ()))


class Two:
    """A kernel for arrays that are apart, and one for others; ``made`` counts how often the other is asked for."""

    def __init__(self, sig: Signature, native: bool) -> None:
        self.first, self.second = (Probe(sig, native, GilPolicy(release=False)) for _ in range(2))
        self.made = 0
        parts = entry_parts(sig, self.first.entry._keep, overlap=self.other, gil=GilPolicy(release=False))
        self.entry = NativeEntry(*parts) if native else FallbackEntry(*parts)

    def other(self):
        self.made += 1
        return packed_kernel(self.second.entry._keep, "k", ())

    def runs(self, *args: object) -> str:
        before = self.first.runs, self.second.runs
        self.entry(*args)
        after = self.first.runs, self.second.runs
        return {(1, 0): "apart", (0, 1): "overlap"}[after[0] - before[0], after[1] - before[1]]


def parts_of(start: int, length: int, step: int = 1) -> np.ndarray:
    return MEMORY[start : start + length * step : step]


MEMORY = np.zeros(96, "float32")


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("extent", [8, N], ids=["static", "symbolic"])
def test_distances(native: bool, extent: int | Sym, in_place: bool) -> None:
    two = Two(signature(extent, in_place), native)
    for distance in range(-12, 13):
        expected = "apart" if abs(distance) >= 8 or (in_place and distance == 0) else "overlap"
        assert two.runs(parts_of(20, 8), parts_of(20 + distance, 8)) == expected, distance


def test_arrays_without_elements_are_apart_wherever_they_are(native: bool) -> None:
    two = Two(signature(N, False), native)
    assert two.runs(parts_of(20, 0), parts_of(20, 0)) == "apart"
    assert two.runs(parts_of(20, 0), parts_of(25, 0)) == "apart"
    sig = Signature(
        "k", (BufferParam("A", "float32", (Sym("m"),)), BufferParam("B", "float32", (N,), written=True)), apart=True
    )
    two = Two(sig, native)
    assert two.runs(parts_of(25, 0), parts_of(20, 9)) == "apart"
    assert two.runs(parts_of(20, 9), parts_of(25, 0)) == "apart"
    assert two.runs(parts_of(25, 1), parts_of(20, 9)) == "overlap" and two.made == 1


def test_views_that_only_interleave_are_apart(native: bool) -> None:
    params = (
        BufferParam("A", "float32", (N,), (S,)),
        BufferParam("B", "float32", (N,), (Sym("t"),), written=True),
    )
    two = Two(Signature("k", params, apart=True), native)
    assert two.runs(parts_of(0, 9, 2), parts_of(1, 9, 2)) == "apart"
    assert two.runs(parts_of(0, 9, 2), parts_of(4, 9, 2)) == "overlap"
    assert two.runs(parts_of(0, 9, 2), parts_of(1, 9, 2)[::-1]) == "apart"
    assert two.runs(parts_of(0, 9, 3), parts_of(1, 9, 2)) == "overlap"
    assert two.runs(parts_of(0, 1, 3), parts_of(0, 1, 5)) == "overlap"


def test_sizes_that_differ(native: bool) -> None:
    params = (BufferParam("A", "float64", (2,)), BufferParam("B", "uint8", (3,), written=True))
    two = Two(Signature("k", params, apart=True), native)
    raw = np.zeros(64, "uint8")
    raw = raw[-raw.ctypes.data % 8 :]
    a = raw[16:32].view("float64")
    for start in range(8, 40):
        expected = "apart" if start + 3 <= 16 or start >= 32 else "overlap"
        assert two.runs(a, raw[start : start + 3]) == expected, start


def test_a_declaration_refuses_what_would_have_a_version(native: bool) -> None:
    two = Two(signature(8, True, noalias=True), native)
    assert two.runs(parts_of(0, 8), parts_of(8, 8)) == "apart"
    for distance in (0, 3):
        with pytest.raises(ArgumentError, match="noalias"):
            two.entry(parts_of(20, 8), parts_of(20 + distance, 8))
    assert two.made == 0


def test_machine_code_decides_all_but_the_rare_cases(native: bool) -> None:
    if not native:
        pytest.skip("there is no machine code")
    two = Two(signature(8, True), native)

    def fail(*args: object) -> None:
        raise AssertionError("the machine code handed this call to Python")

    two.entry._slow = fail  # type: ignore[assignment]
    assert two.runs(parts_of(0, 8), parts_of(8, 8)) == "apart"
    assert two.runs(parts_of(0, 8), parts_of(0, 8)) == "apart"
    with pytest.raises(AssertionError, match="handed"):
        two.entry(parts_of(0, 8), parts_of(1, 8))
