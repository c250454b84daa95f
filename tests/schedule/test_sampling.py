"""The generator: the same numbers on any machine, each as likely as the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tirlower.schedule import sampling
from tirlower.schedule.sampling import draw, fork, state_of
from tirlower.script import parse


def test_the_numbers_are_those_of_splitmix64() -> None:
    # The published first outputs of SplitMix64 for the seed 1234567.
    state, found = 1234567, []
    for _ in range(3):
        number, state = draw(state, 1 << 64)
        found.append(number)
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_draws_are_even_and_forks_differ() -> None:
    state, counts = state_of(None), Counter[int]()
    for _ in range(6000):
        number, state = draw(state, 6)
        counts[number] += 1
    assert set(counts) == set(range(6)) and all(abs(count - 1000) < 150 for count in counts.values())
    seed, after = fork(state)
    assert 1 <= seed < 1 << 31 and fork(after)[0] != seed


@pytest.mark.parametrize(
    ("seed", "error"), [(0, ValueError), (1 << 31, ValueError), (-2, ValueError), ("1", TypeError)]
)
def test_seeds_out_of_range(seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        tl.Schedule(parse("@T.prim_func\ndef f():\n    T.evaluate(0)\n"), seed=seed)


def test_a_seed_is_a_sequence() -> None:
    func = parse("@T.prim_func\ndef f():\n    T.evaluate(0)\n")
    one, two = tl.Schedule(func, seed=7), tl.Schedule(func, seed=7)
    drawn = [one.fork_seed() for _ in range(3)]
    assert drawn == [two.fork_seed() for _ in range(3)] and len(set(drawn)) == 3
    one.seed(7)
    assert one.fork_seed() == drawn[0]


@pytest.mark.parametrize(("drawn", "seed"), [(0, 1), (7, 8), ((1 << 31) - 2, (1 << 31) - 1)])
def test_seeds_of_forks_are_seeds(drawn: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "draw", lambda state, below: (drawn, state + below))
    assert fork(5) == (seed, 5 + (1 << 31) - 1)
    assert state_of(seed)
