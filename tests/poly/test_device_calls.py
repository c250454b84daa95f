"""What the calls of a device read and write, as the extraction of dependences sees it."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.ir import Op
from tirlower.poly import extract
from tirlower.poly.pointers import Pointers
from tirlower.script import parse

HEAD = """
@T.prim_func
def kernel(A: T.Buffer((4096,), "float16"), B: T.Buffer((4096,), "float16"), C: T.Buffer((4096,), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        s = T.alloc_buffer((2048,), "float16", scope="shared")
        r = T.alloc_buffer((8,), "float16", scope="local")
        c = T.alloc_buffer((64,), "float32", scope="local")
        for k in range(4):
            CALL
"""
SYNC = ", 2, 0, 0, 8, 8, 64, 64, 64"
CALLS = {
    "cp_async": ('T.ptx_cp_async("float16", s.data, tx * 8, A.data, k * 8, 16)', {"A"}, {"s"}),
    "ldmatrix": ('T.ptx_ldmatrix("float16", False, 4, ".b16", r.data, 0, s.data, tx * 8)', {"s"}, {"r"}),
    "stmatrix": ('T.ptx_stmatrix("float16", False, 4, ".b16", s.data, tx * 8, r.data, 0)', {"r"}, {"s"}),
    "mma": (
        'T.ptx_mma("float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32", r.data, 0, r.data, 4, c.data, 0, False)',
        {"r", "c"}, {"c"},
    ),
    "fill": ('T.mma_fill("float32", 8, c.data, 0)', set(), {"c"}),
    "store": ('T.mma_store("float32", 16, 16, C.access_ptr("w"), c.data, 0, 16)', {"c"}, {"C"}),
    "bulk": ('T.ptx_cp_async_bulk("float16", s.data, 0, A.data, 0, 256, 0)', {"A"}, {"s"}),
    "tile": ('T.ptx_cp_async_bulk_tensor("float16", s.data, 0, A.data, 0, 0' + SYNC + ")", {"A"}, {"s"}),
    "tile store": ('T.ptx_cp_async_bulk_tensor_store("float16", B.data, s.data, 0, 0' + SYNC + ")", {"s"}, {"B"}),
    "wgmma": (
        'T.ptx_wgmma("float32", "m64n128k16", "fp16", "fp16", c.data, 0, s.data, 0, s.data, 0, 32, True, False, False)',
        {"c", "s"}, {"c"},
    ),
    "an atomic": ("T.evaluate(T.atomic_xor(T.address_of(C[tx]), T.float32(1)))", {"C"}, {"C"}),
}  # fmt: skip


def accesses(line):
    func = parse(HEAD.replace("CALL", line))
    return func, extract(func).accesses


@pytest.mark.parametrize("name", CALLS)
def test_what_is_read_and_written(name):
    line, reads, writes = CALLS[name]
    func, found = accesses(line)
    assert {a.data.name for a in found if not a.is_write} >= reads
    assert {a.data.name for a in found if a.is_write} >= writes
    if name not in ("store",):  # a pointer to a callee is open as to what is read
        assert {a.data.name for a in found if not a.is_write} == reads
        assert {a.data.name for a in found if a.is_write} == writes
        assert {var.name for var in Pointers(func).changing} == writes


HARMLESS = [
    "T.ptx_commit_group()", "T.ptx_wait_group(0)", "T.ptx_bulk_commit_group()", "T.ptx_bulk_wait_group(0)",
    "T.ptx_wgmma_fence()", "T.ptx_wgmma_commit_group()", "T.ptx_wgmma_wait_group(0)", "T.ptx_fence_proxy_async()",
    "T.ptx_fence_barrier_init()", "T.ptx_arrive_barrier(0)", "T.ptx_wait_barrier(0, 1)", "T.ptx_cp_async_barrier(0)",
    "T.ptx_syncwarp(T.uint32(1))", "T.evaluate(T.ptx_vote_ballot(T.uint32(1), True))",
    "T.evaluate(T.tvm_warp_shuffle_xor(T.uint32(1), tx, 1, 32, 32))",
]  # fmt: skip


@pytest.mark.parametrize("line", HARMLESS)
def test_calls_that_touch_no_memory(line):
    assert accesses(line)[1] == []


def test_every_operation_of_the_device_is_told():
    told = {line.split("(")[0].removeprefix("T.evaluate") for line in HARMLESS}
    told |= {part.split("(")[0] for line, *_ in CALLS.values() for part in line.split("T.") if part}
    told = {name.removeprefix("T.") for name in told} | {"ptx_vote_ballot", "tvm_warp_shuffle_xor"}
    ptx = {Op.get(name).short for name in Op.names() if name.startswith(("tir.ptx_", "tir.mma_"))}
    others = {
        "ptx_mma_sp", "ptx_ldg32", "ptx_vote_any", "ptx_vote_all", "ptx_init_barrier_thread_count",
        "ptx_arrive_barrier_expect_tx",
    }  # fmt: skip
    assert ptx - told == others


def region(accesses, is_write, data):
    (found,) = [a for a in accesses if a.is_write is is_write and a.data.name == data]
    return found


def test_a_copy_touches_the_elements_that_it_names():
    found = accesses(CALLS["cp_async"][0])[1]
    target = region(found, True, "s")
    deps = {dim.name for dim in target.coordinates[0].terms}
    assert deps == {"tx", "lane"} and not target.must


def test_a_warp_reads_the_rows_that_its_threads_name():
    # The row that a thread names is read by others: no instance is told by its own thread.
    source = region(accesses(CALLS["ldmatrix"][0])[1], False, "s")
    assert {dim.name for dim in source.coordinates[0].terms} == {"lane"}


@pytest.mark.parametrize(
    "pointer", ['s.access_ptr("r", offset=k * 256), tx * 8', "T.address_of(s[tx * 8]), 0", 's.access_ptr("r"), tx * 8']
)
def test_other_pointers_are_followed(pointer):
    found = accesses(CALLS["ldmatrix"][0].replace("s.data, tx * 8", pointer))[1]
    source = region(found, False, "s")
    assert source.indices is None or "tx" not in {dim.name for dim in source.coordinates[0].terms}
    assert not [a for a in found if a.is_write and a.data.name == "s"]


def test_rows_by_a_bound_offset_are_any_rows():
    line = "at: T.int32 = tx * 8\n            " + CALLS["ldmatrix"][0].replace("s.data, tx * 8", "s.data, at")
    source = region(accesses(line)[1], False, "s")
    assert source.indices is None or "tx" not in {dim.name for dim in source.coordinates[0].terms}


TILES = """
@T.prim_func
def kernel(B: T.Buffer(SHAPE, "float16")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((512,), "float16", scope="shared")
            for i in range(16):
                s[i * 32 + tx] = T.Cast("float16", bx)
            T.ptx_fence_proxy_async()
            T.tvm_storage_sync("shared")
            if tx == 0:
                T.ptx_cp_async_bulk_tensor_store("float16", B.data, s.data, 0, 0, 2, BOX)
                T.ptx_bulk_commit_group()
                T.ptx_bulk_wait_group(0)
            OTHER
"""


@pytest.mark.parametrize(
    ("box", "shape", "other", "legal"),
    [
        ("bx * 8, 0, 8, 64, 32, 64, 64", "(32, 64)", "pass", True),
        ("bx * 8, 0, 8, 64, 32, 64, 64", "(2048,)", "pass", True),
        ("0, bx * 16, 32, 16, 32, 64, 64", "(32, 64)", "pass", True),
        # Boxes that share a row, that share columns, and one for all blocks.
        ("bx * 7, 0, 8, 64, 32, 64, 64", "(32, 64)", "pass", False),
        ("0, bx * 15, 32, 16, 32, 64, 64", "(32, 64)", "pass", False),
        ("0, 0, 8, 64, 32, 64, 64", "(32, 64)", "pass", False),
        # What is outside of the tensor is left: one or two boxes have a row of it.
        ("bx * 8 - 7, 0, 8, 64, 1, 64, 64", "(32, 64)", "pass", True),
        ("bx * 8 - 7, 0, 8, 64, 2, 64, 64", "(32, 64)", "pass", True),
        ("bx * 7 - 7, 0, 8, 64, 2, 64, 64", "(32, 64)", "pass", False),
        # Rows that are closer together than they are long.
        ("bx * 8, 0, 8, 64, 32, 64, 60", "(2048,)", "pass", False),
        # Beside an element of the next block's box.
        ("bx * 8, 0, 8, 64, 32, 64, 64", "(2048,)", "if tx == 1:\n                B[(bx * 512 + 600) % 2048] = T.float16(1)", False),
    ],
)  # fmt: skip
def test_a_tile_store_writes_its_box(box, shape, other, legal):
    func = parse(TILES.replace("BOX", box).replace("SHAPE", shape).replace("OTHER", other))
    if legal:
        tl.lower(func, "nvptx -arch=sm_90a")
    else:
        with pytest.raises(tl.LegalityError, match="bx"):
            tl.lower(func, "nvptx -arch=sm_90a")


def test_a_box_of_what_is_no_integer_is_any_element():
    line = 'T.ptx_cp_async_bulk_tensor("float16", s.data, 0, A.data, 0, 0, 2, 0, 0, 8, 8, A[0], 64, 64)'
    _, found = accesses(line)
    assert [a.indices for a in found if a.data.name == "A" and a.node.__class__.__name__ == "Call"] == [None]
