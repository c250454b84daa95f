from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import InterpreterError, TransformError
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import VerifyConvergence

TARGET = "nvptx -arch=sm_80"
FULL = "T.uint32(0xFFFFFFFF)"


def kernel(body: str, axes: str = "x32") -> PrimFunc:
    """A kernel of 64 threads over A and B: of one axis, or 2 by 32, or 4 by 16."""
    loops, index = {
        "x32": (['for tx in T.thread_binding(64, thread="threadIdx.x"):'], "tx"),
        "warps": (['for ty in T.thread_binding(2, thread="threadIdx.y"):',
                   'for tx in T.thread_binding(32, thread="threadIdx.x"):'], "ty * 32 + tx"),
        "halves": (['for ty in T.thread_binding(4, thread="threadIdx.y"):',
                    'for tx in T.thread_binding(16, thread="threadIdx.x"):'], "ty * 16 + tx"),
    }[axes]  # fmt: skip
    text = '@T.prim_func\ndef f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):\n'
    depth = 1
    for loop in loops:
        text += "    " * depth + loop + "\n"
        depth += 1
    lines = [
        's = T.alloc_buffer((64,), "int32", scope="shared")',
        'l = T.alloc_buffer((4,), "int32", scope="local")',
        "l[0] = 1",
        *body.replace("FULL", FULL).replace("ID", f"({index})").splitlines(),
    ]
    return parse(text + "".join("    " * depth + line + "\n" for line in lines))


SYNC = 'T.tvm_storage_sync("shared")'
WARP_SYNC = 'T.tvm_storage_sync("warp")'
SHUFFLE = "B[ID] = T.tvm_warp_shuffle_xor(FULL, A[ID], 1, 32, 32)"

# Kernels, and at what their threads part before a call that they make together; nothing where they do not.
TABLE = {
    "a barrier": (SYNC, "x32", ""),
    "a barrier of the block under a condition": (f"if tx < 16:\n    {SYNC}", "x32", "if tx < 16"),
    "of the block, by warp": (f"if tx // 32 == 0:\n    {SYNC}", "x32", "if tx // 32 == 0"),
    "of the warp, by warp": (f"if tx // 32 == 0:\n    {WARP_SYNC}", "x32", ""),
    "of the warp, by half a warp": (f"if tx // 16 == 0:\n    {WARP_SYNC}", "x32", "if tx // 16 == 0"),
    "a condition of all": (f"if n > 3:\n    {SYNC}", "x32", ""),
    "a condition of shared data": (f"if A[3] > 3:\n    {SYNC}", "x32", ""),
    "a condition of own data": (f"if A[tx] > 3:\n    {SYNC}", "x32", "if A[tx] > 3"),
    "the other arm": (f"if tx < 16:\n    B[tx] = 1\nelse:\n    {SYNC}", "x32", "if tx < 16"),
    "a loop of all": (f"for k in range(n):\n    {SYNC}", "x32", ""),
    "a loop of each": (f"for k in range(tx):\n    {SYNC}", "x32", "for k in tx"),
    "a loop of each warp": (f"for k in range(tx // 32 + 1):\n    {SHUFFLE}", "x32", ""),
    "a loop that some leave": (f"for k in range(4):\n    if tx < k:\n        break\n    {SYNC}", "x32", "for k in 4"),
    "a loop that some leave, by warp": (
        f"for k in range(4):\n    if tx // 32 < k:\n        break\n    {SHUFFLE}", "x32", ""),
    "a while loop": (f"l[1] = tx\nwhile l[1] > 0:\n    {SYNC}\n    l[1] = l[1] - 1", "x32", "while l[1] > 0"),
    "behind the loop": (f"for k in range(tx):\n    l[0] = l[0] + 1\n{SYNC}", "x32", ""),
    "threads that have returned": (f"if tx >= 32:\n    T.thread_return()\n{SYNC}", "x32", ""),
    "a shuffle": (SHUFFLE, "x32", ""),
    "a shuffle of half a warp": (f"if tx < 16:\n    {SHUFFLE}", "x32", "if tx < 16"),
    "of a whole one": (f"if tx < 32:\n    {SHUFFLE}", "x32", ""),
    "of a whole one, bound to a name": (f"w: T.int32 = tx // 32\nif w == 1:\n    {SHUFFLE}", "x32", ""),
    "of a whole one, in a local": (f"l[1] = tx // 32\nif l[1] == 1:\n    {SHUFFLE}", "x32", ""),
    "of a part, in a local": (f"l[1] = tx // 16\nif l[1] == 1:\n    {SHUFFLE}", "x32", "if l[1] == 1"),
    "of a warp by ty": (f"if ty == 0:\n    {SHUFFLE}", "warps", ""),
    "of a warp by ty and all": (f"if ty * n < 3:\n    {SHUFFLE}", "warps", ""),
    "of half a warp by ty": (f"if ty == 0:\n    {SHUFFLE}", "halves", "if ty == 0"),
    "of a warp by two ty": (f"if ty < 2:\n    {SHUFFLE}", "halves", ""),
    "of what tx makes of it": (f"if T.bitwise_and(tx, 32) == 0 and tx * 0 == 0:\n    {SHUFFLE}", "x32", ""),
    "by active lanes": ("if tx < 16:\n    B[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], 31, 32, 32)", "x32", "if tx < 16"),
    "by active lanes in a local": (
        'm = T.alloc_buffer((1,), "uint32", scope="local")\nif tx < 16:\n    m[0] = T.tvm_warp_activemask()\n'
        "    B[tx] = T.tvm_warp_shuffle(m[0], A[tx], 31, 32, 32)", "x32", "if tx < 16"),
    "by named lanes": ("if tx % 32 < 16:\n    B[tx] = T.tvm_warp_shuffle(T.uint32(0xFFFF), A[tx], 0, 32, 32)", "x32", ""),
    "by the active lanes of a segment": (
        "if ty == 0:\n    B[ID] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[ID], 3, 16, 32)", "halves", ""),
    "by the active lanes of a larger one": (
        "if ty == 0:\n    B[ID] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[ID], 31, 32, 32)", "halves", "if ty == 0"),
    "in an arm": ("B[tx] = T.if_then_else(tx < 16, T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32), 0)", "x32", "T.if_then_else(tx < 16"),
    "in the other arm": ("B[tx] = T.if_then_else(tx < 16, 0, T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32))", "x32", "T.if_then_else(tx < 16"),
    "in an arm of all": ("B[tx] = T.if_then_else(n < 16, T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32), 0)", "x32", ""),
    "in an arm of a warp": ("B[tx] = T.if_then_else(tx < 32, T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32), 0)", "x32", ""),
    "in a condition": ("B[tx] = T.if_then_else(T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32) > 3, 1, 0)", "x32", ""),
    "of a select, which takes both": ("B[tx] = T.Select(tx < 16, T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32), 0)", "x32", ""),
    "behind and": ("if tx < 16 and T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32) > 3:\n    B[tx] = 1", "x32", "tx < 16 and"),
    "in front of and": ("if T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32) > 3 and tx < 16:\n    B[tx] = 1", "x32", ""),
    "behind or": ("if tx < 16 or T.tvm_warp_shuffle(FULL, A[tx], 0, 32, 32) > 3:\n    B[tx] = 1", "x32", "tx < 16 or"),
    "in a while loop's condition": (
        "l[1] = tx\nwhile T.tvm_warp_shuffle(FULL, l[1], 0, 32, 32) < tx:\n    l[1] = l[1] + 1", "x32", "while"),
    "a vote": ("if tx < 16:\n    B[tx] = T.Cast('int32', T.ptx_vote_any(FULL, A[tx] > 1))", "x32", "if tx < 16"),
    "a vote of named lanes": ("if tx % 32 < 16:\n    B[tx] = T.Cast('int32', T.ptx_vote_any(T.uint32(0xFFFF), A[tx] > 1))", "x32", ""),
    "a barrier of all lanes": ("if tx < 16:\n    T.ptx_syncwarp(FULL)", "x32", "if tx < 16"),
    "a barrier of named lanes": ("if tx % 32 < 16:\n    T.ptx_syncwarp(T.uint32(0xFFFF))", "x32", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_where_threads_part(name: str) -> None:
    body, axes, where = TABLE[name]
    func = kernel(body, axes)
    if not where:
        check(VerifyConvergence(), func, func, inputs=[])
        return
    with pytest.raises(TransformError, match="is for all threads of a") as error:
        VerifyConvergence()(func)
    assert where in error.value.message and error.value.help is not None, error.value


@pytest.mark.parametrize(
    "name",
    # of the others a run may take one way
    [name for name, (_, _, where) in TABLE.items() if where and "of own data" not in name and "several" not in name],
)
def test_the_simulator_agrees(name: str) -> None:
    """Each that is refused is an error of a run too, in step and in other orders."""
    body, axes, _ = TABLE[name]
    func = kernel(body, axes)
    for seed in (None, 1, 2):
        with pytest.raises(InterpreterError):
            tl.simulate(func, np.arange(64, dtype="int32"), np.zeros(64, "int32"), 5, seed=seed)


@pytest.mark.parametrize("name", [name for name, (_, _, where) in TABLE.items() if not where])
def test_the_simulator_runs_what_is_accepted(name: str) -> None:
    body, axes, _ = TABLE[name]
    func = kernel(body, axes)
    tl.simulate(func, np.arange(64, dtype="int32"), np.zeros(64, "int32"), 5, seeds=(1, 2))


def test_a_build_refuses_it() -> None:
    func = kernel(f"if tx < 16:\n    {SYNC}")
    for make in (lambda: tl.lower(func, TARGET), lambda: tl.build(func, target=TARGET, schedule="none")):
        with pytest.raises(TransformError, match="tvm_storage_sync is for all threads of a block"):
            make()


# Memory of a warp, which becomes registers that shuffles read.
WARP_MEMORY = {
    "all lanes": ("B[tx] = w[31 - tx]", True),
    "a condition of lanes": ("if tx < 16:\n    B[tx] = w[tx + 16]", False),
    "a loop of each": ("for k in range(tx):\n    B[tx] = w[31 - tx]", False),
    "an arm": ("B[tx] = T.if_then_else(tx < 16, w[31 - tx], 0)", False),
    "behind and": ("if tx < 16 and w[31 - tx] > 3:\n    B[tx] = 1", False),
    "one's own under a condition": ("if tx < 16:\n    B[tx] = w[tx]", True),
    "one's own in an arm": ("B[tx] = T.if_then_else(tx < 16, w[tx], 0)", True),
    "a condition of the block's": ("if A[0] > 3:\n    B[tx] = w[31 - tx]", True),
    "read before the condition": ("v: T.int32 = w[31 - tx]\nif tx < 16:\n    B[tx] = v", True),
    "a loop of all": ("for k in range(3):\n    B[tx] = B[tx] + w[(tx + k) % 32]", True),
    "stored under a condition": ("if tx < 16:\n    w[tx] = 5\nB[tx] = w[31 - tx]", True),
}


@pytest.mark.parametrize("name", WARP_MEMORY)
def test_memory_of_a_warp_is_read_by_all_of_its_lanes(name: str) -> None:
    body, together = WARP_MEMORY[name]
    text = """
@T.prim_func
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        w = T.alloc_buffer((32,), "int32", scope="warp")
        w[tx] = A[tx]
"""
    func = parse(text + "".join(f"        {line}\n" for line in body.splitlines()))
    if not together:
        with pytest.raises(TransformError, match="tvm_warp_shuffle is for all threads of a warp"):
            tl.lower(func, TARGET)
        return
    lowered = tl.lower(func, TARGET)
    tl.build(func, target=TARGET, schedule="none")
    a = np.arange(32, dtype="int32")
    want, got = np.zeros(32, "int32"), np.zeros(32, "int32")
    tl.interpret(func, a, want)
    tl.simulate(lowered, a, got, seeds=(1, 2, 3))
    np.testing.assert_array_equal(want, got)


def test_a_function_that_threads_call_has_no_barriers() -> None:
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def g(p: T.handle("int32"), i: T.int32):
        b = T.decl_buffer((32,), "int32", data=p)
        T.tvm_storage_sync("shared")
        b[i] = b[i] + 1

    @T.prim_func
    def f(B: T.Buffer((32,), "int32")):
        for tx in T.thread_binding(32, thread="threadIdx.x", annotations={"tir.unchecked": "each has its element"}):
            Module.g(B.data, tx)
""")
    with pytest.raises(TransformError, match="stands in a function that a thread calls") as error:
        tl.lower(module, TARGET)
    assert "into the kernel" in str(error.value.help)
    with pytest.raises(InterpreterError, match="in a function that a thread calls"):
        tl.simulate(module, np.zeros(32, "int32"), name="f")
