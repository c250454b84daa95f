"""The kernels and their peers under pytest-benchmark: ``pytest bench/bench_kernels.py --benchmark-enable``."""

from __future__ import annotations

import functools

import pytest

from bench import kernels

LABELS = ("elementwise", "softmax", "layer norm", "jacobi", "sum")
PEERS = ("tirlower", "numba", "numpy")


@functools.cache
def rows(threads: int):
    return kernels.rows(threads, side=1024)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("peer", PEERS)
def test_kernel(benchmark, threads, label, peer):
    name, entry = next((n, e) for n, e in rows(threads).items() if n.startswith(label))
    if peer not in entry:
        pytest.skip(f"{peer} has no {label}, or is not installed")
    benchmark.group = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
    benchmark(entry[peer])


@pytest.mark.parametrize("side", [512, 1024])
@pytest.mark.parametrize("peer", ["tirlower", "numpy", "torch"])
def test_matmul(benchmark, side, peer):
    entry = kernels.matmul_rows()[f"matmul {side}^3"]
    if peer not in entry:
        pytest.skip(f"{peer} is not installed")
    benchmark.group = f"matmul {side}^3, one thread"
    benchmark(entry[peer])
