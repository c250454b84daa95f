"""The legality table: programs with known answers, legal and illegal, for parallel, vectorized, reorder and bind.

Each program states what it is asked and the right answer: "proved", "refuted" (by a dependence, with a witness),
"structure" (refuted for its form, without a witness) or "unknown". ``sizes`` are symbolic sizes to run a witness with
where it names none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.ir import PrimFunc
from tirlower.script import tir as T

__all__ = ["TABLE", "Program", "Question"]


@dataclass(frozen=True)
class Question:
    """What a program is asked: the kind, the loops (or loop and thread), and the right answer."""

    kind: str
    loops: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Program:
    """A program, its theme and its questions."""

    name: str
    theme: str
    func: PrimFunc
    questions: tuple[Question, ...]


TABLE: list[Program] = []


def program(
    theme: str,
    *,
    parallel: Mapping[str, str] | None = None,
    vectorized: Mapping[str, str] | None = None,
    reorder: Mapping[str, str] | None = None,
    bind: Mapping[str, str] | None = None,
) -> Callable[[PrimFunc], PrimFunc]:
    """Enter a program: ``{"i j": answer}``, loops by name, for ``bind`` the loop and the thread."""

    def enter(func: PrimFunc) -> PrimFunc:
        asked: list[Question] = []
        given: Sequence[tuple[str, Mapping[str, str] | None]] = (
            ("parallel", parallel), ("vectorized", vectorized), ("reorder", reorder), ("bind", bind),
        )  # fmt: skip
        for kind, answers in given:
            for loops, answer in (answers or {}).items():
                asked.append(Question(kind, tuple(loops.split()), answer))
        TABLE.append(Program(func.name, theme, func, tuple(asked)))
        return func

    return enter


P, R, U, S = "proved", "refuted", "unknown", "structure"


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


@program("temporaries", parallel={"i": R}, vectorized={"i": P})
@T.prim_func
def fill_row_buffer(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32"), R: T.Buffer((4,), "float32")):
    for i in range(8):
        for j in T.vectorized(4):
            R[j] = A[i, j]
        for j2 in range(4):
            B[i, j2] = R[j2]


TABLE[-1] = Program(
    "fill_row_buffer",
    "temporaries",
    TABLE[-1].func,
    (Question("parallel", ("i",), R), Question("vectorized", ("i",), R)),
)


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


@program("indirect", parallel={"i": U})
@T.prim_func
def pointer_chase(I: T.Buffer((16,), "int32"), X: T.Buffer((1,), "int32")):
    for i in range(16):
        X[0] = I[X[0]]


TABLE[-1] = Program("pointer_chase", "indirect", TABLE[-1].func, (Question("parallel", ("i",), R),))


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


@program("nested parallel", parallel={"i": R, "j": R})
@T.prim_func
def nested_parallel_sum_index(A: T.Buffer((15,), "int32")):
    for i in T.parallel(8):
        for j in T.parallel(8):
            A[i + j] = 1


TABLE[-1] = Program(
    "nested_parallel_sum_index",
    "nested parallel",
    TABLE[-1].func,
    (Question("parallel", ("i",), R), Question("parallel", ("j",), P)),
)


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
