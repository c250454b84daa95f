"""When places are used: a second count, by hand, of straight steps, choices and loops; what overlaps in a run must overlap."""

from __future__ import annotations

import random
from typing import Any, cast

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.nodes import GraphNode, TensorType, Value
from tirlower.graph.lower.lifetimes import lifetimes
from tirlower.graph.lower.steps import Choice, KernelStep, Loop, Step
from tirlower.ir.dtype import DataType

NODE = cast(GraphNode, None)


def value(name: str) -> Value:
    return Value.of(TensorType((4,), DataType("float32")), name)


def step(*places: Value) -> KernelStep:
    return KernelStep(NODE, "k", places)


def test_a_choice_is_a_step_of_its_own() -> None:
    a, b, c, d = map(value, "abcd")
    spans = lifetimes([step(a, b), Choice(b, (step(a, c),), (step(a, d),)), step(c, d)])
    assert spans == {a: (0, 3), b: (0, 1), c: (2, 4), d: (3, 4)}


def test_what_a_loop_uses_lives_through_it() -> None:
    a, b, c, t, out = map(value, "abcto")
    spans = lifetimes([step(a, b), Loop(c, (step(b, c),), (step(b, t), step(t, b))), step(b, out)])
    # 0: a, b; 1: b, c; then the loop: 2 asks, 3 and 4 are its body, 5 asks again; 6 is behind it.
    assert spans == {a: (0, 0), b: (0, 6), c: (1, 5), t: (2, 5), out: (6, 6)}


def run_of(steps: Any, rng: random.Random, seen: list[tuple[Value, ...]]) -> None:
    """The places that are used in one run, step by step: choices by chance, loops up to three times."""
    for one in steps:
        if isinstance(one, KernelStep):
            seen.append(one.places)
        elif isinstance(one, Choice):
            seen.append((one.condition,))
            run_of(rng.choice([one.then, one.otherwise]), rng, seen)
        else:
            run_of(one.again, rng, seen)
            for _ in range(rng.randint(0, 3)):
                seen.append((one.condition,))
                run_of((*one.body, *one.again), rng, seen)
            seen.append((one.condition,))


def drawn(rng: random.Random, values: list[Value], depth: int) -> list[Step]:
    made: list[Step] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.randrange(4) if depth else 0
        if kind == 1:
            then, otherwise = (tuple(drawn(rng, values, depth - 1)) for _ in range(2))
            made.append(Choice(rng.choice(values), then, otherwise))
        elif kind == 2:
            again, body = (tuple(drawn(rng, values, depth - 1)) for _ in range(2))
            made.append(Loop(rng.choice(values), again, body))
        else:
            made.append(step(*rng.sample(values, rng.randint(1, 3))))
    return made


def test_places_that_are_needed_together_in_some_run_overlap() -> None:
    rng = random.Random(3)
    apart = 0
    for _ in range(300):
        values = [value(f"v{n}") for n in range(8)]
        steps = drawn(rng, values, 2)
        spans = lifetimes(steps)
        for _ in range(4):
            seen: list[tuple[Value, ...]] = []
            run_of(steps, rng, seen)
            used = {v: [n for n, places in enumerate(seen) if v in places] for v in values}
            for a in values:
                for b in values:
                    if used[a] and used[b] and used[a][0] <= used[b][-1] and used[b][0] <= used[a][-1]:
                        assert spans[a][0] <= spans[b][1] and spans[b][0] <= spans[a][1]
                    elif a in spans and b in spans:
                        apart += spans[a][1] < spans[b][0]
    assert apart > 100


def test_the_plan_of_a_graph_with_a_loop() -> None:
    graph = tg.trace(
        lambda x: tg.while_loop(lambda v: (v > 1).any(), lambda v: np.exp(v) / 20, x), tg.spec((3,), "float32")
    )
    plan = tg.compile(graph).plan
    plan.verify()
    assert plan.placements and max(p.last for p in plan.placements) > 1
