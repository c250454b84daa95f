from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, random_arguments
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import LowerWarpMemory, ThreadSync

PASS = LowerWarpMemory()


def kernel(
    body: str, size: int = 32, dtype: str = "int32", nx: int = 32, n: int = 128, target: str = "cuda"
) -> PrimFunc:
    text = f"""
@T.prim_func
def kernel(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), k: T.int32):
    T.func_attr({{"target": T.target("{target}")}})
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding({nx}, thread="threadIdx.x"):
            w = T.alloc_buffer(({size},), "{dtype}", scope="warp")
"""
    return parse(text + "".join(f"            {line}\n" for line in body.splitlines()))


def alike(func: PrimFunc, k: int = 3) -> PrimFunc:
    """Lowered, without warp memory, and the same in any order of the threads."""
    before = ThreadSync("warp")(func)
    after = check(PASS, before, inputs=[])
    assert '"warp")' not in after.script().replace('storage_sync("warp")', "")
    args = [k if np.isscalar(a) else a for a in random_arguments(func, np.random.default_rng(0))]
    want: list[Any] = [np.copy(a) for a in args]
    interpret(before, *want)
    for seed in (None, 0, 1):
        got = [np.copy(a) for a in args]
        interpret(after, *got, seed=seed, races=seed is None)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y)
    return after


@pytest.mark.parametrize("dtype", ["int32", "float32", "float16", "int64", "int8"])
def test_a_rotation(dtype: str) -> None:
    after = alike(kernel("w[tx] = A[bx * 32 + tx]\nB[bx * 32 + tx] = w[(tx + 5) % 32]", dtype=dtype))
    assert after.script().count("tvm_warp_shuffle") == 1


def test_own_elements_need_no_shuffle() -> None:
    after = alike(kernel("w[tx] = A[bx * 32 + tx]\nB[bx * 32 + tx] = w[tx] + w[tx]"))
    assert "shuffle" not in after.script()


def test_several_elements_side_by_side() -> None:
    after = alike(kernel(
        "w[tx * 2] = A[bx * 64 + tx]\nw[tx * 2 + 1] = A[bx * 64 + 32 + tx]\n"
        "B[bx * 64 + tx] = w[(31 - tx) * 2 + 1]\nB[bx * 64 + 32 + tx] = w[tx * 2 + 1] - w[6]", size=64))  # fmt: skip
    assert "T.alloc_buffer((2,)" in after.script()


def test_rows_behind_each_other_in_loops() -> None:
    alike(kernel(
        "for i in range(1, 4):\n    w[(i - 1) * 32 + tx] = A[bx * 32 + tx] + i\n"
        "for i in range(3):\n    B[bx * 32 + tx] = B[bx * 32 + tx] + w[i * 32 + (tx + i) % 32]", size=96))  # fmt: skip


def test_both_strides() -> None:
    after = alike(kernel(
        "for y in range(2):\n    for x in range(4):\n        w[tx * 4 + y * 128 + x] = A[tx] * x + y\n"
        "for y in range(2):\n    for x in range(4):\n        B[bx * 32 + tx] = B[bx * 32 + tx] + w[(31 - tx) * 4 + y * 128 + x]",
        size=256))  # fmt: skip
    assert "T.alloc_buffer((8,)" in after.script()


def test_a_symbolic_lane_and_a_broadcast() -> None:
    alike(kernel("w[tx] = A[bx * 32 + tx]\nB[bx * 32 + tx] = w[k % 32] + w[0]"))


def test_half_a_warp() -> None:
    alike(kernel("w[tx] = A[bx * 16 + tx]\nB[bx * 16 + tx] = w[15 - tx]", size=16, nx=16))


def test_vectors_of_a_lane() -> None:
    func = kernel("w[tx * 4 : tx * 4 + 4] = A[tx * 4 : tx * 4 + 4]\nif bx == 0:\n    B[tx * 4 : tx * 4 + 4] = w[124 - tx * 4 : 128 - tx * 4]", size=128)  # fmt: skip
    alike(func)


def test_in_a_while_loop_and_under_a_condition() -> None:
    alike(kernel(
        "i = T.alloc_buffer((1,), 'int32', scope='local')\ni[0] = 0\nwhile i[0] < 3:\n"
        "    w[tx] = A[bx * 32 + tx] + i[0]\n    B[bx * 32 + tx] = B[bx * 32 + tx] + w[31 - tx]\n    i[0] = i[0] + 1\n"
        "if k > 2:\n    w[tx] = k\n    B[tx + bx * 32] = w[0]"))  # fmt: skip


def test_nothing_to_do() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((8,), 'int32')):\n    for i in range(8):\n        A[i] = i\n")
    assert PASS(func) is func


@pytest.mark.parametrize(
    ("body", "size", "nx", "message"),
    [
        ("w[0] = 1", 32, 32, "positive constant m"),
        ("w[31 - tx] = 1", 32, 32, "positive constant m"),
        ("w[tx] = 1\nw[tx * 2] = 1", 64, 32, "1 and 2 elements apart"),
        ("w[tx + 1] = 1", 64, 32, "not to the thread that stores"),
        ("w[tx] = 1\nB[tx] = w[tx * 2]", 64, 32, "depends on the lane"),
        ("w[tx] = 1\nT.evaluate(T.call_extern('int32', 'f', T.address_of(w[0])))", 32, 32, "address"),
        ("w[tx] = 1\nT.evaluate(T.call_extern('int32', 'f', w.data))", 32, 32, "address"),
        ("w[tx] = 1", 64, 64, "divides the warp"),
        ("w[tx] = 1", 24, 24, "divides the warp"),
    ],
)  # fmt: skip
def test_errors(body: str, size: int, nx: int, message: str) -> None:
    with pytest.raises(TransformError, match=message):
        PASS(kernel(body, size=size, nx=nx))


def test_sizes_and_targets() -> None:
    text = kernel("w[tx] = 1").script()
    with pytest.raises(TransformError, match="not a positive constant"):
        PASS(parse(text.replace("T.alloc_buffer((32,)", "T.alloc_buffer((k,)")))
    bare = parse("\n".join(line for line in text.splitlines() if "func_attr" not in line))
    with pytest.raises(TransformError, match="no target"):
        PASS(bare)
    with tl.Target("nvptx"):
        PASS(bare)


@pytest.mark.parametrize("elements", [1, 2])
def test_allocated_outside_of_the_lanes(elements: int) -> None:
    """As TIR has it: one allocation in front of the loops over threads, in which each lane has its registers."""
    size = 32 * elements
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(({size},), "int32"), B: T.Buffer(({size},), "int32")):
    T.func_attr({{"target": T.target("cuda")}})
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        w = T.alloc_buffer(({size},), "int32", scope="warp")
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for i in range({elements}):
                w[i * 32 + tx] = A[i * 32 + tx]
            T.tvm_storage_sync("warp")
            for i in range({elements}):
                B[i * 32 + tx] = w[i * 32 + (tx + 1) % 32]
""")
    text = check(PASS, func, inputs=[]).script()
    assert f'w = T.alloc_buffer(({elements},), "int32", scope="local")' in text
    assert text.index("T.alloc_buffer") < text.index("threadIdx.x") and "tvm_warp_shuffle(" in text
    a = np.arange(size, dtype=np.int32)
    for seed in (None, 0):
        b = np.zeros_like(a)
        interpret(PASS(func), a, b, seed=seed, races=seed is None)
        np.testing.assert_array_equal(b, np.roll(a.reshape(-1, 32), -1, 1).ravel())


def test_operands_of_tensor_cores_are_the_registers_of_their_lane() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16, 16), "float16"), B: T.Buffer((256,), "float16")):
    T.func_attr({"target": T.target("cuda")})
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((256,), "float16", scope="shared")
        w = T.alloc_buffer((256,), "float16", scope="warp")
        for i in range(8):
            s[i * 32 + tx] = A[i * 2 + tx // 16, tx % 16]
        T.tvm_storage_sync("shared")
        T.ptx_ldmatrix("float16", False, 4, ".b16", w.data, 8 * tx, s.data, tx % 16 * 16 + tx // 16 * 8)
        for i in range(8):
            B[tx * 8 + i] = w[tx * 8 + i]
""")
    after = PASS(func)
    assert (
        'T.ptx_ldmatrix("float16", T.bool(False), 4, ".b16", w.data, 0, s.data, tx % 16 * 16 + tx // 16 * 8)'
        in after.script()
    )
    a = np.arange(256, dtype=np.float16).reshape(16, 16)
    got = np.zeros(256, np.float16)
    interpret(after, a, got, races=True)
    # Four matrices of 8 by 8: a lane has two neighbours of a row of each.
    want = [
        a[m % 2 * 8 + lane // 4, m // 2 * 8 + lane % 4 * 2 + e] for lane in range(32) for m in range(4) for e in (0, 1)
    ]
    np.testing.assert_array_equal(got, np.array(want))
    with pytest.raises(TransformError, match="not to the thread that stores"):
        PASS(
            parse(
                func.script()
                .replace("w.data, 8 * tx,", "w.data, 248 - 8 * tx + 16 * tx,")
                .replace("w.data, tx * 8", "w.data, tx * 8 + 8")
            )
        )


def test_allocated_outside_of_kernels() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    D = T.alloc_buffer((8,), "float32", scope="warp")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        D[i] = A[i] + 1.0
    for i in T.thread_binding(8, thread="threadIdx.x"):
        B[i] = D[i]
""")
    with pytest.raises(TransformError, match="'D' of a warp is allocated outside of the kernel"):
        tl.build(func, target="cuda")
