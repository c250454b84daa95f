"""Scalars and expressions: typing of literals, operators, calls, folding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tirlower.diagnostics import ScriptError
from tirlower.ir import Bind, CommReducer, Evaluate, Seq, Var
from tirlower.script import parse
from tirlower.script import tir as T

HEAD = (
    "i: T.int32, j: T.int64, u: T.uint8, x: T.float32, h: T.float16, b: T.bool, "
    "A: T.Buffer((16,), 'float32'), I: T.Buffer((16,), 'int32')"
)


def stmts(text, head=HEAD, **options):
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    body = parse(f"def f({head}):\n{lines}\n", **options).body
    return body.stmts if isinstance(body, Seq) else (body,)


def value(text):
    (stmt,) = stmts(f"T.evaluate({text})")
    return stmt.value


@pytest.mark.parametrize(
    ("text", "dtype", "number"),
    [
        ("5", "int32", 5), ("2147483648", "int64", 2**31), ("-2147483648", "int32", -(2**31)), ("1.5", "float32", 1.5),
        ("True", "bool", 1), ("T.int8(-3)", "int8", -3), ("T.uint8(200)", "uint8", 200), ("T.float64(0.1)", "float64", 0.1),
        ("T.float16('inf')", "float16", math.inf), ("T.int64(2) + 3", "int64", 5), ("2 + 3", "int32", 5),
        ("7 // 2", "int32", 3), ("-7 % 4", "int32", 1), ("1 / 4", "float32", 0.25), ("T.max_value('uint8')", "uint8", 255),
        ("T.min_value('int16')", "int16", -32768), ("T.floordiv(-7, 2)", "int32", -4), ("T.truncdiv(-7, 2)", "int32", -3),
        ("T.truncmod(-7, 2)", "int32", -1), ("T.ceildiv(7, 2)", "int32", 4), ("T.min(3, 2, 5)", "int32", 2),
        ("2 ** 5", "int32", 32), ("T.shift_left(1, 4)", "int32", 16), ("~5", "int32", -6), ("6 & 3 | 8 ^ 1", "int32", 11),
        ("len([1, 2, 3])", "int32", 3), ("max(1, 4)", "int32", 4), ("T.IntImm('int8', 3)", "int8", 3),
        ("T.boolean(1)", "bool", 1), ("T.infinity('float32')", "float32", math.inf),
    ],
)  # fmt: skip
def test_constants(text, dtype, number):
    made = value(text)
    assert made.dtype == dtype and made.value == number


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("T.if_then_else(b, x, x + 1.0, dtype='float32')", "T.if_then_else(b, x, x + 1.0)"),
        ("T.shift_left(i, 1, dtype='int32')", "T.shift_left(i, 1)"), ("T.abs(i, dtype='int32')", "T.abs(i)"),
        ("T.likely(b, dtype='bool')", "T.likely(b)"), ("T.truncdiv(i, 3, dtype='int32')", "T.truncdiv(i, 3)"),
        ("T.address_of(A[0], dtype='handle')", "T.address_of(A[0])"), ("T.exp(x, dtype='float32')", "T.exp(x)"),
        ("T.call_packed('f', i, dtype='int32')", "T.call_packed('f', i)"), ("T.ret(i, dtype='int32')", "T.ret(i)"),
        ("T.max(i, 3, dtype='int32')", "T.max(i, 3)"), ("T.assume(b, dtype='bool')", "T.assume(b)"),
    ],
)  # fmt: skip
def test_the_type_of_a_result_may_be_given(text, plain):
    made = value(text)
    assert str(made) == str(value(plain)) and made.dtype == value(plain).dtype


def test_the_type_of_a_node_is_not_given():
    with pytest.raises(ScriptError, match="no argument 'dtype'"):
        value("T.Add(i, i, dtype='int32')")


def test_not_a_number():
    assert math.isnan(value("T.float32('nan')").value)


@pytest.mark.parametrize(
    ("text", "node", "dtype"),
    [
        ("i + 1", "Add", "int32"), ("1 + j", "Add", "int64"), ("i + j", "Add", "int64"), ("i * x", "Mul", "float32"),
        ("x + 1", "Add", "float32"), ("h + 1.5", "Add", "float16"), ("h * x", "Mul", "float32"), ("u - 1", "Sub", "uint8"),
        ("i // 4", "FloorDiv", "int32"), ("i % 4", "FloorMod", "int32"), ("x / 2", "Div", "float32"),
        ("-i", "Mul", "int32"), ("i < 3", "LT", "bool"), ("i == j", "EQ", "bool"), ("x != 1", "NE", "bool"),
        ("i > 1 and b", "And", "bool"), ("b or i", "Or", "bool"), ("not b", "Not", "bool"), ("0 < i <= 5", "And", "bool"),
        ("T.min(i, 3)", "Min", "int32"), ("T.max(j, i)", "Max", "int64"), ("T.Select(b, i, 0)", "Select", "int32"),
        ("T.Select(b, 1.0, h)", "Select", "float16"), ("T.Cast('int8', i)", "Cast", "int8"),
        ("i.astype('float64')", "Cast", "float64"), ("T.float16(x)", "Cast", "float16"), ("T.cast(i, T.int64)", "Cast", "int64"),
        ("T.Add(i, 0)", "Add", "int32"), ("T.Mul(1, j)", "Mul", "int64"), ("T.Div(i, 2)", "Div", "int32"),
        ("T.Mod(i, 2)", "Mod", "int32"), ("T.FloorDiv(i, 1)", "FloorDiv", "int32"), ("T.EQ(i, i)", "EQ", "bool"),
        ("T.And(b, True)", "And", "bool"), ("T.Or(b, False)", "Or", "bool"), ("T.Not(T.bool(True))", "Not", "bool"),
        ("T.Ramp(j, 1, 4)", "Ramp", "int64x4"), ("T.Broadcast(x, 8)", "Broadcast", "float32x8"),
        ("T.Ramp(i, 2, 4) + 1", "Add", "int32x4"), ("A[0:4] * x", "Mul", "float32x4"),
        ("T.Shuffle([A[0:2], A[2:4]], [0, 3])", "Shuffle", "float32x2"),
        ("T.Ramp(0, 1, 4 * T.vscale())", "Ramp", "int32xvscalex4"), ("T.abs(i)", "Select", "int32"),
        ("T.all(b, i > 1, j > 2)", "And", "bool"), ("T.any(b, i > 1)", "Or", "bool"), ("i.dtype == 'int32' and b", "Var", "bool"),
        ("T.truncdiv(i, 2)", "Div", "int32"), ("T.indexmod(i, 2)", "FloorMod", "int32"),
    ],
)  # fmt: skip
def test_nodes(text, node, dtype):
    made = value(text)
    assert (type(made).__name__, str(made.dtype)) == (node, dtype)


@pytest.mark.parametrize(
    ("text", "op", "dtype"),
    [
        ("T.exp(x)", "tir.exp", "float32"), ("T.exp(1)", "tir.exp", "float32"), ("T.sqrt(A[0:4])", "tir.sqrt", "float32x4"),
        ("T.pow(h, 2)", "tir.pow", "float16"), ("x ** 2", "tir.pow", "float32"), ("T.atan2(1.0, x)", "tir.atan2", "float32"),
        ("T.ldexp(x, 3)", "tir.ldexp", "float32"), ("T.fma(h, 2, h)", "tir.fma", "float16"),
        ("T.isnan(A[0:4])", "tir.isnan", "boolx4"), ("T.clz(j)", "tir.clz", "int32"), ("T.popcount(u)", "tir.popcount", "uint8"),
        ("T.abs(x)", "tir.fabs", "float32"), ("i << 2", "tir.shift_left", "int32"), ("u & 1", "tir.bitwise_and", "uint8"),
        ("~i", "tir.bitwise_not", "int32"), ("T.likely(b)", "tir.likely", "bool"),
        ("T.if_then_else(b, x, 0)", "tir.if_then_else", "float32"), ("i if b else j", "tir.if_then_else", "int64"),
        ("T.reinterpret('int32', x)", "tir.reinterpret", "int32"), ("T.reinterpret(x, dtype='int32')", "tir.reinterpret", "int32"),
        ("T.floor(x)", "tir.floor", "float32"), ("T.undef('int8')", "tir.undef", "int8"), ("T.vscale()", "tir.vscale", "int32"), ("T.get_vscale_expr('float32', 32)", "tir.vscale", "int32"),
        ("T.call_extern('int8', 'f', i)", "tir.call_extern", "int8"), ("T.call_extern('f', i, dtype='int8')", "tir.call_extern", "int8"),
        ("T.call_pure_extern('float32', 'f', i)", "tir.call_pure_extern", "float32"),
        ("T.call_intrin('float32', 'tir.exp', x)", "tir.exp", "float32"),
        ("T.simdgroup_load(A.data, 0, A.data, 8, 8, 8, T.bool(False))", "tir.simdgroup_load", "handle"),
        ("T.make_filled_simdgroup_matrix(A.data, 0, 0.0)", "tir.make_filled_simdgroup_matrix", "handle"),
        ("T.call_llvm_intrin('float32', 'llvm.fabs', x)", "tir.call_llvm_intrin", "float32"),
        ("T.call_llvm_pure_intrin('float32', 'llvm.fabs', x)", "tir.call_llvm_pure_intrin", "float32"),
        ("T.Call('int32', 'tir.clz', [i])", "tir.clz", "int32"), ("T.isnullptr(A.data)", "tir.isnullptr", "bool"),
        ("T.tvm_struct_get(A.data, 0, 1, 'int64')", "tir.tvm_struct_get", "int64"),
        ("T.tvm_struct_get(A.data, 0, 1, dtype='int64')", "tir.tvm_struct_get", "int64"),
        ("T.tvm_struct_set(A.data, 0, 1, i)", "tir.tvm_struct_set", "int32"), ("T.tvm_tuple(i, x)", "tir.tvm_tuple", "handle"),
        ("T.type_annotation('float32')", "tir.type_annotation", "float32"),
        ("T.tvm_storage_sync('shared')", "tir.tvm_storage_sync", "int32"), ("T.tvm_warp_activemask()", "tir.tvm_warp_activemask", "uint32"),
        ("T.tvm_warp_shuffle(u, x, 0, 32, 32)", "tir.tvm_warp_shuffle", "float32"),
        ("T.get_active_lane_mask('boolx4', i, 7)", "tir.get_active_lane_mask", "boolx4"),
        ("T.vectorlow('float32x2', A[0:4])", "tir.vectorlow", "float32x2"), ("T.vectorlow(A[0:4], dtype='float32x2')", "tir.vectorlow", "float32x2"),
        ("T.vectorcombine('float32x8', A[0:4], A[4:8])", "tir.vectorcombine", "float32x8"),
        ("T.start_profile_intrinsic(3)", "tir.start_profile_intrinsic", "void"), ("T.assume(i > 1)", "tir.assume", "bool"),
        ("T.ptx_wait_group(0)", "tir.ptx_wait_group", "void"), ("T.ptx_cp_async('float16', A.data, 0, A.data, 0, 16)", "tir.ptx_cp_async", "float16"),
        ("T.ptx_mma('float32', 'm16n8k8', 'row', 'col', 'fp16', 'fp16', 'fp32', A.data, 0, A.data, 0, A.data, 0, False)", "tir.ptx_mma", "float32"),
        ("T.mma_fill('float32', 8, A.data, 0)", "tir.mma_fill", "float32"),
        ("T.tvm_fill_fragment(A.data, 16, 16, 16, 0, 0.0)", "tir.tvm_fill_fragment", "handle"),
        ("T.tvm_thread_allreduce(T.uint32(1), x, True, A[0], i)", "tir.tvm_thread_allreduce", "handle"),
        ("T.tvm_thread_allreduce(T.uint32(1), x, True, A[0], i, dtype='handle')", "tir.tvm_thread_allreduce", "handle"),
        ("T.call_packed('f', A, 1)", "tir.tvm_call_packed", "int32"), ("T.large_uint_imm('uint64', 1, 2)", "tir.large_uint_imm", "uint64"),
        ("T.round(i)", None, "int32"), ("T.q_multiply_shift(i, i, 1, 2)", "tir.q_multiply_shift", "int32"),
    ],
)  # fmt: skip
def test_operations(text, op, dtype):
    made = value(text)
    assert made.dtype == dtype
    if op is None:
        assert isinstance(made, Var), "rounding an integer changes nothing"
    else:
        assert made.op.name == op


def test_an_atomic_operation_takes_the_address_of_its_element():
    (call,) = [stmt.value for stmt in stmts("T.atomic_add(I[3], 2)") if isinstance(stmt, Evaluate)]
    address, number = call.args
    assert (address.op.name, address.args[0].indices[0].value) == ("tir.address_of", 3)
    assert (number.value, number.dtype, call.dtype) == (2, "int32", "int32")


def test_a_packed_call_passes_an_array_structure():
    packed = value("T.call_packed('f', A, 1)")
    assert [a.op.name for a in packed.args[1:2]] == ["tir.tvm_stack_make_array"] and packed.args[0].value == "f"


def test_operators_fold_and_constructors_do_not():
    assert value("i * 0").value == 0 and value("i + 0").name == "i" and value("j // 1").name == "j"
    assert value("i % 1").value == 0 and value("b and True").name == "b" and value("b or T.bool(True)").value == 1
    assert type(value("T.Add(1, 2)")).__name__ == "Add"
    assert type(value("x + 0.0")).__name__ == "Add", "0.0 + -0.0 is 0.0"


def test_python_values_short_circuit():
    assert value("1 == 2 and undefined_name or 3").value == 3
    assert value("i if 1 < 2 else undefined_name").name == "i"
    assert value("True and i < 3").__class__.__name__ == "LT"


def test_bindings():
    made = stmts(
        """
p = i + 1
q: T.int64 = 5
r: T.let[T.float32] = 2
s: T.let = j
t = T.bind(p)
v = T.let(x)
w = T.LetStmt(3)
m = T.meta_var(p * 2)
c = 7
d = 2.5
e = b
k: T.handle("float32") = T.address_of(A[1])
T.evaluate(m + w)
"""
    )
    binds, last = made[:-1], made[-1]
    assert all(isinstance(s, Bind) for s in binds)
    assert [(s.var.name, s.var.dtype) for s in binds] == [
        ("p", "int32"), ("q", "int64"), ("r", "float32"), ("s", "int64"), ("t", "int32"), ("v", "float32"),
        ("w", "int32"), ("c", "int32"), ("d", "float32"), ("e", "bool"), ("k", "handle"),
    ]  # fmt: skip
    assert binds[1].value.dtype == "int64" and binds[2].value.dtype == "float32"
    assert last.value.a.a is binds[0].var, "a meta variable stands for its expression"
    assert binds[-1].var.type.element == "float32"


def test_names_of_variables_and_rebinding():
    made = stmts("p, q = i, j\np = p + 1\np += 2\nT.evaluate(p)")
    p, q, first, second, last = made
    assert p.value.name == "i" and q.value.name == "j"
    assert first.value.a is p.var and second.value.a is first.var
    assert second.var is not first.var and last.value is second.var


def test_let_expressions():
    single, double = stmts(
        "v = T.int32()\nT.evaluate(T.Let(v + 1, where={v: 3}))\np, q = T.int32(), T.float32()\n"
        "T.evaluate(T.Let(p * q, where={p: i, q: 1.0}))"
    )
    assert single.value.var.name == "v" and single.value.value.value == 3
    assert double.value.var.name == "p" and double.value.body.var.name == "q"


def test_let_statements_bind_given_variables():
    bind, scoped, _ = stmts(
        "v = T.int32()\nT.LetStmt(i, var=v)\nwith T.LetStmt(v + 1) as w:\n    T.evaluate(w)\nT.evaluate(v)"
    )
    assert isinstance(bind, Bind) and bind.var.name == "v"
    assert isinstance(scoped, Seq) and scoped.stmts[0].var.name == "w"


def test_variables_and_sizes():
    @T.prim_func(check_well_formed=False)
    def f():
        n = T.int32(is_size_var=True)
        a = T.Var("a", "int64")
        s = T.SizeVar("s", "int32")
        p = T.handle("int8", "shared")
        T.evaluate(n + a + s)
        T.evaluate(p)

    add, pointer = f.body.stmts
    assert add.value.a.a.value.nonneg and add.value.b.value.nonneg
    assert (pointer.value.type.element, pointer.value.type.scope) == ("int8", "shared")


def test_reducers():
    (stmt,) = stmts(
        """
with T.attr(T.comm_reducer(lambda a, b, c, d: (T.max(a, c), b + d), [T.float32(0), 0]), "reduce_scope", 0):
    T.evaluate(0)
"""
    )
    reducer = stmt.node
    assert isinstance(reducer, CommReducer) and [v.name for v in reducer.lhs] == ["a", "b"]
    assert [v.dtype for v in reducer.rhs] == ["float32", "int32"]
    assert [type(r).__name__ for r in reducer.result] == ["Max", "Add"]


def test_regions_and_statements():
    made = stmts(
        """
T.attr("key", "pragma_x", i)
T.assume(i > 0)
assert i < 3, "small"
T.Assert(j > 1, "large")
T.evaluate(1)
I[0]
"a comment"
"""
    )[0]
    body = made.body.stmts
    assert made.key == "pragma_x" and made.node == "key"
    assert [type(s).__name__ for s in body] == ["Evaluate", "Assert", "Assert", "Evaluate", "Evaluate"]
    assert body[1].message.value == "small"


def test_attributes_with_a_body_end_with_it():
    first, second = stmts("with T.attr(A.data, 'k', 'text'):\n    T.evaluate(i)\nT.evaluate(j)")
    assert first.body.value.name == "i" and first.value.value == "text" and second.value.name == "j"


def test_threads_by_name_attribute_and_environment():
    text = """
tx = T.env_thread("threadIdx.x")
bx = T.launch_thread("blockIdx.x", 2)
with T.launch_thread(tx, 32):
    A[tx] = T.float32(tx.var) + T.Cast("float32", bx)
with T.attr(T.iter_var(tx, None, "ThreadIndex", "threadIdx.x"), "thread_extent", 32):
    A[tx] = 2.0
v = T.int32()
with T.attr(T.iter_var(v, T.Range(0, 2), "VirtualThread", "vthread"), "virtual_thread", 2):
    A[v] = 1.0
"""
    (outer,) = stmts(text)
    assert outer.thread_tag == "blockIdx.x" and outer.extent.value == 2
    first, second, third = outer.body.stmts
    assert first.loop_var is second.loop_var and first.loop_var.name == "tx"
    assert (first.thread_tag, third.thread_tag) == ("threadIdx.x", "vthread")
    other = stmts(
        "v = T.int32()\nfor t in T.thread_binding(4, 'threadIdx.x'):\n    A[t] = 1.0\n"
        "with T.attr(T.iter_var(v, None, 'ThreadIndex', 'threadIdx.x'), 'thread_extent', 4):\n    A[v] = 2.0"
    )
    assert other[1].loop_var is other[0].loop_var and other[1].body.indices[0] is other[0].loop_var


def test_targets_are_values():
    func = parse("def f():\n    T.func_attr({'target': T.target('nvptx', host='llvm', arch='sm_90a')})\n")
    target = func.attrs["target"]
    assert target.kind == "nvptx" and target.host.kind == "llvm"


def test_comprehensions_and_strings_at_parse_time():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        parts = T.meta_var([A[k] * k for k in range(4) if k != 2])
        A[0] = parts[0] + parts[1] + parts[-1]
        T.evaluate(T.call_extern("int32", f"call_{len(parts):02d}"))

    assert f.body.stmts[1].value.args[0].value == "call_03"


def test_stores_convert_numbers_within_reason():
    to_half, to_int, to_bool = stmts(
        "H[0] = x\nI[0] = u\nB[0] = i > 1", HEAD + ", H: T.Buffer((1,), 'float16'), B: T.Buffer((1,), 'bool')"
    )
    assert to_half.value.dtype == "float16" and to_int.value.dtype == "int32" and to_bool.value.dtype == "bool"


def test_values_agree_with_numpy_at_compile_time():
    rng = np.random.default_rng(3)
    for a, b in rng.integers(-50, 50, (40, 2)):
        if b == 0:
            continue
        a, b = int(a), int(b)
        folded = value(f"(T.int32({a}) // T.int32({b})) * 1000 + T.int32({a}) % T.int32({b})")
        assert folded.value == (a // b) * 1000 + a % b
        truncated = value(f"T.truncdiv(T.int32({a}), {b}) * 1000 + T.truncmod(T.int32({a}), {b})")
        assert truncated.value == math.trunc(a / b) * 1000 + int(math.fmod(a, b))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T.evaluate(i / 2)", "/ on integers is ambiguous"),
        ("T.evaluate(i + A)", "a buffer is no value: 'A'"),
        ("T.evaluate(T.exp(i))", "T.exp takes a float, got int32"),
        ("T.evaluate(T.popcount(x))", "T.popcount takes an integer, got float32"),
        ("T.evaluate(T.logaddexp(i, 1))", "T.logaddexp takes floats, got int32"),
        ("T.evaluate(T.exp(x, x))", "T.exp takes 1 arguments, got 2"),
        ("T.evaluate(T.call_extern(A, 1))", "needs the dtype of its result first"),
        ("T.evaluate(T.int8('inf'))", "takes a number, got 'inf'"),
        ("T.evaluate(T.reinterpret('int64', x))", "reinterpret keeps the bits"),
        ("T.evaluate(x if A[0:2] else x)", "no common type|vectors of different|Select|lanes"),
        ("T.evaluate(T.call_intrin('int32', 'tir.expo', x))", "unknown operation 'expo'|unknown operation 'tir.expo'"),
        ("T.evaluate(i // 0)", "division by zero"),
        ("I[0] = 1.5", "takes int32, got the float 1.5"),
        ("I[0] = x", "takes int32, got float32"),
        ("I[0] = 4294967296", "does not fit in int32"),
        ("q = T.int8(128)", "the value 128 does not fit in int8"),
        ("q: T.int8 = 1000", "does not fit in int8"),
        ("q = T.float4_e2m1fn(7.0)", "does not fit in float4_e2m1fn"),
        ("q = T.float4_e2m1fn('inf')", "does not fit in float4_e2m1fn"),
        ("q = T.infinity('float6_e3m2fn')", "float6_e3m2fn has no infinity"),
        ("q: 3 = 1", "the annotation of a scalar is a type"),
        ("q: T.int32", "is annotated but has no value"),
        ("q, r = 1", "2 names need as many values"),
        ("q, r = 1, 2, 3", "2 names for 3 values"),
        ("assert i > 1, 5", "the message of an assertion is a string"),
        ("T.attr(A.data, 5, 1)", "the key of T.attr is a string"),
        ("T.launch_thread(3, 4)", "takes a thread tag or a T.env_thread"),
        ("lambda z: z", "this statement has no effect"),
        ("q = T.evaluate(1)", "there is no value to assign"),
        ("T.evaluate(T.Let(x, where={3: 1}))", "T.Let binds variables"),
        ("with i:\n    pass", "`with` takes a form"),
        ("T.evaluate(T.Select(b, x))", "missing a required argument"),
        ("T.evaluate(T.max(x, y=1, z=2))", "T.max has no argument 'y'"),
    ],
)  # fmt: skip
def test_mistakes(text, message):
    with pytest.raises(ScriptError, match=message):
        stmts(text)


def test_outside_a_script_values_are_plain_functions():
    i = T.Var("i", "int32")
    assert type(T.exp(T.Cast("float32", i))).__name__ == "Call"
    assert T.float32x4(1.0).dtype == "float32x4" and T.int32(3).value == 3
    assert isinstance(T.Buffer((4,), T.int8).dtype, str) and T.Buffer((4,), T.int8).dtype == "int8"
    assert isinstance(parse("def f(x: T.float32):\n    T.evaluate(x)\n").body, Evaluate)
    with pytest.raises(AttributeError, match=r"did you mean T\.vectorized"):
        T.vectorised
    with pytest.raises(Exception, match="only inside a prim_func"):
        T.evaluate(1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("T.Broadcast(n, 'float32')", "the number of lanes is an integer, got 'float32'"),
        ("T.BufferRegion(n, [n])", "a region is of a buffer, got Var n"),
        ("T.IntImm('int32', n)", r"T.IntImm takes a dtype and a number, got Var\(n\)"),
        ("T.FloatImm('float32', 'x')", "T.FloatImm takes a dtype and a number, got 'x'"),
        ("T.bitwise_and(n, n, n)", r"T.bitwise_and: too many positional arguments[\s\S]*it takes a, b$"),
        ("T.bitwise_not(n, n)", r"T.bitwise_not: too many positional arguments[\s\S]*it takes a$"),
        ("T.infinity('int32')", r"int32 has no infinity[\s\S]*T.max_value\('int32'\)"),
        ("T.reinterpret(dtype='int32')", "T.reinterpret takes a dtype and a value, got 1 arguments"),
    ],
)
def test_arguments_of_another_kind_are_named_and_not_an_error_of_python(call, said):
    with pytest.raises(ScriptError, match=said) as error:
        parse(f"def f(n: T.int32):\n    T.evaluate({call})\n")
    assert error.value.lineno == 2
