"""Bulk copies and tile copies: swizzles by enumeration, bounds by NumPy, barriers and groups that they need."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_bulk import swizzled
from tirlower.script import parse

SEEDS = [None, 0, 1]


@pytest.mark.parametrize("span", [32, 64, 128])
def test_the_swizzle_is_the_stated_one(span):
    # Rows of the span: the number of a chunk in its row changes by the row, by every second, or by every fourth.
    chunks = span // 16
    for row, chunk, byte in itertools.product(range(16), range(chunks), (0, 1, 15)):
        mask = {128: row % 8, 64: row // 2 % 4, 32: row // 4 % 2}[span]
        assert swizzled(row * span + chunk * 16 + byte, span) == row * span + (chunk ^ mask) * 16 + byte


@pytest.mark.parametrize("span", [32, 64, 128])
def test_a_column_of_chunks_meets_all_banks(span):
    # Eight rows of one chunk column lie in as many of the eight chunk columns of 128 bytes as the rows allow.
    found = {swizzled(row * span, span) % 128 // 16 for row in range(8)}
    assert len(found) == 8


def test_no_swizzle_moves_nothing():
    assert [swizzled(at, 0) for at in (0, 16, 1000)] == [0, 16, 1000]


def bulk_kernel(size="256", offset="0", wait="T.ptx_wait_barrier(0)", expect="256"):
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer((80,), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_cp_async_bulk("float32", s.data, 0, A.data, {offset}, {size}, 0)
            T.ptx_arrive_barrier_expect_tx(0, {expect})
        {wait}
        B[tx] = s[63 - tx]
        B[tx + 32] = s[31 - tx]
""")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bulk_copy(seed):
    a, b = np.arange(80, dtype=np.float32), np.zeros(64, np.float32)
    interpret(bulk_kernel(offset="8"), a, b, seed=seed, races=True)
    np.testing.assert_array_equal(b, a[8:72][::-1])


def test_a_bulk_copy_without_a_wait():
    arrays = np.zeros(80, np.float32), np.zeros(64, np.float32)
    with pytest.raises(UnboundError):
        interpret(bulk_kernel(wait='T.tvm_storage_sync("shared")'), *arrays)
    with pytest.raises(InterpreterError, match=r"data race on 's'.*bulk copy"):
        interpret(bulk_kernel(wait='T.tvm_storage_sync("shared")'), *arrays, races=True)


WRONG = {
    "bytes": ({"size": "252"}, "multiple of 16 bytes, got 252"),
    "an offset": ({"offset": "2"}, "byte 8 of 'A', which is no multiple of 16"),
    "more bytes than come": ({"expect": "272"}, "16 bytes that were announced have not"),
    "fewer bytes than come": ({"expect": "128"}, "128 bytes that nobody announced"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_with_bulk_copies(name):
    options, message = WRONG[name]
    with pytest.raises(InterpreterError, match=message):
        interpret(bulk_kernel(**options), np.zeros(80, np.float32), np.zeros(64, np.float32))


def test_a_bulk_copy_outside_its_source():
    with pytest.raises(BoundsError, match=r"'A'.*reach outside"):
        interpret(bulk_kernel(offset="32"), np.zeros(80, np.float32), np.zeros(64, np.float32))


# ---------------------------------------------------------------- tiles


def load_tile(dtype, swizzle, coordinates, box, extents, strides, sync="T.ptx_wait_barrier(0)"):
    count = int(np.prod(box))
    size = np.dtype(dtype).itemsize * count
    total = max(int(np.dot([e - 1 for e in extents], [*strides, 1])) + 1, 1)
    numbers = ", ".join(map(str, (*coordinates, *box, *extents, *strides)))
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer(({total},), "{dtype}"), B: T.Buffer(({count},), "{dtype}")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer(({count},), "{dtype}", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_fence_barrier_init()
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_arrive_barrier_expect_tx(0, {size})
            T.ptx_cp_async_bulk_tensor("{dtype}", s.data, 0, A.data, {swizzle}, 0, {len(box)}, {numbers})
        {sync}
        if tx == 0:
            for i in range({count}):
                B[i] = s[i]
"""), total


def boxed(a, coordinates, box):
    """The box of an array, zeros outside of it."""
    out = np.zeros(box, a.dtype)
    for at in itertools.product(*map(range, box)):
        source = tuple(c + i for c, i in zip(coordinates, at, strict=True))
        if all(0 <= i < extent for i, extent in zip(source, a.shape, strict=True)):
            out[at] = a[source]
    return out


def unswizzled(flat, box, swizzle):
    """A tile of shared memory as its rows, by the stated permutation of chunks."""
    raw = flat.tobytes()
    if swizzle == 0:
        return flat.reshape(box)
    chunks, order = swizzle // 16, []
    for line in range(len(raw) // swizzle):
        mask = {128: line % 8, 64: line // 2 % 4, 32: line // 4 % 2}[swizzle]
        order += [line * chunks + (chunk ^ mask) for chunk in range(chunks)]
    parts = [raw[16 * at : 16 * at + 16] for at in order]
    return np.frombuffer(b"".join(parts), flat.dtype).reshape(box)


TILES = {
    "inside": ("float16", 0, (3, 8), (4, 16), (20, 40), (40,)),
    "over the ends": ("float16", 0, (17, 32), (8, 16), (20, 40), (40,)),
    "in front of the start": ("float16", 0, (-2, -3), (8, 16), (20, 40), (40,)),
    "all outside": ("float16", 0, (30, 0), (8, 16), (20, 40), (40,)),
    "rank 1": ("float32", 0, (5,), (16,), (18,), ()),
    "rank 3": ("float32", 0, (1, 2, 3), (2, 3, 8), (3, 4, 12), (64, 12)),
    "padded rows": ("float16", 0, (1, 0), (4, 8), (6, 20), (24,)),
    "swizzle 128": ("float16", 128, (2, 0), (16, 64), (30, 64), (64,)),
    "swizzle 64": ("float16", 64, (2, 8), (16, 32), (30, 64), (64,)),
    "swizzle 32": ("float16", 32, (2, 56), (16, 16), (30, 64), (64,)),
    "swizzle 128 of float32, over the end": ("float32", 128, (27, 16), (8, 32), (30, 36), (36,)),
}


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", TILES)
def test_a_tile_is_the_box(name, seed):
    dtype, swizzle, coordinates, box, extents, strides = TILES[name]
    kernel, total = load_tile(*TILES[name])
    a = np.random.default_rng(0).standard_normal(total).astype(dtype)
    b = np.full(int(np.prod(box)), 9, dtype)
    interpret(kernel, a, b, seed=seed, races=True)
    size = np.dtype(dtype).itemsize
    tensor = np.lib.stride_tricks.as_strided(a, extents, [size * step for step in (*strides, 1)])
    np.testing.assert_array_equal(unswizzled(b, box, swizzle), boxed(tensor, coordinates, box))


REFUSED = {
    "rows of 24 bytes": (("float16", 0, (0, 0), (4, 12), (8, 16), (16,)), "24 bytes, not a multiple of 16"),
    "rows longer than the swizzle": (("float16", 64, (0, 0), (8, 64), (8, 64), (64,)), "of at most the swizzle's 64"),
    "strides": (("float16", 0, (0, 0), (4, 8), (8, 12), (12,)), "not multiples of 16 bytes"),
    "a large box": (("float16", 0, (0, 0), (257, 8), (8, 8), (8,)), "not of 1 to 256"),
    "a swizzle": (("float16", 48, (0, 0), (8, 8), (8, 8), (8,)), "a swizzle of 0, 32, 64 or 128"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_engine_refuses(name):
    options, message = REFUSED[name]
    kernel, total = load_tile(*options)
    with pytest.raises(InterpreterError, match=message):
        interpret(kernel, np.zeros(total, options[0]), np.zeros(int(np.prod(options[3])), options[0]))


def test_a_tile_that_is_smaller_than_its_pattern():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((4, 64), "float16")):
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        s = T.alloc_buffer((1024,), "float16", scope="shared")
        T.create_barriers(1)
        T.ptx_init_barrier_thread_count(0, 1)
        T.ptx_cp_async_bulk_tensor("float16", s.data, 64, A.data, 64, 0, 2, 0, 0, 1, 8, 4, 64, 64)
""")
    with pytest.raises(InterpreterError, match="reach outside its 16 bytes by the swizzle"):
        interpret(kernel, np.zeros((4, 64), np.float16))


STORE = """
@T.prim_func
def kernel(A: T.Buffer((8, 64), "float16"), B: T.Buffer((12, 80), "float16")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((8, 64), "float16", scope="shared")
        for i in range(8):
            s[i, tx // 8 * 8 + tx % 8] = A[i, (tx // 8) * 8 + tx % 8]
        T.ptx_fence_proxy_async()
        T.tvm_storage_sync("shared")
        if tx == 0:
            T.ptx_cp_async_bulk_tensor_store("float16", B.data, s.data, 0, 0, 2, ROW, COLUMN, 8, 64, 12, 80, 80)
            T.ptx_bulk_commit_group()
            T.ptx_bulk_wait_group(0)
"""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("at", [(2, 8), (6, 40), (-3, -5)])
def test_a_tile_store_leaves_what_is_outside(at, seed):
    kernel = parse(STORE.replace("ROW", str(at[0])).replace("COLUMN", str(at[1])))
    a = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float16)
    b = np.zeros((12, 80), np.float16)
    interpret(kernel, a, b, seed=seed, races=True)
    want = np.zeros_like(b)
    for i, j in itertools.product(range(8), range(64)):
        if 0 <= at[0] + i < 12 and 0 <= at[1] + j < 80:
            want[at[0] + i, at[1] + j] = a[i, j]
    np.testing.assert_array_equal(b, want)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_store_undoes_the_swizzle_of_a_load(swizzle):
    width = swizzle // 2
    kernel = parse(f"""
@T.prim_func
def kernel(A: T.Buffer((16, {width}), "float16"), B: T.Buffer((16, {width}), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((16, {width}), "float16", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_arrive_barrier_expect_tx(0, {16 * swizzle})
            T.ptx_cp_async_bulk_tensor("float16", s.data, 0, A.data, {swizzle}, 0, 2, 0, 0, 16, {width}, 16, {width}, {width})
            T.ptx_wait_barrier(0)
            T.ptx_cp_async_bulk_tensor_store("float16", B.data, s.data, 0, {swizzle}, 2, 0, 0, 16, {width}, 16, {width}, {width})
            T.ptx_bulk_commit_group()
            T.ptx_bulk_wait_group(0)
""")
    a = np.random.default_rng(0).standard_normal((16, width)).astype(np.float16)
    b = np.zeros_like(a)
    interpret(kernel, a, b, races=True)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("line", ["T.ptx_bulk_wait_group(0)", "T.ptx_bulk_commit_group()"])
def test_a_thread_that_ends_while_its_store_is_under_way(line):
    text = STORE.replace("ROW", "0").replace("COLUMN", "0").replace(f"            {line}\n", "")
    with pytest.raises(InterpreterError, match="ends while a bulk copy of it is under way: commit"):
        interpret(parse(text), np.zeros((8, 64), np.float16), np.zeros((12, 80), np.float16))


def test_a_block_that_ends_while_a_copy_into_it_is_under_way():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "float32", scope="shared")
        T.create_barriers(1)
        if tx == 0:
            T.ptx_init_barrier_thread_count(0, 1)
            T.ptx_cp_async_bulk("float32", s.data, 0, A.data, 0, 256, 0)
            T.ptx_arrive_barrier_expect_tx(0, 256)
""")
    with pytest.raises(InterpreterError, match="wait for barrier 0"):
        interpret(kernel, np.zeros(64, np.float32))
