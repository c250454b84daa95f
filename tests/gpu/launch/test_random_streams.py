from __future__ import annotations

import pytest

from tests.gpu.launch.random_streams import FAULTS, fault, verdict

PROGRAMS = 15


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 4))])
def test_random_programs(part: int) -> None:
    said = {seed: verdict(seed) for seed in range(part * PROGRAMS, (part + 1) * PROGRAMS)}
    assert not {seed: text for seed, text in said.items() if text is not None}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    with fault(name):
        assert any(verdict(seed) is not None for seed in range(80, 480))  # one is found by none of the first 86
