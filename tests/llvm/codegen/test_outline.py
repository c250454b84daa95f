"""Parallel loops: results, captured values, errors, memory, nesting."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emit.test_statements import Heap
from tirlower.diagnostics import CodegenError, RuntimeAssertError

from .conftest import build, build_module, count, llvm_text

SUM = """
    @T.prim_func
    def kernel(A: T.Buffer(("n", 64), "float32"), B: T.Buffer(("n",), "float32"), s: T.float32, k: T.int64, h: T.float16,
               flag: T.bool):
        for i in T.parallel(n):
            B[i] = T.float32(0)
            for j in range(64):
                if flag:
                    B[i] = B[i] + A[i, j] * s
            B[i] = B[i] + T.Cast("float32", k) + T.Cast("float32", h)
"""


@pytest.mark.parametrize("target", ["llvm", "llvm -num_threads=1", "llvm -num_threads=2"])
@pytest.mark.parametrize("n", [0, 1, 2, 37, 1000])
def test_results_and_captured_values(target: str, n: int, rng: np.random.Generator) -> None:
    f = build(SUM, target)
    a = rng.integers(-4, 4, (n, 64)).astype("float32")
    b = np.full(n, 99, "float32")
    f(a, b, 2.0, 5, 0.5, True)
    assert (b == a.sum(axis=1) * 2 + 5.5).all()


def test_one_thread_needs_no_runtime() -> None:
    assert "tirlower_parallel_launch" in llvm_text(SUM)
    assert "tirlower_parallel_launch" not in llvm_text(SUM, "llvm -num_threads=1")


def test_iterations_from_a_lower_bound_in_every_schedule() -> None:
    for note in ("", ', annotations={"tir.schedule": "dynamic"}',
                 ', annotations={"tir.schedule": "dynamic", "tir.chunk": 3, "tir.num_threads": 2}'):  # fmt: skip
        f = build(f"""
            @T.prim_func
            def kernel(A: T.Buffer((100,), "int64"), lo: T.int64, hi: T.int64):
                for i in T.parallel(lo, hi{note}):
                    A[i] = A[i] + i * i
        """)
        a = np.zeros(100, "int64")
        f(a, 17, 93)
        f(a, 50, 50)
        assert a.tolist() == [i * i if 17 <= i < 93 else 0 for i in range(100)]
    with pytest.raises(CodegenError, match="guided"):
        llvm_text("""
            @T.prim_func
            def kernel(A: T.Buffer((100,), "int64")):
                for i in T.parallel(100, annotations={"tir.schedule": "guided"}):
                    A[i] = T.int64(0)
        """)


def test_nested_parallel_loops_run_in_order_inside_a_task() -> None:
    program = """
        @T.prim_func
        def kernel(A: T.Buffer((20, 30), "int32")):
            for i in T.parallel(20):
                for j in T.parallel(30):
                    A[i, j] = i * 100 + j
    """
    assert count("call i32 @tirlower_parallel_launch", llvm_text(program)) == 1
    a = np.zeros((20, 30), "int32")
    build(program)(a)
    assert a.tolist() == [[i * 100 + j for j in range(30)] for i in range(20)]


def test_buffers_of_a_task_are_its_own() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64, 50), "int32"), B: T.Buffer((64,), "int32"), m: T.int32):
            for i in T.parallel(64):
                small = T.alloc_buffer((50,), "int32")
                large = T.alloc_buffer((9000,), "int32")
                sized = T.alloc_buffer((m * 100 + i,), "int32")
                for j in range(50):
                    small[j] = A[i, j]
                    large[j * 100] = small[j]
                    sized[j] = large[j * 100]
                B[i] = 0
                for j in range(50):
                    B[i] = B[i] + small[j] + large[j * 100] + sized[j]
    """)
    a = np.arange(64 * 50, dtype="int32").reshape(64, 50)
    for _ in range(20):
        b = np.zeros(64, "int32")
        f(a, b, 2)
        assert (b == 3 * a.sum(axis=1)).all()


def test_shared_memory_of_the_surrounding_function_and_outer_variables() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32):
            X = T.alloc_buffer((64,), "int32")
            Y = T.alloc_buffer((64000,), "int32")
            for k in range(3):
                c = T.bind(k * n)
                for i in T.parallel(64):
                    X[i] = A[i] + c
                for i in T.parallel(64):
                    Y[i * 1000] = X[63 - i] * 2
                for i in T.parallel(64):
                    B[i] = B[i] + Y[i * 1000]
    """)
    a, b = np.arange(64, dtype="int32"), np.zeros(64, "int32")
    f(a, b, 7)
    assert b.tolist() == [sum(2 * (63 - i + 7 * k) for k in range(3)) for i in range(64)]


@pytest.mark.parametrize("target", ["llvm -num_threads=2", "llvm -num_threads=1"])
def test_the_first_failure_of_a_task_reaches_the_caller(target: str) -> None:
    f = build(
        """
        @T.prim_func
        def kernel(A: T.Buffer((1000,), "int32"), n: T.int32):
            for i in T.parallel(1000):
                assert A[i] < n, "too large"
                A[i] = 100 // (A[i] + 1)
    """,
        target,
    )
    for _ in range(50):
        f(np.zeros(1000, "int32"), 1)
        with pytest.raises(RuntimeAssertError, match=r"too large \((i = 7\d\d, n = 5|n = 5, i = 7\d\d)\)"):
            a = np.zeros(1000, "int32")
            a[700:710] = 5
            f(a, 5)
        with pytest.raises(ZeroDivisionError, match="100 divided by 0"):
            a = np.zeros(1000, "int32")
            a[250] = -1
            f(a, 5)


def test_memory_is_freed_when_a_task_fails() -> None:
    heap = Heap()
    f = heap.build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32"), n: T.int32):
            X = T.alloc_buffer((10000,), "int32")
            X[0] = 3
            for i in T.parallel(64):
                Y = T.alloc_buffer((10000,), "int32")
                Z = T.alloc_buffer((n * 100 + i,), "int32")
                Y[0] = X[0]
                Z[0] = Y[0]
                assert A[i] != 1, "one"
                A[i] = Z[0]
    """, "llvm -num_threads=1")  # fmt: skip
    f(np.zeros(64, "int32"), 2)
    assert not heap.live
    a = np.zeros(64, "int32")
    a[40] = 1
    with pytest.raises(RuntimeAssertError):
        f(a, 2)
    assert not heap.live
    parallel = Heap()
    g = parallel.build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32"), n: T.int32):
            X = T.alloc_buffer((10000,), "int32")
            X[0] = 3
            for i in T.parallel(64):
                assert A[i] != 1, "one"
                A[i] = X[0]
    """, "llvm -num_threads=2")  # fmt: skip
    with pytest.raises(RuntimeAssertError):
        g(a, 2)
    assert not parallel.live


def test_atomics_of_many_types(rng: np.random.Generator) -> None:
    for dtype in ("int32", "int64", "uint8", "int16", "float32", "float64", "float16", "bfloat16"):
        f = build(f"""
            @T.prim_func
            def kernel(A: T.Buffer((512,), "{dtype}"), R: T.Buffer((3,), "{dtype}")):
                for i in T.parallel(512):
                    T.evaluate(T.atomic_add(T.address_of(R[0]), A[i]))
                    T.evaluate(T.atomic_max(T.address_of(R[1]), A[i]))
                    T.evaluate(T.atomic_min(T.address_of(R[2]), A[i]))
        """, "llvm -num_threads=2")  # fmt: skip
        from tirlower.ir.dtype import DataType

        kind = DataType(dtype).numpy
        a = (rng.integers(0, 2, 512)).astype(kind)
        a[5] = 2
        r = np.array([0, 0, 7]).astype(kind)
        for _ in range(5):
            r[0] = 0
            f(a, r)
            total = int(a.astype("int64").sum())
            want = total % 256 if dtype == "uint8" else 256 if dtype == "bfloat16" and total > 256 else total
            assert float(r[0]) == want and float(r[1]) == 2 and float(r[2]) == 0, dtype


def test_returns_and_breaks_out_of_parallel_loops_are_refused() -> None:
    for word in ("T.ret(1)", "T.evaluate(T.break_loop())"):
        with pytest.raises(CodegenError, match="parallel loop"):
            llvm_text(f"""
                @T.prim_func
                def kernel(A: T.Buffer((64,), "int32")) -> T.int32:
                    for i in T.parallel(64):
                        {word}
            """)


def test_continue_in_a_parallel_loop() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "int32")):
            for i in T.parallel(64):
                if i % 3 == 0:
                    T.evaluate(T.continue_loop())
                A[i] = i
    """)
    a = np.zeros(64, "int32")
    f(a)
    assert a.tolist() == [0 if i % 3 == 0 else i for i in range(64)]


def test_vectors_are_captured(rng: np.random.Generator) -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64, 16), "float32"), B: T.Buffer((16,), "float32"), M: T.Buffer((16,), "bool")):
            v = T.bind(B[T.Ramp(0, 1, 16)])
            m = T.bind(M[T.Ramp(0, 1, 16)])
            for i in T.parallel(64):
                A[i, T.Ramp(0, 1, 16)] = T.Select(m, v, A[i, T.Ramp(0, 1, 16)])
    """)
    a, b, m = rng.normal(size=(64, 16)).astype("float32"), np.arange(16, dtype="float32"), np.arange(16) % 3 == 0
    want = np.where(m, b, a)
    f(a, b, m)
    assert (a == want).all()


def test_failures_of_called_functions_in_tasks() -> None:
    from tirlower.script import parse

    module = parse("""
from tirlower.script import ir as I, tir as T
@I.ir_module
class M:
    @T.prim_func(private=True)
    def check(A: T.handle("int32"), i: T.int32) -> T.int32:
        B = T.Buffer((64,), "int32", data=A)
        assert B[i] < 10, "large element"
        T.ret(B[i] * 2)
    @T.prim_func
    def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for i in T.parallel(64):
            C[i] = M.check(A.data, i)
""")
    f = build_module(module, "llvm -num_threads=2")[0]["main"]
    a, c = np.arange(64, dtype="int32") % 10, np.zeros(64, "int32")
    f(a, c)
    assert (c == 2 * a).all()
    a[33] = 12
    for _ in range(20):
        with pytest.raises(RuntimeAssertError, match=r"large element \(i = 33\)"):
            f(a, c)
