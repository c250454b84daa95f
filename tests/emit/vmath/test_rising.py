"""float32 functions that never fall: tanh, erf and expm1, and where they reach 1."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.emit.vmath.measure import LANES, TARGETS

pytestmark = pytest.mark.by_day

#: where a formula or a power of two gives way to the next
SEAMS = {
    "tanh": [0.55, *((i + 0.5) * math.log(2) / 2 for i in range(1, 26))],
    "expm1": [(i + 0.5) * math.log(2) for i in range(-26, 26)],
    "erf": [1.0, *np.arange(1.0625, 4.0, 0.125)],
}
#: where the exact values come to round to 1 (atanh(1 - 2**-25), and so on)
ENDS = {"tanh": 9.010913339828708, "erf": 3.919205843636722}


def neighbours(at: float, count: int) -> np.ndarray:
    """So many float32 in rising order around a number."""
    middle = int(np.float32(abs(at)).view(np.uint32))
    x = np.arange(middle - count // 2, middle + count // 2, dtype=np.uint32).view(np.float32)
    return x if at > 0 else -x[::-1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SEAMS)
def test_never_falls(loop, name, target):
    f = loop(name, "f32", LANES[target], target)
    spread = np.geomspace(0.01, 18.0, 60)
    for at in [*SEAMS[name], *spread, *-spread]:
        x = neighbours(at, 1 << 12)
        y = f(x)
        falls = np.flatnonzero(y[1:] < y[:-1])
        assert not falls.size, f"{falls.size} falls, at {x[1:][falls[0]]!r}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ENDS)
def test_reaches_its_end_once(loop, name, target):
    x = neighbours(ENDS[name], 1 << 16)
    y = loop(name, "f32", LANES[target], target)(x)
    first = int(np.argmax(y == 1.0))
    assert abs(first - y.size // 2) < 1 << 12
    assert (y[first:] == 1.0).all()
