"""Split, fused and tiled indices, triangular loops, guards, symbolic sizes: what the forms of indices decide."""

from __future__ import annotations

from tests.poly.legality_base import P, R, S, U, program
from tirlower.script import tir as T

# -- split, fused and tiled indices ---------------------------------------------------------------------------------


@program("split and fused", parallel={"io": P, "ii": P}, vectorized={"ii": P}, reorder={"ii io": P})
@T.prim_func
def split(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for io, ii in T.grid(8, 8):
        B[io * 8 + ii] = A[io * 8 + ii]


@program("split and fused", parallel={"io": R, "ii": P}, vectorized={"ii": P})
@T.prim_func
def split_too_wide(A: T.Buffer((65,), "float32"), B: T.Buffer((65,), "float32")):
    for io, ii in T.grid(8, 9):
        B[io * 8 + ii] = A[io * 8 + ii]


@program("split and fused", parallel={"f": P}, vectorized={"f": P}, bind={"f blockIdx.x": P})
@T.prim_func
def fused(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 8), "float32")):
    for f in range(96):
        B[f % 12, f // 12] = A[f // 12, f % 12]


@program("split and fused", parallel={"f": R}, vectorized={"f": R})
@T.prim_func
def fused_with_wrong_divisor(A: T.Buffer((8, 12), "float32"), B: T.Buffer((12, 12), "float32")):
    for f in range(96):
        B[f % 12, f // 16] = A[f // 12, f % 12]


@program("split and fused", parallel={"f": P}, vectorized={"f": P})
@T.prim_func
def fused_three(B: T.Buffer((4, 5, 6), "float32")):
    for f in range(120):
        B[f // 30, f // 6 % 5, f % 6] = 1.0


@program(
    "split and fused",
    parallel={"io": P, "jo": P, "ko": R, "ii": P, "ji": P, "ki": R},
    vectorized={"ji": P},
    reorder={"ko io jo": P, "ii ko": P},
)
@T.prim_func
def tiled_matmul(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for io, jo, ko, ii, ji, ki in T.grid(4, 4, 4, 4, 4, 4):
        C[io * 4 + ii, jo * 4 + ji] += A[io * 4 + ii, ko * 4 + ki] * B[ko * 4 + ki, jo * 4 + ji]


@program("split and fused", reorder={"ki ko": R}, parallel={"ko": R})
@T.prim_func
def split_reduction(A: T.Buffer((16,), "float32"), S: T.Buffer((1,), "float32")):
    for ko, ki in T.grid(4, 4):
        S[0] += A[ko * 4 + ki]


@program("split and fused", parallel={"io": P}, vectorized={"ii": P})
@T.prim_func
def split_with_guard(A: T.Buffer((61,), "float32"), B: T.Buffer((61,), "float32")):
    for io, ii in T.grid(8, 8):
        if io * 8 + ii < 61:
            B[io * 8 + ii] = A[io * 8 + ii] + 1.0


@program("split and fused", parallel={"io": P, "ii": R}, vectorized={"ii": R})
@T.prim_func
def clamped_in_a_tile(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for io, ii in T.grid(8, 8):
        B[T.min(io * 8 + ii, 60)] = A[io * 8 + ii]


@program("split and fused", parallel={"io": R, "ii": R}, vectorized={"ii": R})
@T.prim_func
def clamped_across_tiles(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for io, ii in T.grid(8, 8):
        B[T.max(io * 8 + ii, 10)] = A[io * 8 + ii]


@program("split and fused", parallel={"f": P}, vectorized={"f": P})
@T.prim_func
def im2col(A: T.Buffer((6, 6), "float32"), B: T.Buffer((16, 9), "float32")):
    for f in range(144):
        B[f // 9, f % 9] = A[f // 9 // 4 + f % 9 // 3, f // 9 % 4 + f % 9 % 3]


@program("split and fused", parallel={"i": P}, vectorized={"j": P})
@T.prim_func
def swizzle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        B[i, (j + i) % 8] = A[i, j]


# -- triangular loops -----------------------------------------------------------------------------------------------


@program("triangular", parallel={"i": P, "j": P}, vectorized={"j": P}, reorder={"j i": S})
@T.prim_func
def lower_triangle(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i + 1):
            A[i, j] = 0.0


@program("triangular", parallel={"i": P, "j": P}, vectorized={"j": P})
@T.prim_func
def mirror(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            A[j, i] = A[i, j]


@program("triangular", parallel={"i": R, "j": R}, vectorized={"j": R})
@T.prim_func
def forward_substitution(L: T.Buffer((8, 8), "float32"), X: T.Buffer((8,), "float32")):
    for i in range(8):
        for j in range(i):
            X[i] = X[i] - L[i, j] * X[j]


@program("triangular", parallel={"k": R, "i": P, "j": P}, vectorized={"j": P}, reorder={"j i": P})
@T.prim_func
def lu_update(A: T.Buffer((8, 8), "float32")):
    for k in range(8):
        for i in range(7 - k):
            for j in range(7 - k):
                A[k + 1 + i, k + 1 + j] -= A[k + 1 + i, k] * A[k, k + 1 + j]


@program("triangular", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def packed_triangle(A: T.Buffer((8, 8), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(8):
        for j in range(i + 1):
            B[i * 8 + j] = A[i, j]


# -- guards ---------------------------------------------------------------------------------------------------------


@program("guards", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def only_even_write(A: T.Buffer((32,), "float32")):
    for i in range(31):
        if i % 2 == 0:
            A[i] = A[i + 1]


@program("guards", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def only_below_write(A: T.Buffer((32,), "float32")):
    for i in range(31):
        if i < 16:
            A[i] = A[i + 1]


@program("guards", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def one_iteration_writes(A: T.Buffer((1,), "int32")):
    for i in range(16):
        if i == 5:
            A[0] = i


@program("guards", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def two_iterations_write(A: T.Buffer((1,), "int32")):
    for i in range(16):
        if i == 5 or i == 7:
            A[0] = i


@program("guards", parallel={"i": U}, vectorized={"i": U})
@T.prim_func
def data_guard(A: T.Buffer((16,), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(16):
        if A[i] > 0:
            B[0] = i


@program("guards", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def data_guard_of_own_element(A: T.Buffer((16,), "int32")):
    for i in range(16):
        if A[i] > 0:
            A[i] = 0


@program("guards", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def padded_load(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = T.if_then_else(i > 0, A[i - 1], 0.0)


@program("guards", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def first_half_reads_second(A: T.Buffer((32,), "float32")):
    for i in range(32):
        if i < 16:
            A[i] = 1.0
        else:
            A[i] = A[i] + 1.0


# -- symbolic sizes -------------------------------------------------------------------------------------------------


@program("symbolic sizes", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def symbolic_add(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), n: T.int32):
    for i in range(n):
        B[i] = A[i] + 1.0


@program("symbolic sizes", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def symbolic_scan(A: T.Buffer(("n",), "float32"), n: T.int32):
    for i in range(n - 1):
        A[i + 1] = A[i]


@program("symbolic sizes", parallel={"i": R}, vectorized={"i": R})
@T.prim_func
def symbolic_distance(A: T.Buffer((100,), "float32"), k: T.int32):
    for i in range(16):
        A[i + k] = A[i]


@program("symbolic sizes", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def symbolic_distance_assumed(A: T.Buffer((100,), "float32"), k: T.int32):
    T.evaluate(T.assume(k >= 16))
    for i in range(16):
        A[i + k] = A[i]


@program("symbolic sizes", parallel={"i": P})
@T.prim_func
def symbolic_distance_asserted(A: T.Buffer((100,), "float32"), k: T.int32):
    assert k >= 16, "far enough"
    for i in range(16):
        A[i + k] = A[i]


@program("symbolic sizes", parallel={"i": P}, vectorized={"i": P})
@T.prim_func
def symbolic_halves(A: T.Buffer(("n * 2",), "float32"), n: T.int32):
    for i in range(n):
        A[i + n] = A[i]


@program("symbolic sizes", parallel={"io": P, "jo": P, "ko": R, "ii": P}, vectorized={"ji": P}, reorder={"ko io": P})
@T.prim_func
def symbolic_tiled_matmul(
    A: T.Buffer(("n", "k"), "float32"), B: T.Buffer(("k", "m"), "float32"), C: T.Buffer(("n", "m"), "float32"),
    n: T.int32, m: T.int32, k: T.int32,
):  # fmt: skip
    for io, jo, ko, ii, ji, ki in T.grid((n + 7) // 8, (m + 7) // 8, (k + 7) // 8, 8, 8, 8):
        if io * 8 + ii < n and jo * 8 + ji < m and ko * 8 + ki < k:
            C[io * 8 + ii, jo * 8 + ji] += A[io * 8 + ii, ko * 8 + ki] * B[ko * 8 + ki, jo * 8 + ji]


@program("symbolic sizes", parallel={"f": P}, vectorized={"f": P})
@T.prim_func
def symbolic_fused(A: T.Buffer(("n", "m"), "float32"), n: T.int32, m: T.int32):
    for f in range(n * m):
        A[f // m, f % m] = 1.0
