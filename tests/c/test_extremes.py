"""At the ends of the types C text computes what Python does, and nothing in it is undefined."""

from __future__ import annotations

import functools
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.c import extremes
from tests.c.batch import needs_compiler
from tirlower.c.compile import compiler
from tirlower.diagnostics import DivisionByZeroError

pytestmark = needs_compiler


@functools.cache
def kernels():
    return extremes.compiled()


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


@pytest.mark.parametrize("dtype", extremes.WIDTHS)
def test_integers_wrap(dtype):
    info = np.iinfo(dtype)
    size, run = info.max - info.min + 1, kernels()[f"binary_{dtype}"]

    def wrap(value: int) -> int:
        return (value - info.min) % size + info.min

    for x, y in itertools.product(extremes.ends(dtype), repeat=2):
        out = np.zeros(15, dtype)
        run(x, y, out)
        inside = 0 <= y < info.bits
        left = x << y if inside else 0
        right = x >> y if inside else (-1 if x < 0 else 0)
        wanted = [
            x + y,
            x - y,
            x * y,
            min(x, y),
            max(x, y),
            x ^ y,
            left,
            right,
            abs(x),
            ~x,
            (x % (1 << info.bits)).bit_count(),
        ]
        if y:
            wanted += [x // y, x % y, truncated(x, y), x - y * truncated(x, y)]
        assert out.tolist()[: len(wanted)] == [wrap(value) for value in wanted], (x, y)


def test_a_division_by_zero_is_told_with_the_dividend():
    with pytest.raises(DivisionByZeroError, match="5 divided by 0"):
        kernels()["divide"](5, 0)
    assert kernels()["divide"](-(1 << 31), -1) == -(1 << 31) and kernels()["divide"](-7, 2) == -4


@pytest.mark.parametrize("x", [0.0, -0.9, 1.9, -1.9, 300.0, 1e10, -1e10, 1e19, 1e300, -1e300, np.inf, -np.inf, np.nan])
def test_floats_become_integers_in_range(x):
    truth, out = np.zeros(1, bool), [np.zeros(1, dtype) for dtype in extremes.WIDTHS]
    kernels()["casts"](x, truth, *out)
    assert truth[0] == (x != 0)
    for dtype, got in zip(extremes.WIDTHS, out, strict=True):
        info = np.iinfo(dtype)
        wanted = 0 if np.isnan(x) else min(max(int(x) if np.isfinite(x) else int(np.sign(x)) << 99, info.min), info.max)
        assert int(got[0]) == wanted, dtype


def test_signs_of_zero_and_nans():
    out = np.zeros(6, "float32")
    kernels()["floats"](np.nan, 2.0, out)
    assert out[0] == out[1] == 2.0 and np.isnan(out[2:]).all()
    kernels()["floats"](-0.0, 1.0, out)
    assert np.signbit(out[4]) and out[5] == 0.0 and not np.signbit(out[5])
    kernels()["floats"](-7.5, 2.0, out)
    assert out.tolist() == [-7.5, 2.0, -4.0, 0.5, -3.75, 7.5]
    with np.errstate(all="ignore"):
        kernels()["floats"](1.0, 0.0, out)
    assert out[4] == np.inf


def test_memory_seen_as_two_types():
    memory, out = np.arange(4, dtype="int32"), np.zeros(4, "float32")
    wanted = memory.copy()
    for i in range(4):
        wanted.view("float32")[i] += np.float32(1)
        wanted[i] += 1
    kernels()["views"](memory, out)
    assert (memory == wanted).all() and (out == wanted.view("float32")).all()


@pytest.mark.parametrize("n", [0, 1, 5, 5000])
def test_heap_memory_and_sizes_of_nothing(n):
    values, total = np.full(n, 2, "int64"), np.zeros(1, "int64")
    kernels()["sums"](n, values, total)
    assert total[0] == 2 * n
    if n > 3:
        values[3] = 7  # leaves the loop, with memory to be freed
        kernels()["sums"](n, values, total)
        assert total[0] == 13


def test_the_sanitizers_find_nothing():
    # The sanitizer looks for C++'s exceptions when it is loaded, and ends the process at isl's where it finds none.
    libraries = []
    for name in ("libasan.so", "libstdc++.so.6"):
        asked = [compiler()[0], f"-print-file-name={name}"]
        libraries.append(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    if not all(map(os.path.isabs, libraries)):
        pytest.skip("the compiler has no library of AddressSanitizer that could be loaded first")
    environment = {**os.environ, "LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": "detect_leaks=0"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.c.extremes"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "calls" in done.stdout, done.stdout + done.stderr[-3000:]
