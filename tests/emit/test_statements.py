"""Statements: loops of every kind, branches, jumps, allocations, assertions, returns."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import build, build_module, count, llvm_text
from tirlower.diagnostics import CodegenError, LoweringError, RuntimeAssertError
from tirlower.script import parse

pytestmark = pytest.mark.by_day


def test_loops_with_dynamic_bounds_and_empty_ranges() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((32,), "int32"), lo: T.int32, hi: T.int32):
            for i in range(lo, hi):
                A[i] = A[i] + i
    """)
    a = np.zeros(32, "int32")
    f(a, 3, 7)
    f(a, 9, 9)
    f(a, 9, 2)
    assert a.tolist() == [i if 3 <= i < 7 else 0 for i in range(32)]


@pytest.mark.parametrize("kind", ["serial", "unroll", "vectorized"])
def test_loop_kinds_that_are_left_are_serial(kind: str) -> None:
    f = build(f"""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32")):
            for i in T.{kind}(8):
                A[i] = A[i] * 2
    """)
    a = np.arange(8, dtype="int32")
    f(a)
    assert a.tolist() == [2 * i for i in range(8)]


def test_loop_hints_reach_llvm() -> None:
    text = llvm_text("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32")):
            for i in T.serial(8, annotations={"pragma_unroll": 4}):
                A[i] = i
            for i in T.unroll(8):
                A[i] = i
            for i in T.serial(8, annotations={"tir.no_unroll": True, "tir.llvm_vectorize": False}):
                A[i] = i
    """)
    for hint in ("llvm.loop.unroll.count", "llvm.loop.unroll.full", "llvm.loop.unroll.disable",
                 "llvm.loop.vectorize.enable"):  # fmt: skip
        assert hint in text, hint


def test_a_loop_around_loops_says_that_it_stays() -> None:
    def hints(head: str, inner: str, target: str = "llvm") -> set[str]:
        text = llvm_text(
            f"""
        @T.prim_func
        def kernel(A: T.Buffer((9, 4096), "float32"), n: T.int32):
            for i in {head}:
                for j in {inner}:
                    A[i, j] = A[i, j] * T.float32(2)
        """,
            target,
        )
        return set(re.findall(r"llvm\.loop\.unroll\.\w+", text))

    for inner in ("range(n)", "range(4096)", 'T.serial(8, annotations={"tir.no_unroll": True})'):
        assert hints("range(9)", inner) == {"llvm.loop.unroll.disable"}, inner
    assert hints("range(9)", "range(4)") == set()
    assert hints("T.unroll(9)", "range(n)") == {"llvm.loop.unroll.full"}
    assert hints('T.serial(9, annotations={"pragma_unroll": 3})', "range(n)") == {"llvm.loop.unroll.count"}


def test_a_loop_of_so_many_vectors_is_a_loop_that_stays() -> None:
    """LLVM leaves one of 64 statements of four vectors a loop, and copied it for each iteration around it."""

    def hints(inner: int) -> set[str]:
        func = parse(f"""
def kernel(A: T.Buffer((9, 5000), "float32")):
    for i, j in T.grid(9, {inner}):
        for k in T.vectorized(64):
            A[i, j * 64 + k] = A[i, j * 64 + k] * T.float32(2)
""")
        return set(re.findall(r"llvm\.loop\.unroll\.\w+", tl.build(func, schedule="none").source("llvm")))

    assert hints(64) == {"llvm.loop.unroll.disable"}
    assert hints(4) == set()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32"])
def test_loop_variables_of_every_width(dtype: str) -> None:
    f = build(f"""
        @T.prim_func
        def kernel(A: T.Buffer((100,), "{dtype}")):
            for i in range(T.{dtype}(100)):
                A[i] = i * i
    """)
    a = np.zeros(100, dtype)
    f(a)
    assert (a == (np.arange(100) ** 2).astype(dtype)).all()


def test_nested_loops_with_triangular_bounds() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((9, 9), "int32")):
            for i in range(9):
                for j in range(i, 9):
                    for k in range(j - i):
                        A[i, j] = A[i, j] + k + 1
    """)
    a = np.zeros((9, 9), "int32")
    f(a)
    assert a.tolist() == [[sum(range(1, j - i + 1)) if j >= i else 0 for j in range(9)] for i in range(9)]


def test_branches_and_bindings() -> None:
    f = build(
        """
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
            for i in range(16):
                x = T.bind(A[i] * 3)
                j = T.bind(15 - i)
                if x > 20:
                    if i % 2 == 0:
                        B[j] = x
                    else:
                        B[j] = -x
                elif x > 10:
                    B[j] = 10
                else:
                    B[j] = T.Let(x + y, where={y: i * 100}) if False else x + i * 100
    """.replace("T.Let(x + y, where={y: i * 100}) if False else ", "")
    )
    a, b = np.arange(16, dtype="int32"), np.zeros(16, "int32")
    f(a, b)
    for i in range(16):
        x = 3 * i
        assert b[15 - i] == ((x if i % 2 == 0 else -x) if x > 20 else 10 if x > 10 else x + i * 100)


def test_while_and_jumps() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int32"), n: T.int32, R: T.Buffer((3,), "int32")):
            R[0] = 0
            while T.And(R[0] < 16, A[R[0]] != n):
                R[0] = R[0] + 1
            for i in range(16):
                if A[i] % 2 == 0:
                    T.evaluate(T.continue_loop())
                if A[i] > n:
                    T.evaluate(T.break_loop())
                R[1] = R[1] + A[i]
            while True:
                R[2] = R[2] + 1
                if R[2] > 9:
                    T.evaluate(T.break_loop())
    """)
    a, r = np.arange(16, dtype="int32"), np.zeros(3, "int32")
    f(a, 7, r)
    assert r.tolist() == [7, 1 + 3 + 5 + 7, 10]
    f(a, 99, r)
    assert r[0] == 16


def test_returned_values() -> None:
    for dtype, value, want in (("int32", "A[n] * 2", 6), ("float32", 'T.Cast("float32", A[n]) + T.float32(0.5)', 3.5),
                               ("bool", "A[n] > 2", True), ("int64", 'T.Cast("int64", A[n]) - T.int64(10)', -7),
                               ("uint8", 'T.Cast("uint8", A[n]) - T.uint8(4)', 255)):  # fmt: skip
        f = build(f"""
            @T.prim_func
            def kernel(A: T.Buffer((8,), "int32"), n: T.int32) -> T.{dtype}:
                for i in range(4):
                    if i == n:
                        T.ret({value})
                T.ret(T.{dtype}(0))
        """)
        got = f(np.arange(8, dtype="int32"), 3)
        assert got == want and type(got) is type(want)
        assert f(np.arange(8, dtype="int32"), 5) == 0


# -- memory ------------------------------------------------------------------------------------------------------------


class Heap:
    """Counts what a kernel allocates and frees, by replacing the functions that it imports."""

    def __init__(self, fail_at: int = -1) -> None:
        self.libc = ctypes.CDLL(None)
        self.libc.aligned_alloc.restype = ctypes.c_void_p
        self.live: set[int] = set()
        self.calls, self.fail_at = 0, fail_at
        self.alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(self._alloc)
        self.free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._free)

    def _alloc(self, align: int, size: int) -> int | None:
        self.calls += 1
        assert align >= 64 and size > 0 and size % align == 0
        if self.calls == self.fail_at:
            return None
        got = self.libc.aligned_alloc(ctypes.c_size_t(align), ctypes.c_size_t(size))
        self.live.add(got)
        return got

    def _free(self, pointer: int) -> None:
        self.live.remove(pointer)
        self.libc.free(ctypes.c_void_p(pointer))

    def build(self, program: str, target: str = "llvm"):  # type: ignore[no-untyped-def]
        import textwrap

        from tirlower.llvm import scratch
        from tirlower.llvm.codegen import compile_options, generate, resolve_imports
        from tirlower.llvm.entry import add_entry, entry_imports, make_entry
        from tirlower.llvm.jit import engine
        from tirlower.machine.target import Target

        made = generate(parse(textwrap.dedent(program)), target)
        (info,) = made.kernels.values()
        exports = add_entry(made.module, info.signature, info.ref, name=info.symbol)
        mine = {"aligned_alloc": self.alloc, "free": self.free, scratch.TAKE: self.alloc, scratch.GIVE: self.free}
        text = made.text
        for name in mine:
            text = text.replace(f"@{name}(", f"@test_{name}(")
        # LLVM may leave out calls of the real functions; these are unknown to it.
        text = text.replace('allockind("free")', "")
        for family in ("malloc", "tirlower_scratch"):
            text = text.replace(f'"alloc-family"="{family}"', "")
        text = text.replace('allockind("alloc,uninitialized,aligned")', "").replace("allocsize(1)", "")
        text = text.replace("allocptr", "").replace("allocalign", "").replace("memory(inaccessiblemem: readwrite)", "")
        code = engine().compile_object(text, compile_options(Target(target)).with_(opt_level=1))
        where = {f"test_{name}": ctypes.cast(function, ctypes.c_void_p).value for name, function in mine.items()}
        linked = engine().link(code.object, exports, {**entry_imports(), **resolve_imports(made.imports), **where})
        return make_entry(info.signature, linked, info.errors, name=info.symbol)


def test_small_buffers_are_on_the_stack_and_large_ones_on_the_heap() -> None:
    text = llvm_text("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "float32")):
            x = T.alloc_buffer((64,), "float32")
            y = T.alloc_buffer((100000,), "float32")
            for i in range(64):
                x[i] = A[i]
                y[i * 100] = x[i]
            for i in range(64):
                A[i] = x[i] + y[i * 100]
    """)
    assert count(r"alloca \[64 x float\], align 64", text) == 1
    assert count("call ptr @aligned_alloc", text) == 1 and count("call void @free", text) == 1


def test_heap_memory_is_freed_on_every_way_out() -> None:
    program = """
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), n: T.int32) -> T.int32:
            X = T.alloc_buffer((10000,), "int32")
            for i in range(8):
                X[i] = A[i]
            for i in range(8):
                Y = T.alloc_buffer((T.max(n, 1) * 1000 + i,), "int32")
                Y[0] = X[i]
                if A[i] == 1:
                    T.evaluate(T.continue_loop())
                if A[i] == 2:
                    T.evaluate(T.break_loop())
                if A[i] == 3:
                    T.ret(Y[0])
                assert A[i] != 4, "four"
                Z = T.alloc_buffer((5000,), "int32")
                Z[n] = 100 // A[i]
                A[i] = Z[n] + Y[0]
            T.ret(0)
    """
    heap = Heap()
    f = heap.build(program)
    for values, result in (([5] * 8, 0), ([1, 5, 2, 5, 5, 5, 5, 5], 0), ([5, 3, 5, 5, 5, 5, 5, 5], 3)):
        assert f(np.array(values, "int32"), 3) == result
        assert not heap.live
    with pytest.raises(RuntimeAssertError, match="four"):
        f(np.array([5, 1, 4, 5, 5, 5, 5, 5], "int32"), 3)
    assert not heap.live
    with pytest.raises(ZeroDivisionError):
        f(np.array([5, 1, 0, 5, 5, 5, 5, 5], "int32"), 3)
    assert not heap.live and heap.calls > 20


@pytest.mark.parametrize("fail_at", [1, 2, 3, 5])
def test_failed_allocations_are_memory_errors(fail_at: int) -> None:
    heap = Heap(fail_at)
    f = heap.build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), n: T.int32):
            X = T.alloc_buffer((10000,), "int32")
            X[0] = 1
            for i in range(8):
                Y = T.alloc_buffer((n * 1000 + i,), "int32")
                Y[0] = X[0]
                A[i] = Y[0]
    """)
    with pytest.raises(MemoryError, match="cannot allocate"):
        f(np.zeros(8, "int32"), 3)
    assert not heap.live


def test_allocations_that_do_not_change_are_made_ahead_of_the_loop() -> None:
    heap = Heap()
    f = heap.build("""
        @T.prim_func
        def kernel(A: T.Buffer((100,), "int32"), n: T.int32):
            for i in range(10):
                for j in range(10):
                    X = T.alloc_buffer((n * 1000,), "int32")
                    Y = T.alloc_buffer((8000,), "int32")
                    X[0] = i
                    Y[0] = j
                    A[i * 10 + j] = X[0] * 10 + Y[0]
    """)
    a = np.zeros(100, "int32")
    f(a, 4)
    assert a.tolist() == list(range(100)) and heap.calls == 2 and not heap.live


@pytest.mark.parametrize("n", [-1, 2**31 - 1])
def test_sizes_that_cannot_be_are_errors(n: int) -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((4,), "int32"), n: T.int32):
            X = T.alloc_buffer((n, n, n), "int64")
            X[0, 0, 0] = T.int64(1)
            A[0] = T.Cast("int32", X[0, 0, 0])
    """)
    with pytest.raises(MemoryError, match=f"{n}, {n}, {n}"):
        f(np.zeros(4, "int32"), n)


def test_empty_allocations_and_constants() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((4,), "float32"), n: T.int32):
            X = T.alloc_buffer((n,), "float32")
            c = T.allocate_const([1.5, 2.5, -0.25, 8.0], "float32", [4])
            C = T.decl_buffer((4,), "float32", data=c)
            for i in range(n):
                X[i] = C[i]
            for i in range(n):
                A[i] = X[i] + C[3 - i]
    """)
    a = np.zeros(4, "float32")
    f(a, 0)
    assert (a == 0).all()
    f(a, 4)
    assert a.tolist() == [9.5, 2.25, 2.25, 9.5]


# -- errors ------------------------------------------------------------------------------------------------------------


def test_assertions_say_what_and_where() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), n: T.int32):
            for i in range(n):
                assert i < 3, "too {many}"
                A[i] = 1
    """)
    a = np.zeros(8, "int32")
    f(a, 3)
    with pytest.raises(RuntimeAssertError, match=r"too \{many\} \(i = 3\)"):
        f(a, 5)
    assert a.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_assertions_may_name_another_error() -> None:
    from tirlower.ir import Assert, BufferStore, Call, Op, Seq, StringImm
    from tirlower.ir.functor import Mutator

    func = parse(
        "@T.prim_func\ndef kernel(A: T.Buffer((8,), 'int32'), n: T.int32):\n    assert n < 8, 'x'\n    A[n] = 1\n"
    )

    class Rename(Mutator):
        def visit_Assert(self, op: Assert) -> Assert:
            message = Call(
                Op.get("tir.tvm_tuple"),
                (StringImm("IndexError"), StringImm("index {0} of 8"), func.params[1]),
                "handle",
            )
            return op.with_(message=message)

    f = build(func.with_body(Rename().visit(func.body)))
    with pytest.raises(IndexError, match="index 9 of 8"):
        f(np.zeros(8, "int32"), 9)
    assert BufferStore and Seq


def test_what_was_not_lowered_is_refused_with_a_remedy() -> None:
    block = """
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32")):
            for i in range(8):
                with T.block("b"):
                    v = T.axis.spatial(8, i)
                    A[v] = v
    """
    with pytest.raises(LoweringError, match="not lowered"):
        llvm_text(block)
    thread = """
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32")):
            for i in T.thread_binding(8, thread="threadIdx.x"):
                A[i] = i
    """
    with pytest.raises(LoweringError, match="thread axis"):
        llvm_text(thread)
    with pytest.raises(CodegenError, match="GPU"):
        llvm_text("""
            @T.prim_func
            def kernel(A: T.Buffer((8,), "int32")):
                A[0] = 1
                T.evaluate(T.tvm_storage_sync("shared"))
        """)


def test_kernels_may_be_named_like_functions_of_the_c_library() -> None:
    for name in ("memset", "exp", "malloc", "free"):
        f = build(f"""
            @T.prim_func
            def {name}(A: T.Buffer((64,), "float32")):
                for i in range(64):
                    A[i] = T.exp(A[i]) * 0.0
        """, opt_level=3)  # fmt: skip
        a = np.ones(64, "float32")
        f(a)
        assert (a == 0).all()


def test_many_statements_and_deep_nesting() -> None:
    from tirlower.ir import BufferStore, For, ForKind, IfThenElse, IntImm, PrimFunc, Seq, Var, decl_buffer
    from tirlower.ir.build import lt

    buffer = decl_buffer((1000,), "int32", "A")
    handle = Var("a", buffer.data.type)
    stores = [BufferStore(buffer, IntImm("int32", k), (IntImm("int32", k % 1000),)) for k in range(20_000)]
    body = Seq(tuple(stores))
    i = Var("i", "int32")
    nested = BufferStore(buffer, IntImm("int32", -1), (IntImm("int32", 0),))
    for _ in range(400):
        nested = IfThenElse(lt(i, IntImm("int32", 5)), nested, None)
    loop = For(i, 0, 4, ForKind.SERIAL, None, {}, nested)
    func = PrimFunc((handle,), {handle: buffer}, None, {"global_symbol": "many"}, Seq((body, loop)))
    made = build_module(func)[0]["many"]
    a = np.zeros(1000, "int32")
    made(a)
    assert a[0] == -1 and a[1:].tolist() == list(range(19_001, 20_000))


@pytest.mark.parametrize("opt_level", [1, 2])
@pytest.mark.parametrize("bound", [False, True])
def test_remainders_that_wrap_inside_a_vectorized_loop(bound: bool, opt_level: int) -> None:
    # LLVM 22 takes its check that the sum of the index does not wrap for one that the remainder by 8 does not either.
    low = "x" if bound else "T.bitwise_and(i, 7)"
    row = "(T.truncmod(0 - n, 6) + T.bitwise_and(6, T.shift_right(T.truncmod(0 - n, 6), 31)))"
    f = build(
        f"""
        @T.prim_func
        def kernel(A: T.Buffer((48,), "int32"), n: T.int32):
            if T.min(0, n) == 0:
                A[(T.truncmod(n, 6) + T.bitwise_and(6, T.shift_right(T.truncmod(n, 6), 31))) * 8] = (T.Div(n, 3) + T.shift_right(T.truncmod(n, 3), 31)) * 3
            for i in range(2, 2 + n):
                x: T.int32 = T.bitwise_and(i, 7)
                A[{row} * 8 + {low}] = T.Div(i, 3) - 18
    """,
        opt_level=opt_level,
    )
    for n in (1, 4, 8, 14, 20):
        a = np.zeros(48, "int32")
        wanted = a.copy()
        f(a, n)
        wanted[n % 6 * 8] = n // 3 * 3
        for i in range(2, 2 + n):
            wanted[-n % 6 * 8 + i % 8] = i // 3 - 18
        np.testing.assert_array_equal(a, wanted)


def _chain(dtype: str, n: int) -> str:
    """Integers in a loop, each of which uses the one before twice."""
    lines = [f"x{k + 1} = (x{k} + x{k} // T.{dtype}(2)) % T.{dtype}({61 - k % 5})" for k in range(n)]
    body = "\n        ".join([f'x0 = T.Cast("{dtype}", i)', *lines, f"A[i] = x{n}"])
    return f'@T.prim_func\ndef kernel(A: T.Buffer((50,), "{dtype}")):\n    for i in range(50):\n        {body}\n'


@pytest.mark.parametrize(
    "dtype",
    [
        "int32",
        "uint64",
        *(pytest.param(d, marks=pytest.mark.nightly) for d in ("int8", "int16", "int64", "uint8", "uint32")),
    ],
)
def test_integers_far_from_the_loop_variable_are_hidden_from_llvm(dtype: str) -> None:
    """LLVM's loop strength reduction follows each as a function of the variable, in more than linear time."""
    assert count('asm ""', llvm_text(_chain(dtype, 90))) in (1, 2)  # in its own type, and in 64 bits
    assert count('asm ""', llvm_text(_chain(dtype, 30))) == 0
    outside = _chain(dtype, 90).replace("for i in range(50)", "if i < 50").replace('")):', '"), i: T.int32):')
    assert count('asm ""', llvm_text(outside)) == 0
    a = np.zeros(50, dtype)
    build(_chain(dtype, 90))(a)
    x = np.arange(50).astype(dtype)
    for k in range(90):
        x = (x + x // np.array(2, dtype)) % np.array(61 - k % 5, dtype)
    assert a.tolist() == x.tolist()
