"""Loops on one thread and on several: in a row, after pauses, and beside a process that keeps a CPU busy.

Threads may not lose: a worker that the system wakes late, or on the launcher's CPU, or that another process keeps from
running must cost a region little more than its serial time.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.measure import Timing, human
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["report"]

Call = Callable[[], object]
#: Seconds of sleep before each call that follows a pause.
PAUSE = 0.01


def gelu(n: int) -> PrimFunc:
    """``Y = X * (1 + erf(X / sqrt(2))) / 2``."""

    @T.prim_func
    def gelu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in T.parallel(n // 1024):
            for j in T.vectorized(1024):
                Y[i * 1024 + j] = X[i * 1024 + j] * 0.5 * (1.0 + T.erf(X[i * 1024 + j] * 0.70710678))

    return gelu


def conv2d(channels: int, size: int) -> PrimFunc:
    """A convolution of 3 by 3, an output channel a task."""

    @T.prim_func
    def conv2d(
        X: T.Buffer((channels, size + 2, size + 2), "float32"),
        W: T.Buffer((channels, channels, 3, 3), "float32"),
        Y: T.Buffer((channels, size, size), "float32"),
    ):
        for k in T.parallel(channels):
            for y, x in T.grid(size, size):
                Y[k, y, x] = 0.0
            for c, r, s, y, x in T.grid(channels, 3, 3, size, size):
                Y[k, y, x] += W[k, c, r, s] * X[c, y + r, x + s]

    return conv2d


def _cases() -> dict[str, tuple[PrimFunc, list[np.ndarray[Any, Any]]]]:
    rng = np.random.default_rng(0)

    def some(*shape: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal(shape, dtype=np.float32)

    return {
        "GELU of 1M": (gelu(1 << 20), [some(1 << 20), np.empty(1 << 20, np.float32)]),
        "conv2d 32 x 32, 3 x 3, 56 x 56": (
            conv2d(32, 56),
            [some(32, 58, 58), some(32, 32, 3, 3), np.empty((32, 56, 56), np.float32)],
        ),
    }


def _numba(title: str, arrays: list[np.ndarray[Any, Any]]) -> Call | None:
    nb = peers.numba()
    if nb is None or not title.startswith("conv2d"):
        return None

    @nb.njit(fastmath=True, parallel=True)
    def conv(x, w, y):
        for k in nb.prange(y.shape[0]):
            y[k] = np.float32(0)
            for c in range(x.shape[0]):
                for r in range(3):
                    for s in range(3):
                        for i in range(y.shape[1]):
                            for j in range(y.shape[2]):
                                y[k, i, j] += w[k, c, r, s] * x[c, i + r, j + s]

    return lambda: conv(*arrays)


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """A process that computes as long as the ``with`` lasts."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            time.sleep(0.3)
            yield
        finally:
            process.kill()


def measure(candidates: dict[str, Call], pause: float, rounds: int) -> dict[str, Timing]:
    """Each candidate's calls in turn: one behind each pause, or twenty in a row."""
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds):
        for name, call in list(candidates.items())[:: 1 if turn % 2 else -1]:
            time.sleep(max(pause, PAUSE))
            count = 1 if pause else 20
            start = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - start) / count)
    return {name: Timing(tuple(found)) for name, found in times.items()}


def report(rounds: int = 101) -> str:
    """Milliseconds of one call on one thread, the others' as multiples of it: medians, and the ninth decile in brackets."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    lines = [f"one thread and {threads}: time, and what it is of one thread's (median; 90th percentile)"]
    for title, (func, arrays) in _cases().items():
        kernels = {n: tl.build(func, tl.Target("llvm", num_threads=n), schedule="none") for n in (1, threads)}
        candidates: dict[str, Call] = {
            f"{n} thread{'s' * (n > 1)}": lambda kernel=kernel, arrays=arrays: kernel(*arrays)
            for n, kernel in kernels.items()
        }
        numba = _numba(title, arrays)
        if numba is not None:
            candidates["Numba"] = numba
        for call in candidates.values():
            call()
        for busy in (False, True):
            with busy_process() if busy else contextlib.nullcontext():
                for pause in (0.0, PAUSE):
                    how = f"after {1000 * pause:g} ms" if pause else "in a row"
                    lines.append(f"{title}, {how}{', beside a busy process' * busy}")
                    found = measure(candidates, pause, rounds)
                    one = found["1 thread"].rounds
                    for name, timing in found.items():
                        of = sorted(a / b for a, b in zip(timing.rounds, one, strict=True))
                        share = timing.median / found["1 thread"].median
                        lines.append(
                            f"  {name:<12} {human(timing.median):>9}  {share:5.2f}  ({of[9 * len(of) // 10]:.2f})"
                        )
    return "\n".join(lines)
