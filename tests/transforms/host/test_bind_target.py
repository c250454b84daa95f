from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check, executes_alike, roundtrips
from tirlower.diagnostics import TirError
from tirlower.ir import Call, GlobalVar, IRModule, pre_order_visit
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import tir as T
from tirlower.transforms import AnnotateEntryFunc, BindTarget


def targets(mod: IRModule) -> dict[str, Target]:
    return {name: Target(func.attrs["target"]) for name, func in mod.items()}


def callees(func: Any) -> list[str]:
    found: list[str] = []
    pre_order_visit(
        func.body,
        lambda op: found.append(op.op.name) if isinstance(op, Call) and isinstance(op.op, GlobalVar) else None,
    )
    return found


CUDA = Target("cuda", host={"kind": "llvm", "opt-level": 0})
HOST = Target({"kind": "llvm", "opt-level": 0})


@T.prim_func
def simple(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = A[i] + T.float32(1)


def test_an_exported_function_gets_the_target_with_its_host() -> None:
    after = check(BindTarget(CUDA), simple)
    assert after.attrs["target"] == CUDA
    assert check(BindTarget("llvm"), simple).attrs["target"] == Target("llvm")


def test_a_private_function_gets_the_target_without_host() -> None:
    after = check(BindTarget(CUDA), simple.without_attr("global_symbol"))
    assert after.attrs["target"] == Target("cuda")


def test_a_target_that_is_there_is_kept_and_given_a_host() -> None:
    own = simple.with_attr("target", Target("cuda -arch=sm_80"))
    after = check(BindTarget(CUDA), own)
    assert after.attrs["target"] == Target("cuda -arch=sm_80", host=HOST)
    private = own.without_attr("global_symbol")
    check(BindTarget(CUDA), private, private)
    hosted = simple.with_attr("target", Target("cuda", host="llvm"))
    check(BindTarget(CUDA), hosted, hosted)
    check(BindTarget("llvm"), own, own)


def test_a_host_function_gets_the_host_and_loses_its_mark() -> None:
    after = check(BindTarget(CUDA), simple.with_attr("tir.is_host_func", True))
    assert after.attrs["target"] == Target(HOST, host=HOST)
    assert "tir.is_host_func" not in after.attrs
    assert check(BindTarget("llvm -mcpu=x86-64-v3"), simple.with_attr("tir.is_host_func", 1)).attrs["target"].mcpu


@I.ir_module
class module:
    @T.prim_func
    def main(A: T.Buffer((8,), "int32"), n: T.int32):
        count: T.int32 = module.limit(n)
        for i in range(module.both(count)):
            A[i] = A[i] + 1
        for b in T.thread_binding(2, thread="blockIdx.x"):
            for t in T.thread_binding(4, thread="threadIdx.x"):
                A[b * 4 + t] = module.outer(A[b * 4 + t]) + module.both(1)

    @T.prim_func(private=True)
    def limit(n: T.int32) -> T.int32:
        T.ret(T.min(n, 8))

    @T.prim_func(private=True)
    def both(n: T.int32) -> T.int32:
        T.ret(module.inner(n))

    @T.prim_func(private=True)
    def inner(n: T.int32) -> T.int32:
        T.ret(n * 1)

    @T.prim_func(private=True)
    def outer(n: T.int32) -> T.int32:
        T.ret(module.inner(n) * 2)

    @T.prim_func(private=True)
    def unused(n: T.int32) -> T.int32:
        T.ret(n)


def test_callees_go_where_they_are_called_from() -> None:
    after = check(BindTarget(CUDA), module, inputs=[[np.arange(8, dtype="int32"), 5]])
    device = Target("cuda")
    found = targets(after)
    assert found["main"] == CUDA
    assert found["limit"] == HOST
    assert found["outer"] == found["both"] == found["inner"] == found["unused"] == device
    assert found["both_host"] == found["inner_host"] == HOST
    # Host code calls the host's copies, also from a copy; device code the device's.
    assert callees(after["main"]) == ["limit", "both_host", "outer", "both"]
    assert callees(after["both_host"]) == ["inner_host"]
    assert callees(after["both"]) == ["inner"]
    assert callees(after["outer"]) == ["inner"]


def test_a_cpu_has_one_side() -> None:
    after = check(BindTarget("llvm -mcpu=x86-64-v3"), module, inputs=[[np.arange(8, dtype="int32"), 5]])
    assert list(after) == list(module)
    assert all(target == Target("llvm -mcpu=x86-64-v3") for target in targets(after).values())
    with_host = BindTarget(Target("llvm", host="llvm"))(module)
    assert targets(with_host)["main"].host == Target("llvm")
    assert targets(with_host)["both"].host is None


def test_a_name_that_is_taken_is_left_alone() -> None:
    taken = module.with_func("both_host", simple.without_attr("global_symbol"))
    after = BindTarget(CUDA)(taken)
    assert "both_host_1" in after
    assert callees(after["main"])[1] == "both_host_1"


def test_device_regions_count_as_the_device() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            with T.attr(T.target("cuda"), "target", 0):
                A[0] = before.one(A[0])
            A[1] = A[0]

        @T.prim_func(private=True)
        def one(n: T.int32) -> T.int32:
            T.ret(n + 1)

    after = BindTarget(CUDA)(before)
    roundtrips(after)
    executes_alike(before, after)
    assert targets(after)["one"] == Target("cuda")


def test_a_gpu_target_without_host_is_hosted_by_llvm() -> None:
    after = BindTarget("cuda")(module)
    assert targets(after)["limit"] == Target("llvm")
    assert targets(after)["main"] == Target("cuda")


def test_an_unknown_target_is_refused_at_once() -> None:
    with pytest.raises(TirError, match="did you mean"):
        BindTarget("lvm")


def test_vthreads_are_no_device_region() -> None:
    @I.ir_module
    class before:
        @T.prim_func
        def main(A: T.Buffer((4,), "int32")):
            for v in T.thread_binding(4, thread="vthread"):
                A[v] = before.one(A[v])

        @T.prim_func(private=True)
        def one(n: T.int32) -> T.int32:
            T.ret(n + 1)

    assert targets(BindTarget(CUDA)(before))["one"] == HOST


# ---------------------------------------------------------------- AnnotateEntryFunc


def test_the_only_function_is_the_entry() -> None:
    for func in (simple, simple.without_attr("global_symbol")):
        after = check(AnnotateEntryFunc(), func)
        assert after.attrs["tir.is_entry_func"] is True


def test_the_only_exported_function_is_the_entry() -> None:
    after = check(AnnotateEntryFunc(), module, inputs=[[np.arange(8, dtype="int32"), 3]])
    assert [name for name, func in after.items() if "tir.is_entry_func" in func.attrs] == ["main"]
    assert after["both"] is module["both"]


def test_several_exported_functions_have_no_entry() -> None:
    mod = IRModule({"a": simple, "b": simple.with_attr("global_symbol", "b")})
    assert AnnotateEntryFunc()(mod) is mod
    private = simple.without_attr("global_symbol")
    mod = IRModule({"a": private, "b": private})
    assert AnnotateEntryFunc()(mod) is mod
    empty = IRModule({})
    assert AnnotateEntryFunc()(empty) is empty
