"""Instructions of which the assembler alone says little: transposed tiles of ``wgmma``, pairs of bfloat16, launches that end themselves."""

from __future__ import annotations

import itertools
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.gpu.codegen.building import kernel
from tests.gpu.on_device.device import built, called, needs_a_device, needs_hopper, target
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse

pytestmark = pytest.mark.by_day

WAYS = list(itertools.product([False, True], repeat=2))


def product(turned: tuple[bool, bool]) -> PrimFunc:
    """``C = A @ B`` of 64 x 64 elements; each operand has its rows along k where it is turned, else k runs along its rows."""
    steps = [16 * 64 if each else 16 for each in turned]
    return parse(f"""
@T.prim_func
def k(A: T.Buffer((64, 64), "bfloat16"), B: T.Buffer((64, 64), "bfloat16"), C: T.Buffer((64, 64), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        s = T.alloc_buffer((8192,), "bfloat16", scope="shared.dyn")
        c = T.alloc_buffer((32,), "float32", scope="local")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, 16384)
            T.ptx_cp_async_bulk_tensor("bfloat16", s.data, 0, A.data, 128, 0, 2, 0, 0, 64, 64, 64, 64, 64)
            T.ptx_cp_async_bulk_tensor("bfloat16", s.data, 4096, B.data, 128, 0, 2, 0, 0, 64, 64, 64, 64, 64)
        T.ptx_wait_barrier(0, 0)
        for i in T.unroll(32):
            c[i] = T.float32(0)
        T.ptx_wgmma_fence()
        for step in T.unroll(4):
            T.ptx_wgmma("float32", "m64n64k16", "bf16", "bf16", c.data, 0, s.data, step * {steps[0]},
                        s.data, 4096 + step * {steps[1]}, 128, True, {turned[0]}, {turned[1]})
        T.ptx_wgmma_commit_group()
        T.ptx_wgmma_wait_group(0)
        for i in T.unroll(32):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
""")


def operands(turned: tuple[bool, bool]) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    left = a.astype(np.float32).T if turned[0] else a.astype(np.float32)
    right = b.astype(np.float32) if turned[1] else b.astype(np.float32).T
    return [a, b, np.zeros((64, 64), np.float32)], left @ right


@pytest.mark.parametrize("turned", WAYS)
def test_transposed_tiles_simulated(turned):
    arrays, want = operands(turned)
    tl.simulate(tl.lower(product(turned), "nvptx -arch=sm_90a"), *arrays)
    np.testing.assert_array_equal(arrays[2], want)


@needs_hopper
@pytest.mark.parametrize("turned", WAYS)
def test_transposed_tiles(turned):
    arrays, want = operands(turned)
    called(built(product(turned)), arrays)
    np.testing.assert_array_equal(arrays[2], want)  # whole numbers: every sum is exact


@needs_a_device
@pytest.mark.parametrize("expression", ["A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "T.fma(A[i], B[i], A[i])"])
def test_pairs_of_bfloat16(expression):
    arrays = ", ".join(f'{name}: T.Buffer((65536,), "bfloat16")' for name in "ABC")
    body = f"for v in T.vectorized(8):\n    i = bx * 1024 + tx * 8 + v\n    C[i] = {expression}"
    func = kernel(arrays, body, threads=128, blocks=64)
    bits = np.arange(65536, dtype=np.uint16)
    a, b = bits.view(ml_dtypes.bfloat16), np.random.default_rng(5).permutation(bits).view(ml_dtypes.bfloat16)
    mine, theirs = (np.zeros(65536, ml_dtypes.bfloat16) for _ in range(2))
    called(built(func, "-fast-math-contract=0"), [a, b, mine])
    with np.errstate(all="ignore"):
        interpret(func, a, b, theirs)
    nan = np.isnan(theirs.astype(np.float32))
    assert (np.isnan(mine.astype(np.float32)) == nan).all()
    assert (mine.view(np.uint16)[~nan] == theirs.view(np.uint16)[~nan]).all()


ENDING = """
import numpy as np
import tirlower as tl
from tirlower.gpu.launch import to_device
from tirlower.script import parse
func = parse('''
@T.prim_func
def k(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 32)
        T.tvm_storage_sync("shared")
        assert A[tx] < 100, "value too large"
        T.ptx_arrive_barrier(0)
        T.ptx_wait_barrier(0, 0)
        B[tx] = A[tx]
''')
kernel = tl.build(func, target=TARGET)
a, b = to_device(np.arange(32, dtype=np.int32)), to_device(np.zeros(32, np.int32))
kernel(a, b)
print(int(b.numpy().sum()))
bad = to_device(np.where(np.arange(32) == 7, 100, 0).astype(np.int32))
for one in (bad, a):
    try:
        kernel(one, b)
    except tl.DeviceError as error:
        print(str(error))
"""


@needs_a_device
def test_a_failure_where_others_wait_ends_the_launch():
    """In a process of its own, which loses the device: it ends, and says what failed and what to do."""
    program = f"TARGET = {target()!r}\n{ENDING}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.startswith("496\n"), done.stderr
    assert "value too large" in done.stdout and "threadIdx (7, 0, 0)" in done.stdout
    assert done.stdout.count("Start the process anew") == 2 and "Traceback" not in done.stderr


@needs_a_device
@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 7, 8])
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "float16", "bfloat16"])
def test_constants_are_added_to_vectors_of_any_length(lanes: int, dtype: str) -> None:
    """ptxas 13.0 drops the constant of a packed sum of which one half is not used."""
    func = kernel(
        f'A: T.Buffer(({lanes},), "{dtype}"), B: T.Buffer(({lanes},), "{dtype}")',
        f"for i in T.vectorized({lanes}):\n    B[i] = T.max(A[i] + T.{dtype}(3), T.{dtype}(9)) + T.{dtype}(5)",
        threads=1,
    )
    values = np.arange(lanes).astype(getattr(ml_dtypes, dtype, dtype))
    got = np.zeros_like(values)
    called(built(func), [values, got])
    np.testing.assert_array_equal(got.astype(float), np.maximum(np.arange(lanes) + 3, 9) + 5)


@needs_a_device
@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("signs", range(1, 8))
def test_minima_of_negated_numbers(signs: int, dtype: str, lanes: int) -> None:
    """ptxas 12.6 to 13.3 drop the sign of the second of three operands."""
    a, b, c = ("-" if signs >> k & 1 else "" for k in range(3))
    func = kernel(
        ", ".join(f'{name}: T.Buffer((32, {lanes}), "{dtype}")' for name in "ABCDE"),
        f"for i in T.vectorized({lanes}):\n"
        f"    D[tx, i] = T.min(T.min({a}A[tx, i], {b}B[tx, i]), {c}C[tx, i])\n"
        f"for i in T.vectorized({lanes}):\n"
        f"    E[tx, i] = T.max({c}C[tx, i], T.max({a}A[tx, i], {b}B[tx, i]))",
        threads=32,
    )
    arrays = [np.random.default_rng(k).integers(-100, 100, (32, lanes)).astype(dtype) for k in range(3)]
    got = [np.zeros_like(arrays[0]), np.zeros_like(arrays[0])]
    called(built(func), [*arrays, *got])
    signed = [-array if sign else array for array, sign in zip(arrays, (a, b, c), strict=True)]
    np.testing.assert_array_equal(got[0], np.minimum(np.minimum(signed[0], signed[1]), signed[2]))
    np.testing.assert_array_equal(got[1], np.maximum(np.maximum(signed[0], signed[1]), signed[2]))
