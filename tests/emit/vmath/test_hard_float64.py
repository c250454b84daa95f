"""The run over hard float64 arguments, on a few: within bounds, and what is beyond is told."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emit.vmath import hard_float64
from tests.emit.vmath.test_float64 import EXTENDED
from tirlower.emit import vmath

pytestmark = pytest.mark.skipif(not EXTENDED, reason="long double is no wider than double here")


@pytest.mark.parametrize("name", hard_float64.NAMES)
def test_a_few_hard_arguments(name, monkeypatch):
    monkeypatch.setattr(hard_float64, "BLOCK", 3000)
    for target, (error, at) in hard_float64.sweep(name, ["host"], 3000, False).items():
        assert error <= vmath.ERRORS_F64[name], (target, at)


def test_arguments_are_hard_and_the_same_for_a_seed():
    (x,) = hard_float64.arguments("sin", 1, 60_000)
    assert np.array_equal(x, hard_float64.arguments("sin", 1, 60_000)[0], equal_nan=True)
    x = x[np.isfinite(x)]
    assert x.size > 59_000 and (abs(x) < 1e-300).any() and (abs(x) > 1e300).any()
    # Some lie next to multiples of pi, as near as a number of float64 does.
    x = x[(abs(x) > 1) & (abs(x) < 2.0**50)]
    assert (abs(np.sin(x)) < np.spacing(abs(x))).sum() > 1000


def test_the_command_says_what_it_finds(capsys, monkeypatch):
    monkeypatch.setattr(hard_float64, "BLOCK", 3000)
    found = hard_float64._swept("exp", targets=["host"], count=3000, device=False)
    assert 0 < found["host"][0] < 1.05
    monkeypatch.setitem(vmath.ERRORS_F64, "exp", 0.5)
    assert hard_float64.sweep("exp", ["host"], 3000, False)["host"][0] > 0.5
    with pytest.raises(SystemExit):
        hard_float64.main(["expp"])
    assert "expp" in capsys.readouterr().err
