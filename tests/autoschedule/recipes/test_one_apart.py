"""Loops that read what one of their iterations writes: shortest paths, closures, eliminations in place, bit by bit the loops as written."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tests.sampling import in_pairs

SQUARE = """
def f(D: T.Buffer(({n}, {n}), "{d}")):
    for k in range({n}):
        for i in range({n}):
            for j in range({n}):
                {update}
"""
MIN = "D[i, j] = T.min(D[i, j], D[i, k] + D[k, j])"
UPDATES = {
    "min": MIN,
    "if": "if D[i, k] + D[k, j] < D[i, j]:\n                    D[i, j] = D[i, k] + D[k, j]",
    "minus": "D[i, j] = D[i, j] - D[i, k] * D[k, j]",
    "row k": "D[i, j] = D[i, j] + D[k, i]",
    "behind": "D[i, j] = D[i, k] + D[i, j]",
}


@pytest.mark.parametrize(
    ("update", "d"), in_pairs(["min", "if", "minus"], ["int32", "float64", "uint8", "float32"], each=3)
)
def test_the_three_parts_give_the_bits_of_the_loop(update: str, d: str):
    found = scheduled(SQUARE.format(n=70, d=d, update=UPDATES[update]), AVX512, interpreted=False)
    assert found.nests[0].recipe == "one iteration apart" and found.nests[0].exactness == "bitwise equal"
    assert found.nests[0].rule == "`j` is cut at k"


@pytest.mark.parametrize("update", ["min", "if"])
def test_the_size_is_not_known(update: str):
    text = SQUARE.format(n="N", d="int32", update=UPDATES[update]).replace("(N, N)", '("N", "N")')
    found = of_any_size(text, [{"N": n} for n in (0, 1, 2, 3, 15, 16, 17, 31, 50)])
    assert found.nests[0].recipe == "one iteration apart"


@pytest.mark.parametrize("first", [0, 1, 30, 63])
def test_the_iteration_is_a_number_or_the_first_or_the_last(first: int):
    text = f"""
def f(D: T.Buffer((40, 64), "int32")):
    for i, j in T.grid(40, 64):
        D[i, j] = D[i, j] * 3 + D[i, {first}]
"""
    recipe = scheduled(text).nests[0].recipe
    assert recipe == "one iteration apart" or (first == 63 and recipe == "elementwise")  # written when all have read it


@pytest.mark.parametrize(("start", "at"), [("5", "7"), ("k", "k"), ("1", "k - 1"), ("k + 1", "k")])
def test_loops_that_start_elsewhere(start: str, at: str):
    text = f"""
def f(D: T.Buffer((40, 90), "int32")):
    for k in range(1, 40):
        for i in range(40):
            for j in range({start}, 90):
                D[i, j] = T.max(D[i, j], D[i, {at}] + D[k, j])
"""
    found = planned(text)
    if at == "7" or start == at:
        assert found.nests[0].recipe == "one iteration apart", found.nests
    scheduled(text, interpreted=False)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("D[i, j] = D[i, j] + D[i, p]", "no one iteration apart: loop_partition"),  # p may be any number
        ("D[i, j] = D[i, j] + D[i, 3] * D[i, 5]", "no one iteration of `j` writes what all of them read"),
        ("D[i, j] = D[i, j] + D[j, 3]", "is not contiguous along `j`"),
        ("D[i, j] = D[i, j] + D[i, T.max(j - 1, 0)] + D[i, 9]", "is not contiguous along `j`"),
    ],
)
def test_what_is_left_as_it_is(body: str, why: str):
    text = f"""
def f(D: T.Buffer((64, 64), "int32"), p: T.int32):
    for i, j in T.grid(64, 64):
        {body}
"""
    found = planned(text)
    assert found.nests[0].recipe != "one iteration apart"
    assert any(why in note for note in found.nests[0].notes), found.nests[0].notes


def test_what_is_carried_from_one_iteration_to_the_next_is_no_vector():
    text = """
def f(D: T.Buffer((64, 80), "int32")):
    for i in range(64):
        for j in range(1, 80):
            D[i, j] = D[i, j - 1] + D[i, j] * D[i, 40]
"""
    found = planned(text)
    assert found.nests[0].recipe != "one iteration apart"
    assert any("no one iteration apart: vectorize" in note for note in found.nests[0].notes), found.nests[0].notes


def test_rows_of_few_elements_stay():
    found = planned(SQUARE.format(n=9, d="int32", update=MIN), AVX2)
    assert any("9 iterations are few vectors of 4" in note for note in found.nests[0].notes)
