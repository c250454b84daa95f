"""A loop over several statements becomes several."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable, ScheduleError
from tirlower.ir import For
from tirlower.script import parse

THREE = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(1, n):
        A[i] = A[i - 1] + i
        B[i] = A[i] * 2
        C[i] = B[i] + A[i - 1]
"""


@pytest.mark.parametrize("at", [None, 1, 2])
def test_each_statement_a_loop(at: int | None) -> None:
    func = parse(THREE)
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    parts = sch.fission(i, at=at)
    assert len(parts) == (3 if at is None else 2) and sch.get(i) is sch.get(parts[0])
    roundtrips(sch.mod["main"])
    executes_alike(
        func, sch.mod["main"], inputs=[[np.ones(16, "int32") for _ in "abc"] + [n] for n in (-2, 0, 1, 2, 16)]
    )
    again(func, sch)


def test_blocks_and_names() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = vi
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi] + 1
""")
    sch = tl.Schedule(func, debug_mask="all")
    b = sch.get_block("B")
    one, two = sch.fission("i", names=["p", "q"])
    assert (one.name, two.name) == ("p", "q") and sch.get_loops(b)[0].var is two.var
    executes_alike(func, sch.mod["main"])
    with pytest.raises(BadArgument, match="2 loops"):
        tl.Schedule(func).fission("i", names=["p"])
    with pytest.raises(BadArgument, match="cannot be cut"):
        tl.Schedule(func).fission("i", at=2)


def test_what_hands_something_on_backwards() -> None:
    func = parse(THREE.replace("A[i - 1] + i", "C[i - 1] + i"))
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.fission("i")
    first, second = raised.value.witness.points
    assert first.indices == second.indices and first.loops != second.loops
    sch.fission("i", at=1) if sch.can("fission", "i", at=1).proved else None
    assert sch.mod["main"] is func


def test_a_loop_that_writes_its_own_bound() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), N: T.Buffer((1,), "int32")):
    for i in range(T.min(N[0], 8)):
        N[0] = 3
        A[i] = 1
""")
    with pytest.raises(NotApplicable, match="bounds read"):
        tl.Schedule(func).fission("i")


def test_a_handle_of_what_does_nothing_ends() -> None:
    """A statement without an effect is left out of what is made anew: its handle made the step fail by an internal error."""
    sch = tl.Schedule(parse("def f(n: T.int32):\n    for i in range(n):\n        T.evaluate(0)"), debug_mask="all")
    i = sch.loop("i")
    (nothing,) = i.body
    (part,) = sch.fission(i)
    assert sch.get(part) is sch.get(i) and not i.body[1:]
    with pytest.raises(ScheduleError):
        sch.get(nothing)


GUARDED = """
@T.prim_func
def f(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32"), n: T.int32):
    for i in range(37):
        if {first}:
            if {second}:
                A[i] = A[i] + i
                for k in range(i % 3):
                    B[i] = B[i] + A[{at}] * k
"""
"""Two statements under two conditions."""


@pytest.mark.parametrize("first", ["i < n", "2 * i > n"])
@pytest.mark.parametrize("by", ["whole", "number", "gap"])
def test_a_condition_around_all_statements_is_one_around_each(first: str, by: str) -> None:
    func = parse(GUARDED.format(first=first, second="i != 7", at="i"))
    sch = tl.Schedule(func, debug_mask="all")
    i, k = sch.loop("i"), sch.loop("k")
    at = {"whole": None, "number": 1, "gap": k.before}[by]
    one, two = sch.fission(i, at=at)
    assert sch.get(i) is sch.get(one) is not sch.get(two) and sch.get(k).loop_var.name == "k"
    inputs = [[np.arange(37, dtype="int32"), np.ones(37, "int32"), n] for n in (-1, 0, 1, 20, 37, 99)]
    executes_alike(func, sch.mod["main"], inputs=inputs)
    again(func, sch)


def test_conditions_that_statements_may_change_stay_one() -> None:
    for first, second in (("A[0] < n", "i != 7"), ("i != 7", "B[i] < n")):
        with pytest.raises(BadArgument, match="has 1 statements"):
            tl.Schedule(parse(GUARDED.format(first=first, second=second, at="i"))).fission("i", at=1)


def test_statements_under_a_condition_hand_on_what_they_did() -> None:
    func = parse(GUARDED.format(first="i < n", second="i != 7", at="36 - i"))
    with pytest.raises(IllegalStep) as refused:
        tl.Schedule(func).fission("i")
    assert refused.value.witness is not None


def test_the_rest_of_a_split_parts() -> None:
    """A tile whose last columns are fewer, begun and summed up."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("M", 5), "float32"), B: T.Buffer((5, "N"), "float32"), C: T.Buffer(("M", "N"), "float32")):
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(5):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
""")
    sch = tl.Schedule(func, debug_mask="all")
    _, inner = sch.split("j", [None, 8])
    _, last = sch.fission(inner)
    sch.reorder("k", last)
    k = sch.get(sch.loop("k"))
    assert isinstance(k, For) and k.body is sch.get(last)
    rng = np.random.default_rng(0)
    inputs = [
        [rng.random((m, 5), "float32"), rng.random((5, n), "float32"), np.ones((m, n), "float32")]
        for m, n in ((1, 1), (3, 7), (2, 8), (2, 9), (1, 31))
    ]
    executes_alike(func, sch.mod["main"], inputs=inputs)
