"""Digits of flattened subscripts, against the subscripts that they were flattened from."""

from __future__ import annotations

import pytest

from tirlower.poly import check_bounds, extract, is_parallel
from tirlower.script import parse

CASES = {
    "A[i * m + j]": "(i, j)",
    "A[(i + 1) * m + j]": "(i + 1, j)",
    "A[i * m + j + 1]": "(i, j)",  # one past all: the offset stands before the digits
    "A[i * (m + 1) + j]": "(i, j)",
    "A[i * (4 * m) + j * 4 + 3]": "(i, 4*j + 3)",
    "A[n * m - 1 - (i * m + j)]": "(-1*i + n + -1, -1*j + m + -1)",
    "A[i * n + j]": None,  # j < m says nothing of n
    "A[i * (m + 2) + j + 2]": "(i, j + 2)",
}


@pytest.mark.parametrize("subscript", CASES)
def test_digits(subscript: str):
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer(('n * m * 4 + 9',), 'int32'), n: T.int32, m: T.int32):\n"
        f"    for i, j in T.grid(n, m):\n        {subscript} = 0\n"
    )
    scop = extract(func)
    (store,) = scop.accesses
    wanted = CASES[subscript]
    if wanted is not None:
        got = store.digits
        assert got is not None
        assert len(got) == 2 and {str(got)} & {wanted, _turned(wanted)}, got
        assert is_parallel(scop, "i").proved and is_parallel(scop, "j").proved
    else:
        assert store.digits is None and not is_parallel(scop, "i").proved


def _turned(text: str) -> str:
    """The same digits, their terms in another order."""
    return text.replace("-1*i + n + -1", "n + -1*i + -1").replace("-1*j + m + -1", "m + -1*j + -1")


def test_three_dimensions_a_diagonal_and_bounds():
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer(('n * m * l',), 'int32'), D: T.Buffer(('n * n',), 'int32'), "
        "n: T.int32, m: T.int32, l: T.int32):\n"
        "    for i, j, k in T.grid(n, m, l):\n        A[(i * m + j) * l + k] = 0\n"
        "    for a, b in T.grid(n, n):\n        D[a * n + b] = 0\n"
        "    for d in range(n):\n        D[d * (n + 1)] = 1\n"
    )
    scop = extract(func)
    assert [str(a.digits) for a in scop.accesses] == ["(i, j, k)", "(a, b)", "(d, d)"]
    assert all(is_parallel(scop, name).proved for name in "ijkabd")
    assert all(found.verdict.proved for found in check_bounds(scop))


def test_a_guard_that_is_missing_is_missed():
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer(('n * m',), 'int32'), n: T.int32, m: T.int32):\n"
        "    for i, jo, ji in T.grid(n, (m + 3) // 4, 4):\n        A[i * m + jo * 4 + ji] = 0\n"
    )
    assert not is_parallel(func, "i").proved
    guarded = parse(
        "@T.prim_func\ndef f(A: T.Buffer(('n * m',), 'int32'), n: T.int32, m: T.int32):\n"
        "    for i, jo, ji in T.grid(n, (m + 3) // 4, 4):\n        if jo * 4 + ji < m:\n"
        "            A[i * m + jo * 4 + ji] = 0\n"
    )
    assert is_parallel(guarded, "i").proved
