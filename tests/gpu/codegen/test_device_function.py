"""Functions of a module that its kernels call: inlined, run on the host, counted and reported with their kernel."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.codegen.building import OnHost, array, build, check, empty
from tirlower.diagnostics import CodegenError
from tirlower.script import parse

N = 64
HEAD = "@I.ir_module\nclass M:\n"
PICK = """
    @T.prim_func(private=True)
    def twice(x: T.float32) -> T.float32:
        return x * T.float32(2)

    @T.prim_func(private=True)
    def pick(x: T.float32, n: T.int32) -> T.float32:
        if n > 3:
            return x + T.float32(1)
        return M.twice(x)
"""
PUT = """
    @T.prim_func(private=True)
    def put(a: T.handle("float32"), i: T.int32, v: T.float32):
        A = T.decl_buffer((64,), "float32", data=a)
        A[i] = v
"""


def module(functions: str, body: str):
    """A module of device functions, and a kernel ``main`` whose threads ``tx`` run a body."""
    main = (
        '    @T.prim_func\n    def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):\n'
        '        for tx in T.thread_binding(64, thread="threadIdx.x", annotations={"tir.unchecked": "a test"}):\n'
    )
    lines = "".join(f"            {line}\n" for line in body.splitlines())
    return parse(HEAD + functions + "\n" + main + lines)


def test_values_and_pointers_of_inlined_functions():
    mod = module(PICK + PUT, "x: T.float32 = M.pick(A[tx], tx)\nM.put(B.data, tx, x)")
    device = build(mod)
    check(device)
    assert "call" not in [line.split()[0] for line in device.ptx.splitlines() if line.strip()]
    a, b = array(np.arange(N), np.float32), empty(N, np.float32)
    OnHost(mod)(1, N, A=a, B=b)
    expected = np.where(np.arange(N) > 3, a + 1, a * 2)
    np.testing.assert_array_equal(b, expected)
    for stage in (mod, tl.lower(mod, "nvptx -arch=sm_80")):
        again = np.zeros(N, np.float32)
        tl.simulate(stage, a, again)
        np.testing.assert_array_equal(again, expected)


def test_a_parameter_that_is_a_buffer_takes_its_address():
    total = """
    @T.prim_func(private=True)
    def total(X: T.Buffer((4, 16), "float32"), row: T.int32) -> T.float32:
        s = T.alloc_buffer((1,), "float32", scope="local")
        s[0] = T.float32(0)
        for j in range(16):
            s[0] += X[T.bitwise_and(row, 3), j]
        return s[0]
"""
    mod = module(total, "B[tx] = M.total(A.data, tx)")
    a, b = array(np.arange(N), np.float32), empty(N, np.float32)
    OnHost(mod)(1, N, A=a, B=b)
    np.testing.assert_array_equal(b, a.reshape(4, 16).sum(1)[np.arange(N) % 4])


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64", "uint64"])
def test_results_of_every_kind(dtype):
    if dtype == "bool":
        given, back = "A[tx] > T.float32(3)", 'T.cast(M.same(A[tx] > T.float32(3)), "float32")'
    else:
        given, back = f'T.cast(A[tx], "{dtype}")', f'T.cast(M.same(T.cast(A[tx], "{dtype}")), "float32")'
    same = f"    @T.prim_func(private=True)\n    def same(x: T.{dtype}) -> T.{dtype}:\n        return x\n"
    mod = module(same, f"B[tx] = {back}")
    direct = module("", f'B[tx] = T.cast({given}, "float32")')
    a = array(np.arange(N) / 4, np.float32)
    b, c = empty(N, np.float32), empty(N, np.float32)
    OnHost(mod)(1, N, A=a, B=b)
    OnHost(direct)(1, N, A=a, B=c)
    np.testing.assert_array_equal(b, c)


def test_a_failure_inside_is_the_kernels():
    guarded = PUT.replace("        A = T", '        assert i < 64, "beyond the end"\n        A = T')
    mod = module(guarded, "M.put(B.data, tx + 60, A[tx])")
    host = OnHost(mod)
    assert host.image.reports and [site.kind for site in host.image.sites] == ["assert"]
    host(1, N, A=array(np.zeros(N), np.float32), B=empty(N, np.float32))
    assert host.report[:7].tolist() == [1, 0, 0, 0, 4, 0, 0]  # 60 + 4 is the first beyond the end
    check(build(mod))


def test_shared_memory_inside_is_the_kernels():
    scratch = """
    @T.prim_func(private=True)
    def scratch(v: T.float32) -> T.float32:
        s = T.alloc_buffer((64,), "float32", scope="shared")
        for t in T.thread_binding(64, thread="threadIdx.x"):
            s[t] = v
        T.tvm_storage_sync("shared")
        return s[63]
"""
    device = build(module(scratch, "B[tx] = M.scratch(A[tx])"))
    (image,) = device.kernels.values()
    assert image.static_shared == 256 and "bar.sync" in device.ptx
    check(device)


def test_a_barrier_inside_is_refused_by_the_simulator():
    wait = '    @T.prim_func(private=True)\n    def wait():\n        T.tvm_storage_sync("shared")\n'
    mod = module(wait, "B[tx] = A[tx]\nM.wait()")
    with pytest.raises(tl.InterpreterError, match="a barrier in a function that a thread calls"):
        tl.simulate(mod, np.zeros(N, np.float32), np.zeros(N, np.float32))


@pytest.mark.parametrize(
    ("function", "body", "message"),
    [
        ("def f(n: T.int32) -> T.int32:\n        return M.f(n - 1)", "M.f(tx)", "`f` calls itself"),
        (
            'def f(X: T.Buffer(("n",), "float32")) -> T.float32:\n        return X[0]',
            "B[tx] = M.f(A.data)",
            "finds sizes or an offset in its buffer `X`",
        ),
        (
            'def f():\n        s = T.alloc_buffer((64,), "float32", scope="shared.dyn")\n        s[0] = T.float32(0)',
            "M.f()",
            "allocates dynamic shared memory",
        ),
        (
            'def f(a: T.handle("float32")):\n        A = T.decl_buffer((64,), "float32", data=a)\n'
            '        for t in T.thread_binding(32, thread="threadIdx.x"):\n            A[t] = T.float32(1)',
            "M.f(A.data)",
            "runs over 32 values of threadIdx.x, and the kernel that calls it over 64",
        ),
    ],
    ids=["recursion", "sizes", "dynamic", "extents"],
)
def test_what_a_call_cannot_do(function, body, message):
    mod = module(f"    @T.prim_func(private=True)\n    {function}\n", body)
    with pytest.raises(CodegenError, match=message):
        build(mod)
