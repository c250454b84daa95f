"""Edge cases of every public function: negative strides, empty domains, symbolic divisors, int32 at its limits.

What is proved is checked against enumeration or against Python's integers; what is not true must not be proved.
"""

from __future__ import annotations

import itertools

import pytest
from evaluate import NoValue, evaluate, show

from tirlower.arith import (
    Analyzer,
    ConstIntBound,
    IntervalSet,
    ModularSet,
    ProofStrength,
    detect_clip_bound,
    detect_iter_map,
    detect_linear_equation,
    domain_touched,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect_sets,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    solve_linear_equations,
    solve_linear_inequalities,
    subspace_divide,
    union_sets,
)
from tirlower.diagnostics import TirError
from tirlower.ir import (
    EQ,
    Add,
    BufferStore,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    For,
    IntImm,
    Mod,
    Mul,
    Range,
    Sub,
    Var,
    build,
    decl_buffer,
)

INT_MAX, INT_MIN = 2**31 - 1, -(2**31)
i, j, k = (Var(name) for name in "ijk")
n, m = Var("n", nonneg=True), Var("m", nonneg=True)
s = Var("s")
c = lambda value, dtype="int32": IntImm(dtype, value)


def knowing(ranges, *facts):
    analyzer = Analyzer()
    for var, (low, extent) in ranges.items():
        analyzer.bind(var, Range(low, extent))
    for fact in facts:
        analyzer.enter_constraint(fact)
    return analyzer


def ends(found):
    return tuple(None if e is None else getattr(e, "value", e) for e in (found.min_value, found.max_value))


# -- can_prove, simplify and the bounds ------------------------------------------------------------------------------
BOX = {i: (0, 8), j: (-3, 7)}
CLAIMS = [
    # negative strides
    (7 - i >= 0, {}),
    (i * -2 + 14 >= 0, {}),
    (i * -2 + 14 < 15, {}),
    (build.floordiv(i, -3) >= -3, {}),
    (build.floormod(i, -3) <= 0, {}),
    (build.floormod(i, -3) > -3, {}),
    (build.truncmod(j, -3) < 3, {}),
    (build.truncdiv(j, -2) >= -1, {}),
    (build.floordiv(j, 2) <= 1, {}),
    (build.floormod(j, 4) >= 0, {}),
    (63 - (i * 8 + 7) >= 0, {}),
    (build.eq(build.floormod(0 - i * 4, 4), 0), {}),
    (build.ne(i * -2, 3), {}),
    (build.floordiv(7 - i, 8) <= 0, {}),
    (build.eq(build.floordiv(7 - i, 8), 0), {}),
    # min and max of them
    (build.min_(i, -1) < 0, {}),
    (build.max_(0 - i, j) >= -3, {}),
]


@pytest.mark.parametrize("claim", [claim for claim, _ in CLAIMS], ids=[show(claim) for claim, _ in CLAIMS])
def test_claims_of_negative_strides_are_proved(claim):
    for x, y in itertools.product(range(8), range(-3, 4)):
        assert evaluate(claim, {i: x, j: y}) is True
    assert knowing(BOX).can_prove(claim)


@pytest.mark.parametrize(
    "claim",
    [
        7 - i > 0,
        i * -2 + 14 > 0,
        build.floordiv(i, -3) > -3,
        build.floormod(i, -3) < 0,
        build.truncmod(j, 3) >= 0,
        build.eq(build.truncdiv(j, 2), build.floordiv(j, 2)),
        build.eq(build.floormod(0 - i, 4), 0),
        build.ne(i * -2, -4),
    ],
    ids=show,
)
def test_what_is_false_of_some_value_is_not_proved(claim):
    assert any(not evaluate(claim, {i: x, j: y}) for x, y in itertools.product(range(8), range(-3, 4)))
    assert not knowing(BOX).can_prove(claim)
    assert not knowing(BOX).can_prove(claim, ProofStrength.SYMBOLIC_BOUND)


SYMBOLIC = [
    # claim, ranges, facts
    (build.floordiv(i * n + j, n) < 4, {i: (0, 4), j: (0, n)}, ()),
    (build.floormod(i * n + j, n) < n, {i: (0, 4), j: (0, n)}, ()),
    (build.floormod(s, n) < n, {}, (n > 0,)),
    (build.floormod(s, n) >= 0, {}, (n > 0,)),
    (build.floordiv(s, n) * n <= s, {}, (n > 0,)),
    (s < build.floordiv(s, n) * n + n, {}, (n > 0,)),
    (build.eq(build.floordiv(n * m, n), m), {}, (n > 0,)),
    (build.eq(build.floormod(n * m, n), 0), {}, (n > 0,)),
    (i * 4 + j < n, {i: (0, build.floordiv(n, 4)), j: (0, 4)}, ()),
    (i * 4 < n, {i: (0, build.floordiv(n + 3, 4))}, ()),
    (i < build.floordiv(n + 3, 4), {i: (0, 64)}, (i * 4 < n,)),
    (build.floordiv(n + 3, 4) * 4 >= n, {}, ()),
    (i * n + j < n * m, {i: (0, m), j: (0, n)}, ()),
    (i * -1 + n > 0, {i: (0, n)}, ()),
    (build.truncdiv(i * n + j, n) < 4, {i: (0, 4), j: (0, n)}, ()),
]


@pytest.mark.parametrize(("claim", "ranges", "facts"), SYMBOLIC, ids=[show(claim) for claim, _, _ in SYMBOLIC])
def test_symbolic_divisors(claim, ranges, facts):
    looked = 0
    for size, other, value in itertools.product(range(8), range(4), range(-9, 10)):
        env = {n: size, m: other, s: value}
        domains = []
        for low, extent in ranges.values():
            count = evaluate(build.as_expr(extent), env)
            domains.append(range(low, low + count))
        for point in itertools.product(*domains):
            here = {**env, **dict(zip(ranges, point, strict=True))}
            if all(evaluate(fact, here) for fact in facts):
                result = evaluate(claim, here)
                looked += not isinstance(result, NoValue)
                assert result is True or isinstance(result, NoValue), here
    assert looked
    assert knowing(ranges, *facts).can_prove(claim)


@pytest.mark.parametrize(
    ("claim", "ranges", "facts"),
    [
        (build.floormod(s, n) >= 1, {}, (n > 0,)),
        (build.floordiv(s, n) * n < s, {}, (n > 0,)),
        (i * 4 + j < n, {i: (0, build.floordiv(n + 3, 4)), j: (0, 4)}, ()),
        (i * n + j < n * m, {i: (0, m + 1), j: (0, n)}, ()),
        (build.floordiv(i * n + j, n) < 4, {i: (0, 4), j: (0, n + 1)}, ()),
        (build.eq(build.floordiv(s * m, n), m), {}, (n > 0,)),
    ],
)
def test_symbolic_claims_that_fail_are_not_proved(claim, ranges, facts):
    assert not knowing(ranges, *facts).can_prove(claim, ProofStrength.SYMBOLIC_BOUND)


def test_an_empty_range_proves_nothing_wrong():
    """Of a variable without values anything may be said, but of the others nothing false."""
    analyzer = knowing({i: (0, 0), j: (0, 4)})
    assert not analyzer.can_prove(j < 3)
    assert not analyzer.can_prove(build.eq(j, 0))
    assert show(analyzer.simplify(j + 1)) == "(j + 1)"
    analyzer = knowing({i: (0, n)})
    # n may be 0, as long as i is not asked about.
    assert not analyzer.can_prove(n > 0) or evaluate(build.gt(n, 0), {n: 1})
    assert not Analyzer().can_prove(n > 0)


LIMITS = [
    (c(INT_MAX), ConstIntBound(INT_MAX, INT_MAX)),
    (c(INT_MIN), ConstIntBound(INT_MIN, INT_MIN)),
    (Add(i, c(INT_MAX - 7)), ConstIntBound(INT_MAX - 7, INT_MAX)),
    (Sub(c(INT_MIN + 7), i), ConstIntBound(INT_MIN, INT_MIN + 7)),
    (FloorDiv(c(INT_MIN), c(2)), ConstIntBound(-(2**30), -(2**30))),
    (FloorMod(c(INT_MIN), c(7)), ConstIntBound(INT_MIN % 7, INT_MIN % 7)),
    (Div(c(INT_MIN), c(7)), ConstIntBound(-(2**31 // 7), -(2**31 // 7))),
    (Mod(c(INT_MIN), c(7)), ConstIntBound(-(2**31 % 7), -(2**31 % 7))),
    (build.min_(i, c(INT_MIN)), ConstIntBound(INT_MIN, INT_MIN)),
    (build.max_(i, c(INT_MAX)), ConstIntBound(INT_MAX, INT_MAX)),
]


@pytest.mark.parametrize(("expr", "bound"), LIMITS, ids=[show(e) for e, _ in LIMITS])
def test_bounds_at_the_limits(expr, bound):
    analyzer = knowing({i: (0, 8)})
    result = analyzer.simplify(expr)
    assert analyzer.const_int_bound(result) == bound
    wide = analyzer.const_int_bound(expr)
    assert wide.min_value <= bound.min_value and bound.max_value <= wide.max_value
    for value in range(8):
        assert evaluate(result, {i: value}) == evaluate(expr, {i: value})
    assert all(INT_MIN <= leaf.value <= INT_MAX for leaf in _constants(result))


def _constants(expr):
    if isinstance(expr, IntImm):
        return [expr]
    return [leaf for child in expr.children() for leaf in _constants(child)]


NEVER_LEAVING = [
    Add(Add(s, c(INT_MAX)), c(INT_MAX)),
    Sub(Sub(s, c(INT_MAX)), c(INT_MAX)),
    Mul(Mul(s, c(65536)), c(65536)),
    FloorDiv(FloorDiv(s, c(65536)), c(65536)),
    FloorMod(Add(s, c(INT_MAX)), c(INT_MAX)),
    Sub(c(0), Add(s, c(INT_MIN))),
    FloorDiv(s, c(INT_MIN)),
    FloorMod(s, c(INT_MIN)),
    Div(s, c(INT_MIN)),
    build.lt(Add(s, c(INT_MAX)), c(INT_MIN + 3)),
    build.le(Mul(s, c(-1)), c(INT_MIN)),
    build.eq(Sub(s, c(INT_MIN)), c(INT_MAX)),
]


@pytest.mark.parametrize("expr", NEVER_LEAVING, ids=show)
@pytest.mark.parametrize("method", ["simplify", "rewrite_simplify", "canonical_simplify"])
def test_no_constant_leaves_its_type(expr, method):
    result = getattr(Analyzer(), method)(expr)
    assert all(INT_MIN <= leaf.value <= INT_MAX for leaf in _constants(result) if not leaf.dtype.is_bool)
    for value in (0, 1, -1, 5, 65535, -65536, INT_MAX, INT_MIN):
        # Exact arithmetic: both sides are the same integer, whether or not a machine could hold what is between.
        assert evaluate(result, {s: value}) == evaluate(expr, {s: value})


def test_comparisons_at_the_limits():
    analyzer = Analyzer()
    assert analyzer.can_prove(s <= INT_MAX) and analyzer.can_prove(s >= INT_MIN)
    assert not analyzer.can_prove(s < INT_MAX) and not analyzer.can_prove(s > INT_MIN)
    wide = Var("w", "int64")
    assert not analyzer.can_prove(wide <= c(INT_MAX, "int64"))
    assert analyzer.can_prove(Cast("int64", s) <= c(INT_MAX, "int64"))
    small = Var("b", "int8")
    # An int8 sum wraps: b + 1 > b is false of 127.
    assert not analyzer.can_prove(build.gt(Add(small, c(1, "int8")), small))
    u = Var("u", "uint32")
    assert not analyzer.can_prove(build.gt(Add(u, c(1, "uint32")), u))
    assert analyzer.can_prove(build.ge(u, c(0, "uint32")))


def test_can_prove_equal_and_less():
    analyzer = knowing({i: (0, 8)})
    assert analyzer.can_prove_equal(7 - (7 - i), i)
    assert analyzer.can_prove_equal(build.floormod(i * -4, 4), 0)
    assert not analyzer.can_prove_equal(build.floordiv(i, 2), build.floordiv(i + 1, 2))
    assert analyzer.can_prove_less(7 - i, 8) and not analyzer.can_prove_less(7 - i, 7)
    assert analyzer.can_prove_greater_equal(7 - i, 0) and not analyzer.can_prove_greater_equal(7 - i, 1)
    assert analyzer.can_prove_less(s, 2**31) and not analyzer.can_prove_less(s, INT_MAX)


def test_modular_sets():
    analyzer = knowing({i: (0, 8)})
    assert analyzer.modular_set(i * -4 + 3) == ModularSet(4, 3)
    assert analyzer.modular_set(c(INT_MIN)) == ModularSet(0, INT_MIN)
    assert analyzer.modular_set(build.floordiv(i * 8, -4)) == ModularSet(2, 0)
    assert analyzer.modular_set(i * n) == ModularSet(1, 0)
    assert analyzer.modular_set(build.floormod(i * 6, 4)) == ModularSet(2, 0)


def test_scopes_of_contradictions_end():
    analyzer = knowing({i: (0, 8)})
    with analyzer.constraint_scope(i < 0):
        analyzer.simplify(i + 1)
    assert analyzer.const_int_bound(i) == ConstIntBound(0, 7)
    with (
        analyzer.constraint_scope(build.eq(build.floormod(s, 4), 0)),
        analyzer.constraint_scope(build.eq(build.floormod(s, 4), 1)),
    ):
        analyzer.simplify(build.floormod(s, 2))
    assert analyzer.modular_set(s) == ModularSet(1, 0)


# -- interval sets and regions ---------------------------------------------------------------------------------------
def test_interval_sets():
    assert ends(eval_set(i * -4 + 3, {i: Range(0, 8)})) == (-25, 3)
    assert ends(eval_set(build.floordiv(i, -3), {i: Range(0, 8)})) == (-3, 0)
    low, high = ends(eval_set(i, {i: Range(0, 0)}))
    assert high < low
    assert ends(knowing({i: (0, 8)}).int_set(INT_MAX - i)) == (INT_MAX - 7, INT_MAX)
    symbolic = eval_set(build.floordiv(i, n), {i: Range(0, n * 4)}, knowing({}, n > 0))
    assert ends(symbolic) == (0, 3)
    analyzer = Analyzer()
    assert intersect_sets(analyzer, [IntervalSet(0, 3), IntervalSet(4, 7)]).is_nothing()
    assert ends(union_sets(analyzer, [IntervalSet(0, 3), IntervalSet.nothing()])) == (0, 3)
    assert ends(union_sets(analyzer, [IntervalSet(INT_MIN, 0), IntervalSet(0, INT_MAX)])) == (INT_MIN, INT_MAX)


@pytest.mark.parametrize(
    "bound", [estimate_region_strict_bound, estimate_region_lower_bound, estimate_region_upper_bound]
)
def test_regions(bound):
    # a falling index: only its box is known where one is certain
    found = bound([Range(7 - i, 1)], {i: Range(0, 8)})
    if bound is estimate_region_upper_bound:
        assert ends(found[0]) == (0, 7)
    else:
        assert found is None or ends(found[0]) == (0, 7)
    found = bound([Range(i * 4, 4)], {i: Range(0, 8)})
    assert ends(found[0]) == (0, 31)
    symbolic = bound([Range(i * n + j, 1)], {i: Range(0, 4), j: Range(0, n)})
    assert show(Analyzer().simplify(symbolic[0].max_value)) == "((n * 4) - 1)"
    limit = bound([Range(i + (INT_MAX - 7), 1)], {i: Range(0, 8)})
    assert ends(limit[0]) == (INT_MAX - 7, INT_MAX)


def test_an_empty_region():
    found = estimate_region_upper_bound([Range(i, 1)], {i: Range(0, 0)})
    low, high = ends(found[0])
    assert found[0].is_nothing() or high < low


def test_touched_domains():
    A = decl_buffer((64,))
    store = BufferStore(A, 1.0, (63 - i * 2,))
    (touched,) = domain_touched(For(i, 0, 8, "serial", None, {}, store), A)
    assert (touched.min.value, touched.extent.value) == (49, 15)
    (touched,) = domain_touched(For(i, 0, n, "serial", None, {}, BufferStore(A, 1.0, (build.floordiv(i, 4),))), A)
    assert show(Analyzer().simplify(touched.min)) == "0"
    for size in range(1, 30):
        assert evaluate(touched.extent, {n: size}) >= (size - 1) // 4 + 1


# -- linear forms ----------------------------------------------------------------------------------------------------
def test_linear_equations():
    assert [show(e) for e in detect_linear_equation(7 - i * 3, [i])] == ["-3", "7"]
    assert [show(e) for e in detect_linear_equation(i * n - j, [i, j])] == ["n", "-1", "0"]
    assert detect_linear_equation(build.floordiv(i, n), [i]) == []
    assert [show(e) for e in detect_linear_equation(i - i, [i])] == ["0", "0"]
    assert [show(e) for e in detect_linear_equation(i + INT_MAX, [i])] == ["1", str(INT_MAX)]


def test_clip_bounds():
    assert [None if e is None else show(e) for e in detect_clip_bound(7 - i * 2 > 0, [i])] == [None, "3"]
    assert [None if e is None else show(e) for e in detect_clip_bound(i * -2 <= -5, [i])] == ["3", None]
    assert detect_clip_bound(i * n < 8, [i]) == []
    low, high = detect_clip_bound(build.logical_and(i > 5, i < 5), [i])
    assert low.value > high.value  # nothing is left
    assert [show(e) for e in detect_clip_bound(build.logical_and(i >= INT_MIN, i <= INT_MAX), [i])] == [
        str(INT_MIN),
        str(INT_MAX),
    ]


def test_solving():
    found = solve_linear_equations([EQ(Sub(c(0), i), c(INT_MAX))], [i])
    assert evaluate(found.src_to_dst[i], {}) == -INT_MAX
    bounds = solve_linear_inequalities([build.le(i * -3, -7), build.lt(i, 3)], [i], {}).bounds[i]
    lows = [e.value for e in bounds.lower]
    highs = [e.value for e in bounds.upper]
    possible = [
        v
        for v in range(-9, 9)
        if all(low <= bounds.coef * v for low in lows) and all(bounds.coef * v <= h for h in highs)
    ]
    assert [v for v in possible if v * -3 <= -7 and v < 3] == [v for v in range(-9, 9) if v * -3 <= -7 and v < 3] == []
    symbolic = solve_linear_inequalities([build.lt(i, n), i >= 0], [i])
    assert show(symbolic.bounds[i].upper[0]) == "(n - 1)"


# -- iteration maps --------------------------------------------------------------------------------------------------
def test_maps_of_empty_and_single_loops():
    for extent in (0, 1):
        found = detect_iter_map([i * 4 + j], {i: Range(0, extent), j: Range(0, 4)})
        for total in found.indices:
            expr = normalize_iter_map_to_expr(total)
            for value in range(4 if extent else 0):
                assert evaluate(expr, {i: 0, j: value}) == value
    assert detect_iter_map([], {}).indices == []


def test_maps_with_symbolic_divisors():
    ranges = {i: Range(0, n * 4)}
    found = detect_iter_map([build.floordiv(i, n), build.floormod(i, n)], ranges, analyzer=knowing({}, n > 0))
    assert len(found.indices) == 2, found.errors
    for size in (1, 3, 5):
        for value in range(size * 4):
            env = {i: value, n: size}
            got = [evaluate(normalize_iter_map_to_expr(t), env) for t in found.indices]
            assert got == [value // size, value % size]
    # Where n may not divide the extent, the quotient has a ragged end: padded, and no bijection.
    digits = [build.floordiv(i, n), build.floormod(i, n)]
    assert detect_iter_map(digits, {i: Range(0, m)}, check_level="bijective").indices == []
    padded = detect_iter_map(digits, {i: Range(0, m)})
    for size, extent in ((1, 5), (3, 7), (3, 9), (5, 4)):
        for value in range(extent):
            env = {i: value, n: size, m: extent}
            got = [evaluate(normalize_iter_map_to_expr(t), env) for t in padded.indices]
            assert got == [value // size, value % size] and not evaluate(padded.padding_predicate, env)


def test_falling_maps_are_refused_but_kept_as_expressions():
    assert detect_iter_map([7 - i], {i: Range(0, 8)}).indices == []
    (kept,) = iter_map_simplify([7 - i + 0], {i: Range(0, 8)})
    assert [evaluate(kept, {i: v}) for v in range(8)] == [7 - v for v in range(8)]
    total = normalize_to_iter_sum(7 - i, {i: Range(0, 8)})
    assert [evaluate(normalize_iter_map_to_expr(total), {i: v}) for v in range(8)] == [7 - v for v in range(8)]
    assert subspace_divide([7 - i], {i: Range(0, 8)}, []) == []


def test_maps_at_the_limits():
    start = INT_MAX - 7
    found = detect_iter_map([i], {i: Range(start, 8)})
    (total,) = found.indices
    assert evaluate(normalize_iter_map_to_expr(total), {i: INT_MAX}) == INT_MAX
    (back,) = inverse_affine_iter_map([total], [j]).values()
    assert evaluate(back, {j: INT_MAX}) == INT_MAX
    with pytest.raises(TirError, match="outputs"):
        inverse_affine_iter_map([total], [])
    ((_, inner), _) = subspace_divide([i], {i: Range(start, 8)}, [i])
    assert evaluate(normalize_iter_map_to_expr(inner.source), {i: INT_MAX}) == INT_MAX


def test_subspaces_with_symbols_and_empty_loops():
    ((outer, inner), _) = subspace_divide([i * n + j], {i: Range(0, 4), j: Range(0, n)}, [j])
    assert show(inner.extent) == "n" and outer.extent.value == 4
    for result in (
        subspace_divide([i * 4 + j], {i: Range(0, 0), j: Range(0, 4)}, [j]),
        subspace_divide([i], {i: Range(0, 0)}, [i]),
    ):
        assert result == [] or len(result) == 2
    assert subspace_divide([build.floordiv(i, n)], {i: Range(0, m)}, []) == []
