"""The arithmetic of the judge's programs, on plain integers: `//` and `%` floor, and what is data wraps at 32 bits."""

from __future__ import annotations

import operator
from collections.abc import Callable

from tests.judge.program import SIZES, Expr

__all__ = [
    "ARITHMETIC",
    "RULES",
    "Meaningless",
    "chosen",
    "folded",
    "has_wide_numbers",
    "is_zero",
    "known",
    "literal",
    "narrow",
    "wrap",
]


class Meaningless(Exception):
    """The program has no result for these inputs."""


def wrap(value: int) -> int:
    """To int32."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


def narrow(value: int, dtype: str) -> int:
    """To an integer type."""
    bits = SIZES[dtype] * 8
    value %= 1 << bits
    return value - (1 << bits) if not dtype.startswith("u") and value >> (bits - 1) else value


def _floor_div(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return a // b


def _floor_mod(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return a % b


def _trunc_div(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _trunc_mod(a: int, b: int) -> int:
    return a - b * _trunc_div(a, b)


def _amount(b: int) -> int:
    if not 0 <= b < 32:
        raise Meaningless("shift amount")
    return b


def _shift_left(a: int, b: int) -> int:
    return a << _amount(b)


def _shift_right(a: int, b: int) -> int:
    return a >> _amount(b)


def _select(condition: bool, one: int, two: int) -> int:
    return one if condition else two


RULES: dict[str, Callable[..., int]] = {
    "floor_div": _floor_div, "floor_mod": _floor_mod, "trunc_div": _trunc_div, "trunc_mod": _trunc_mod,
    "shift_left": _shift_left, "shift_right": _shift_right, "select": _select,
}  # fmt: skip
"""What a translated program calls, by its name there."""

ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": _floor_div, "%": _floor_mod, "tdiv": _trunc_div,
    "tmod": _trunc_mod, "min": min, "max": max,
}  # fmt: skip
"""What keeps indices indices."""

_LITERAL = {
    **ARITHMETIC, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": _shift_left, ">>": _shift_right,
}  # fmt: skip
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "//": 1, "tdiv": 1}


_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def literal(expr: Expr) -> int | None:
    """The number that the script has in the place of an expression, of which it evaluates nothing then."""
    kind = expr[0]
    if kind == "c":
        return int(expr[1])
    if kind not in _LITERAL:
        return None
    a, b = literal(expr[1]), literal(expr[2])
    if (kind == "*" and 0 in (a, b)) or (kind in ("%", "tmod") and b == 1):
        return 0
    if kind in ("//", "tdiv", "%", "tmod") and a == 0 and b != 0:
        return 0
    if a is None or b is None:
        return None
    try:
        number = _LITERAL[kind](a, b)
    except Meaningless:
        return None
    return number if wrap(number) == number else None


def is_zero(expr: Expr) -> bool:
    """Whether the script has 0 in the place of an operation."""
    return expr[0] != "c" and literal(expr) == 0


def known(condition: Expr) -> bool | None:
    """The value of a condition that the script has in its place: one part of it can be enough."""
    kind = condition[0]
    if kind in ("and", "or"):
        parts = [known(part) for part in condition[1:]]
        enough = kind == "or"
        return enough if enough in parts else None if None in parts else not enough
    if kind == "not":
        inner = known(condition[1])
        return None if inner is None else not inner
    a, b = (literal(part) for part in condition[-2:]) if kind == "cmp" else (None, None)
    return None if a is None or b is None else _COMPARISONS[condition[1]](a, b)


def chosen(expr: Expr) -> Expr:
    """Of a choice by a condition on numbers, what is chosen: the script has it in the choice's place."""
    while expr[0] in ("ite", "sel"):
        which = known(expr[1])
        if which is None:
            break
        expr = expr[2] if which else expr[3]
    return expr


def folded(expr: Expr) -> Expr:
    """An expression as the script has it: numbers in the place of those of numbers, and no operation that does nothing."""
    number = literal(expr)
    if number is not None:
        return ("c", number)
    if expr[0] in _NEUTRAL and literal(expr[2]) == _NEUTRAL[expr[0]]:
        return folded(expr[1])
    if expr[0] in ("+", "*") and literal(expr[1]) == _NEUTRAL[expr[0]]:
        return folded(expr[2])
    return tuple(
        folded(part) if isinstance(part, tuple) and part and isinstance(part[0], str) else part for part in expr
    )


def has_wide_numbers(part: object) -> bool:
    """Whether some number needs 64 bits: what the script adds to it has 64 bits too, which the judge does not follow."""
    if not isinstance(part, tuple):
        return False
    if len(part) == 2 and part[0] == "c" and isinstance(part[1], int):
        return wrap(part[1]) != part[1]
    return any(map(has_wide_numbers, part))
