"""``python -m tirlower demo``: real kernels as plain loops, scheduled automatically, checked against NumPy, with their speed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, no_type_check

import numpy as np

import tirlower as tl
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["main", "time_call"]

Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"


def time_call(fn: Callable[[], object], budget: float = 0.3, least: int = 5) -> float:
    """The median seconds of a call, over as many calls as fit into the budget (at least ``least``)."""
    fn()
    times: list[float] = []
    end = time.perf_counter() + budget
    while len(times) < least or (time.perf_counter() < end and len(times) < 10_000):
        start = time.perf_counter()
        fn()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@dataclass(frozen=True)
class Case:
    """A kernel with arguments, the same thing in NumPy, and the tolerance between them."""

    name: str
    func: PrimFunc
    arguments: list[Floats]
    reference: Callable[[list[Floats]], object]
    rtol: float


@no_type_check  # the dialect, not Python
def _vector_add(n: int) -> PrimFunc:
    @T.prim_func
    def vector_add(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32")) -> None:
        for i in range(n):
            C[i] = A[i] + B[i]

    return vector_add


@no_type_check  # the dialect, not Python
def _matmul(n: int) -> PrimFunc:
    @T.prim_func
    def matmul(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32"), C: T.Buffer((n, n), "float32")) -> None:
        for i, j, k in T.grid(n, n, n):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    return matmul


@no_type_check  # the dialect, not Python
def _gelu(n: int) -> PrimFunc:
    @T.prim_func
    def gelu(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32")) -> None:
        for i in range(n):
            inner = T.float32(0.79788456) * (X[i] + T.float32(0.044715) * X[i] * X[i] * X[i])
            Y[i] = X[i] * T.float32(0.5) * (T.float32(1) + T.tanh(inner))

    return gelu


@no_type_check  # the dialect, not Python
def _row_sum(n: int) -> PrimFunc:
    @T.prim_func
    def row_sum(A: T.Buffer((n, n), "float32"), B: T.Buffer((n,), "float32")) -> None:
        for i, k in T.grid(n, n):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] += A[vi, vk]

    return row_sum


def cases(quick: bool) -> list[Case]:
    """The kernels of the demo, with random arguments."""
    rng = np.random.default_rng(0)
    n, side = (1 << 14, 256) if quick else (1 << 20, 512)

    def vector(size: int) -> Floats:
        return rng.standard_normal(size, dtype=np.float32)

    def matrix(size: int) -> Floats:
        return rng.standard_normal((size, size), dtype=np.float32)

    def numpy_gelu(given: list[Floats]) -> None:
        x, out = given
        out[...] = 0.5 * x * (1 + np.tanh(np.float32(0.79788456) * (x + np.float32(0.044715) * x * x * x)))

    return [
        Case("vector add", _vector_add(n), [vector(n), vector(n), np.empty(n, np.float32)],
             lambda given: np.add(given[0], given[1], out=given[2]), 0.0),
        Case("matmul", _matmul(side), [matrix(side), matrix(side), np.empty((side, side), np.float32)],
             lambda given: np.matmul(given[0], given[1], out=given[2]), 1e-3),
        Case("gelu", _gelu(n), [vector(n), np.empty(n, np.float32)], numpy_gelu, 1e-4),
        Case("row sum", _row_sum(side), [matrix(side), np.empty(side, np.float32)],
             lambda given: np.sum(given[0], axis=1, out=given[1]), 1e-3),
    ]  # fmt: skip


def main(quick: bool = False) -> None:
    """Compile, check and time each case; raises AssertionError when a result is wrong."""
    print(f"{'kernel':<12} {'compile':>10} {'tirlower':>12} {'numpy':>12} {'speedup':>8}")
    for case in cases(quick):
        start = time.perf_counter()
        kernel = tl.build(case.func, schedule="auto")
        compile_ms = (time.perf_counter() - start) * 1e3
        kernel(*case.arguments)
        result = case.arguments[-1].copy()
        case.reference(case.arguments)
        np.testing.assert_allclose(result, case.arguments[-1], rtol=case.rtol, atol=case.rtol)
        args, reference = case.arguments, case.reference
        ours = time_call(lambda kernel=kernel, args=args: kernel(*args))  # type: ignore[misc]
        theirs = time_call(lambda reference=reference, args=args: reference(args))  # type: ignore[misc]
        print(
            f"{case.name:<12} {compile_ms:>7.1f} ms {ours * 1e6:>9.1f} us {theirs * 1e6:>9.1f} us {theirs / ours:>7.2f}x"
        )
    print("every result equals NumPy's")
