"""Iteration maps: detection, levels, padding, normal forms and inverses, against enumeration."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import evaluate, show

from tirlower import arith
from tirlower.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
    subspace_divide,
)
from tirlower.diagnostics import TirError
from tirlower.ir import Cast, IntImm, Or, Range, Var, build, const, substitute
from tirlower.ir.structural import structural_equal

i, j, k, l = (Var(name) for name in "ijkl")
a, b, c = (Var(name) for name in "abc")
n = Var("n", nonneg=True)


def found(indices, iters, level="surjective", predicate=True):
    ranges = {v: Range(0, e) if not isinstance(e, Range) else e for v, e in iters.items()}
    return detect_iter_map(indices, ranges, predicate, level)


BIJECTIVE = [
    ([i * 4 + j], {i: 8, j: 4}),
    ([j, i], {i: 8, j: 4}),
    ([i // 4, i % 4], {i: 32}),
    ([i % 4, i // 4], {i: 32}),
    ([(i * 4 + j) // 8, (i * 4 + j) % 8], {i: 8, j: 4}),
    ([(i * 4 + j) // 16, (i * 4 + j) // 4 % 4, j], {i: 8, j: 4}),
    ([i // 16, i // 4 % 4, i % 4], {i: 64}),
    ([i // 16 * 4 + i % 4, i // 4 % 4], {i: 64}),
    ([i - 2], {i: Range(2, 8)}),
    ([(i - 4) // 4, (i - 4) % 4], {i: Range(4, 8)}),
    ([i * n + j], {i: 8, j: n}),
    ([(i * n + j) // n, (i * n + j) % n], {i: 8, j: n}),
    ([i, j], {i: 8, j: 1}),
    ([i * 12 + j * 4 + k], {i: 2, j: 3, k: 4}),
    ([(i * 12 + j * 4 + k) // 6, (i * 12 + j * 4 + k) % 6], {i: 2, j: 3, k: 4}),
]


@pytest.mark.parametrize(("indices", "iters"), BIJECTIVE)
def test_bijective_maps(indices, iters):
    result = found(indices, iters, "bijective")
    assert result.indices and not result.errors, result.errors
    assert isinstance(result.padding_predicate, IntImm) and not result.padding_predicate.value


REFUSED = [
    ([i * 4 + j], {i: 8, j: 3}, "surjective", "do not fit"),
    ([i, i], {i: 8}, "surjective", "overlap"),
    ([i // 4, i % 8], {i: 32}, "surjective", "overlap"),
    ([i + j], {i: 8, j: 8}, "bijective", "do not fit"),
    ([i * 3 + j], {i: 8, j: 2}, "surjective", "do not fit"),
    ([i, i + j], {i: 8, j: 8}, "surjective", "overlap"),
    ([i * j], {i: 8, j: 8}, "surjective", "product"),
    ([7 - i], {i: 8}, "surjective", "falls"),
    ([i // 3, i % 3], {i: 10}, "bijective", "does not divide"),
    ([i // 4 % 2, i // 8], {i: 32}, "bijective", "takes no part"),
    ([i], {i: 8, j: 4}, "bijective", "takes no part"),
    ([i // 4], {i: 32}, "bijective", "takes no part"),
    ([i // j], {i: 8, j: 4}, "surjective", "divisor"),
    ([build.min_(i, j)], {i: 8, j: 4}, "surjective", "no sum"),
]


@pytest.mark.parametrize(("indices", "iters", "level", "reason"), REFUSED)
def test_refusals_say_why(indices, iters, level, reason):
    result = found(indices, iters, level)
    assert result.indices == []
    assert any(reason in error for error in result.errors), result.errors


def test_surjective_maps_may_leave_parts_unused():
    assert found([i // 4 % 2, i // 8], {i: 32}).indices
    assert found([i], {i: 8, j: 4}).indices
    assert found([i // 4], {i: 32}).indices


def test_sums_that_overlap_are_onto_but_not_one_to_one():
    for sizes in itertools.product((1, 2, 3, 5), repeat=3):
        for scales in itertools.product((1, 2, 3, 4), repeat=3):
            iters = dict(zip((i, j, k), sizes, strict=True))
            index = i * scales[0] + j * scales[1] + k * scales[2] + 7
            taken = {
                sum(v * s for v, s in zip(values, scales, strict=True))
                for values in itertools.product(*map(range, sizes))
            }
            result = found([index], iters)
            if not result.indices:
                continue
            (total,) = result.indices
            assert total.base.value == 7
            one = total.args[0] if total.args else None
            steps, extent = (one.scale.value, one.extent.value) if one is not None else (1, 1)
            assert taken == {steps * at for at in range(extent)}, (sizes, scales)
    result = found([i * 2 + j], {i: 4, j: 3})
    assert result.indices[0].args[0].extent.value == 9
    assert not found([i * 2 + j], {i: 4, j: 3}, "bijective").indices
    with pytest.raises(TirError, match="more than once"):
        inverse_affine_iter_map(result.indices, [a])


def test_predicates_bound_fused_iterators():
    assert found([i * 4 + j], {i: 8, j: 4}, "bijective", i * 4 + j < 30).indices
    assert found([(i * 4 + j) // 3, (i * 4 + j) % 3], {i: 8, j: 4}, "bijective", i * 4 + j < 30).indices
    assert not found([(i * 4 + j) // 3, (i * 4 + j) % 3], {i: 8, j: 4}, "bijective").indices
    assert found([(i * 4 + j) * 2 + k], {i: 8, j: 4, k: 2}, "bijective", i * 4 + j < 30).indices
    assert found([i // 5, i % 5], {i: 32}, "bijective", i < 30).indices
    # Two bounds of one sum count together.
    both = build.logical_and(build.ge(i * 4 + j, 3), i * 4 + j < 20)
    (total,) = found([i * 4 + j], {i: 8, j: 4}, "bijective", both).indices
    assert total.args[0].extent.value == 17 and total.base.value == 3
    # A bound that the indices take apart makes them depend on one another.
    assert not found([i, j], {i: 8, j: 4}, "bijective", i * 4 + j < 30).indices
    assert not found([i], {i: 8, j: 8}, "surjective", build.ne(i, j)).indices


def test_padding():
    result = found([i // 3, i % 3], {i: 10}, "nocheck")
    assert result.indices
    assert structural_equal(
        result.padding_predicate, build.logical_and(build.eq(i // 3, 3), build.le(IntImm("int32", 1), i % 3))
    )
    result = found([(i + 1) // 4, (i + 1) % 4], {i: 6}, "nocheck")
    # Beyond its range on both sides the iterator stands for padding, within it never.
    for value in range(-1, 7):
        assert evaluate(result.padding_predicate, {i: value}) == (not 0 <= value < 6)


def test_onto_maps_are_padded():
    result = found([i // 15], {i: 26}, "surjective")
    assert result.indices[0].args[0].extent.value == 2
    for value in range(30):
        assert evaluate(result.padding_predicate, {i: value}) == (value >= 26)
    assert not found([i // 15], {i: 26}, "bijective").indices
    # What is covered whole is no box then.
    assert estimate_region_strict_bound([Range(i % 15, 1), Range(i // 15, 1)], {i: Range(0, 26)}) is None
    assert not subspace_divide([i // 3 + j * 4], {i: Range(0, 10), j: Range(0, 2)}, [i])


def test_bounds_of_sums_within_sums():
    both = build.logical_and(i * 6 + j * 2 + k < 20, j * 2 + k < 6)
    (total,) = found([i * 6 + j * 2 + k], {i: 8, j: 4, k: 2}, "bijective", both).indices
    assert total.args[0].extent.value == 20
    two = build.logical_and(i * 4 + j < 30, k * 4 + a < 13)
    sums = found([i * 4 + j, k * 4 + a], {i: 8, j: 4, k: 4, a: 4}, "bijective", two).indices
    assert [total.args[0].extent.value for total in sums] == [30, 13]
    # What the indices are where the conditions hold, each once.
    for indices, iters, condition in (
        ([i * 6 + j * 2 + k], {i: 8, j: 4, k: 2}, build.logical_and(i * 6 + j * 2 + k < 20, j * 2 + k < 6)),
        ([i * 4 + j, k * 4 + a], {i: 8, j: 4, k: 4, a: 4}, two),
    ):
        totals = found(indices, iters, "bijective", condition).indices
        points = [dict(zip(iters, at, strict=True)) for at in itertools.product(*map(range, iters.values()))]
        taken = [tuple(evaluate(e, env) for e in indices) for env in points if evaluate(condition, env)]
        assert sorted(taken) == list(itertools.product(*(range(total.args[0].extent.value) for total in totals)))


def test_a_size_that_divides_is_positive():
    n = Var("n", nonneg=True)
    assert found([i // n, i % n], {i: Range(0, n * 8)}, "bijective").indices
    assert not found([i // Var("m"), i % Var("m")], {i: Range(0, 8)}, "bijective").indices


def test_symbolic_scales_and_bases_are_normalized():
    n = Var("n", nonneg=True)
    total = normalize_to_iter_sum(i * n + j + n * 3, {i: Range(0, 8), j: Range(0, n)})
    assert [show(arg.scale) for arg in total.args] == ["n", "1"] and show(total.base) == "(n * 3)"
    total = normalize_to_iter_sum(build.max_(n * 2, 3) + i * 4 + build.min_(n, 5), {i: Range(0, 8)})
    assert [arg.scale.value for arg in total.args] == [4]
    assert {show(part) for part in (total.base.a, total.base.b)} == {"max((n * 2), 3)", "min(n, 5)"}


@pytest.mark.parametrize(
    ("expr", "extents", "scales", "base"),
    [
        (i * a * b + j * a + k, {i: 4, j: 8, k: 3}, ["(a * b)", "a", "1"], "0"),
        (i % 15 * a + i // 15 * (a * 15), {i: 60}, ["a", "(a * 15)"], "0"),
        (i * ((a + 3) // 4) + b, {i: 8}, ["((a + 3) // 4)"], "b"),
        ((i + a) * b, {i: 8}, ["b"], "(a * b)"),
        (i * 8 + build.max_(a, b) * 2, {i: 8}, ["8"], "(max(a, b) * 2)"),
        (build.min_(a, b) + i * a + build.max_(a, b), {i: 8}, ["a"], "(a + b)"),
    ],
)
def test_a_normalized_sum_has_the_values_of_its_expression(expr, extents, scales, base):
    total = normalize_to_iter_sum(expr, {var: Range(0, extent) for var, extent in extents.items()})
    assert [show(arg.scale) for arg in total.args] == scales and show(total.base) == base
    made = normalize_iter_map_to_expr(total)
    for at in itertools.product(*map(range, extents.values()), (-7, 0, 5), (-2, 3)):
        env = dict(zip((*extents, a, b), at, strict=True))
        assert evaluate(made, env) == evaluate(expr, env), env


def test_padding_is_stated_once_and_not_under_the_ranges():
    result = found([(i + 1) // 4, (i + 1) % 4], {i: 14}, "nocheck")
    stated = []
    pending = [result.padding_predicate]
    while pending:
        part = pending.pop()
        if isinstance(part, Or):
            pending += [part.a, part.b]
        else:
            stated.append(show(part))
    assert len(stated) == len(set(stated)) == 2
    for value in range(-1, 15):
        assert evaluate(result.padding_predicate, {i: value}) == (not 0 <= value < 14)


def test_symbolic_divisors_of_ranges_that_are_not_empty():
    m = Var("m")
    assert found([i // m, i % m], {i: Range(0, m * 4)}, "bijective").indices
    assert not found([i // m, i % m], {i: 8}, "surjective").indices


def test_normal_forms():
    ranges = {i: Range(0, 8), j: Range(0, 4)}
    first, second = iter_map_simplify([(i * 4 + j) // 4, (i * 4 + j) % 4], ranges)
    assert first is i and second is j
    (kept,) = iter_map_simplify([i * j], ranges)
    assert structural_equal(kept, i * j)
    total = normalize_to_iter_sum(j + i * 4 + 3, ranges)
    assert [arg.scale.value for arg in total.args] == [4, 1] and total.base.value == 3
    assert structural_equal(Analyzer().simplify(normalize_iter_map_to_expr(total)), i * 4 + j + 3)
    with pytest.raises(TirError, match="product"):
        normalize_to_iter_sum(i * j, ranges)


def test_levels_by_name():
    assert IterMapLevel.of("bijective") is IterMapLevel.BIJECTIVE
    assert IterMapLevel.of("NoCheck") is IterMapLevel.NO_CHECK
    assert IterMapLevel.of(1) is IterMapLevel.SURJECTIVE
    assert IterMapLevel.NoCheck is IterMapLevel.NO_CHECK


def test_inverses():
    result = found([(i * 4 + j) // 8, (i * 4 + j) % 8], {i: 8, j: 4}, "bijective")
    inverse = inverse_affine_iter_map(result.indices, [a, b])
    assert structural_equal(inverse[i], a * 2 + b // 4)
    assert structural_equal(inverse[j], b % 4)
    shifted = inverse_affine_iter_map(found([i - 2], {i: Range(2, 8)}, "bijective").indices, [a])
    assert structural_equal(shifted[i], a + 2)
    with pytest.raises(TirError, match="outputs"):
        inverse_affine_iter_map(result.indices, [a])


def _random_map(rng):
    """Digits of a few loops, shuffled and fused into indices: bijective by construction."""
    variables = [i, j, k][: rng.choice((1, 2, 3))]
    digits = []
    iters = {}
    for var in variables:
        factors = [rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((1, 2, 3)))]
        extent = 1
        for factor in factors:
            digit = build.floormod(build.floordiv(var, extent), factor) if extent * factor else var
            digits.append((digit, factor))
            extent *= factor
        iters[var] = extent
    rng.shuffle(digits)
    indices = []
    while digits:
        count = rng.randint(1, len(digits))
        total, size = None, 1
        for digit, factor in reversed(digits[:count]):
            term = build.mul(digit, size)
            total = term if total is None else build.add(term, total)
            size *= factor
        indices.append((total, size))
        digits = digits[count:]
    return iters, indices


def test_random_maps_are_found_and_inverted():
    for seed in range(80):
        rng = random.Random(seed)
        iters, outputs = _random_map(rng)
        indices = [index for index, _ in outputs]
        result = found(indices, iters, "bijective")
        text = f"seed {seed}: {[show(e) for e in indices]} over { ({v.name: e for v, e in iters.items()}) }"
        assert result.indices, f"{text}: {result.errors}"
        names = [Var(f"o{p}") for p in range(len(indices))]
        inverse = inverse_affine_iter_map(result.indices, names)
        seen = set()
        for values in itertools.product(*[range(e) for e in iters.values()]):
            env = dict(zip(iters, values, strict=True))
            image = tuple(evaluate(index, env) for index in indices)
            assert image not in seen, text
            seen.add(image)
            for index, total in zip(indices, result.indices, strict=True):
                assert evaluate(normalize_iter_map_to_expr(total), env) == evaluate(index, env), text
            back = dict(zip(names, image, strict=True))
            for var, value in env.items():
                if iters[var] > 1:
                    assert evaluate(inverse[var], back) == value, text


def test_no_map_that_is_not_one_to_one_passes_as_bijective():
    accepted = 0
    for seed in range(400):
        rng = random.Random(seed)
        iters = {i: rng.choice((2, 3, 4, 6, 8)), j: rng.choice((1, 2, 4, 6))}
        pool = [
            i,
            j,
            i // 2,
            i % 2,
            i * iters[j] + j,
            j * iters[i] + i,
            (i + j) % 4,
            i // 3,
            i % 4,
            j // 2,
            j % 2,
            i + 1,
        ]
        indices = rng.sample(pool, rng.choice((1, 2, 3)))
        result = found(indices, iters, "bijective")
        images = [tuple(evaluate(e, {i: p, j: q}) for e in indices) for p in range(iters[i]) for q in range(iters[j])]
        if result.indices:
            accepted += 1
            assert len(set(images)) == len(images), f"seed {seed}: {[show(e) for e in indices]} over {iters}"
    assert accepted > 20


_K, _J, _X, _Y = (Var(name, "int32") for name in "kjxy")
_MAPS = [
    ((0 - _K) // 4, {_K: 4}),
    ((3 - _K) // 4, {_K: 4}),
    ((0 - _K * 4) // 4, {_K: 4}),
    ((_K * 4 - _J) // 4, {_K: 3, _J: 4}),
    ((_K * 4 - _J) % 4, {_K: 3, _J: 4}),
    ((0 - _K) % 4, {_K: 8}),
    ((8 - _K * 2) // 8, {_K: 4}),
    ((_Y + 33) // 32, {_Y: 176}),
    ((_Y + 33) % 32, {_Y: 176}),
    ((_Y + 64) // 32, {_Y: 170}),
    ((_Y - 33) // 32, {_Y: 176}),
    ((_Y + 100) // 7 * 3 + 1, {_Y: 14}),
    ((_X * 2 + _X % 2) * 2 + _X, {_X: 4}),
    (_X * 3 + _X % 2 * 2, {_X: 4}),
    (_X // 2 * 5 + _X % 2 * 2, {_X: 4}),
    (_X * 6 + _J * 4, {_X: 4, _J: 1}),
    (_X * 5 + _J * 2, {_X: 3, _J: 2}),
    ((_X * 5 + _J * 2) // 2, {_X: 3, _J: 2}),
    ((_K * 8 + _J + 40) // 16, {_K: 4, _J: 8}),
    ((_K * 8 + _J + 40) % 16, {_K: 4, _J: 8}),
]


@pytest.mark.parametrize("level", [IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE, IterMapLevel.NO_CHECK])
@pytest.mark.parametrize(("expr", "sizes"), _MAPS, ids=[str(expr) for expr, _ in _MAPS])
def test_a_map_has_the_values_of_its_expression(expr, sizes, level):
    """At every point, whatever was checked: quotients of falling dividends, whole divisors in a base, uneven scales."""
    found = detect_iter_map([expr], {var: Range(0, size) for var, size in sizes.items()}, check_level=level)
    for total in found.indices:
        made = normalize_iter_map_to_expr(total)
        for point in itertools.product(*(range(size) for size in sizes.values())):
            values = {var: const(value, "int32") for var, value in zip(sizes, point, strict=True)}
            simplify = Analyzer().simplify
            assert simplify(substitute(made, values)).value == simplify(substitute(expr, values)).value, (point, made)


def test_a_region_below_zero_is_seen():
    (bound,) = estimate_region_upper_bound([Range((_K * 4 - _J) // 4, 1)], {_K: Range(0, 2), _J: Range(0, 4)})
    assert (bound.min_value.value, bound.max_value.value) == (-1, 1)


def test_a_narrowing_cast_goes_into_a_sum_only_where_no_part_overflows():
    i, j = Var("i", "int64"), Var("j", "int64")
    analyzer = Analyzer()
    analyzer.bind(i, Range(const(0, "int64"), const(2, "int64")))
    analyzer.bind(j, Range(const(0, "int64"), const(2, "int64")))
    big = const(2**30 + 5, "int64")
    inside = (i * 7 + j * 3 - 4).astype("int32")
    assert structural_equal(analyzer.simplify(inside), i.astype("int32") * 7 + j.astype("int32") * 3 - 4)
    # In int32 the two products together are too large, though with the constant the whole is not.
    outside = (i * big + j * big - 2**31).astype("int32")
    assert isinstance(analyzer.simplify(outside), Cast)


@pytest.mark.parametrize("divisor", [1, 2, 4, 8])
def test_truncated_digits_of_what_is_not_negative_are_digits(divisor):
    i = Var("i")
    digits = [build.truncdiv(i, divisor), build.truncmod(i, divisor)]
    found = detect_iter_map(digits, {i: Range(0, 8)}, check_level="bijective")
    assert not found.errors
    inverse = inverse_affine_iter_map(found.indices, [Var("q"), Var("r")])
    assert set(inverse) == {i}
    shifted = detect_iter_map(digits, {i: Range(-9, 18)})
    assert divisor == 1 or "may be negative" in str(shifted.errors)


def test_levels_and_ranges_are_checked():
    from_names = [
        IterMapLevel.of(name) for name in ("bijective", "Surjective", "nocheck", "NO_CHECK", 3, IterMapLevel.SURJECTIVE)
    ]
    wanted = [IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE, *[IterMapLevel.NO_CHECK] * 3, IterMapLevel.SURJECTIVE]
    assert from_names == wanted
    for level in ("bijectiv", 2):
        with pytest.raises(TirError, match="no level"):
            detect_iter_map([Var("i")], {}, check_level=level)
    i = Var("i")
    with pytest.raises(TirError, match=r"Range\(min, extent\)"):
        detect_iter_map([i], {i: (0, 16)})


def test_the_forms_have_tirs_names():
    i, j = Var("i"), Var("j")
    (found,) = arith.detect_iter_map([i * 4 + j], {i: Range(0, 8), j: Range(0, 4)}).indices
    assert isinstance(found, arith.IterSumExpr) and isinstance(found, arith.IterMapExpr)
    assert isinstance(found.args[0], arith.IterSplitExpr) and isinstance(found.args[0], arith.IterMapExpr)
    assert not isinstance(found.args[0].source, arith.IterMapExpr)
