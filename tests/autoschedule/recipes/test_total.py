"""Sums of all elements: partial results where the order is free, the loops as written where it is not."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size

BLOCK = """
def f(A: T.Buffer(({n}, {m}), "{d}"), B: T.Buffer(({n}, {m}), "{d}"), S: T.Buffer((1,), "{d}")):
    for i, j in T.grid({n}, {m}):
        with T.block("S"):
            vi, vj = T.axis.remap("RR", [i, j])
            with T.init():
                S[0] = T.Cast("{d}", 0)
            S[0] = {update}
"""
PLAIN = """
def f(A: T.Buffer(({n},), "{d}"), S: T.Buffer((1,), "{d}")):
    for i in range({n}):
        S[0] = {update}
"""
DOT = "S[0] + A[vi, vj] * B[vi, vj]"


@pytest.mark.parametrize("shape", [(1, 1), (3, 67), (131, 40), (17, 257), (640, 512)])
@pytest.mark.parametrize("d", ["float32", "float64"])
def test_dot_products(shape: tuple[int, int], d: str):
    found = scheduled(
        BLOCK.format(n=shape[0], m=shape[1], d=d, update=DOT), AVX512, tolerance=1e-3, interpreted=shape[0] < 64
    )
    [nest] = found.nests
    if shape[1] >= 32:
        assert nest.recipe == "total" and nest.parameters["parallel"] == (shape == (640, 512))


@pytest.mark.parametrize("update", ["S[0] + A[i]", "T.max(S[0], A[i])", "S[0] * A[i]"])
@pytest.mark.parametrize("d", ["int32", "float32"])
def test_integers_and_extrema_are_on_threads(update: str, d: str):
    if d == "float32" and "max" not in update:
        update = "T.min(A[i], S[0])"
    found = scheduled(PLAIN.format(n=300007, d=d, update=update), interpreted=False)
    [nest] = found.nests
    assert (nest.recipe, nest.exactness, nest.parameters["lanes"]) == ("total", "bitwise equal", 0)
    [alone] = planned(found.written, AVX2.replace("threads=2", "threads=1")).nests
    assert not alone.recipe


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (PLAIN.format(n=70000, d="float32", update="S[0] + A[i]"), "sum kept in order: no permission"),
        (PLAIN.format(n=70000, d="int32", update="A[i]"), "it has not one reduction"),
        (BLOCK.format(n=100, m=7, d="float32", update=DOT), "7 elements in a row are too few"),
        (
            BLOCK.format(n=100, m=70, d="float32", update="S[0] + A[vi, 69 - vj]"),
            "A[vi, 69 - vj] is not contiguous along j",
        ),
    ],
)
def test_what_is_left_alone(text: str, why: str):
    [nest] = planned(text).nests
    assert nest.recipe != "total" and any(f"no total: {why}" in note for note in nest.notes), nest.notes


def test_sizes_that_the_caller_alone_knows():
    sizes = [{"n": n, "m": m} for n, m in ((0, 5), (1, 1), (3, 70), (601, 97), (900, 3))]
    text = BLOCK.format(n='"n"', m='"m"', d="float32", update=DOT).replace('T.grid("n", "m")', "T.grid(n, m)")
    found = of_any_size(text, sizes, AVX2, tolerance=1e-2)
    assert [nest.recipe for nest in found.nests] == [""]  # no step puts its init in front of loops that may not run
    one = PLAIN.format(n='"n"', d="int64", update="S[0] + A[i]").replace('range("n")', "range(n)")
    found = of_any_size(one, [{"n": n} for n in (0, 1, 1023, 16384, 300007)], AVX2)
    assert [nest.recipe for nest in found.nests] == ["total"]
    annotated = one.replace("int64", "float32").replace("range(n)", 'T.serial(n, annotations={"tir.reduction": True})')
    found = of_any_size(annotated, [{"n": n} for n in (0, 1, 33, 1023, 16384, 300007)], AVX512, tolerance=1e-2)
    assert found.nests[0].parameters["lanes"] == 16
