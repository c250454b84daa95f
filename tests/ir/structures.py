"""A function of every node, and equality checked against hashes: what tests of structural equality share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirlower import ir
from tirlower.ir import Node, PointerType
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.structural import structural_equal, structural_hash


def add(*terms: Any) -> ir.Expr:
    total = ir.as_expr(terms[0])
    for term in terms[1:]:
        total = ir.Add(total, ir.as_expr(term))
    return total


def equal_and_hash(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """structural_equal, checked both ways round and against the hash."""
    same = structural_equal(a, b, map_free_vars)
    assert structural_equal(b, a, map_free_vars) is same
    if same:
        assert structural_hash(a, map_free_vars) == structural_hash(b, map_free_vars)
    return same


def kitchen_sink() -> ir.PrimFunc:
    """A function with every kind of node; each binder is used."""
    n = ir.Var("n", "int32", nonneg=True)
    s0 = ir.Var("s0")
    eo = ir.Var("eo")
    a = ir.Var("a", "handle")
    c = ir.Var("c", "handle")
    k = ir.Var("k", "int32")
    A = ir.Buffer("A", (n, 8), "float32", strides=(s0, 1), elem_offset=eo, offset_factor=4, axis_separators=(1,))
    C = ir.Buffer("C", (ir.Mul(n, 2), 8), "float32", align=128)
    call = ir.Call
    i, j, t = ir.Var("i"), ir.Var("j"), ir.Var("t")
    vi, vj = ir.Var("vi"), ir.Var("vj")
    M = ir.Buffer("M", (1, 4), "float32", strides=(ir.Var("ms"), 1), elem_offset=ir.Var("mo"), offset_factor=1)
    L = ir.Buffer("L", (4,), "float32", scope="local")
    L2 = ir.Buffer("L2", (4,), data=L.data)
    K = ir.Buffer("K", (3,), "float32")
    V = ir.Buffer("V", (4,), "int32", data=ir.Var("L_i", PointerType("int32", "local")))
    W = ir.Buffer("W", (4,), "float32", data=L.data)
    U = ir.Buffer("U", (2, 2), "float32", data=L.data)  # undeclared
    x = ir.Var("x")
    y = ir.Var("y")
    load = ir.BufferLoad(A, (vi, vj))
    masked = ir.BufferLoad(A, (vi, ir.Ramp(ir.IntImm("int32", 0), ir.IntImm("int32", 2), 4)), ir.Broadcast(True, 4))
    wide = ir.Shuffle((masked, masked), (0, 3, 5, 6))
    value = ir.Select(
        ir.And(ir.LT(vi, n), ir.Or(ir.Not(ir.EQ(vj, 3)), ir.GE(vi, k))),
        ir.Let(y, ir.FloorDiv(vi, 2), ir.Cast("float32", add(y, ir.FloorMod(y, 3), vi))),
        ir.Call(Op.get("tir.exp"), (load,), "float32", annotations={"fast": True}),
    )
    block = ir.Block(
        "B",
        (
            ir.BlockIter(vi, ir.Range(0, n), ir.IterKind.SPATIAL, i),
            ir.BlockIter(vj, ir.Range(0, 8), ir.IterKind.REDUCE, j),
        ),
        ir.LT(i, 7),
        (ir.BufferRegion(A, (ir.Range(vi, 1), ir.Range(vj, 1))),),
        (ir.BufferRegion(C, (ir.Range(vi, 1), ir.Range(0, 4))),),
        ir.BufferStore(L, ir.FloatImm("float32", 0.0), (0,)),
        (ir.MatchBufferRegion(M, ir.BufferRegion(C, (ir.Range(vi, 1), ir.Range(0, 4)))),),
        {"axes": [vi, 3], "name": "x", "nested": {"f": 1.5, "none": None}},
        ir.Seq(
            (
                ir.AllocBuffer(L, ir.LT(n, 100), {"volatile": True}),
                ir.BufferStore(L, value, (1,)),
                ir.BufferStore(M, ir.Max(ir.BufferLoad(U, (0, 1)), ir.BufferLoad(U, (1, 1))), (0, 2)),
                ir.BufferStore(C, wide, (vi, ir.Ramp(0, 1, 4)), ir.Broadcast(ir.LT(vi, 3), 4)),
                ir.AttrStmt(
                    ir.IterVar(ir.Range(0, 4), t, "opaque", "threadIdx.x"),
                    "pragma_x",
                    1,
                    ir.For(t, 0, 4, "thread_binding", "threadIdx.x", {"q": 2}, ir.Evaluate(ir.Max(t, M.elem_offset))),
                ),
            )
        ),
    )
    body = ir.Seq(
        (
            ir.AllocConst(K, np.array([1.0, np.nan, -0.0], "float32"), {"origin": "w"}),
            ir.Bind(x, ir.Sub(ir.Mul(n, 3), ir.Mod(ir.Div(k, 2), 3))),
            ir.For(
                i, 0, n, "serial", None, {"unroll": 4}, ir.For(j, ir.Min(x, 0), 8, "parallel", None, {}, block)
            ),
            ir.IfThenElse(
                ir.GT(x, 3),
                ir.Evaluate(call(Op.get("tir.call_extern"), ("f", ir.BufferLoad(K, (0,)), ir.FloatImm("float64", 2.5)), "int32")),
                ir.Seq(
                    (
                        ir.AllocBuffer(L2),
                        ir.BufferStore(L2, ir.FloatImm("float32", 1.0), (0,)),
                        ir.DeclBuffer(W),
                        ir.BufferStore(W, ir.FloatImm("float32", -0.0), (2,)),
                        ir.Bind(V.data, call(Op.get("tir.reinterpret"), (L.data,), "handle")),
                        ir.Evaluate(ir.Add(ir.BufferLoad(V, (1,)), ir.BufferLoad(V, (0,)))),
                    )
                ),
            ),
            ir.While(ir.NE(k, 0), ir.Evaluate(call(GlobalVar("g"), (k,), "int32"))),
            ir.Evaluate(ir.Ramp(x, 2, 4)),
            ir.Evaluate(ir.Broadcast(x, ir.Mul(ir.IntImm("int32", 4), call(Op.get("tir.vscale"), (), "int32")))),
            ir.Evaluate(ir.Broadcast(x, 8)),
            ir.Evaluate(ir.Cast("int64", x)),
            ir.Evaluate(ir.FloatImm("float16", 1.5)),
            ir.Assert(ir.LE(x, 100), "too big"),
            ir.AttrStmt(A, "device", "gpu", ir.Evaluate(ir.StringImm("s"))),
            ir.AttrStmt(
                (ir.CommReducer((i,), (j,), (ir.Add(i, j),), (0,)), ir.BufferRegion(C, (ir.Range(0, 1), ir.Range(1, 2)))),
                "reduce",
                0,
                ir.Evaluate(add(eo, s0)),
            ),
        )
    )  # fmt: skip
    root = ir.Block("root", (), True, (), (), None, (), {}, body)
    return ir.PrimFunc((a, c, k), {a: A, c: C}, "int32", {"global_symbol": "main", "tir.noalias": True}, root)


# A copy with every binder renamed, written without the machinery under test.


class Copier:
    """Rebuilds every node, with fresh variables and buffers under other names."""

    def __init__(self) -> None:
        self.made: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(self(v) for v in value)
        if isinstance(value, dict):
            return {self(k): self(v) for k, v in value.items()}
        if not isinstance(value, Node):
            return value
        if isinstance(value, (ir.Var, ir.Buffer)) and value in self.made:
            return self.made[value]
        new = type(value)(**{f.name: self(getattr(value, f.name)) for f in value.fields if f.name != "span"})
        if isinstance(value, (ir.Var, ir.Buffer)):
            new.name = value.name + "_r"
            self.made[value] = new
        return new


def loop(var: ir.Var, *body: ir.Stmt, extent: Any = 4) -> ir.For:
    return ir.For(var, 0, extent, "serial", None, {}, body[0] if len(body) == 1 else ir.Seq(body))
