"""Host functions in machine code, on a driver in Python, against the interpreter."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, device_module, driver_of, fake_kernel, split
from tirlower.diagnostics import BoundsError, DeviceError, DivisionByZeroError, RuntimeAssertError
from tirlower.driver import gpu_host
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.launch import GpuKernel, device_of, to_device
from tirlower.interp import interpret
from tirlower.ir import Call, Evaluate, Expr, IRModule, Op, PrimFunc, Var
from tirlower.ir.expr import NE, as_expr
from tirlower.ir.failure_message import failure
from tirlower.ir.stmt import Assert, Seq
from tirlower.script import parse
from tirlower.script import tir as T


def host_of(body: str, params: str = 'A: T.Buffer((8,), "int32"), n: T.int32') -> PrimFunc:
    return parse(f"""
@T.prim_func
def host({params}):
    T.func_attr({{"global_symbol": "f"}})
{body}
""")


KERNEL = """
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = A[tx] {}"""


def agrees(func: PrimFunc, array: np.ndarray[Any, Any], *rest: Any) -> Any:
    """Run on the fake device and in the interpreter, from the same inputs."""
    kernel, cuda = fake_kernel(func)
    device = to_device(array, device=device_of(0, driver_of(cuda)))
    wanted = array.copy()
    expected = interpret(func, wanted, *rest)
    found = kernel(device, *rest)
    np.testing.assert_array_equal(device.numpy(), wanted)
    assert found == expected and len(cuda.memory) == 1
    return kernel


def test_the_code_of_a_simple_host() -> None:
    kernel = agrees(host_of(KERNEL.format("+ n")), np.arange(8, dtype=np.int32), 5)
    text = kernel.host.text
    assert "define i32 @f.kernel(ptr %A, i32 %n, ptr %table, ptr %stream, ptr %scratch, ptr" in text
    # A grid of constants is not looked at.
    (call,) = [line for line in text.splitlines() if "call i32 %" in line]
    assert "i32 1, i32 1, i32 1, i32 8, i32 1, i32 1, i32 0, ptr %stream" in call and "icmp sle" not in text


@pytest.mark.parametrize("n", [-3, 0, 1, 4])
def test_loops_from_other_numbers_than_zero(n: int) -> None:
    body = """
    for i in range(2, n + 2):
        for j in T.serial(n - 1, n + 1):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] * 3 + i - j"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@pytest.mark.parametrize("n", [0, 3, 4, 5])
def test_break_continue_and_nested_conditions(n: int) -> None:
    body = """
    for i in range(n):
        if i == 1:
            continue
        if i == 4:
            break
        else:
            if i % 2 == 0 and n > 3 or i == 3:
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[tx] = A[tx] * 3 + i"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@pytest.mark.parametrize("n", [1, 6])
def test_temporaries_of_loops_that_are_left(n: int) -> None:
    body = """
    for i in range(n):
        W = T.alloc_buffer((8,), "int32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            W[tx] = A[tx] * 2
        if i == 2:
            break
        V = T.alloc_buffer((8,), "int32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            V[tx] = W[tx] + i
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = V[tx]"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


def test_host_memory_is_checked() -> None:
    body = """
    c = T.alloc_buffer((3,), "int32", scope="local")
    for i in range(n):
        c[i] = i * 10
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = 0
    for i in range(n):
        if c[i] > 5:
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                A[tx] = A[tx] + i"""
    kernel, cuda = fake_kernel(host_of(body))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 3)
    np.testing.assert_array_equal(A.numpy(), np.full(8, 3))
    with pytest.raises(BoundsError, match=r"c: index 3 of dimension 0 is outside the bounds 0 <= index < 3"):
        kernel(A, 4)


def test_assertions_with_values() -> None:
    func = host_of('    assert n > 0, "n is not positive"' + KERNEL.format("+ n"))
    kernel, cuda = fake_kernel(func)
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    with pytest.raises(RuntimeAssertError, match=r"n is not positive"):
        kernel(A, 0)
    n = func.params[1]
    body = Seq((Assert(n < 9, failure("IndexError", "{0} is beyond {1}", n, n + 1)), func.body))
    other, cuda = fake_kernel(func.with_body(body))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    other(A, 3)
    with pytest.raises(BoundsError, match=r"12 is beyond 13"):
        other(A, 12)


def test_deep_nests_of_loops() -> None:
    body = "".join(f"{'    ' * (i + 1)}for i{i} in range(T.min(n, {1 + i % 8 // 7})):\n" for i in range(25))
    inner = f'{"    " * 26}for tx in T.thread_binding(8, thread="threadIdx.x"):\n{"    " * 27}A[tx] = A[tx] + i7 + i15'
    agrees(host_of(body + inner), np.arange(8, dtype=np.int32), 3)


def test_one_kernel_launched_twice() -> None:
    module = split(host_of(KERNEL.format("+ n")))
    (name,) = [key for key in module if key != "main"]
    host = module["main"]
    twice = IRModule({"main": host.with_body(Seq((host.body, host.body))), name: module[name]})
    kernels = device_module(twice)
    cuda = FakeCuda()
    cuda.kernels.update({key: (image, twice) for key, image in kernels.kernels.items()})
    code = host_code(twice, "main", kernels)
    kernel = GpuKernel(host_of(KERNEL.format("+ n")), twice, code, kernels, driver=driver_of(cuda))
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 4)
    np.testing.assert_array_equal(A.numpy(), np.full(8, 8))
    assert len(cuda.calls("cuLaunchKernel")) == 2


@T.prim_func
def offsets(A: T.Buffer((24,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "offsets"})
    part = T.decl_buffer((8,), "int32", data=A.data, elem_offset=8)
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        part[tx] = n


def test_views_with_offsets() -> None:
    kernel, cuda = fake_kernel(offsets)
    A = to_device(np.zeros(24, np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 4)
    np.testing.assert_array_equal(A.numpy(), [0] * 8 + [4] * 8 + [0] * 8)


@pytest.mark.parametrize("n", [0, 1, 3, 8])
def test_numbers_that_are_computed_between_launches(n: int) -> None:
    body = """
    k: T.int32 = n * 3 - 4
    for i in range(n):
        wide: T.int64 = T.Cast("int64", i) * T.int64(4294967296) + T.Cast("int64", k)
        if wide % T.int64(3) != T.int64(2):
            with T.LetStmt(T.min(k, i) * T.min(k, i)) as u:
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    A[tx] = A[tx] + u * tx + T.Cast("int32", wide // T.int64(5))
        else:
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                if tx < T.max(k, 2):
                    A[tx] = A[tx] - k"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@T.prim_func
def sized(A: T.Buffer(("n", "m"), "int32"), B: T.Buffer(("n",), "int64"), first: T.int64):
    T.func_attr({"global_symbol": "sized"})
    total: T.int64 = T.Cast("int64", n) * T.Cast("int64", m) + first
    W = T.alloc_buffer((n + 1,), "int64")
    for bx in T.thread_binding((n + 4) // 4, thread="blockIdx.x"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            if bx * 4 + tx <= n:
                W[bx * 4 + tx] = total + T.Cast("int64", bx)
    if m > 2:
        for bx in T.thread_binding(n, thread="blockIdx.x"):
            for tx in T.thread_binding(m, thread="threadIdx.x"):
                A[bx, tx] = A[bx, tx] + T.Cast("int32", W[bx])
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            B[bx] = W[bx + 1]


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 2), (7, 3), (4, 0), (9, 33)])
def test_grids_temporaries_and_scalars_of_shapes(shape: tuple[int, int]) -> None:
    kernel, cuda = fake_kernel(sized)
    device = device_of(0, driver_of(cuda))
    a, b = np.arange(math.prod(shape), dtype=np.int32).reshape(shape), np.zeros(shape[0], np.int64)
    A, B = (to_device(x, device=device) for x in (a, b))
    held = len(cuda.memory)
    kernel(A, B, -7)
    interpret(sized, a, b, -7)
    np.testing.assert_array_equal(A.numpy(), a)
    np.testing.assert_array_equal(B.numpy(), b)
    assert len(cuda.memory) == held
    empty = [call for call in cuda.calls("cuLaunchKernel") if 0 in call[2:8]]
    assert not empty


def test_a_division_by_zero_in_host_code_is_that_of_the_cpu() -> None:
    func = host_of("""
    W = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[tx] = A[tx]
    q: T.int32 = 100 // n
    for i in range(q):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = W[tx] + i""")
    kernel, cuda = fake_kernel(func)
    A = to_device(np.arange(8, dtype=np.int32), device=device_of(0, driver_of(cuda)))
    kernel(A, 50)
    np.testing.assert_array_equal(A.numpy(), np.arange(8) + 1)
    with pytest.raises(DivisionByZeroError, match=r"division by zero: 100 divided by 0 in `f`"):
        kernel(A, 0)
    assert len(cuda.memory) == 1


def test_memory_that_the_driver_does_not_take_back() -> None:
    func = host_of("""
    W = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[tx] = A[tx]
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = W[tx] + n""")
    kernel, cuda = fake_kernel(func)
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    cuda.fail["cuMemFreeAsync"] = 700
    with pytest.raises(DeviceError, match=r"giving device memory back failed: CUDA_ERROR_ILLEGAL_ADDRESS"):
        kernel(A, 4)
    cuda.fail["cuLaunchKernel"] = 1
    with pytest.raises(DeviceError, match=r"the launch of kernel `f_kernel(_1)?` failed: CUDA_ERROR_INVALID_VALUE"):
        kernel(A, 4)  # what failed first is told
    cuda.fail.clear()
    kernel(A, 4)
    np.testing.assert_array_equal(A.numpy(), np.full(8, 8))


@pytest.mark.parametrize("n, shown", [(-1, "-1"), (2**40, "1099511627776")])
def test_temporaries_of_impossible_sizes(n: int, shown: str) -> None:
    func = host_of(
        """
    W = T.alloc_buffer((n, T.int64(1099511627776)), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[T.int64(0), T.Cast("int64", tx)] = A[tx]
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = W[T.int64(0), T.Cast("int64", tx)]""",
        'A: T.Buffer((8,), "int32"), n: T.int64',
    )
    kernel, cuda = fake_kernel(func)
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    with pytest.raises(
        MemoryError, match=rf"cannot allocate buffer `W` of `f`: its extents are {shown}, 1099511627776"
    ):
        kernel(A, n)
    kernel_calls = cuda.calls("cuMemAllocAsync")
    assert len(kernel_calls) == 1


@T.prim_func
def squared(A: T.Buffer(("n", 0), "int32"), B: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "squared"})
    W = T.alloc_buffer((n * n,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[tx] = B[tx]
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[tx] = W[tx] + 1


def test_temporaries_whose_extents_leave_their_type() -> None:
    kernel, cuda = fake_kernel(squared)
    device = device_of(0, driver_of(cuda))
    B = to_device(np.zeros(8, np.int32), device=device)
    kernel(to_device(np.zeros((3, 0), np.int32), device=device), B)
    np.testing.assert_array_equal(B.numpy(), np.ones(8))
    allocated = len(cuda.calls("cuMemAllocAsync"))
    with pytest.raises(OverflowError, match=r"n \* n = 2147488281 does not fit int32"):
        kernel(to_device(np.zeros((46341, 0), np.int32), device=device), B)
    assert len(cuda.calls("cuMemAllocAsync")) == allocated


@pytest.mark.parametrize("n", [0, 3])
def test_large_temporaries_of_loops_are_the_devices(n: int) -> None:
    body = """
    for i in range(n):
        W = T.alloc_buffer((8192,), "int32")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            W[tx * 1000] = A[tx] + i
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[tx] = W[7000 - tx * 1000]"""
    kernel = agrees(host_of(body), np.arange(8, dtype=np.int32), n)
    assert "@free" not in kernel.host.text


def test_a_long_function_is_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tirlower.llvm.codegen.platform.BODY_BUDGET", 1)
    body = """
    W = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[tx] = A[tx]
    V = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        V[tx] = W[tx] * n
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = V[tx] + W[tx]"""
    kernel = agrees(host_of(body), np.arange(8, dtype=np.int32), 3)
    assert kernel.host.text.count("define ") == kernel.host.text.count("define internal void @tirlower.fail") + 1


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_temporaries_of_functions_that_return_early(n: int) -> None:
    body = """
    W = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        W[tx] = A[tx] + 1
    if n == 1:
        T.evaluate(T.ret(-1))
    V = T.alloc_buffer((8,), "int32")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        V[tx] = W[tx] * 2
    if n == 2:
        T.evaluate(T.ret(-2))
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = V[tx] + n
    T.evaluate(T.ret(n))"""
    agrees(host_of(body), np.arange(8, dtype=np.int32), n)


@T.prim_func
def shifted(A: T.Buffer(("n",), "int32"), B: T.Buffer((4,), "int32")):
    T.func_attr({"global_symbol": "shifted"})
    W = T.alloc_buffer((n,), "int32")
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            W[bx] = A[bx] + 1
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        B[tx] = tx
    for bx in T.thread_binding(n, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            A[bx] = W[n - 1 - bx]


@pytest.mark.parametrize("n", [0, 3])
def test_temporaries_of_no_bytes_are_no_memory(n: int) -> None:
    kernel, cuda = fake_kernel(shifted)
    device = device_of(0, driver_of(cuda))
    A, B = (to_device(np.arange(size, dtype=np.int32), device=device) for size in (n, 4))
    cuda.log.clear()
    kernel(A, B)
    np.testing.assert_array_equal(A.numpy(), np.arange(n, 0, -1))
    assert len(cuda.calls("cuMemAllocAsync")) == len(cuda.calls("cuMemFreeAsync")) == (n > 0)


def test_temporaries_of_a_device_without_a_pool() -> None:
    cuda = FakeCuda()
    cuda.attributes[115] = 0
    kernel, _ = fake_kernel(sized, cuda)
    device = device_of(0, driver_of(cuda))
    a, b = np.arange(10, dtype=np.int32).reshape(5, 2), np.zeros(5, np.int64)
    A, B = (to_device(x, device=device) for x in (a, b))
    kernel(A, B, 3)
    interpret(sized, a, b, 3)
    np.testing.assert_array_equal(B.numpy(), b)
    assert len(cuda.memory) == 2 and len(cuda.calls("cuMemFree_v2")) == 1 and not cuda.calls("cuMemAllocAsync")
    cuda.fail["cuMemAlloc_v2"] = 2
    with pytest.raises(
        DeviceError, match=r"(?s)cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY.*48 bytes were asked of"
    ):
        kernel(A, B, 3)


def test_what_a_driver_in_python_raises_is_raised() -> None:
    class Broken(FakeCuda):
        def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
            raise LookupError("nothing there")

    cuda = Broken()
    kernel, _ = fake_kernel(host_of(KERNEL.format("+ n")), cuda)
    A = to_device(np.zeros(8, np.int32), device=device_of(0, driver_of(cuda)))
    with pytest.raises(LookupError, match="nothing there"):
        kernel(A, 4)


# -- expressions ---------------------------------------------------------------------------------------------------------

n, m = Var("n", "int32"), Var("m", "int32")
k, u = Var("k", "int64"), Var("u", "uint32")
x, y, h = Var("x", "float32"), Var("y", "float64"), Var("h", "float16")
p, q = Var("p", "bool"), Var("q", "bool")
VARS = (n, m, k, u, x, y, h, p, q)

EXPRESSIONS: list[Expr] = [
    n + m * 3 - 1,
    n * m * n * m + n,
    (n + m) // 7,
    (n - m) % 5,
    T.truncdiv(n, 7),
    T.truncmod(n - m, 7),
    T.min(n, m) + T.max(n, -m),
    T.Cast("int64", n) * k + T.Cast("int64", m),
    T.Cast("int32", k),
    T.Cast("int8", n * m),
    T.Cast("uint8", n),
    T.Cast("bool", n),
    T.Cast("int32", p) + T.Cast("int32", q),
    u * u + T.uint32(7),
    u - T.uint32(0xFFFFFFFF),
    T.And(n < m, T.Or(p, n < 3)),
    T.Not(T.And(p, q)),
    T.Select(n <= m, n, m),
    T.if_then_else(n > m, n - m, m - n),
    T.if_then_else(NE(m, as_expr(0)), n // m, 0),
    T.bitwise_and(n, 255) + T.bitwise_or(m, 1) + T.bitwise_xor(n, m) + T.bitwise_not(n),
    T.shift_left(n, 3),
    T.shift_right(n, 2),
    T.likely(n < 5),
    T.popcount(u),
    x + T.float32(0.1),
    x * x * T.float32(3) - x,
    x / T.float32(3),
    y * 2.5 + T.Cast("float64", n),
    T.Cast("float32", y),
    T.Cast("int32", T.floor(x)),
    T.Cast("float32", h) + x,
    h + h * h,
    T.Cast("float16", y),
    T.Select(x < T.float32(1), x, T.float32(1)),
    T.max(x, T.float32(0.5)),
    T.isinf(x),
    T.float32(float("inf")) + x,
]


@pytest.mark.parametrize("position", range(len(EXPRESSIONS)))
def test_numbers_of_host_code_are_the_interpreters(position: int) -> None:
    expr = EXPRESSIONS[position]
    attrs = {"global_symbol": "f", "target": "cuda"}
    func = PrimFunc(VARS, {}, expr.dtype, attrs, Evaluate(Call(Op.get("tir.ret"), (expr,), expr.dtype)))
    mod, module, cuda = IRModule({"main": func}), DeviceModule(".version 8.0", "", "sm_90", {}), FakeCuda()
    kernel = GpuKernel(func, mod, host_code(mod, "main", module), module, driver=driver_of(cuda))
    rng = np.random.default_rng(position)
    edges = [0, 1, -1, 5, 2**31 - 1, -(2**31), 123456789]
    for _ in range(25):
        values = [
            int(rng.choice(edges)), int(rng.choice(edges)), int(rng.choice([0, -3, 2**62, 2**40 + 5])),
            int(rng.choice([0, 1, 2**32 - 1, 77])), float(np.float32(rng.normal() * 3)), float(rng.normal() * 3),
            float(np.float16(rng.normal() * 3)), bool(rng.integers(2)), bool(rng.integers(2)),
        ]  # fmt: skip
        wanted = interpret(func, *values)
        found = kernel(*values)
        assert type(found) in (int, float, bool)
        assert found == wanted or (math.isnan(found) and math.isnan(wanted)), (values, str(expr))


def test_what_all_kernels_share_is_linked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads that are the first each would link it, and the one that is dropped is jumped into."""
    made: list[int] = []
    emit = gpu_host.emit_native_call

    def slowly(module: Any) -> None:
        made.append(1)
        time.sleep(0.1)
        emit(module)

    monkeypatch.setattr(gpu_host, "emit_native_call", slowly)
    gpu_host.native_calls.cache_clear()
    module = device_module(lowered := split(host_of(KERNEL.format("+ n"))))
    codes = [host_code(lowered, "main", module) for _ in range(3)]
    threads = [threading.Thread(target=code.link) for code in codes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert made == [1] and len({code.link().native for code in codes}) == 1
