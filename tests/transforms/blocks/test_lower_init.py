from __future__ import annotations

from tests.checking import check
from tirlower.script import tir as T
from tirlower.transforms import LowerInitBlock


def test_the_init_runs_where_every_reduction_iterator_is_at_its_start() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4, 6), "float32"), B: T.Buffer((8,), "float32")):
        for i, j in T.grid(8, 4):
            for k in range(2, 6):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vj, vk]

    @T.prim_func
    def expected(A: T.Buffer((8, 4, 6), "float32"), B: T.Buffer((8,), "float32")):
        for i, j in T.grid(8, 4):
            for k in range(2, 6):
                with T.block("B"):
                    vi, vj, vk = T.axis.remap("SRR", [i, j, k])
                    T.reads(A[vi, vj, vk])
                    T.writes(B[vi])
                    if vj == 0 and vk == 2:
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vj, vk]

    check(LowerInitBlock(), before, expected)


def test_without_reduction_iterators_the_init_always_runs() -> None:
    @T.prim_func
    def before(A: T.Buffer((5,), "int8"), B: T.Buffer((5,), "int8")):
        for i in range(5):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                with T.init():
                    B[vi] = T.int8(1)
                B[vi] = B[vi] + A[vi]

    @T.prim_func
    def expected(A: T.Buffer((5,), "int8"), B: T.Buffer((5,), "int8")):
        for i in range(5):
            with T.block("B"):
                vi = T.axis.spatial(5, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = T.int8(1)
                B[vi] = B[vi] + A[vi]

    check(LowerInitBlock(), before, expected)


def test_a_symbolic_reduction_and_an_int64_iterator() -> None:
    @T.prim_func
    def before(A: T.Buffer((T.int64(3), "n"), "float64"), B: T.Buffer((T.int64(3),), "float64")):
        for i, k in T.grid(T.int64(3), n):
            with T.block("B"):
                vi = T.axis.spatial(T.int64(3), i)
                vk = T.axis.reduce(n, k)
                with T.init():
                    B[vi] = T.float64(0)
                B[vi] += A[vi, vk]

    check(LowerInitBlock(), before, sizes=(0, 1, 7))


def test_several_statements_and_buffers_in_one_init() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 7), "int32"), M: T.Buffer((4,), "int32"), S: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 7):
            with T.block("both"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("int32")
                    S[vi] = 0
                M[vi] = T.max(M[vi], A[vi, vk])
                S[vi] = S[vi] + A[vi, vk]

    @T.prim_func
    def expected(A: T.Buffer((4, 7), "int32"), M: T.Buffer((4,), "int32"), S: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 7):
            with T.block("both"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk])
                T.writes(M[vi], S[vi])
                if vk == 0:
                    M[vi] = T.min_value("int32")
                    S[vi] = 0
                M[vi] = T.max(M[vi], A[vi, vk])
                S[vi] = S[vi] + A[vi, vk]

    check(LowerInitBlock(), before, expected)


def test_the_init_stands_after_the_allocations_that_it_uses() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "float32"), B: T.Buffer((1,), "float32")):
        for k in range(6):
            with T.block("B"):
                vk = T.axis.reduce(6, k)
                T.reads(A[vk], B[0])
                T.writes(B[0])
                C = T.alloc_buffer((1,), "float32")
                with T.init():
                    C[0] = T.float32(2)
                    B[0] = C[0]
                C[0] = A[vk]
                B[0] = B[0] + C[0]

    after = check(LowerInitBlock(), before)
    text = after.script()
    assert text.index("alloc_buffer") < text.index("if vk == 0")


def test_nested_blocks_have_inits_of_their_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4, 3), "float32"), B: T.Buffer((4,), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("outer"):
                vi, vj = T.axis.remap("SR", [i, j])
                T.reads(A[vi, vj, 0:3], B[vi])
                T.writes(B[vi])
                C = T.alloc_buffer((1,), "float32")
                with T.init():
                    B[vi] = T.float32(10)
                for k in range(3):
                    with T.block("inner"):
                        vk = T.axis.reduce(3, k)
                        with T.init():
                            C[0] = T.float32(0)
                        C[0] = C[0] + A[vi, vj, vk]
                B[vi] = B[vi] + C[0]

    check(LowerInitBlock(), before)


def test_predicates_stay_and_guard_the_init_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((13,), "int32"), B: T.Buffer((1,), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                T.where(i * 4 + j < 13)
                vk = T.axis.reduce(13, i * 4 + j)
                with T.init():
                    B[0] = 0
                B[0] = B[0] + A[vk]

    after = check(LowerInitBlock(), before)
    assert "T.where(i * 4 + j < 13)" in after.script()


def test_a_declaration_alone_in_an_init_does_not_reach_the_body() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for k in range(4):
            with T.block("B"):
                vk = T.axis.reduce(4, k)
                with T.init():
                    _x: T.int32 = vk + 1
                A[vk] = vk

    check(LowerInitBlock(), before)


def test_opaque_calls_and_while_loops_in_an_init() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 3), "int32"), B: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 3):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk], B[vi])
                T.writes(B[vi])
                with T.init():
                    B[vi] = 9
                    while B[vi] > 0:
                        B[vi] = B[vi] - 4
                    T.evaluate(T.call_extern("void", "memset", T.address_of(B[vi]), 0, 4))
                B[vi] = B[vi] + A[vi, vk]

    check(LowerInitBlock(), before)


def test_a_function_without_inits_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("A"):
                vi = T.axis.spatial(4, i)
                A[vi] = vi

    check(LowerInitBlock(), before, before)


def test_an_iterator_that_starts_beyond_int32() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int64"), B: T.Buffer((1,), "int64")):
        for k in range(T.int64(4294967296), T.int64(4294967300)):
            with T.block("B"):
                vk = T.axis.reduce((T.int64(4294967296), T.int64(4294967300)), k)
                with T.init():
                    B[0] = T.int64(1)
                B[0] = B[0] + A[vk - T.int64(4294967296)] + vk

    @T.prim_func
    def expected(A: T.Buffer((4,), "int64"), B: T.Buffer((1,), "int64")):
        for k in range(T.int64(4294967296), T.int64(4294967300)):
            with T.block("B"):
                vk = T.axis.reduce((T.int64(4294967296), T.int64(4294967300)), k)
                T.reads(A[vk - T.int64(4294967296)])
                T.writes(B[0])
                if vk == T.int64(4294967296):
                    B[0] = T.int64(1)
                B[0] = B[0] + A[vk - T.int64(4294967296)] + vk

    check(LowerInitBlock(), before, expected)
