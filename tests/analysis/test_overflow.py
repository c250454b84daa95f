"""Data wraps, indices do not: which expressions the analyzer may treat as indices."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.analysis.overflow import Wrapping
from tirlower.arith import Analyzer
from tirlower.ir import Buffer, BufferLoad, IntImm, Range, Var, const, structural_equal
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerIntrin, Simplify

I32 = np.iinfo("int32")
EXTREMES = np.array([I32.min, I32.min + 1, -7, -1, 0, 1, 7, I32.max - 1, I32.max], dtype="int32")


def load(dtype: str) -> BufferLoad:
    return BufferLoad(Buffer("A", (16,), dtype), (Var("i", "int32"),))


def test_sums_of_data_wrap_and_sums_of_indices_do_not():
    analyzer = Analyzer()
    wrapping = Wrapping(analyzer)
    i = Var("i", "int32")
    analyzer.bind(i, Range(0, 16))
    assert wrapping.wraps(load("int32") * 4 // 2)
    assert wrapping.wraps(load("int32") // -3)
    assert not wrapping.wraps((i * 4 + 3) // 2)
    assert not wrapping.wraps(load("int8").astype("int32") * 4 // 2)
    assert not wrapping.wraps(load("float32") * 4.0)


@pytest.mark.parametrize("analyzer", [Analyzer(), DataAnalyzer()])
def test_sums_of_unsigned_64_bits_wrap(analyzer):
    x = Var("x", "uint64")
    most = const(2**63 - 1, "uint64")
    assert analyzer.const_int_bound(x + 3).min_value == 0
    for claim in (
        x + 3 >= const(3, "uint64"),
        x + most >= most,
        x.astype("int64") >= 0,
        x * 3 + 2 >= const(2, "uint64"),
    ):
        assert not analyzer.can_prove(claim) and not isinstance(analyzer.simplify(claim), IntImm)
    assert analyzer.can_prove(x // 2 <= most) and analyzer.can_prove((x // 2).astype("int64") >= 0)
    with analyzer.constraint_scope(x < const(8, "uint64")):
        assert analyzer.can_prove(x + 3 >= const(3, "uint64"))


def test_a_variable_bound_to_data_is_data():
    wrapping = Wrapping(Analyzer())
    x = Var("x", "int32")
    assert not wrapping.wraps(x * 4 // 2)
    wrapping.data.add(x)
    assert wrapping.is_data(x + 1)
    assert wrapping.wraps(x * 4 // 2)


def test_the_parts_that_do_not_wrap_are_simplified():
    analyzer = Analyzer()
    wrapping = Wrapping(analyzer)
    i, a = Var("i", "int32"), load("int32")
    made = wrapping.simplify(a * 4 // 2 + (i * 4 // 4), analyzer.simplify)
    assert structural_equal(made, a * 4 // 2 + i)


@T.prim_func
def computed(A: T.Buffer((9,), "int32"), B: T.Buffer((6, 9), "int32")):
    for i in range(9):
        x: T.int32 = A[i]
        B[0, i] = x * 4 // 2
        B[1, i] = T.cast(x + 1 > x, "int32")
        B[2, i] = x // -3
        B[3, i] = T.truncdiv(x * 6, 3)
        B[4, i] = (x * 3 + x) % 3
        if x + 1 < 5:
            B[5, i] = T.cast(x < 4, "int32")
        else:
            B[5, i] = 7


@pytest.mark.parametrize("transform", [Simplify(), LowerIntrin()])
def test_values_at_the_ends_of_the_type_are_kept(transform):
    before, after = np.zeros((6, 9), "int32"), np.zeros((6, 9), "int32")
    tl.interpret(computed, EXTREMES.copy(), before)
    tl.interpret(transform(computed), EXTREMES.copy(), after)
    np.testing.assert_array_equal(before, after)


def test_native_code_agrees():
    before, after = np.zeros((6, 9), "int32"), np.zeros((6, 9), "int32")
    tl.interpret(computed, EXTREMES.copy(), before)
    tl.build(computed)(EXTREMES.copy(), after)
    np.testing.assert_array_equal(before, after)


def test_bounds_that_hold_however_data_wraps_decide_extrema():
    s = Var("s", "int32")
    analyzer = DataAnalyzer({s})
    ring = (s + 1) % 3
    assert analyzer.simplify(T.max(0, T.min(0, ring))).value == 0
    assert structural_equal(analyzer.simplify(T.max(ring, 0)), ring)
    assert analyzer.simplify(T.max(s * 7 % 3, 2)).value == 2
    for kept in (T.max(s + 1, I32.min + 1), T.min(s + 1, I32.max - 1), T.min(ring, 1)):
        assert structural_equal(analyzer.simplify(kept), kept)
    # Outside of a build the analyzer's bounds of sums of data are those of sums that do not wrap.
    plain = Analyzer()
    kept = T.max(load("int32") + 1, I32.min + 1)
    assert structural_equal(Wrapping(plain).simplify(kept, plain.simplify), kept)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_no_bound_is_not_a_value_of_the_type(dtype):
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    x = Var("x", dtype)
    for end in {least, least + 1, least + 2, 2**31 - 1, most // 2, most // 2 + 1, most - 1, most}:
        for extremum, wanted in ((T.max, max), (T.min, min)):
            simple = DataAnalyzer({x}).simplify(extremum(x, const(end, dtype)))
            for value in {least, least + 1, end, max(end - 1, least), min(end + 1, most), most}:
                got = simple.value if isinstance(simple, IntImm) else value if simple is x else None
                assert got in (None, wanted(value, end)), (extremum, end, value)
    element = load(dtype)
    low = Analyzer().int_set(element, {element.indices[0]: Range(0, 16)}).min_value
    assert low is None or low.value == least


def test_rows_chosen_by_a_remainder_of_a_parameter_stay_where_they_are():
    """A ring of three rows, whose last one a scalar chooses: the rows begin at 0, and the loop's indices hold no data."""

    @T.prim_func
    def ring(u: T.handle, o: T.handle, steps: T.int32):
        n = T.int32()
        U = T.match_buffer(u, (n,), "float64")
        O = T.match_buffer(o, (n,), "float64")
        rows = T.alloc_buffer((3, n), "float64")
        for j, i in T.grid(3, n):
            rows[j, i] = U[i] * T.Cast("float64", j)
        for t in range(steps):
            for i in range(n):
                rows[(t + 2) % 3, i] = rows[(t + 1) % 3, i] + rows[t % 3, i]
        for i in range(n):
            O[i] = rows[(steps + 1) % 3, i]

    kernel = tl.build(ring)
    inner = next(line for line in kernel.source("tir").splitlines() if "(t + 2" in line)
    assert "steps" not in inner
    u, o = np.arange(1.0, 6.0), np.zeros(5)
    kernel(u, o, 4)  # the rows 0, 1, 2 times u become 1, 2, 3, 5: a new one is the sum of two
    np.testing.assert_array_equal(o, 5 * u)


EDGES = """
@T.prim_func
def edges(s: T.int32, X: T.Buffer((4,), "int32"), O: T.Buffer((8,), "int32")):
    for i in {loop}:
        if {condition}:
            O[i] = 1
"""
HOLDS = {
    # Sums of data wrap, also where the data cancels out: 3 * 10**9 is negative in int32.
    "i * 1000000000 + (s - s) < 8": lambda i, s: i in (0, 3),
    "(X[1] - X[1]) + i * 1000000000 < 8": lambda i, s: i in (0, 3),
    "T.max(i * 1000000000, s - s) < 8": lambda i, s: i in (0, 3),
    "T.min(i * 1000000000, s - s) < 0": lambda i, s: i == 3,
    # A choice between indices is an index, whatever chooses, and so are numbers: exact.
    "i * 1000000000 + T.if_then_else(s != s, 1, 7) < 8": lambda i, s: i == 0,
    "2147483646 + T.if_then_else(s != s, 1, 7) < 8": lambda i, s: False,
    "2147483646 + T.Select(s != 8, 1, 7) < 8": lambda i, s: False,
    "T.if_then_else(s + 1 > s, 1, 7) * 1000000000 + 2147483647 < 8": lambda i, s: False,
    "i * T.int32(2147483647) - 2147483647 > 0": lambda i, s: i > 1,
    "T.int32(2147483647) + T.int32(1) > i": lambda i, s: True,
}


@pytest.mark.parametrize("loop", ["range(4)", "T.unroll(4)", "T.vectorized(4)", "T.parallel(4)"])
def test_kinds_of_arithmetic_stay_where_data_cancels_out_or_loops_become_numbers(loop):
    for condition, holds in HOLDS.items():
        func = parse(EDGES.format(loop=loop, condition=condition))
        native, plain = tl.build(func), lambda *args, func=func: tl.interpret(func, *args)
        for s in (8, 2**31 - 1, -(2**31)):
            for run in (native, plain):
                out = np.zeros(8, "int32")
                run(s, np.array([5, s, -s if s > 0 else 0, 1], "int32"), out)
                assert out.tolist() == [int(i < 4 and holds(i, s)) for i in range(8)], (condition, s, run is native)


def test_what_data_leaves_of_an_index_is_not_proved_as_an_index():
    """The sum is 2.4 * 10**9 at i = 6, which wraps and is below n: a proof that took it exactly read far outside."""
    func = parse("""
@T.prim_func
def f(X: T.Buffer((4,), "int32"), B: T.Buffer(("n",), "int32"), O: T.Buffer(("n",), "int32")):
    for i in T.parallel(n):
        if (i * 200000000 + (X[0] - X[0])) + (i * 200000000 + X[1] % 1) < n:
            O[i] = B[i * 200000000 + (X[0] - X[0])]
""")
    out = np.zeros(16, "int32")
    with pytest.raises(IndexError, match="index 1200000000 of dimension 0"):
        tl.build(func)(np.zeros(4, "int32"), np.arange(16, dtype="int32"), out)


def test_a_name_of_data_that_is_surely_zero_keeps_the_error_of_dividing_by_it():
    func = parse("""
@T.prim_func
def f(s: T.int32, O: T.Buffer((8,), "int32")):
    e: T.int32 = s % 1
    if T.int32(5) % e >= T.int32(0):
        O[e] = 1
""")
    for run in (tl.build(func), lambda *args: tl.interpret(func, *args)):
        with pytest.raises(
            tl.DivisionByZeroError if run is not None and hasattr(run, "source") else tl.InterpreterError
        ):
            run(7, np.zeros(8, "int32"))


@pytest.mark.parametrize("compared", ["L[i] < x", "x >= L[i]", "L[i] == x + 1", "x != L[i]"])
def test_a_name_of_an_index_is_no_reason_to_move_data_past_its_type(compared):
    func = parse(f"""
def f(L: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), D: T.Buffer(("n",), "int8")):
    for i in range(4):
        x = n - 3
        B[i] = T.Cast("int32", {compared})
""")
    values = np.array([2**31 - 1, -(2**31), -1, 0], "int32")
    for size in (1, 2, 7):
        found = np.zeros(4, "int32")
        tl.build(func, schedule="none")(values.copy(), found, np.zeros(size, "int8"))
        expected = eval(compared, {"x": size - 3, "i": slice(None), "L": values.astype("int64")})
        np.testing.assert_array_equal(found, expected)
