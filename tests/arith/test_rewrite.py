"""The forms that the rules alone lead to (``rewrite_simplify``): results keep the order of what they were made of.

Each line is an expression, the conditions under which it stands, and its form. The same value on both sides is checked
by enumeration, so a line can be wrong in two ways.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from evaluate import NoValue, evaluate, lanes, show
from test_forms import VARIABLES, expression

import tirlower as tl
from tirlower import ir
from tirlower.arith import Analyzer, ConstIntBound, Extension, IntervalSet, ModularSet
from tirlower.arith.pattern import PVar
from tirlower.arith.pattern import rule as make_rule
from tirlower.diagnostics import TirError
from tirlower.ir import EQ, LE, LT, NE, Add, Broadcast, IntImm, Ramp, Range, Sub, Var, build, post_order_visit
from tirlower.ir.query import nodes
from tirlower.ir.structural import structural_equal
from tirlower.script import parse
from tirlower.script import tir as T

pytestmark = pytest.mark.by_day

TABLE = [
    # sums and differences
    ("x + (y + 2)", "", "x + y + 2"),
    ("(x + 10) + (z + 13)", "", "x + z + 23"),
    ("x*y + x*10", "", "(y + 10) * x"),
    ("x*z + y*z", "", "(x + y) * z"),
    ("y*x + x", "", "(y + 1) * x"),
    ("x*y - x", "", "(y + -1) * x"),
    ("(x*2)*y", "", "x * y * 2"),
    ("x*(y*2)", "", "x * y * 2"),
    ("0 - x*2", "", "x * -2"),
    ("10 - x - y", "", "10 - x - y"),
    ("min(x - z, y) + z", "", "min(x, y + z)"),
    ("max(max(x, y) + 10, y + 11)", "", "max(x + 10, y + 11)"),
    ("max(max(x, y) + 12, x + 11)", "", "max(x, y) + 12"),
    ("min(x + 3, min(x, y) + 5)", "", "min(y + 5, x + 3)"),
    ("min(min(x, y) - 2, y)", "", "min(x, y) + -2"),
    ("max(max(x, y) - 2, y)", "", "max(x + -2, y)"),
    ("min(x, y - z) + z", "", "min(x + z, y)"),
    ("max(x - 11, y) + 11", "", "max(x, y + 11)"),
    ("min(x + 2, y + 3) - 2", "", "min(x, y + 1)"),
    ("min(x, y) - x", "", "min(0, y - x)"),
    ("min(x, y) - y", "", "min(x - y, 0)"),
    ("x - max(x, y)", "", "min(0, x - y)"),
    ("y - max(x, y)", "", "min(y - x, 0)"),
    ("min(z, x + y) - x", "", "min(z - x, y)"),
    ("x - max(z, x + y)", "", "min(x - z, 0 - y)"),
    ("min(x, y) - min(y, x)", "", "0"),
    ("(x - y)//5*5 - x", "", "0 - (x - y) % 5 - y"),
    ("x*6 - tdiv(x + y, 5)*30", "", "(tmod(x + y, 5) - y) * 6"),
    ("select(x < y, x, y) + select(x < y, z, w)", "", "select(lt(x, y), x + z, y + w)"),
    ("select(x < y, x + 1, z) - select(x < y, x, z)", "", "select(lt(x, y), 1, 0)"),
    ("x//5 + (x%5 + 3)//5", "", "(x + 3) // 5"),
    # quotients and remainders
    ("(y + x*z)//z", "0 < z", "y // z + x"),
    ("(x*z + y)//z", "0 < z", "x + y // z"),
    ("(y + (z + x))//x", "0 < x", "(y + z) // x + 1"),
    ("(x*y*2)//y", "", "x * 2"),
    ("(x*y*4)//(y*2)", "", "x * 2"),
    ("(x*y*6)%(y*4)", "", "x % 2 * y * 2"),
    ("(x*y)//(z*y)", "", "x // z"),
    ("(x*y)%(z*y)", "", "x % z * y"),
    ("(x*4)//-2", "", "x * -2"),
    ("x//-4", "", "x // -4"),
    ("min(x//-10, y//-10)", "", "max(x, y) // -10"),
    ("min(y, x*6)//2", "", "min(y // 2, x * 3)"),
    ("tdiv(y + x*4, 2)", "land(0 <= x, 0 <= y)", "tdiv(y, 2) + x * 2"),
    ("tdiv(y + x*z, z)", "land(0 <= x, land(0 <= y, 0 < z))", "tdiv(y, z) + x"),
    ("tdiv(x + y + z, x)", "land(0 < x, land(0 <= y, 0 <= z))", "tdiv(y + z, x) + 1"),
    ("tmod(x*-10 + y, 2)", "land(x <= 0, 0 <= y)", "tmod(y, 2)"),
    ("x%2", "eq(x % 2, 1)", "1"),
    ("(x + 1)%4", "eq(tmod(x, 4), 3)", "0"),
    # min and max
    ("min(min(x, y), y)", "", "min(x, y)"),
    ("max(max(max(x, y), z), y)", "", "max(max(x, y), z)"),
    ("min(min(x, y), min(x, z))", "", "min(min(y, z), x)"),
    ("min(max(x, y), min(y, x))", "", "min(x, y)"),
    ("min(x, min(y, 10))", "", "min(min(x, y), 10)"),
    ("min(max(x, 3), 5)", "", "min(max(x, 3), 5)"),
    ("min(max(x, 5), 3)", "", "3"),
    ("min(x + y, x)", "", "min(x + y, x)"),
    # comparisons
    ("x < y - 3", "", "lt(x + 3, y)"),
    ("x - 3 <= y", "", "le(x, y + 3)"),
    ("x + 10 < y + 1", "", "lt(x + 9, y)"),
    ("9 <= x*3", "", "le(3, x)"),
    ("8 <= x*3", "", "le(3, x)"),
    ("x*-2 <= 3", "", "le(-1, x)"),
    ("x//4 <= 2", "", "le(x, 11)"),
    ("tdiv(x, 4) <= 2", "", "le(x, 11)"),
    ("2 <= tdiv(x, 4)", "", "le(8, x)"),
    ("x//4*4 < x - y", "", "lt(y, x % 4)"),
    ("tdiv(x + 2, 4)*4 < x", "", "lt(2, tmod(x + 2, 4))"),
    ("x <= (x + 2)//4*4", "", "le((x + 2) % 4, 2)"),
    ("x//y <= x", "land(0 <= x, 0 < y)", "True"),
    ("0 <= x*x", "", "True"),
    # one side is known to be at most the other
    ("ne(x, 0)", "0 <= x", "lt(0, x)"),
    ("x <= 0", "0 <= x", "eq(x, 0)"),
    ("ne(y, x)", "x <= y", "lt(x, y)"),
    ("x <= y", "ne(x, y)", "lt(x, y)"),
    ("eq(y, x)", "ne(x, y)", "False"),
    # conditions
    ("land(x < 1, land(y < 2, z < 3))", "", "land(land(lt(x, 1), lt(y, 2)), lt(z, 3))"),
    ("lor(x < 1, lor(y < 2, z < 3))", "", "lor(lor(lt(x, 1), lt(y, 2)), lt(z, 3))"),
    ("land(x <= y, land(z < 3, y <= x))", "", "land(land(le(x, y), lt(z, 3)), le(y, x))"),
    ("land(land(x < y, y < z), y < z)", "", "land(lt(x, y), lt(y, z))"),
    ("land(eq(x//8, 2), x%8 < 3)", "", "land(le(16, x), lt(x, 19))"),
    ("land(eq(x//8, 2), x%8 <= 3)", "", "land(le(16, x), le(x, 19))"),
    ("land(3 < x%8, eq(x//8, 2))", "", "land(lt(19, x), lt(x, 24))"),
    ("land(eq(x//8, 2), 3 <= x%8)", "", "land(le(19, x), lt(x, 24))"),
]


def _rewritten(text, given):
    analyzer = Analyzer()
    with analyzer.constraint_scope(expression(given) if given else IntImm("bool", 1)):
        return analyzer.rewrite_simplify(expression(text))


@pytest.mark.parametrize(("text", "given", "expected"), TABLE, ids=[f"{t} | {g}" for t, g, _ in TABLE])
def test_form(text, given, expected):
    result = _rewritten(text, given)
    assert structural_equal(result, expression(expected)), f"{text} is {show(result)}, not {expected}"


@pytest.mark.parametrize(("text", "given", "expected"), TABLE, ids=[f"{t} | {g}" for t, g, _ in TABLE])
def test_value(text, given, expected):
    before, after = expression(text), expression(expected)
    condition = expression(given) if given else IntImm("bool", 1)
    names: set[Var] = set()
    post_order_visit(before, lambda e: names.add(e) if isinstance(e, Var) else None)
    used = sorted(names, key=lambda v: v.name)
    span = {1: 40, 2: 12, 3: 5, 4: 3}[len(used)]
    compared = 0
    for values in itertools.product(range(-span, span + 1), repeat=len(used)):
        env = dict(zip(used, values, strict=True))
        was = evaluate(before, env)
        if isinstance(was, NoValue) or not evaluate(condition, env):
            continue
        assert was == evaluate(after, env), env
        compared += 1
    assert compared


p, q = Var("p", "bool"), Var("q", "bool")
x, y = VARIABLES["x"], VARIABLES["y"]


def test_conditions_that_hold_are_true_wherever_they_stand():
    analyzer = Analyzer()
    with analyzer.constraint_scope(ir.And(p, q)):
        for condition in (p, q, ir.And(p, q), ir.Or(q, x < 3), ir.EQ(p, IntImm("bool", 1))):
            assert analyzer.can_prove(condition), condition
        assert analyzer.rewrite_simplify(ir.Select(p, x, y)) is x
        assert analyzer.rewrite_simplify(build.if_then_else(ir.Not(p), x, y)) is y
    with analyzer.constraint_scope(ir.Not(p)):
        assert analyzer.rewrite_simplify(ir.Select(p, x, y)) is y
        assert not analyzer.can_prove(q)
    assert analyzer.rewrite_simplify(p) is p


def test_constants_take_part_in_transitive_proofs():
    analyzer = Analyzer()
    with analyzer.constraint_scope(x < y), analyzer.constraint_scope(y < 10):
        assert not analyzer.can_prove(x < 9)
        analyzer.enabled_extensions = Extension.TransitivelyProveInequalities
        assert analyzer.can_prove(x < 9)
        assert not analyzer.can_prove(x < 8)


def test_ramps_keep_the_order_of_their_bases():
    ramp, wide = Ramp(x, 1, 4), Broadcast(y, 4)
    for expr, base in ((ir.Add(ramp, wide), x + y), (ir.Add(wide, ramp), y + x)):
        assert structural_equal(Analyzer().rewrite_simplify(expr), Ramp(base, 1, 4))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ir.FloorDiv(Ramp(x * 4, 1, 4), Broadcast(8, 4)), Broadcast(x // 2, 4)),
        (ir.FloorMod(Ramp(x * 4, 1, 4), Broadcast(8, 4)), Ramp(x % 2 * 4, 1, 4)),
        (ir.FloorMod(Ramp(x * 8 + 15, 1, 4), Broadcast(8, 4)), ir.FloorMod(Ramp(7, 1, 4), Broadcast(8, 4))),
        (ir.FloorMod(Ramp(x * 8, 3, 8), Broadcast(4, 8)), ir.FloorMod(Ramp(0, 3, 8), Broadcast(4, 8))),
        (ir.Div(Ramp(x * 8, 8, 4), Broadcast(8, 4)), Ramp(x, 1, 4)),
    ],
    ids=str,
)
def test_divided_ramps(before, after):
    result = Analyzer().rewrite_simplify(before)
    assert structural_equal(result, after), result
    for value in range(-20, 20):
        one, other = ([evaluate(lane, {x: value}) for lane in lanes(vector)] for vector in (before, result))
        assert one == other, value


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ir.Mod(Ramp(x * 8, 1, 4), Broadcast(8, 4)), Ramp(0, 1, 4)),
        (ir.Mod(Ramp(x * 8 + 13, 1, 4), Broadcast(8, 4)), ir.Mod(Ramp(5, 1, 4), Broadcast(8, 4))),
        (ir.Mod(Ramp(x * 8 + 12, 1, 4), Broadcast(8, 4)), Ramp(4, 1, 4)),
        (ir.Mod(Ramp(x * 8 + 3, 8, 4), Broadcast(8, 4)), Broadcast(3, 4)),
    ],
    ids=str,
)
def test_truncated_remainders_of_ramps_that_are_not_negative(before, after):
    analyzer = Analyzer()
    # Below zero the remainders of truncation fall: nothing is said there.
    assert structural_equal(analyzer.rewrite_simplify(before), before)
    analyzer.bind(x, Range(0, 100))
    result = analyzer.rewrite_simplify(before)
    assert structural_equal(result, after), result
    for value in range(20):
        one, other = ([evaluate(lane, {x: value}) for lane in lanes(vector)] for vector in (before, result))
        assert one == other, value


def test_rules_that_fix_an_order_match_in_that_order_only():
    a, b = PVar("x"), PVar("y")
    assert len(make_rule((a + b) * a, a).variants) == 4
    assert len(make_rule((a + b) * a, a, fixed=(ir.Add,)).variants) == 2
    assert len(make_rule((a + b) * a, a, fixed=(ir.Add, ir.Mul)).variants) == 1


def test_a_part_that_stays_is_the_same_object():
    inner = build.min_(y, x)
    assert Analyzer().rewrite_simplify(build.min_(inner, x)) is inner


def test_long_chains_of_conditions_cost_no_square():
    names = [Var(f"b{at}", "bool") for at in range(400)]
    right = names[-1]
    for name in reversed(names[:-1]):
        right = ir.And(name, right)
    analyzer = Analyzer()
    simple = analyzer.rewrite_simplify(right)
    assert analyzer.rewriter.steps == 0  # no rule applies to such a chain
    left_to_right: list[Var] = []
    post_order_visit(simple, lambda e: left_to_right.append(e) if isinstance(e, Var) else None)
    assert left_to_right == names
    assert Analyzer().rewrite_simplify(simple) is simple


def test_float_calls_of_constants():
    two_and_a_half = ir.FloatImm("float32", 2.5)
    eight = ir.FloatImm("float32", 8.0)
    analyzer = Analyzer()
    assert analyzer.simplify(build.call("tir.log2", eight)).value == 3.0
    assert analyzer.simplify(build.call("tir.log2", ir.FloatImm("float32", 0.125))).value == -3.0
    whole = build.call("tir.ceil", build.call("tir.log2", ir.FloatImm("float32", 9.0)))
    assert analyzer.simplify(whole).value == 4.0
    other = build.call("tir.ceil", build.call("tir.exp2", ir.FloatImm("float32", 9.0)))
    assert structural_equal(analyzer.simplify(other), other)
    kept = build.call("tir.log2", two_and_a_half)
    assert analyzer.simplify(kept) is kept
    assert analyzer.simplify(build.call("tir.isnan", two_and_a_half)).value == 0
    assert analyzer.simplify(build.call("tir.isnan", ir.FloatImm("float32", float("nan")))).value == 1


def test_remainders_of_multiples_are_bounded_tightly():
    analyzer = Analyzer()
    for c0, c1, shift in itertools.product((2, 3, 4, 6), (4, 6, 8, 9), (-5, 0, 1, 3)):
        expr = (x * c0 + shift) % c1
        bound = analyzer.const_int_bound(ir.FloorMod(x * c0 + shift, IntImm("int32", c1)))
        values = [evaluate(expr, {x: value}) for value in range(-40, 40)]
        assert (bound.min_value, bound.max_value) == (min(values), max(values)), (c0, c1, shift)


def test_narrowing_casts_keep_remainders_by_powers_of_two():
    wide = Var("w", "int64")
    analyzer = Analyzer()
    assert analyzer.modular_set(ir.Cast("int32", wide * 12 + 1)) == ModularSet(4, 1)
    assert analyzer.modular_set(ir.Cast("int8", wide * 512 + 3)) == ModularSet(256, 3)


def test_update_states_bounds_and_remainders():
    analyzer = Analyzer()
    analyzer.update(x, ConstIntBound(2, 9))
    analyzer.update(x, ModularSet(4, 1))
    assert analyzer.const_int_bound(x + 1) == ConstIntBound(3, 10)
    assert analyzer.modular_set(x) == ModularSet(4, 1)
    with pytest.raises(TirError, match="bound already"):
        analyzer.update(x, ConstIntBound(0, 3))
    analyzer.update(x, ConstIntBound(0, 3), override=True)
    assert analyzer.const_int_bound(x) == ConstIntBound(0, 3)
    analyzer.update(y, IntervalSet(0, x))
    assert analyzer.can_prove(y <= x)
    other = Analyzer()
    other.update(y, IntervalSet(5, None))
    assert other.const_int_bound(y).min_value == 5


def test_a_range_by_its_extent():
    assert structural_equal(Range.from_min_extent(x, 3), Range(x, 3))


@pytest.mark.parametrize(
    "name", ["shift_left", "bitwise_and", "bitwise_xor", "popcount", "clz", "bitwise_not", "if_then_else"]
)
@pytest.mark.parametrize("first", [0, 1, 5, -3])
def test_calls_of_a_number_and_others_are_what_they_compute(name, first):
    x, y = Var("x"), Var("y")
    op = ir.Op.get(f"tir.{name}")
    number = IntImm("bool", int(first > 0)) if name == "if_then_else" else IntImm("int32", first)
    args = (number, x, y)[: op.arity[0]]
    made = Analyzer().simplify(ir.Call(op, args, "int32"))
    for env in ({x: 3, y: 7}, {x: 0, y: -2}):
        assert evaluate(made, env) == {
            "shift_left": first << env[x], "bitwise_and": first & env[x], "bitwise_xor": first ^ env[x],
            "popcount": (first % 2**32).bit_count(), "clz": 32 - (first % 2**32).bit_length(), "bitwise_not": ~first,
            "if_then_else": env[x] if first > 0 else env[y],
        }[name]  # fmt: skip
    assert name not in ("popcount", "clz", "bitwise_not") or isinstance(made, IntImm)
    assert name != "if_then_else" or made is (x if first > 0 else y)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "uint64"])
def test_numbers_of_types_that_wrap_are_folded_as_they_wrap(dtype):
    kind = ir.DataType(dtype)
    most, least = IntImm(dtype, kind.max_value), IntImm(dtype, kind.min_value)
    for op, value in (
        (ir.Add(most, IntImm(dtype, 3)), kind.min_value + 2),
        (ir.Sub(least, IntImm(dtype, 1)), kind.max_value),
    ):
        made = Analyzer().simplify(op)
        assert isinstance(made, IntImm) and (made.value, made.dtype) == (value, dtype)


def test_a_number_near_an_end_of_64_bits_makes_no_sum_that_leaves_them():
    """`n - 5 <= 2**63 - 1` became `n <= 2**63 + 4`, which machine code, whose widest indices have 64 bits, cannot compute."""
    n, m = Var("n", "int64", nonneg=True), Var("m", "int64", nonneg=True)
    for end in (-(2**63), 2**63 - 1):
        for number in (end, end + 3 if end < 0 else end - 3):
            limit = IntImm("int64", number)
            for left in (n - 5, n + 5, n - m, n + m, 5 - n, limit - n, limit + n, n * 3 + m - 5):
                for right in (limit, n, m, m - 7):
                    for compare in (LT, LE, EQ, NE):
                        result = Analyzer().simplify(compare(left, right))
                        for op in nodes(result):
                            if isinstance(op, (Add, Sub)):
                                both = [x.value for x in (op.a, op.b) if isinstance(x, IntImm)]
                                assert len(both) < 2, f"{left}, {right}: {result}"


def test_a_loop_over_a_great_extent_less_a_number_runs():
    func = parse("""
@T.prim_func
def main(x: T.handle, y: T.handle, o: T.handle):
    D = T.int64()
    E = T.int64()
    X = T.match_buffer(x, (D,), "float32")
    Y = T.match_buffer(y, (E,), "float32")
    O = T.match_buffer(o, ((D - T.int64(1)) * T.int64(3) + E - T.int64(2),), "float32")
    for i in range((D - T.int64(1)) * T.int64(3) + E - T.int64(2)):
        O[i] = T.float32(1)
""")
    out = np.zeros(13, "float32")
    tl.build(func)(np.zeros(5, "float32"), np.zeros(3, "float32"), out)
    assert out.tolist() == [1.0] * 13


@pytest.mark.parametrize("name", ["round", "nearbyint", "sqrt", "floor", "ceil", "trunc"])
def test_calls_of_float_constants_are_as_numpy_computes_them(name):
    ours = {"round": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) % 1 >= 0.5), x), "nearbyint": np.rint}
    for dtype in ("float16", "float32", "float64"):
        for value in (0.5, -0.5, 1.5, 2.5, -2.5, 0.3, -0.3, 3.9999, 2.0, 1000.5, 0.49999999999999994):
            x = np.dtype(dtype).type(abs(value) if name == "sqrt" else value)
            found = Analyzer().simplify(build.call(f"tir.{name}", ir.FloatImm(dtype, float(x))))
            want = ours.get(name, getattr(np, name, None))(x)
            assert found.value == float(np.dtype(dtype).type(want)), (name, dtype, value)
            assert math.copysign(1, found.value) == math.copysign(1, want)


@pytest.mark.parametrize("name", ["sqrt", "log2"])
@pytest.mark.parametrize("value", [-2.0, -math.inf, math.inf, math.nan, 0.0, -0.0])
def test_calls_of_what_is_no_positive_number_stay(name: str, value: float) -> None:
    call = build.call(f"tir.{name}", ir.FloatImm("float32", value))
    assert isinstance(Analyzer().simplify(call), ir.Call)


@pytest.mark.parametrize("lanes", [4, build.mul(T.vscale(), 4)])
def test_a_choice_by_a_constant_for_all_lanes_is_its_arm(lanes):
    i, j = Var("i"), Var("j")
    a, b, mask = ir.Ramp(i, 1, lanes), ir.Ramp(j, 2, lanes), ir.Ramp(0, 1, lanes)
    analyzer = Analyzer()
    for condition, arm in (
        (ir.Broadcast(ir.const(True, "bool"), lanes), a),
        (ir.Broadcast(ir.const(False, "bool"), lanes), b),
        (ir.LT(mask, ir.Broadcast(ir.const(64), lanes)), a),
        (ir.GE(mask, ir.Broadcast(ir.const(64), lanes)), b),
    ):
        assert structural_equal(analyzer.simplify(ir.Select(condition, a, b)), analyzer.simplify(arm))
    kept = ir.Select(ir.LT(mask, ir.Broadcast(ir.const(2), lanes)), a, b)
    assert analyzer.simplify(kept).condition.dtype.lanes == 4
