from __future__ import annotations

import pytest

from tests.checking import check
from tests.transforms.threads.device_programs import PROGRAMS, module
from tirlower.diagnostics import TransformError
from tirlower.ir import AttrStmt, For, ForKind, IRModule, PrimFunc, pre_order_visit
from tirlower.machine.target import Target
from tirlower.script import tir as T
from tirlower.transforms import AnnotateDeviceRegions, DecorateDeviceScope

DEVICE = Target("cuda")
HOSTED = Target("cuda", host="llvm")


def regions(func: PrimFunc) -> list[AttrStmt]:
    found: list[AttrStmt] = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, AttrStmt) else None)
    return found


@pytest.mark.parametrize(("name", "count"), [("vector_add", 1), ("reverse_tiles", 1), ("symbolic", 1), ("several", 3)])
def test_each_kernel_is_a_region(name: str, count: int) -> None:
    after = check(AnnotateDeviceRegions(), module(name))
    found = regions(after["main"])
    assert len(found) == count
    for region in found:
        assert region.node == DEVICE and region.key == "target"
        assert isinstance(region.body, For) and region.body.kind is ForKind.THREAD_BINDING


def test_expected_form_with_host_code_around() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        for i in range(n):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] + i

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32"), n: T.int32):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        for i in range(n):
            with T.attr(T.target("cuda"), "target", 0):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[tx] = A[tx] + i

    check(AnnotateDeviceRegions(), before, expected)


def test_device_scopes_and_regions_that_are_there() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        with T.attr(0, "device_scope", 0):
            A[0] = 1
        with T.attr(T.target("nvptx"), "target", 0):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] * 2
        with T.attr(0, "pipeline_exec_scope", 0):
            A[1] = 2

    after = check(AnnotateDeviceRegions(), before)
    assert [(r.key, r.node) for r in regions(after)] == [
        ("target", DEVICE), ("device_scope", 0), ("target", Target("nvptx")), ("target", DEVICE), ("pipeline_exec_scope", 0),
    ]  # fmt: skip


def test_virtual_threads_are_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((2, 8), "int32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        for v in T.thread_binding(2, thread="vthread"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[v, tx] = A[v, tx] + v

    after = check(AnnotateDeviceRegions(), before)
    assert isinstance(after.body, For) and isinstance(after.body.body, AttrStmt)


def test_one_side_only() -> None:
    for target in (Target("cuda"), Target("llvm")):
        func = PROGRAMS["vector_add"].with_attr("target", target)
        check(AnnotateDeviceRegions(), func, func)


def test_a_target_is_needed() -> None:
    with pytest.raises(TransformError, match="no attribute 'target'") as error:
        AnnotateDeviceRegions()(PROGRAMS["vector_add"])
    assert "BindTarget" in str(error.value.help)


def test_predicates_and_several_functions() -> None:
    mod = IRModule({"main": module("several")["main"], "other": PROGRAMS["dynamic"].with_attr("target", DEVICE)})
    after = check(AnnotateDeviceRegions(), mod)
    assert after["other"] is mod["other"] and len(regions(after["main"])) == 3


def test_nothing_on_the_device() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        B = T.alloc_buffer((8,), "int32")
        B[0] = A[0]
        T.evaluate(T.call_extern("int32", "abs", A[0]))

    check(AnnotateDeviceRegions(), before, before)


# ---------------------------------------------------------------- DecorateDeviceScope


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_whole_body(name: str) -> None:
    before = PROGRAMS[name]
    after = check(DecorateDeviceScope(), before)
    assert isinstance(after.body, AttrStmt) and after.body.key == "device_scope" and after.body.body is before.body


def test_scope_expected() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "uint8")):
        B = T.alloc_buffer((1,), "uint8")
        B[0] = A[1]
        A[0] = B[0]

    @T.prim_func
    def expected(A: T.Buffer((4,), "uint8")):
        with T.attr(0, "device_scope", 0):
            B = T.alloc_buffer((1,), "uint8")
            B[0] = A[1]
            A[0] = B[0]

    check(DecorateDeviceScope(), before, expected)


def test_decorated_bodies_become_regions() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "float32")):
        T.func_attr({"target": T.target("cuda", host="llvm")})
        for i in range(n):
            A[i] = A[i] * T.float32(2)

    decorated = check(DecorateDeviceScope(), before)
    after = check(AnnotateDeviceRegions(), decorated)
    assert [r.key for r in regions(after)] == ["target", "device_scope"]


def test_a_scope_inside_is_not_the_whole_body() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int64")):
        A[1] = T.int64(1)
        with T.attr(0, "device_scope", 0):
            A[0] = A[1]

    after = check(DecorateDeviceScope(), before)
    assert [r.key for r in regions(after)] == ["device_scope", "device_scope"]
