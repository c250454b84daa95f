"""Every rule, checked against NumPy: exhaustively at a small width and at random at full width.

A rule that fails is named by its text and the line that states it.
"""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest
from pattern_values import LANES, Values, condition_holds, sorts_of

from tirlower.arith import Analyzer, rewrite, rules
from tirlower.arith.matcher import matcher_source
from tirlower.arith.pattern import Domain, PConst, PVar
from tirlower.arith.pattern import rule as make_rule
from tirlower.ir import And, Or, Var, build
from tirlower.ir.structural import structural_equal

pytestmark = pytest.mark.by_day

CASES = [(one, each.domain) for each in rules.ALL for one in each]
INTEGERS = [(r, d) for r, d in CASES if d is not Domain.FLOAT]
IDS = [f"{r.where}:{r.lhs}" for r, _ in INTEGERS]
EXACT = (Domain.INDEX, Domain.INDEX_VECTOR, Domain.INDEX_BOOL)


def _compare(rule, domain, env, bits, signed, count):
    """Evaluate both sides; returns how many assignments the rule applied to."""
    wraps = domain not in EXACT
    left = Values(env, bits, signed, wraps, count)
    with np.errstate(all="ignore"):
        lhs = left.of(rule.lhs)
    applies = left.valid & condition_holds(rule, env, count)
    right = Values(env, bits, signed, wraps, count)
    # Sums on the right may leave the width where the left side did not: that is the documented assumption.
    right.bits = 63 if not wraps else bits
    with np.errstate(all="ignore"):
        rhs = right.of(rule.rhs)
    if domain in (Domain.INTEGER, Domain.BOOL):
        # A constant that does not fit stops the rule: evaluate once more, noting overflow.
        exact = Values(env, bits, signed, False, count)
        exact.of(rule.rhs)
        applies = applies & exact.valid
    equal = np.broadcast_to(lhs == rhs, np.broadcast_shapes(np.shape(lhs), np.shape(rhs)))
    if equal.ndim > 1:
        equal = equal.all(axis=-1)
    bad = applies & ~(equal & right.valid)
    if bad.any():
        at = int(np.flatnonzero(np.broadcast_to(bad, (count,)))[0])
        values = {name: np.asarray(value)[at] if np.ndim(value) else value for name, value in env.items()}
        l = np.broadcast_to(lhs, (count, *np.shape(lhs)[1:]))[at]
        r = np.broadcast_to(rhs, (count, *np.shape(rhs)[1:]))[at]
        pytest.fail(f"{rule.where}: {rule}\n  at {bits} bits, {values}: {l} becomes {r}")
    return int(np.count_nonzero(applies))


def _axis(sort, bits, signed):
    if sort == "bool":
        return np.array([False, True])
    low = -(1 << (bits - 1)) if signed else 0
    return np.arange(low, low + (1 << bits), dtype=np.int64)


def _exhaustive(rule, domain, signed):
    sorts = sorts_of(rule, domain)
    width = {n: (1 if s == "bool" else 0) * (LANES if v else 1) for n, (s, v) in sorts.items()}
    numbers = sum(LANES if v else 1 for s, v in sorts.values() if s != "bool")
    room = 16 - sum(width.values())
    bits = min(8, max(1, room // numbers)) if numbers else 8
    if room < numbers:
        return 0
    axes, names = [], []
    for name, (sort, vector) in sorts.items():
        for lane in range(LANES if vector else 1):
            axes.append(_axis(sort, bits, signed))
            names.append((name, lane, vector))
    grid = np.meshgrid(*axes, indexing="ij") if axes else [np.zeros(1)]
    env = {}
    for (name, lane, vector), values in zip(names, grid, strict=False):
        flat = values.reshape(-1)
        if vector:
            env.setdefault(name, np.zeros((flat.size, LANES), dtype=flat.dtype))[:, lane] = flat
        else:
            env[name] = flat
    return _compare(rule, domain, env, bits, signed, grid[0].size)


def _random(rule, domain, signed, bits, spread, count, seed):
    rng = np.random.default_rng(seed)
    low = -(1 << (bits - 1)) if signed else 0
    high = low + (1 << bits)
    env = {}
    for name, (sort, vector) in sorts_of(rule, domain).items():
        shape = (count, LANES) if vector else (count,)
        if sort == "bool":
            env[name] = rng.integers(0, 2, shape).astype(bool)
            continue
        reach = spread if sort == "const" else spread * 8
        values = rng.integers(max(low, -reach), min(high, reach + 1), shape)
        if spread > 64:
            # All magnitudes, so that sums and products stay in range often enough.
            values = values >> rng.integers(0, bits - 1, shape)
        env[name] = np.clip(values, low, high - 1).astype(np.int64)
    return _compare(rule, domain, env, bits, signed, count)


@pytest.mark.parametrize(("rule", "domain"), INTEGERS, ids=IDS)
def test_rule_keeps_the_value(rule, domain):
    seed = zlib.crc32(str(rule).encode())
    applied = 0
    signs = (True,) if domain in EXACT or domain is Domain.BOOL else (True, False)
    for signed in signs:
        applied += _exhaustive(rule, domain, signed)
        applied += _random(rule, domain, signed, 16, 6, 1 << 14, seed)
        applied += _random(rule, domain, signed, 16, 20, 1 << 13, seed + 1)
        applied += _random(rule, domain, signed, 32, 1 << 31, 2000, seed + 2)
    assert applied, f"{rule.where}: no assignment met the condition of {rule}"


FLOATS = [(r, d) for r, d in CASES if d is Domain.FLOAT]
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.5, 1e30, -1e30, 1e-40, -1e-45, np.inf, -np.inf, np.nan, 2.0**-149, 16777217.0],
    dtype=np.float32,
)


@pytest.mark.parametrize(("rule", "domain"), FLOATS, ids=[f"{r.where}:{r.lhs}" for r, _ in FLOATS])
def test_float_rule_keeps_every_bit(rule, domain):
    rng = np.random.default_rng(7)
    names = list(sorts_of(rule, domain))
    random_bits = rng.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    columns = [
        np.concatenate([g.reshape(-1), rng.permutation(random_bits)]) for g in np.meshgrid(*[SPECIAL] * len(names))
    ]
    env = dict(zip(names, columns, strict=True))

    def value(pat):
        from tirlower import ir
        from tirlower.arith.pattern import PFloat, PLit

        if isinstance(pat, PVar):
            return env[pat.name]
        if isinstance(pat, PFloat):
            return np.float32(pat.value)
        if isinstance(pat, PLit):
            return np.bool_(pat.value)
        a, b = (value(arg) for arg in pat.args)
        with np.errstate(all="ignore"):
            return {
                ir.Add: np.add, ir.Sub: np.subtract, ir.Mul: np.multiply, ir.Div: np.divide, ir.Min: np.fmin,
                ir.Max: np.fmax, ir.LT: np.less, ir.LE: np.less_equal, ir.GT: np.greater, ir.GE: np.greater_equal,
            }[pat.kind](a, b)  # fmt: skip

    left, right = value(rule.lhs), np.broadcast_to(value(rule.rhs), env[names[0]].shape)
    if left.dtype == np.float32:
        both_nan = np.isnan(left) & np.isnan(right)
        same = both_nan | (left.view(np.uint32) == np.ascontiguousarray(right).view(np.uint32))
    else:
        same = left == right
    assert same.all(), f"{rule.where}: {rule} at {[c[~same][0] for c in columns]}"


def test_there_are_at_least_500_rules():
    assert len(CASES) >= 500
    texts = [(str(r), d) for r, d in CASES]
    assert len(set(texts)) == len(texts), [t for t in texts if texts.count(t) > 1]


def test_every_variant_compiles():
    for rule, domain in CASES:
        for variant in rule.variants:
            compile(matcher_source(rule, variant, domain), rule.where, "exec")


def test_a_wrong_rule_is_found():
    x, c0 = PVar("x"), PConst("c0")
    wrong = make_rule((x * c0) // c0, x)  # wrong where it wraps, and for c0 = 0
    with pytest.raises(pytest.fail.Exception, match="becomes"):
        _exhaustive(wrong, Domain.RING, True)
    with pytest.raises(pytest.fail.Exception, match="becomes"):
        _exhaustive(make_rule((x + c0) // 2, x // 2 + c0 // 2), Domain.INDEX, True)


def test_unbound_names_are_refused():
    x, y, c0, c1 = PVar("x"), PVar("y"), PConst("c0"), PConst("c1")
    with pytest.raises(ValueError, match="y"):
        make_rule(x + c0, x + y)
    with pytest.raises(ValueError, match="c1"):
        make_rule(x + c0, x, when="c0 == c1")
    with pytest.raises(ValueError, match="frobnicate"):
        make_rule(x + c0, x, when="frobnicate(c0)")
    with pytest.raises(ValueError, match="operation"):
        make_rule(x, x)
    assert c1.name == "c1"


def test_variants_cover_the_orders():
    x, y, z = (PVar(n) for n in "xyz")
    one = make_rule(x * y + x * z, x * (y + z))
    orders = {str(v) for v in one.variants}
    # (xy, yx) times (xz, zx): exchanging the products renames y and z only.
    assert len(orders) == 4
    assert all(len(set(v)) for v in itertools.islice(orders, 4))


def test_rules_are_counted():
    x = Var("x")
    before = rules.statistics()
    Analyzer().rewrite_simplify(x * 8 // 4)
    after = rules.statistics()
    applied = [r for r in after if after[r][1] > before.get(r, (0, 0))[1]]
    assert any(str(r).startswith("((x * c0) // c1)") for r in applied)
    assert all(attempts >= hits for attempts, hits in after.values())


def test_the_number_of_steps_is_limited(monkeypatch):
    x = Var("x")
    monkeypatch.setattr(rewrite, "MAX_STEPS", 0)
    expr = x * 8 // 4
    assert Analyzer().rewrite_simplify(expr) is expr


@pytest.mark.parametrize("compare", [build.lt, build.le])
@pytest.mark.parametrize("below", [False, True])
def test_of_two_bounds_on_one_side_the_narrower_is_left(compare, below):
    x = Var("x")
    for c0, c1 in itertools.product((2, 3, 5), repeat=2):
        first, second = (compare(x, c) if below else compare(c, x) for c in (c0, c1))
        wanted = first if (c0 <= c1 if below else c0 >= c1) else second
        assert structural_equal(Analyzer().rewrite_simplify(And(first, second)), wanted)
        wanted = second if (c0 <= c1 if below else c0 >= c1) else first
        assert structural_equal(Analyzer().rewrite_simplify(Or(first, second)), wanted)
