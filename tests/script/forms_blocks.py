"""Forms: blocks, their axes, regions and attributes, and the memory forms."""

from __future__ import annotations

import numpy as np

from tests.script.forms_base import form
from tests.script.forms_control import _set
from tirlower.script import tir as T


@form(lambda A, B, C: _set(C, A @ B))
@T.prim_func
def block_matmul(A: T.Buffer((4, 6), "int32"), B: T.Buffer((6, 5), "int32"), C: T.Buffer((4, 5), "int32")):
    for i, j, k in T.grid(4, 5, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@form(lambda A, B: _set(B.reshape(-1)[:14], A.reshape(-1)[:14] + 1))
@T.prim_func
def block_explicit(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for io, ii, j in T.grid(2, 2, 4):
        with T.sblock("copy"):
            vi = T.axis.spatial(4, io * 2 + ii)
            vj = T.axis.spatial((0, 4), j)
            T.where((io * 2 + ii) * 4 + j < 14)
            T.reads(A[vi, vj])
            T.writes(B[vi, vj : vj + 1])
            T.sblock_attr({"script": 1, "names": ["a", "b"], "nested": {"k": 1.5}})
            B[vi, vj] = A[vi, vj] + 1.0


def _scan(A):
    for i in range(1, 8):
        A[i] += A[i - 1]


@form(_scan)
@T.prim_func
def block_scan(A: T.Buffer((8,), "int32")):
    for i in range(1, 8):
        with T.block("scan"):
            vi = T.axis.scan((1, 8), i)
            A[vi] = A[vi] + A[vi - 1]


@form(lambda A: _set(A, np.arange(8)))
@T.prim_func
def block_opaque_axis(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("op"):
            vi = T.axis.opaque(8, i)
            T.reads()
            T.writes(A[vi])
            A[vi] = vi


@form(lambda A, B: _set(B, (A * 2).sum(axis=1)))
@T.prim_func
def block_nested(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
    for i in range(4):
        with T.block("outer"):
            vi = T.axis.spatial(4, i)
            local = T.alloc_buffer((8,), "int32", scope="local")
            for j in range(8):
                with T.block("double"):
                    vj = T.axis.spatial(8, j)
                    local[vj] = A[vi, vj] * 2
            for j in range(8):
                with T.block("sum"):
                    vj = T.axis.reduce(8, j)
                    with T.init():
                        B[vi] = 0
                    B[vi] += local[vj]


@form(lambda A, B: _set(B, A + 1))
@T.prim_func
def block_match_buffer(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(2, 2):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            a = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", offset_factor=1)
            s0, s1 = T.int32(), T.int32()
            b = T.match_buffer(
                B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), "int32", strides=(s0, s1), offset_factor=1
            )
            for x, y in T.grid(4, 4):
                b[x, y] = a[x, y] + 1


@form(lambda A: _set(A, 5))
@T.prim_func
def block_root(A: T.Buffer((4,), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        for i in range(4):
            with T.block():
                vi = T.axis.S(4, i)
                A[vi] = 5


@form(lambda A, B: _set(B, A * 3))
@T.prim_func
def alloc_buffers(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    tmp = T.alloc_buffer((8,), "float32", scope="global", align=128)
    for i in range(8):
        tmp[i] = A[i] * 3.0
    for i in range(8):
        B[i] = tmp[i]


@form(lambda A: _set(A, np.arange(8) * 2))
@T.prim_func
def allocate_classic(A: T.Buffer((8,), "int32")):
    data = T.allocate([8], "int32", "global", annotations={"note": 1})
    buf = T.decl_buffer((8,), "int32", data=data)
    for i in range(8):
        buf[i] = i * 2
    for i in range(8):
        A[i] = buf[i]


@form(lambda A: _set(A, np.arange(8).reshape(2, 4)))
@T.prim_func
def decl_view(A: T.Buffer((2, 4), "int32")):
    flat = T.decl_buffer((8,), "int32", data=A.data)
    for i in range(8):
        flat[i] = i


@form(lambda A: _set(A, 7))
@T.prim_func
def decl_allocates(A: T.Buffer((4,), "int32")):
    with T.decl_buffer((4,), "int32") as tmp:
        for i in range(4):
            tmp[i] = 7
        for i in range(4):
            A[i] = tmp[i]


@form(lambda A: _set(A, np.tile(np.arange(4) + 4, 2)))
@T.prim_func
def buffer_of_data(A: T.Buffer((8,), "int32")):
    upper = T.Buffer((4,), "int32", data=A.data, elem_offset=4)
    for i in range(4):
        upper[i] = i + 4
    for i in range(4):
        A[i] = upper[i]
    for i in range(4):
        A[i + 4] = i + 4


@form(lambda A: _set(A, [1, 4, 9, 16]))
@T.prim_func
def allocate_constant(A: T.Buffer((4,), "int32")):
    data = T.allocate_const([1, 4, 9, 16], "int32", [4])
    table = T.decl_buffer((4,), "int32", data=data)
    for i in range(4):
        A[i] = table[i]


@form(lambda A: _set(A, 3))
@T.prim_func
def with_allocate(A: T.Buffer((4,), "float32")):
    with T.allocate([4], "float32", "global") as data, T.decl_buffer((4,), "float32", data=data) as buf:
        for i in range(4):
            buf[i] = 3.0
        for i in range(4):
            A[i] = buf[i]
    with T.allocate_const([1.0, 2.0], "float32", [2]):
        T.evaluate(0)


@form(lambda A: _set(A, A * 2))
@T.prim_func
def alloc_shared_local(A: T.Buffer((8,), "float32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        shared = T.alloc_shared((8,), "float32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            local = T.alloc_local((1,), "float32")
            local[0] = A[bx * 8 + tx]
            shared[tx] = local[0] * 2.0
            A[bx * 8 + tx] = shared[tx]


@form(lambda A, B: _set(B, A))
@T.prim_func
def vector_slices(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in range(4):
        B[i, 0:4] = A[i, 0:4]
        B[i, 4:8:2] = A[i, 4:8:2]
        B[i, 5:9:2] = A[i, 5:9:2]


@form(lambda A, B: _set(B, A + 1))
@T.prim_func
def vload_vstore(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(2):
        B.vstore([i * 4], A.vload([i * 4], "float32x4") + T.broadcast(T.float32(1), 4))


@form(lambda A, B: _set(B[:3], A[:3]))
@T.prim_func
def predicated_access(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    mask = T.meta_var(T.Ramp(0, 1, 4) < T.Broadcast(3, 4))
    B.vstore([0], A.vload([0], "float32x4", predicate=mask), predicate=mask)


@form(lambda A, B: _set(B, A * 2))
@T.prim_func
def vector_dtype_buffer(A: T.Buffer((2,), "float32x4"), B: T.Buffer((2,), "float32x4")):
    for i in range(2):
        B[i] = A[i] * T.Broadcast(T.float32(2), 4)


@form(lambda A, B: _set(B, A + 1), n=6)
@T.prim_func
def symbolic_strides(a: T.handle, b: T.handle):
    n = T.int32()
    s = T.int32()
    A = T.match_buffer(a, (n, 4), "float32", strides=(s, 1))
    B = T.match_buffer(b, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        B[i, j] = A[i, j] + 1.0


@form(lambda A: _set(A, 1))
@T.prim_func
def axis_separators(A: T.Buffer((4, 2), "int32", axis_separators=[1])):
    for i, j in T.grid(4, 2):
        A[i, j] = 1


@form(lambda A: _set(A, 4))
@T.prim_func
def zero_dimensions(A: T.Buffer((), "int32")):
    A[()] = 4
