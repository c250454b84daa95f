"""Structural equality and hashing: renamings are equal, any one change is not, and the two agree."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirlower import ir
from tirlower.ir import NODES, DataType, Node, PointerType, Role
from tirlower.ir.field_order import DEFINES, ORDER, data_key, plan_of
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.path import Key, Path, node_at, replace_at
from tirlower.ir.structural import (
    StructuralMismatch,
    assert_structural_equal,
    expr_deep_equal,
    expr_digest,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from tirlower.script import parse


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


def test_a_renamed_copy_of_every_node_is_equal():
    func = kitchen_sink()
    copy = Copier()(func)
    assert copy.params[0] is not func.params[0]
    assert equal_and_hash(func, copy)
    assert_structural_equal(func, copy)
    used: set[type] = set()

    def note(value: Any) -> None:
        used.add(type(value))

    for node, _ in nodes_of(func):
        note(node)
    abstract = {"Expr", "Stmt", "BinaryOp", "CompareOp"}
    elsewhere = {"IndexMap"}
    # Graphs have nodes of their own, once somebody imports them.
    language = {t.__name__ for t in NODES.values() if t.__module__.startswith("tirlower.ir.")}
    assert len(language) > 50 and language - {t.__name__ for t in used} <= abstract | elsewhere


# Every node, with the way to rebuild the root with another node in its place.


def nodes_of(root: Any) -> Iterator[tuple[Any, Path]]:
    """The nodes under a root, each with its path; a variable or buffer that is defined is visited where it is."""
    stack: list[tuple[Any, Path]] = [(root, Path())]
    while stack:
        value, path = stack.pop()
        if isinstance(value, Node):
            yield value, path
            for field in value.fields:
                if field.role in (Role.CHILD, Role.ATTRS, Role.DATA):
                    stack.append((getattr(value, field.name), path / field.name))
        elif isinstance(value, (tuple, list)):
            stack += [(v, path / i) for i, v in enumerate(value)]
        elif isinstance(value, dict):
            stack += [(v, path / Key(k)) for k, v in value.items() if isinstance(k, str)]


def mutants(value: Any) -> Iterator[Any]:
    """Other values of a field's kind."""
    if isinstance(value, bool):
        yield not value
        yield int(value)
    elif isinstance(value, DataType):
        for name in ("int64", "float64", "int8", "uint32", "float32x4", "handle", "bool"):
            if name != value:
                yield DataType(name)
    elif isinstance(value, PointerType):
        yield PointerType(value.element, "shared")
        yield PointerType("int8", value.scope)
    elif isinstance(value, enum.Enum):
        yield from (v for v in type(value) if v is not value)
    elif isinstance(value, str):
        yield value + "z"
        yield ""
        yield {"default": "auto_broadcast", "auto_broadcast": "default"}.get(value, value)
    elif isinstance(value, int):
        yield value + 1
        yield value * 2  # a power of two stays one
        yield float(value)
    elif isinstance(value, float):
        yield value + 1.0
        if value == 0:
            yield -value
    elif isinstance(value, np.ndarray):
        yield value + 1
        yield np.where(value == 0, 0.0, value).astype(value.dtype)
    elif value is None:
        yield from (True, "x", 1)
        yield ir.Broadcast(False, 4)
        yield ir.IntImm("bool", 0)
        yield ir.Evaluate(0)
    elif isinstance(value, ir.Var):
        yield ir.Var("z", value.type, value.nonneg)
    elif isinstance(value, ir.Buffer):
        yield value.with_(dtype="int16" if value.dtype != "int16" else "int32", data=None)
        yield value.with_(align=256)
        yield value.with_()  # the same object: skipped below
        yield ir.Buffer(**{f.name: getattr(value, f.name) for f in value.fields})
    elif isinstance(value, ir.Expr):
        if value.dtype.is_bool:
            yield ir.Or(value, value)
        yield ir.Call(Op.get("tir.likely"), (value,), value.dtype)
        yield ir.IntImm("int32", 77)
        yield ir.Broadcast(ir.IntImm("bool", 0), 4)
    elif isinstance(value, ir.Stmt):
        yield ir.Seq((value, ir.Evaluate(1)))
        yield ir.AttrStmt(None, "other", 0, value)
    elif isinstance(value, ir.Range):
        yield ir.Range(value.min, ir.Call(Op.get("tir.likely"), (value.extent,), value.extent.dtype))
    elif isinstance(value, ir.BufferRegion):
        yield value.with_(region=(*value.region[:-1], ir.Range(3, 5)))
    elif isinstance(value, (tuple, list)):
        if value:
            yield value[:-1]
            yield value[1:]
            for other in mutants(value[-1]):
                yield type(value)((*value[:-1], other))
        yield type(value)((*value, 1))
    elif isinstance(value, dict):
        if value and isinstance(next(iter(value)), ir.Var):
            yield dict(list(value.items())[1:])
            keys = list(value)
            yield dict.fromkeys(keys, value[keys[0]])
        else:
            yield {**value, "extra": 1}
            if value:
                yield dict(list(value.items())[1:])
    elif isinstance(value, Op):
        yield Op.get("tir.log" if value.name != "tir.log" else "tir.exp")
        yield GlobalVar("h")
    elif isinstance(value, GlobalVar):
        yield GlobalVar("other")


# Fields whose every other value is either refused by the constructor or follows from another field.
DERIVED = {
    ("Buffer", "scope"),  # follows the data variable
}


def test_any_one_change_of_a_compared_field_is_unequal():
    func = kitchen_sink()
    tried: dict[tuple[str, str], int] = {}
    wanted: set[tuple[str, str]] = set()
    for node, path in nodes_of(func):
        for field in node.fields:
            if field.role is Role.HINT:
                continue
            old = getattr(node, field.name)
            key = (type(node).__name__, field.name)
            wanted.add(key)
            for new in mutants(old):
                if type(old) is type(new) and data_key_safe(old) == data_key_safe(new):
                    continue
                try:
                    changed = node.with_(**{field.name: new})
                    after = getattr(changed, field.name)
                    if not isinstance(after, (Node, dict, tuple)) and data_key_safe(after) == data_key_safe(old):
                        continue
                    whole = replace_at(func, path, changed)
                except (ValueError, TypeError, AttributeError, ir_error()):
                    continue
                if node_at(whole, path) is not changed:
                    continue  # a constructor on the way brought it back
                tried[key] = tried.get(key, 0) + 1
                assert not structural_equal(func, whole), (path, field.name, old, new)
                with pytest.raises(StructuralMismatch):
                    assert_structural_equal(func, whole)
    assert wanted - set(tried) <= DERIVED, wanted - set(tried)


def ir_error() -> type[Exception]:
    from tirlower.diagnostics import TirError

    return TirError


def data_key_safe(value: Any) -> Any:
    return data_key(value) if not isinstance(value, (Node, dict)) else id(value)


def test_hints_are_not_compared():
    x = ir.Var("x")
    loop = ir.For(x, 0, 4, "serial", None, {}, ir.Block("a", (), True, (), (), None, (), {}, ir.Evaluate(x)))
    other = ir.For(x, 0, 4, "serial", None, {}, ir.Block("b", (), True, (), (), None, (), {}, ir.Evaluate(x)))
    assert equal_and_hash(loop, other)


def test_orders_name_existing_nodes_and_fields():
    for name in (*ORDER, *DEFINES):
        assert plan_of(NODES[name])


# Scopes


def loop(var: ir.Var, *body: ir.Stmt, extent: Any = 4) -> ir.For:
    return ir.For(var, 0, extent, "serial", None, {}, body[0] if len(body) == 1 else ir.Seq(body))


def test_binders_are_compared_by_scope():
    i, j, k = ir.Var("i"), ir.Var("j"), ir.Var("k")
    ev = ir.Evaluate
    # The same variable bound twice in disjoint scopes against two variables.
    assert equal_and_hash(ir.Seq((loop(i, ev(i)), loop(i, ev(i)))), ir.Seq((loop(j, ev(j)), loop(k, ev(k)))))
    # After the scope, the variable is free again.
    assert not structural_equal(ir.Seq((loop(i, ev(i)), ev(i))), ir.Seq((loop(j, ev(j)), ev(j))))
    assert equal_and_hash(ir.Seq((loop(i, ev(i)), ev(i))), ir.Seq((loop(j, ev(j)), ev(i))))
    # An outer binding is visible again after an inner one of the same variable.
    nested = loop(i, ir.Seq((loop(i, ev(i)), ev(i))))
    assert equal_and_hash(nested, loop(j, ir.Seq((loop(k, ev(k)), ev(j)))))
    assert not structural_equal(nested, loop(j, ir.Seq((loop(k, ev(k)), ev(k)))))
    # Two variables are not one.
    two = loop(i, loop(j, ev(add(i, j))))
    assert not structural_equal(two, loop(i, loop(j, ev(add(i, i)))))
    assert not structural_equal(loop(i, loop(j, ev(add(i, i)))), two)
    assert equal_and_hash(two, loop(j, loop(i, ev(add(j, i)))))
    assert not structural_equal(two, loop(j, loop(i, ev(add(i, j)))))


def test_a_declaration_ends_with_its_seq():
    x, y = ir.Var("x"), ir.Var("y")
    inner = lambda v, use: ir.Seq((ir.Seq((ir.Bind(v, 1), ir.Evaluate(v))), ir.Evaluate(use)))
    assert equal_and_hash(inner(x, 0), inner(y, 0))
    assert not structural_equal(inner(x, x), inner(y, y))
    assert equal_and_hash(inner(x, x), inner(y, x))
    # A Seq that declares is a scope: flattening it is another program.
    flat = ir.Seq((ir.Bind(x, 1), ir.Evaluate(x), ir.Evaluate(0)))
    assert not structural_equal(inner(x, 0), flat)


def test_a_lone_declaration_of_a_branch_ends_with_it():
    x, y, c = ir.Var("x"), ir.Var("y"), ir.Var("c")
    make = lambda v, w: ir.IfThenElse(ir.LT(c, 0), ir.Bind(v, 1), ir.Evaluate(w))
    assert equal_and_hash(make(x, c), make(y, c))
    assert not structural_equal(make(x, x), make(y, y))


def test_free_variables():
    x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
    assert equal_and_hash(add(x, 1), add(x, 1))
    assert not structural_equal(add(x, 1), add(y, 1))
    assert equal_and_hash(add(x, y), add(y, x), map_free_vars=True)
    assert not structural_equal(add(x, y), add(z, z), map_free_vars=True)
    assert not structural_equal(add(z, z), add(x, y), map_free_vars=True)
    assert not structural_equal(add(x, x, y), add(x, y, y), map_free_vars=True)
    assert not structural_equal(x, ir.Var("x", nonneg=True), map_free_vars=True)
    # A subtree shared by both sides still takes part in the mapping.
    shared = add(x, 1)
    assert not structural_equal(add(shared, x), add(shared, y), map_free_vars=True)


def test_let_binds():
    x, y, z = ir.Var("x"), ir.Var("y"), ir.Var("z")
    assert equal_and_hash(ir.Let(x, 1, add(x, z)), ir.Let(y, 1, add(y, z)))
    assert not structural_equal(ir.Let(x, 1, add(x, z)), ir.Let(y, 1, add(z, z)))
    # The value is outside the binding.
    assert not structural_equal(ir.Let(x, x, x), ir.Let(y, y, y))
    assert equal_and_hash(ir.Let(x, x, x), ir.Let(y, x, y))
    # A shared Let and two equal ones hash alike.
    one = ir.Let(x, 1, add(x, z))
    assert equal_and_hash(ir.Mul(one, one), ir.Mul(one, ir.Let(y, 1, add(y, z))))
    nested = ir.Let(x, 1, ir.Let(y, 2, add(x, y)))
    assert equal_and_hash(nested, ir.Let(y, 1, ir.Let(x, 2, add(y, x))))
    assert not structural_equal(nested, ir.Let(y, 1, ir.Let(x, 2, add(x, y))))


def test_undeclared_buffers_are_mapped_at_first_use():
    data = ir.Var("p", PointerType("float32"))
    B = [ir.Buffer("B", (8,), "float32", data=data) for _ in range(3)]
    store = lambda buffer, index: ir.BufferStore(buffer, ir.FloatImm("float32", 1.0), (index,))
    assert equal_and_hash(ir.Seq((store(B[0], 0), store(B[0], 1))), ir.Seq((store(B[1], 0), store(B[1], 1))))
    assert not structural_equal(ir.Seq((store(B[0], 0), store(B[0], 1))), ir.Seq((store(B[1], 0), store(B[2], 1))))
    # The skipped first statement has used B[0].
    first = store(B[0], 0)
    assert not structural_equal(ir.Seq((first, store(B[0], 1))), ir.Seq((first, store(B[1], 1))))
    assert equal_and_hash(ir.Seq((first, store(B[2], 1))), ir.Seq((first, store(B[1], 1))))
    other = ir.Buffer("B", (9,), "float32", data=data)
    assert not structural_equal(store(B[0], 0), store(other, 0))
    stranger = ir.Buffer("B", (8,), "float32")
    assert not structural_equal(store(B[0], 0), store(stranger, 0))
    assert equal_and_hash(store(B[0], 0), store(stranger, 0), map_free_vars=True)


def test_an_undeclared_buffer_lives_as_long_as_its_variables():
    i, j = ir.Var("i"), ir.Var("j")
    data = ir.Var("p", PointerType("float32"))
    one, two = (ir.Buffer("B", (8,), "float32", data=data) for _ in range(2))
    use = lambda buffer: ir.Evaluate(ir.BufferLoad(buffer, (0,)))
    assert not structural_equal(ir.Seq((loop(i, use(one)), use(one))), ir.Seq((loop(j, use(one)), use(two))))
    sized = lambda var: ir.Buffer("B", (var,), "float32", data=data)
    a, b = sized(i), sized(j)
    assert equal_and_hash(ir.Seq((loop(i, use(a)), loop(i, use(a)))), ir.Seq((loop(j, use(b)), loop(i, use(a)))))


def test_the_init_sees_the_allocations_of_the_body():
    def make(buffer: ir.Buffer, other: ir.Buffer) -> ir.Block:
        store = lambda b: ir.BufferStore(b, ir.FloatImm("float32", 0.0), (0,))
        body = ir.Seq((ir.AllocBuffer(buffer), ir.AllocBuffer(other), store(buffer)))
        return ir.Block("b", (), True, (), (), store(buffer), (), {}, body)

    new = lambda: ir.Buffer("L", (4,), "float32")
    assert equal_and_hash(make(new(), new()), make(new(), new()))
    a, b = new(), new()
    right = make(a, b)
    wrong = right.with_(init=ir.BufferStore(b, ir.FloatImm("float32", 0.0), (0,)))
    assert not structural_equal(right, wrong)


def test_an_attribute_may_name_what_is_bound_inside():
    i, j, k = ir.Var("i"), ir.Var("j"), ir.Var("k")
    make = lambda named, bound: ir.AttrStmt(named, "pragma_x", 1, loop(bound, ir.Evaluate(bound)))
    assert equal_and_hash(make(i, i), make(j, j))
    assert not structural_equal(make(i, i), make(k, j))
    assert not structural_equal(make(k, j), make(i, i))
    assert equal_and_hash(make(k, i), make(k, j))
    iter_of = lambda v: ir.IterVar(ir.Range(0, 4), v, "opaque", "threadIdx.x")
    assert equal_and_hash(make(iter_of(i), i), make(iter_of(j), j))
    assert not structural_equal(make(iter_of(i), i), make(iter_of(k), j))


def test_functions_bind_their_symbolic_dimensions():
    def make(twice: bool) -> ir.PrimFunc:
        n, m = ir.Var("n"), ir.Var("m")
        a, b = ir.Var("a", "handle"), ir.Var("b", "handle")
        A, B = ir.Buffer("A", (n,)), ir.Buffer("B", (n if twice else m,))
        return ir.PrimFunc((a, b), {a: A, b: B}, "void", {}, ir.Evaluate(n))

    assert equal_and_hash(make(True), make(True))
    assert equal_and_hash(make(False), make(False))
    assert not structural_equal(make(True), make(False))
    assert not structural_equal(make(False), make(True))


def test_modules():
    func = kitchen_sink()
    other = Copier()(func)
    assert equal_and_hash(ir.IRModule({"f": func, "g": func}), ir.IRModule({"g": other, "f": other}))
    assert not structural_equal(ir.IRModule({"f": func}), ir.IRModule({"g": func}))
    assert not structural_equal(ir.IRModule({"f": func}), ir.IRModule({"f": func, "g": func}))
    assert not structural_equal(ir.IRModule({"f": func}), ir.IRModule({"f": func.with_attr("x", 1)}))
    assert not structural_equal(ir.IRModule({"f": func}, {"a": 1}), ir.IRModule({"f": func}))
    with pytest.raises(
        StructuralMismatch, match=r"`functions\['f'\]`: only the left module has this function\n"
    ) as found:
        assert_structural_equal(ir.IRModule({"f": func}), ir.IRModule({"g": func}))
    assert "<left>" in str(found.value) and "<right>" not in str(found.value) and "None" not in str(found.value)
    assert found.value.lhs is func and found.value.rhs is None


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (True, ir.IntImm("bool", 1), True),
        (1, ir.IntImm("int32", 1), True),
        (1, True, False),
        (1, 1.0, False),
        (1.5, ir.FloatImm("float32", 1.5), True),
        (ir.IntImm("int64", 1), 1, False),
        ([1, 2], (1, 2), True),
        ([1, 2], (1, 2, 3), False),
        ("a", ir.StringImm("a"), True),
        ({"x": [1]}, {"x": (1,)}, True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": None}, {"x": 0}, False),
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
    ],
)
def test_attribute_values(a: Any, b: Any, same: bool):
    make = lambda value: ir.PrimFunc((), {}, "void", {"k": value}, ir.Evaluate(0))
    assert equal_and_hash(make(a), make(b)) is same
    assert equal_and_hash(a, b) is same


def test_constants():
    f = lambda v: ir.FloatImm("float32", v)
    assert equal_and_hash(f(float("nan")), f(float("nan")))
    assert not structural_equal(f(0.0), f(-0.0))
    assert not structural_equal(f(1.0), ir.FloatImm("float64", 1.0))
    assert not structural_equal(ir.IntImm("int32", 1), ir.IntImm("int64", 1))


def test_constant_arrays_by_value():
    make = lambda values, dtype="float32": ir.AllocConst(ir.Buffer("K", (2,), dtype), np.array(values, dtype))
    assert equal_and_hash(make([1, np.nan]), make([1, np.nan]))
    assert not structural_equal(make([0.0, 1]), make([-0.0, 1]))
    assert not structural_equal(make([1, 2]), make([1, 3]))
    assert equal_and_hash(make([1, 2], "int64"), make([1, 2], "int64"))


# Size


def test_long_chains_and_shared_chains():
    x = ir.Var("x")
    chains = []
    for _ in range(2):
        chain: ir.Expr = x
        for k in range(20_000):
            chain = ir.Add(chain, ir.IntImm("int32", k % 7))
        chains.append(chain)
    assert equal_and_hash(*chains)
    assert expr_deep_equal(*chains)
    shared = []
    for _ in range(2):
        e: ir.Expr = x
        for _ in range(200):
            e = ir.Add(e, e)
        shared.append(e)
    assert equal_and_hash(*shared)
    assert expr_deep_equal(*shared)
    assert not structural_equal(ir.Add(shared[0], 1), ir.Add(shared[1], 2))


def test_a_tree_equals_itself_without_a_walk(monkeypatch: pytest.MonkeyPatch):
    func = kitchen_sink()
    i, j = ir.Var("i"), ir.Var("j")
    big = loop(i, func.body)
    visited = []
    from tirlower.ir import equality

    original = equality.Equality.fields

    def counting(self: Any, a: Any, b: Any, *rest: Any, **options: Any) -> bool:
        visited.append(type(a))
        return original(self, a, b, *rest, **options)

    monkeypatch.setattr(equality.Equality, "fields", counting)
    assert structural_equal(func, func)
    assert not visited
    assert structural_equal(ir.Seq((big, ir.Evaluate(1))), ir.Seq((big, ir.Evaluate(1))))
    assert len(visited) == 2  # the Seq and its last statement; the shared loop is skipped
    del visited[:]
    assert structural_equal(loop(j, big), loop(i, loop(i, func.body)))


def test_many_statements_and_deep_nesting():
    x = ir.Var("x")
    make = lambda: ir.Seq(tuple(ir.Evaluate(add(x, k)) for k in range(5_000)))
    assert equal_and_hash(make(), make())
    deep: list[ir.Stmt] = []
    for _ in range(2):
        stmt: ir.Stmt = ir.Evaluate(x)
        for _ in range(1_500):
            stmt = loop(ir.Var("i"), stmt)
        deep.append(stmt)
    assert equal_and_hash(*deep)


# Errors


def test_the_mismatch_names_the_path():
    i, x = ir.Var("i"), ir.Var("x")
    a = ir.PrimFunc((x,), {}, "void", {}, ir.Seq((loop(i, ir.Evaluate(i)), ir.Evaluate(x))))
    b = ir.PrimFunc((x,), {}, "void", {}, ir.Seq((loop(i, ir.Evaluate(i), extent=5), ir.Evaluate(x))))
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(a, b)
    assert caught.value.path == "body.stmts[0].extent"
    assert isinstance(caught.value, AssertionError) and isinstance(caught.value, ValueError)
    assert "body.stmts[0].extent" in str(caught.value)
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(a, a.with_attr("tir.noalias", True))
    assert caught.value.path == "attrs" and "'tir.noalias'" in str(caught.value)
    with pytest.raises(StructuralMismatch) as caught:
        assert_structural_equal(ir.IRModule({"m": a}), ir.IRModule({"m": b}))
    assert caught.value.path == "functions['m'].body.stmts[0].extent"


def test_a_longer_sequence_is_a_difference():
    a = ir.Seq((ir.Evaluate(1), ir.Evaluate(2)))
    b = ir.Seq((ir.Evaluate(1), ir.Evaluate(2), ir.Evaluate(3)))
    with pytest.raises(StructuralMismatch, match="2 and 3"):
        assert_structural_equal(a, b)


# Random expressions

VARS = [ir.Var(name) for name in "xyz"]
BUFFER = ir.Buffer("A", (16,), "int32")
leaves = st.one_of(st.sampled_from(VARS), st.integers(-3, 3).map(lambda v: ir.IntImm("int32", v)))


def grow(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from([ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.Min]), pair).map(lambda t: t[0](*t[1])),
        inner.map(lambda e: ir.BufferLoad(BUFFER, (e,))),
        st.tuples(st.sampled_from(VARS), pair).map(lambda t: ir.Let(t[0], *t[1])),
        st.tuples(inner, pair).map(lambda t: ir.Select(ir.LT(t[0], 0), *t[1])),
    )


exprs = st.recursive(leaves, grow, max_leaves=12)


def reference(expr: ir.Expr, names: dict[ir.Var, Any], depth: int = 0) -> Any:
    """An independent normal form: bound variables by the depth of their Let, free ones by name."""
    if isinstance(expr, ir.Var):
        return names.get(expr, expr.name)
    if isinstance(expr, ir.IntImm):
        return expr.value
    if isinstance(expr, ir.Let):
        inner = {**names, expr.var: ("bound", depth)}
        return ("Let", reference(expr.value, names, depth), reference(expr.body, inner, depth + 1))
    return (type(expr).__name__, *[reference(c, names, depth) for c in expr.children()])


@settings(max_examples=300, deadline=None)
@given(exprs, exprs)
def test_equality_and_hash_agree_with_a_normal_form(a: ir.Expr, b: ir.Expr):
    same = reference(a, {}) == reference(b, {})
    assert equal_and_hash(a, b) is same
    assert (structural_hash(a) == structural_hash(b)) is same
    identical = reference_identity(a) == reference_identity(b)
    assert expr_deep_equal(a, b) is identical
    assert (expr_digest(a) == expr_digest(b)) is identical


def reference_identity(expr: ir.Expr) -> Any:
    if isinstance(expr, ir.Var):
        return expr.name
    if isinstance(expr, ir.IntImm):
        return expr.value
    named = expr.var.name if isinstance(expr, ir.Let) else ""
    return (type(expr).__name__, named, *[reference_identity(c) for c in expr.children()])


@settings(max_examples=150, deadline=None)
@given(exprs)
def test_a_renamed_copy_is_equal(expr: ir.Expr):
    body = ir.Seq((ir.AllocBuffer(BUFFER), ir.Evaluate(expr)))
    whole: ir.Stmt = body
    for var in VARS:
        whole = loop(var, whole)
    copy = Copier()(whole)
    assert equal_and_hash(whole, copy)
    assert equal_and_hash(expr, Copier()(expr), map_free_vars=True)


def test_a_block_may_match_regions_of_its_own_allocations():
    source = """
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            v = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[v])
            B = T.alloc_buffer((4, 2), "int32")
            C = T.alloc_buffer((4, 2), "int32")
            row = T.match_buffer(B[v % 4, 0:2], (2,), "int32", offset_factor=1)
            row[0] = v
            C[0, 0] = row[0]
            A[v] = C[0, 0]
"""
    func = parse(source)
    assert_structural_equal(func, parse(source.replace("B =", "D =").replace("(B[", "(D[")))
    assert structural_hash(func) == structural_hash(parse(source.replace("row", "line")))
    for other in (source.replace("B[v % 4", "C[v % 4"), source.replace("v % 4", "v // 2")):
        assert not structural_equal(func, parse(other))
        assert structural_hash(func) != structural_hash(parse(other))


def test_the_first_mismatch_as_paths():
    i, j = ir.Var("i"), ir.Var("j")
    a, b = ir.Buffer("A", (8,)), ir.Buffer("A", (8,))

    def nest(var, buffer, value):
        return ir.For(var, 0, 8, "serial", None, {}, ir.BufferStore(buffer, value, (var,)))

    assert get_first_structural_mismatch(nest(i, a, 1.0), nest(j, a, 1.0)) is None
    left, right = get_first_structural_mismatch(nest(i, a, 1.0), nest(j, a, 2.0))
    assert str(left) == str(right) == "body.value.value"
    assert node_at(nest(i, a, 1.0), Path(left.steps[:-1])).value == 1.0
    assert get_first_structural_mismatch(nest(i, a, 1.0), nest(j, b, 1.0), map_free_vars=True) is None
    assert get_first_structural_mismatch(i, j) is not None
