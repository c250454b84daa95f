"""The imperative builder: what runs as Python is what the same words say as a script."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import assert_structural_equal, verify_well_formed
from tirlower.script import ir as I
from tirlower.script import tir as S
from tirlower.script.ir_builder import IRBuilder
from tirlower.script.ir_builder import ir as II
from tirlower.script.ir_builder import tir as T


def test_a_matmul_is_that_of_the_script():
    with IRBuilder() as ib, T.prim_func():
        T.func_name("matmul")
        T.func_attr({"tir.noalias": True})
        a = T.arg("a", T.handle())
        B = T.arg("B", T.Buffer((16, 16), "float32"))
        C = T.arg("C", T.Buffer((16, 16), "float32"))
        A = T.match_buffer(a, (16, 16), "float32")
        with T.grid(16, 16, 16) as (i, j, k), T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                T.buffer_store(C, T.float32(0), [vi, vj])
            T.buffer_store(C, C[vi, vj] + A[vi, vk] * B[vk, vj], [vi, vj])
    func = ib.get()

    @S.prim_func
    def matmul(a: S.handle, B: S.Buffer((16, 16), "float32"), C: S.Buffer((16, 16), "float32")):
        S.func_attr({"tir.noalias": True})
        A = S.match_buffer(a, (16, 16), "float32")
        for i, j, k in S.grid(16, 16, 16):
            with S.block("C"):
                vi, vj, vk = S.axis.remap("SSR", [i, j, k])
                S.reads(A[vi, vk], B[vk, vj])
                S.writes(C[vi, vj])
                with S.init():
                    C[vi, vj] = S.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    assert_structural_equal(func, matmul)
    assert func.script() == matmul.script()
    x, y, z = (np.random.default_rng(0).random((16, 16), "float32") for _ in range(3))
    tl.build(func)(x, y, z)
    np.testing.assert_allclose(z, x @ y, rtol=1e-5)


def test_statements_and_scopes():
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        n = T.arg("n", T.int32())
        A = T.arg("A", T.Buffer((64,), "int32"))
        T.func_ret(T.int32)
        with T.serial(n) as i, T.If(i < 3):
            with T.Then():
                T.buffer_store(A, i, [i])
            with T.Else(), T.LetStmt(i * 2) as twice:
                T.buffer_store(A, twice + 1, [i])
        buf = T.alloc_buffer((1,), "int32", scope="local")
        T.buffer_store(buf, 0, [0])
        with T.While(buf[0] < 5):
            T.buffer_store(buf, buf[0] + 1, [0])
        with T.allocate([4], "int32", "local") as p, T.decl_buffer((4,), "int32", data=p) as view:
            with T.unroll(4) as u:
                T.buffer_store(view, u, [u])
            T.buffer_store(A, view[3] + buf[0], [0])
        with T.attr(A, "note", 1):
            T.evaluate(T.call_extern("int32", "abs", n))
        T.evaluate(T.ret(A[1] + T.max(n, 2)))
    func = ib.get()
    verify_well_formed(func)
    assert [p.name for p in func.params] == ["n", "A"]
    for word in ("for i in range(n)", "twice", "buf[0] = buf[0] + 1", "while buf[0] < 5", "view[u] = u", "-> T.int32"):
        assert word in func.script(), func.script()
    data = np.zeros(64, "int32")
    assert tl.build(func)(6, data) == 7
    assert data[:6].tolist() == [8, 1, 2, 7, 9, 11]


def test_threads():
    with IRBuilder() as ib, T.prim_func(private=True):
        A = T.arg("A", T.Buffer((32,), "int32"))
        bx = T.env_thread("blockIdx.x")
        with T.launch_thread(bx, 4), T.thread_binding(8, thread="threadIdx.x") as tx:
            T.buffer_store(A, tx, [bx.var * 8 + tx])
    func = ib.get()
    assert func.name == "main" and "global_symbol" not in func.attrs
    data = np.zeros(32, "int32")
    tl.interpret(func, data)
    assert data.tolist() == list(range(8)) * 4


def test_python_decides_while_the_program_is_built():
    def table(B, values):
        for at, value in enumerate(values):
            if value:
                T.buffer_store(B, value, [at])

    with IRBuilder() as ib, T.prim_func():
        T.func_name("filled")
        B = T.arg("B", T.Buffer((4,), "int32"))
        table(B, [1, 0, 3, 4])
    assert len(ib.get().body.stmts) == 3


def test_modules():
    with IRBuilder() as ib, II.ir_module():
        II.module_attrs({"version": 2})
        for name in ("f", "g"):
            with T.prim_func():
                T.func_name(name)
                A = T.arg("A", T.Buffer((2,), "int32"))
                T.buffer_store(A, 1, [0])

    @I.ir_module
    class Wanted:
        I.module_attrs({"version": 2})

        @S.prim_func
        def f(A: S.Buffer((2,), "int32")):
            A[0] = 1

        @S.prim_func
        def g(A: S.Buffer((2,), "int32")):
            A[0] = 1

    assert_structural_equal(ib.get(), Wanted)


def test_fragments_and_names():
    with IRBuilder() as ib, T.serial(0, 16) as loop:
        IRBuilder.name("i", loop)
        with T.parallel(4) as j:
            T.evaluate(loop * 4 + j)
    loop = ib.get()
    assert isinstance(loop, ir.For) and loop.loop_var.name == "i" and loop.body.loop_var.name == "j"
    x, y = IRBuilder.name_many(["x", "y"], [T.int32(), T.int64()])
    assert (x.name, y.name, y.dtype) == ("x", "y", "int64")
    with pytest.raises(TirError, match="2 values take as many names"):
        IRBuilder.name_many(["x"], [x, y])


def test_places_are_checked():
    for form, message in (
        (lambda: T.func_name("f"), "only inside `with T.prim_func"),
        (lambda: T.arg("x", T.int32()), "only inside `with T.prim_func"),
        (lambda: II.module_attrs({}), "only inside `with I.ir_module"),
        (lambda: T.reads(), "directly in a block"),
    ):
        with pytest.raises(TirError, match=message), IRBuilder():
            form()
    with pytest.raises(TirError, match="only inside a prim_func"), T.serial(4):
        pass
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")
        with pytest.raises(TirError, match="still open"):
            ib.get()
        with pytest.raises(TirError, match="a parameter is a variable or a buffer"):
            T.arg("x", 3)
        with pytest.raises(TirError, match="in no other function"), T.prim_func():
            pass
        assert IRBuilder.current() is ib
    broken = IRBuilder()
    with pytest.raises(ZeroDivisionError), broken, T.prim_func():
        1 // 0
    with pytest.raises(TirError, match="an exception left it"):
        broken.get()


def test_a_builder_of_one_thread_or_scope_leaves_the_parser_alone():
    with IRBuilder() as ib, T.prim_func():
        T.func_name("f")

        @S.prim_func
        def inner(A: S.Buffer((2,), "int32")):
            A[0] = 1

        T.evaluate(0)
    assert inner.name == "inner" and type(ib.get().body).__name__ == "Evaluate"


def test_a_call_with_an_effect_that_stands_nowhere_is_an_error():
    with (
        pytest.raises(
            TirError, match=r"T.ret\(x \+ 1\) was made and stands nowhere[\s\S]*T.evaluate\(T.ret\(x \+ 1\)\)"
        ),
        IRBuilder(),
        T.prim_func(),
    ):
        T.func_ret(T.int32)
        x = T.arg("x", T.int32())
        T.ret(x + 1)
    with pytest.raises(TirError, match=r'T.tvm_storage_sync\("shared"\) was made'), IRBuilder():
        T.tvm_storage_sync("shared")
        T.evaluate(0)
    with IRBuilder() as ib, T.prim_func():
        A = T.arg("A", T.Buffer((2,), "int32"))
        got = T.call_extern("int32", "labs", A[0])
        T.exp(T.float32(1))  # without an effect nothing is lost
        with T.If(got > 1), T.Then():
            T.evaluate(T.ret())
        T.buffer_store(A, T.max(got, 3), [0])
    assert "labs" in ib.get().script()
    assert T.call_extern("int32", "labs", 1).dtype == "int32"  # without a builder it is an expression
