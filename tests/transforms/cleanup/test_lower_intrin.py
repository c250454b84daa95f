from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.interp import interpret
from tirlower.ir import BufferLoad, FloorDiv, FloorMod, PrimFunc, decl_buffer, pre_order_visit
from tirlower.ir import stmt as S
from tirlower.ir.expr import Var, const
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerIntrin


def left_over(func: PrimFunc) -> int:
    """The divisions rounding down that are left."""
    found = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, (FloorDiv, FloorMod)) else None)
    return len(found)


def test_powers_of_two_become_shifts_and_masks() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            A[i] = i // 8 + (n - i) // 4 + (n - i) % 16 + i % 1

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            A[i] = T.shift_right(i, 3) + T.shift_right(n - i, 2) + T.bitwise_and(n - i, 15) + 0

    after = check(LowerIntrin(), before)
    assert left_over(after) == 0
    for word in ("T.shift_right(i, 3)", "T.shift_right(n - i, 2)", "T.bitwise_and(n - i, 15)"):
        assert word in after.script()


@pytest.mark.parametrize(
    "divisor", ["T.shift_left(1, s)", "T.shift_left(4, s)", "T.shift_left(1, s) * 2", "T.shift_left(1, s + 1) * 4"]
)
def test_powers_of_two_that_are_written_as_shifts_become_shifts_and_masks(divisor: str) -> None:
    before = parse(f"""
@T.prim_func
def before(A: T.Buffer((7, 40), "int32"), B: T.Buffer((7, 40), "int32"), n: T.int32):
    for s in range(7):
        for i in range(40):
            A[s, i] = (i - 17) // ({divisor}) + (n - i) // ({divisor})
            B[s, i] = (i - 17) % ({divisor}) * 1000 + (n - i) % ({divisor})
""")
    assert isinstance(before, PrimFunc)
    after = check(LowerIntrin(), before)
    assert left_over(after) == 0 and "Div" not in after.script() and "truncmod" not in after.script()


@pytest.mark.parametrize(
    "divisor", ["T.shift_left(1, m)", "T.shift_left(1, s - 3)", "T.shift_left(1, s + 25)", "T.shift_left(3, s)"]
)
def test_shifts_that_may_be_no_power_of_two_stay_divisors(divisor: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((7,), "int32"), n: T.int32, m: T.int32):
    for s in range(7):
        A[s] = n // ({divisor})
""")
    assert isinstance(func, PrimFunc)
    assert "T.shift_right(n, " not in LowerIntrin()(func).script()


def test_operands_known_not_to_be_negative_need_no_correction() -> None:
    @T.prim_func
    def before(A: T.Buffer((60,), "int32")):
        for i in range(60):
            A[i] = i // 7 * 100 + i % 7

    @T.prim_func
    def expected(A: T.Buffer((60,), "int32")):
        for i in range(60):
            A[i] = T.truncdiv(i, 7) * 100 + T.truncmod(i, 7)

    check(LowerIntrin(), before, expected)


def test_a_known_least_value_shifts_the_numerator() -> None:
    @T.prim_func
    def before(A: T.Buffer((60,), "int32")):
        for i in range(60):
            A[i] = (i - 10) // 7 * 100 + (i - 10) % 7

    @T.prim_func
    def expected(A: T.Buffer((60,), "int32")):
        for i in range(60):
            A[i] = (T.truncdiv(i - 10 + 14, 7) - 2) * 100 + T.truncmod(i - 10 + 14, 7)

    check(LowerIntrin(), before, expected)


def test_a_shifted_numerator_does_not_overflow() -> None:
    @T.prim_func
    def before(A: T.Buffer((48,), "int32"), n: T.int32):
        A[T.min(n, -3) // 3 % 48] = T.min(n, -3) // 3

    after = check(LowerIntrin(), before)
    assert "2147483647" not in after.script()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
@pytest.mark.parametrize("divisor", ["constant", "variable"])
@pytest.mark.parametrize("branches", [False, True])
def test_every_sign_and_width_divides_as_python_does(dtype: str, divisor: str, branches: bool) -> None:
    info = np.iinfo(dtype)
    values = sorted({v for v in (info.min, info.min + 1, -9, -8, -7, -1, 0, 1, 2, 7, 8, 9, info.max) if v >= info.min})
    dividers = [v for v in values if v != 0]
    A, B = decl_buffer((1,), dtype, "A"), decl_buffer((2,), dtype, "B")
    a, b, x, y = Var("a", "handle"), Var("b", "handle"), Var("x", dtype), Var("y", dtype)
    for fixed in dividers if divisor == "constant" else [None]:
        by = y if fixed is None else const(int(fixed), dtype)
        zero, one = const(0, "int32"), const(1, "int32")
        body = S.Seq(
            (
                S.BufferStore(B, FloorDiv(x + BufferLoad(A, (zero,)), by), (zero,)),
                S.BufferStore(B, FloorMod(x + BufferLoad(A, (zero,)), by), (one,)),
            )
        )
        func = PrimFunc((a, b, x, y), {a: A, b: B}, None, {}, body)
        after = LowerIntrin(branches=branches)(func)
        assert left_over(after) == 0
        assert ("if_then_else" in after.script()) is (branches and dtype == "int64" and divisor == "variable")
        for p, q in itertools.product(values, dividers if fixed is None else [fixed]):
            if p == info.min and q == -1:
                continue  # the quotient does not fit
            out = np.zeros(2, dtype)
            interpret(after, np.zeros(1, dtype), out, int(p), int(q))
            assert (int(out[0]), int(out[1])) == (int(p) // int(q), int(p) % int(q)), (p, q)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_native_code_divides_by_signs_as_python_does(dtype: str) -> None:
    """The build asks for branches; the least number by -1 wraps, and a division by 0 is refused on both roads."""
    text = f"""@T.prim_func
def f(x: T.Buffer(("n",), "{dtype}"), y: T.Buffer(("n",), "{dtype}"), q: T.Buffer(("n",), "{dtype}"), r: T.Buffer(("n",), "{dtype}")):
    for i in range(n):
        q[i] = x[i] // y[i]
        r[i] = x[i] % y[i]
"""
    kernel = tl.build(parse(text), schedule="none")
    info = np.iinfo(dtype)
    values = [info.min, info.min + 1, -(2**31), -9, -1, 0, 1, 2, 9, 2**31 - 1, info.max - 1, info.max]
    pairs = [(p, q) for p in values for q in values if q != 0 and (p, q) != (info.min, -1)]
    x, y = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    quotients, rests = np.zeros_like(x), np.zeros_like(x)
    kernel(x, y, quotients, rests)
    assert quotients.tolist() == [p // q for p, q in pairs]
    assert rests.tolist() == [p % q for p, q in pairs]
    for value in (5, 0, -5):
        with pytest.raises(ZeroDivisionError, match=f"{value} divided by 0"):
            kernel(*(np.array([v], dtype) for v in (value, 0, 0, 0)))
    wrapped = np.array([info.min], dtype), np.array([-1], dtype), np.zeros(1, dtype), np.ones(1, dtype)
    kernel(*wrapped)
    assert (wrapped[2][0], wrapped[3][0]) == (info.min, 0)


def test_a_divisor_of_unknown_sign_costs_no_compare() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int16"), B: T.Buffer((8,), "int16")):
        for i in range(8):
            b = T.bind(T.bitwise_or(B[i], T.int16(1)))
            A[i] = A[i] // b
            B[i] = A[i] % b

    @T.prim_func
    def expected(A: T.Buffer((8,), "int16"), B: T.Buffer((8,), "int16")):
        for i in range(8):
            b = T.bind(T.bitwise_or(B[i], T.int16(1)))
            A[i] = T.Div(A[i], b) + T.shift_right(
                T.bitwise_and(
                    T.bitwise_xor(T.truncmod(A[i], b), b),
                    T.bitwise_or(T.truncmod(A[i], b), T.int16(0) - T.truncmod(A[i], b)),
                ),
                T.int16(15),
            )
            B[i] = T.truncmod(A[i], b) + T.bitwise_and(
                b,
                T.shift_right(
                    T.bitwise_and(
                        T.bitwise_xor(T.truncmod(A[i], b), b),
                        T.bitwise_or(T.truncmod(A[i], b), T.int16(0) - T.truncmod(A[i], b)),
                    ),
                    T.int16(15),
                ),
            )

    check(LowerIntrin(), before, expected)


def test_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        B[0:8] = A[0:8] // T.Broadcast(4, 8) + A[0:8] % T.Broadcast(3, 8)
        A[0:8] = (T.Ramp(0, 1, 8) + T.Broadcast(n, 8)) // T.Broadcast(5, 8)
        B[0:4] = B[0:4] // (T.Broadcast(T.max(n, 1), 4) * T.Broadcast(-1, 4))

    assert left_over(check(LowerIntrin(), before)) == 0


def test_a_test_of_divisibility_needs_no_rounding_down() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            if (n - i) % 3 == 0:
                A[i] = 1
            if (n - i) % 8 != 0:
                A[i] = A[i] + 2

    @T.prim_func
    def expected(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(64):
            if T.truncmod(n - i, 3) == 0:
                A[i] = 1
            if T.truncmod(n - i, 8) != 0:
                A[i] = A[i] + 2

    check(LowerIntrin(), before, expected)


def test_conditions_bindings_and_shapes_tell_signs() -> None:
    @T.prim_func
    def before(A: T.Buffer(("m",), "int32"), n: T.int32):
        if n >= 5:
            A[n // 5 % m] = n % 7
        x: T.int32 = T.max(A[0], 0)
        A[0] = x // 3
        for i in range(m):
            A[i // 3] = i % m

    after = check(LowerIntrin(), before, sizes=(5, 8))
    assert left_over(after) == 0 and "shift_right" not in after.script() and "Select" not in after.script()


def test_quotients_of_floats_are_left_to_code_generation() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.FloorDiv(A[i], T.float32(1.5)) + T.FloorMod(A[i], T.float32(-0.75))

    assert left_over(check(LowerIntrin(), before)) == 2


def test_dead_divisions_by_zero_stay_dead() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        if n < 0:
            A[0] = T.FloorDiv(n, 0) + T.FloorMod(n, 0)
        while A[1] % 5 != 4:
            A[1] = A[1] + 1

    check(LowerIntrin(), before)


def test_blocks_views_and_calls() -> None:
    @T.prim_func
    def before(A: T.Buffer((6, 6), "int32")):
        V = T.decl_buffer((36,), "int32", data=A.data)
        for f in T.serial(-36, 0):
            with T.block("A"):
                v = T.axis.spatial((-36, 0), f)
                T.reads()
                T.writes(A[(v + 36) // 6, (v + 36) % 6])
                A[(v + 36) // 6, (v + 36) % 6] = v // 5
        T.evaluate(T.call_extern("handle", "memset", T.address_of(V[35 // 6]), 0, 8))

    assert left_over(check(LowerIntrin(), before)) == 0


def test_nothing_to_do() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            A[i] = T.truncdiv(i + n, 3) + i

    check(LowerIntrin(), before, before)


def test_that_a_loop_runs_is_known_in_its_body_alone() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), n: T.int32):
        for i in range((n - 4) // 3 + 1):
            A[i] = i + 1
        A[15] = (n - 4) // 3

    for n in (3, 4, 9):
        a, b = np.zeros(16, "int32"), np.zeros(16, "int32")
        interpret(before, a, n)
        interpret(LowerIntrin()(before), b, n)
        np.testing.assert_array_equal(a, b)


def test_of_what_is_not_negative_both_roundings_are_the_same() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = T.max(n // 7, 0)
        A[1] = T.max(n // 7, -1)
        A[2] = T.max(n // 4, 2)

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), n: T.int32):
        A[0] = T.max(T.truncdiv(n, 7), 0)
        A[1] = T.max(T.truncdiv(n, 7) + T.shift_right(T.truncmod(n, 7), 31), -1)
        A[2] = T.max(T.shift_right(n, 2), 2)

    check(LowerIntrin(), before, expected, inputs=[(np.zeros(4, "int32"), n) for n in (-15, -7, -1, 0, 6, 22)])


def test_a_shared_division() -> None:
    n, m, buffer, param = Var("n"), Var("m"), decl_buffer((8,), "int32", "A"), Var("A", "handle")
    quotient = FloorDiv(n, m)
    before = PrimFunc(
        (param, n, m), {param: buffer}, None, {}, S.BufferStore(buffer, quotient * 3 + quotient, (quotient % 8,))
    )
    check(LowerIntrin(), before, inputs=[(np.zeros(8, "int32"), n, m) for n, m in ((17, 3), (-17, 3), (17, -3))])


POWERS = {"2": 2, "3": 3, "-1": -1, "0.5": 0.5, "1": 1, "0": 0}
EDGES = [0.0, -0.0, 1.0, -1.5, 3.1, -7.25, 1e-30, 3e18, 1e30, float("inf"), float("-inf"), float("nan"), 5e-39, 1e-20]


@pytest.mark.parametrize("exponent", POWERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("form", ["A[i] ** {e}", "T.pow(A[i], {e})", "T.power(A[i] * T.{t}(1), T.{t}({e}))"])
def test_constant_powers_are_numpys(exponent: str, dtype: str, form: str) -> None:
    n = len(EDGES)
    func = parse(
        f'@T.prim_func\ndef f(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}"), C: T.Buffer(({n},), "{dtype}")):\n'
        f"    for i in range({n}):\n        B[i] = {form.format(e=exponent, t=dtype)}\n"
        f"    for i in T.vectorized({n}):\n        C[i] = {form.format(e=exponent, t=dtype)}\n"
    )
    assert "pow" not in LowerIntrin()(func).script()
    with np.errstate(all="ignore"):
        a = np.array(EDGES).astype(dtype)
        value = POWERS[exponent]
        want = (a * a * a) if value == 3 else a**value
    for run in (
        tl.build(func, schedule="none"),
        lambda *args: interpret(func, *args),
        lambda *args: interpret(tl.lower(func), *args),
    ):
        b, c = np.zeros_like(a), np.zeros_like(a)
        run(a, b, c)
        for got in (b, c):
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_constant_powers_of_integers_wrap(exponent: int, dtype: str) -> None:
    func = parse(
        f'@T.prim_func\ndef f(A: T.Buffer((9,), "{dtype}"), B: T.Buffer((9,), "{dtype}")):\n'
        f"    for i in range(9):\n        B[i] = A[i] ** {exponent}\n"
    )
    assert "pow" not in LowerIntrin()(func).script()
    bits = np.iinfo(dtype)
    a = np.array([0, 1, 2, 3, 100, bits.max, bits.max - 1, bits.min, bits.min + 5], dtype)
    b = np.zeros_like(a)
    tl.build(func, schedule="none")(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(b, a**exponent)


@pytest.mark.parametrize("exponent", ["T.float32(2.5)", "B[0]", "T.float32(-2)", "T.float32(4)"])
def test_other_powers_stay(exponent: str) -> None:
    func = parse(
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):\n'
        f"    A[0] = T.pow(A[0], {exponent})\n"
    )
    assert LowerIntrin()(func) is func


def test_a_base_with_effects_is_evaluated_once() -> None:
    func = parse(
        '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n'
        '    A[0] = T.pow(T.call_extern("float32", "random_number"), T.float32(2))\n'
    )
    assert LowerIntrin()(func) is func
