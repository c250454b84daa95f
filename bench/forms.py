"""``python -m bench forms``: computations in the ways in which people write them, scheduled automatically, beside NumPy on one thread.

A product of matrices is written in many ways, as are sums down columns; what is predicted of one is not what is measured of
another. Sizes are numbers in one column, and come with the call in the other one. ``--only`` chooses by a part of a name.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tirlower as tl
from bench.measure import Call, human, interleave
from tirlower.script import parse

__all__ = ["FORMS", "Form", "report"]

SIZE = 320
ROUNDS = 7

PRODUCT = "A: M, K; B: K, N; C: M, N"
BY_ROWS = "A: M, K; B: N, K; C: M, N"
ROWS = "X: M, N; Y: M, N"


class Form(NamedTuple):
    """Arrays by name with their extents, the body, and what NumPy does: with the arrays in their order, the last one filled.

    Where an extent is a product, the array is flat, and the sizes are parameters of their own.
    """

    arrays: str
    body: str
    numpy: Callable[..., object]
    times: int = 1
    """How many times as large its sides are."""
    few: int = 0
    """How long the side ``F`` is."""

    @property
    def side(self) -> int:
        """How long each side of its arrays is."""
        return SIZE * self.times

    def size(self, dim: str) -> int:
        """How long a side is; of a flat array, how many elements it has."""
        return math.prod(self.few if name == "F" else self.side for name in dim.split(" * "))

    @property
    def shapes(self) -> list[list[str]]:
        """The extents of each array."""
        return [one.split(": ")[1].split(", ") for one in self.arrays.split("; ")]

    @property
    def sizes(self) -> list[str]:
        """The sizes that are parameters."""
        names = [name for shape in self.shapes for dim in shape if "*" in dim for name in dim.split(" * ")]
        return list(dict.fromkeys(names))

    def text(self, known: bool) -> str:
        """The program, of sizes that are numbers or come with the call."""
        body, params = self.body, [] if known else [f"{name}: T.int32" for name in self.sizes]
        for one, shape in zip(self.arrays.split("; "), self.shapes, strict=True):
            dims = ", ".join(
                re.sub(r"[FKLMN]", lambda found: str(self.size(found[0])), dim)
                if known
                else dim
                if self.sizes
                else repr(dim)
                for dim in shape
            )
            params.append(f"{one.split(': ')[0]}: T.Buffer(({dims},), 'float32')")
        if known:
            body = re.sub(r"\b[FKLMN]\b", lambda found: str(self.size(found[0])), body)
        return f"def f({', '.join(params)}):{body}"


def _product(a: Any, b: Any, c: Any) -> object:
    return np.matmul(a, b, out=c)


def _flat(a: Any, b: Any, c: Any) -> object:
    side = math.isqrt(a.size)
    return np.matmul(a.reshape(side, -1), b.reshape(side, -1), out=c.reshape(side, -1))


def _sum_down(x: Any, y: Any) -> object:
    return np.cumsum(x, axis=0, out=y)


def _distances(a: Any, b: Any, c: Any) -> object:
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * (a @ b.T)
    return np.sqrt(np.maximum(squares, 0, out=squares), out=c)


def _layer_norm(x: Any, y: Any) -> object:
    return np.divide(x - x.mean(1, keepdims=True), np.sqrt(x.var(1, keepdims=True) + np.float32(1e-5)), out=y)


def _filtered(size: int, pad: int) -> Callable[..., object]:
    """A filter of so many taps a side, by slices."""

    def run(x: Any, w: Any, y: Any) -> object:
        wide = np.pad(x, pad)
        rows, columns = (extent - size + 1 for extent in wide.shape)
        inside = y[:rows, :columns]
        inside[:] = 0
        for u in range(size):
            for v in range(size):
                inside += wide[u : u + rows, v : v + columns] * w[u, v]
        return y

    return run


FEW_COLUMNS = ("A: M, K; B: K, F; C: M, F", """
    for i, j in T.grid(M, F):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product)  # fmt: skip

FORMS: dict[str, Form] = {
    "product, sums in C": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product, sides three times as long": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product, 3),
    "product, 8 rows": Form("A: F, K; B: K, N; C: F, N", """
    for i, j in T.grid(F, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product, 3, few=8),
    "product, 32 rows": Form("A: F, K; B: K, N; C: F, N", """
    for i, j in T.grid(F, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product, 3, few=32),
    "product, 63 columns": Form(*FEW_COLUMNS, few=63),
    "product, 31 columns": Form(*FEW_COLUMNS, 3, few=31),
    "product, 15 columns": Form(*FEW_COLUMNS, 3, few=15),
    "product, flat arrays": Form("A: M * K; B: K * N; C: M * N", """
    for i, j in T.grid(M, N):
        C[i * N + j] = T.float32(0)
        for k in range(K):
            C[i * N + j] += A[i * K + k] * B[k * N + j]
""", _flat),
    "product, an accumulator": Form(PRODUCT, """
    for i in range(M):
        for j in range(N):
            acc = T.float32(0)
            for k in range(K):
                acc += A[i, k] * B[k, j]
            C[i, j] = acc
""", _product),
    "product, an accumulator of all": Form(PRODUCT, """
    acc = T.alloc_buffer((1,), "float32", scope="local")
    for i, j in T.grid(M, N):
        acc[0] = T.float32(0)
        for k in range(K):
            acc[0] += A[i, k] * B[k, j]
        C[i, j] = acc[0]
""", _product),
    "product, zeros first": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
    for i, j, k in T.grid(M, N, K):
        C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product, i k j": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
    for i, k, j in T.grid(M, K, N):
        C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product, row by row": Form(PRODUCT, """
    for i in range(M):
        for j in range(N):
            C[i, j] = T.float32(0)
        for k in range(K):
            for j in range(N):
                C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product, a block": Form(PRODUCT, """
    for i, j, k in T.grid(M, N, K):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
""", _product),
    "product, a block, one size": Form("A: N, N; B: N, N; C: N, N", """
    for i, j, k in T.grid(N, N, N):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
""", _product),
    "product, a loop in a block": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
            for k in range(K):
                C[vi, vj] += A[vi, k] * B[k, vj]
""", _product),
    "product, zeros by a block": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        with T.block("zero"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
    for i, j, k in T.grid(M, N, K):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] += A[vi, vk] * B[vk, vj]
""", _product),
    "product, zero where k is 0": Form(PRODUCT, """
    for i, j, k in T.grid(M, N, K):
        if k == 0:
            C[i, j] = T.float32(0)
        C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product, while": Form(PRODUCT, """
    i = 0
    while i < M:
        j = 0
        while j < N:
            total = T.float32(0)
            k = 0
            while k < K:
                total += A[i, k] * B[k, j]
                k += 1
            C[i, j] = total
            j += 1
        i += 1
""", _product),
    "product, rows of B of their own": Form("A: M, K; B: L, N; C: M, N", """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
""", _product),
    "product by a transpose": Form(BY_ROWS, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[j, k]
""", lambda a, b, c: np.matmul(a, b.T, out=c)),
    "product of a transpose": Form("A: K, M; B: K, N; C: M, N", """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[k, i] * B[k, j]
""", lambda a, b, c: np.matmul(a.T, b, out=c)),
    "product by itself transposed": Form("X: M, K; G: M, M", """
    for i, j in T.grid(M, M):
        s = T.float32(0)
        for q in range(K):
            s += X[i, q] * X[j, q]
        G[i, j] = s
""", lambda x, g: np.matmul(x, x.T, out=g)),
    "product, ReLU in its loop": Form(PRODUCT, """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
        C[i, j] = T.max(C[i, j], T.float32(0))
""", lambda a, b, c: np.maximum(np.matmul(a, b, out=c), 0, out=c)),
    "two products at once": Form("A: M, K; B: K, N; D: M, K; E: K, N; C: M, N", """
    for i, j in T.grid(M, N):
        s = T.float32(0)
        for k in range(K):
            s += A[i, k] * B[k, j] - D[i, k] * E[k, j]
        C[i, j] = s
""", lambda a, b, d, e, c: np.subtract(a @ b, d @ e, out=c)),
    "distances": Form(BY_ROWS, """
    for i, j in T.grid(M, N):
        s = T.float32(0)
        for q in range(K):
            d = A[i, q] - B[j, q]
            s += d * d
        C[i, j] = T.sqrt(s)
""", _distances),
    "transpose": Form("X: M, N; Y: N, M", """
    for i in range(M):
        for j in range(N):
            Y[j, i] = X[i, j]
""", lambda x, y: np.copyto(y, x.T)),
    "layer norm": Form(ROWS, """
    for i in range(M):
        s = T.float32(0)
        for j in range(N):
            s += X[i, j]
        mean = s / T.Cast("float32", N)
        v = T.float32(0)
        for j in range(N):
            d = X[i, j] - mean
            v += d * d
        inv = T.float32(1) / T.sqrt(v / T.Cast("float32", N) + T.float32(1e-5))
        for j in range(N):
            Y[i, j] = (X[i, j] - mean) * inv
""", _layer_norm),
    "filter of 7 by 7": Form("X: M, N; W: K, K; Y: M, N", """
    for i, j in T.grid(M - 6, N - 6):
        Y[i, j] = T.float32(0)
        for u, v in T.grid(7, 7):
            Y[i, j] += X[i + u, j + v] * W[u, v]
""", _filtered(7, 0)),
    "filter of 5 by 5, padded": Form("X: M, N; W: K, K; Y: M, N", """
    for i, j in T.grid(M, N):
        Y[i, j] = T.float32(0)
        for u, v in T.grid(5, 5):
            if 0 <= i + u - 2 and i + u - 2 < M and 0 <= j + v - 2 and j + v - 2 < N:
                Y[i, j] += X[i + u - 2, j + v - 2] * W[u, v]
""", _filtered(5, 2)),
    "sums down columns": Form("X: M, N; Y: N", """
    for j in range(N):
        s = T.float32(0)
        for i in range(M):
            s += X[i, j]
        Y[j] = s
""", lambda x, y: np.sum(x, axis=0, out=y)),
    "running sums down columns": Form(ROWS, """
    for j in range(N):
        s = T.float32(0)
        for i in range(M):
            s += X[i, j]
            Y[i, j] = s
""", _sum_down),
    "a vector by a matrix": Form("v: M; X: M, N; Y: N", """
    for j in range(N):
        s = T.float32(0)
        for i in range(M):
            s += v[i] * X[i, j]
        Y[j] = s
""", lambda v, x, y: np.matmul(v, x, out=y)),
}  # fmt: skip


def _arguments(form: Form) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [[*map(form.size, shape)] for shape in form.shapes]
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


def compared(form: Form, known: bool) -> dict[str, Call]:
    """The candidates. Raises AssertionError where they differ by more than the order of sums explains."""
    func, target = parse(form.text(known)), tl.Target("llvm", num_threads=1)
    kernels = {"auto": tl.build(func, target), "as written": tl.build(func, target, schedule="none")}
    sizes = [] if known else [*map(form.size, form.sizes)]
    calls = {name: Call(kernel, (*sizes, *_arguments(form))) for name, kernel in kernels.items()}
    calls["numpy"] = Call(form.numpy, tuple(_arguments(form)))
    for call in calls.values():
        call()
    for name in kernels:
        np.testing.assert_allclose(calls[name].args[-1], calls["numpy"].args[-1], rtol=1e-3, atol=2e-3)  # type: ignore[call-overload]
    return calls


def report(only: Sequence[str] = ()) -> str:
    """The table: times of auto and NumPy, and NumPy / auto and as written / auto, for both kinds of sizes."""
    lines = [
        f"{'sides of ' + str(SIZE):<34}{'auto':>10}{'numpy':>10}{'numpy/auto':>12}{'written/auto':>14}"
        f"{'any size':>12}{'numpy/auto':>12}{'written/auto':>14}"
    ]
    for name, form in FORMS.items():
        if only and not any(word in name for word in only):
            continue
        columns = ""
        for known in (True, False):
            timed = interleave(compared(form, known), rounds=ROUNDS, slice_seconds=0.005, clock=time.thread_time)
            auto = timed["auto"]
            columns += f"{human(auto.median):>{10 if known else 12}}"
            columns += f"{human(timed['numpy'].median):>10}" if known else ""
            columns += f"{timed['numpy'].ratio(auto):>11.2f}x{timed['as written'].ratio(auto):>13.2f}x"
        lines.append(f"{name:<34}{columns}")
    return "\n".join(lines)
