"""Index arithmetic that leaves 64 bits: it wraps there, in the interpreter and in machine code.

As far as 64 bits index arithmetic is exact, and what rules say of numbers is true of it. Past them it is not:
``i * 6364136223846793005 > 0`` is no ``i > 0``. :class:`WordReach` finds the operations that may get there. Of sizes, and
of loops over them, it takes nothing to be known: calls for which their products leave a word are refused
(:mod:`tirlower.poly.words`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tirlower.arith.analyzer import MAX_VSCALE
from tirlower.ir.data import SAME, chosen_of
from tirlower.ir.expr import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    Expr,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Shuffle,
    Sub,
    Var,
)
from tirlower.ir.op import Op

__all__ = ["BEYOND", "WordReach"]

_WORD: Final = (1 << 63) - 1
BEYOND: Final = 1 << 64
"""The reach of what may be any word."""

_SUMS: Final = frozenset((Add, Sub))
_EXTREMA: Final = frozenset((Min, Max))
_ADDING: Final = frozenset((Add, Sub, Mul, Ramp))
_LEFT: Final = Op.get("tir.shift_left")
_BITS: Final = frozenset(Op.get(f"tir.bitwise_{name}") for name in ("and", "or", "xor"))
_CALLS: Final = frozenset((*SAME, *_BITS, _LEFT, Op.get("tir.shift_right")))


class WordReach:
    """How far from 0 the values of index arithmetic may be; ``known`` says it of variables, or None.

    >>> i, n = Var("i", "int64"), Var("n", "int64")
    >>> reach = WordReach({i: 9}.get)
    >>> [str(op) for op in reach.leaving(i * (1 << 62) > 0)], reach.leaving(i * n * 4096 > 0)
    (['i * T.int64(4611686018427387904)'], [])
    """

    def __init__(self, known: Callable[[Var], int | None]) -> None:
        self.known = known

    def of(self, root: Expr) -> int:
        """How far from 0 an expression's values may be."""
        return self._walk(root)[0]

    def leaving(self, root: Expr) -> list[Expr]:
        """The sums, products, ramps and shifts of an expression whose values may be past 64 bits."""
        return self._walk(root)[1]

    def _walk(self, root: Expr) -> tuple[int, list[Expr]]:
        reach: dict[int, int] = {}
        named: dict[Var, int] = {}
        found: list[Expr] = []
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if id(op) in reach:
                stack.pop()
                continue
            operands = () if op.is_leaf else tuple(op.children())
            waiting = [c for c in operands if id(c) not in reach]
            if op.__class__ is Let and id(op.value) in reach:
                named[op.var] = reach[id(op.value)]
            elif op.__class__ is Let:
                waiting = [op.value]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if op.__class__ is Var:
                far = named.get(op) or self.known(op) or 1
            else:
                far = abs(op.value) if op.__class__ is IntImm else _of_node(op, reach)
            if far > _WORD:
                far = BEYOND
                if op.dtype.element.is_int and _adds_up(op):
                    found.append(op)
            reach[id(op)] = far
        return reach[id(root)], found


def _adds_up(op: Expr) -> bool:
    """Whether an operation may give what is farther from 0 than all that it is made of."""
    return op.__class__ in _ADDING or (isinstance(op, Call) and op.op is _LEFT)


def _of_node(op: Expr, reach: dict[int, int]) -> int:
    """The reach of a node's value, from that of its operands."""
    if isinstance(op, BinaryOp):
        kind, a, b = op.__class__, reach[id(op.a)], reach[id(op.b)]
        if kind is Mul:
            return a * b
        if kind in _SUMS:
            return a + b
        if kind is FloorMod:
            return b  # 1 % -8 is -7
        if kind is Mod:
            return min(a, b)
        return max(a, b) if kind in _EXTREMA else a  # a quotient's divisor is no fraction
    if isinstance(op, Ramp):
        return reach[id(op.base)] + reach[id(op.stride)] * op.dtype.lanes * (MAX_VSCALE if op.dtype.scalable else 1)
    if isinstance(op, Call) and op.op in _CALLS:
        a, b = (reach[id(op.args[at])] for at in (0, -1))
        if op.op is _LEFT:
            return a << min(b, 64)
        return a + b if op.op in _BITS else a
    return max((reach[id(value)] for value in _values_of(op)), default=1)


def _values_of(op: Expr) -> tuple[Expr, ...]:
    """What any other node's values are values of; nothing for data."""
    if isinstance(op, (Cast, Broadcast)):
        return (op.value,)
    if isinstance(op, Let):
        return (op.body,)
    return op.vectors if isinstance(op, Shuffle) else chosen_of(op)
