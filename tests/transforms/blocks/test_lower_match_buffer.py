from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import ScriptError, TransformError
from tirlower.ir import Block, BufferRegion, MatchBufferRegion, Mutator, Range, Stmt
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerMatchBuffer


def test_accesses_shift_by_the_region() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(4, 4):
            with T.block():
                T.reads(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                T.writes(C[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                S = T.match_buffer(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4], (4, 4), offset_factor=1)
                D = T.match_buffer(C[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4], (4, 4), offset_factor=1)
                for ii, jj in T.grid(4, 4):
                    D[ii, jj] = S[jj, ii] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(4, 4):
            with T.block():
                T.reads(A[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                T.writes(C[i * 4 : i * 4 + 4, j * 4 : j * 4 + 4])
                for ii, jj in T.grid(4, 4):
                    C[i * 4 + ii, j * 4 + jj] = A[i * 4 + jj, j * 4 + ii] + T.float32(1)

    check(LowerMatchBuffer(), before, expected)


def test_the_variables_of_the_match_take_the_values_of_the_region() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block():
                T.reads(A[i, 4:12])
                T.writes(B[i])
                s = T.int32()
                o = T.int32()
                n = T.int32()
                S = T.match_buffer(A[i, 4:12], (n,), "int32", strides=[s], elem_offset=o)
                B[i] = S[7] + n * 1000 + s * 100 + o

    @T.prim_func
    def expected(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block():
                T.reads(A[i, 4:12])
                T.writes(B[i])
                B[i] = A[i, 11] + 8000 + 100 + (i * 16 + 4)

    check(LowerMatchBuffer(), before, expected)


def test_leading_unit_dimensions_may_be_dropped() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 5, 6), "uint8")):
        for i in range(4):
            for j in range(1, 5):
                with T.block():
                    T.reads()
                    T.writes(A[i, j, 0:6])
                    S = T.match_buffer(A[i, j, 0:6], (6,), "uint8", offset_factor=1)
                    for k in range(6):
                        S[k] = T.Cast("uint8", i * 36 + j * 6 + k)

    check(LowerMatchBuffer(), before)


def test_a_match_of_a_match() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 16), "float32")):
        for i in range(4):
            with T.block():
                T.reads()
                T.writes(A[i * 4 : i * 4 + 4, 0:16])
                S = T.match_buffer(A[i * 4 : i * 4 + 4, 0:16], (4, 16), offset_factor=1)
                for j in range(2):
                    with T.block():
                        T.reads()
                        T.writes(S[2 * j : 2 * j + 2, 8:16])
                        R = T.match_buffer(S[2 * j : 2 * j + 2, 8:16], (2, 8), strides=[16, 1], offset_factor=1)
                        for a, b in T.grid(2, 8):
                            R[a, b] = T.Cast("float32", i * 100 + j * 10 + a * 8 + b)

    after = check(LowerMatchBuffer(), before)
    assert "match_buffer" not in after.script() and "T.writes(A[" in after.script()


def test_the_source_may_have_strides_and_be_allocated() -> None:
    @T.prim_func
    def before(C: T.Buffer((4, 4), "int32")):
        with T.block("root"):
            T.reads()
            T.writes(C[0:4, 0:4])
            A = T.alloc_buffer((4, 4), "int32", strides=[6, 1])
            for i in range(4):
                with T.block():
                    T.reads()
                    T.writes(A[i, 0:4], C[i, 0:4])
                    s = T.int32()
                    S = T.match_buffer(A[i, 0:4], (4,), "int32", strides=[s], offset_factor=1)
                    for j in range(4):
                        S[j] = i * 4 + j
                    for j in range(4):
                        C[i, j] = S[3 - j] * s

    check(LowerMatchBuffer(), before)


def test_pointers_to_the_region_start_where_it_starts() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block():
                T.reads(A[i, 0:4])
                T.writes(A[i, 0:4], B[i])
                S = T.match_buffer(A[i, 0:4], (4,), "int32")
                T.evaluate(T.call_extern("handle", "memset", S.data, 1, 8))
                T.evaluate(T.call_extern("handle", "memset", S.access_ptr("w", offset=2), 0, 4))
                T.evaluate(T.call_extern("handle", "memset", T.address_of(S[3]), 2, 4))
                V = T.decl_buffer((2, 2), "int32", data=S.data)
                B[i] = V[1, 1] + S[0]

    check(LowerMatchBuffer(), before)


def test_with_a_stated_offset_the_pointer_is_the_sources() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 4), "float32")):
        for i in range(8):
            with T.block():
                T.reads()
                T.writes(A[i, 0:4])
                S = T.match_buffer(A[i, 0:4], (4,), offset_factor=4)
                T.evaluate(T.call_extern("handle", "memset", S.access_ptr("w"), 0, 16))

    after = check(LowerMatchBuffer(), before)
    assert "A.data, i * 4, 4, 2" in after.script()


def test_symbolic_sizes_loops_branches_and_predicated_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", 8), "float32"), m: T.int32):
        for i in range(n):
            if i < m:
                with T.block():
                    T.reads(A[i, 0:8])
                    T.writes(A[i, 0:8])
                    S = T.match_buffer(A[i, 0:8], (8,), offset_factor=1)
                    S[2:6] = S[2:6] + T.Broadcast(T.float32(1), 4)
                    while S[0] < T.float32(2):
                        S[0] = S[0] + T.float32(1)

    check(LowerMatchBuffer(), before, sizes=(0, 1, 5))


def test_wrong_matches_are_named() -> None:
    @T.prim_func
    def extent(A: T.Buffer((8, 8), "float32")):
        with T.block():
            T.reads()
            T.writes(A[0:4, 0:4])
            S = T.match_buffer(A[0:4, 0:4], (4, 4), offset_factor=1)
            S[0, 0] = T.float32(0)

    class Wider(Mutator):  # the parser would not let it pass
        def visit_Block(self, op: Block) -> Stmt:
            (match,) = op.match_buffers
            source = BufferRegion(match.source.buffer, (match.source.region[0], Range(0, 3)))
            return op.with_(match_buffers=(MatchBufferRegion(match.buffer, source),))

    with pytest.raises(TransformError, match="extent 1 is declared as 4, the region gives 3"):
        LowerMatchBuffer()(extent.with_body(Wider().visit(extent.body)))

    @T.prim_func
    def factor(A: T.Buffer((8, 6), "float32")):
        for i in range(8):
            with T.block():
                T.reads()
                T.writes(A[i, 0:4])
                S = T.match_buffer(A[i, 0:4], (4,), offset_factor=4)
                S[0] = T.float32(0)

    with pytest.raises(TransformError, match="a multiple of 4"):
        LowerMatchBuffer()(factor)

    @T.prim_func
    def stride(A: T.Buffer((8, 6), "float32")):
        with T.block():
            T.reads()
            T.writes(A[0:4, 0:4])
            S = T.match_buffer(A[0:4, 0:4], (4, 4), strides=[4, 1], offset_factor=1)
            S[0, 0] = T.float32(0)

    with pytest.raises(TransformError, match="stride 0 is declared as 4, the region gives 6"):
        LowerMatchBuffer()(stride)


def test_a_function_without_matches_comes_back_as_it_is() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        with T.block():
            T.reads()
            T.writes(A[0])
            A[0] = 1

    check(LowerMatchBuffer(), before, before)


def test_views_of_a_match_without_an_offset_start_where_the_region_does() -> None:
    @T.prim_func
    def before(A: T.Buffer((12,), "int32"), C: T.Buffer((12,), "int32")):
        for i in range(3):
            with T.block():
                T.reads(A[i * 4 : i * 4 + 4])
                T.writes(C[i * 4 : i * 4 + 4])
                S = T.match_buffer(A[i * 4 : i * 4 + 4], (4,), "int32")
                V = T.decl_buffer((2, 2), "int32", data=S.data)
                for j in range(4):
                    C[i * 4 + j] = V[1 - j // 2, j % 2] + S[j]

    check(LowerMatchBuffer(), before)


def test_pointers_of_another_type_start_where_the_region_does() -> None:
    @T.prim_func
    def before(A: T.Buffer((12,), "int32"), C: T.Buffer((12,), "int32")):
        for i in range(3):
            with T.block():
                T.reads(A[i * 4 : i * 4 + 4])
                T.writes(C[i * 4 : i * 4 + 4])
                S = T.match_buffer(A[i * 4 : i * 4 + 4], (4,), "int32")
                T.evaluate(
                    T.call_extern(
                        "handle",
                        "memcpy",
                        T.address_of(C[i * 4]),
                        T.tvm_access_ptr(T.type_annotation("int8"), S.data, 4, 12, 1),
                        12,
                    )
                )

    check(LowerMatchBuffer(), before)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("A[i * 2:i * 2 + 2, 0:8], (2, 8), strides=[m, 1], offset_factor=1", "stride 0 is declared as m"),
        ("A[i * 2:i * 2 + 2, 0:8], (m, 8), offset_factor=1", "extent 0 is declared as m"),
        ("A[i * 2:i * 2 + 2, 0:8], (2, 8), elem_offset=m", "elem_offset is declared as m"),
        ("A[i * 2:i * 2 + 2, 0:8], (2, 8), align=128, offset_factor=1", "asks for an alignment of 128 bytes"),
    ],
)
def test_what_is_defined_elsewhere_is_checked_and_not_bound(match: str, message: str) -> None:
    func = parse(f"""
def f(A: T.Buffer((8, 8), "float32"), m: T.int32):
    for i in range(4):
        with T.block():
            T.reads()
            T.writes(A[i * 2:i * 2 + 2, 0:8])
            S = T.match_buffer({match})
            S[0, 0] = T.Cast("float32", m)
""")
    with pytest.raises(TransformError, match=message):
        LowerMatchBuffer()(func)


def test_an_extent_defined_elsewhere_that_is_the_regions() -> None:
    @T.prim_func
    def before(a: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(a, (n * m, m), "int32")
        for i in range(n):
            with T.block():
                T.reads()
                T.writes(A[i * m : i * m + m, 0:m])
                S = T.match_buffer(A[i * m : i * m + m, 0:m], (m, m), "int32", offset_factor=1)
                for j in range(m):
                    S[j, m - 1 - j] = i + j

    @T.prim_func
    def expected(a: T.handle, n: T.int32, m: T.int32):
        A = T.match_buffer(a, (n * m, m), "int32")
        for i in range(n):
            with T.block():
                T.reads()
                T.writes(A[i * m : i * m + m, 0:m])
                for j in range(m):
                    A[i * m + j, m - 1 - j] = i + j

    check(LowerMatchBuffer(), before, expected)


@pytest.mark.parametrize(
    ("first", "align"), [("4", 16), ("i * 4", 16), ("8", 32), ("3", 4), ("i", 4), ("i * 16", 64), ("16", 64)]
)
def test_a_region_that_starts_where_it_is_aligned_may_say_so(first: str, align: int) -> None:
    func = parse(aligned(first, align))
    assert "match_buffer" not in LowerMatchBuffer()(func).script()


@pytest.mark.parametrize(("first", "align"), [("3", 16), ("i", 8), ("i * 2", 16), ("4", 32), ("i * 8", 64)])
def test_a_region_that_may_start_elsewhere_is_not_aligned(first: str, align: int) -> None:
    with pytest.raises(TransformError, match=f"asks for an alignment of {align} bytes, the region starts"):
        LowerMatchBuffer()(parse(aligned(first, align)))


@pytest.mark.parametrize("align", [3, 12, -4])
def test_an_alignment_is_a_power_of_two(align: int) -> None:
    with pytest.raises(ScriptError, match=f"aligned to {align} bytes"):
        parse(aligned("4", align))


def aligned(first: str, align: int) -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((64,), "float32")):
    for i in range(4):
        with T.block():
            T.reads()
            T.writes(A[0:64])
            S = T.match_buffer(A[{first}:{first} + 8], (8,), align={align})
            S[0] = T.float32(1)
"""
