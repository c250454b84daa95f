"""Random programs that bind names anew: what the dialect makes of them is what Python does, line by line."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.script.rebind_programs import SIZE, Programs, run_as_python
from tirlower.diagnostics import ScriptError
from tirlower.script import parse

_REFUSALS = ("may have no value", "is read before it is assigned", "is not defined here")


def compare(seed: int, native: bool) -> str:
    """Run one program everywhere; "equal", or "refused" where the dialect finds a read without a value."""
    text = Programs(seed).text()
    a = np.random.default_rng(seed).integers(-4, 9, SIZE, dtype=np.int32)
    try:
        func = parse(text)
    except ScriptError as err:
        message = str(err)
        assert any(part in message for part in _REFUSALS), f"seed {seed}\n{text}\n{err}"
        return "refused"
    kernel = tl.build(func) if native else None
    again = parse(func.script())
    assert again.script() == func.script()
    for n in range(4):
        want, got = np.full(SIZE, 7, np.int32), np.full(SIZE, 7, np.int32)
        # Where the dialect finds a value on every path, Python finds one too: no UnboundLocalError here.
        run_as_python(text, a.copy(), want, n)
        tl.interpret(func, a.copy(), got, n)
        np.testing.assert_array_equal(got, want, f"interpreted, seed {seed}, n = {n}\n{text}\n{func.script()}")
        if kernel is not None:
            got = np.full(SIZE, 7, np.int32)
            kernel(a.copy(), got, n)
            np.testing.assert_array_equal(got, want, f"native, seed {seed}, n = {n}\n{text}\n{func.script()}")
    return "equal"


def test_interpreted():
    found = [compare(seed, native=False) for seed in range(200)]
    assert found.count("equal") > 150


def test_native():
    found = [compare(seed, native=True) for seed in range(1000, 1020)]
    assert found.count("equal") > 14


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(20))
def test_many(part: int):
    for seed in range(10_000 + 1000 * part, 10_000 + 1000 * (part + 1)):
        compare(seed, native=seed % 10 == 0)
