"""What a buffer's region is where indices read memory, where blocks state what callees reach, where regions match it."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.transforms.memory.test_compact_buffer import COMPACT, allocations
from tirlower.ir import PrimFunc
from tirlower.rewrite.touched_regions import relaxed_by_scope
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import CompactBufferAllocation, PassContext, Simplify


def gather(*, noalias: bool, first: str = "", last: str = "") -> PrimFunc:
    """A row is chosen by an index that is read from memory."""
    return parse(f"""
@T.prim_func
def gather(A: T.Buffer((8, 4), "float32"), I: T.Buffer((6,), "int32"), C: T.Buffer((6, 4), "float32"), J: T.Buffer((6,), "int32")):
    T.func_attr({{"tir.noalias": {noalias}}})
    for i in range(6):
        B = T.alloc_buffer((8, 4), "float32")
        for j in range(4):
            B[I[i], j] = A[I[i], j]
            {first}
        for j in range(4):
            C[i, j] = B[I[i], j]
            {last}
""")


def gathered() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        rng.random((8, 4), dtype="float32"),
        rng.integers(0, 8, 6).astype("int32"),
        np.zeros((6, 4), "float32"),
        rng.integers(0, 8, 6).astype("int32"),
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_an_index_read_from_memory_names_one_row(strict: bool) -> None:
    func = gather(noalias=True)
    after = check(CompactBufferAllocation(strict), func, inputs=[gathered()])
    assert allocations(after) == {"B": (1, 4)}
    text = Simplify()(after).script()
    assert ("B[T.min(I_[i], 0), j] = " if strict else "B[0, j] = ") in text


def test_the_row_is_not_known_where_the_index_may_be_written() -> None:
    # Without noalias, what is stored to C could be in I; so could what is stored to J.
    assert allocations(COMPACT(gather(noalias=False))) == {"B": (8, 4)}
    for first, last in (("I[i] = 7 - I[i]", ""), ("", "I[i] = 7 - I[i]"), ("T.call_extern('int32', 'f', I.data)", "")):
        func = gather(noalias=True, first=first, last=last)
        assert allocations(COMPACT(func)) == {"B": (8, 4)}
    assert allocations(check(COMPACT, gather(noalias=True, first="J[i] = I[i]"), inputs=[gathered()])) == {"B": (1, 4)}


def test_a_store_after_the_last_access_changes_no_region() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), I: T.Buffer((5,), "int32"), C: T.Buffer((5,), "float32")):
        for i in range(4):
            for k in range(I[i], I[i + 1]):
                B = T.alloc_buffer((16,), "float32", scope="local")
                B[I[i] + k] = A[k]
                C[i] = C[i] + B[I[i] + k]

    args = [np.arange(16, dtype="float32"), np.array([0, 1, 3, 3, 6], "int32"), np.zeros(5, "float32")]
    after = check(COMPACT, before, inputs=[args])
    assert allocations(after) == {"B": (1,)}
    assert "B[T.min(I_[i] + k, 0)] = " in after.script()


def test_different_indices_read_from_memory_make_no_region() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), I: T.Buffer((4,), "int32"), n: T.int32):
        T.func_attr({"tir.noalias": True})
        for i in range(4):
            B = T.alloc_buffer((16,), "float32")
            B[3] = A[3]
            if i < n:
                B[I[i]] = A[I[i]]
            A[i] = B[3]

    args = [np.arange(16, dtype="float32"), np.array([3, 5, 3, 15], "int32"), 4]
    assert allocations(check(COMPACT, before, inputs=[args])) == {"B": (16,)}


@pytest.mark.parametrize(
    ("stated", "shape"),
    [
        ("T.writes(C[i:i + 9, 0:4])", (520, 4)),  # rows stay as they are; fewer of them
        ("T.writes(C[i:i + 9, 0:2])", (520, 4)),  # a callee counts by the row's length
        ("T.writes(C[i + 3:i + 9, 0:4])", (520, 4)),  # and from the first row
    ],
)
def test_pointers_in_blocks_that_state_what_is_reached(stated: str, shape: tuple[int, ...]) -> None:
    text = f"""
@T.prim_func
def opaque(A: T.Buffer((1024,), "float32")):
    B = T.alloc_buffer((1024,), "float32")
    C = T.alloc_buffer((1024, 4), "float32")
    for i in range(512):
        with T.block():
            T.reads()
            T.writes()
            T.call_extern("int32", "f", A.data, B.data)
            B[i] = A[i]
    for i in range(512):
        with T.block():
            T.reads()
            {stated}
            T.block_attr({{"explicit_write_region": [0]}})
            T.call_extern("int32", "f", A.data, C.data, T.address_of(C[i, 0]))
            C[i, 0] = A[i]
"""
    after = check(COMPACT, parse(text), execute=False)
    assert allocations(after) == {"B": (1024,), "C": shape}
    unstated = text.replace('T.block_attr({"explicit_write_region": [0]})', "pass")
    assert allocations(COMPACT(parse(unstated)))["C"] == (1024, 4)


def test_an_address_moves_with_its_row() -> None:
    func = parse("""
@T.prim_func
def tail(A: T.Buffer((64, 4), "float32")):
    C = T.alloc_buffer((64, 4), "float32")
    for i in range(8):
        with T.block():
            T.reads()
            T.writes(C[i + 8, 0:4])
            T.block_attr({"explicit_write_region": [0]})
            T.call_extern("int32", "f", T.address_of(C[i + 8, 0]))
    for i in range(8):
        with T.block():
            T.reads(C[i + 8, 0:4])
            T.writes(A[i, 0:4])
            for j in range(4):
                A[i, j] = C[i + 8, j]
""")
    after = check(COMPACT, func, execute=False)
    assert allocations(after) == {"C": (8, 4)}
    assert "T.address_of(C[i, 0])" in after.script()


def test_declared_regions_move_with_the_accesses() -> None:
    func = parse("""
@T.prim_func
def halves(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    B = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 8):
        with T.block():
            if i >= 4 and j >= 5:
                B[i, j] = A[i, j] * 2
    for i, j in T.grid(8, 8):
        with T.block():
            T.reads(B[i, 0:8])
            T.writes(C[i, j])
            C[i, j] = T.if_then_else(i >= 4 and j >= 5, B[i, j], 0)
""")
    after = check(COMPACT, func)
    assert allocations(after) == {"B": (4, 3)}
    text = after.script()
    assert "T.writes(B[i - 4, j - 5])" in text and "T.reads(B[i - 4, -5:3])" in text


def test_a_block_matches_a_region_of_its_own_allocation() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 8), "float32"), C: T.Buffer((16, 8), "float32")):
        for i in range(16):
            with T.block("outer"):
                T.reads(A[i, 0:8])
                T.writes(C[i, 0:8])
                B = T.alloc_buffer((16, 8), "float32")
                row = T.match_buffer(B[i, 2:6], (4,), offset_factor=1)
                for j in range(4):
                    row[j] = A[i, j + 2] * T.float32(3)
                for j in range(4):
                    C[i, j] = row[3 - j]

    after = check(COMPACT, before)
    assert allocations(after) == {"B": (1, 4)}
    assert "T.match_buffer(B[0, 0:4], (4,)" in after.script()
    with PassContext(validate=True):
        kernel = tl.build(before, schedule="none")
    a, c = np.random.default_rng(0).random((16, 8), dtype="float32"), np.zeros((16, 8), "float32")
    kernel(a, c)
    assert np.array_equal(c[:, :4], a[:, 5:1:-1] * np.float32(3))


@pytest.mark.parametrize(("strict", "index"), [(True, "i * 8 + a - T.max(0, i * 8 - 1) - 1"), (False, "a")])
def test_a_tile_with_a_border_that_the_first_one_lacks(strict: bool, index: str) -> None:
    func = parse("""
@T.prim_func
def border(A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for i in range(2):
        B = T.alloc_buffer((16,), "int32")
        for a in range(9):
            if 1 <= i * 8 + a:
                B[i * 8 + a - 1] = A[i * 8 + a - 1]
        for a in range(8):
            C[i * 8 + a] = B[i * 8 + a] + T.if_then_else(1 <= i * 8 + a, B[i * 8 + a - 1], 0)
""")
    after = check(CompactBufferAllocation(strict), func)
    assert allocations(after) == {"B": (9,)}
    assert f"B[{index}] = " in after.script()


@pytest.mark.parametrize(
    ("scope", "shared_by"),
    [
        ("global", ["blockIdx.x", "threadIdx.x", "threadIdx.y"]),
        ("shared", ["threadIdx.x", "threadIdx.y"]),
        ("shared.dyn", ["threadIdx.x", "threadIdx.y"]),
        ("warp", ["threadIdx.x"]),
        ("local", []),
        ("wmma.accumulator", []),
    ],
)
def test_which_threads_share_an_allocation(scope: str, shared_by: list[str]) -> None:
    tags = ("blockIdx.x", "threadIdx.x", "threadIdx.y")
    assert [tag for tag in tags if relaxed_by_scope(scope, tag)] == shared_by


@pytest.mark.parametrize(("scope", "size"), [("global", 128), ("shared", 32), ("warp", 32), ("local", 1)])
def test_memory_in_threads_has_room_for_all_that_share_it(scope: str, size: int) -> None:
    func = parse(f"""
def f(A: T.Buffer((128,), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((256,), "float32", scope="{scope}")
            s[bx * 32 + tx] = A[bx * 32 + tx]
            A[bx * 32 + tx] = s[bx * 32 + tx] + T.float32(1)
""")
    assert allocations(CompactBufferAllocation()(func)) == {"s": (size,)}
