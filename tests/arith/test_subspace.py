"""Subspace division: known divisions, refusals, and every division checked by enumeration."""

from __future__ import annotations

import itertools
import random

import pytest
from evaluate import evaluate, show

from tirlower.arith import Analyzer, normalize_iter_map_to_expr, subspace_divide
from tirlower.ir import IntImm, Range, Var, build, post_order_visit

pytestmark = pytest.mark.by_day

i, j, k, l = (Var(name) for name in "ijkl")
n = Var("n", nonneg=True)


def ranges_of(iters):
    return {v: Range(0, e) if not isinstance(e, Range) else e for v, e in iters.items()}


def variables(expr):
    found = set()
    post_order_visit(expr, lambda op: found.add(op) if isinstance(op, Var) else None)
    return found


def value_of(extent, env):
    return extent.value if isinstance(extent, IntImm) else evaluate(extent, env)


def check(bindings, iters, inner, predicate=True, symbols=(), **options):
    """Divide, and enumerate: each side in its own variables, in range, and together the binding. Returns the pairs."""
    ranges = ranges_of(iters)
    result = subspace_divide(bindings, ranges, inner, predicate, **options)
    if not result:
        return []
    analyzer = Analyzer()
    *pairs, (outer_mark, inner_mark) = result
    outer_condition, inner_condition = outer_mark.extent, inner_mark.extent
    assert len(pairs) == len(bindings)
    assert not variables(outer_condition) & set(inner)
    assert variables(inner_condition) <= set(inner) | set(symbols)
    sources = [[normalize_iter_map_to_expr(mark.source) for mark in pair] for pair in pairs]
    for outer, below in sources:
        assert not variables(outer) & set(inner), show(outer)
        assert variables(below) <= set(inner) | set(symbols), show(below)
    for sizes in itertools.product((2, 3, 5), repeat=len(symbols)):
        env = dict(zip(symbols, sizes, strict=True))
        domains = [range(value_of(r.min, env), value_of(r.min, env) + value_of(r.extent, env)) for r in ranges.values()]
        seen = [(set(), set()) for _ in pairs]
        for point in itertools.product(*domains):
            here = {**env, **dict(zip(ranges, point, strict=True))}
            whole = predicate is True or evaluate(predicate, here)
            assert whole == (evaluate(outer_condition, here) and evaluate(inner_condition, here))
            if not whole:
                continue
            for binding, (outer, below), pair, values in zip(bindings, sources, pairs, seen, strict=True):
                a, b = evaluate(outer, here), evaluate(below, here)
                size = value_of(pair[1].extent, here)
                expr = binding if not isinstance(binding, int) else IntImm("int32", binding)
                assert a * size + b == evaluate(expr, here), (show(outer), show(below), size, here)
                base = value_of(pair[1].source.base, here)
                assert 0 <= a < value_of(pair[0].extent, here) and 0 <= b - base < size
                values[0].add(a)
                values[1].add(b)
        if predicate is True:
            for pair, (above, below) in zip(pairs, seen, strict=True):
                assert len(above) == value_of(pair[0].extent, env)
                assert len(below) == value_of(pair[1].extent, env)
    simple = [tuple(analyzer.simplify(s) for s in pair) for pair in sources]
    return [(str(a), str(b)) for a, b in simple]


DIVIDED = [
    ([i * 8 + j], {i: 4, j: 8}, [j], [("i", "j")]),
    ([i * 8 + j], {i: 4, j: 8}, [], [("i * 8 + j", "0")]),
    ([i * 8 + j], {i: 4, j: 8}, [i, j], [("0", "i * 8 + j")]),
    ([i, j], {i: 4, j: 8}, [j], [("i", "0"), ("0", "j")]),
    ([i * 12 + j * 4 + k], {i: 2, j: 3, k: 4}, [k], [("i * 3 + j", "k")]),
    ([i * 12 + j * 4 + k], {i: 2, j: 3, k: 4}, [j, k], [("i", "j * 4 + k")]),
    ([(i * 8 + j) // 4, (i * 8 + j) % 4], {i: 4, j: 8}, [j], [("i", "j // 4"), ("0", "j % 4")]),
    ([i // 4, i % 4], {i: 32}, [i], [("0", "i // 4"), ("0", "i % 4")]),
    ([i // 4, i % 4], {i: 32}, [], [("i // 4", "0"), ("i % 4", "0")]),
    # a cut above the inner part, and one below
    ([(i * 8 + j) // 16, (i * 8 + j) % 16], {i: 4, j: 8}, [j], [("i // 2", "0"), ("i % 2", "j")]),
    ([(i * 8 + j) // 2, (i * 8 + j) % 2], {i: 4, j: 8}, [j], [("i", "j // 2"), ("0", "j % 2")]),
    # a constant belongs to the inner part
    ([i * 8 + j + 3], {i: 4, j: 8}, [j], [("i", "j + 3")]),
    ([i + 3], {i: 4}, [], [("i", "3")]),
    ([i * 4 + j], {i: Range(2, 3), j: 4}, [j], [("i - 2", "j + 8")]),
    ([i * n + j], {i: 4, j: n}, [j], [("i", "j")]),
    # tiling and reordering of a fused index
    (
        [(i * 16 + j * 4 + k) // 8, (i * 16 + j * 4 + k) % 8],
        {i: 4, j: 4, k: 4},
        [k],
        [("i * 2 + j // 2", "0"), ("j % 2", "k")],
    ),
    ([i, j], {i: 1, j: 8}, [j], [("0", "0"), ("0", "j")]),
]


@pytest.mark.parametrize(("bindings", "iters", "inner", "expected"), DIVIDED)
def test_divisions(bindings, iters, inner, expected):
    assert check(bindings, iters, inner, symbols=(n,) if n in [e for e in iters.values() if e is n] else ()) == expected


REFUSED = [
    # the inner iterator is the higher digit
    ([i * 8 + j], {i: 4, j: 8}, [i], True),
    ([i * 12 + j * 4 + k], {i: 2, j: 3, k: 4}, [j], True),
    # a cut through the outer iterator's lowest digit and the inner one
    ([(i * 6 + j) // 4, (i * 6 + j) % 4], {i: 4, j: 6}, [j], True),
    # no map at all
    ([i + j], {i: 4, j: 4}, [j], True),
    ([i, i], {i: 4}, [], True),
    # gaps
    ([i * 2], {i: 4}, [], True),
    # a predicate on both
    ([i * 8 + j], {i: 4, j: 8}, [j], build.lt(i * 8 + j, 30)),
]


@pytest.mark.parametrize(("bindings", "iters", "inner", "predicate"), REFUSED)
def test_refusals(bindings, iters, inner, predicate):
    assert subspace_divide(bindings, ranges_of(iters), inner, predicate) == []


def test_predicates_go_to_their_side():
    iters = {i: 4, j: 8, k: 4}
    predicate = build.logical_and(i < 3, k >= 1)
    assert check([i * 8 + j, k], iters, [j, k], predicate) == [("i", "j"), ("0", "k")]
    result = subspace_divide([i * 8 + j, k], ranges_of(iters), [j, k], predicate)
    assert [str(mark.extent) for mark in result[-1]] == ["i < 3", "1 <= k"]


def test_a_predicate_on_fused_inner_iterators():
    predicate = j * 4 + k < 13
    iters = {i: 3, j: 4, k: 4}
    pairs = check([i, j * 4 + k], iters, [j, k], predicate)
    assert pairs == [("i", "0"), ("0", "j * 4 + k")]
    result = subspace_divide([i, j * 4 + k], ranges_of(iters), [j, k], predicate)
    assert result[1][1].extent.value == 13
    assert check([i, j * 4 + k], iters, [], predicate) == [("i", "0"), ("j * 4 + k", "0")]


def test_a_predicate_that_always_holds_is_none():
    result = subspace_divide([i * 8 + j], ranges_of({i: 4, j: 8}), [j], i * 8 + j < 32)
    assert result and all(isinstance(mark.extent, IntImm) and mark.extent.value for mark in result[-1])


def test_levels():
    iters = ranges_of({i: 8, j: 4})
    assert subspace_divide([i // 4, j], iters, [j], check_level="surjective")
    assert subspace_divide([i // 4, j], iters, [j], check_level="bijective") == []


@pytest.mark.parametrize("seed", range(300))
def test_random_maps(seed):
    """Fuse loops, split the result, and divide by any set of loops: what is divided is right."""
    rng = random.Random(seed)
    loops = [i, j, k, l][: rng.randint(1, 4)]
    extents = {v: rng.choice((1, 2, 3, 4, 6)) for v in loops}
    order = loops[:]
    rng.shuffle(order)
    fused, total = IntImm("int32", 0), 1
    for var in order:
        fused = build.add(build.mul(fused, extents[var]), var)
        total *= extents[var]
    bindings, rest = [], total
    while rest > 1 and rng.random() < 0.7:
        factor = rng.choice([f for f in range(1, rest + 1) if rest % f == 0])
        bindings.append(build.floormod(fused, factor))
        fused, rest = build.floordiv(fused, factor), rest // factor
    bindings.append(fused)
    rng.shuffle(bindings)
    inner = [var for var in loops if rng.random() < 0.5]
    divided = check(bindings, extents, inner)
    suffix = order[len(order) - len(inner) :]
    if set(suffix) == set(inner) and len(bindings) == 1:
        assert divided, "inner loops that are the last of a fusion always divide"


def test_iterators_of_one_value_are_kept_where_it_is_asked():
    i, j = Var("i"), Var("j")
    ranges = {i: Range(0, 1), j: Range(0, 4)}
    for trivial, outer in ((True, "0"), (False, "i")):
        found = subspace_divide([i * 4 + j], ranges, [j], simplify_trivial_iterators=trivial)
        (above, below), _ = found
        assert show(normalize_iter_map_to_expr(above.source)) == outer and above.extent.value == 1
        assert show(normalize_iter_map_to_expr(below.source)) == "j" and below.extent.value == 4
