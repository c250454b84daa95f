"""Sweeps again and again: all steps at once through the arrays, each bit as the loops are written, and what is left alone."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import planned, replays, same_bits, scheduled

SMALL = "llvm -mcpu=x86-64-v3 -mcache=1K,{}K,64K -num_threads=1"
JACOBI = """
def f(A: T.Buffer(({n}, {m}), "{d}"), B: T.Buffer(({n}, {m}), "{d}")):
    for t in range({t}):
        for i, j in T.grid({n} - 2, {m} - 2):
            B[i + 1, j + 1] = A[i, j + 1] + A[i + 2, j + 1] - A[i + 1, j] * A[i + 1, j + 2]
        for i, j in T.grid({n} - 2, {m} - 2):
            A[i + 1, j + 1] = B[i, j + 1] + B[i + 2, j + 1] - B[i + 1, j] * B[i + 1, j + 2]
"""
COPIED = """
def f(A: T.Buffer(({n}, {m}), "{d}")):
    B = T.alloc_buffer(({n}, {m}), "{d}")
    for t in range({t}):
        for i in range(2, {n} - 2):
            for j in range({m}):
                B[i, j] = A[i - 2, j] + A[i + 2, j] - A[i, j]
        for i in range(2, {n} - 2):
            for j in range({m}):
                A[i, j] = B[i, j] + A[i, j]
"""
IN_PLACE = """
def f(A: T.Buffer(({n}, {m}), "{d}")):
    for t in range({t}):
        for i, j in T.grid({n} - 2, {m} - 1):
            A[i + 1, j] = A[i, j] + A[i + 2, j + 1] - A[i + 1, j]
"""
FORMS = {"jacobi": (JACOBI, 2), "copied": (COPIED, 4), "in place": (IN_PLACE, 1)}


@pytest.mark.parametrize(("t", "together"), [(2, 0), (3, 0), (19, 4)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.by_day
def test_every_bit_of_the_loops(form: str, t: int, together: int):
    text, skew = FORMS[form]
    cache = {"jacobi": 4, "copied": 4, "in place": 2}[form]
    found = scheduled(text.format(n=237, m=21, t=t, d="float32"), SMALL.format(cache), interpreted=t < 7)
    [nest] = found.nests
    assert (nest.recipe, nest.exactness) == ("time loop", "bitwise equal"), nest.notes
    assert f"each step {skew} rows behind" in nest.rule
    assert bool(nest.parameters["together"]) == bool(together)


@pytest.mark.parametrize("shape", [(3, 800), (4, 700), (5, 631), (264, 17), (401, 7)])
@pytest.mark.parametrize("d", ["int32", "float64", "int8"])
def test_odd_shapes_and_types(shape: tuple[int, int], d: str):
    found = planned(JACOBI.format(n=shape[0], m=shape[1], t=5, d=d), SMALL.format(1))
    replays(found)
    same_bits(found, SMALL.format(1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (JACOBI.format(n=20, m=10, t=5, d="float32"), "is at hand in the caches"),
        (JACOBI.format(n=40, m=4000, t=5, d="float32"), "the second cache has no room for 2 rows"),
        (JACOBI.format(n=400, m=100, t=1, d="float32"), "the second cache has no room"),
        (COPIED.format(n=200, m=100, t=5, d="float32").replace("B[i, j] +", "B[1, j] +"), "is not at a row of its own"),
        (IN_PLACE.format(n=200, m=100, t=5, d="float32").replace("A[i + 2, j + 1]", "A[t, j]"), "moves with `t`"),
        (COPIED.format(n=200, m=100, t=5, d="float32").replace("range(2,", "range(3,", 1), "not along the same rows"),
    ],
)
def test_what_is_left_alone(text: str, why: str):
    [nest] = planned(text, SMALL.format(16)).nests
    assert nest.recipe != "time loop" and any("no time loop: " in note and why in note for note in nest.notes), (
        nest.notes
    )
