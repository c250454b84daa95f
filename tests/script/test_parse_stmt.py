"""Statements: branches on helpers, bodies as they are written, returns, iterators of loops as indices."""

from __future__ import annotations

from tirlower.ir import Call, Evaluate, For, Seq, assert_structural_equal
from tirlower.script import parse
from tirlower.script import tir as T

WIDTH = 16


def test_helper_functions_are_read_as_script():
    def pick(x, y):
        smaller = x if x < y else y
        if WIDTH == 16:
            return smaller == 0 and not x < y
        return None

    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            if pick(A[i], i):
                A[i] = 1

    condition = f.body.body.condition
    assert type(condition).__name__ == "And"
    assert type(condition.a).__name__ == "EQ" and condition.a.a.op.name == "tir.if_then_else"
    assert type(condition.b).__name__ == "Not"


def test_the_body_is_kept_as_written():
    func = parse("def f(A: T.Buffer((4,), 'int32')):\n    T.evaluate(0)\n    A[0] = 1\n    pass\n    T.evaluate(1)\n")
    assert isinstance(func.body, Seq) and len(func.body.stmts) == 3
    assert isinstance(parse("def f():\n    pass\n").body, Evaluate)
    assert isinstance(parse("def f():\n    for i in range(3):\n        pass\n").body, For)


def test_calls_are_in_the_ir_of_a_return():
    func = parse("def f(n: T.int32) -> T.int32:\n    T.ret(n)\n    return n\n    return\n", check_well_formed=False)
    calls = [stmt.value for stmt in func.body.stmts]
    assert all(isinstance(c, Call) and c.op.name == "tir.ret" for c in calls)
    assert [len(c.args) for c in calls] == [1, 1, 0]


def test_iterators_under_one_name_are_indices():
    @T.prim_func
    def listed(A: T.Buffer((2, 3), "float32")):
        for at in T.grid(2, 3):
            with T.block("b"):
                v = T.axis.remap("SS", at)
                A[v] = T.float32(1)

    @T.prim_func
    def spelled(A: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)

    assert_structural_equal(listed.with_attr("global_symbol", "f"), spelled.with_attr("global_symbol", "f"))
