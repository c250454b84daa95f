"""Compile latency under pytest-benchmark: ``pytest bench/bench_compile.py --benchmark-enable``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from examples.matmul import naive
from examples.softmax import softmax

_fresh = itertools.count()


def cold(factory, *args):
    """A build that no cache holds: an attribute makes every program a new one."""
    func = factory(*args).with_attr("bench.serial", next(_fresh))
    return tl.build(func, schedule="none")


@pytest.mark.parametrize(("factory", "args"), [(naive, (64, 64, 64)), (softmax, (64, 64))], ids=["matmul", "softmax"])
def test_cold(benchmark, factory, args):
    benchmark.group = "script to kernel, nothing cached"
    benchmark(cold, factory, *args)


def test_from_the_disk_cache(benchmark):
    benchmark.group = "script to first result, from the disk cache"
    a, b, c = (np.ones((64, 64), np.float32) for _ in range(3))
    tl.build(naive(64, 64, 64), schedule="none")
    benchmark(lambda: tl.build(naive(64, 64, 64), schedule="none")(a, b, c))
