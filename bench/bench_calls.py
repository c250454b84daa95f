"""The call-overhead candidates under pytest-benchmark: ``pytest bench/bench_calls.py --benchmark-enable``."""

from __future__ import annotations

import pytest

from bench import calls

CANDIDATES = calls.candidates()


@pytest.mark.parametrize("name", CANDIDATES)
def test_call(benchmark, name):
    benchmark.group = "three float32 arrays of 16 elements"
    candidate = CANDIDATES[name]
    benchmark(getattr(candidate, "fn", candidate), *getattr(candidate, "args", ()))
