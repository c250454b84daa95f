"""Visitors and mutators: what is visited, in which order, how often; unchanged is the same object; scale."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import (
    Dispatch,
    Mutator,
    StmtMutator,
    Visitor,
    fold,
    ir_transform,
    post_order_visit,
    pre_order_visit,
    structural_equal,
    substitute,
)


def loop(var: ir.Var, body: ir.Stmt, extent: Any = 4) -> ir.For:
    return ir.For(var, 0, extent, "serial", None, {}, body)


def sample() -> tuple[ir.Stmt, dict[str, Any]]:
    i, j, n = ir.Var("i"), ir.Var("j"), ir.Var("n")
    A, B = ir.Buffer("A", (n, 4)), ir.Buffer("B", (4,))
    shared = ir.Mul(j, 2)
    inner = ir.BufferStore(B, ir.BufferLoad(A, (i, shared)), (ir.Add(shared, shared),))
    stmt = loop(i, ir.Seq((ir.AllocBuffer(B), loop(j, ir.IfThenElse(ir.LT(i, n), inner)))), n)
    return stmt, {"i": i, "j": j, "n": n, "A": A, "B": B, "shared": shared, "inner": inner}


def test_visitor_sees_every_distinct_expression_of_a_root_once():
    stmt, v = sample()
    seen: list[Any] = []
    buffers: list[str] = []

    class Look(Visitor):
        def visit_Mul(self, op: ir.Mul) -> None:
            seen.append(op)

        def visit_BufferLoad(self, op: ir.BufferLoad) -> None:
            seen.append(op)

        def visit_buffer(self, buffer: ir.Buffer) -> None:
            buffers.append(buffer.name)

    Look().visit(stmt)
    # Once in the load (one root), once in the store's index (another root).
    assert seen == [v["inner"].value, v["shared"], v["shared"]]
    assert sorted(buffers) == ["A", "B"]


def test_visitor_stops_where_a_handler_says_so():
    x = ir.Var("x")
    seen: list[str] = []

    class Look(Visitor):
        def visit_Add(self, op: ir.Add) -> bool:
            seen.append("add")
            return False

        def visit_Var(self, op: ir.Var) -> None:
            seen.append(op.name)

        def visit_For(self, op: ir.For) -> None:
            seen.append("for")

    Look().visit(ir.Seq((ir.Evaluate(ir.Add(x, 1)), loop(ir.Var("i"), ir.Evaluate(x)), ir.Evaluate(ir.Mul(x, x)))))
    assert seen == ["add", "for", "x"]


def test_a_misspelt_handler_fails_with_the_class():
    with pytest.raises(TypeError, match="visit_Fro"):

        class Wrong(Visitor):
            def visit_Fro(self, op: Any) -> None: ...

    with pytest.raises(TypeError, match="enter_Addd"):

        class AlsoWrong(Mutator):
            def enter_Addd(self, op: Any) -> None: ...


def test_a_handler_of_a_base_class_serves_its_subclasses():
    seen: list[str] = []

    class Look(Visitor):
        def visit_BinaryOp(self, op: Any) -> None:
            seen.append("binary " + type(op).__name__)

        def visit_Add(self, op: Any) -> None:
            seen.append("add")

    class More(Look):
        def visit_Mul(self, op: Any) -> None:
            seen.append("mul")

    x = ir.Var("x")
    More().visit(ir.Add(ir.Mul(x, 1), ir.Sub(x, 1)))
    assert seen == ["add", "mul", "binary Sub"]


def test_an_unchanged_tree_is_the_same_object():
    stmt, _ = sample()

    class Nothing(Mutator): ...

    class SameBuffer(Mutator):
        def map_buffer(self, buffer: ir.Buffer) -> ir.Buffer:
            return buffer

        def map_attr(self, value: Any) -> Any:
            return value

        def map_var_def(self, var: ir.Var) -> ir.Var:
            return var

    assert Nothing().visit(stmt) is stmt and SameBuffer().visit(stmt) is stmt
    assert substitute(stmt, {}) is stmt and substitute(stmt, {ir.Var("z"): 1}) is stmt
    assert ir_transform(stmt, None, lambda op: None) is stmt


def test_only_what_changes_is_rebuilt():
    stmt, _ = sample()
    x = ir.Var("x")
    stmt = ir.Seq((stmt, ir.Evaluate(x)))
    new = substitute(stmt, {x: 3})
    assert new.stmts[0] is stmt.stmts[0] and new.stmts[1].value.value == 3


def test_mutator_handlers_get_rewritten_operands():
    x = ir.Var("x")

    class Rewrite(Mutator):
        def visit_IntImm(self, op: ir.IntImm) -> ir.Expr:
            return ir.IntImm("int32", op.value + 1)

        def visit_Mul(self, op: ir.Mul) -> ir.Expr:
            return ir.Sub(op.a, op.b)

        def visit_Evaluate(self, op: ir.Evaluate) -> ir.Stmt:
            return ir.Seq((self.generic(op), ir.Evaluate(x)))

    got = Rewrite().visit(ir.Evaluate(ir.Add(ir.Mul(x, 1), 2)))
    want = ir.Seq((ir.Evaluate(ir.Add(ir.Sub(x, 2), 3)), ir.Evaluate(x)))
    assert structural_equal(got, want)


def test_enter_runs_once_before_the_operands_and_may_replace():
    x, y = ir.Var("x"), ir.Var("y")
    events: list[str] = []

    class Enter(Mutator):
        def enter_Add(self, op: ir.Add) -> None:
            events.append("enter add")

        def visit_Add(self, op: ir.Add) -> ir.Expr:
            events.append("leave add")
            return op

        def enter_Mul(self, op: ir.Mul) -> ir.Expr:
            return y

        def visit_Var(self, op: ir.Var) -> ir.Expr:
            events.append(op.name)
            return op

    got = Enter().visit(ir.Add(ir.Mul(x, 2), ir.Add(x, 1)))
    assert events == ["enter add", "enter add", "x", "leave add", "leave add"] and got.a is y


def test_definitions_are_mapped_with_their_uses():
    stmt, v = sample()
    j = ir.Var("jj")
    new = substitute(stmt, {v["j"]: j})
    assert new.body.stmts[1].loop_var is j
    assert not any(op is v["j"] for op in nodes(new))
    # A definition stays where the replacement is no variable.
    assert substitute(loop(v["j"], ir.Evaluate(v["j"])), {v["j"]: 3}).loop_var is v["j"]


def nodes(root: Any) -> list[Any]:
    found: list[Any] = []
    post_order_visit(root, found.append)
    return found


def test_substitute_rebuilds_a_buffer_once():
    stmt, v = sample()
    new = substitute(stmt, {v["n"]: 8})
    load = new.body.stmts[1].body.then_case.value
    assert load.buffer.shape[0].value == 8 and load.buffer.data is v["A"].data
    two = ir.Seq((ir.Evaluate(ir.BufferLoad(v["A"], (0, 0))), ir.Evaluate(ir.BufferLoad(v["A"], (1, 0)))))
    got = substitute(two, {v["n"]: 8})
    assert got.stmts[0].value.buffer is got.stmts[1].value.buffer
    C = ir.Buffer("C", (4, 4))
    assert substitute(two, {}, {v["A"]: C}).stmts[1].value.buffer is C
    assert substitute(v["A"], {v["n"]: 8}).shape[0].value == 8


def test_substitute_takes_variables():
    x = ir.Var("x")
    with pytest.raises(TirError, match=r"got str 'x'"):
        substitute(x + 1, {"x": 1})


def test_substitute_reaches_attributes_and_regions():
    x, n = ir.Var("x"), ir.Var("n")
    A = ir.Buffer("A", (n,))
    region = ir.BufferRegion(A, (ir.Range(x, 1),))
    block = ir.Block("b", (), True, (region,), (), None, (), {"k": (x, {"d": ir.Add(x, 1)}), "A": A}, ir.Evaluate(x))
    got = substitute(ir.AttrStmt(A, "k", x, block), {x: 5, n: 6})
    inner = got.body
    assert got.node is inner.annotations["A"] is inner.reads[0].buffer and got.value.value == 5
    assert inner.annotations["k"] == (5, {"d": 6})
    assert inner.reads[0].region[0].min.value == 5
    call = ir.Call(ir.Op.get("tir.likely"), (x,), "int32", annotations={"k": x})
    assert substitute(call, {x: 5}).annotations["k"].value == 5


def test_substitute_folds_what_changes():
    x, y = ir.Var("x"), ir.Var("y")
    assert substitute(ir.Add(ir.Mul(x, y), 0), {x: 1}) is y
    assert substitute(ir.Add(ir.Mul(x, 4), 3), {x: 2}).value == 11
    assert isinstance(substitute(ir.FloorDiv(y, x), {x: 0}), ir.FloorDiv)
    assert substitute(ir.And(ir.LT(x, 3), ir.LT(y, 3)), {x: 1}).a is y
    assert substitute(ir.Not(ir.LT(x, 3)), {x: 1}).value == 0
    assert substitute(ir.Cast("int64", x), {x: 1}).dtype == "int64"


def test_folding_keeps_divisions_by_what_may_be_zero():
    x, y, never = ir.Var("x", "int32"), ir.Var("y", "int32"), ir.IntImm("bool", 0)
    quotient, sure = ir.FloorDiv(x, y), ir.FloorDiv(x, ir.IntImm("int32", 4))
    for kept in (
        ir.And(quotient > 3, never),
        ir.Mul(quotient, ir.IntImm("int32", 0)),
        ir.FloorDiv(ir.IntImm("int32", 0), y),
    ):
        assert ir.fold(kept) is kept
    for gone in (ir.And(sure > 3, never), ir.Mul(sure, ir.IntImm("int32", 0)), ir.And(never, quotient > 3)):
        assert isinstance(ir.fold(gone), ir.IntImm) and ir.fold(gone).value == 0


def test_fold():
    x = ir.Var("x")
    assert fold(ir.Add(x, 0)) is x and fold(ir.Add(2, 3)).value == 5
    kept = ir.Add(x, 1)
    assert fold(kept) is kept and fold(x) is x
    zero = ir.FloorMod(x, 0)
    assert fold(zero) is zero
    assert isinstance(fold(ir.Div(ir.FloatImm("float32", 1.0), ir.FloatImm("float32", 2.0))), ir.Div)


def test_orders():
    x = ir.Var("x")
    a = ir.Add(x, 1)
    m = ir.Mul(a, a)
    ev = ir.Evaluate(m)
    order = nodes(ev)
    assert order == [x, a.b, a, m, ev]
    seen: list[Any] = []
    pre_order_visit(ev, seen.append)
    assert seen == [ev, m, a, x, a.b]
    seen.clear()
    pre_order_visit(ev, lambda op: seen.append(op) or op is not a)
    assert seen == [ev, m, a]


def test_ir_transform():
    stmt, _ = sample()

    def before(op: Any) -> Any:
        return ir.Evaluate(7) if isinstance(op, ir.IfThenElse) else None

    def after(op: Any) -> Any:
        return loop(op.loop_var, op.body, 9) if isinstance(op, ir.For) else None

    got = ir_transform(stmt, before, after, ["tir.For", ir.IfThenElse])
    assert got.extent.value == 9 and got.body.stmts[1].extent.value == 9
    assert got.body.stmts[1].body.value.value == 7
    # A replacement of the first function is not entered; only the enabled classes are asked.
    asked: set[type] = set()
    ir_transform(stmt, None, lambda op: asked.add(type(op)), ["BufferStore"])
    assert asked == {ir.BufferStore}
    with pytest.raises(TirError, match=r"no node 'tir.Fro'\n.*did you mean 'For'"):
        ir_transform(stmt, None, None, ["tir.Fro"])


def test_let_definitions_are_mapped_before_their_body():
    x = ir.Var("x")

    class Rename(Mutator):
        def __init__(self) -> None:
            self.names: dict[ir.Var, ir.Var] = {}

        def map_var_def(self, var: ir.Var) -> ir.Var:
            return self.names.setdefault(var, ir.Var(var.name + "_1"))

        def visit_Var(self, op: ir.Var) -> ir.Expr:
            return self.names.get(op, op)

    got = Rename().visit(ir.Let(x, 1, ir.Add(x, 2)))
    assert got.var.name == "x_1" and got.body.a is got.var


def count_calls(fn: Any) -> int:
    """The number of Python and C calls that a function makes: time, without a clock."""
    calls = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        fn()
    finally:
        sys.setprofile(None)
    return calls


class _AddOne(Mutator):
    def visit_IntImm(self, op: ir.IntImm) -> ir.Expr:
        return ir.IntImm("int32", op.value + 1)


def big(stmts: int, x: ir.Var) -> ir.Stmt:
    A = ir.Buffer("A", (stmts,), "int32")
    return ir.Seq(tuple(ir.BufferStore(A, ir.Add(x, k), (k,)) for k in range(stmts)))


@pytest.mark.parametrize(
    "work",
    [
        lambda stmt, x: _AddOne().visit(stmt),
        lambda stmt, x: substitute(stmt, {x: 1}),
        lambda stmt, x: post_order_visit(stmt, lambda op: None),
        lambda stmt, x: Visitor().visit(stmt),
    ],
    ids=["mutator", "substitute", "post_order", "visitor"],
)
def test_cost_is_linear_in_statements(work):
    x = ir.Var("x")
    few, many = big(500, x), big(2000, x)
    assert count_calls(lambda: work(many, x)) < 4.5 * count_calls(lambda: work(few, x))


def test_a_hundred_thousand_statements():
    x = ir.Var("x")
    stmt = big(100_000, x)
    got = substitute(stmt, {x: 5})
    assert len(got.stmts) == 100_000 and got.stmts[-1].value.value == 100_004
    count = 0

    def look(op: Any) -> None:
        nonlocal count
        count += isinstance(op, ir.BufferStore)

    post_order_visit(stmt, look)
    assert count == 100_000


def test_long_chains_and_shared_ones():
    x = ir.Var("x")
    chain: ir.Expr = x
    for _ in range(5000):
        chain = ir.Add(chain, x)
    got = substitute(chain, {x: 1})
    assert got.value == 5001
    assert _AddOne().visit(chain) is chain
    depth: ir.Expr = x
    for _ in range(400):
        depth = ir.Add(depth, depth)
    assert len(nodes(depth)) == 401
    renamed = substitute(depth, {x: ir.Var("y")})
    assert len(nodes(renamed)) == 401
    nest: ir.Stmt = ir.Evaluate(x)
    for k in range(2000):
        nest = loop(ir.Var(f"i{k}"), nest)
    assert substitute(nest, {x: 1}) is not nest


def test_a_method_is_found_by_the_class_of_the_node() -> None:
    class Names(Dispatch):
        def on_BinaryOp(self, op, shout):
            return "BINARY" if shout else "binary"

        def on_Add(self, op, shout):
            return "sum"

        def otherwise(self, op, shout):
            return "other"

    class More(Names):
        def on_Mul(self, op, shout):
            return "product"

    x = ir.Var("x", "int32")
    assert [Names().dispatch(op, True) for op in (x + x, ir.Sub(x, x), ir.Mul(x, x), x)] == [
        "sum",
        "BINARY",
        "BINARY",
        "other",
    ]
    assert More().dispatch(ir.Mul(x, x), False) == "product" and More().dispatch(ir.Sub(x, x), False) == "binary"

    class Few(Dispatch):
        def on_For(self, op):
            return op

    with pytest.raises(TypeError, match="Few has no method for Var"):
        Few().dispatch(x)
    with pytest.raises(TypeError, match=r"Wrong\.on_Fro: there is no node 'Fro'"):

        class Wrong(Dispatch):
            def on_Fro(self, op):
                return op


def test_a_mutator_of_statements_enters_no_expression() -> None:
    body, _ = sample()
    met: list[type] = []

    class Names(StmtMutator):
        def visit(self, op):
            met.append(type(op))
            return super().visit(op)

        def visit_IntImm(self, op):
            raise AssertionError("an expression was entered")

    assert Names().visit(body) is body and ir.For in met

    class Serial(ir.Mutator):
        def visit_For(self, op):
            return self.generic(op).with_(annotations={"seen": 1})

    class Both(Serial, StmtMutator):
        """Handlers of the one, expressions as the other leaves them."""

        def visit_IntImm(self, op):
            raise AssertionError("an expression was entered")

    assert Both().visit(body) is not body
