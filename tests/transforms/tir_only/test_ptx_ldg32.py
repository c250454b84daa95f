from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import InjectPTXLDG32, PassContext


def copy(load: str, dtype: str = "float32", scope: str = "local", after: str = "") -> PrimFunc:
    """A kernel that loads into ``r`` and stores it; ``after`` follows."""
    zero = f"T.{dtype}(0)"
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((30,), "{dtype}"), B: T.Buffer((32,), "{dtype}"), n: T.int32):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        r = T.alloc_buffer((2,), "{dtype}", scope="{scope}")
        r[0] = {zero}
        r[1] = {load.replace("ZERO", zero)}
        B[tx] = r[1] + r[0]
        {after}
""")


def loads(func: PrimFunc) -> int:
    return func.script().count("ptx_ldg32")


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_types_of_32_bits(dtype: str) -> None:
    after = check(InjectPTXLDG32(), copy("T.if_then_else(tx < 30, A[tx], ZERO)", dtype))
    assert loads(after) == 1


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64"])
def test_other_types_stay(dtype: str) -> None:
    func = copy("T.if_then_else(tx < 30, A[tx], ZERO)", dtype)
    check(InjectPTXLDG32(), func, func)


def test_expected_form() -> None:
    @T.prim_func
    def before(A: T.Buffer((100,), "float32"), B: T.Buffer((64,), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                r = T.alloc_buffer((4,), "float32", scope="local")
                for k in range(4):
                    r[k] = T.if_then_else(bx * 64 + tx + k < 90, A[bx * 64 + tx + k], T.float32(-1))
                B[bx * 32 + tx] = r[0] + r[1] * r[2] - r[3]

    @T.prim_func
    def expected(A: T.Buffer((100,), "float32"), B: T.Buffer((64,), "float32")):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                r = T.alloc_buffer((4,), "float32", scope="local")
                for k in range(4):
                    addr = T.alloc_buffer((1,), "int32", scope="local")
                    pred = T.alloc_buffer((1,), "bool", scope="local")
                    addr[0] = bx * 64 + tx + k
                    pred[0] = bx * 64 + tx + k < 90
                    r[k] = T.float32(-1)
                    T.ptx_ldg32("float32", r.data, pred[0], A[addr[0]], k)
                B[bx * 32 + tx] = r[0] + r[1] * r[2] - r[3]

    check(InjectPTXLDG32(), before, expected)


def test_the_element_is_not_touched_where_the_guard_fails() -> None:
    after = InjectPTXLDG32()(copy("T.if_then_else(tx + n < 30, A[tx + n], ZERO)"))
    a, b = np.arange(30, dtype=np.float32), np.zeros(32, np.float32)
    interpret(after, a, b, 1000)
    assert not b.any()
    interpret(after, a, b, 28)
    assert b[:2].tolist() == [28, 29] and not b[2:].any()


def test_symbolic_sizes_and_guards_of_several_terms() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32"), B: T.Buffer(("m",), "int32")):
        for bx in T.thread_binding((m + 7) // 8, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                if bx * 8 + tx < m:
                    r = T.alloc_buffer((1,), "int32", scope="local")
                    r[0] = T.if_then_else(T.And(1 <= bx * 8 + tx, bx * 8 + tx - 1 < n), A[bx * 8 + tx - 1], T.int32(-7))
                    B[bx * 8 + tx] = r[0]

    assert loads(check(InjectPTXLDG32(), before)) == 1


def test_a_guard_and_an_index_that_read_the_register() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            r = T.alloc_buffer((2,), "int32", scope="local")
            r[0] = tx
            r[1] = 1 - tx % 2
            r[0] = T.if_then_else(r[0] > 2, A[7 - r[0]], 99)
            r[r[1]] = T.if_then_else(tx > 2, A[tx], 5)
            B[tx] = r[0] * 100 + r[1]

    # The second store's index is in the register that it writes.
    assert loads(check(InjectPTXLDG32(), before)) == 1


def test_memory_that_the_kernel_writes_stays() -> None:
    for after in ("A[tx % 30] = r[1]", 'T.evaluate(T.call_extern("int32", "abs", T.int32(A[0])))', ""):
        func = copy("T.if_then_else(tx < 30, A[tx], ZERO)", after=after)
        assert loads(InjectPTXLDG32()(func)) == (0 if after.startswith("A[") else 1)
    pointer = copy("T.if_then_else(tx < 30, A[tx], ZERO)", after="T.evaluate(T.isnullptr(T.address_of(A[0])))")
    check(InjectPTXLDG32(), pointer, pointer)


def test_other_forms_stay() -> None:
    for load in ("A[tx % 30]", "T.if_then_else(tx < 30, A[tx] + A[0], ZERO)", "T.if_then_else(tx > 30, ZERO, A[tx % 30])",
                 "T.if_then_else(tx < 30, A[tx], A[0])", "T.Select(tx < 3, A[0], ZERO)"):  # fmt: skip
        func = copy(load)
        check(InjectPTXLDG32(), func, func)
    shared = copy("T.if_then_else(tx < 30, A[tx], ZERO)", scope="shared")
    assert InjectPTXLDG32()(shared) is shared


def test_the_option_and_the_target() -> None:
    func = copy("T.if_then_else(tx < 30, A[tx], ZERO)")
    assert InjectPTXLDG32(False)(func) is func
    assert InjectPTXLDG32(enable_inject_ptx_intrin=False)(func) is func
    with PassContext(config={"tir.InjectPTXLDG32": {"enable_inject_ptx_intrin": False}}):
        assert InjectPTXLDG32()(func) is func
        assert InjectPTXLDG32(True)(func) is not func
    host = func.with_attr("target", Target("llvm"))
    assert InjectPTXLDG32()(host) is host
    assert loads(InjectPTXLDG32()(func.with_attr("target", Target("cuda", host="llvm")))) == 1
