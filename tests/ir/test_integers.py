"""The table of what operations make of integers: the extremes of every type against fractions, and vectors against numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tirlower import ir
from tirlower.ir import Call, Expr, IntImm, Op, Var, wrap_int
from tirlower.ir.dtype import DataType
from tirlower.ir.integers import EXACT, LIMIT, SHIFTS, Word, exact, kept, magnitude, operation, within, word_of, wrapped

pytestmark = pytest.mark.by_day

TYPES = ["int4", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
BINARY = [
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max, ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE,
    *(f"tir.{name}" for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")),
]  # fmt: skip


def bits(a: int, b: int, word: str, width: int) -> int:
    """A bitwise operation digit by digit, of two's complements that are wide enough."""
    rule = {"and": min, "or": max, "xor": lambda p, q: (p + q) % 2}[word]
    digits = [rule(a >> k & 1, b >> k & 1) for k in range(width)]
    return sum(d << k for k, d in enumerate(digits[:-1])) - (digits[-1] << (width - 1))


def meaning(word: Word, a: int, b: int, width: int) -> int | None:
    """What an operation is, said another way; None where it has no value."""
    name = word if isinstance(word, str) else word.__name__
    if name in ("Div", "Mod", "FloorDiv", "FloorMod"):
        if b == 0:
            return None
        quotient = (math.floor if name.startswith("Floor") else math.trunc)(Fraction(a, b))
        return quotient if name.endswith("Div") else a - b * quotient
    if name in SHIFTS:
        return None if not 0 <= b < width else math.floor(a * Fraction(2) ** (b if name.endswith("left") else -b))
    if name.startswith("tir.bitwise"):
        return bits(a, b, name.removeprefix("tir.bitwise_"), width + 1)
    order = (a > b) - (a < b)
    plain = {
        "Add": sum((a, b)), "Sub": sum((a, -b)), "Mul": int(Fraction(a) * b), "Min": sorted((a, b))[0], "Max": sorted((a, b))[1],
        "EQ": order == 0, "NE": order != 0, "LT": order < 0, "LE": order <= 0, "GT": order > 0, "GE": order >= 0,
    }  # fmt: skip
    return int(plain[name])


def node(word: Word, dtype: DataType) -> Expr:
    a, b = Var("a", dtype), Var("b", dtype)
    return Call(Op.get(word), (a, b), dtype) if isinstance(word, str) else word(a, b)  # type: ignore[call-arg]


def values_of(dtype: DataType) -> list[int]:
    """The ends of a type, what lies around zero, and some powers of two."""
    low, high = int(dtype.min_value), int(dtype.max_value)
    near = [*range(-5, 6), low, low + 1, low // 2, high // 2, high - 1, high]
    powers = [sign << k for k in range(3, dtype.bits, max(1, dtype.bits // 6)) for sign in (1, -1)]
    return sorted({v for v in near + powers if low <= v <= high})


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("word", BINARY, ids=str)
def test_numbers_at_the_ends_of_every_type(word: Word, name: str) -> None:
    dtype = DataType(name)
    op = node(word, dtype)
    compute = operation(word_of(op), dtype)
    assert compute is not None
    for a, b in itertools.product(values_of(dtype), repeat=2):
        wanted = meaning(word, a, b, dtype.bits)
        if wanted is None:
            with pytest.raises(ArithmeticError):
                compute(a, b)
            continue
        found = compute(a, b)
        assert found == wanted and kept(op, found) == wanted, (a, b)
        fits = op.dtype.min_value <= wanted <= op.dtype.max_value
        wraps = [w for w in (wanted, wrap_int(wanted, op.dtype)) if op.dtype.min_value <= w <= op.dtype.max_value]
        assert wrapped(op, found) == wraps[0] and (wraps[0] - wanted) % (1 << op.dtype.bits) == 0, (a, b)
        if fits:
            assert within(op, found) == wanted
        else:
            with pytest.raises(OverflowError, match="does not fit"):
                within(op, found)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("word", BINARY, ids=str)
def test_vectors_are_their_numbers(word: Word, name: str) -> None:
    dtype = DataType(name)
    op = node(word, dtype)
    compute = operation(word_of(op), dtype)
    assert compute is not None
    few = [v for v in values_of(dtype) if abs(v) < LIMIT]
    pairs = list(itertools.product(few, repeat=2))
    defined = [(a, b) for a, b in pairs if meaning(word, a, b, dtype.bits) is not None]
    small = [(a, b) for a, b in defined if abs(int(meaning(word, a, b, dtype.bits) or 0)) < LIMIT]
    reach = max(abs(a) for a, _ in small)
    if word is ir.Mul or word == "tir.shift_left":  # their limit is that of the greatest numbers together
        reach = 1 << 20 if word is ir.Mul else 1 << 8
        small = [(a, b) for a, b in small if abs(a) <= reach and abs(b) <= (reach if word is ir.Mul else 30)]
    x, y = (np.array([pair[side] for pair in small], np.int64) for side in (0, 1))
    found = np.broadcast_to(compute(x, y), x.shape)
    assert [int(v) for v in found] == [int(compute(a, b)) for a, b in small]
    numbers = [wrapped(op, compute(a, b)) for a, b in small]
    if dtype.is_uint and dtype.bits == 64 and any(v < 0 for v in found):
        with pytest.raises(OverflowError, match="no number of 64 bits with a sign"):
            wrapped(op, found)
    else:
        assert [int(v) for v in wrapped(op, found)] == numbers
    for a, b in small[:40]:  # a number beside a vector
        assert int(compute(np.array([a]), b)[0]) == int(compute(a, np.array([b]))[0]) == int(compute(a, b))
    if len(defined) < len(pairs):
        x, y = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
        with pytest.raises(ArithmeticError):
            compute(x, y)


def test_vectors_beyond_their_limit_are_refused() -> None:
    large = np.array([1, LIMIT - 1])
    for word, a, b in ((ir.Mul, large, 2), (ir.Mul, 2, large), (ir.FloorDiv, large, 1 << 70), (ir.Mod, 3, large + 1)):
        with pytest.raises(OverflowError, match=r"beyond 2\*\*62"):
            EXACT[word](a, b)
        assert exact(word, a, b) is None
    with pytest.raises(OverflowError, match=r"beyond 2\*\*62"):
        EXACT["tir.shift_left"](large, np.array([0, 1]))
    with pytest.raises(OverflowError, match=r"beyond 2\*\*62"):
        kept(node(ir.Add, DataType("int64")), large + 1)
    with pytest.raises(OverflowError, match=r"reach 4611686018427387904, beyond 2\*\*62"):
        EXACT[ir.Mul](np.array([1 << 61]), 2)
    assert EXACT[ir.Mul](1 << 70, 1 << 70) == 1 << 140
    assert magnitude(np.array([], np.int64)) == 0 and magnitude(np.array([3, -5])) == magnitude(-5) == 5


def test_a_choice_asks_for_what_it_chooses() -> None:
    nothing = ZeroDivisionError("division by zero")
    assert EXACT[ir.And](0, nothing) == 0 and EXACT[ir.Or](1, nothing) == 1
    assert EXACT[ir.Select](1, 5, nothing) == EXACT["tir.if_then_else"](0, nothing, 5) == 5
    for word, operands in (
        (ir.And, (1, nothing)),
        (ir.Or, (0, nothing)),
        (ir.And, (nothing, 0)),
        (ir.Select, (0, 5, nothing)),
    ):
        with pytest.raises(ZeroDivisionError):
            EXACT[word](*operands)
    mask = np.array([True, False])
    assert EXACT[ir.Select](mask, np.array([1, 2]), 9).tolist() == [1, 9]
    assert EXACT[ir.And](mask, np.array([True, True])).tolist() == [1, 0]
    assert EXACT[ir.Or](mask, np.array([False, True])).tolist() == [1, 1]


def test_what_is_no_operation_of_scalar_integers() -> None:
    int32, half = DataType("int32"), DataType("float16")
    assert operation(ir.Add, half) is None and operation(ir.Add, DataType("int32x4")) is None
    assert operation("tir.exp", int32) is None and operation(IntImm, int32) is None
    truth = operation(ir.Cast, DataType("bool"))
    assert truth is not None and truth(256) == 1 and exact(ir.Add, 1, None) is None
