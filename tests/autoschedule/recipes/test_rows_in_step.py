"""Which nests go along the same rows, and which of them hand on to another row."""

from __future__ import annotations

import pytest

from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.recipes.rows_in_step import Chain
from tirlower.script import parse

TWO = """
def f(A: T.Buffer((8, 6), "float32"), B: T.Buffer(({rows}, 6), "float32"), C: T.Buffer(({rows}, 6), "float32")):
    S = T.alloc_buffer((8,), "float32")
    for i in range(8):
        S[i] = T.float32(0)
        for k in range(6):
            S[i] += A[i, k]
    for {loop} in range({rows}):
        for j in range(6):
            {second}
"""


@pytest.mark.parametrize(
    ("second", "rows", "taken"),
    [
        ("B[r, j] = A[r, j] / S[r]", 8, True),
        ("B[r, j] = S[r] + S[7 - r]", 8, False),  # of another row
        ("B[r, j] = S[0]", 8, False),
        ("B[r, j] = A[r, j] / S[r]", 7, False),  # other rows
        ("B[r, j] = C[r, j]", 8, False),  # nothing of the chain
        ("A[r, j] = C[r, j] * S[r]", 8, True),
        ("A[7 - r, j] = C[r, j] * S[r]", 8, False),  # a row that is read when another one's turn has come
    ],
)
def test_a_nest_is_taken_where_it_goes_along_the_rows(second: str, rows: int, taken: bool) -> None:
    func = parse(TWO.format(second=second, rows=rows, loop="r"))
    first, other = nests_of(func)
    chain = Chain()
    assert chain.take(first) and chain.take(other) is taken
    assert len(chain.nests) == 1 + taken
    assert chain.until_its_last_sum() == 1 and chain.nests[0] is first


def test_where_nothing_is_summed_up_there_is_no_chain() -> None:
    _, other = nests_of(parse(TWO.format(second="B[r, j] = A[r, j]", rows=8, loop="r")))
    chain = Chain()
    assert chain.take(other) and chain.until_its_last_sum() == 0 and not chain.nests
