"""Values that take the place of their names."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind
from tirlower.script import parse

DISTANCE = """
@T.prim_func
def f(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer((1,), "{dtype}")):
    for i in range({n}):
        d = A[i] - B[i]
        e = d + A[i]
        C[0] += d * e
"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize("n", [0, 1, 13])
def test_values_stand_where_the_names_stood(dtype: str, n: int) -> None:
    sch = taken(DISTANCE.format(dtype=dtype, n=n), lambda sch: (sch.inline_bind("d"), sch.inline_bind("e")))
    assert not any(each(Bind, sch.mod["main"].body)) and {step.exactness for step in sch.steps} == {"bitwise"}


@pytest.mark.parametrize(
    ("value", "inside"),
    [
        ("5", "B[i, x - 1] = A[i, j]"),
        ("i", "B[x, j] = A[x, j] + T.Cast('float32', x)"),
        ("i * 2 - 3", "B[i, j] = A[i, j] + T.Cast('float32', x + T.Cast('int32', A[i, 0]))"),
        ("i * 65536 * 65536", "B[i, j] = A[x // 65536 // 65536, j]"),
        ("(i + 1) * 900000000", "if x > 1000000000:\n                B[i, j] = A[i, x // 900000000 % 5]"),
    ],
)
def test_numbers_variables_and_indices_that_are_exact_in_both_places(value: str, inside: str) -> None:
    taken(rows(value, inside), lambda sch: sch.inline_bind("x"))


def test_a_size_with_a_name_goes_into_loops_and_blocks() -> None:
    sch = taken(
        """
@T.prim_func
def f(A: T.Buffer(("m", 5), "float32"), B: T.Buffer(("m", 5), "float32")):
    n = A.shape[0]
    h = n - 2
    for i in range(h):
        for j in range(5):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi + (n - h), vj]
""",
        lambda sch: (sch.inline_bind("n"), sch.inline_bind("h")),
    )
    assert not any(each(Bind, sch.mod["main"].body))


def rows(value: str, inside: str = "B[i, j] = A[i, j] + x") -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((6, 5), "float32"), B: T.Buffer((6, 5), "float32")):
    for i in range(6):
        x = {value}
        for j in range(5):
            {inside}
"""


def test_into_loops_and_conditions() -> None:
    taken(rows("A[i, 0] + A[i, 1]"), lambda sch: sch.inline_bind("x"))
    taken(rows("A[i, 0] - 1.0", "if x > 0.0:\n                B[i, j] = x"), lambda sch: sch.inline_bind("x", at="i"))


@pytest.mark.parametrize(
    ("value", "inside", "why"),
    [
        ("B[i, 0] + A[i, 1]", "B[i, j] = A[i, j] + x", "is written behind it"),
        ("A[i, 0] * A[i, 1]", "B[i, j] = A[i, j] + x", "rounded before"),
        ("-(A[i, 0] * A[i, 1])", "B[i, j] = A[i, j] + x", "rounded before"),
        ("A[i, 0] ** 2", "B[i, j] = A[i, j] + x", "rounded before"),
        ("T.Cast('float32', 7 // T.Cast('int32', A[i, 0]))", "B[i, j] = x", "may fail"),
        ("i * 65536 * 65536", "B[i, j] = A[(x + T.Cast('int32', A[i, 0]) % 3) % 6, j]", "how it wraps"),
        ("T.Cast('int32', A[i, 0]) + 1", "B[i, j] = A[x % 6, j]", "how it wraps"),
        ("T.shift_left(i, 3)", "B[i, j] = A[x % 6, j]", "how it wraps"),
    ],
)
def test_what_would_be_another_value_stays(value: str, inside: str, why: str) -> None:
    refused(rows(value, inside), lambda sch: sch.inline_bind("x"), NotApplicable, match=why)


def test_a_product_in_a_name_is_rounded_alone_as_before() -> None:
    """Native code with fused multiply-adds has the same bits before and after, whatever is put in."""
    import numpy as np

    func = parse(rows("A[i, 0] + A[i, 1] * A[i, 2]", "B[i, j] = x * A[i, j] + x"))
    sch = tl.Schedule(func)
    sch.inline_bind("x")
    a = np.random.default_rng(0).standard_normal((6, 5)).astype("float32")
    one, other = np.zeros_like(a), np.zeros_like(a)
    tl.build(func, schedule="none")(a, one)
    tl.build(sch)(a, other)
    assert one.tobytes() == other.tobytes()


def test_names_that_are_not_there() -> None:
    refused(DISTANCE.format(dtype="float32", n=4), lambda sch: sch.inline_bind("z"), BadArgument, match="0 bindings")
