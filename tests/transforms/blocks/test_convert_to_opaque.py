from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.ir import Block, BlockIter, BufferStore, PrimFunc, Range, Seq, Var, const, decl_buffer
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import ConvertBlocksToOpaque, LowerInitBlock


def test_iterators_are_replaced_everywhere_in_the_block() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi = T.axis.spatial(16, i * 4 + j)
                B[vi] = A[vi] + T.Cast("float32", vi)

    @T.prim_func
    def expected(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                T.reads(A[i * 4 + j])
                T.writes(B[i * 4 + j])
                B[i * 4 + j] = A[i * 4 + j] + T.Cast("float32", i * 4 + j)

    check(ConvertBlocksToOpaque(), before, expected)


def test_inner_blocks_bind_to_iterators_of_outer_ones() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int16")):
        for i in range(8):
            with T.block("outer"):
                vi = T.axis.spatial(8, i)
                for j in range(1, 7):
                    with T.block("inner"):
                        wi, wj = T.axis.spatial(8, vi), T.axis.spatial((1, 7), j)
                        A[wi, wj] = T.Cast("int16", wi * 10 + wj)

    @T.prim_func
    def expected(A: T.Buffer((8, 8), "int16")):
        for i in range(8):
            with T.block("outer"):
                T.reads()
                T.writes(A[i, 1:7])
                for j in range(1, 7):
                    with T.block("inner"):
                        T.reads()
                        T.writes(A[i, j])
                        A[i, j] = T.Cast("int16", i * 10 + j)

    check(ConvertBlocksToOpaque(), before, expected)


def test_predicates_are_in_loop_variables_and_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((13,), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("A"):
                T.where(i * 4 + j < 13)
                v = T.axis.spatial(13, i * 4 + j)
                A[v] = v

    after = check(ConvertBlocksToOpaque(), before)
    assert "T.where(i * 4 + j < 13)" in after.script()


def test_buffers_whose_shape_mentions_an_iterator() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32")):
        for i in range(6):
            with T.block("A"):
                v = T.axis.spatial(6, i)
                T.reads()
                T.writes(A[v])
                C = T.alloc_buffer((v + 1,), "int32")
                for k in range(v + 1):
                    C[k] = k * 2
                A[v] = C[v]

    after = check(ConvertBlocksToOpaque(), before)
    assert "T.alloc_buffer((i + 1,)" in after.script()


def test_matched_regions_and_opaque_accesses() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "float32")):
        for i in range(8):
            with T.block("A"):
                v = T.axis.spatial(8, i)
                T.reads()
                T.writes(A[v, 0:8])
                S = T.match_buffer(A[v, 0:8], (8,), offset_factor=1)
                for j in range(8):
                    S[j] = T.Cast("float32", v)
                T.evaluate(T.call_extern("void", "memset", T.address_of(A[v, 2]), 0, 8))

    check(ConvertBlocksToOpaque(), before)


def test_symbolic_sizes_and_other_index_types() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", "m"), "float32")):
        for i, j in T.grid(n, m):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + T.Cast("float32", vi * m + vj)

    check(ConvertBlocksToOpaque(), before, sizes=(0, 1, 3, 7))


def test_bindings_in_while_loops_branches_and_lets() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(8):
                x: T.int32 = 7 - i
                if i % 2 == 0:
                    with T.block("even"):
                        v = T.axis.spatial(8, x)
                        T.reads()
                        T.writes(A[v])
                        A[v] = v
                        while A[v] < 20:
                            A[v] = A[v] * 2 + 1

    check(ConvertBlocksToOpaque(), before)


def test_unit_and_empty_domains() -> None:
    @T.prim_func
    def before(A: T.Buffer((1, 3), "int32")):
        for i, j, k in T.grid(1, 3, 0):
            with T.block("none"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                A[vi, vj] = vk
        for i, j in T.grid(1, 3):
            with T.block("some"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = vj

    check(ConvertBlocksToOpaque(), before)


def test_an_init_must_be_lowered_first() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32")):
        for k in range(4):
            with T.block("B"):
                v = T.axis.reduce(4, k)
                with T.init():
                    B[0] = 0
                B[0] += A[v]

    with pytest.raises(TransformError, match="still has an init") as error:
        ConvertBlocksToOpaque()(before)
    assert "run LowerInitBlock" in str(error.value)
    check(ConvertBlocksToOpaque(), LowerInitBlock()(before))


def test_a_missing_binding_and_a_stray_iterator_are_errors() -> None:
    A = decl_buffer((4,), "int32", "A")
    a, i = Var("a", "handle"), Var("vi", "int32")
    store = BufferStore(A, const(0, "int32"), (i,))
    unbound = Block("A", (BlockIter(i, Range(0, 4), "spatial", None),), True, (), (), None, (), {}, store)
    with pytest.raises(TransformError, match="'vi' of block 'A' has no binding"):
        ConvertBlocksToOpaque()(PrimFunc((a,), {a: A}, None, {}, unbound))
    bound = unbound.with_(iters=(BlockIter(i, Range(0, 4), "spatial", const(1, "int32")),))

    with pytest.raises(TransformError, match="used outside its block"):
        ConvertBlocksToOpaque()(PrimFunc((a,), {a: A}, None, {}, Seq((bound, store))))


def test_functions_without_iterators_come_back_as_they_are() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.block("A"):
            T.reads()
            T.writes(A[0:4])
            for i in range(4):
                A[i] = i

    check(ConvertBlocksToOpaque(), before, before)


@pytest.mark.parametrize("where", ["T.where(vi < 6)", "vj = T.axis.spatial(8, vi)"])
def test_a_predicate_or_binding_in_terms_of_the_blocks_own_iterators(where: str) -> None:
    func = parse(
        f"""
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            {where}
            T.reads(A[vi])
            T.writes()
            T.evaluate(A[vi])
""",
        check_well_formed=False,
    )
    with pytest.raises(TransformError, match="'vi' is used in a predicate or binding of its own block"):
        ConvertBlocksToOpaque()(func)
