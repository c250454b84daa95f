"""Plans of memory: overlaps that are planted are found, whoever looks byte by byte agrees, and true plans pass."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.arith.affine import Affine
from tirlower.graph.errors import GraphError
from tirlower.graph.run.plan import Placement, Plan


def bytes_clash(plan: Plan) -> bool:
    """Byte by byte and step by step."""
    held: set[tuple[int, int]] = set()
    for one in plan.placements:
        cells = {(byte, step) for byte in range(one.offset, one.end) for step in range(one.first, one.last + 1)}
        if held & cells:
            return True
        held |= cells
    return False


def test_verdicts_are_those_of_a_look_at_each_byte() -> None:
    rng = random.Random(7)
    verdicts = []
    for _ in range(400):
        placements = []
        for n in range(rng.randint(0, 6)):
            first = rng.randint(0, 6)
            size = rng.choice([0, 1, 64, 65, 128])
            placements.append(Placement(f"v{n}", 64 * rng.randint(0, 8), size, first, first + rng.randint(0, 3)))
        plan = Plan(tuple(placements), 64 * 12)
        try:
            plan.verify()
            verdicts.append(True)
        except GraphError:
            verdicts.append(False)
        assert verdicts[-1] != bytes_clash(plan), placements
        live = [sum(p.size for p in placements if p.first <= step <= p.last) for step in range(12)]
        assert plan.most_live == max(live)
    assert True in verdicts and False in verdicts


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (Placement("a", 8, 8, 0, 1), "not aligned"),
        (Placement("a", 64, 65, 0, 1), "not in the arena of 128"),
        (Placement("a", -64, 8, 0, 1), "not aligned to 64 bytes, or not in the arena"),
        (Placement("a", 0, 8, 2, 1), "read before it is made"),
    ],
)
def test_what_no_plan_may_have(one: Placement, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Plan((one,), 128).verify()


def test_the_plan_of_a_graph() -> None:
    n = tg.dim("N", 1, 50)
    exe = tg.compile(tg.trace(lambda x: np.exp(x @ x).sum(axis=0) + x, tg.spec((n, n), "float32")))
    plan = exe.plan
    plan.verify()
    assert [(p.name, p.size, p.first, p.last) for p in plan.placements] == [
        ("matmul", 10_000, 0, 1),
        ("exp", 10_000, 1, 2),
        ("sum", 200, 2, 3),
    ]
    assert plan.most_live == 20_000 and plan.arena == plan.without_reuse == 2 * 10_048 + 256
    assert "matmul" in str(plan)


def test_a_graph_without_intermediates_needs_no_arena() -> None:
    plan = tg.compile(tg.trace(lambda x: x + 1, tg.spec((3,), "float32"))).plan
    plan.verify()
    assert plan == Plan((), 0) and plan.most_live == 0


def test_plans_of_many_values_are_checked_in_time_and_one_clash_among_them_is_found() -> None:
    rng = random.Random(1)
    for _ in range(20):
        # Byte ranges of a grid, and in each the lifetimes one behind the other.
        placements = []
        for column in range(40):
            step = rng.randint(0, 3)
            for _ in range(50):
                last = step + rng.randint(0, 5)
                placements.append(Placement(f"v{len(placements)}", column * 128, rng.randint(1, 128), step, last))
                step = last + 1
        rng.shuffle(placements)
        Plan(tuple(placements), 40 * 128).verify()
        torn = rng.choice(placements)
        extra = Placement("torn", torn.offset, 1, torn.last, torn.last)
        with pytest.raises(GraphError, match=r"'torn'.* share memory"):
            Plan((*placements, extra), 40 * 128).verify()


def test_a_wrong_plan_is_found_in_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    import tirlower.graph.lower.storage as storage

    monkeypatch.setattr(storage.Sums, "size", lambda self, value: Affine({}, 64))
    graph = tg.trace(lambda x: np.exp(np.exp(np.exp(x)) @ x), tg.spec((50, 50), "float32"))
    with pytest.raises(GraphError, match=r"share memory|not in the arena"):
        tg.compile(graph)
