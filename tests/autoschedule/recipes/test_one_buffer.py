"""Products of a matrix by itself: both operands are one buffer, and panels hold both."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size

ONE = AVX512.replace("threads=2", "threads=1")
BY_ROWS, BY_COLUMNS = "X[i, q] * X[j, q]", "X[q, i] * X[q, j]"


def gram(n: object, k: object, terms: str = BY_ROWS, dtype: str = "float32", sums: str = "") -> str:
    shape = (n, k) if terms == BY_ROWS else (k, n)
    sums = sums or dtype
    if sums != dtype:
        terms = " * ".join(f'T.Cast("{sums}", {term})' for term in terms.split(" * "))
    return f"""
def f(X: T.Buffer({shape!r}, "{dtype}"), G: T.Buffer(({n!r}, {n!r}), "{sums}")):
    for i, j in T.grid({n}, {n}):
        G[i, j] = T.{sums}(0)
        for q in range({k}):
            G[i, j] += {terms}
"""


@pytest.mark.parametrize("terms", [BY_ROWS, BY_COLUMNS])
@pytest.mark.parametrize("target", [ONE, AVX2])
@pytest.mark.by_day
def test_panels_hold_both(terms: str, target: str) -> None:
    [report] = planned(gram(256, 192, terms), target).nests
    assert report.recipe == "contraction", report
    assert report.parameters["packed"] == (("X",) if terms == BY_ROWS else ())
    for n, k in ((33, 17), (35, 1)):
        scheduled(gram(n, k, terms), target)


@pytest.mark.parametrize(("dtype", "sums"), [("float64", ""), ("int8", "int32"), ("int32", ""), ("float16", "float32")])
@pytest.mark.by_day
def test_other_types(dtype: str, sums: str) -> None:
    scheduled(gram(24, 9, BY_ROWS, dtype, sums), ONE)


def test_what_is_larger_than_the_second_cache() -> None:
    small = ONE.replace("48K,1M,32M", "4K,16K,1M")
    found = scheduled(gram(96, 128), small, interpreted=False)
    assert found.nests[0].parameters["packed"] == ("X",)


def test_any_size() -> None:
    sizes = [{"n": n, "k": k} for n, k in ((64, 48), (33, 17), (0, 3), (5, 0))]
    found = of_any_size(gram("n", "k"), sizes, "llvm -num_threads=2")
    assert found.nests[0].recipe == "contraction of any size"


def test_one_that_is_written_too_stays() -> None:
    text = gram(64, 64).replace("G[i, j]", "X[i, j]")
    found = planned(text, ONE)
    assert not any(report.recipe.startswith("contraction") for report in found.nests)
    scheduled(text.replace("64", "12"), ONE)


DISTANCES = """
def f(X: T.Buffer(({n!r}, {k!r}), "float32"), Y: T.Buffer(({m!r}, {k!r}), "float32"), D: T.Buffer(({n!r}, {m!r}), "float32")):
    for i, j in T.grid({n}, {m}):
        s = T.float32(0)
        for q in range({k}):
            d = X[i, q] - {y}[j, q]
            s += d * d
        D[i, j] = T.sqrt(s)
"""


@pytest.mark.parametrize("y", ["X", "Y"])
def test_distances_are_contractions(y: str) -> None:
    [report] = planned(DISTANCES.format(n=256, m=256, k=64, y=y), ONE).nests
    assert report.recipe == "contraction", report
    for n, k in ((33, 5),):
        scheduled(DISTANCES.format(n=n, m=n, k=k, y=y), ONE)


def test_distances_of_any_number_of_points() -> None:
    sizes = [dict(zip("nmk", each, strict=True)) for each in ((70, 40, 3), (5, 1, 2), (0, 4, 4), (3, 3, 0))]
    [report] = of_any_size(DISTANCES.format(n="n", m="m", k="k", y="Y"), sizes, "llvm -num_threads=1").nests
    assert report.recipe == "contraction of any size"
