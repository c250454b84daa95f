"""Draws: decisions are kept, replayed, repaired; each choice is as likely as its weight says; a seed gives the same anywhere."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument, TraceError
from tirlower.ir.structural import assert_structural_equal
from tirlower.schedule.trace import Trace
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((SIZE,), "int32")):
    for i in range(SIZE):
        with T.block("A"):
            vi = T.axis.spatial(SIZE, i)
            A[vi] = 1
"""


def fresh(size: Any = 24, **kwargs: Any) -> Any:
    return tl.Schedule(parse(TEXT.replace("SIZE", str(size))), **kwargs)


def numbers(sch: Any, found: list[Any]) -> list[int]:
    return [sch.get(one) for one in found]


def test_factors_are_drawn_evenly() -> None:
    seen: Counter[tuple[int, ...]] = Counter()
    sch = fresh(12)
    i = sch.get_loops("A")[0]
    for _ in range(900):
        seen[tuple(numbers(sch, sch.sample_perfect_tile(i, 2, 4)))] += 1
    assert set(seen) == {(12, 1), (6, 2), (4, 3), (3, 4)} and min(seen.values()) > 150


def test_weights_are_followed_and_a_weight_of_zero_is_never_drawn() -> None:
    sch = fresh()
    seen = Counter(sch.get(sch.sample_categorical([3, 5, 7], [0.25, 0.0, 0.75])) for _ in range(800))
    assert set(seen) == {3, 7} and 120 < seen[3] < 280
    for wrong in (([1, 2], [1.0]), ([1], [0.0]), ([1], [-1.0]), ([], []), ([1], [math.inf])):
        with pytest.raises(BadArgument):
            sch.sample_categorical(*wrong)
    with pytest.raises(BadArgument, match="number of a candidate"):
        sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)


@pytest.mark.parametrize(("n", "pos", "part"), [(3, 1, 4), (4, 2, 6), (2, 0, 1), (2, 2, 1), (3, 0, 24)])
def test_the_inner_part_is_a_multiple(n: int, pos: int, part: int) -> None:
    sch = fresh()
    for _ in range(30):
        found = numbers(sch, sch.sample_partitioned_tile("i", n, pos, part))
        assert math.prod(found) == 24 and math.prod(found[pos:]) % part == 0
    other = fresh(30)
    assert numbers(other, other.sample_partitioned_tile("i", 3, 1, 4)) == [-1, 1, 1]


def test_what_is_drawn_splits_and_is_recorded_in_tvms_words() -> None:
    sch = fresh(24, seed=7)
    block = sch.get_block("A")
    (i,) = sch.get_loops(block)
    factors = sch.sample_perfect_tile(i, n=2, max_innermost_factor=8, decision=[6, 4])
    sch.split(i, factors)
    number = sch.sample_categorical([1, 2], [0.5, 0.5], decision=1)
    sch.annotate(block, "unroll", number)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="A", func_name="main")',
        "l1, = sch.get_loops(block=b0)",
        "v2, v3 = sch.sample_perfect_tile(loop=l1, n=2, max_innermost_factor=8, decision=[6, 4])",
        "l4, l5 = sch.split(loop=l1, factors=[v2, v3], preserve_unit_iters=True, disable_predication=False)",
        "v6 = sch.sample_categorical(candidates=[1, 2], probs=[0.5, 0.5], decision=1)",
        'sch.annotate(block_or_loop=b0, ann_key="unroll", ann_val=v6)',
    ]
    rows, decided = sch.trace.as_json()
    assert rows[2] == ["SamplePerfectTile", ["l1"], [2, 8], ["v2", "v3"]] and decided == [[2, [6, 4]], [4, 1]]
    for dialect in ("tvm", "tirlower"):
        again = fresh()
        Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json(dialect=dialect)), again)
        assert_structural_equal(again.mod, sch.mod)
        assert again.trace.as_python() == sch.trace.as_python()
    scope: dict[str, Any] = {}
    exec(str(sch.trace), scope)
    again = fresh()
    scope["schedule"](again)
    assert_structural_equal(again.mod, sch.mod)
    assert dict(sch.get(block).annotations) == {"unroll": 2}


def test_decisions_of_another_extent_are_repaired_and_symbolic_ones_leave_the_loop_whole() -> None:
    sch = fresh()
    sch.split("i", sch.sample_perfect_tile("i", 2, decision=[6, 4]))
    other = fresh(30)
    sch.trace.apply_to_schedule(other)
    assert [int(other.get(loop).extent.value) for loop in other.get_loops("A")] == [1, 30]
    symbolic = tl.Schedule(
        parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((n,), "int32")):
    for i in range(n):
        A[i] = 1
""")
    )
    found = symbolic.sample_perfect_tile("i", 3)
    assert numbers(symbolic, found) == [-1, 1, 1]
    assert len(symbolic.split("i", found)) == 3


def test_a_refused_draw_leaves_the_generator_as_it_was() -> None:
    sch = fresh()
    before = sch.copy().fork_seed()
    with pytest.raises(BadArgument):
        sch.sample_perfect_tile("i", 0)
    assert sch.copy().fork_seed() == before


def tuned(size: int = 24, seed: int = 3) -> Any:
    sch = fresh(size, seed=seed)
    (i,) = sch.get_loops("A")
    sch.split(i, sch.sample_perfect_tile(i, 3, -1))
    sch.annotate("A", "note", sch.sample_categorical([1, 2, 3], [1.0, 0.0, 1.0]))
    return sch


def test_the_space_of_a_trace() -> None:
    sch = tuned()
    tile, choice = sch.trace.space()
    assert (tile.count, choice.count) == (sum(1 for _ in tile), 2) and list(choice) == [0, 2]
    assert all(math.prod(one) == 24 for one in tile)
    for decision in tile:
        again = fresh()
        sch.trace.with_decision(tile.inst, decision, False).apply_to_schedule(again)
        assert [int(again.get(one).extent.value) for one in again.get_loops("A")] == decision


def test_a_mutation_changes_one_decision_and_a_crossover_mixes_two() -> None:
    sch, rng = tuned(), random.Random(5)
    before = [sch.trace.get_decision(inst) for inst in sch.trace.insts]
    for _ in range(20):
        other = sch.trace.mutate(rng)
        after = [other.get_decision(inst) for inst in other.insts]
        assert sum(a != b for a, b in zip(before, after, strict=True)) == 1
        other.apply_to_schedule(fresh())
    one, two = tuned(seed=3).trace, tuned(seed=9).trace
    seen = set()
    for _ in range(30):
        mixed = one.crossover(two, rng)
        mixed.apply_to_schedule(fresh())
        seen.add(tuple(str(mixed.get_decision(inst)) for inst in mixed.insts if inst.kind.draws))
    assert len(seen) > 1
    with pytest.raises(TraceError, match="other instructions"):
        one.crossover(fresh().trace, rng)
    with pytest.raises(TraceError, match="nothing to draw"):
        fresh().trace.mutate(rng)


def test_another_workload_reports_what_did_not_apply() -> None:
    sch = fresh()
    i_0, i_1 = sch.split(sch.get_loops("A")[0], [None, 4])
    sch.vectorize(i_1)
    sch.unroll(i_0)
    other = tl.Schedule(parse(TEXT.replace("SIZE", "n").replace("A: T", "n: T.int32, A: T")))
    found = sch.trace.apply(other, on_error="skip")
    assert [one.status for one in found.steps] == ["applied"] * 4 + ["skipped"] and "not a constant" in found.steps[
        -1
    ].why
    with pytest.raises(TraceError, match="unroll"):
        sch.trace.apply(tl.Schedule(other.moments()[0].mod))
    renamed = tl.Schedule(parse(TEXT.replace("SIZE", "8").replace('"A"', '"D"')))
    assert sch.trace.apply(renamed, rename={"A": "D"}).applied == 5
    lost = sch.trace.apply(tl.Schedule(parse(TEXT.replace("SIZE", "8").replace('"A"', '"D"'))), on_error="skip")
    assert lost.applied == 0 and "was skipped" in lost.steps[-1].why


PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.schedule.test_samples import tuned
sch = tuned(360, 11)
print(sch.mod.script(), sch.trace, sch.trace.as_json(), sch.trace.as_json(dialect="tirlower"))
print([line.rsplit("  ", 1)[0] for line in sch.report().splitlines()], sch.fork_seed())
"""


def test_two_processes_give_the_same_bytes() -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    seen = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(root=root)],
            capture_output=True,
            check=True,
            timeout=120,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "77")
    }
    assert len(seen) == 1 and b"sample_perfect_tile" in seen.pop()
