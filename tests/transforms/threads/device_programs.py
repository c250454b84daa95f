"""Modules with kernels and host code, for the passes that separate them."""

from __future__ import annotations

from tirlower.ir import IRModule
from tirlower.machine.target import Target
from tirlower.script import tir as T

CUDA = Target("cuda", host="llvm")


@T.prim_func
def vector_add(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32"), C: T.Buffer((100,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx * 32 + tx < 100:
                C[bx * 32 + tx] = A[bx * 32 + tx] + B[bx * 32 + tx]


@T.prim_func
def reverse_tiles(A: T.Buffer((4, 16), "int16"), B: T.Buffer((4, 16), "int16")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            tile = T.alloc_buffer((16,), "int16", scope="shared")
            tile[tx] = A[bx, tx]
            T.evaluate(T.tvm_storage_sync("shared"))
            B[bx, tx] = tile[15 - tx]


@T.prim_func
def symbolic(A: T.Buffer(("n", "m"), "float64", strides=("s", "t")), B: T.Buffer(("n",), "float64"), scale: T.float64):
    for bx in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            if bx * 4 + tx < n:
                B[bx * 4 + tx] = T.float64(0)
                for k in range(m):
                    B[bx * 4 + tx] = B[bx * 4 + tx] + A[bx * 4 + tx, k] * scale


@T.prim_func
def several(A: T.Buffer((24,), "int32"), B: T.Buffer((24,), "int32"), k: T.int32):
    work = T.alloc_buffer((24,), "int32")
    for tx in T.thread_binding(24, thread="threadIdx.x"):
        work[tx] = A[tx] * 2
    step: T.int32 = T.min(k, 3)
    for i in range(step):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    work[bx * 8 + ty * 4 + tx] = work[bx * 8 + ty * 4 + tx] + i
    if k > 2:
        for tx in T.thread_binding(24, thread="threadIdx.x"):
            B[tx] = work[23 - tx]


@T.prim_func
def dynamic(A: T.Buffer((2, 8), "float16"), B: T.Buffer((2, 8), "float16")):
    for by in T.thread_binding(2, thread="blockIdx.y"):
        tile = T.alloc_buffer((8,), "float16", scope="shared.dyn")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            tile[tx] = A[by, tx]
            T.evaluate(T.tvm_storage_sync("shared.dyn"))
            B[by, tx] = tile[(tx + 3) % 8]


PROGRAMS = {
    "vector_add": vector_add,
    "reverse_tiles": reverse_tiles,
    "symbolic": symbolic,
    "several": several,
    "dynamic": dynamic,
}


def module(name: str) -> IRModule:
    """A program as the function ``main`` of a module, bound to a GPU with a host."""
    func = PROGRAMS[name].with_attr({"target": CUDA, "global_symbol": "main"})
    return IRModule({"main": func})
