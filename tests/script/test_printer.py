"""The printed text: its conventions, names, marks and places."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import Label, TirError
from tirlower.ir import DataType, PointerType
from tirlower.ir.index_map import IndexMap
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.op import Op
from tirlower.ir.structural import StructuralMismatch, assert_structural_equal, structural_equal
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.script.printer import colored, print_with_spans, script, show
from tirlower.script.printer.literals import float_text, new_var, string_text
from tirlower.script.printer.names import Names, identifier


def lines(text: str) -> str:
    """A text without its common indentation."""
    rows = text.strip("\n").rstrip().split("\n")
    first = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[first:] for row in rows)


def function(*stmts: ir.Stmt, params: tuple[ir.Var, ...] = (), **options: Any) -> ir.PrimFunc:
    body = stmts[0] if len(stmts) == 1 else ir.Seq(stmts)
    return ir.PrimFunc(params, {}, "void", {"global_symbol": "main", **options}, body)


def body_of(func: ir.PrimFunc) -> str:
    return lines("\n".join(func.script().split("\n")[2:]))


# Conventions


def test_matmul_reads_as_it_is_written():
    @T.prim_func
    def main(
        A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(128, 128, 128):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] += A[vi, vk] * B[vk, vj]

    assert main.script() == lines("""
        @T.prim_func
        def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
            T.func_attr({"tir.noalias": True})
            for i, j, k in T.grid(128, 128, 128):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    """)


def test_symbolic_shapes_are_matched():
    @T.prim_func
    def main(a: T.handle, b: T.handle, n: T.int32):
        m = T.int32()
        s = T.int32()
        A = T.match_buffer(a, (n, m), "float16", strides=(s, 1), elem_offset=0, align=128, offset_factor=8)
        B = T.match_buffer(b, (m,))
        B[0] = T.Cast("float32", A[0, n])

    assert main.script() == lines("""
        @T.prim_func
        def main(a: T.handle, b: T.handle, n: T.int32):
            m, s = T.int32(), T.int32()
            A = T.match_buffer(a, (n, m), "float16", strides=(s, 1), elem_offset=0, align=128, offset_factor=8)
            B = T.match_buffer(b, (m,))
            B[0] = T.Cast("float32", A[0, n])
    """)


def test_parameters_of_sizes_that_are_parameters_stay_parameters():
    for head in ('n: T.int32, A: T.Buffer((n, 4), "float32")', 'A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8")'):
        assert parse(f"def main({head}):\n    T.evaluate(0)\n").script().split("\n")[1] == f"def main({head}):"


@pytest.mark.parametrize("text", ["int32", "float16x4", "handle", "custom[ring]8"])
@pytest.mark.parametrize("nonneg", [False, True])
def test_the_text_of_a_new_variable_makes_one_of_its_type(text: str, nonneg: bool):
    if nonneg and text != "int32" and not text.startswith("custom"):
        return
    made = eval(new_var(ir.Var("x", text, nonneg=nonneg)), {"T": T})
    assert (made.dtype, made.nonneg) == (text, nonneg)


def test_declarations():
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), p: T.handle("int8", "shared")):
        B = T.alloc_buffer((4, 4), "float16", scope="local")
        C = T.decl_buffer((16,), "int8", data=B.data)
        D = T.Buffer((2, 4), "float32", data=A.data)
        k = T.allocate_const([1.5, -2.0], "float32", [2])
        K = T.Buffer((2,), "float32", data=k)
        x: T.int32 = 3
        y: T.handle("int8", "shared") = p
        D[0, 1] = A[x] + K[0] + T.Cast("float32", C[0]) + T.Cast("float32", B[0, 0])
        T.evaluate(T.isnullptr(y))

    assert body_of(main) == lines("""
        D = T.Buffer((2, 4), "float32", data=A.data)
        B = T.alloc_buffer((4, 4), "float16", scope="local")
        C = T.decl_buffer((16,), "int8", data=B.data)
        K_data = T.allocate_const([1.5, -2.0], "float32", [2])
        K = T.Buffer((2,), "float32", data=K_data)
        x: T.int32 = 3
        y: T.handle("int8", "shared") = p
        D[0, 1] = A[x] + K[0] + T.Cast("float32", C[0]) + T.Cast("float32", B[0, 0])
        T.isnullptr(y)
    """)


def test_loops():
    @T.prim_func
    def main(A: T.Buffer((8, 8), "int32"), n: T.int64):
        for i in range(8):
            A[i, 0] = 1
        for i in range(2, 8):
            A[i, 0] = 1
        for i in T.serial(8, annotations={"pragma_unroll": 2}):
            A[i, 0] = 1
        for i, j in T.grid(8, T.int64(4)):
            A[i, j] = 1
        for i in range(8):
            for j in range(i):
                A[i, j] = 1
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in T.vectorized(n, n + T.int64(4)):
                A[bx, k] = 1
        for i in T.unroll(3):
            while A[i, 0] < 10:
                A[i, 0] += 1

    assert body_of(main) == lines("""
        for i in range(8):
            A[i, 0] = 1
        for i in range(2, 8):
            A[i, 0] = 1
        for i in T.serial(8, annotations={"pragma_unroll": 2}):
            A[i, 0] = 1
        for i, j in T.grid(8, T.int64(4)):
            A[i, j] = 1
        for i in range(8):
            for j in range(i):
                A[i, j] = 1
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in T.vectorized(n, n + T.int64(4)):
                A[bx, k] = 1
        for i in T.unroll(3):
            while A[i, 0] < 10:
                A[i, 0] = A[i, 0] + 1
    """)


def test_branches_and_regions():
    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), n: T.int32):
        if n > 3:
            A[0] = 1.0
        elif n > 2:
            A[0] = 2.0
        else:
            if n > 1:
                A[0] = 3.0
            else:
                A[0] = 4.0
        with T.attr(A.data, "device_scope", "gpu"):
            assert n > 0, 'needs "n"'
            T.evaluate(n)
            T.call_extern("int32", "f", A.data)
        with T.LetStmt(n + 1) as x:
            A[x] = 0.0
        with T.decl_buffer((4,), data=A.data) as B:
            B[0] = 1.0

    assert body_of(main) == lines("""
        if n > 3:
            A[0] = T.float32(1)
        elif n > 2:
            A[0] = T.float32(2)
        elif n > 1:
            A[0] = T.float32(3)
        else:
            A[0] = T.float32(4)
        with T.attr(A.data, "device_scope", "gpu"):
            assert n > 0, "needs \\"n\\""
            T.evaluate(n)
            T.call_extern("int32", "f", A.data)
        with T.LetStmt(n + 1) as x:
            A[x] = T.float32(0)
        with T.decl_buffer((4,), data=A.data) as B:
            B[0] = T.float32(1)
    """)


def test_blocks():
    @T.prim_func
    def main(A: T.Buffer((16, 16), "float32"), n: T.int32):
        for i, j in T.grid(16, 4):
            with T.block("update"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.reduce((4, 8), j + 4)
                vk = T.axis.opaque(n, i * 2)
                T.where(i < 15)
                T.reads(A[vi, vj : vj + 4])
                T.writes(A[0:16, vi])
                T.block_attr({"axis": 1})
                s = T.int32()
                M = T.match_buffer(A[vi, vj : vj + 4], (1, 4), strides=(s, 1), elem_offset=vk)
                L = T.alloc_buffer((4,))
                L[0] = M[0, 1]

    assert body_of(main) == lines("""
        for i, j in T.grid(16, 4):
            with T.block("update"):
                vi = T.axis.spatial(16, i)
                vj = T.axis.reduce((4, 8), j + 4)
                vk = T.axis.opaque(n, i * 2)
                T.where(i < 15)
                T.reads(A[vi, vj:vj + 4])
                T.writes(A[0:16, vi])
                T.block_attr({"axis": 1})
                s = T.int32()
                M = T.match_buffer(A[vi, vj:vj + 4], (1, 4), strides=(s, 1), elem_offset=vk)
                L = T.alloc_buffer((4,))
                L[0] = M[0, 1]
    """)


def test_the_root_block_is_implied_only_where_the_parser_makes_it():
    inner = ir.Block("b", (), True, (), (), None, (), {}, ir.Evaluate(0))
    root = lambda body, **more: ir.Block("root", (), True, (), (), None, (), {}, body).with_(**more)
    loop = ir.For(ir.Var("i"), 0, 4, "parallel", None, {}, inner)
    assert "root" not in function(root(loop)).script()
    # A single block without iterators would be taken for the root itself; so would a root with something to say.
    for func in (function(root(inner)), function(root(loop, annotations={"x": 1})), function(root(ir.Evaluate(0)))):
        assert 'T.block("root")' in func.script()
        assert_structural_equal(parse(func.script()), func)


def test_vectors():
    @T.prim_func
    def main(A: T.Buffer((64,), "float32"), i: T.int32):
        A[0:4] = A[i * 4 : i * 4 + 4] + T.Broadcast(T.float32(1), 4)
        A[T.Ramp(3, -1, 4)] = A[0:8:2]
        A.vstore(
            [T.Ramp(0, 1, 4)],
            A.vload([0], "float32x4", predicate=T.Broadcast(i < 3, 4)),
            predicate=T.Broadcast(i < 2, 4),
        )
        A[0:2] = T.Shuffle([A[0:4]], [1, 3])

    assert body_of(main) == lines("""
        A[0:4] = A[i * 4:i * 4 + 4] + T.Broadcast(T.float32(1), 4)
        A[T.Ramp(3, -1, 4)] = A[0:8:2]
        A.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(i < 3, 4)), predicate=T.Broadcast(i < 2, 4))
        A[0:2] = T.Shuffle([A[0:4]], [1, 3])
    """)


def test_modules():
    @I.ir_module
    class Module:
        I.module_attrs({"k": 1})

        @T.prim_func
        def main(A: T.Buffer((4,), "float32")):
            A[0] = Module.helper(1)
            Module.effect(A.data)

        @T.prim_func(private=True)
        def helper(x: T.int32) -> T.float32:
            T.ret(T.Cast("float32", x))

        @T.prim_func
        def effect(p: T.handle):
            T.evaluate(0)

    text = Module.script(header=True)
    assert text == lines("""
        # from tirlower.script import ir as I
        # from tirlower.script import tir as T

        @I.ir_module
        class Module:
            I.module_attrs({"k": 1})

            @T.prim_func
            def main(A: T.Buffer((4,), "float32")):
                A[0] = Module.helper(1)
                Module.effect(A.data)

            @T.prim_func(private=True)
            def helper(x: T.int32) -> T.float32:
                T.ret(T.Cast("float32", x))

            @T.prim_func
            def effect(p: T.handle):
                T.evaluate(0)
    """)
    assert_structural_equal(parse(text), Module)
    # Outside its module a function calls by name.
    assert 'T.Call("float32", I.GlobalVar("helper"), [1])' in Module["main"].script()
    assert script(ir.IRModule({})) == "@I.ir_module\nclass Module:\n    pass"


# Expressions

x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
f, g = ir.Var("f", "float32"), ir.Var("g", "float32")
p, q = ir.Var("p", "bool"), ir.Var("q", "bool")
i64 = ir.Var("i", "int64")
A = ir.Buffer("A", (4, 4), "float32")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (ir.Mul(ir.Add(x, y), z), "(x + y) * z"),
        (ir.Add(x, ir.Mul(y, z)), "x + y * z"),
        (ir.Sub(x, ir.Sub(y, z)), "x - (y - z)"),
        (ir.Sub(ir.Sub(x, y), z), "x - y - z"),
        (ir.FloorMod(ir.FloorDiv(x, y), z), "x // y % z"),
        (ir.FloorDiv(x, ir.FloorMod(y, z)), "x // (y % z)"),
        (ir.Div(x, y), "T.Div(x, y)"),
        (ir.Mod(x, y), "T.truncmod(x, y)"),
        (ir.Div(f, g), "f / g"),
        (ir.Mul(f, ir.Div(g, f)), "f * (g / f)"),
        (ir.FloorDiv(f, g), "T.FloorDiv(f, g)"),
        (ir.Mod(f, g), "T.Mod(f, g)"),
        (ir.Min(x, ir.Max(y, 3)), "T.min(x, T.max(y, 3))"),
        (ir.And(p, ir.Or(q, ir.Not(p))), "p and (q or not p)"),
        (ir.And(ir.And(p, q), p), "p and q and p"),
        (ir.And(p, ir.And(q, p)), "p and (q and p)"),
        (ir.Not(ir.And(p, q)), "not (p and q)"),
        (ir.EQ(ir.LT(x, y), p), "(x < y) == p"),
        (ir.LT(ir.Add(x, 1), y), "x + 1 < y"),
        # What the parser would fold is printed as its node.
        (ir.Add(ir.as_expr(1), ir.as_expr(2)), "T.Add(1, 2)"),
        (ir.Add(x, 0), "T.Add(x, 0)"),
        (ir.Mul(1, x), "T.Mul(1, x)"),
        (ir.Min(x, x), "T.Min(x, x)"),
        (ir.And(p, True), "T.And(p, T.bool(True))"),
        (ir.Not(ir.as_expr(True)), "T.Not(T.bool(True))"),
        (ir.LT(ir.as_expr(1), ir.as_expr(2)), "T.LT(1, 2)"),
        (ir.FloorDiv(x, ir.as_expr(0)), "T.FloorDiv(x, 0)"),
        (ir.Add(f, ir.FloatImm("float32", 0.0)), "f + T.float32(0)"),
        (ir.Div(f, ir.FloatImm("float32", 1.0)), "T.Div(f, T.float32(1))"),
        # Literals
        (ir.Add(i64, ir.IntImm("int64", 1)), "i + T.int64(1)"),
        (ir.Sub(x, -1), "x - -1"),
        (ir.Mul(-3, x), "-3 * x"),
        (ir.IntImm("bool", 1), "T.bool(True)"),
        (ir.IntImm("uint64", 2**64 - 1), "T.uint64(18446744073709551615)"),
        (ir.IntImm("int4", -8), "T.int4(-8)"),
        (ir.FloatImm("float32", 0.1), "T.float32(0.1)"),
        (ir.FloatImm("float16", 1 / 3), "T.float16(0.3333)"),
        (ir.FloatImm("bfloat16", 3.14159), "T.bfloat16(3.14)"),
        (ir.FloatImm("float64", 1e300), "T.float64(1e+300)"),
        (ir.FloatImm("float32", -0.0), "T.float32(-0.0)"),
        (ir.FloatImm("float32", float("nan")), 'T.float32("nan")'),
        (ir.FloatImm("float64", -float("inf")), 'T.float64("-inf")'),
        (ir.FloatImm("custom[posit]8", 1.5), 'T.FloatImm("custom[posit]8", 1.5)'),
        (ir.StringImm("a\"b'c\n"), "\"a\\\"b'c\\n\""),
        # Calls
        (ir.Cast("int64", x), 'T.Cast("int64", x)'),
        (ir.Select(p, x, y), "T.Select(p, x, y)"),
        (ir.Call(Op.get("tir.exp"), (f,), "float32"), "T.exp(f)"),
        (ir.Call(Op.get("tir.exp"), (x,), "int32"), 'T.call_intrin("int32", "tir.exp", x)'),
        (ir.Call(Op.get("tir.if_then_else"), (p, x, y), "int32"), "T.if_then_else(p, x, y)"),
        (
            ir.Call(Op.get("tir.if_then_else"), (True, x, y), "int32"),
            'T.call_intrin("int32", "tir.if_then_else", T.bool(True), x, y)',
        ),
        (ir.Call(Op.get("tir.call_extern"), ("sin", f), "float32"), 'T.call_extern("float32", "sin", f)'),
        (ir.Call(Op.get("tir.reinterpret"), (f,), "int32"), 'T.reinterpret("int32", f)'),
        (ir.Call(Op.get("tir.bitwise_and"), (x, 3), "int32"), "T.bitwise_and(x, 3)"),
        (ir.Call(Op.get("tir.shift_left"), (x, 0), "int32"), 'T.call_intrin("int32", "tir.shift_left", x, 0)'),
        (ir.Call(Op.get("tir.tvm_struct_get"), (x, 0, 1), "handle"), 'T.tvm_struct_get(x, 0, 1, "handle")'),
        (ir.Call(Op.get("tir.type_annotation"), (), "float32"), 'T.type_annotation("float32")'),
        (ir.Call(Op.get("tir.address_of"), (ir.BufferLoad(A, (0, x)),), "handle"), "T.address_of(A[0, x])"),
        (
            ir.Call(Op.get("tir.exp"), (f,), "float32", annotations={"fast": True}),
            'T.call_intrin("float32", "tir.exp", f, annotations={"fast": True})',
        ),
        # Vectors
        (ir.Ramp(x, 2, 4), "T.Ramp(x, 2, 4)"),
        (ir.Broadcast(f, 8), "T.Broadcast(f, 8)"),
        (ir.Shuffle((ir.Ramp(x, 1, 2),), (1, 0)), "T.Shuffle([T.Ramp(x, 1, 2)], [1, 0])"),
        (ir.BufferLoad(A, (x, ir.Ramp(0, 1, 4))), "A[x, 0:4]"),
        (ir.BufferLoad(A, (x, ir.Ramp(ir.Add(x, y), 3, 4))), "A[x, x + y:x + y + 12:3]"),
        (ir.BufferLoad(A, (x, ir.Ramp(0, 1, 1))), "A[x, T.Ramp(0, 1, 1)]"),
        (ir.BufferLoad(A, (x, ir.Ramp(x, y, 4))), "A[x, T.Ramp(x, y, 4)]"),
        # Lets
        (ir.Let(x, 1, ir.Add(x, y)), "T.Let(x + y, where={x: 1})"),
        (ir.Let(x, x, ir.Add(x, y)), "T.Let(x_1 + y, where={x_1: x})"),
        (ir.Let(x, 1, ir.Let(ir.Var("x"), x, x)), "T.Let(T.Let(x, where={x_1: x}), where={x: 1})"),
    ],
)  # fmt: skip
def test_expressions(expr: ir.Expr, text: str):
    assert str(expr) == text


def test_every_operation_is_called_by_what_the_parser_knows():
    from tirlower.script.namespace import NAMESPACES

    space = NAMESPACES["tirlower.script.tir"]
    for name in Op.names():
        op = Op.get(name)
        args = (f,) * (op.arity[0] or 0)
        text = str(ir.Call(op, args, "float32"))
        called = re.match(r"T\.(\w+)\(", text)
        assert called is not None and callable(space.find(called[1])), text


# Names


def test_names_are_unique_in_their_scope_and_free_after_it():
    i = [ir.Var("i") for _ in range(4)]
    loop = lambda var, body: ir.For(var, 0, 4, "parallel", None, {}, body)
    inner = loop(i[1], ir.Evaluate(ir.Add(i[0], i[1])))
    func = function(loop(i[0], inner), loop(i[2], ir.Evaluate(i[2])), ir.Bind(i[3], 1), ir.Evaluate(i[3]))
    assert body_of(func) == lines("""
        for i in T.parallel(4):
            for i_1 in T.parallel(4):
                T.evaluate(i + i_1)
        for i in T.parallel(4):
            T.evaluate(i)
        i: T.int32 = 1
        T.evaluate(i)
    """)


def test_a_variable_bound_again_inside_is_another_name():
    i = ir.Var("i")
    loop = lambda body: ir.For(i, 0, 4, "parallel", None, {}, body)
    func = function(loop(ir.Seq((loop(ir.Evaluate(i)), ir.Evaluate(i)))))
    assert body_of(func) == lines("""
        for i in T.parallel(4):
            for i_1 in T.parallel(4):
                T.evaluate(i_1)
            T.evaluate(i)
    """)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.b", "a_b"), ("for", "for_"), ("3d", "v3d"), ("", "v"), ("T", "T_"), ("__x", "vx"), ("x y", "x_y")],
)
def test_identifiers(name: str, text: str):
    assert identifier(name) == text


def test_names_table():
    names = Names()
    a, b, c = object(), object(), object()
    assert [names.define(a, "x"), names.define(b, "x"), names.define(c, "x_1")] == ["x", "x_1", "x_1_1"]
    names.push()
    assert names.define(a, "x") == "x_2"
    assert names.of[a] == "x_2"
    names.pop()
    assert names.of[a] == "x"
    assert names.define(object(), "x") == "x_2"


@pytest.mark.parametrize("text", ["", "a", "a'b", 'a"b', "a\"b'c", "\\", "\n\t", "é", "a\\'b"])
def test_string_text(text: str):
    quoted = string_text(text)
    assert quoted[0] == '"' and eval(quoted) == text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_float_text_is_read_back(dtype: str):
    rng = np.random.default_rng(1)
    kind = DataType(dtype)
    for value in [*rng.normal(0, 1, 200), *(10.0 ** rng.uniform(-7, 2, 100)), 1e-45, 65504.0, 448.0, 2.0**60]:
        stored = ir.FloatImm(kind, float(value)).value
        if np.isfinite(stored):
            assert ir.FloatImm(kind, float(float_text(stored, kind))).value == stored


# Ill-formed IR


def test_undefined_variables_are_marked():
    n, buffer = ir.Var("n"), ir.Buffer("B", (4,), "int32")
    func = function(ir.BufferStore(buffer, ir.Add(n, 1), (0,)))
    assert body_of(func) == lines("""
        n = T.int32()  # undefined: nothing binds it
        B = T.Buffer((4,), "int32")
        B[0] = n + 1
    """)
    assert structural_equal(parse(func.script(), check_well_formed=False), func, map_free_vars=True)


def test_what_no_script_can_say_is_a_comment():
    broken = ir.BufferStore(ir.Buffer("B", (4,), "int32"), 1, (0,))
    broken.value = None  # type: ignore[assignment]
    i = ir.Var("i")
    func = function(ir.For(i, 0, 4, "serial", None, {}, broken), ir.Seq((ir.Evaluate(1), x)), ir.Evaluate(i))  # type: ignore[arg-type]
    text = func.script()
    assert "# ill-formed: BufferStore" in text and "# ill-formed: Var" in text
    assert "        pass" in text
    assert "T.evaluate(i)" in text
    stmt = ir.For(i, 0, 4, "serial", None, {}, ir.Evaluate(0))
    stmt.body = None  # type: ignore[assignment]
    assert "# ill-formed: NoneType" in str(stmt)


def test_a_view_of_undefined_memory_prints():
    data = ir.Var("p", PointerType("float32"))
    one, two = ir.Buffer("B", (4,), data=data), ir.Buffer("B", (2,), data=data)
    func = function(ir.Evaluate(ir.Add(ir.BufferLoad(one, (0,)), ir.BufferLoad(two, (0,)))))
    text = func.script()
    assert 'B = T.Buffer((4,), "float32")' in text and 'B_1 = T.Buffer((2,), "float32", data=B.data)' in text


# Other nodes


def test_the_text_of_parts():
    assert str(ir.Range(x, 4)) == "x:x + 4"
    assert str(ir.BufferRegion(A, (ir.Range(x, 1), ir.Range(0, 4)))) == "A[x, 0:4]"
    assert str(ir.Bind(x, ir.Add(y, 1))) == "x: T.int32 = y + 1"
    assert str(ir.Seq((ir.Evaluate(1), ir.Evaluate(2)))) == "T.evaluate(1)\nT.evaluate(2)"
    assert str(A) == "A"
    assert script(A) == 'T.Buffer((4, 4), "float32")'


def test_attribute_values():
    i, j = ir.Var("i"), ir.Var("j")
    reducer = ir.CommReducer((i,), (j,), (ir.Add(i, j),), (0,))
    attrs = {
        "a": [1, (2.5, None)], "b": {"c": True, "d": "x"}, "e": ir.IntImm("int64", 3), "f": reducer,
        "g": ir.Range(0, 4), "h": float("inf"), "k": 0.1, "m": IndexMap.from_func(lambda i, j: [i // 4, j, i % 4]),
    }  # fmt: skip
    func = function(ir.Evaluate(0), **attrs)
    assert body_of(func).split("\n")[0] == (
        'T.func_attr({"a": [1, [2.5, None]], "b": {"c": True, "d": "x"}, "e": T.int64(3), '
        '"f": T.comm_reducer(lambda i, j: i + j, [0]), "g": T.Range(0, extent=4), "h": T.float32("inf"), "k": 0.1, '
        '"m": T.index_map(lambda i, j: [i // 4, j, i % 4])})'
    )
    assert_structural_equal(parse(func.script()), func)


# Exact forms, where the usual one would come back as another node


def test_a_loop_whose_extent_would_be_simplified_states_its_range():
    i = ir.Var("i")
    func = function(ir.For(i, x, ir.Add(y, x), "serial", None, {}, ir.Evaluate(i)), params=(x, y))
    assert "for i in T.serial(T.Range(x, extent=y + x)):" in func.script()
    assert_structural_equal(parse(func.script()), func)


def test_a_seq_that_is_no_scope_of_its_first_statement():
    inner = ir.Seq((ir.Evaluate(1), ir.Bind(ir.Var("v"), 2), ir.Evaluate(3)))
    func = function(inner, ir.Evaluate(4))
    assert body_of(func) == lines("""
        with T.Seq():
            T.evaluate(1)
            v: T.int32 = 2
            T.evaluate(3)
        T.evaluate(4)
    """)
    assert_structural_equal(parse(func.script()), func)
    for body in (ir.Seq(()), ir.Seq((ir.Evaluate(1),))):
        func = function(body)
        assert "with T.Seq():" in func.script()
        assert_structural_equal(parse(func.script()), func)


def test_an_attribute_names_the_loop_inside_it():
    i = ir.Var("i")
    func = function(ir.AttrStmt(i, "pragma_unroll", 1, ir.For(i, 0, 4, "serial", None, {}, ir.Evaluate(i))))
    assert body_of(func) == lines("""
        i = T.int32()
        with T.attr(i, "pragma_unroll", 1):
            for i in T.serial(4, var=i):
                T.evaluate(i)
    """)
    assert_structural_equal(parse(func.script()), func)


def test_a_line_before_a_statement_takes_no_name_of_its_lets():
    size = ir.Var("v", "int64", nonneg=True)
    value = ir.Let(ir.Var("v"), 1, ir.Cast("int64", ir.IntImm("int32", 2)))
    func = function(ir.Seq((ir.Bind(size, value), ir.Evaluate(size))), ir.Evaluate(0))
    assert_structural_equal(parse(func.script()), func)


# Places


def test_spans_point_at_nodes():
    loop_var = ir.Var("i")
    load = ir.BufferLoad(A, (loop_var, 0))
    store = ir.BufferStore(A, ir.Mul(load, load), (loop_var, 1))
    loop = ir.For(loop_var, 0, ir.Add(x, 3), "parallel", None, {}, store)
    h = ir.Var("h", "handle")
    func = ir.PrimFunc((h, x), {h: A}, "void", {"global_symbol": "main"}, loop)
    printed = print_with_spans(func, "here")
    assert printed.text == func.script()
    span = printed.spans[loop]
    assert (span.line, span.text) == (3, "for i in T.parallel(x + 3):")
    assert printed.spans[loop.extent].text == "x + 3"
    assert printed.spans[store].text == "A[i, 1] = A[i, 0] * A[i, 0]"
    assert [s.col for s in printed.spans.every(load)] == [18, 28]
    assert printed.spans[A].text == "A" and printed.spans[A].line == 2
    assert printed.spans[loop_var].text == "i"
    assert printed.spans.get(ir.Evaluate(0)) is None
    error = TirError("no", labels=[Label(printed.spans[store.value], "this")])
    assert "here:4:19" in str(error) and "^^^^^^^^^^^^^^^^^ this" in str(error)


def test_mismatches_are_underlined_in_both_scripts():
    def make(extent: int, name: str) -> ir.PrimFunc:
        v = ir.Var(name)
        return function(
            ir.For(v, 0, 4, "parallel", None, {}, ir.For(ir.Var("j"), v, extent, "unroll", None, {}, ir.Evaluate(v)))
        )

    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(make(7, "i"), make(8, "k"))
    text = str(caught.value)
    assert "the two differ at `body.body.extent`: 7 and 8" in text
    assert "4 |         for j in T.unroll(i, i + 7):" in text and "4 |         for j in T.unroll(k, k + 8):" in text
    # A leaf is found inside its own statement.
    pair = [function(ir.Evaluate(ir.Add(x, y)), ir.Evaluate(ir.Add(x, v)), params=(x, y)) for v in (x, y)]
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(*pair)
    assert "4 |     T.evaluate(x + x)\n  |                ^" in str(caught.value)
    assert "4 |     T.evaluate(x + y)\n  |                    ^" in str(caught.value)


# Output


def test_show(capsys: pytest.CaptureFixture[str]):
    func = function(ir.Evaluate(ir.StringImm("s # no comment")), ir.Evaluate(3))
    func.show()
    assert capsys.readouterr().out == func.script() + "\n"
    show(func, color=True)
    painted = capsys.readouterr().out
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[\d;]*m", "", painted) == func.script() + "\n"
    assert '\x1b[32m"s # no comment"\x1b[0m' in colored(func.script())


def test_indentation_can_be_chosen():
    func = function(ir.For(ir.Var("i"), 0, 4, "parallel", None, {}, ir.Evaluate(0)))
    assert "\n  for i in T.parallel(4):\n    T.evaluate(0)" in func.script(indent=2)


def test_an_alignment_that_was_said_is_printed_and_read_back():
    text = """
@T.prim_func
def f(a: T.handle, B: T.Buffer((16,), "float32", align=64)):
    A = T.match_buffer(a, (16,), align=64)
    C = T.alloc_buffer((16,), align=64)
    D = T.decl_buffer((16,), data=C.data, align=64)
    E = T.decl_buffer((16,), data=C.data)
    with T.block("b"):
        T.reads(A[0:16])
        T.writes(B[0:16])
        M = T.match_buffer(A[0:16], (16,), align=64)
        D[0] = M[0]
        E[1] = D[0]
        B[0] = E[1]
"""
    said = parse(text)
    assert said.script().count("align=64") == 5
    for again in (parse(said.script()), load_json(save_json(said))):
        assert structural_equal(again, said) and again.script() == said.script()
    unsaid = parse(text.replace(", align=64", ""))
    assert "align" not in unsaid.script() and not structural_equal(unsaid, said)
