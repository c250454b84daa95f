"""Scans, shifted copies, disjoint parts, reductions, wavefronts: what the order of iterations decides."""

from __future__ import annotations

from tests.poly.legality_base import P, R, S, U, program
from tirlower.script import tir as T

# -- elementwise, and plain dependences -----------------------------------------------------------------------------


@program("elementwise", parallel={"i": P}, vectorized={"i": P}, bind={"i blockIdx.x": P, "i threadIdx.x": P})
@T.prim_func
def add_one(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i] + 1.0


@program("elementwise", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def in_place(A: T.Buffer((64,), "float32")):
    for i in range(64):
        A[i] = A[i] * 2.0


@program("elementwise", parallel={"i": P, "j": P}, vectorized={"i": P, "j": P}, reorder={"j i": P})
@T.prim_func
def transpose(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(8, 16):
        B[j, i] = A[i, j]


@program("elementwise", parallel={"i": R}, vectorized={"i": R}, bind={"i blockIdx.x": R, "i threadIdx.x": R})
@T.prim_func
def one_cell(A: T.Buffer((1,), "int32")):
    for i in range(8):
        A[0] = i


@program("elementwise", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def one_iteration(A: T.Buffer((1,), "int32")):
    for i in range(1):
        A[0] = A[0] + i


@program("elementwise", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def no_iteration(A: T.Buffer((1,), "int32")):
    for i in range(0):
        A[0] = A[0] + i


# -- scans and shifted copies ---------------------------------------------------------------------------------------


@program("scan", parallel={"i": R}, vectorized={"i": R}, bind={"i blockIdx.x": R})
@T.prim_func
def prefix_sum(A: T.Buffer((16,), "float32"), S: T.Buffer((17,), "float32")):
    for i in range(16):
        S[i + 1] = S[i] + A[i]


@program("scan", parallel={"i": P, "j": R}, vectorized={"i": P, "j": R}, reorder={"j i": P})
@T.prim_func
def row_scan(A: T.Buffer((8, 16), "float32")):
    for i, j in T.grid(8, 15):
        A[i, j + 1] = A[i, j + 1] + A[i, j]


@program("scan", parallel={"i": R, "j": P}, vectorized={"i": R, "j": P}, reorder={"j i": P})
@T.prim_func
def column_scan(A: T.Buffer((8, 16), "float32")):
    for i, j in T.grid(7, 16):
        A[i + 1, j] = A[i + 1, j] + A[i, j]


@program("scan", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def fibonacci(F: T.Buffer((20,), "int64")):
    for i in range(2, 20):
        F[i] = F[i - 1] + F[i - 2]


@program("scan", parallel={"i": R, "j": P}, vectorized={"j": P})
@T.prim_func
def distance_four(A: T.Buffer((20,), "float32")):
    for i, j in T.grid(4, 4):
        A[i * 4 + j + 4] = A[i * 4 + j] + 1.0


@program("shifted copy", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def shift_down(A: T.Buffer((17,), "float32")):
    for i in range(16):
        A[i] = A[i + 1]


@program("shifted copy", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def shift_up(A: T.Buffer((17,), "float32")):
    for i in range(16):
        A[i + 1] = A[i]


@program("shifted copy", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def read_ahead_of_write(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32")):
    for i in range(16):
        B[i] = A[i + 1]
        A[i] = B[i] * 2.0


@program("shifted copy", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def write_then_read_behind(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32")):
    for i in range(16):
        A[i + 1] = B[i]
        B[i] = A[i]


@program("shifted copy", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def read_behind_then_write(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32")):
    for i in range(16):
        B[i] = A[i]
        A[i + 1] = B[i] * 2.0


@program("shifted copy", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def shift_by_length(A: T.Buffer((32,), "float32")):
    for i in range(16):
        A[i + 16] = A[i]


@program("shifted copy", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def shift_by_less_than_length(A: T.Buffer((31,), "float32")):
    for i in range(16):
        A[i + 15] = A[i]


@program("shifted copy", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def reversal_in_place(A: T.Buffer((16,), "float32")):
    for i in range(16):
        A[i] = A[15 - i]


@program("shifted copy", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def half_reversal(A: T.Buffer((16,), "float32")):
    for i in range(8):
        A[i] = A[15 - i]


# -- disjoint parts -------------------------------------------------------------------------------------------------


@program("disjoint parts", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def disjoint_halves(A: T.Buffer((128,), "float32")):
    for i in range(64):
        A[i] = 1.0
        A[i + 64] = A[i + 64] * 2.0


@program("disjoint parts", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def overlapping_halves(A: T.Buffer((128,), "float32")):
    for i in range(65):
        A[i] = 1.0
        A[i + 63] = 2.0


@program("disjoint parts", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def even_from_odd(A: T.Buffer((64,), "float32")):
    for i in range(32):
        A[i * 2] = A[i * 2 + 1]


@program("disjoint parts", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def even_from_third(A: T.Buffer((100,), "float32")):
    for i in range(32):
        A[i * 2] = A[i * 3]


@program("disjoint parts", parallel={"i": P, "j": P}, vectorized={"j": P})
@T.prim_func
def strips(A: T.Buffer((64,), "float32")):
    for i, j in T.grid(8, 4):
        A[i * 8 + j] = A[i * 8 + j + 4]


@program("disjoint parts", parallel={"i": R}, vectorized={"j": P})
@T.prim_func
def overlapping_strips(A: T.Buffer((64,), "float32")):
    for i, j in T.grid(8, 4):
        A[i * 4 + j] = A[i * 4 + j + 4]


@program("disjoint parts", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def unrolled_by_four(A: T.Buffer((64,), "float32")):
    for i in range(16):
        A[i * 4] = 0.0
        A[i * 4 + 1] = A[i * 4] + 1.0
        A[i * 4 + 2] = A[i * 4 + 1] + 1.0
        A[i * 4 + 3] = A[i * 4 + 2] + 1.0


@program("disjoint parts", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def unrolled_by_four_carried(A: T.Buffer((68,), "float32")):
    for i in range(16):
        A[i * 4 + 1] = A[i * 4] + 1.0
        A[i * 4 + 2] = A[i * 4 + 1] + 1.0
        A[i * 4 + 3] = A[i * 4 + 2] + 1.0
        A[i * 4 + 4] = A[i * 4 + 3] + 1.0


# -- reductions -----------------------------------------------------------------------------------------------------


@program("reduction", parallel={"i": R}, vectorized={"i": R}, bind={"i threadIdx.x": R})
@T.prim_func
def total(A: T.Buffer((128,), "float32"), S: T.Buffer((1,), "float32")):
    for i in range(128):
        S[0] = S[0] + A[i]


@program("reduction", parallel={"i": P, "k": R}, vectorized={"i": P, "k": R}, reorder={"k i": P})
@T.prim_func
def row_sums(A: T.Buffer((8, 16), "float32"), S: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 16):
        S[i] = S[i] + A[i, k]


@program(
    "reduction",
    parallel={"i": P, "j": P, "k": R},
    vectorized={"i": P, "j": P, "k": R},
    reorder={"k i j": P, "i k": P, "k j": P},
)
@T.prim_func
def matmul_without_init(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        C[i, j] += A[i, k] * B[k, j]


@program("reduction", parallel={"i": P, "j": P, "k": R}, vectorized={"j": P, "k": R}, reorder={"k i": P, "j i": P})
@T.prim_func
def matmul_with_guarded_init(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")
):
    for i, j, k in T.grid(8, 8, 8):
        if k == 0:
            C[i, j] = 0.0
        C[i, j] += A[i, k] * B[k, j]


@program("reduction", parallel={"i": P, "j": P, "k": R}, vectorized={"j": P, "k": R})
@T.prim_func
def matmul_block(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] += A[vi, vk] * B[vk, vj]


@program("reduction", reorder={"j i": R}, parallel={"i": R, "j": R})
@T.prim_func
def float_total_of_a_matrix(A: T.Buffer((4, 4), "float32"), S: T.Buffer((1,), "float32")):
    for i, j in T.grid(4, 4):
        S[0] = S[0] + A[i, j]


@program("reduction", reorder={"j i": P}, parallel={"i": R})
@T.prim_func
def int_total_of_a_matrix(A: T.Buffer((4, 4), "int32"), S: T.Buffer((1,), "int32")):
    for i, j in T.grid(4, 4):
        S[0] = S[0] + A[i, j]


@program("reduction", reorder={"j i": P}, parallel={"i": R})
@T.prim_func
def float_max_of_a_matrix(A: T.Buffer((4, 4), "float32"), S: T.Buffer((1,), "float32")):
    for i, j in T.grid(4, 4):
        S[0] = T.max(S[0], A[i, j])


@program("reduction", parallel={"i": U}, vectorized={"i": U})
@T.prim_func
def histogram(X: T.Buffer((64,), "int32"), H: T.Buffer((16,), "int32")):
    for i in range(64):
        H[X[i]] += 1


@program("reduction", parallel={"i": P}, bind={"i blockIdx.x": P, "i threadIdx.x": P})
@T.prim_func
def atomic_histogram(X: T.Buffer((64,), "int32"), H: T.Buffer((16,), "int32")):
    for i in range(64):
        T.evaluate(T.call_intrin("int32", "tir.atomic_add", T.address_of(H[X[i]]), 1))


# -- wavefronts and stencils ----------------------------------------------------------------------------------------


@program("wavefront", parallel={"i": R, "j": R}, vectorized={"i": R, "j": R}, reorder={"j i": P})
@T.prim_func
def wavefront(A: T.Buffer((9, 9), "float32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j + 1] = A[i, j + 1] + A[i + 1, j]


@program("wavefront", parallel={"i": R, "j": P}, vectorized={"j": P}, reorder={"j i": R})
@T.prim_func
def anti_diagonal(A: T.Buffer((9, 9), "float32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j] = A[i, j + 1]


@program("wavefront", parallel={"i": R, "j": P}, vectorized={"j": P}, reorder={"j i": P})
@T.prim_func
def diagonal(A: T.Buffer((9, 9), "float32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j + 1] = A[i, j]


@program("wavefront", parallel={"d": R, "j": P}, vectorized={"j": P}, reorder={"j d": S})
@T.prim_func
def skewed_wavefront(A: T.Buffer((9, 9), "float32")):
    for d in range(15):
        for j in range(T.max(0, d - 7), T.min(8, d + 1)):
            A[d - j + 1, j + 1] = A[d - j, j + 1] + A[d - j + 1, j]


@program("wavefront", parallel={"i": R, "j": R}, vectorized={"j": R}, reorder={"j i": P})
@T.prim_func
def edit_distance(X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32"), D: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(8, 8):
        D[i + 1, j + 1] = T.min(T.min(D[i, j + 1], D[i + 1, j]) + 1, D[i, j] + T.Select(X[i] == Y[j], 0, 1))


@program("stencil", parallel={"t": R, "i": P}, vectorized={"i": P}, reorder={"i t": R})
@T.prim_func
def jacobi_two_buffers(A: T.Buffer((2, 18), "float32")):
    for t, i in T.grid(6, 16):
        A[(t + 1) % 2, i + 1] = A[t % 2, i] + A[t % 2, i + 1] + A[t % 2, i + 2]


@program("stencil", parallel={"t": R, "i": R}, vectorized={"i": R}, reorder={"i t": R})
@T.prim_func
def gauss_seidel(A: T.Buffer((18,), "float32")):
    for t, i in T.grid(6, 16):
        A[i + 1] = A[i] + A[i + 1] + A[i + 2]


@program("stencil", parallel={"c": R, "i": P}, vectorized={"i": P})
@T.prim_func
def red_black(A: T.Buffer((34,), "float32")):
    for c, i in T.grid(2, 16):
        A[i * 2 + c + 1] = A[i * 2 + c] + A[i * 2 + c + 2]


@program("stencil", parallel={"i": P, "j": P}, vectorized={"j": P})
@T.prim_func
def blur(A: T.Buffer((10, 10), "float32"), B: T.Buffer((10, 10), "float32")):
    for i, j in T.grid(10, 10):
        if i > 0 and i < 9 and j > 0 and j < 9:
            B[i, j] = A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]
        else:
            B[i, j] = A[i, j]
