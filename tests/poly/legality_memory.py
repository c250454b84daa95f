"""Temporaries, indirect accesses, flattened buffers, nested loops, threads, effects: whose memory it is."""

from __future__ import annotations

from tests.poly.legality_base import P, R, U, program
from tirlower.script import tir as T

# -- temporaries ----------------------------------------------------------------------------------------------------


@program("temporaries", parallel={"i": P}, vectorized={"i": P}, bind={"i threadIdx.x": P})
@T.prim_func
def private_temporary(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        t = T.alloc_buffer((1,), "float32", scope="local")
        t[0] = A[i] * 2.0
        B[i] = t[0] + 1.0


@program("temporaries", parallel={"i": R}, vectorized={"i": R}, bind={"i blockIdx.x": R})
@T.prim_func
def shared_temporary(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    t = T.alloc_buffer((1,), "float32")
    for i in range(16):
        t[0] = A[i] * 2.0
        B[i] = t[0] + 1.0


@program("temporaries", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def expanded_temporary(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    t = T.alloc_buffer((16,), "float32")
    for i in range(16):
        t[i] = A[i] * 2.0
        B[i] = t[i] + 1.0


@program("temporaries", parallel={"i": P, "j": R}, vectorized={"i": P})
@T.prim_func
def private_accumulator(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        acc = T.alloc_buffer((1,), "float32", scope="local")
        acc[0] = 0.0
        for j in range(16):
            acc[0] += A[i, j]
        B[i] = acc[0]


@program("temporaries", parallel={"i": P})
@T.prim_func
def planned_temporary(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    with T.block("root"):
        row = T.alloc_buffer((16,), "float32")
        for i in range(8):
            for j in range(16):
                with T.block("row"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    row[vj] = A[vi, vj] * 2.0
            for k in range(16):
                with T.block("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = row[15 - vk] + 1.0


@program("temporaries", parallel={"i": R})
@T.prim_func
def carried_temporary(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    with T.block("root"):
        row = T.alloc_buffer((16,), "float32")
        for i in range(8):
            for k in range(16):
                with T.block("B"):
                    vi, vk = T.axis.remap("SS", [i, k])
                    B[vi, vk] = row[vk] + 1.0
            for j in range(16):
                with T.block("row"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    row[vj] = A[vi, vj] * 2.0


@program("temporaries", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def bound_scalar(A: T.Buffer((16,), "int32"), B: T.Buffer((32,), "int32")):
    for i in range(16):
        k: T.int32 = i * 2 + 1
        B[k] = A[i]


@program("temporaries", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def fill_row_buffer(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), R: T.Buffer((4,), "float32")):
    for i in range(8):
        for j in T.vectorized(4):
            R[j] = A[i, j]
        for j2 in range(4):
            B[i, j2] = R[j2]


# -- indirect accesses ----------------------------------------------------------------------------------------------


@program("indirect", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def gather(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[I[i]]


@program("indirect", parallel={"i": U}, vectorized={"i": U})
@T.prim_func
def scatter(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        A[I[i]] = B[i]


@program("indirect", parallel={"i": P, "k": U})
@T.prim_func
def sparse_rows(
    P_: T.Buffer((9,), "int32"), J: T.Buffer((64,), "int32"), V: T.Buffer((64,), "float32"),
    X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32"),
):  # fmt: skip
    for i in range(8):
        Y[i] = 0.0
        for k in range(P_[i], P_[i + 1]):
            Y[i] += V[k] * X[J[k]]


@program("indirect", parallel={"i": U, "j": P}, vectorized={"j": P})
@T.prim_func
def scatter_of_rows(A: T.Buffer((64, 8), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        A[I[i], j] = B[i, j]


@program("indirect", parallel={"i": P})
@T.prim_func
def scatter_within_rows(A: T.Buffer((16, 64), "float32"), I: T.Buffer((16,), "int32")):
    for i in range(16):
        A[i, I[i]] = 1.0


@program("indirect", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def scatter_with_bounded_offset(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32")):
    for i in range(16):
        A[i * 4 + I[i] % 4] = 1.0


@program("indirect", parallel={"i": R})
@T.prim_func
def pointer_chase(I: T.Buffer((16,), "int32"), X: T.Buffer((1,), "int32")):
    for i in range(16):
        X[0] = I[X[0]]


# -- flattened buffers ----------------------------------------------------------------------------------------------


@program("flattened", parallel={"i": P, "j": P}, vectorized={"j": P}, reorder={"j i": P})
@T.prim_func
def flat_constant(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    for i, j in T.grid(8, 16):
        B[i * 16 + j] = A[j * 8 + i]


@program("flattened", parallel={"i": P, "j": P}, vectorized={"j": P}, reorder={"j i": P})
@T.prim_func
def flat_symbolic(A: T.Buffer(("n * m",), "float32"), n: T.int32, m: T.int32):
    for i, j in T.grid(n, m):
        A[i * m + j] = A[i * m + j] + 1.0


@program("flattened", parallel={"b": P, "i": P, "j": P})
@T.prim_func
def flat_symbolic_three(A: T.Buffer(("l * n * m",), "float32"), l: T.int32, n: T.int32, m: T.int32):
    for b, i, j in T.grid(l, n, m):
        A[(b * n + i) * m + j] = 1.0


@program("flattened", parallel={"i": R, "j": P})
@T.prim_func
def flat_symbolic_scan(A: T.Buffer(("n * m",), "float32"), n: T.int32, m: T.int32):
    for i, j in T.grid(n - 1, m):
        A[(i + 1) * m + j] = A[i * m + j]


@program("flattened", parallel={"i": P}, vectorized={"j": P})
@T.prim_func
def vector_accesses(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in range(1):
            B[i * 8 : i * 8 + 8] = A[i * 8 : i * 8 + 8] + T.Broadcast(T.float32(1), 8)


@program("flattened", parallel={"i": R})
@T.prim_func
def overlapping_vectors(A: T.Buffer((68,), "float32"), B: T.Buffer((68,), "float32")):
    for i in range(16):
        B[i * 4 : i * 4 + 8] = A[i * 4 : i * 4 + 8]


@program("flattened", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def view_of_rows(A: T.Buffer((8, 16), "float32")):
    flat = T.decl_buffer((128,), "float32", data=A.data)
    for i in range(8):
        flat[i * 16] = A[i, 1]


@program("flattened", parallel={"i": R})
@T.prim_func
def view_across_rows(A: T.Buffer((8, 16), "float32")):
    flat = T.decl_buffer((128,), "float32", data=A.data)
    for i in range(7):
        flat[i * 16 + 16] = A[i, 0]


@program("flattened", parallel={"i": R})
@T.prim_func
def view_of_bytes(A: T.Buffer((8,), "int32")):
    octets = T.decl_buffer((32,), "int8", data=A.data)
    for i in range(7):
        octets[i * 4 + 7] = T.int8(0)
        A[i] = 1


@program("flattened", parallel={"i": P})
@T.prim_func
def view_of_own_bytes(A: T.Buffer((8,), "int32")):
    octets = T.decl_buffer((32,), "int8", data=A.data)
    for i in range(8):
        octets[i * 4 + 3] = T.int8(0)
        A[i] = 1


# -- nested parallel loops ------------------------------------------------------------------------------------------


@program("nested parallel", parallel={"i": P, "j": P})
@T.prim_func
def nested_parallel(A: T.Buffer((8, 8), "float32")):
    for i in T.parallel(8):
        for j in T.parallel(8):
            A[i, j] = 1.0


@program("nested parallel", parallel={"i": P, "j": R})
@T.prim_func
def nested_parallel_inner_race(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        for j in T.parallel(8):
            A[i] = j


@program("nested parallel", parallel={"i": R, "j": P})
@T.prim_func
def nested_parallel_outer_race(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        for j in T.parallel(8):
            A[j] = i


@program("nested parallel", parallel={"i": R, "j": P})
@T.prim_func
def nested_parallel_sum_index(A: T.Buffer((15,), "int32")):
    for i in T.parallel(8):
        for j in T.parallel(8):
            A[i + j] = 1


# -- threads --------------------------------------------------------------------------------------------------------


@program("threads", bind={"b blockIdx.x": P, "t threadIdx.x": P})
@T.prim_func
def grid_stride(A: T.Buffer((1024,), "float32")):
    for b, t in T.grid(8, 128):
        A[b * 128 + t] = 0.0


@program("threads", bind={"t threadIdx.x": P, "t blockIdx.x": R})
@T.prim_func
def through_shared_memory(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    s = T.alloc_buffer((33,), "float32", scope="shared")
    for t in range(32):
        s[t + 1] = A[t]
        B[t] = s[t]


@program("threads", bind={"t threadIdx.x": R})
@T.prim_func
def shared_memory_backwards(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    s = T.alloc_buffer((33,), "float32", scope="shared")
    for t in range(32):
        B[t] = s[t]
        s[t + 1] = A[t]


# -- effects --------------------------------------------------------------------------------------------------------


@program("effects", parallel={"i": U})
@T.prim_func
def external_call(A: T.Buffer((16,), "float32")):
    for i in range(16):
        T.evaluate(T.call_extern("int32", "poke", A.access_ptr("w"), i))


@program("effects", parallel={"i": P})
@T.prim_func
def external_call_on_own_part(A: T.Buffer((64,), "float32")):
    for i in range(16):
        T.evaluate(T.call_extern("int32", "poke", A.access_ptr("w", offset=i * 4, extent=4)))


@program("effects", parallel={"i": P})
@T.prim_func
def pure_external_call(A: T.Buffer((16,), "float32")):
    for i in range(16):
        A[i] = T.call_pure_extern("float32", "expf", A[i])


@program("effects", parallel={"i": U})
@T.prim_func
def while_loop(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(16):
        while A[i] > 0:
            A[i] = A[i] - 1
            B[0] = B[0] + 1
