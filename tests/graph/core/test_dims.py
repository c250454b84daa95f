"""Dims: what is stated of them, arithmetic, and which extents are equal."""

from typing import Any

import pytest

import tirlower.graph as tg
from tirlower.graph import GraphError
from tirlower.graph.core.dims import DimEnv, as_extent, as_shape, same_extent
from tirlower.graph.core.extents import extent_text


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("a b",), {}, "a dim's name is an identifier"),
        (("N", -1), {}, "its least value is at least 0"),
        (("N", 4, 3), {}, "it is stated between 4 and 3"),
        (("N",), {"multiple_of": 0}, "a multiple of a positive number"),
        (("N", 1, 8), {"hints": (9,)}, "the hint 9 of dim 'N' is none of its values"),
        (("N", 1, 8), {"multiple_of": 4, "hints": (6,)}, "the hint 6"),
    ],
)
def test_facts_that_do_not_fit(args, kwargs, message):
    with pytest.raises(GraphError, match=message):
        tg.dim(*args, **kwargs)


def test_arithmetic():
    n = tg.dim("N", 1)
    made = [n + 1, 1 + n, n - 1, 9 - n, n * 2, 2 * n, n // 2, 7 // n, n % 3, 8 % n]
    texts = ["N + 1", "N + 1", "N - 1", "9 - N", "N * 2", "N * 2", "N // 2", "7 // N", "N % 3", "8 % N"]
    assert [extent_text(e).replace("1 + N", "N + 1").replace("2 * N", "N * 2") for e in made] == texts


def test_extents():
    n = tg.dim("N")
    assert as_extent(n) is n.var
    assert as_shape((3, n)) == (3, n.var)
    for wrong in (1.5, True, "N", None):
        with pytest.raises(GraphError, match="an extent is an integer, a dim or an expression"):
            as_extent(wrong)


def test_what_is_stated_is_used():
    n, m = tg.dim("N", 1, multiple_of=4), tg.dim("M", 2, 3)
    env = DimEnv([n, m])
    assert env.equal(n % 4, 0) is True
    assert env.equal(n.var, 0) is False
    assert env.equal(m.var, 4) is False
    assert env.equal(n.var, m.var) is None or env.equal(n.var, m.var) is False
    assert env.equal(n * 2, n + n) is True
    assert env.simplify(n // 4 * 4) is n.var


def test_what_was_taken_on_trust_is_not_asked_again():
    n, m = tg.dim("N", 1), tg.dim("M", 1)
    env = DimEnv([n, m])
    with env.inferring():
        assert same_extent(n.var, m.var, "x") is n.var
        assert same_extent(m.var, n.var, "x") is m.var
        assert same_extent(n.var, 7, "x") == 7
    assert [(extent_text(a), extent_text(b)) for a, b in env.assumed] == [("N", "M"), ("N", "7")]
    with pytest.raises(GraphError, match="y: 3 and 4"), env.inferring():
        same_extent(3, 4, "y")


def test_facts_may_be_stated_after_a_dim_is_used():
    env = DimEnv()
    var = env.state("N").var
    assert env.equal(var, 0) is None
    stated = env.state("N", 1, 8)
    assert stated.var is var
    assert env.equal(var, 0) is False
    env.state("M")
    env.first([env.dims["M"]])
    assert [d.name for d in env] == ["M", "N"]


@pytest.mark.parametrize(
    ("facts", "value"),
    [
        ({"hints": (3, 5), "high": 9}, 3),
        ({"high": 9}, 9),
        ({"high": 9, "multiple_of": 4}, 8),
        ({}, 1),
        ({"low": 5, "multiple_of": 4}, 8),
        ({"high": 0}, 0),
    ],
)
def test_typical_values_are_admitted(facts: dict[str, Any], value: int) -> None:
    one = tg.dim("B", facts.pop("low", 0), facts.pop("high", None), **facts)
    assert one.typical == value and one.admits(value)
