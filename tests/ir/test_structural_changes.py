"""A renamed copy of every node is equal, any one change is not, and random expressions agree with a normal form."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ir.structures import Copier, equal_and_hash, kitchen_sink, loop
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
    structural_equal,
    structural_hash,
)


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
