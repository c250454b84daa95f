from __future__ import annotations

import pytest

from tests.gpu.launch.random_streams import FAULTS, fault, verdict

PROGRAMS = 15


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 4))])
def test_random_programs(part: int) -> None:
    said = {seed: verdict(seed) for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS)}
    assert not {seed: text for seed, text in said.items() if text is not None}


FOUND_BY = {
    "a copy waits for the stream of the allocation alone": 82,
    "a launch does not wait for what others write": 84,
    "a launch does not wait for those who read": 84,
    "arrays of others are not waited for": 82,
    "what was shown is forgotten": 86,
    "each thread's stream is taken for one": 204,
    "machine code waits for nothing": 89,
    "machine code waits for the writer alone": 102,
    "machine code takes a tensor's library to work in the default stream": 101,
    "machine code takes arrays that were shown": 147,
}
"""The seed that found a fault when it was written down: the search begins there, else at 80."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    first = FOUND_BY.get(name, 80)
    often = 10  # threads and collections of garbage are not the same each time
    with fault(name):
        assert any(verdict(seed) is not None for seed in (*[first] * often, *range(first + 1, first + 400)))
