from __future__ import annotations

import pytest

from tirlower.analysis.convergence import calls_astray, team_of_call
from tirlower.ir import Call
from tirlower.ir.query import each
from tirlower.script import parse


@pytest.mark.parametrize(
    ("call", "team"),
    [
        ('T.tvm_storage_sync("shared")', 0), ('T.tvm_storage_sync("shared.dyn")', 0), ('T.tvm_storage_sync("warp")', 32),
        ("T.ptx_syncwarp(T.uint32(0xFFFFFFFF))", 32), ("T.ptx_syncwarp(T.uint32(0xFF))", None),
        ("T.ptx_wgmma_fence()", 128), ("T.atomic_add(T.address_of(A[0]), 1)", None),
    ],
)  # fmt: skip
def test_how_many_make_a_call(call: str, team: int | None) -> None:
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((8,), "int32")):\n    T.evaluate({call})\n')
    assert team_of_call(next(each(Call, func.body))) == team


TEXT = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), n: T.int32):
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            if tx < 32:
                T.tvm_storage_sync("warp")
                T.tvm_storage_sync("shared")
            if bx < 3:
                T.tvm_storage_sync("shared")
            if tx < 32 and bx < 3:
                T.ptx_wgmma_fence()
"""


def test_each_is_named_with_its_team_and_place() -> None:
    found = [(each.call.op.name, each.team, each.place) for each in calls_astray(parse(TEXT))]
    assert found == [
        ("tir.tvm_storage_sync", 0, "a condition: if tx < 32"),
        ("tir.ptx_wgmma_fence", 128, "a condition: if tx < 32 and bx < 3"),
    ]


def test_kernels_have_threads_of_their_own() -> None:
    """The warps of one kernel are not those of the next, of other extents."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            if ty == 0:
                T.tvm_storage_sync("warp")
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            if ty == 0:
                T.tvm_storage_sync("warp")
""")
    assert len(list(calls_astray(func))) == 1


def test_axes_of_unknown_extent_have_no_warps() -> None:
    text = TEXT.replace("T.thread_binding(64", "T.thread_binding(n")
    assert [each.team for each in calls_astray(parse(text))] == [32, 0, 128]
