"""Profiles of compiled graphs: every kernel is there, and times are those of its calls."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.run.costs import Cost
from tirlower.graph.run.profile import GraphProfile, ProfiledKernel


def test_each_kernel_of_a_call_is_in_the_profile() -> None:
    n = tg.dim("N", 1, 500)
    exe = tg.compile(tg.trace(lambda x: np.exp(np.exp(x @ x)).sum(axis=1), tg.spec((n, n), "float32")))
    x = np.zeros((300, 300), "float32")
    profile = exe.profile(x, rounds=3)
    assert {one.name: one.calls for one in profile.kernels} == {"matmul_NxN": 1, "exp_NxN": 2, "sum_N": 1}
    assert [one.seconds for one in profile.kernels] == sorted((one.seconds for one in profile.kernels), reverse=True)
    product = next(one for one in profile.kernels if one.name.startswith("matmul"))
    assert product.cost.flops == 2 * 300**3 and 0.01 < product.gflops < 10_000 and profile.seconds < 10
    assert "matmul_NxN" in str(profile) and "medians of 3 calls" in str(profile)


def test_inputs_are_checked_and_may_be_named() -> None:
    exe = tg.compile(tg.trace(lambda x, y: x - y, tg.spec((3,), "float32"), tg.spec((3,), "float32")))
    ones = np.ones(3, "float32")
    assert len(exe.profile(y=ones, x=ones).kernels) == 1
    with pytest.raises(tl.ArgumentTypeError, match="no input 'z'"):
        exe.profile(ones, z=ones)
    with pytest.raises(tl.ArgumentError):
        exe.profile(ones, np.ones(4, "float32"))
    with pytest.raises(tl.ArgumentValueError, match="rounds= is at least 1"):
        exe.profile(ones, ones, rounds=0)


def test_rates() -> None:
    one = ProfiledKernel("k", 2, 0.5, Cost(1e9, 3_000_000_000, 1_000_000_000, 0), ("a.py:1",))
    assert (one.gflops, one.gigabytes) == (4.0, 16.0)
    never = ProfiledKernel("k", 0, 0.0, Cost(0, 0, 0, 0), ())
    assert (never.gflops, never.gigabytes) == (0.0, 0.0)
    assert "100.0%" in str(GraphProfile("g", (one,), 1)) and str(GraphProfile("g", (), 1)).startswith("g: 0 ms")
