"""Interval sets over loop domains, linear equations, clip bounds and regions, against enumeration."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import NoValue, evaluate, show

from tests.generate.nodes import Nodes
from tirlower import ir
from tirlower.arith import (
    Analyzer,
    IntervalSet,
    IntSet,
    detect_clip_bound,
    detect_linear_equation,
    domain_touched,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    intersect_sets,
    union_lower_bound,
    union_sets,
)
from tirlower.arith.bounds import is_index_type
from tirlower.ir import (
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    IntImm,
    Let,
    Ramp,
    Range,
    Select,
    Var,
    build,
    const,
    decl_buffer,
    seq,
)
from tirlower.ir.expr import vscale
from tirlower.ir.structural import structural_equal

i, j, k, n = (Var(name) for name in "ijkn")
size = Var("size", nonneg=True)


def ends(found):
    return tuple(None if e is None else e for e in (found.min_value, found.max_value))


SETS = [
    (i * 4 + j, {i: Range(0, n), j: Range(0, 4)}, (0, n * 4 - 1)),
    (i * 4 + n, {i: Range(0, 8)}, (n, n + 28)),
    (n - i, {i: Range(0, n)}, (1, n)),
    (i % 8, {i: Range(8, 4)}, (0, 3)),
    (i % 8, {i: Range(5, 8)}, (0, 7)),
    (i // 8, {i: Range(0, n)}, (0, (n - 1) // 8)),
    (i * size, {i: Range(0, 8)}, (0, size * 7)),
    (i * n, {i: IntervalSet(0, None)}, (None, None)),
    (i * n, {i: IntervalSet(None, 7)}, (None, None)),
    (build.min_(i, n), {i: Range(0, 16)}, (build.min_(0, n), build.min_(15, n))),
    (build.max_(i, n), {i: IntervalSet(0, None)}, (build.max_(0, n), None)),
    (i + j, {i: Range(0, 8), j: Range(0, i)}, (0, 13)),
    (i // -3, {i: Range(0, 8)}, (-3, 0)),
    (Ramp(i * 4, IntImm("int32", 1), 4), {i: Range(0, 8)}, (0, 31)),
    (Ramp(i, IntImm("int32", -1), 4), {i: Range(4, 4)}, (1, 7)),
    (Ramp(i, IntImm("int32", 2), vscale(4)), {i: Range(0, 4)}, (0, vscale(8) + 1)),
    (Ramp(i, IntImm("int32", -1), vscale(4)), {i: Range(0, 4)}, (1 - vscale(4), 3)),
    (n + 1, {i: Range(0, 8)}, (n + 1, n + 1)),
    (i, {i: IntervalSet.everything()}, (None, None)),
]


@pytest.mark.parametrize(("expr", "domains", "expected"), SETS, ids=lambda v: show(v) if hasattr(v, "dtype") else "")
def test_symbolic_sets(expr, domains, expected):
    found = eval_set(expr, domains)
    for end, wanted in zip(ends(found), expected, strict=True):
        if wanted is None:
            assert end is None
        else:
            assert structural_equal(end, build.as_expr(wanted)), (show(end), wanted)


def test_an_empty_domain_gives_nothing():
    assert eval_set(i + 1, {i: IntervalSet.nothing()}).is_nothing()


def test_random_expressions_stay_in_their_set():
    for seed in range(300):
        rng = random.Random(seed)
        variables = [i, j, k]
        expr = Nodes(rng, variables, calls=False).integer(3)
        ranges = {v: (low := rng.choice((0, 0, -3, 2)), low + rng.choice((1, 3, 5))) for v in variables[:2]}
        found = Analyzer().int_set(expr, {v: Range(a, b - a + 1) for v, (a, b) in ranges.items()})
        for values in itertools.product(*[range(a, b + 1) for a, b in ranges.values()]):
            for last in (-4, 0, 7):
                env = {i: values[0], j: values[1], k: last}
                value = evaluate(expr, env)
                if isinstance(value, NoValue):
                    continue
                for end, sign in ((found.min_value, 1), (found.max_value, -1)):
                    limit = None if end is None else evaluate(end, env)
                    if limit is not None and not isinstance(limit, NoValue):
                        assert sign * limit <= sign * value, f"seed {seed}: {show(expr)} in {found} at {env}: {value}"


def test_unions_and_intersections():
    analyzer = Analyzer()
    a, b = IntervalSet(0, 7), IntervalSet(4, 12)
    both, either = intersect_sets(analyzer, [a, b]), union_sets(analyzer, [a, b])
    assert (both.min_value.value, both.max_value.value) == (4, 7)
    assert (either.min_value.value, either.max_value.value) == (0, 12)
    assert intersect_sets(analyzer, [IntervalSet(0, 3), IntervalSet(4, 5)]).is_nothing()
    assert union_sets(analyzer, []).is_nothing()
    assert intersect_sets(analyzer, [a, IntervalSet(2, None)]).max_value.value == 7
    assert union_sets(analyzer, [a, IntervalSet(None, 3)]).min_value is None
    assert a.to_range().extent.value == 8
    assert IntervalSet.single_point(n).is_single_point() and not a.is_single_point()
    assert repr(IntervalSet(None, 3)) == "IntervalSet[neg_inf, 3]"


# -- linear equations and clip bounds --------------------------------------------------------------------------------
def test_a_lower_bound_of_a_union_lies_within_it():
    analyzer = Analyzer()
    open_ends = union_lower_bound([IntervalSet(None, 0), IntervalSet(1, None)], analyzer)
    assert open_ends.is_everything()
    assert union_lower_bound([], analyzer).is_nothing()
    joined = union_lower_bound([IntervalSet(0, 3), IntervalSet(2, 9)])
    assert (joined.min_value, joined.max_value) == (0, 9)
    n = Var("n")
    symbolic = union_lower_bound([IntervalSet(n, n + 3), IntervalSet(n + 4, n + 9)], analyzer)
    assert [show(e) for e in (symbolic.min_value, symbolic.max_value)] == ["n", "(n + 9)"]
    unknown = union_lower_bound([IntervalSet(0, 3), IntervalSet(n, n + 3)], analyzer)
    assert [show(e) for e in (unknown.min_value, unknown.max_value)] == ["0", "3"]
    rng = random.Random(3)
    for _ in range(400):
        parts = [(low, low + rng.randint(-2, 4)) for low in (rng.randint(-8, 8) for _ in range(rng.randint(1, 4)))]
        found = union_lower_bound([IntervalSet(low, high) for low, high in parts], analyzer)
        points = {p for low, high in parts for p in range(low, high + 1)}
        inside = set(range(found.min_value.value, found.max_value.value + 1))
        assert inside <= points, parts


def test_arms_of_choices_are_in_the_set_as_far_as_their_condition_lets_them():
    x = Var("x")
    for choice in (Select, build.if_then_else):
        for expr in (
            choice(x > 5, x, const(6)),
            choice(x >= 5, x - 5, 5 - x),
            choice(build.logical_and(x > 3, x < 9), x, const(5)),
        ):
            found = Analyzer().int_set(expr, {x: Range(0, 20)})
            values = [evaluate(expr, {x: value}) for value in range(20)]
            assert (found.min_value.value, found.max_value.value) == (min(values), max(values)), show(expr)


def test_a_let_is_its_value():
    x, y = Var("x"), Var("y")
    found = Analyzer().int_set(Let(x, y * 4, x + 1), {y: Range(0, 8)})
    assert [show(e) for e in (found.min_value, found.max_value)] == ["1", "29"]


def test_linear_equations():
    found = detect_linear_equation(i * 4 + j * n + 7 - i, [i, j])
    for have, wanted in zip(found, (3, n, 7), strict=True):
        assert structural_equal(have, build.as_expr(wanted))
    assert [c.value for c in detect_linear_equation((i - j) * -2, [i, j])] == [-2, 2, 0]
    assert [c.value for c in detect_linear_equation(IntImm("int32", 5), [i])] == [0, 5]
    for nonlinear in (i * i, i // 2, i * j, build.min_(i, 3), (i * n) * j):
        assert detect_linear_equation(nonlinear, [i, j]) == []


def test_clip_bounds():
    found = detect_clip_bound(build.all_of(i * 2 < 9, i >= 3, j < n, j * -3 < 7), [i, j])
    assert (found[0].value, found[1].value, found[2].value) == (3, 4, -2)
    assert structural_equal(found[3], n - 1)
    assert detect_clip_bound(i + j < 4, [i, j]) == []
    assert detect_clip_bound(build.logical_or(i < 3, j < 4), [i, j]) == []
    assert detect_clip_bound(n > 4, [i]) == [None, None]
    assert [e.value for e in detect_clip_bound(build.eq(i, 3), [i])] == [3, 3]


@pytest.mark.parametrize("factor", [-4, -3, -1, 1, 2, 5])
def test_clip_bounds_are_exact(factor):
    for kind in (build.lt, build.le, build.gt, build.ge, build.eq):
        for base in range(-7, 8):
            condition = kind(i * factor + base, 0)
            low, high = detect_clip_bound(condition, [i])
            inside = [v for v in range(-30, 31) if evaluate(condition, {i: v})]
            span = [v for v in range(-30, 31) if (low is None or v >= low.value) and (high is None or v <= high.value)]
            assert inside == span, (show(condition), low, high)


# -- regions ---------------------------------------------------------------------------------------------------------
REGIONS = [
    ([(i * 4 + j, 1)], None),
    ([(i * 4 + j, 3)], None),
    ([(i * 4, 4)], None),
    ([(i * 4, 5)], None),
    ([(i * 4, 2)], None),
    ([(i + j, 1)], None),
    ([(i, 1), (i, 1)], None),
    ([(i, 1), (j, 2)], None),
    ([(i // 2, 1), (i % 2, 1)], None),
    ([(i * 4 + j, 1)], i * 4 + j < 13),
    ([(i, 1)], i * 4 + j < 13),
    ([(i, 1), (j, 1)], i < 3),
    ([(i - 1, 3), (j + 2, 1)], None),
    ([(i * 2 + j, 3)], None),
    ([(7 - i, 1)], None),
    ([((i * 4 + j) * 4, 8)], i * 4 + j < 15),
]


@pytest.mark.parametrize(("parts", "predicate"), REGIONS)
def test_regions_against_enumeration(parts, predicate):
    domains = {i: Range(0, 4), j: Range(0, 4)}
    region = [Range(low, extent) for low, extent in parts]
    condition = predicate if predicate is not None else True
    covered = set()
    for p, q in itertools.product(range(4), range(4)):
        env = {i: p, j: q}
        if predicate is not None and not evaluate(predicate, env):
            continue
        starts = [evaluate(low, env) if hasattr(low, "dtype") else low for low, _ in parts]
        covered |= set(itertools.product(*[range(s, s + e) for s, (_, e) in zip(starts, parts, strict=True)]))

    def points(box):
        return set(itertools.product(*[range(s.min_value.value, s.max_value.value + 1) for s in box]))

    strict = estimate_region_strict_bound(region, domains, condition)
    lower = estimate_region_lower_bound(region, domains, condition)
    upper = estimate_region_upper_bound(region, domains, condition)
    if strict is not None:
        assert points(strict) == covered
    if lower is not None:
        assert points(lower) <= covered
    assert points(upper) >= covered


def test_strict_bounds_are_found_where_they_are_boxes():
    for parts, predicate in REGIONS[:4] + [REGIONS[7], REGIONS[8], REGIONS[9], REGIONS[-1]]:
        region = [Range(low, extent) for low, extent in parts]
        found = estimate_region_strict_bound(
            region, {i: Range(0, 4), j: Range(0, 4)}, predicate if predicate is not None else True
        )
        assert found is not None, parts


def test_domain_touched():
    a = decl_buffer((64, 64), "float32", "A")
    b = decl_buffer((64,), "float32", "B")
    store = BufferStore(b, BufferLoad(a, (i + 2, j * 2)), (i,))
    body = For(i, 0, 8, "serial", None, {}, For(j, 0, n, "serial", None, {}, IfThenElse(j < 5, store)))
    rows, columns = domain_touched(body, a)
    assert (rows.min.value, rows.extent.value) == (2, 8)
    analyzer = Analyzer()
    assert analyzer.can_prove_equal(columns.extent, build.min_(n - 1, 4) * 2 + 1)
    (only,) = domain_touched(body, b)
    assert (only.min.value, only.extent.value) == (0, 8)
    assert domain_touched(body, b, consider_stores=False) == []
    assert domain_touched(seq(body), decl_buffer((4,), "float32", "C")) == []


def test_regions_that_fall_are_counted_backwards():
    i, j = Var("i"), Var("j")
    domains = {i: Range(0, 16), j: Range(2, 4)}
    for low, size in ((0 - i, 1), (15 - i, 1), (j - i * 4, 4), (20 - i - j * 16, 1)):
        used = {v: dom for v, dom in domains.items() if v is i or "j" in show(low)}
        (found,) = estimate_region_lower_bound([Range(low, size)], used) or (None,)
        points = set()
        for at in itertools.product(*[range(d.min.value, d.min.value + d.extent.value) for d in used.values()]):
            start = evaluate(low, dict(zip(used, at, strict=True)))
            points |= set(range(start, start + size))
        whole = points == set(range(min(points), max(points) + 1))
        assert (found is not None) == whole, show(low)
        if found is not None:
            assert (found.min_value.value, found.max_value.value) == (min(points), max(points))


def test_the_interval_around_the_lanes_of_a_vector():
    x = Var("x")
    u = Var("u", "uint8")
    for stride, lanes in ((1, 4), (3, 8), (-2, 5), (0, 4)):
        found = IntSet.vector(ir.Ramp(x, stride, lanes))
        for value in (-7, 0, 5):
            every = [value + stride * lane for lane in range(lanes)]
            ends = [evaluate(end, {x: value}) for end in (found.min_value, found.max_value)]
            assert ends == [min(every), max(every)]
    assert IntSet.vector(ir.Broadcast(x, 4)).min_value is x and IntSet.vector(x).is_single_point()
    assert IntSet.vector(ir.Ramp(u, ir.const(1, "uint8"), 4)).is_everything()  # its lanes may wrap
    assert IntSet.vector(ir.Ramp(x, x, 4)).is_everything() and IntSet is IntervalSet


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("name", ["shift_right", "shift_left", "add", "sub", "mul"])
def test_ends_past_a_type(name: str, dtype: str) -> None:
    """Data of a narrow type wraps; the values of an index are those that its type holds."""
    x = Var("x", dtype)
    least, most = x.dtype.min_value, x.dtype.max_value
    exact = {
        "add": int.__add__,
        "sub": int.__sub__,
        "mul": int.__mul__,
        "shift_right": int.__rshift__,
        "shift_left": int.__lshift__,
    }
    counts = range(x.dtype.bits) if "shift" in name else [0, 1, 3, 5, most, most - 3, most // 2, most // 4 + 1]
    for low, count in itertools.product({max(least, -5), 0, most - 11, most // 2}, counts):
        step = ir.build.__dict__[name](x, ir.const(count, dtype))
        found = eval_set(step, {x: Range(ir.const(low, dtype), ir.const(12, dtype))}, Analyzer())
        for value in range(low, low + 12):
            made = exact[name](value, count)
            if not is_index_type(x.dtype):
                made = ir.wrap_int(made, x.dtype)
            elif not least <= made <= most:
                continue
            shown = f"{step} at {value} is {made}, outside {found}"
            for end, sign in ((found.min_value, 1), (found.max_value, -1)):
                at = None if end is None else evaluate(end, {})
                assert at is None or isinstance(at, NoValue) or sign * at <= sign * made, shown
