"""Triangles and trapezia fused without a condition: every iteration once, in its order, and nothing besides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import roundtrips
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir.query import each
from tirlower.ir.stmt import For, IfThenElse
from tirlower.script import parse


def nest(*bounds: str, dtype: str = "int32") -> Any:
    """A nest whose body counts itself, and mixes its loops into a number that tells their order."""
    loops = "\n".join(
        f"{'    ' * (at + 1)}for {name} in {bound}:"
        for at, (name, bound) in enumerate(zip("ijk", bounds, strict=False))
    )
    mixed = " + ".join(f"T.Cast('int64', {name}) * {7 + at}" for at, name in enumerate("ijk"[: len(bounds)]))
    room = "    " * (len(bounds) + 1)
    return parse(f"""
@T.prim_func
def f(S: T.Buffer((2,), "int64"), n: T.{dtype}):
{loops}
{room}S[0] = S[0] * T.int64(31) + {mixed}
{room}S[1] = S[1] + T.int64(1)
""")


def checked(before: Any, names: tuple[str, ...], sizes: tuple[int, ...], fact: str = "") -> Any:
    """The fused function, run as the other one was, its loop running as often as its body."""
    sch = tl.Schedule(before, debug_mask="all")
    if fact:
        sch.assume(fact)
    fused = sch.fuse(*names, bounds="tight")
    after = sch.mod["main"]
    assert not list(each(IfThenElse, after.body)) and len(list(each(For, after.body))) == 1
    assert fused.name == f"{'_'.join(names)}_fused"
    roundtrips(after)
    for size in sizes:
        one, other = np.ones(2, "int64"), np.ones(2, "int64")
        tl.interpret(before, one, size)
        tl.interpret(after, other, size)
        assert (one == other).all(), (size, one, other)
    return after


SIZES = (-3, 0, 1, 2, 5, 7)


@pytest.mark.parametrize("first", ["0", "3", "-2"])
@pytest.mark.parametrize("slope", [-3, -1, 1, 2])
@pytest.mark.parametrize("base", ["0", "n", "-4", "5"])
def test_rows_of_any_slope_start_and_size(slope: int, first: str, base: str) -> None:
    for low in ("0", "i - 2"):
        before = nest(
            f"range({first}, {first} + n)", f"range({low}, {low} + ({slope} * i + {base}))".replace("+ -", "- ")
        )
        checked(before, ("i", "j"), SIZES, "n > -1000 and n < 1000")


@pytest.mark.parametrize(
    "bounds",
    [
        ("range(7)", "range(i + 1)"),
        ("range(n)", "range(i, n)"),
        ("range(1)", "range(i, 5)"),
        ("range(0)", "range(i, 5)"),
        ("range(2, 9)", "range(i, 5)"),
        ("range(n)", "range(2 * i, 2 * i + 3)"),
        ("range(n)", "range(2 * i, 8 - i)"),
        ("range(n)", "range(i // 2, i // 2 + 2)"),
        ("range(n)", "range(i // 2, i + i // 2)"),
        ("range(4)", "range(i)", "range(3)"),
        ("range(4)", "range(i)", "range(n)"),
        ("range(4)", "range(3)", "range(i)"),
        ("range(n)", "range(4)", "range(j, 4)"),
        ("range(4)", "range(2)", "range(i + 1, 6)"),
        ("range(4)", "range(i)", "range(j, j + 2)"),
        ("range(n)", "range(i, i + 3)", "range(j, j + 2)"),
    ],
)
def test_forms(bounds: tuple[str, ...]) -> None:
    checked(nest(*bounds), ("i", "j", "k")[: len(bounds)], SIZES)


def test_loops_of_64_bits_count_in_them() -> None:
    before = nest("range(T.int64(2), T.int64(9))", "range(i, T.int64(9))", dtype="int64")
    after = checked(before, ("i", "j"), (0,))
    assert str(after.body.loop_var.dtype) == "int64"


ROWS = 2**29


@pytest.mark.parametrize(
    ("low", "high", "slope", "least"), [("0", "i + 1", 1, 1), ("i", "n", 1, 1), ("0", "3 * i + 5", 3, 5)]
)
def test_rows_are_exact_where_floats_are_not(low: str, high: str, slope: int, least: int) -> None:
    before = parse(f"""
@T.prim_func
def f(S: T.Buffer((2,), "int64"), n: T.int32, at: T.int64):
    for i in range(n):
        for j in range({low}, {high}):
            S[0] = T.Cast("int64", i)
            S[1] = T.Cast("int64", j)
""")
    sch = tl.Schedule(before)
    sch.fuse("i", "j", bounds="tight")
    after = sch.mod["main"]
    one = after.with_(body=after.body.with_(min=after.params[2], extent=after.body.extent * 0 + 1))
    rng = np.random.default_rng(5)
    for row in (0, 1, ROWS - 1, *(int(x) for x in rng.integers(0, ROWS, 60))):
        start, length = slope * (row * (row - 1) // 2) + least * row, slope * row + least
        for column in (0, length - 1):
            number, expected = start + column, (row, column)
            if low == "i":  # counted from the end
                total = ROWS * (ROWS + 1) // 2
                number, expected = total - 1 - number, (ROWS - 1 - row, ROWS - 1 - column)
            seen = np.zeros(2, "int64")
            tl.interpret(one, seen, ROWS, number)
            assert tuple(seen) == expected, number


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("rows", [8, 1, 0])
@pytest.mark.parametrize("length", ["8", "1", "0", "i", "8 - i"])
@pytest.mark.parametrize("low", ["i", "8 - i", "i * 2"])
def test_bindings_of_blocks_become_simple(rows: int, low: str, length: str, preserve: bool) -> None:
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((24, 24), "int32")):
    for i in range({rows}):
        for j in range({low}, {low} + {length}):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * 2 + vi * 100 + vj
""")
    sch = tl.Schedule(before)
    sch.fuse("i", "j", bounds="tight", preserve_unit_iters=preserve)
    one, other = np.ones((24, 24), "int32"), np.ones((24, 24), "int32")
    tl.interpret(before, one)
    tl.interpret(sch.mod["main"], other)
    assert (one == other).all()


def test_blocks_bind_the_row_and_what_is_built_is_the_same() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((12, 12), "int32"), n: T.int32):
    for i in range(n):
        for j in range(i, n):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * 2 + vi * 100 + vj
""")
    sch = tl.Schedule(before, debug_mask="all")
    block = sch.get_block("A")
    fused = sch.fuse("i", "j", bounds="tight")
    assert [loop.var for loop in sch.get_loops(block)] == [fused.var]
    kernel = tl.build(sch)
    for n in (-4, 0, 1, 5, 12):
        one, other = np.ones((12, 12), "int32"), np.ones((12, 12), "int32")
        tl.interpret(before, one, n)
        kernel(other, n)
        assert (one == other).all()
    again = tl.Schedule(before)
    sch.trace.apply(again)
    assert tl.ir.structural_equal(again.mod["main"], sch.mod["main"])


@pytest.mark.parametrize(
    ("bounds", "word"),
    [
        (("range(8)", "range(i // 2)"), "no constant multiple of `i`"),
        (("range(8)", "range(i * i)"), "no constant multiple of `i`"),
        (("range(8)", "range(n * i)"), "may wrap"),
        (("range(4)", "range(n)", "range(i + 1, 6)"), "no constant multiple of `i`"),
        (("range(8)", "range(i)", "range(j)"), "no constant multiple of `i`"),
        (("range(n)", "range(n + i * n - n * i + 2000000000 * i)"), "may wrap"),
        (("range(n)", "range(i + n)"), "may wrap"),
    ],
)
def test_what_is_refused(bounds: tuple[str, ...], word: str) -> None:
    sch = tl.Schedule(nest(*bounds))
    with pytest.raises(NotApplicable, match=word) as caught:
        sch.fuse(*"ijk"[: len(bounds)], bounds="tight")
    assert 'bounds="guard"' in str(caught.value)
    assert not sch.steps


def test_what_is_assumed_is_counted() -> None:
    before = nest("range(n)", "range(i + n)")
    sch = tl.Schedule(before)
    sch.assume("n >= 0 and n < 1000")
    sch.fuse("i", "j", bounds="tight")
    for size in (0, 1, 4):
        one, other = np.ones(2, "int64"), np.ones(2, "int64")
        tl.interpret(before, one, size)
        tl.interpret(sch.mod["main"], other, size)
        assert (one == other).all()


def test_too_many_to_count() -> None:
    before = nest("range(n)", "range(i)", dtype="int64")
    with pytest.raises(NotApplicable, match="more than can be counted"):
        tl.Schedule(before).fuse("i", "j", bounds="tight")


def test_bounds_are_one_of_two_words() -> None:
    with pytest.raises(BadArgument, match="'guard', 'tight', got 'snug'"):
        tl.Schedule(nest("range(4)", "range(i)")).fuse("i", "j", bounds="snug")
