"""Structural equality and hashing: scopes, attributes, constants, large trees, and where two trees differ first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ir.structures import Copier, add, equal_and_hash, kitchen_sink, loop
from tirlower import ir
from tirlower.ir import PointerType
from tirlower.ir.path import Path, node_at
from tirlower.ir.structural import (
    StructuralMismatch,
    assert_structural_equal,
    expr_deep_equal,
    get_first_structural_mismatch,
    structural_equal,
    structural_hash,
)
from tirlower.script import parse

# Scopes


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
