"""Graphs beside their peers: products of matrices through the OpenBLAS backend, and NumPy's own.

``python -m bench.graph_products`` prints a line for each product: the least of many interleaved runs, one thread each. The two
libraries are builds of their own; both are told to use one thread before they are loaded.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
from collections.abc import Callable

import numpy as np

import tirlower.graph as tg

SIZES = [(128, 768, 768), (128, 768, 3072), (128, 3072, 768), (512, 512, 512), (1024, 1024, 1024)]


def least(runs: int, *several: Callable[[], object]) -> list[float]:
    """The least time of each of several functions, run in turn."""
    best = [float("inf")] * len(several)
    for _ in range(runs):
        for n, function in enumerate(several):
            start = time.perf_counter()
            function()
            best[n] = min(best[n], time.perf_counter() - start)
    return best


def products() -> None:
    """A line for each product: GFLOP/s here and there, and the ratio of the times."""
    rng = np.random.default_rng(0)
    print(f"{'product':<18}{'openblas backend':>18}{'numpy':>12}{'time / numpy':>14}")
    for m, k, n in SIZES:
        a, b = rng.standard_normal((m, k), dtype="float32"), rng.standard_normal((k, n), dtype="float32")
        c, d = np.empty((m, n), "float32"), np.empty((m, n), "float32")
        g = tg.trace(lambda x, y: x @ y, tg.spec(a.shape, "float32"), tg.spec(b.shape, "float32"))
        exe = tg.compile(g, backends=["openblas"])

        def ours(exe: tg.Executable = exe, a: np.ndarray = a, b: np.ndarray = b, c: np.ndarray = c) -> None:
            exe(a, b, out=c)

        def theirs(a: np.ndarray = a, b: np.ndarray = b, d: np.ndarray = d) -> None:
            np.matmul(a, b, out=d)

        mine, other = least(max(30, int(3e9 / (m * n * k))), ours, theirs)
        np.testing.assert_allclose(c, d, rtol=1e-3, atol=1e-3)
        flops = 2e-9 * m * n * k
        print(f"{f'{m}x{k}x{n}':<18}{flops / mine:>13.0f} GF/s{flops / other:>7.0f} GF/s{mine / other:>14.3f}")


if __name__ == "__main__":
    products()
