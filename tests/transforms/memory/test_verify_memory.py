from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.ir import IRModule, PrimFunc
from tirlower.script import parse
from tirlower.transforms import BindTarget, MakePackedAPI, VerifyMemory

CUDA = 'T.target("cuda", host="llvm")'


def function(
    body: str, target: str | None = CUDA, params: str = 'A: T.Buffer((8,), "float32"), n: T.int32'
) -> PrimFunc:
    attr = "" if target is None else f'    T.func_attr({{"target": {target}}})\n'
    return parse(f"@T.prim_func\ndef f({params}):\n{attr}{body}")


SERIAL = "    for i in range(8):\n        A[i] = A[i] + T.float32(1)\n"
THREADS = '    for i in T.thread_binding(8, "threadIdx.x"):\n        A[i] = A[i] + T.float32(1)\n'


def refused(program: PrimFunc | IRModule) -> list[str]:
    with pytest.raises(TransformError, match="memory verification failed") as error:
        VerifyMemory()(program)
    assert "bind" in str(error.value.help)
    return list(error.value.notes)


def test_thread_loops_pass_and_come_back_as_they_are() -> None:
    func = function(THREADS)
    check(VerifyMemory(), func, func)


def test_every_kind_of_direct_access_is_listed_once() -> None:
    body = SERIAL + "    A[0] = A[1]\n    B[0] = T.int32(n)\n"
    notes = refused(function(body, params='A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32"), n: T.int32'))
    assert (
        len(notes) == 3 and sum("'A'" in note for note in notes) == 2 and sum("writes" in note for note in notes) == 2
    )


def test_the_processor_may_touch_its_memory() -> None:
    for target in ('T.target("llvm")', 'T.target("c")', 'T.target("hexagon", host="llvm")'):
        func = function(SERIAL, target)
        check(VerifyMemory(), func, func)


def test_a_target_is_needed() -> None:
    with pytest.raises(TransformError, match="no attribute 'target'") as error:
        VerifyMemory()(function(SERIAL, None))
    assert "BindTarget" in str(error.value.help)


def test_a_virtual_thread_and_a_bound_of_a_thread_loop() -> None:
    guarded = """    for i in T.thread_binding(8, "threadIdx.x"):
        if i < n:
            A[i] = T.float32(1)
"""
    assert VerifyMemory()(function(guarded)) is not None
    outside = """    k = T.int32(A[0])
    for i in T.thread_binding(8, "threadIdx.x"):
        A[i] = T.float32(k)
"""
    assert refused(function(outside.replace("T.int32(A[0])", 'T.Cast("int32", A[0])')))


def test_own_memory_and_views_and_pointers() -> None:
    own = """    B = T.alloc_buffer((8,), "float32")
    B[0] = T.float32(1)
    T.evaluate(T.call_extern("int32", "launch", A.data))
"""
    func = function(own)
    assert VerifyMemory()(func) is func
    view = """    B = T.decl_buffer((4,), "float32", data=A.data)
    B[0] = T.float32(1)
"""
    assert refused(function(view))
    alias = """    p: T.handle("float32") = A.data
    B = T.decl_buffer((4,), "float32", data=p)
    B[0] = T.float32(1)
"""
    assert refused(function(alias))


def test_packed_entries_and_device_functions_are_not_host_code() -> None:
    packed = MakePackedAPI()(function(SERIAL, 'T.target("llvm")'))
    device = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def helper(data: T.handle("float32"), i: T.int32):
        view = T.decl_buffer((8,), "float32", data=data)
        view[i] = T.float32(1)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32")):
        for i in T.thread_binding(8, "threadIdx.x"):
            Module.helper(A.data, i)
""")
    bound = BindTarget("cuda")(device)
    assert VerifyMemory()(bound) is bound
    assert VerifyMemory()(packed) is packed


def test_host_code_of_a_module() -> None:
    mod = IRModule({"good": function(THREADS, None), "bad": function(SERIAL, None).with_attr("global_symbol", "g")})
    assert refused(BindTarget("cuda")(mod))
    bound = BindTarget("llvm")(mod)
    assert VerifyMemory()(bound) is bound


def test_it_computes_nothing_else() -> None:
    func = function(THREADS)
    check(VerifyMemory(), func, func, inputs=[[np.arange(8, dtype="float32"), 3]])


def test_device_regions() -> None:
    region = """    with T.attr(0, "device_scope", 0):
        A[0] = T.float32(2)
"""
    func = function(region)
    assert VerifyMemory()(func) is func
    assert refused(function(region + "    A[1] = T.float32(1)\n"))
