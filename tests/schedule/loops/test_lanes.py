"""``vectorize`` with lanes: what becomes of the iterations that fill no vector."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.fuzz.oracle import Expected, arguments_for
from tests.generate.programs import generate
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, ScheduleError
from tirlower.ir import For, IRModule
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.query import each
from tirlower.schedule import draft
from tirlower.script import parse

COPY = """
@T.prim_func
def f(A: T.Buffer(({n},), "int32"), C: T.Buffer(({n},), "int32")):
    for i in range({first}, {n}):
        C[i] = A[i] * 2 + i
"""
BLOCK = """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n):
        with T.block("C"):
            v = T.axis.spatial(n, i)
            C[v] = A[v] + 1
"""


@pytest.mark.parametrize("tail", ["mask", "scalar", "predicate", "shift"])
@pytest.mark.parametrize(("first", "n"), [(0, 11), (3, 17), (0, 16)])
def test_tails_of_constant_extents(tail: str, first: int, n: int) -> None:
    sch = taken(COPY.format(first=first, n=n), lambda sch: sch.vectorize("i", 8, tail=tail))
    outer, lane = sch.loop("i_0"), sch.loop("i_1")
    assert (sch.get(outer).kind.value, sch.get(lane).kind.value) == ("serial", "vectorized")


@pytest.mark.parametrize("tail", ["mask", "scalar", "predicate"])
def test_tails_of_symbolic_extents(tail: str) -> None:
    taken(BLOCK, lambda sch: sch.vectorize(sch.get_loops("C")[0], 4, tail=tail))


def test_a_whole_number_of_vectors() -> None:
    taken(COPY.format(first=0, n=16), lambda sch: sch.vectorize("i", 8))
    refused(COPY.format(first=0, n=17), lambda sch: sch.vectorize("i", 8), NotApplicable, "multiple")
    refused(COPY.format(first=0, n=5), lambda sch: sch.vectorize("i", 8, tail="shift"), NotApplicable, "at least")
    refused(COPY.format(first=0, n=5), lambda sch: sch.vectorize("i", 8, tail="drop"), BadArgument)


def test_what_is_repeated_must_end_the_same() -> None:
    update = """
@T.prim_func
def f(A: T.Buffer((11,), "int32")):
    for i in range(11):
        A[i] = A[i] * 2
"""
    refused(update, lambda sch: sch.vectorize("i", 8, tail="shift"))
    taken(update, lambda sch: sch.vectorize("i", 8, tail="mask"))


def test_lanes_that_depend_on_each_other() -> None:
    sch = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((17,), "int32")):
    for i in range(16):
        A[i + 1] = A[i] + 1
""")
    )
    assert sch.can("vectorize", "i", 4).refuted


SUMS = """
@T.prim_func
def f(A: T.Buffer((3, {n}), "float32"), S: T.Buffer((3,), "float32")):
    for i, j in T.grid(3, {n}):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] += A[vi, vj]
"""
"""Of rows: a plain vector of lanes would be refused, for the iterations add to one element."""


@pytest.mark.parametrize("tail", ["scalar", "mask", "exact"])
def test_sums_in_lanes(tail: str) -> None:
    n = 16 if tail == "exact" else 21
    sch: Any = tl.Schedule(parse(SUMS.format(n=n)))
    assert sch.can("vectorize", "j", 8, tail=tail).refuted
    sch.vectorize("j", 8, tail=tail, reduction=True)
    assert sch.steps[-1].exactness == "reassociated(S)"
    assert sch.get(sch.loop("j_1")).annotations == {REDUCTION: True}
    sch.validate(seeds=2)
    a = np.random.default_rng(0).integers(-8, 8, (3, n)).astype("float32")
    np.testing.assert_array_equal(tl.build(sch, outputs=["S"], schedule="none")(a), a.sum(axis=1))


def test_partial_results_are_had_where_something_is_summed_alone() -> None:
    sch = taken(COPY.format(first=0, n=16), lambda sch: sch.vectorize("i", 8, reduction=True))
    assert sch.steps[-1].exactness == "bitwise" and not sch.get(sch.loop("i_1")).annotations
    whole: Any = tl.Schedule(parse(SUMS.format(n=16)))
    whole.vectorize("j", reduction=True)
    assert whole.get(whole.loop("j")).annotations == {REDUCTION: True}
    greatest: Any = tl.Schedule(parse(SUMS.format(n=16).replace("+= A[vi, vj]", "= T.max(S[vi], A[vi, vj])")))
    greatest.vectorize("j", reduction=True)
    assert greatest.steps[-1].exactness == "bitwise"
    assert greatest.get(greatest.loop("j")).annotations == {REDUCTION: True}
    assert tl.Schedule(parse(SCAN)).can("vectorize", "i", 8, reduction=True).refuted


SCAN = """
@T.prim_func
def f(A: T.Buffer((17,), "int32")):
    for i in range(16):
        A[i + 1] = A[i + 1] + A[i]
"""


def test_vectors_in_order_need_no_flow_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> Any:
        raise AssertionError("whether values are the same was asked for")

    monkeypatch.setattr(draft, "same_values", asked)
    verdicts: Counter[str] = Counter()
    for seed in range(60):
        rng, program = random.Random(seed), generate(seed)
        parsed = parse(program.text)
        before = parsed if isinstance(parsed, IRModule) else IRModule({"main": parsed})
        loops = [loop.loop_var.name for loop in each(For, before["main"].body)]
        sch: Any = tl.Schedule(parsed, reassociate=False)
        expected = Expected(before, arguments_for(before, seed, empty=program.empty))
        for _ in range(4 if loops else 0):
            at = f"{(name := rng.choice(loops))}#{rng.randrange(loops.count(name))}"
            try:
                sch.vectorize(at, rng.choice([1, 2, 3, 4]), tail=rng.choice(["scalar", "scalar", "exact"]))
            except ScheduleError as error:
                verdicts[type(error).__name__] += 1
                continue
            verdicts["taken"] += 1
            expected.check(sch.mod)
    assert verdicts["taken"] > 30 and verdicts["IllegalStep"] > 1
