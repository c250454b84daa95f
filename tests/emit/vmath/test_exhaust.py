"""The run over every float32, on some of them: that it sees errors and falls, and ends as it should."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emit.vmath import exhaust
from tests.emit.vmath.measure import runnable
from tirlower.emit import vmath

pytestmark = pytest.mark.skipif(not runnable("sse2"), reason="code for x86")


def test_a_fall_is_seen():
    found = exhaust.Found()
    x = np.array([1, 2, 3, 4], np.float32)
    found.rise(x, np.array([0, 2, 1, 1], np.float32))
    assert (found.falls, found.fell_at) == (1, 3.0)


def test_the_largest_error_is_seen():
    found = exhaust.Found()
    x = np.array([1, 2, 3], np.float32)
    found.see(x, np.array([1, 2 + 2**-21, 3], np.float32), np.array([1.0, 2.0, 3.0]))
    assert (found.error, found.at) == (2.0, 2.0)
    found.see(x, np.array([1, 2, np.nan], np.float32), np.array([1.0, 2.0, 3.0]))
    assert (found.error, found.at) == (np.inf, 3.0)


def test_blocks_have_every_float_and_their_joints():
    starts, stops = zip(*exhaust.blocks(), strict=True)
    assert starts[0] == 0 and stops[-1] == 1 << 32 and starts[1:] == stops[:-1]


@pytest.mark.parametrize("name", exhaust.UNARY)
def test_some_blocks_of_each_function(name):
    for target, found in exhaust.sweep(name, ["sse2"], every=8191).items():
        assert found.error <= vmath.ERRORS[name], (target, found)
        assert not found.falls


@pytest.mark.skipif(not runnable("avx2"), reason="code with FMA")
def test_sums_of_a_gpu_stand_for_its_results(monkeypatch):
    monkeypatch.setattr(exhaust, "SUMS_BLOCK", exhaust.BLOCK)
    loop = exhaust.Loop("tanh", "f32", 8, "avx2", False)
    told = []
    for start in (1 << 31, (1 << 31) + exhaust.BLOCK):
        x = np.arange(start, start + exhaust.BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
        told.append(exhaust.sums(loop(x), 0))
    found = exhaust.compared("tanh", told, ["avx2", "sse2"])
    assert found["avx2"].error == 0 and found["sse2"].error <= vmath.ERRORS["tanh"]
    told[1] = told[1][0], told[1][1] + 2
    assert exhaust.compared("tanh", told, ["avx2"])["avx2"].error == np.inf


def test_the_command_says_what_it_finds(capsys, monkeypatch):
    assert exhaust.main(["exp", "--target", "sse2", "--every", "8191"]) == 0
    assert "exp     sse2" in capsys.readouterr().out
    monkeypatch.setitem(vmath.ERRORS, "exp", 0.5)
    assert exhaust.main(["exp", "--target", "sse2", "--every", "8191"]) == 1
    assert "FAILED" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        exhaust.main(["expp"])
