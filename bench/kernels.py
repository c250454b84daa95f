"""The example kernels against NumPy, Numba (fastmath; parallel with two threads) and PyTorch, on the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

import tirlower as tl
from bench import peers
from bench.measure import SETTLED, Candidate, Timing, interleave
from examples.jacobi import jacobi
from examples.layer_norm import layer_norm
from examples.matmul import tiled
from examples.softmax import softmax
from tirlower.ir import PrimFunc
from tirlower.script import tir as T


def elementwise(n: int, kind: str = "serial") -> PrimFunc:
    """``Y = X * 2 + Z``, in rows of 4096 elements.

    Eight lanes: NumPy's large arrays start 16 bytes behind a cache line, so that every access of sixteen would cross
    one, which costs 8 percent where memory is all that counts.
    """
    rows_loop = T.parallel if kind == "parallel" else T.serial

    @T.prim_func
    def axpz(X: T.Buffer((n,), "float32"), Z: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in rows_loop(n // 4096):
            for j in T.serial(4096, annotations={"tir.llvm_vector_width": 8}):
                Y[i * 4096 + j] = X[i * 4096 + j] * T.float32(2) + Z[i * 4096 + j]

    return axpz


def exp_kernel(n: int) -> PrimFunc:
    """``Y = exp(X)``, vectorized."""

    @T.prim_func
    def exp(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        for i in range(n // 16):
            for l in T.vectorized(16):
                Y[i * 16 + l] = T.exp(X[i * 16 + l])

    return exp


def total(n: int, kind: str = "serial") -> PrimFunc:
    """The sum of an array, in 64 lanes with partial sums of their own, and as many chunks where it is parallel."""
    rows_loop = T.parallel if kind == "parallel" else T.serial
    mark = {"tir.reduction": True} if kind == "parallel" else {}

    @T.prim_func
    def total(X: T.Buffer((n,), "float32"), S: T.Buffer((1,), "float32")):
        S[0] = T.float32(0)
        for i in rows_loop(n // 64, annotations=mark):
            for l in T.vectorized(64, annotations={"tir.reduction": True}):
                S[0] = S[0] + X[i * 64 + l]

    return total


def through_scratch(n: int) -> PrimFunc:
    """``Y = reversed(2 * X)``, through scratch memory as large as the array."""

    @T.prim_func
    def reverse(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")):
        S = T.alloc_buffer((n,), "float32")
        for i in range(n):
            S[i] = X[i] * T.float32(2)
        for i in range(n):
            Y[i] = S[n - 1 - i]

    return reverse


def _numba(parallel: bool) -> dict[str, Any]:
    nb = peers.numba()
    if nb is None:
        return {}
    rows = nb.prange if parallel else range
    jit = nb.njit(fastmath=True, parallel=parallel)

    @jit
    def axpz(x, z, y):
        for i in rows(x.shape[0]):
            y[i] = x[i] * np.float32(2) + z[i]

    @jit
    def soft(x, y):
        for i in rows(x.shape[0]):
            m = x[i, 0]
            for j in range(x.shape[1]):
                m = max(m, x[i, j])
            s = np.float32(0)
            for j in range(x.shape[1]):
                y[i, j] = np.exp(x[i, j] - m)
                s += y[i, j]
            for j in range(x.shape[1]):
                y[i, j] /= s

    @jit
    def norm(x, gamma, beta, y):
        n = np.float32(x.shape[1])
        for i in rows(x.shape[0]):
            mean = np.float32(0)
            for j in range(x.shape[1]):
                mean += x[i, j]
            mean /= n
            var = np.float32(0)
            for j in range(x.shape[1]):
                var += (x[i, j] - mean) * (x[i, j] - mean)
            scale = np.float32(1) / np.sqrt(var / n + np.float32(1e-5))
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - mean) * scale * gamma[j] + beta[j]

    @jit
    def step(a, b):
        n = a.shape[0]
        for j in range(n):
            b[0, j] = a[0, j]
            b[n - 1, j] = a[n - 1, j]
        for i in rows(1, n - 1):
            b[i, 0] = a[i, 0]
            b[i, n - 1] = a[i, n - 1]
            for j in range(1, n - 1):
                b[i, j] = np.float32(0.25) * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])

    @jit
    def total(x, s):
        found = np.float32(0)
        for i in rows(x.shape[0]):
            found += x[i]
        s[0] = found

    return {"axpz": axpz, "softmax": soft, "layer_norm": norm, "jacobi": step, "total": total}


def _check(name: str, ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=1e-4, err_msg=name)


def rows(threads: int, side: int = 2048) -> dict[str, dict[str, Candidate]]:
    """Candidates by kernel, on one thread or several; every candidate's result is compared with ours first."""
    rng = np.random.default_rng(0)
    kind = "serial" if threads == 1 else "parallel"
    target = tl.Target("llvm", num_threads=threads)
    numba = _numba(parallel=threads > 1)
    if numba:
        import numba as nb

        nb.set_num_threads(threads)
    x = rng.standard_normal((side, side), dtype=np.float32)
    gamma, beta = rng.random(side, dtype=np.float32), rng.random(side, dtype=np.float32)
    n = side * side
    flat, other = x.reshape(-1), rng.random(n, dtype=np.float32)
    found: dict[str, dict[str, Candidate]] = {}

    def add(label: str, func: PrimFunc, inputs: list[Any], shape: tuple[int, ...], peer: Any, **more: Any) -> None:
        kernel = tl.build(func, target, schedule="none")
        ours, theirs = np.empty(shape, np.float32), np.empty(shape, np.float32)
        kernel(*inputs, ours)
        entry: dict[str, Candidate] = {"tirlower": lambda: kernel(*inputs, ours)}
        if peer is not None:
            peer(*inputs, theirs)
            _check(label, ours, theirs)
            # Timed on the same array: where its pages lie in the caches makes more difference than the code.
            entry["numba"] = lambda: peer(*inputs, ours)
        for name, fn in more.items():
            fn(*inputs, theirs)
            _check(label, ours, theirs)
            entry[name] = lambda fn=fn: fn(*inputs, ours)
        found[label] = entry

    def numpy_axpz(x: Any, z: Any, out: Any) -> None:
        np.multiply(x, np.float32(2), out=out)
        np.add(out, z, out=out)

    add(f"elementwise {n >> 20}M", elementwise(n, kind), [flat, other], (n,), numba.get("axpz"), numpy=numpy_axpz)
    add(f"softmax {side}^2", softmax(side, side, kind=kind), [x], x.shape, numba.get("softmax"))
    add(f"layer norm {side}^2", layer_norm(side, side, kind=kind), [x, gamma, beta], x.shape, numba.get("layer_norm"))
    add(f"jacobi {side}^2", jacobi(side, kind), [x], x.shape, numba.get("jacobi"))

    def numpy_sum(x: Any, out: Any) -> None:
        np.sum(x, out=out, keepdims=True)

    long = rng.random(1 << 24, dtype=np.float32)
    add("sum 16M", total(long.size, kind), [long], (1,), numba.get("total"), numpy=numpy_sum)
    return found


def matmul_rows() -> dict[str, dict[str, Candidate]]:
    """The hand-tiled matmul against NumPy's BLAS on one thread (set OPENBLAS_NUM_THREADS=1 before Python starts)."""
    rng = np.random.default_rng(0)
    found: dict[str, dict[str, Candidate]] = {}
    for side in (512, 1024):
        a, b = (rng.standard_normal((side, side), dtype=np.float32) for _ in range(2))
        ours = np.empty_like(a)
        kernel = tl.build(tiled(side, side, side), schedule="none")
        kernel(a, b, ours)
        np.testing.assert_allclose(ours, a @ b, rtol=1e-2, atol=1e-2)
        found[f"matmul {side}^3"] = {
            "tirlower": lambda kernel=kernel, a=a, b=b, ours=ours: kernel(a, b, ours),
            "numpy": lambda a=a, b=b, ours=ours: np.matmul(a, b, out=ours),
        }
        th = peers.torch()
        if th is not None:
            ta, tb, tc = (th.from_numpy(v) for v in (a, b, ours))
            found[f"matmul {side}^3"]["torch"] = lambda ta=ta, tb=tb, tc=tc, th=th: th.mm(ta, tb, out=tc)
    return found


def exp_rows() -> dict[str, dict[str, Candidate]]:
    """``exp`` of 16M float32 on one thread against NumPy."""
    n = 1 << 24
    x = np.random.default_rng(0).uniform(-10, 10, n).astype(np.float32)
    ours = np.empty_like(x)
    kernel = tl.build(exp_kernel(n), schedule="none")
    kernel(x, ours)
    np.testing.assert_allclose(ours, np.exp(x), rtol=1e-6)
    return {"exp 16M": {"tirlower": lambda: kernel(x, ours), "numpy": lambda: np.exp(x, out=ours)}}


def scratch_rows() -> dict[str, dict[str, Candidate]]:
    """A kernel whose scratch memory is too large for the C library to keep, against NumPy, whose temporary is as large."""
    x = np.random.default_rng(0).standard_normal(1 << 24, dtype=np.float32)
    ours = np.empty_like(x)
    kernel = tl.build(through_scratch(x.size), schedule="none")
    kernel(x, ours)
    np.testing.assert_array_equal(ours, (x * np.float32(2))[::-1])

    def numpy_reverse() -> None:
        ours[:] = (x * np.float32(2))[::-1]

    return {"64 MB of scratch": {"tirlower": lambda: kernel(x, ours), "numpy": numpy_reverse}}


def measure(threads: int) -> dict[str, dict[str, Timing]]:
    """All rows for a number of threads."""
    candidates = rows(threads)
    if threads == 1:
        candidates.update(matmul_rows())
        candidates.update(exp_rows())
        candidates.update(scratch_rows())
    return {
        label: interleave(entry, rounds=31, slice_seconds=0.03, pause=SETTLED if threads > 1 else 0.0)
        for label, entry in candidates.items()
    }
