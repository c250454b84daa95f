"""What explicit vectors and annotated loops become, each beside the form that it is meant to beat."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable

import ml_dtypes
import numpy as np

import tirlower as tl
from bench.measure import Call, Candidate, interleave, table
from tirlower.ir import PrimFunc
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse


def _builder(text: str) -> Candidate:
    func = parse(text)
    return lambda: tl.build(func, "llvm -num_threads=1", schedule="none")


def heads(note: str = "") -> str:
    """Eight heads around loops that stay: LLVM would make eight copies of these, as ``note`` asks it to."""
    return f"""
@T.prim_func
def heads(A: T.Buffer((8, 512, 512), "float32"), B: T.Buffer((8, 512, 512), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for h in T.serial(8, annotations={{{note}}}):
        for i in range(512):
            s = T.float32(0)
            for j in range(512):
                s = s + T.exp(A[h, i, j])
            for j in range(512):
                B[h, i, j] = T.exp(A[h, i, j]) / s
"""


def nests() -> dict[str, Candidate]:
    """Builds of a nest as it stands, and with its outer loop unrolled."""
    return {"tirlower": _builder(heads()), "eight copies": _builder(heads('"pragma_unroll": 8'))}


def sums(count: int = 4096) -> dict[str, Candidate]:
    """The sum of an array that the first cache holds, by vectors of 8 lanes."""

    def made(note: str) -> tl.Kernel:
        kernel = tl.build(
            parse(f"""
@T.prim_func
def total(A: T.Buffer(({count},), "float32"), S: T.Buffer((1,), "float32")):
    for i in T.serial({count // 8}, annotations={{{note}}}):
        for l in T.vectorized(8, annotations={{"tir.reduction": True}}):
            S[0] = S[0] + A[i * 8 + l]
"""),
            "llvm -num_threads=1",
            schedule="none",
        )
        assert isinstance(kernel, tl.Kernel)
        return kernel

    array, out = np.random.default_rng(0).random(count, np.float32), np.zeros(1, np.float32)
    calls: dict[str, Candidate] = {"tirlower": Call(made(""), (array, out))}
    calls["one chain"] = Call(made('"tir.llvm_interleave": 1'), (array, out))
    calls["numpy"] = Call(np.sum, (array,))
    return calls


def bfloat16_dots(count: int = 4096) -> dict[str, Candidate]:
    """The dot product of two rows of bfloat16 in the first cache, where the processor has an instruction for it."""
    if not host_cpu().has("avx512bf16"):
        return {}

    def made(body: str) -> tl.Kernel:
        kernel = tl.build(
            parse(f"""
@T.prim_func
def dot(A: T.Buffer(({count},), "bfloat16"), B: T.Buffer(({count},), "bfloat16"), S: T.Buffer((64,), "float32")):
    for i in range({count // 128}):
        for c in T.unroll(4):
{textwrap.indent(body, " " * 12)}
"""),
            "llvm -num_threads=1",
            schedule="none",
        )
        assert isinstance(kernel, tl.Kernel)
        return kernel

    at = "i * 128 + c * 32"
    rows = f"A[{at}:{at} + 32], B[{at}:{at} + 32]"
    pairs = f'S[c * 16:c * 16 + 16] = T.call_llvm_pure_intrin("float32x16", "{_DOT}", S[c * 16:c * 16 + 16], {rows})'
    widened = (
        "for h in T.unroll(2):\n    for l in T.vectorized(16):\n        S[c * 16 + l] = S[c * 16 + l]"
        f' + T.Cast("float32", A[{at} + h * 16 + l]) * T.Cast("float32", B[{at} + h * 16 + l])'
    )
    a, b = (np.random.default_rng(seed).random(count).astype(ml_dtypes.bfloat16) for seed in (0, 1))
    out = np.zeros(64, np.float32)
    return {"tirlower": Call(made(pairs), (a, b, out)), "widened": Call(made(widened), (a, b, out))}


def scans(count: int = 4096) -> dict[str, Candidate]:
    """Running sums in the first cache, by vectors of 16 lanes that are moved by 1, 2, 4 and 8 of them."""
    steps, last = [], "x"
    for by in (1, 2, 4, 8):
        indices = [0] * by + [1 + at for at in range(16 - by)]
        steps.append(f"y{by}: T.float32x16 = {last} + T.Shuffle([T.float32(0), {last}], {indices})")
        last = f"y{by}"
    kernel = tl.build(
        parse(f"""
@T.prim_func
def scan(A: T.Buffer(({count},), "float32"), B: T.Buffer(({count},), "float32")):
    carry = T.alloc_buffer((1,), "float32", scope="local")
    carry[0] = T.float32(0)
    for i in range({count // 16}):
        x: T.float32x16 = A[i * 16:i * 16 + 16]
{textwrap.indent(chr(10).join(steps), " " * 8)}
        B[i * 16:i * 16 + 16] = {last} + T.Broadcast(carry[0], 16)
        carry[0] = B[i * 16 + 15]
"""),
        "llvm -num_threads=1",
        schedule="none",
    )
    assert isinstance(kernel, tl.Kernel)
    array, out = np.random.default_rng(0).random(count, np.float32), np.zeros(count, np.float32)
    return {"tirlower": Call(kernel, (array, out)), "numpy": Call(np.cumsum, (array, 0, None, out))}


def product_by_tile(rows: int, lanes: int, vectors: int, loop: str = "T.unroll", depth: int = 256) -> PrimFunc:
    """``O = A.T @ B`` for one tile of accumulators; ``loop`` is what its loops over rows and vectors are.

    ``copies`` writes them out in the text.
    """

    def tiled(body: str, head: str) -> str:
        if head == "copies":
            return "\n".join(body.format(i=i, j=j * lanes) for i in range(rows) for j in range(vectors))
        note = ', annotations={{"tir.no_unroll": True}}' if head == "T.serial" else ""
        loops = f"for i in {head}({rows}{note}):\n    for j in {head}({vectors}{note}):\n"
        return (loops + textwrap.indent(body, " " * 8)).format(i="i", j=f"j * {lanes}")

    element, row = (f"{name}, {{j}}:{{j}} + {lanes}]" for name in ("acc[{i}", "B[k"))
    func = parse(f"""
@T.prim_func
def product(
    A: T.Buffer(({depth}, {rows}), "float32"),
    B: T.Buffer(({depth}, {vectors * lanes}), "float32"),
    O: T.Buffer(({rows}, {vectors * lanes}), "float32"),
):
    T.func_attr({{"tir.noalias": True}})
    acc = T.alloc_buffer(({rows}, {vectors * lanes}), "float32", scope="local")
{textwrap.indent(tiled(f"{element} = T.Broadcast(T.float32(0), {lanes})", "range"), " " * 4)}
    for k in range({depth}):
{textwrap.indent(tiled(f"{element} = {element} + T.Broadcast(A[k, {{i}}], {lanes}) * {row}", loop), " " * 8)}
{textwrap.indent(tiled(f"O{element[3:]} = {element}", "range"), " " * 4)}
""")
    assert isinstance(func, PrimFunc)
    return func


def tile_builds() -> dict[str, Candidate]:
    """Builds of a tile of 60 accumulators, beyond the registers of AVX2 and of AVX-512, as a nest of unrolled loops."""
    written, copies = product_by_tile(15, 8, 4), product_by_tile(15, 8, 4, "copies")
    return {
        "tirlower": lambda: tl.build(written, schedule="none"),
        "copies in the text": lambda: tl.build(copies, schedule="none"),
    }


def tiles(rows: int, vectors: int) -> Callable[[], dict[str, Candidate]]:
    """Products by a tile that is written out, and by one whose loops stay, with accumulators in memory.

    A tile beyond the registers is spilled, at half the speed of one that fits; yet loops that stay load and store each
    accumulator in each step: so nothing keeps LLVM from unrolling such tiles.
    """

    def make() -> dict[str, Candidate]:
        a, b = (np.random.default_rng(0).random((256, width), np.float32) for width in (rows, 8 * vectors))
        out = np.empty((rows, 8 * vectors), np.float32)
        calls: dict[str, Candidate] = {}
        for name, loop in (("tirlower", "T.unroll"), ("loops that stay", "T.serial")):
            kernel = tl.build(product_by_tile(rows, 8, vectors, loop), "llvm -num_threads=1", schedule="none")
            kernel(a, b, out)
            np.testing.assert_allclose(out, a.T @ b, rtol=1e-5)
            calls[name] = Call(kernel, (a, b, out))
        return calls

    return make


def neighbours(lanes: int, loads: bool, count: int = 4096) -> PrimFunc:
    """``B[i] = (A[i - 1] + A[i + 1]) / 4 + A[i] / 2`` in vectors: three loads each, or one that is aligned, of which the
    next two vectors are told by ``T.Shuffle``."""
    if loads:
        before, here, behind = (f"A[i * {lanes} + {lanes + at}:i * {lanes} + {2 * lanes + at}]" for at in (-1, 0, 1))
        ring = ["", "", ""]
    else:
        indices = ([first + at for at in range(lanes)] for first in (lanes - 1, 1))
        before, behind = (
            f"T.Shuffle([{pair}], {at})" for pair, at in zip(("left, here", "here, right"), indices, strict=True)
        )
        here = "here"
        vector = f"T.float32x{lanes}"
        ring = [
            f"""row = T.alloc_buffer((2, {lanes}), "float32", scope="local")
    row[0, 0:{lanes}] = A[0:{lanes}]
    row[1, 0:{lanes}] = A[{lanes}:{2 * lanes}]""",
            f"""left: {vector} = row[0, 0:{lanes}]
        here: {vector} = row[1, 0:{lanes}]
        right: {vector} = A[i * {lanes} + {2 * lanes}:i * {lanes} + {3 * lanes}]""",
            f"""row[0, 0:{lanes}] = here
        row[1, 0:{lanes}] = right""",
        ]
    quarter, half = (f"T.Broadcast(T.float32({x}), {lanes})" for x in (0.25, 0.5))
    func = parse(f"""
@T.prim_func
def smooth(
    A: T.Buffer(({count + 2 * lanes},), "float32", align=64), B: T.Buffer(({count + 2 * lanes},), "float32", align=64)
):
    T.func_attr({{"tir.noalias": True}})
    {ring[0]}
    for i in range({count // lanes}):
        {ring[1]}
        B[i * {lanes} + {lanes}:i * {lanes} + {2 * lanes}] = ({before} + {behind}) * {quarter} + {here} * {half}
        {ring[2]}
""")
    assert isinstance(func, PrimFunc)
    return func


def neighbours_in_a_row() -> dict[str, Candidate]:
    """A stencil in the first cache: a plain loop, three loads a vector, and one with two shuffles."""
    lanes = 16 if host_cpu().has("avx512f") else 8
    row, out = (tl.aligned_empty((4096 + 2 * lanes,), "float32") for _ in "AB")
    row[:] = np.random.default_rng(0).random(row.size, np.float32)
    plain = parse(f"""
@T.prim_func
def smooth(A: T.Buffer(({row.size},), "float32", align=64), B: T.Buffer(({row.size},), "float32", align=64)):
    T.func_attr({{"tir.noalias": True}})
    for i in range({lanes}, {4096 + lanes}):
        B[i] = (A[i - 1] + A[i + 1]) * T.float32(0.25) + A[i] * T.float32(0.5)
""")
    calls: dict[str, Candidate] = {}
    forms = {"tirlower": plain, "three loads": neighbours(lanes, True), "shuffles": neighbours(lanes, False)}
    for name, func in forms.items():
        kernel = tl.build(func, "llvm -num_threads=1", schedule="none")
        kernel(row, out)
        inner = slice(lanes, 4096 + lanes)
        wanted = (row[lanes - 1 : inner.stop - 1] + row[lanes + 1 : inner.stop + 1]) / 4 + row[inner] / 2
        np.testing.assert_allclose(out[inner], wanted, rtol=1e-6)
        calls[name] = Call(kernel, (row, out))
    return calls


def fused_updates(size: int = 96) -> dict[str, Candidate]:
    """A plain product, whose updates are one fused multiply-add each, and with contraction off."""
    func = parse(f"""
@T.prim_func
def product(A: T.Buffer(({size}, {size}), "float32"), B: T.Buffer(({size}, {size}), "float32"), C: T.Buffer(({size}, {size}), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for i, k, j in T.grid({size}, {size}, {size}):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""")
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((size, size), np.float32) for _ in range(3))
    calls: dict[str, Candidate] = {}
    for name, option in (("tirlower", ""), ("two roundings", " -fast-math-contract=0")):
        kernel, out = tl.build(func, f"llvm -num_threads=1{option}", schedule="none"), c.copy()
        kernel(a, b, out)
        np.testing.assert_allclose(out, c + a @ b, rtol=1e-4)
        calls[name] = Call(kernel, (a, b, out))
    return calls


def lone_sums(count: int = 4096) -> dict[str, Candidate]:
    """A sum and a sum of squares, which all iterations wait for: apart from their products, and fused with them."""
    calls: dict[str, Candidate] = {}
    x, out = np.random.default_rng(0).random(count), np.zeros(2)
    for name, update in (("tirlower", "S[1] + X[i] * X[i]"), ("fused", "T.fma(X[i], X[i], S[1])")):
        kernel = tl.build(
            parse(f"""
@T.prim_func
def moments(X: T.Buffer(({count},), "float64"), S: T.Buffer((2,), "float64")):
    S[0] = T.float64(0)
    S[1] = T.float64(0)
    for i in range({count}):
        S[0] = S[0] + X[i]
        S[1] = {update}
"""),
            "llvm -num_threads=1",
            schedule="none",
        )
        assert isinstance(kernel, tl.Kernel)
        kernel(x, out)
        np.testing.assert_allclose(out, [x.sum(), (x * x).sum()], rtol=1e-12)
        calls[name] = Call(kernel, (x, out))
    return calls


_DOT = "llvm.x86.avx512bf16.dpbf16ps.512"

ROWS: dict[str, Callable[[], dict[str, Candidate]]] = {
    "building loops around loops": nests,
    "building a tile of 15 x 32": tile_builds,
    "product by tiles of 6 x 16": tiles(6, 2),
    "product by tiles of 8 x 32": tiles(8, 4),
    "neighbours in 16 KB": neighbours_in_a_row,
    "sum of 16 KB": sums,
    "bfloat16 dot product": bfloat16_dots,
    "running sums of 16 KB": scans,
    "product of 96 x 96, fused updates": fused_updates,
    "sum and sum of squares, 32 KB": lone_sums,
}


def report(rounds: int = 15) -> str:
    """The table."""
    os.environ["TIRLOWER_CACHE"] = "0"
    candidates = {name: made for name, make in ROWS.items() if (made := make())}
    timings = {name: interleave(made, rounds, clock=time.thread_time) for name, made in candidates.items()}
    return table("vectors (CPU time, median; above 1x: tirlower is faster)", timings)
