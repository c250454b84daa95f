"""save_json and load_json: every kind of node and value comes back, shared as it was; malformed text is named."""

from __future__ import annotations

import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import IRModule, assert_structural_equal, load_json, save_json, structural_equal
from tirlower.ir.op import GlobalVar, Op
from tirlower.machine.target import Target


def round_trip(value: Any) -> Any:
    return load_json(save_json(value))


def attr(value: Any) -> Any:
    return round_trip(ir.AttrStmt(None, "k", 0, ir.Evaluate(0)).with_(node=value)).node


def test_every_kind_of_node():
    n, i, x, t, u = ir.Var("n", "int64", nonneg=True), ir.Var("i", "int64"), ir.Var("x"), ir.Var("t"), ir.Var("u")
    a = ir.Var("a", "handle")
    A = ir.Buffer("A", (n, 8), "float32", strides=(ir.Var("s", "int64"), 1), align=128, axis_separators=(1,))
    L = ir.Buffer("L", (4,), "bfloat16", scope="shared")
    M = ir.Buffer("M", (8,), "float32", elem_offset=ir.Var("mo", "int64"))
    K = ir.Buffer("K", (3,))
    V = ir.Buffer("V", (2,), "int8", data=L.data)
    vi = ir.Var("vi", "int64")
    load = ir.BufferLoad(A, (vi, 0))
    row = ir.BufferRegion(A, (ir.Range(vi, 1), ir.Range(0, 8)))
    exprs = [
        ir.Select(ir.And(ir.LT(x, 3), ir.Not(ir.Or(ir.EQ(x, 1), ir.GE(x, 9)))), ir.Div(x, 2), ir.Mod(x, 2)),
        ir.Let(t, ir.FloorDiv(x, 3), ir.Min(t, ir.Max(t, ir.FloorMod(t, 2)))),
        ir.Shuffle((ir.Ramp(x, 2, 4), ir.Broadcast(x, 2)), (0, 5)),
        ir.Broadcast(x, ir.Mul(ir.IntImm("int32", 4), ir.Call(Op.get("tir.vscale"), (), "int32"))),
        ir.Call(Op.get("tir.exp"), (ir.Cast("float32", x),), "float32", annotations={"fast": True}),
        ir.Call(GlobalVar("g"), ("text", ir.FloatImm("float64", math.inf)), "int32"),
        ir.Sub(ir.Add(x, 1), ir.Mul(x, x)),
    ]
    block = ir.Block(
        "b", (ir.BlockIter(vi, ir.Range(0, n), "reduce", i),), ir.NE(i, ir.IntImm("int64", 3)), (row,), (row,),
        ir.BufferStore(L, ir.Cast("bfloat16", load), (0,)), (ir.MatchBufferRegion(M, row),), {"axes": [vi, 2.5, None]},
        ir.Seq((ir.AllocBuffer(L, True, {"a": 1}), ir.BufferStore(A, load, (vi, 1)))),
    )  # fmt: skip
    body = ir.Seq((
        ir.AllocConst(K, np.array([1.0, math.nan, -0.0], "float32")),
        ir.Bind(x, 3),
        *map(ir.Evaluate, exprs),
        ir.For(i, 0, n, "parallel", None, {"q": "w"}, block),
        ir.For(ir.Var("tx"), 0, 4, "thread_binding", "threadIdx.x", {}, ir.Evaluate(0)),
        ir.While(ir.GT(x, 1), ir.IfThenElse(ir.LE(x, 4), ir.Assert(ir.LT(x, 9), "no"), ir.Evaluate(1))),
        ir.AllocBuffer(L),
        ir.DeclBuffer(V),
        ir.AttrStmt(ir.IterVar(None, u, "opaque", "tag"), "k", 1, ir.For(u, 0, 4, "serial", None, {}, ir.Evaluate(u))),
        ir.AttrStmt(ir.CommReducer((x,), (t,), (ir.Add(x, t),), (0,)), "k", 1, ir.Evaluate(0)),
    ))  # fmt: skip
    attrs = {"global_symbol": "f", "target": Target("llvm", mcpu="x86-64-v4", host="c"), "t": ir.DataType("int8")}
    func = ir.PrimFunc((a,), {a: A}, ir.PointerType("int8", "local"), attrs, body)
    back = round_trip(func)
    assert_structural_equal(back, func)
    assert back.buffers[0].name == "A" and back.body.stmts[1].var.name == "x"
    assert back.attrs["target"] == func.attrs["target"] and back.attrs["target"].host == Target("c")
    assert type(back.attrs["t"]) is ir.DataType and back.attrs["t"] is ir.DataType("int8")
    # A text is a fixed point.
    assert save_json(back) == save_json(func)
    seen = {type(node).__name__ for node in _nodes(func)}
    abstract = {"Node", "Expr", "Stmt", "BinaryOp", "CompareOp", "IndexMap", "StringImm"}
    # Graphs have nodes of their own, once somebody imports them.
    language = {name for name, kind in ir.NODES.items() if kind.__module__.startswith("tirlower.ir.")}
    assert language - seen <= abstract, language - seen


def _nodes(root: Any) -> list[Any]:
    found, stack, seen = [], [root], set()
    while stack:
        value = stack.pop()
        if isinstance(value, (tuple, list)):
            stack += value
        elif isinstance(value, dict):
            stack += [*value, *value.values()]
        elif isinstance(value, ir.Node) and id(value) not in seen:
            seen.add(id(value))
            found.append(value)
            stack += [getattr(value, field.name) for field in value.fields]
    return found


def test_sharing_is_kept():
    x = ir.Var("x")
    part = ir.Add(x, 1)
    back = round_trip(ir.Mul(part, ir.Sub(part, x)))
    assert back.a is back.b.a and back.b.b is back.a.a
    B = ir.Buffer("B", (4,))
    stmt = round_trip(ir.Seq((ir.AllocBuffer(B), ir.BufferStore(B, ir.BufferLoad(B, (1,)), (0,)), ir.Evaluate(B.data))))
    alloc, store, use = stmt.stmts
    assert alloc.buffer is store.buffer is store.value.buffer and use.value is alloc.buffer.data
    first, second = round_trip((part, x))
    assert first.a is second
    # What was not shared is not.
    assert len({id(c) for c in round_trip(ir.Add(ir.Add(x, 1), ir.Add(x, 1))).children()}) == 2
    assert round_trip(x) is not x


def test_modules():
    f = ir.PrimFunc((), {}, "void", {"global_symbol": "f"}, ir.Evaluate(ir.Call(GlobalVar("g"), (), "void")))
    g = ir.PrimFunc((), {}, "void", {}, ir.Evaluate(0))
    module = IRModule({"f": f, "g": g}, {"runtime": "x", "list": [1, 2]})
    back = round_trip(module)
    assert_structural_equal(back, module)
    assert list(back.functions) == ["f", "g"] and back.attrs == {"runtime": "x", "list": (1, 2)}


@pytest.mark.parametrize(
    "value",
    [
        1, -(2**70), 1.0, 0.1, -0.0, 5e-324, True, False, None, "text ü\n", "", (1, (2.5, "x"), ()), {"a": {"b": (1,)}},
        math.inf, -math.inf, ir.PointerType("int8", "shared"), ir.DataType("float8_e4m3fn"), ir.ForKind.PARALLEL,
        Op.get("tir.exp"), GlobalVar("main"), Target("nvptx -arch=sm_90a", host="llvm"), b"\x00\xff",
    ],
    ids=repr,
)  # fmt: skip
def test_values(value):
    back = attr(value)
    assert type(back) is type(value) and back == value
    if isinstance(value, float):
        assert math.copysign(1, back) == math.copysign(1, value)


def test_nan():
    assert math.isnan(attr(math.nan))
    assert math.isnan(round_trip(ir.FloatImm("float32", math.nan)).value)


@pytest.mark.parametrize(
    "name", ["int4", "uint8", "float16", "float64", "bool", "bfloat16", "float8_e5m2", "complex64"]
)
def test_arrays(name):
    kind = np.dtype(getattr(ml_dtypes, name, None) or name)
    array = np.arange(6).reshape(2, 3).astype(kind)
    for given in (array, array.T, array[:, 1:], array.reshape(-1)[:0]):
        back = attr(given)
        assert back.dtype == kind and back.shape == given.shape and (back == given).all()
        assert back.flags.writeable
    big = np.arange(3, dtype=">i4")
    assert (attr(big) == big).all()


def test_spans_are_left_out():
    from_text = ir.Evaluate(0, span=object())
    assert round_trip(from_text).span is None and "span" not in save_json(from_text)


def test_scale():
    x = ir.Var("x")
    chain: ir.Expr = x
    for _ in range(5000):
        chain = ir.Add(chain, x)
    back = round_trip(ir.Seq((ir.Evaluate(chain), *[ir.Evaluate(ir.Add(x, k)) for k in range(30_000)])))
    assert len(back.stmts) == 30_001
    depth, op = 0, back.stmts[0].value
    while isinstance(op, ir.Add):
        depth, op = depth + 1, op.a
    assert depth == 5000 and op is back.stmts[1].value.a
    shared: ir.Expr = x
    for _ in range(500):
        shared = ir.Add(shared, shared)
    assert len(json.loads(save_json(shared))["nodes"]) == 501
    assert structural_equal(round_trip(shared), shared, map_free_vars=True)


def test_what_has_no_form():
    with pytest.raises(TirError, match="object"):
        save_json(ir.AttrStmt(object(), "k", 0, ir.Evaluate(0)))
    with pytest.raises(TirError, match="object"):
        save_json(ir.AttrStmt(np.array([object()]), "k", 0, ir.Evaluate(0)))


def document(**changes: Any) -> str:
    good = json.loads(save_json(ir.Add(ir.Var("x"), 1)))
    return json.dumps({**good, **changes})


VAR = ["Var", {"name": "x", "type": {"t": "int32"}, "nonneg": False}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ('{"tirlower": 1, ', "line 1, column"),
        ("[" * 100_000, "too deeply|no JSON"),
        ("[]", "no saved IR"),
        (document(tirlower=99), "version 99"),
        (document(nodes=None), "table of nodes"),
        (document(nodes=[3]), "node 0 is \\[kind, fields\\]"),
        (document(nodes=[["Vra", {}]]), "did you mean 'Var'"),
        (document(nodes=[["Var", {}]]), "lacks the field 'name'"),
        (document(nodes=[["Var", {"name": "x", "nane": 1}]]), "no field 'nane'"),
        (document(nodes=[["Var", {"name": "x", "type": {"t": "int99"}}]]), "int99"),
        (document(nodes=[VAR, ["Add", {"a": {"n": 0}, "b": {"n": 1}}]]), "refers to node 1, of 1 before it"),
        (document(nodes=[VAR, ["Add", {"a": {"n": 0}, "b": {"n": -1}}]]), "refers to node -1"),
        (document(nodes=[VAR, ["Add", {"a": {"n": 0}, "b": 1.5}]]), "node 1 \\(Add\\) cannot be built"),
        (document(nodes=[VAR, ["Add", {"a": {"n": 0}, "b": {"zz": 1}}]]), "cannot read"),
        (document(nodes=[VAR], root={"n": 7}), "the root refers to node 7"),
        (document(root={"f": "one"}), "cannot read"),
        (document(root={"a": ["int32", [2], "AAAA"]}), "cannot read"),
        (document(root={"a": ["int32", [2], "***"]}), "base64"),
        (document(root={"op": "tir.nope"}), "unknown operation"),
        (document(root={"d": [1]}), "list of pairs"),
        (document(root={"d": [[{"d": []}, 1]]}), "no key"),
        (document(root={"e": ["ForKind", "NONE"]}), "cannot read"),
        (document(root={"target": {"d": [["kind", "z80"]]}}), "unknown target"),
    ],
)
def test_malformed_text_is_named(text, words):
    with pytest.raises(TirError, match=words):
        load_json(text)
