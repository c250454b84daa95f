"""What the machine can do at most, measured by kernels of our own that do nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import tirlower as tl
from bench.by_hand.machine import Machine
from bench.measure import Candidate
from bench.memory import copy
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["LIMITS", "PAIRS", "Limit"]

PAIRS = {256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}
"""Sums of pairs of 16-bit products, by the bits of a vector."""

_STEPS = 1 << 16
_BYTES = 128 << 20
"""Far beyond the caches."""


@dataclass(frozen=True)
class Limit:
    """A call that does ``work`` operations, or moves so many bytes, at the machine's best."""

    unit: str
    work: float
    call: Candidate


def multiply_adds(lanes: int, chains: int, workers: int) -> PrimFunc:
    """As many chains of ``x = x * a + b`` as hide the time of one, in registers."""

    @T.prim_func
    def multiply_adds(X: T.Buffer((2, lanes), "float32"), Y: T.Buffer((workers, chains, lanes), "float32")):
        T.func_attr({"tir.noalias": True})
        for w in T.parallel(workers):
            tile = T.alloc_buffer((chains, lanes), "float32", scope="local")
            for c in T.unroll(chains):
                for l in T.vectorized(lanes):
                    tile[c, l] = T.Cast("float32", c)
            for _ in range(_STEPS):
                for c in T.unroll(chains):
                    for l in T.vectorized(lanes):
                        tile[c, l] = tile[c, l] * X[0, l] + X[1, l]
            for c in T.unroll(chains):
                for l in T.vectorized(lanes):
                    Y[w, c, l] = tile[c, l]

    return multiply_adds


def pair_products(lanes: int, chains: int, workers: int) -> PrimFunc:
    """As many chains of ``x = pairs(x, a) + b``, the sums of pairs of 16-bit products."""
    intrinsic, halves, sums = PAIRS[32 * lanes], f"int16x{2 * lanes}", f"int32x{lanes}"

    @T.prim_func
    def pair_products(X: T.Buffer((2, lanes), "int32"), Y: T.Buffer((workers, chains, lanes), "int32")):
        T.func_attr({"tir.noalias": True})
        for w in T.parallel(workers):
            tile = T.alloc_buffer((chains, lanes), "int32", scope="local")
            for c in T.unroll(chains):
                tile[c, 0:lanes] = T.Broadcast(c, lanes)
            for _ in range(_STEPS):
                for c in T.unroll(chains):
                    tile[c, 0:lanes] = X[1, 0:lanes] + T.call_llvm_pure_intrin(
                        sums, intrinsic, T.reinterpret(halves, tile[c, 0:lanes]), T.reinterpret(halves, X[0, 0:lanes])
                    )
            for c in T.unroll(chains):
                for l in T.vectorized(lanes):
                    Y[w, c, l] = tile[c, l]

    return pair_products


def reads(n: int, lanes: int, workers: int) -> PrimFunc:
    """An array added up: each worker's piece in four streams, which processors fetch faster than one."""
    streams, vectors = 4, 2
    step, piece = lanes * vectors, n // workers // streams

    @T.prim_func
    def reads(X: T.Buffer((n,), "float32"), Y: T.Buffer((workers, lanes), "float32")):
        T.func_attr({"tir.noalias": True})
        for w in T.parallel(workers):
            sums = T.alloc_buffer((streams, vectors, lanes), "float32", scope="local")
            for s, v in T.grid(streams, vectors):
                for l in T.vectorized(lanes):
                    sums[s, v, l] = T.float32(0)
            for i in range(piece // step):
                for s in T.unroll(streams):
                    for v in T.unroll(vectors):
                        for l in T.vectorized(lanes):
                            sums[s, v, l] += X[(w * streams + s) * piece + i * step + v * lanes + l]
            for l in T.vectorized(lanes):
                Y[w, l] = T.float32(0)
            for s, v in T.grid(streams, vectors):
                for l in T.vectorized(lanes):
                    Y[w, l] += sums[s, v, l]

    return reads


def parallel_copy(n: int, past: bool, workers: int) -> PrimFunc:
    """``Y = X``, a piece a worker."""
    if workers == 1:
        return copy(n, past)

    @T.prim_func
    def copy_pieces(X: T.Buffer((n,), "float32", align=64), Y: T.Buffer((n,), "float32", align=64)):
        T.func_attr({"tir.noalias": True})
        for w in T.parallel(workers, annotations={"tir.nontemporal": past}):
            for i in range(n // workers):
                Y[w * (n // workers) + i] = X[w * (n // workers) + i]

    return copy_pieces


def sums_past(n: int, workers: int) -> PrimFunc:
    """``Z = X + Y``, a piece a worker: two arrays are read for each that is written."""

    @T.prim_func
    def sums_past(
        X: T.Buffer((n,), "float32", align=64),
        Y: T.Buffer((n,), "float32", align=64),
        Z: T.Buffer((n,), "float32", align=64),
    ):
        T.func_attr({"tir.noalias": True})
        for w in T.parallel(workers, annotations={"tir.nontemporal": True}):
            for i in range(n // workers):
                Z[w * (n // workers) + i] = X[w * (n // workers) + i] + Y[w * (n // workers) + i]

    return sums_past


def _fma(machine: Machine, threads: int) -> Limit:
    chains, lanes = min(machine.registers - 4, 12), machine.lanes()
    kernel = tl.build(multiply_adds(lanes, chains, threads), f"llvm -num_threads={threads}", schedule="none")
    x, y = np.full((2, lanes), 0.5, np.float32), np.empty((threads, chains, lanes), np.float32)
    return Limit("GFLOP/s", 2.0 * threads * chains * lanes * _STEPS, lambda: kernel(x, y))


def _pairs(machine: Machine, threads: int) -> Limit:
    chains, lanes = min(machine.registers - 4, 12), machine.lanes()
    kernel = tl.build(pair_products(lanes, chains, threads), f"llvm -num_threads={threads}", schedule="none")
    x, y = np.full((2, lanes), 3, np.int32), np.empty((threads, chains, lanes), np.int32)
    return Limit("GOP/s", 4.0 * threads * chains * lanes * _STEPS, lambda: kernel(x, y))


def _read(machine: Machine, threads: int) -> Limit:
    lanes = machine.lanes()
    n = threads * 4 * (_BYTES // 16 // threads // (lanes * 2) + 33) * lanes * 2  # streams no power of two apart
    kernel = tl.build(reads(n, lanes, threads), f"llvm -num_threads={threads}", schedule="none")
    x, y = np.ones(n, np.float32), np.empty((threads, lanes), np.float32)
    return Limit("GB/s", x.nbytes, lambda: kernel(x, y))


def _copy(past: bool) -> Callable[[Machine, int], Limit]:
    def made(machine: Machine, threads: int) -> Limit:
        x, y = (tl.aligned_empty((_BYTES // 4,), "float32") for _ in "xy")
        x[:] = y[:] = 1
        kernel = tl.build(parallel_copy(x.size, past, threads), f"llvm -num_threads={threads}", schedule="none")
        return Limit("GB/s", 2.0 * _BYTES, lambda: kernel(x, y))

    return made


def _sums(machine: Machine, threads: int) -> Limit:
    x, y, z = (tl.aligned_empty((_BYTES // 4,), "float32") for _ in "xyz")
    x[:] = y[:] = z[:] = 1
    kernel = tl.build(sums_past(x.size, threads), f"llvm -num_threads={threads}", schedule="none")
    return Limit("GB/s", 3.0 * _BYTES, lambda: kernel(x, y, z))


LIMITS: dict[str, Callable[[Machine, int], Limit]] = {
    "float32 multiply-add": _fma,
    "16-bit multiply-add": _pairs,
    "read": _read,
    "copy": _copy(False),
    "copy past the caches": _copy(True),
    "sum past the caches": _sums,
}
"""By name: for a machine and a number of threads."""
