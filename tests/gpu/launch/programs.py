"""Programs with kernels and host code for the tests of the launch."""

from __future__ import annotations

from tirlower.script import tir as T


@T.prim_func
def vector_add(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), C: T.Buffer(("n",), "float32")):
    T.func_attr({"global_symbol": "vector_add", "tir.noalias": True})
    for bx in T.thread_binding((n + 31) // 32, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if bx * 32 + tx < n:
                C[bx * 32 + tx] = A[bx * 32 + tx] + B[bx * 32 + tx]


@T.prim_func
def scaled(A: T.Buffer(("n", "m"), "float64", strides=("s", "t")), B: T.Buffer(("n",), "float64"), scale: T.float64):
    T.func_attr({"global_symbol": "scaled"})
    for bx in T.thread_binding((n + 3) // 4, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            if bx * 4 + tx < n:
                B[bx * 4 + tx] = T.float64(0)
                for k in range(m):
                    B[bx * 4 + tx] = B[bx * 4 + tx] + A[bx * 4 + tx, k] * scale


@T.prim_func
def staged(A: T.Buffer((24,), "int32"), B: T.Buffer((24,), "int32"), k: T.int32):
    T.func_attr({"global_symbol": "staged"})
    work = T.alloc_buffer((24,), "int32")
    for tx in T.thread_binding(24, thread="threadIdx.x"):
        work[tx] = A[tx] * 2
    step: T.int32 = T.min(k, 3)
    for i in range(1, step):
        for bx in T.thread_binding(3, thread="blockIdx.x"):
            for ty in T.thread_binding(2, thread="threadIdx.y"):
                for tx in T.thread_binding(4, thread="threadIdx.x"):
                    work[bx * 8 + ty * 4 + tx] = work[bx * 8 + ty * 4 + tx] + i
    if k > 2:
        for tx in T.thread_binding(24, thread="threadIdx.x"):
            B[tx] = work[23 - tx]
    else:
        for tx in T.thread_binding(24, thread="threadIdx.x"):
            B[tx] = work[tx]


@T.prim_func
def doubling(A: T.Buffer((16,), "int64"), rounds: T.int32):
    T.func_attr({"global_symbol": "doubling"})
    left = T.alloc_buffer((1,), "int32", scope="local")
    left[0] = rounds
    while left[0] > 0:
        part = T.alloc_buffer((16,), "int64")
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            part[tx] = A[tx] * T.int64(2)
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            A[tx] = part[tx]
        left[0] = left[0] - 1


@T.prim_func
def dynamic(A: T.Buffer(("n", 8), "float16"), B: T.Buffer(("n", 8), "float16")):
    T.func_attr({"global_symbol": "dynamic"})
    for by in T.thread_binding(n, thread="blockIdx.y"):
        tile = T.alloc_buffer((8,), "float16", scope="shared.dyn")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            tile[tx] = A[by, tx]
            T.evaluate(T.tvm_storage_sync("shared.dyn"))
            B[by, tx] = tile[(tx + 3) % 8]


@T.prim_func
def checked(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "checked"})
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        assert A[tx] < 100, "an element is 100 or more"
        B[tx] = A[tx] + 1


@T.prim_func
def blend(
    A: T.Buffer((4, 8), "bfloat16"), B: T.Buffer((4, 8), "bfloat16"), flag: T.bool, a: T.bfloat16, h: T.float16,
    i: T.int8, u: T.uint16, x: T.float32,
):  # fmt: skip
    T.func_attr({"global_symbol": "blend"})
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            if flag:
                B[bx, tx] = A[bx, tx] * a + T.Cast("bfloat16", T.Cast("float32", h) + x)
            else:
                B[bx, tx] = T.Cast("bfloat16", T.Cast("int32", i) + T.Cast("int32", u))


@T.prim_func
def interleaved(A: T.Buffer((8,), "float32", strides=("s",)), B: T.Buffer((8,), "float32", strides=("t",))):
    T.func_attr({"global_symbol": "interleaved", "tir.noalias": True})
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[tx] = A[tx] * T.float32(2)
