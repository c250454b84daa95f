"""Texts of expressions that verbs take: what names mean at a place, and what is no expression."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

ROWS = """
def f(A: T.Buffer(("n", 64), "int32"), p: T.int32):
    for k in range(1, 60):
        for i in range(n):
            for j in range(64):
                A[i, j] = A[i, j] * 3 + k
"""


@pytest.mark.parametrize("factor", ["k", "k + 1", "64 - k", "k // 2", "(k * 3) % 7", "7"])
def test_a_factor_names_the_loops_around(factor: str) -> None:
    sch = taken(ROWS, lambda sch: sch.loop_partition("j", [factor]))
    first, second = sch.loop("j0"), sch.loop("j1")
    assert str(sch.get(first).extent) == (factor if factor != "(k * 3) % 7" else "k * 3 % 7")
    assert sch.get(second).min.dtype == "int32"
    assert f'"{factor}"' in str(sch.trace)


def test_a_text_of_a_number_is_the_number() -> None:
    texts, numbers = (tl.Schedule(parse(ROWS)) for _ in range(2))
    texts.loop_partition("j", ["8", 16])
    numbers.loop_partition("j", [8, 16])
    assert str(texts.mod["main"]) == str(numbers.mod["main"])


@pytest.mark.parametrize(
    ("loop", "factor", "error", "why"),
    [
        ("j", "q", BadArgument, "over the loops around: p, n, k, i"),
        ("j", "j", BadArgument, "'j' is no expression over the loops around"),  # it counts nothing where it is cut
        ("i", "j", BadArgument, "'j' is no expression"),
        ("j", "k +", BadArgument, "'k \\+' is no expression"),
        ("j", "k / 2", BadArgument, "is no expression"),
        ("j", "A[0, 0]", BadArgument, "is no expression"),
        ("j", "1.5", BadArgument, "is no expression"),
        ("j", "p", NotApplicable, "not known to be"),
        ("j", "0", BadArgument, "positive"),
        ("j", "64", BadArgument, "not less than the extent"),
        ("j", "k + 5", NotApplicable, "not known to be less than the extent"),
    ],
)
def test_what_is_no_factor_is_said(loop: str, factor: str, error: type, why: str) -> None:
    refused(ROWS, lambda sch: sch.loop_partition(loop, [factor]), error, why)


def test_other_verbs_take_no_text() -> None:
    sch = tl.Schedule(parse(ROWS))
    with pytest.raises(TypeError, match="takes a factor"):
        sch.unroll_jam("i", "k")
    with pytest.raises(TypeError, match="takes a factor"):
        sch.split("i", ["k", None])
