"""Iterators over the nodes of a tree, and what is asked with them."""

from __future__ import annotations

from tirlower.ir import BufferLoad, BufferStore, For, IntImm, Var, post_order_visit
from tirlower.ir.expr import Add, Expr, Mul
from tirlower.ir.query import each, has, is_small, mentions, nodes, reads_data, statements
from tirlower.script import tir as T


@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
    for i, j in T.grid(8, 8):
        A[i, j] = B[j] * n + 1


def test_nodes_come_once_each_and_before_their_children() -> None:
    met = list(nodes(f.body))
    assert met[0] is f.body and len(set(map(id, met))) == len(met)
    place = {id(op): at for at, op in enumerate(met)}
    for op in met:
        assert all(place[id(op)] < place[id(child)] or met.count(child) == 1 for child in op.children())
    every: list[object] = []
    post_order_visit(f.body, every.append)
    assert set(map(id, every)) == set(map(id, met))


def test_a_shared_operand_is_met_once() -> None:
    expr: Expr = Var("x", "int32")
    for _ in range(64):
        expr = Add(expr, expr)
    assert sum(1 for _ in nodes(expr)) == 65 and sum(1 for _ in nodes(expr, expr)) == 65


def test_the_nodes_of_a_class_or_of_some() -> None:
    (store,) = each(BufferStore, f.body)
    assert [loop.loop_var.name for loop in each(For, f.body)] == ["i", "j"]
    assert [load.buffer.name for load in each(BufferLoad, store)] == ["B"]
    assert {type(op) for op in each((Add, Mul), f.body)} == {Add, Mul}
    assert {type(op) for op in each(Expr, store.value)} == {Add, Mul, BufferLoad, Var, IntImm}
    assert list(each(For)) == []
    # What is found has no truth: a load is no condition.
    assert has(BufferLoad, f.body) and has((Mul, For), store.value) and not has((For, BufferStore), store.value)


def test_statements_are_entered_and_expressions_are_not() -> None:
    assert [type(op) for op in statements(f.body)] == [For, For, BufferStore]
    assert not list(statements(IntImm("int32", 3)))
    assert [type(op) for op in statements(f.body, f.body.body)] == [For, For, BufferStore]


def test_what_is_mentioned_and_read() -> None:
    (store,) = each(BufferStore, f.body)
    load = next(each(BufferLoad, store))
    outer, inner = (loop.loop_var for loop in each(For, f.body))
    assert mentions(store, {outer}) and not mentions(store.value, {outer}) and mentions(store.value, (outer, inner))
    assert not mentions(store, ()) and mentions(inner, {inner})
    assert reads_data(store, load.buffer.data) and not reads_data(store, store.buffer.data)
    assert reads_data(load.buffer.data, load.buffer.data)


def test_small_is_counted_over_all_roots() -> None:
    x, y = Var("x", "int32"), Var("y", "int32")
    assert is_small(3, x + y) and not is_small(2, x + y)
    assert is_small(4, x + y, y + x) and not is_small(3, x + y, y + x)
    assert is_small(0)
