"""The tensor-core examples against float64, with races watched; and their shared memory against its banks.

Tolerances. A product of two bfloat16 numbers (8 significant bits each) is exact in float32 (24 bits). A sum of K such
products in any order, each addition rounded once, errs by at most about ``K * 2**-24`` of the sum of the products'
magnitudes; tensor cores may truncate, which doubles that to ``K * eps`` with eps = 2**-23. A result stored as bfloat16
errs by half a unit in its last place more, ``2**-8`` of itself. Attention rounds its weights to bfloat16 before they
meet the values, which gives at most ``2**-8`` of the weighted sum of the values' magnitudes; the float32 errors of the
scores (some 100 of them at most, each within ``64 * eps``) and of exp2 get an eighth of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from examples.gpu import _tiles, flash_attention, matmul_bf16, matmul_hopper
from tirlower.diagnostics import InterpreterError
from tirlower.gpu.ptxas import assemble, find_ptxas
from tirlower.interp import Interpreter
from tirlower.ir import PrimFunc
from tirlower.ir.expr import Add, BinaryOp, Call, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var
from tirlower.ir.stmt import Bind, Evaluate, For, IfThenElse, Seq
from tirlower.script import parse

BF16 = ml_dtypes.bfloat16
HALF_UNIT = 2.0**-8
"""The most that rounding to bfloat16 changes a number by, relative to it."""


def random_bf16(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(BF16) for shape in shapes]


def check_product(c: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    left, right = left.astype(np.float64), right.astype(np.float64)
    expected = left @ right
    bound = left.shape[1] * np.finfo(np.float32).eps * (abs(left) @ abs(right))
    if c.dtype == BF16:
        bound += HALF_UNIT * (abs(expected) + bound)
    assert (abs(c.astype(np.float64) - expected) <= bound).all()


def run_bf16(M: int, N: int, K: int, seed: int | None = None, **tile: Any) -> None:
    a, b = random_bf16(M + N + K, (M, K), (K, N))
    c = np.full((M, N), np.nan, tile.get("out", "float32"))
    func = matmul_bf16.tensor_core_matmul(M, N, K, **tile)
    Interpreter(func, races=True, seed=seed).call(None, a, b, c)
    check_product(c, a, b)


@pytest.mark.parametrize(
    ("M", "N", "K", "tile"),
    [
        # One block of the default tile: more steps than stages, so that the ring comes around.
        pytest.param(128, 128, 160, {}, marks=pytest.mark.nightly),
        # Fewer steps than the prologue has copies.
        (16, 64, 16, {"BM": 16, "BN": 64, "warps": (1, 1), "stages": 4}),
        # Partial tiles in all three dimensions; two by two blocks.
        (49, 72, 72, {"BM": 32, "BN": 64, "warps": (1, 2)}),
        # Rows of 32 and of 128 bytes for A, two and four stages, bfloat16 out.
        (32, 64, 96, {"BM": 32, "BN": 64, "BK": 16, "warps": (2, 1), "stages": 2, "out": "bfloat16"}),
        (32, 64, 200, {"BM": 32, "BN": 64, "BK": 64, "warps": (2, 2), "stages": 4, "out": "bfloat16"}),
        # Five rows of tiles in groups of two: the last group has one.
        (80, 128, 32, {"BM": 16, "BN": 64, "warps": (1, 1), "group": 2}),
    ],
)
@pytest.mark.by_day
def test_matmul_bf16(M, N, K, tile):
    run_bf16(M, N, K, **tile)


def test_matmul_bf16_in_another_order_of_threads():
    run_bf16(40, 64, 104, seed=3, BM=32, BN=64, warps=(2, 2))


@pytest.mark.parametrize(
    ("sizes", "tile", "message"),
    [
        ((64, 64, 64), {"BM": 24}, "does not divide"),
        ((64, 64, 64), {"BK": 48}, "does not divide"),
        ((64, 64, 64), {"stages": 1}, "stage"),
        ((64, 63, 64), {}, "16 bytes"),
        ((64, 64, 64), {"BM": 16, "BN": 64, "BK": 16, "warps": (1, 4)}, "whole rows"),
    ],
)
def test_matmul_bf16_refuses_tiles_that_do_not_fit(sizes, tile, message):
    with pytest.raises(ValueError, match=message):
        matmul_bf16.tensor_core_matmul(*sizes, **tile)


def run_hopper(M: int, N: int, K: int, seed: int, **tile: Any) -> None:
    a, b = random_bf16(M + N + K, (M, K), (N, K))
    c = np.full((M, N), np.nan, tile.get("out", "float32"))
    func = matmul_hopper.hopper_matmul(M, N, K, **tile)
    Interpreter(func, races=True, seed=seed).call(None, a, b, c)
    check_product(c, a, b.T)


@pytest.mark.parametrize(
    ("M", "N", "K", "seed", "tile"),
    [
        # Two warpgroups; the ring of four comes around.
        (128, 64, 384, 0, {"BM": 128, "BN": 64}),
        # One warpgroup; partial tiles in all three dimensions, two by two blocks; bfloat16 out.
        (70, 40, 136, 1, {"BM": 64, "BN": 32, "stages": 2, "out": "bfloat16"}),
        # Fewer steps than stages.
        (64, 16, 64, 2, {"BM": 64, "BN": 16}),
        # Stored as tiles, where the ring was: two boxes of columns, the last one partial, as are the rows.
        (70, 104, 136, 3, {"BM": 64, "BN": 128, "stages": 2, "out": "bfloat16"}),
    ],
)
def test_matmul_hopper(M, N, K, seed, tile):
    run_hopper(M, N, K, seed, **tile)


def test_matmul_hopper_refuses_tiles_that_do_not_fit():
    for sizes, tile in (((64, 64, 64), {"BM": 96}), ((64, 64, 60), {}), ((64, 64, 64), {"BN": 12})):
        with pytest.raises(ValueError):
            matmul_hopper.hopper_matmul(*sizes, **tile)


def run_attention(heads: int, length: int, causal: bool, seed: int | None = None, **tile: Any) -> None:
    q, k, v = random_bf16(length, *[(heads, length, flash_attention.D)] * 3)
    # Scores far apart: the greatest one moves on from tile to tile, and with it the scale of both sums.
    k *= BF16(4)
    o = np.full(q.shape, np.nan, tile.get("out", "bfloat16"))
    func = flash_attention.flash_attention(heads, length, causal=causal, **tile)
    Interpreter(func, races=True, seed=seed).call(None, q, k, v, o)
    expected = flash_attention.reference(q, k, v, causal)
    bound = 1.125 * HALF_UNIT * flash_attention.reference(q, k, abs(v), causal)
    if o.dtype == BF16:
        bound += HALF_UNIT * (abs(expected) + bound)
    assert (abs(o.astype(np.float64) - expected) <= bound).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "length", "tile"),
    [
        pytest.param(1, 128, {}, marks=pytest.mark.nightly),  # the default tile
        (2, 80, {"warps": 2, "BK": 32, "out": "float32"}),  # partial tiles of queries and of keys
        (1, 19, {"warps": 1, "BK": 16}),  # a second tile of three keys
    ],
)
def test_flash_attention(heads, length, tile, causal):
    run_attention(heads, length, causal, **tile)


def test_flash_attention_in_another_order_of_threads():
    run_attention(1, 40, True, seed=5, warps=2, BK=16)


# Shared memory: every group of eight lanes that the hardware serves at once must meet eight different 16-byte columns
# of the 32 banks. The addresses are those of the kernels, computed here for all lanes by a small evaluator.

OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    FloorDiv: np.floor_divide,
    FloorMod: np.mod,
    Min: np.minimum,
    Max: np.maximum,
}


def value(expr: Any, lanes: dict[Var, Any]) -> Any:
    """An index expression for all lanes of a warp at once."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return lanes[expr]
    if isinstance(expr, BinaryOp):
        return OPERATIONS[type(expr)](value(expr.a, lanes), value(expr.b, lanes))
    if isinstance(expr, Call) and expr.op.name == "tir.bitwise_xor":
        return np.bitwise_xor(*(value(arg, lanes) for arg in expr.args))
    raise TypeError(f"no index: {expr}")


def calls(stmt: Any, lanes: dict[Var, Any]) -> Iterator[tuple[Call, dict[Var, Any]]]:
    """Each call of a kernel with the variables' values; both branches of conditions, two steps of serial loops."""
    if isinstance(stmt, Seq):
        for part in stmt.stmts:
            yield from calls(part, lanes)
    elif isinstance(stmt, Bind):
        lanes[stmt.var] = value(stmt.value, lanes) if stmt.var.dtype == "int32" else None
    elif isinstance(stmt, For):
        thread = stmt.thread_tag or ""
        if thread.startswith("threadIdx"):
            for warp in range(value(stmt.extent, lanes) // 32):
                yield from calls(stmt.body, {**lanes, stmt.loop_var: warp * 32 + np.arange(32)})
        else:
            count = 1 if thread else value(stmt.extent, lanes) if stmt.kind.name == "UNROLL" else 2
            for i in range(count):
                yield from calls(stmt.body, {**lanes, stmt.loop_var: i})
    elif isinstance(stmt, IfThenElse):
        yield from calls(stmt.then_case, lanes)
        if stmt.else_case is not None:
            yield from calls(stmt.else_case, lanes)
    elif isinstance(stmt, Evaluate) and isinstance(stmt.value, Call):
        yield stmt.value, lanes


def conflicts(func: PrimFunc, name: str, operand: int) -> tuple[int, int]:
    """The number of calls of an operation and of those whose shared addresses conflict in some group of eight lanes."""
    count = bad = 0
    for call, lanes in calls(func.body, {}):
        if call.op.name == name:
            count += 1
            offsets = np.broadcast_to(value(call.args[operand], lanes), 32)
            assert (offsets % _tiles.CHUNK == 0).all(), "a row of a matrix starts at 16 bytes"
            columns = offsets // _tiles.CHUNK % 8
            bad += any(len(set(group)) < 8 for group in columns.reshape(4, 8).tolist())
    return count, bad


def shared_operand(func: PrimFunc, name: str) -> int:
    """Which argument of an operation is its offset into shared memory: the one behind the shared buffer's data."""
    call = next(call for call, _ in calls(func.body, {}) if call.op.name == name)
    return 1 + next(
        at for at, arg in enumerate(call.args) if isinstance(arg, Var) and arg.type.scope.startswith("shared")
    )


KERNELS = {
    "matmul, rows of 64 bytes": lambda: matmul_bf16.tensor_core_matmul(256, 256, 256),
    "matmul, rows of 32 bytes": lambda: matmul_bf16.tensor_core_matmul(128, 128, 256, BK=16),
    "matmul, rows of 128 bytes": lambda: matmul_bf16.tensor_core_matmul(128, 64, 256, BN=64, BK=64),
    "attention": lambda: flash_attention.flash_attention(1, 128),
    "causal attention": lambda: flash_attention.flash_attention(1, 100, causal=True, warps=8, BK=32),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["tir.ptx_ldmatrix", "tir.ptx_cp_async"])
def test_no_bank_conflicts(kernel, name):
    func = KERNELS[kernel]()
    count, bad = conflicts(func, name, shared_operand(func, name))
    assert count > 0
    assert bad == 0


def test_a_tile_without_swizzle_would_conflict(monkeypatch):
    monkeypatch.setattr(matmul_bf16, "swizzled", lambda row, chunk, columns: row * columns + chunk * _tiles.CHUNK)
    func = matmul_bf16.tensor_core_matmul(128, 128, 128)
    count, bad = conflicts(func, "tir.ptx_ldmatrix", shared_operand(func, "tir.ptx_ldmatrix"))
    assert bad == count > 0


@pytest.mark.parametrize("columns", [16, 32, 64, 128, 256])
def test_swizzle_is_a_permutation_within_rows(columns):
    for row in range(16):
        offsets = [_tiles.swizzled(row, chunk, columns) for chunk in range(columns // 8)]
        assert sorted(offsets) == list(range(row * columns, (row + 1) * columns, 8))


def faulty(func: PrimFunc, old: str, new: str) -> PrimFunc:
    """The kernel with what matches a pattern in its text replaced."""
    text, count = re.subn(old, new, func.script())
    assert count > 0
    return parse(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The buffer that a copy fills is still read by another warp.
        (r"T\.tvm_storage_sync\(.*\)", "T.evaluate(0)"),
        # The newest copies need not be here yet.
        (r"(ptx_wait_group\(.*)1\)", r"\g<1>2)"),
        # The stage of the next step.
        (r"step % 3 \* 1024", "(step + 1) % 3 * 1024"),
    ],
)
def test_faults_of_the_ring_are_found(old, new):
    func = matmul_bf16.tensor_core_matmul(32, 64, 128, BM=32, BN=64, warps=(2, 1), stages=3)
    a, b = random_bf16(0, (32, 128), (128, 64))
    with pytest.raises(InterpreterError, match="race"):
        Interpreter(faulty(func, old, new), races=True).call(None, a, b, np.zeros((32, 64), np.float32))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # Products read a stage before its bytes are there.
        (r"T\.ptx_wait_barrier\(.*stage, step // 2 % 2\)", "T.evaluate(0)"),
        # A stage is given back while its products still run.
        (r"(ptx_wgmma_wait_group\(.*)1\)", r"\g<1>2)"),
    ],
)
def test_faults_of_the_barriers_are_found(old, new):
    func = matmul_hopper.hopper_matmul(64, 64, 384, BM=64, BN=64, stages=2)
    a, b = random_bf16(0, (64, 384), (64, 384))
    with pytest.raises(InterpreterError, match="race"):
        Interpreter(faulty(func, old, new), races=True).call(None, a, b, np.zeros((64, 64), np.float32))


# The code: tensor cores and asynchronous copies are used, and sums and fragments stay in registers.

BUILDS: dict[str, tuple[Callable[[], PrimFunc], str, tuple[str, ...]]] = {
    "matmul": (
        lambda: matmul_bf16.tensor_core_matmul(4096, 4096, 4096),
        "sm_80",
        ("cp.async.cg", "ldmatrix.sync", "mma.sync.aligned.m16n8k16"),
    ),
    "matmul of partial tiles": (
        lambda: matmul_bf16.tensor_core_matmul(1000, 1000, 1000, warps=(2, 4), out="bfloat16"),
        "sm_89",
        ("cp.async.cg", "ldmatrix.sync", "mma.sync.aligned.m16n8k16"),
    ),
    "attention": (
        lambda: flash_attention.flash_attention(16, 2048),
        "sm_80",
        ("cp.async.cg", "ldmatrix.sync", "mma.sync.aligned.m16n8k16", "ex2.approx", "shfl.sync.bfly"),
    ),
    "causal attention": (
        lambda: flash_attention.flash_attention(16, 2000, causal=True),
        "sm_90",
        ("cp.async.cg", "ldmatrix.sync", "mma.sync.aligned.m16n8k16", "ex2.approx", "shfl.sync.bfly"),
    ),
    "Hopper matmul": (
        lambda: matmul_hopper.hopper_matmul(4096, 4096, 4096),
        "sm_90a",
        ("cp.async.bulk.tensor.2d", "mbarrier.try_wait.parity", "wgmma.mma_async.sync.aligned.m64n256k16"),
    ),
    "Hopper matmul of partial tiles": (
        lambda: matmul_hopper.hopper_matmul(1000, 1000, 1000, BN=128, out="bfloat16"),
        "sm_90a",
        ("cp.async.bulk.tensor.2d", "mbarrier.try_wait.parity", "wgmma.mma_async.sync.aligned.m64n128k16"),
    ),
}


@pytest.fixture(scope="module", params=BUILDS)
def code(request):
    make, arch, instructions = BUILDS[request.param]
    return tl.build(make(), target=f"nvptx -arch={arch}").source("ptx"), arch, instructions


def test_code(code):
    ptx, _, instructions = code
    for instruction in instructions:
        assert instruction in ptx
    assert ".local" not in ptx


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")
def test_nothing_is_spilled(code):
    ptx, arch, _ = code
    [kernel] = assemble(ptx, arch).values()
    assert (kernel.stack, kernel.spill_stores, kernel.spill_loads) == (0, 0, 0)
    assert kernel.registers > 32  # the sums alone


@pytest.mark.parametrize("name", ["matmul", "Hopper matmul"])
def test_the_lowered_program_computes_the_same(name):
    """The host's function and the kernel as code is generated from them, barriers and shared memory placed."""
    a, b = random_bf16(0, (49, 72), (72, 72))
    c = np.full((49, 72), np.nan, np.float32)
    if name == "matmul":
        func, right, arch = matmul_bf16.tensor_core_matmul(49, 72, 72, BM=32, BN=64, warps=(1, 2)), b, "sm_80"
    else:
        func, right, arch = matmul_hopper.hopper_matmul(49, 72, 72, BM=64, BN=32, stages=2), b.T.copy(), "sm_90a"
    lowered = tl.build(func, target=f"nvptx -arch={arch}").artifact.lowered
    assert len(lowered.functions) == 2
    tl.simulate(lowered, a, right, c)
    check_product(c, a, b)
