from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from tirlower.diagnostics import ArgumentError, InterpreterError, RuntimeAssertError, TirError, UnboundError
from tirlower.interp import Interpreter, interpret, interpreter
from tirlower.ir import Buffer, BufferStore, DataType, For, PrimFunc, Var, const
from tirlower.ir import custom_datatype as datatype
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T


def randn(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_matmul_with_init():
    @T.prim_func
    def matmul(A: T.Buffer((9, 7), "float32"), B: T.Buffer((7, 5), "float32"), C: T.Buffer((9, 5), "float32")):
        for i, j, k in T.grid(9, 5, 7):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    a, b, c = randn(9, 7), randn(7, 5, seed=1), np.full((9, 5), np.nan, np.float32)
    want = np.zeros((9, 5), np.float32)
    for k in range(7):
        want += a[:, k : k + 1] * b[k]
    interpret(matmul, a, b, c)
    np.testing.assert_array_equal(c, want)  # the same operations in the same order


def test_tiled_matmul_with_predicates_and_symbols():
    @T.prim_func
    def matmul(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int32(), T.int32(), T.int32()
        A = T.match_buffer(a, (n, k), "float32")
        B = T.match_buffer(b, (k, m), "float32")
        C = T.match_buffer(c, (n, m), "float32")
        for io, j, ko, ii, ki in T.grid((n + 3) // 4, m, (k + 2) // 3, 4, 3):
            with T.block("C"):
                T.where(io * 4 + ii < n and ko * 3 + ki < k)
                vi = T.axis.spatial(n, io * 4 + ii)
                vj = T.axis.spatial(m, j)
                vk = T.axis.reduce(k, ko * 3 + ki)
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    for n, m, k in ((5, 3, 7), (1, 1, 1), (8, 2, 6)):
        a, b, c = randn(n, k), randn(k, m, seed=1), np.zeros((n, m), np.float32)
        interpret(matmul, a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)


def test_softmax():
    @T.prim_func
    def softmax(A: T.Buffer((4, 9), "float32"), B: T.Buffer((4, 9), "float32")):
        top = T.alloc_buffer((4,), "float32")
        total = T.alloc_buffer((4,), "float32")
        for i in range(4):
            top[i] = T.min_value("float32")
            total[i] = 0.0
            for j in range(9):
                top[i] = T.max(top[i], A[i, j])
            for j in range(9):
                B[i, j] = T.exp(A[i, j] - top[i])
                total[i] = total[i] + B[i, j]
            for j in range(9):
                B[i, j] = B[i, j] / total[i]

    a, b = randn(4, 9), np.empty((4, 9), np.float32)
    interpret(softmax, a, b)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(b, e / e.sum(1, keepdims=True), rtol=1e-6)


def test_scan_gather_and_scatter():
    @T.prim_func
    def kernel(
        X: T.Buffer((8,), "int32"),
        P: T.Buffer((8,), "int32"),
        S: T.Buffer((8,), "int32"),
        G: T.Buffer((8,), "int32"),
        H: T.Buffer((4,), "int32"),
    ):
        S[0] = X[0]
        for i in range(1, 8):
            S[i] = S[i - 1] + X[i]
        for i in range(8):
            G[i] = X[P[i]]
        for i in range(4):
            H[i] = 0
        for i in range(8):
            H[X[i] % 4] += 1

    x = np.random.default_rng(0).integers(-20, 20, 8).astype(np.int32)
    p = np.random.default_rng(1).permutation(8).astype(np.int32)
    s, g, h = np.zeros(8, np.int32), np.zeros(8, np.int32), np.zeros(4, np.int32)
    interpret(kernel, x, p, s, g, h)
    np.testing.assert_array_equal(s, np.cumsum(x))
    np.testing.assert_array_equal(g, x[p])
    np.testing.assert_array_equal(h, np.bincount(x % 4, minlength=4))


@pytest.mark.parametrize("dtype", ["int4", "int5", "uint3", "int8", "uint8", "int64"])
def test_wrap_around_of_every_width(dtype):
    @T.prim_func
    def kernel(A: T.Buffer((16,), dtype), B: T.Buffer((16,), dtype), C: T.Buffer((16,), dtype)):
        for i in range(16):
            C[i] = A[i] * B[i] + A[i] - B[i]

    from_dtype = DataType(dtype)
    low, high = int(from_dtype.min_value), int(from_dtype.max_value)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(low, high, 16, dtype=from_dtype.numpy, endpoint=True) for _ in range(2))
    c = np.zeros(16, from_dtype.numpy)
    interpret(kernel, a, b, c)
    for x, y, got in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        assert low <= got <= high and (x * y + x - y - got) % 2**from_dtype.bits == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_round_at_every_operation(dtype):
    @T.prim_func
    def kernel(A: T.Buffer((32,), dtype), B: T.Buffer((32,), dtype), C: T.Buffer((32,), dtype)):
        for i in range(32):
            C[i] = A[i] * B[i] + A[i]

    storage = np.float16 if dtype == "float16" else getattr(ml_dtypes, dtype)
    a, b = randn(32).astype(storage), randn(32, seed=1).astype(storage)
    c = np.zeros(32, storage)
    interpret(kernel, a, b, c)
    np.testing.assert_array_equal(c.astype(np.float64), (a * b + a).astype(np.float64))


def test_integer_division_of_negative_numbers():
    @T.prim_func
    def kernel(A: T.Buffer((20,), "int32"), C: T.Buffer((20, 4), "int32")):
        for i in range(20):
            C[i, 0] = A[i] // 3
            C[i, 1] = A[i] % 3
            C[i, 2] = T.truncdiv(A[i], 3)
            C[i, 3] = T.truncmod(A[i], 3)

    a, c = np.arange(-10, 10, dtype=np.int32), np.zeros((20, 4), np.int32)
    interpret(kernel, a, c)
    np.testing.assert_array_equal(c[:, 0], a // 3)
    np.testing.assert_array_equal(c[:, 1], a % 3)
    np.testing.assert_array_equal(c[:, 2], np.trunc(a / 3))
    np.testing.assert_array_equal(c[:, 3], np.fmod(a, 3))


def test_flattened_views_and_other_types_of_the_same_bytes():
    @T.prim_func
    def kernel(A: T.Buffer((2, 3), "float32"), C: T.Buffer((6,), "uint32")):
        F = T.decl_buffer((6,), "float32", data=A.data)
        U = T.decl_buffer((6,), "uint32", data=A.data)
        W = T.Buffer((2, 2), "float32", data=A.data, strides=[3, 1], elem_offset=1)
        F[0] = 5.0
        W[1, 1] = 7.0
        for i in range(6):
            C[i] = U[i]

    a, c = randn(2, 3), np.zeros(6, np.uint32)
    want = a.copy()
    want[0, 0], want[1, 2] = 5.0, 7.0
    interpret(kernel, a, c)
    np.testing.assert_array_equal(a, want)
    np.testing.assert_array_equal(c, want.view(np.uint32).ravel())


def test_allocated_memory_and_constants():
    @T.prim_func
    def kernel(C: T.Buffer((4,), "int32")):
        table = T.allocate_const([3, 1, 4, 1], "int32", [4])
        T_ = T.Buffer((4,), "int32", data=table)
        for i in range(4):
            t = T.allocate([1], "int32", "local")
            t1 = T.Buffer((1,), "int32", data=t, scope="local")
            t1[0] = T_[i] * 2
            C[i] = t1[0]

    c = np.zeros(4, np.int32)
    interpret(kernel, c)
    assert c.tolist() == [6, 2, 8, 2]


def test_bool_buffers():
    @T.prim_func
    def kernel(A: T.Buffer((6,), "float32"), M: T.Buffer((6,), "bool"), N: T.Buffer((6,), "int32")):
        for i in range(6):
            M[i] = A[i] > 0.0
            N[i] = T.Cast("int32", M[i]) + T.Cast("int32", not M[i]) * 10

    a, m, n = randn(6), np.zeros(6, np.bool_), np.zeros(6, np.int32)
    interpret(kernel, a, m, n)
    np.testing.assert_array_equal(m, a > 0)
    np.testing.assert_array_equal(n, np.where(a > 0, 1, 10))


def test_functions_of_a_module_call_each_other():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def square(x: T.float32) -> T.float32:
            T.ret(x * x)

        @T.prim_func
        def main(A: T.Buffer((3,), "float32")):
            for i in range(3):
                A[i] = Module.square(A[i]) + 1.0

    a = np.array([1, 2, 3], np.float32)
    interpret(Module, a)
    assert a.tolist() == [2.0, 5.0, 10.0]
    assert interpret(Module, 3.0, name="square") == 9.0
    with pytest.raises(TirError, match="did you mean 'square'"):
        interpret(Module, 3.0, name="sqare")


def test_operations_of_custom_types_are_called_by_their_symbols():
    datatype.register("ring")
    try:
        datatype.register_op(lambda a, b: (a + b) % 251, "Add", "llvm", "ring")
        outside = datatype.ExternFunction("ring_mul_in_machine_code", python=lambda a, b: a * b % 251)
        datatype.register_op(outside, "Mul", "llvm", "ring")
        func = parse("""
@T.prim_func
def f(A: T.Buffer((3,), "uint8")):
    A[1] = T.call_extern("uint8", "custom.ring.Add.llvm.uint8.uint8.uint8", A[0], A[0])
    A[2] = T.call_extern("uint8", "ring_mul_in_machine_code", A[0], A[0])
""")
        a = np.array([200, 0, 0], np.uint8)
        interpret(func, a)
        assert a.tolist() == [200, 400 % 251, 40000 % 251]
    finally:
        datatype.unregister("ring")


def test_return_values_end_the_function():
    @T.prim_func
    def find(A: T.Buffer((8,), "int32"), x: T.int32) -> T.int32:
        for i in range(8):
            if A[i] == x:
                T.ret(i)
        T.ret(-1)

    a = np.arange(8, dtype=np.int32) * 3
    assert [interpret(find, a, x) for x in (0, 9, 21, 5)] == [0, 3, 7, -1]


def test_outputs_are_allocated_and_returned():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((2, 2), "float32")):
        for i in range(4):
            B[i] = A[i] + 1.0
            C[i // 2, i % 2] = A[i] * 2.0

    a = randn(4)
    b, c = interpret(kernel, a, outputs=["B", "C"])
    np.testing.assert_array_equal(b, a + 1)
    np.testing.assert_array_equal(c.ravel(), a * 2)
    only = interpret(kernel.with_attr("tir.outputs", ["C"]), a, np.zeros(4, np.float32))
    np.testing.assert_array_equal(only, c)


def test_assertions_stop_with_their_message():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32")):
        for i in range(4):
            assert A[i] < 10, "too large"
            T.evaluate(T.assume(A[i] >= 0))

    interpret(kernel, np.array([1, 2, 3, 9], np.int32))
    with pytest.raises(RuntimeAssertError, match="too large") as error:
        interpret(kernel, np.array([1, 2, 30, 9], np.int32))
    assert "i = 2" in str(error.value)
    with pytest.raises(RuntimeAssertError, match="the assumption does not hold"):
        interpret(kernel, np.array([1, -2, 3, 9], np.int32))


def test_zero_sized_arrays():
    @T.prim_func
    def kernel(a: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n, 3), "float32")
        for i, j in T.grid(n, 3):
            A[i, j] = 1.0

    empty, full = np.zeros((0, 3), np.float32), np.zeros((1, 3), np.float32)
    interpret(kernel, empty)
    interpret(kernel, full)
    assert empty.shape == (0, 3) and (full == 1).all()


def test_an_interpreter_is_compiled_once_and_called_often():
    @T.prim_func
    def kernel(A: T.Buffer((1,), "int32")):
        A[0] += 1

    program = Interpreter(kernel)
    a = np.zeros(1, np.int32)
    for _ in range(5):
        program.call(None, a)
    assert a[0] == 5


@T.prim_func
def halves(A: T.Buffer((4,), "int32"), n: T.int32):
    T_ = T.alloc_buffer((4,), "int32")
    for i in range(4):
        if i < n:
            T_[i] = A[i] // 2
    for i in range(4):
        A[i] = T_[i]


def test_what_ran_is_kept_ready_and_starts_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    class Counted(Interpreter):
        def __init__(self, *args: object, **options: object) -> None:
            compiled.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(interpreter, "Interpreter", Counted)
    func = halves.with_attr("global_symbol", "kept")
    a = np.array([2, 4, 6, 8], np.int32)
    gone = weakref.ref(a)
    for _ in range(3):
        interpret(func, a, 4)
    assert a.tolist() == [0, 0, 0, 1] and len(compiled) == 1
    del a
    assert gone() is None  # its arrays are not kept
    with pytest.raises(UnboundError):  # nor is what the runs before wrote into memory of the program's own
        interpret(func, np.zeros(4, np.int32), 2)
    interpret(func, np.zeros(4, np.int32), 4)
    assert len(compiled) == 2  # after an error it is compiled anew
    for at in range(20):
        interpret(halves.with_attr("global_symbol", f"other{at}"), np.zeros(4, np.int32), 4)
    interpret(func, np.zeros(4, np.int32), 4)
    assert len(compiled) == 23  # few are kept


def test_threads_run_one_program_at_once() -> None:
    arrays = [np.arange(4, dtype=np.int32) * 2 * (at + 1) for at in range(64)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda a: interpret(halves, a, 4), arrays))
    assert [a.tolist() for a in arrays] == [[0, at + 1, 2 * (at + 1), 3 * (at + 1)] for at in range(64)]


def test_long_programs_and_long_chains():
    X = Buffer("X", (1,), "float32")
    chain = X[0]
    for _ in range(5000):
        chain = chain + const(1.0, "float32")
    shared = X[0]
    for _ in range(200):
        shared = shared + shared  # 2 ** 200 nodes as a tree
    p = Var("p", "handle")
    func = PrimFunc((p,), {p: X}, None, {}, BufferStore(X, chain + shared * const(0.0, "float32"), (0,)))
    x = np.zeros(1, np.float32)
    interpret(func, x)
    assert x[0] == 5000.0
    nest = BufferStore(X, X[0] + const(1.0, "float32"), (0,))
    for depth in range(400):
        nest = For(Var(f"i{depth}"), 0, 1, "serial", None, {}, nest)
    interpret(PrimFunc((p,), {p: X}, None, {}, nest), x)
    assert x[0] == 5001.0


def test_what_has_no_function_to_run():
    @I.ir_module
    class Module:
        @T.prim_func
        def one(A: T.Buffer((1,), "int32")):
            A[0] = 1

        @T.prim_func
        def two(A: T.Buffer((1,), "int32")):
            A[0] = 2

    with pytest.raises(ArgumentError, match="one, two"):
        interpret(Module, np.zeros(1, np.int32))
    with pytest.raises(ArgumentError, match="takes a PrimFunc"):
        interpret("text")


def test_endless_recursion_is_an_error():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def main(x: T.int32) -> T.int32:
            T.ret(Module.main(x + 1))

    with pytest.raises(InterpreterError, match="nests too deeply"):
        interpret(Module, 0)


def test_functions_of_the_packed_convention():
    @T.prim_func
    def packed(
        args: T.handle,
        arg_type_ids: T.handle("int32"),
        num_args: T.int32,
        out_ret_value: T.handle,
        out_ret_tcode: T.handle("int32"),
        resource_handle: T.handle,
    ) -> T.int32:
        T.func_attr({"calling_conv": 1})
        assert num_args == 2, "two arguments are expected"
        codes = T.decl_buffer((2,), "int32", data=arg_type_ids)
        assert codes[0] == 7, "the first argument is a tensor"
        handle: T.let[T.handle] = T.tvm_struct_get(args, 0, 12, "handle")
        k: T.let[T.int32] = T.Cast("int32", T.tvm_struct_get(args, 1, 12, "int64"))
        assert T.tvm_struct_get(handle, 0, 4, "int32") == 1, "one dimension is expected"
        shape: T.let[T.handle("int64")] = T.tvm_struct_get(handle, 0, 2, "handle")
        dims = T.decl_buffer((1,), "int64", data=shape)
        data: T.let[T.handle("float32")] = T.tvm_struct_get(handle, 0, 1, "handle")
        n: T.let[T.int32] = T.Cast("int32", dims[0])
        A = T.decl_buffer((n,), "float32", data=data)
        for i in range(n):
            A[i] = A[i] + T.Cast("float32", k)
        T.evaluate(T.tvm_struct_set(out_ret_value, 0, 12, T.int64(5)))
        T.ret(0)

    a = np.arange(6, dtype=np.float32)
    assert interpret(packed, a, 3) == 5
    assert a.tolist() == [3, 4, 5, 6, 7, 8]
    with pytest.raises(RuntimeAssertError, match="two arguments are expected"):
        interpret(packed, a)
    with pytest.raises(RuntimeAssertError, match="one dimension is expected"):
        interpret(packed, a.reshape(2, 3), 3)
