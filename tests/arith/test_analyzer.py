"""The Analyzer's surface: binding, scopes, proofs, options, and expressions of every kind."""

from __future__ import annotations

import pytest
from evaluate import show

from tirlower.arith import Analyzer, ConstIntBound, Extension, ModularSet, ProofStrength
from tirlower.diagnostics import Source, Span, TirError
from tirlower.ir import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    Let,
    Mul,
    Not,
    Ramp,
    Range,
    Select,
    Var,
    build,
    decl_buffer,
    post_order_visit,
    substitute,
)
from tirlower.ir.op import Op
from tirlower.ir.structural import structural_equal

i, j, k, n, m = (Var(name) for name in "ijknm")


def simplified(expr, *facts):
    analyzer = Analyzer()
    for fact in facts:
        analyzer.enter_constraint(fact)
    return analyzer.simplify(expr)


def is_true(expr):
    return isinstance(expr, IntImm) and expr.value == 1


# -- binding ---------------------------------------------------------------------------------------------------------
def test_a_variable_bound_to_an_expression_is_replaced():
    analyzer = Analyzer()
    analyzer.bind(i, j * 4)
    assert structural_equal(analyzer.simplify(i + 1), j * 4 + 1)
    assert analyzer.modular_set(i) == ModularSet(4, 0)


def test_a_range_of_one_value_is_that_value():
    analyzer = Analyzer()
    analyzer.bind(i, Range(5, 1))
    assert analyzer.simplify(i * 2).value == 10


def test_a_second_binding_needs_leave():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 8))
    analyzer.bind(i, Range(0, 8))  # the same again says nothing new
    with pytest.raises(TirError, match="bound already"):
        analyzer.bind(i, Range(0, 9))
    with pytest.raises(TirError, match="bound already"):
        analyzer.bind(j, 3) or analyzer.bind(j, 4)


def test_overriding_forgets_what_was_computed():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 8))
    assert analyzer.can_prove(i < 8)
    with analyzer.constraint_scope(n > 3):
        assert analyzer.can_prove(i < 8)
        analyzer.bind(i, Range(0, 16), allow_override=True)
        assert not analyzer.can_prove(i < 8)
    assert not analyzer.can_prove(i < 8)
    assert analyzer.const_int_bound(i) == ConstIntBound(0, 15)


def test_symbolic_ranges_are_facts():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, n))
    analyzer.bind(j, Range(i, 4))
    assert analyzer.can_prove(i < n)
    assert analyzer.can_prove(i + 1 <= n)
    assert analyzer.can_prove(j >= i)
    assert analyzer.can_prove(j < i + 4)
    assert not analyzer.can_prove(j < n)


# -- scopes ----------------------------------------------------------------------------------------------------------
def test_facts_hold_inside_their_scope_only():
    analyzer = Analyzer()
    with analyzer.constraint_scope(build.all_of(n >= 4, n < 10)):
        assert analyzer.const_int_bound(n) == ConstIntBound(4, 9)
        with analyzer.constraint_scope(n > 6):
            assert analyzer.const_int_bound(n) == ConstIntBound(7, 9)
            assert len(analyzer.constraints) == 3
        assert analyzer.const_int_bound(n) == ConstIntBound(4, 9)
    assert analyzer.const_int_bound(n) == ConstIntBound(-(2**31), 2**31 - 1)
    assert analyzer.constraints == ()


def test_a_scope_is_left_when_its_body_raises():
    analyzer = Analyzer()
    with pytest.raises(RuntimeError), analyzer.constraint_scope(n > 4):
        raise RuntimeError
    assert not analyzer.can_prove(n > 4)


@pytest.mark.parametrize(
    ("fact", "claim"),
    [
        (i < n, build.lt(i, n)),
        (i < n, i + 1 <= n),
        (i < n, build.ne(i, n)),
        (i < n, i * 4 + 3 < n * 4),
        (i * 4 + j < n, i * 4 + j + 1 <= n),
        (build.eq(i % 4, 0), build.eq((i * 2) % 8, 0)),
        (build.eq(i, 3), i < 4),
        (build.eq(i, n * 4), build.eq(i % 4, 0)),
        (build.ne(i, 0), build.ne(i, 0)),
        (Not(i < 3), i >= 3),
        (build.logical_or(i < 3, j < 3), build.logical_or(i < 3, j < 3)),
        (Not(build.logical_or(i < 3, j < 3)), j >= 3),
        (build.likely(i < 3), i < 5),
        (i * 4 < 20, i < 5),
        (i + j < 10, i + j < 12),
        (build.all_of(j >= 0, i * 4 + j < 16), i < 4),
    ],
)
def test_facts_prove(fact, claim):
    assert not Analyzer().can_prove(claim)
    analyzer = Analyzer()
    with analyzer.constraint_scope(fact):
        assert analyzer.can_prove(claim), (show(fact), show(claim))


def test_facts_that_read_memory_are_not_kept():
    a = decl_buffer((4,), "int32", "A")
    load = BufferLoad(a, (IntImm("int32", 0),))
    analyzer = Analyzer()
    with analyzer.constraint_scope(load < 5):
        assert not analyzer.can_prove(load < 5)
        assert analyzer.constraints == ()


def test_branches_know_their_condition():
    assert structural_equal(simplified(build.if_then_else(i < 4, build.min_(i, 4), 0)), build.if_then_else(i < 4, i, 0))
    inner = Select(i < 8, j, k)
    assert structural_equal(simplified(Select(i < 4, inner, n)), Select(i < 4, j, n))
    assert structural_equal(simplified(Select(i < 8, n, Select(i < 4, j, k))), Select(i < 8, n, k))


# -- proofs ----------------------------------------------------------------------------------------------------------
def test_transitive_proofs_are_asked_for():
    facts = build.all_of(i < j, j < k, k < n)
    analyzer = Analyzer()
    with analyzer.constraint_scope(facts):
        assert analyzer.can_prove(i < j)
        assert not analyzer.can_prove(i < n)
        assert analyzer.can_prove(i < n, ProofStrength.SYMBOLIC_BOUND)
        assert analyzer.can_prove(i + 2 < n, ProofStrength.SYMBOLIC_BOUND)
        assert not analyzer.can_prove(i + 3 < n, ProofStrength.SYMBOLIC_BOUND)
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.TRANSITIVELY_PROVE_INEQUALITIES
    with analyzer.constraint_scope(facts):
        assert is_true(analyzer.simplify(i < n))


def test_equality():
    analyzer = Analyzer()
    assert analyzer.can_prove_equal((i + j) * 4, i * 4 + j * 4)
    assert analyzer.can_prove_equal(i // 4 * 4 + i % 4, i)
    assert not analyzer.can_prove_equal(i, j)
    assert analyzer.can_prove_equal(3, IntImm("int32", 3))


def test_bounds_against_numbers():
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 8))
    assert analyzer.can_prove_greater_equal(i * 4 + 1, 1) and not analyzer.can_prove_greater_equal(i, 1)
    assert analyzer.can_prove_less(i * 4, 29) and not analyzer.can_prove_less(i * 4, 28)
    assert analyzer.can_prove_less(i * 4 - i * 4 + 1, 2)


def test_int32_at_its_limits():
    top, bottom = IntImm("int32", 2**31 - 1), IntImm("int32", -(2**31))
    analyzer = Analyzer()
    assert structural_equal(analyzer.simplify(i + top), i + top)
    assert structural_equal(analyzer.simplify(Add(i, bottom)), Add(i, bottom))
    # Constants that would leave int32 are not folded together.
    wide = Add(Add(i, top), top)
    assert structural_equal(analyzer.simplify(wide), wide)
    assert structural_equal(analyzer.simplify(Mul(Mul(i, top), top)), Mul(Mul(i, top), top))
    past = Add(top, IntImm("int32", 1))
    assert structural_equal(analyzer.simplify(past), past)


def test_unsigned_and_narrow_types_wrap():
    u, b = Var("u", "uint32"), Var("b", "int8")
    for var in (u, b):
        claim = build.lt(var, build.add(var, 1))
        assert not Analyzer().can_prove(claim)
        assert structural_equal(Analyzer().simplify(var + 1 - var), IntImm(var.dtype, 1))
    assert not Analyzer().can_prove(build.eq(build.floordiv(b * 4, 4), b))
    assert is_true(Analyzer().simplify(build.ge(u, 0)))
    assert Analyzer().const_int_bound(u + 1) == ConstIntBound(0, 2**32 - 1)


# -- extensions ------------------------------------------------------------------------------------------------------
def test_and_of_ors():
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.CONVERT_BOOLEAN_TO_AND_OF_ORS
    p, q, r = i < 1, j < 1, k < 1
    result = analyzer.simplify(build.logical_or(build.logical_and(p, q), r))
    assert structural_equal(result, build.logical_and(build.logical_or(p, r), build.logical_or(q, r)))
    # (p or q) and (p or not q) is p
    both = build.logical_and(build.logical_or(p, q), build.logical_or(p, j >= 1))
    assert structural_equal(analyzer.simplify(both), p)


def test_constraints_apply_to_boolean_branches():
    expr = build.logical_and(i < 4, build.logical_or(i < 8, j < 3))
    assert structural_equal(Analyzer().simplify(expr), expr)
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES
    assert structural_equal(analyzer.simplify(expr), i < 4)
    either = build.logical_or(i < 4, build.logical_and(i >= 2, j < 3))
    assert structural_equal(analyzer.simplify(either), build.logical_or(i < 4, j < 3))


def test_products_against_sums():
    m, n = Var("m", "int64"), Var("n", "int64")
    facts = build.all_of(m >= 64, n >= 64)
    claim = build.lt((m + n) * 16, m * n)
    plain = Analyzer()
    with plain.constraint_scope(facts):
        assert not plain.can_prove(claim)
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.COMPARISON_OF_PRODUCT_AND_SUM
    with analyzer.constraint_scope(facts):
        assert analyzer.can_prove(claim)
        assert not analyzer.can_prove(build.lt((m + n) * 40, m * n))


# -- expressions of other kinds --------------------------------------------------------------------------------------
def test_calls_with_effects_are_kept():
    effect = Call(Op.get("tir.call_extern"), ("f",), "int32")
    analyzer = Analyzer()
    zero = IntImm("int32", 0)
    for expr in (effect - effect, Mul(effect, zero), Add(Mul(effect, zero), i), build.min_(effect, effect + 1)):
        calls = []
        post_order_visit(analyzer.simplify(expr), lambda op, seen=calls: seen.append(op) if op is effect else None)
        assert calls, show(expr)


def test_effects_in_a_condition():
    effect = Call(Op.get("tir.call_extern"), ("f",), "int32")
    choice = build.if_then_else(effect < 3, i * 4 // 2, i)
    expr = build.max_(choice, (i * 4 + j) // 2 + (i * 4 + j) % 2)
    seen = []
    post_order_visit(Analyzer().simplify(expr), lambda op: seen.append(op) if op is effect else None)
    assert seen


def test_loads_and_their_indices():
    a = decl_buffer((16,), "float32", "A")
    load = BufferLoad(a, (i * 4 + j - i * 4,))
    assert structural_equal(simplified(load), BufferLoad(a, (j,)))
    load = BufferLoad(a, (i,))
    assert simplified(load) is load


def test_let_of_a_simple_value_is_put_in():
    x = Var("x")
    assert structural_equal(simplified(Let(x, n, x + 1)), n + 1)
    let = Let(x, i % 4, build.min_(x, 8) + x)
    assert structural_equal(simplified(let), Let(x, i % 4, x * 2))


def test_casts():
    wide = Var("w", "int64")
    assert simplified(Cast("int32", i)) is not None
    assert structural_equal(simplified(Cast("int32", Cast("int64", i))), i)
    assert structural_equal(simplified(Cast("int64", i * 4 + j)), build.cast("int64", i) * 4 + build.cast("int64", j))
    # A narrowing of a sum that may not fit stays whole.
    narrow = Cast("int32", wide * 4)
    assert simplified(narrow) is narrow
    assert simplified(Cast("int8", IntImm("int32", 300))).value == 44


def test_floats():
    x, y = Var("x", "float32"), Var("y", "float32")
    for expr in (x + 0.0, x - x, x * 0.0, (x + 1.0) + 2.0, build.logical_not(x < y)):
        assert structural_equal(simplified(expr), expr), show(expr)
    assert simplified(x * 1.0) is x
    assert structural_equal(simplified(x > y), y < x)
    assert simplified(build.add(FloatImm("float32", 1.5), FloatImm("float32", 2.0))).value == 3.5


def test_vectors():
    ramp = Ramp(i * 4, IntImm("int32", 1), 4)
    assert structural_equal(simplified(ramp // Broadcast(IntImm("int32", 4), 4)), Broadcast(i, 4))
    assert structural_equal(simplified(ramp + j), Ramp(i * 4 + j, IntImm("int32", 1), 4))
    inside = ramp < Broadcast(IntImm("int32", 64), 4)
    analyzer = Analyzer()
    analyzer.bind(i, Range(0, 16))
    assert structural_equal(analyzer.simplify(inside), Broadcast(IntImm("bool", 1), 4))


def test_a_replacement_inherits_the_span():
    span = Span(Source("i * 4 // 4 + 1"), 1, 0, 1, 10)
    expr = Add(build.floordiv(i * 8, 4), IntImm("int32", 1), span=span)
    assert simplified(expr).span is span


# -- size ------------------------------------------------------------------------------------------------------------
def _chain(length, step):
    expr = Var("v0")
    for count in range(1, length):
        expr = step(expr, Var(f"v{count}"))
    return expr


def _at_three(expr):
    """The value where every variable is 3."""
    values = {}
    post_order_visit(expr, lambda op: values.setdefault(op, IntImm("int32", 3)) if isinstance(op, Var) else None)
    found = Analyzer().simplify(substitute(expr, values))
    assert isinstance(found, IntImm)
    return found.value


@pytest.mark.parametrize(
    "step",
    [
        lambda e, v: Add(e, v),
        lambda e, v: Add(v, e),
        lambda e, v: Add(e, Mul(v, IntImm("int32", 3))),
        lambda e, v: build.max_(e, v),
        lambda e, v: build.min_(v + 1, e),
        lambda e, v: Select(v < 3, v, e),
        lambda e, v: build.if_then_else(v < 3, e, v),
        lambda e, v: build.floordiv(e, 2) + v,
        lambda e, v: Cast("int32", Cast("int8", e)) + v,
        lambda e, v: build.bitwise_and(e, v),
    ],
)
@pytest.mark.by_day
def test_chains_of_2000(step):
    """Twice as long as Python's recursion goes."""
    expr = _chain(2000, step)
    analyzer = Analyzer()
    expected = _at_three(expr)
    for method in (analyzer.simplify, analyzer.rewrite_simplify, analyzer.canonical_simplify):
        assert _at_three(method(expr)) == expected
    bound, modulus = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    assert bound.min_value <= expected <= bound.max_value
    assert (expected - modulus.base) % (modulus.coeff or 1) == 0
    analyzer.int_set(expr)


def test_conditions_of_5000():
    condition = i < 1
    for count in range(5000):
        condition = build.logical_and(condition, Var(f"v{count}") < 3)
    analyzer = Analyzer()
    analyzer.simplify(condition)
    with analyzer.constraint_scope(condition):
        assert analyzer.can_prove(i < 2)


def test_shared_operands_are_walked_once():
    expr = i
    for _ in range(25):
        expr = expr + expr
    result = Analyzer().simplify(expr)
    assert structural_equal(result, i * 2**25)
    for _ in range(60):
        expr = build.max_(expr, expr + 1) + build.min_(expr, j)
    Analyzer().const_int_bound(expr)


def test_repeated_simplification_is_free_of_new_nodes():
    analyzer = Analyzer()
    expr = analyzer.simplify((i * 8 + j) * 4 + k - 1)
    assert analyzer.simplify(expr) is expr
    assert Analyzer().simplify(expr) is expr
    assert analyzer.canonical_simplify(expr) is expr


def test_vscale_is_each_of_its_values():
    x, lanes = Var("x"), build.call("tir.vscale") * 4
    analyzer = Analyzer()
    assert analyzer.can_prove(build.ceildiv(x, lanes) * lanes >= x)
    assert analyzer.can_prove(build.ceildiv(x, lanes) * lanes < x + lanes)
    assert analyzer.can_prove(build.exact_ceildiv(x, lanes) * lanes >= x)
    assert not analyzer.can_prove(build.exact_ceildiv(x, lanes) * lanes > x)
    assert analyzer.const_int_bound(Ramp(3, 2, lanes)) == ConstIntBound(3, 3 + 2 * 63)
    assert analyzer.can_prove(build.eq((x * lanes) // lanes, x))
    assert show(analyzer.simplify((x * lanes + build.call("tir.vscale")) % lanes)) == show(build.call("tir.vscale"))
    assert analyzer.can_prove(lanes <= 64) and not analyzer.can_prove(lanes < 64)
    assert not analyzer.can_prove(build.ceildiv(x, lanes) * lanes > x)
    assert not analyzer.can_prove(build.eq(lanes % 8, 0))


@pytest.mark.parametrize(
    "expr",
    [
        lambda v: v * 4,
        lambda v: 64 // v,
        lambda v: 64 // (v * 4),
        lambda v: (v + 15) // 16,
        lambda v: v // 17,
        lambda v: (v * 8 + 3) // 4,
        lambda v: (v * 8) // v,
        lambda v: (v * 8) % (v * 4),
    ],
)
def test_bounds_of_quotients_of_vscale_are_the_extremes_of_its_values(expr):
    analyzer = Analyzer()
    values = [expr(v) for v in range(1, 17)]
    found = analyzer.const_int_bound(analyzer.simplify(expr(build.call("tir.vscale"))))
    assert (found.min_value, found.max_value) == (min(values), max(values))


@pytest.mark.parametrize(
    "claim",
    [
        lambda v: v >= 1,
        lambda v: v > 1,
        lambda v: v <= 16,
        lambda v: v < 16,
        lambda v: v * 4 % 4 <= 0,
        lambda v: v * v <= 256,
        lambda v: v * v < 256,
        lambda v: 64 // v >= 4,
        lambda v: 64 // v > 4,
        lambda v: 64 // v * v <= 64,
        lambda v: v * 8 <= v * 16,
        lambda v: (67 + v * 4 - 1) // (v * 4) * (v * 4) >= 67,
        lambda v: (67 + v * 4 - 1) // (v * 4) * (v * 4) < 68,
    ],
)
def test_what_holds_of_each_vscale_is_proved_and_nothing_else(claim):
    assert Analyzer().can_prove(claim(build.call("tir.vscale"))) is all(claim(v) for v in range(1, 17))


def test_what_is_equal_to_something_else_differs_from_what_that_differs_from():
    i, j, k = (Var(name) for name in "ijk")
    analyzer = Analyzer()
    with analyzer.constraint_scope(build.logical_and(build.eq(i, j), build.ne(j, k))):
        assert analyzer.can_prove(build.ne(i, k)) and analyzer.can_prove(build.ne(k, i))
        assert analyzer.can_prove(build.ne(i + 3, k + 3)) and not analyzer.can_prove(build.ne(i + 1, k))
    assert not analyzer.can_prove(build.ne(i, k))
    # In whatever order the two are said and written.
    for facts in ((build.eq(j, i), build.ne(k, j)), (build.ne(j, k), build.eq(i, j)), (build.ne(k, j), build.eq(j, i))):
        with analyzer.constraint_scope(build.all_of(*facts)):
            assert is_true(analyzer.simplify(build.ne(i, k)))
            assert analyzer.simplify(build.eq(k, i)).value == 0
    with analyzer.constraint_scope(build.ne(i - j, 4)):
        assert analyzer.can_prove(build.ne(i, j + 4)) and analyzer.can_prove(build.ne(j, i - 4))
        assert not analyzer.can_prove(build.ne(i, j - 4))


def test_products_are_compared_with_sums_from_both_sides():
    a, b = Var("a"), Var("b")
    analyzer = Analyzer()
    analyzer.enabled_extensions = Extension.COMPARISON_OF_PRODUCT_AND_SUM
    analyzer.bind(a, Range(1, 4095))
    analyzer.bind(b, Range(1, 4095))
    for claim in (
        a * b < (a + b) * 2048,
        (b + a) * 2048 > b * a,
        a * b <= a * 2048 + b * 2048,
        a * b - (a + b) * 2048 < 0,
        a * b * 2 < (a + b) * 4096,
    ):
        assert analyzer.can_prove(claim), show(claim)
    assert not analyzer.can_prove(a * b < (a + b) * 2047)


def test_facts_are_of_variables():
    analyzer = Analyzer()
    with pytest.raises(TirError, match="facts are stated of variables, got 3"):
        analyzer.bind(3, Range(0, 4))
    with pytest.raises(TirError, match="facts are stated of variables"):
        analyzer.update(i + 1, ConstIntBound(0, 3))
    with pytest.raises(TirError, match="ConstIntBound, a ModularSet or an IntervalSet, got 3"):
        analyzer.update(i, 3)
    with pytest.raises(TirError, match="ranges over a Range or an IntervalSet"):
        analyzer.int_set(i + 1, {i: (0, 3)})
