"""Modular sets: what is known of an expression's remainder, ``coeff * k + base`` for some integer ``k``.

``coeff`` 0 is the constant ``base``; ``coeff`` 1 knows nothing. Types other than int32 and int64 wrap, so only powers
of two survive their sums and products.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from tirlower import ir
from tirlower.arith.affine import LINEAR
from tirlower.arith.bounds import is_index_type
from tirlower.arith.mixed_radix import DIVISIONS
from tirlower.ir import Expr, IntImm, Var
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["ModularAnalysis", "ModularSet", "intersect"]


class ModularSet(NamedTuple):
    """The integers ``coeff * k + base``.

    >>> ModularSet(4, 3)
    ModularSet(coeff=4, base=3)
    """

    coeff: int
    base: int


EVERYTHING = ModularSet(1, 0)
_new_tuple = tuple.__new__
"""Makes a named tuple without the function around it."""


def _normal(coeff: int, base: int) -> ModularSet:
    coeff = abs(coeff)
    return _new_tuple(ModularSet, (coeff, base % coeff if coeff else base))


def _union(a: ModularSet, b: ModularSet) -> ModularSet:
    coeff = math.gcd(math.gcd(a.coeff, b.coeff), a.base - b.base)
    return _normal(coeff, a.base)


def intersect(a: ModularSet, b: ModularSet) -> ModularSet | None:
    """The integers in both sets (Chinese remainders), or None when there are none."""
    if a.coeff == 0 or b.coeff == 0:
        one, other = (a, b) if a.coeff == 0 else (b, a)
        fits = one.base == other.base if other.coeff == 0 else (one.base - other.base) % other.coeff == 0
        return one if fits else None
    shared = math.gcd(a.coeff, b.coeff)
    if (b.base - a.base) % shared:
        return None
    step = b.coeff // shared
    factor = 0 if step == 1 else (b.base - a.base) // shared * pow(a.coeff // shared, -1, step) % step
    return _normal(a.coeff // shared * b.coeff, a.base + a.coeff * factor)


def _mul(a: ModularSet, b: ModularSet) -> ModularSet:
    if b.coeff == 0:
        return _normal(a.coeff * b.base, a.base * b.base)
    coeff = math.gcd(math.gcd(a.coeff * b.coeff, a.coeff * b.base), a.base * b.coeff)
    return _normal(coeff, a.base * b.base)


_AND, _SHL, _SHR = (Op.get(f"tir.{name}") for name in ("bitwise_and", "shift_left", "shift_right"))
_ITE, _LIKELY = Op.get("tir.if_then_else"), Op.get("tir.likely")
_ARITHMETIC: frozenset[type[ir.BinaryOp]] = frozenset(
    (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod)
)


class ModularAnalysis:
    """Modular sets of expressions under the facts of one analyzer."""

    __slots__ = ("_analyzer", "memo")

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.memo: dict[Expr, ModularSet] = {}

    def of(self, root: Expr) -> ModularSet:
        """The modular set of an integer expression."""
        memo = self.memo
        found = memo.get(root)
        if found is not None:
            return found
        facts, interner = self._analyzer.facts, self._analyzer.interner
        stack = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            kind = op.__class__
            if kind is IntImm or kind is Var:
                memo[op] = self._leaf(op) or EVERYTHING
                stack.pop()
                continue
            if op.__class__ in LINEAR and is_index_type(op.dtype):
                # The bulk of index arithmetic, without the lists of operands.
                left, right = op.a, op.b
                a, b = memo.get(left) or self._leaf(left), memo.get(right) or self._leaf(right)
                if a is None or b is None:
                    if b is None:
                        stack.append(right)
                    if a is None:
                        stack.append(left)
                    continue
                stack.pop()
                if kind is ir.Mul:
                    value = _mul(a, b)
                else:
                    coeff = math.gcd(a[0], b[0])
                    base = a[1] + b[1] if kind is ir.Add else a[1] - b[1]
                    value = _new_tuple(ModularSet, (coeff, base % coeff if coeff else base))
                if facts.beyond_variables:
                    known = facts.moduli.get(interner.representative(op))
                    if known is not None:
                        value = intersect(value, known) or value
                memo[op] = value
                continue
            parts = _operands(op)
            if op.__class__ is ir.Let:
                own = self._analyzer.lets.own(op)
                if own is not op:
                    if own in memo:
                        memo[op] = memo[own]
                    else:
                        stack.append(own)
                    continue
            if op.__class__ is ir.Let and parts and op.body not in memo:
                if op.value not in memo:
                    stack.append(op.value)
                    continue
                if memo[op.value].coeff != 1:
                    facts.restrict_modulus(op.var, memo[op.value])
            waiting = [part for part in parts if part not in memo]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            value = EVERYTHING if not parts else self._combine(op, [memo[part] for part in parts])
            if facts.beyond_variables:
                known = facts.moduli.get(interner.representative(op))
                if known is not None:
                    value = intersect(value, known) or value
            memo[op] = value
        return memo[root]

    def _leaf(self, op: Expr) -> ModularSet | None:
        """The modular set of a constant or a variable; None for others."""
        if op.__class__ is IntImm:
            return _new_tuple(ModularSet, (0, op.value))
        if op.__class__ is Var:
            return self._analyzer.facts.moduli.get(op, EVERYTHING)
        return None

    def _combine(self, op: Expr, parts: list[ModularSet]) -> ModularSet:
        kind = op.__class__
        value = EVERYTHING
        if kind is ir.Add:
            value = _normal(math.gcd(parts[0].coeff, parts[1].coeff), parts[0].base + parts[1].base)
        elif kind is ir.Sub:
            value = _normal(math.gcd(parts[0].coeff, parts[1].coeff), parts[0].base - parts[1].base)
        elif kind is ir.Mul:
            value = _mul(*parts)
        elif op.__class__ in DIVISIONS:
            return self._divide(op, *parts)
        elif kind in (ir.Min, ir.Max, ir.Select):
            return _union(*parts)
        elif op.__class__ is ir.Cast:
            bound = self._analyzer.bounds.of(op.value)
            limits = (op.dtype.min_value, op.dtype.max_value)
            if limits[0] <= bound[0] and bound[1] <= limits[1]:
                return parts[0]
            # What does not fit is known modulo 2**bits.
            return (
                EVERYTHING if op.dtype.is_bool else _normal(math.gcd(parts[0].coeff, 1 << op.dtype.bits), parts[0].base)
            )
        elif op.__class__ is ir.Call:
            return self._call(op, parts)
        elif kind is ir.Let:
            return parts[-1]
        if not is_index_type(op.dtype) and value.coeff:
            # The sum is known modulo 2**bits only.
            coeff = math.gcd(value.coeff, 1 << op.dtype.bits)
            return _normal(coeff, value.base)
        if not is_index_type(op.dtype):
            return ModularSet(0, ir.wrap_int(value.base, op.dtype))
        return value

    def _divide(self, op: ir.BinaryOp, a: ModularSet, b: ModularSet) -> ModularSet:
        divisor = b.base
        if b.coeff or divisor == 0:
            return EVERYTHING
        floors = op.__class__ in (ir.FloorDiv, ir.FloorMod)
        # Truncation is flooring where nothing is negative, and exact where the divisor divides.
        exact = divisor != 0 and a.coeff % divisor == 0 and a.base % divisor == 0
        if not (floors or exact or (divisor > 0 and self._analyzer.bounds.of(op.a)[0] >= 0)):
            return EVERYTHING
        if op.__class__ in (ir.FloorMod, ir.Mod):
            if a.coeff % divisor == 0:
                return ModularSet(0, a.base % divisor)
            return _normal(math.gcd(a.coeff, divisor), a.base)
        if a.coeff % divisor == 0:
            return _normal(a.coeff // divisor, a.base // divisor)
        return EVERYTHING

    def _call(self, op: ir.Call, parts: list[ModularSet]) -> ModularSet:
        if op.op is _ITE:
            return _union(*parts)
        if op.op is _LIKELY:
            return parts[0]
        a, b = parts
        if b.coeff == 0:
            if op.op is _AND:
                # x & -(2**n) is a multiple of 2**n; x & (2**n - 1) is x modulo 2**n.
                low = (b.base & -b.base) or 1
                if b.base >= 0 and b.base & (b.base + 1) == 0:
                    coeff = math.gcd(a.coeff, b.base + 1)
                    return ModularSet(0, a.base & b.base) if a.coeff % (b.base + 1) == 0 else _normal(coeff, a.base)
                return _normal(low, 0)
            if op.op is _SHL and 0 <= b.base < 64:
                value = _mul(a, ModularSet(0, 1 << b.base))
                return (
                    value if is_index_type(op.dtype) else _normal(math.gcd(value.coeff, 1 << op.dtype.bits), value.base)
                )
            if op.op is _SHR and 0 <= b.base < 64 and a.coeff % (1 << b.base) == 0:
                return _normal(a.coeff >> b.base, a.base >> b.base)
        return EVERYTHING


def _operands(op: Expr) -> tuple[Expr, ...]:
    if not (op.dtype.is_int or op.dtype.is_uint) or op.dtype.lanes != 1:
        return ()
    if op.__class__ in _ARITHMETIC:
        return (op.a, op.b)
    if op.__class__ is ir.Select:
        return (op.true_value, op.false_value)
    if op.__class__ is ir.Cast:
        return (op.value,) if op.value.dtype.is_int or op.value.dtype.is_uint else ()
    if op.__class__ is ir.Let:
        return (op.body,)
    if op.__class__ is ir.Call:
        if op.op is _ITE:
            return (op.args[1], op.args[2])
        if op.op is _LIKELY:
            return (op.args[0],)
        if op.op in (_AND, _SHL, _SHR):
            return tuple(op.args)
    return ()
