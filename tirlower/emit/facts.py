"""What is known about integer expressions without running them: ranges, divisibility, and how they may be evaluated.

Ranges are those of exact arithmetic on the leaves' ranges. A node whose exact range leaves its type may wrap: it and
what is built on it carry :data:`WRAPS`, and as data the type's whole range is all that is known of them. Index
arithmetic of 32 bits is exact beyond its type wherever it decides which memory is touched (:mod:`tirlower.emit.exact`):
such nodes carry :data:`LEAVES` too.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tirlower.arith.bounds import BINARY
from tirlower.arith.intervals import EVERYTHING, Bound
from tirlower.ir.data import SAME, SMALL_BITS
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    Add,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
)
from tirlower.ir.op import Op, Purity

__all__ = ["BITS", "DATA", "FAULTS", "HEAVY", "LEAVES", "WRAPS", "Fact", "Facts"]

#: depends on memory, on a call or on a value of unknown origin: wrap-around may be intended
DATA: Final = 1
#: the expression, or a part of it, may leave its type's range
WRAPS: Final = 2
#: evaluating it reads memory, may fail, or has effects: only to be done where the program does
FAULTS: Final = 4
#: costs more than a few instructions
HEAVY: Final = 8
#: signed arithmetic of 32 bits in it may leave its range
LEAVES: Final = 16
#: made of a number's bits
BITS: Final = 32

_MOST: Final = 1 << 16  # the greatest divisor of interest


class Fact(NamedTuple):
    """The range ``low .. high``, a power of two that divides the value, and flags."""

    low: int
    high: int
    divisor: int
    flags: int


_UNKNOWN: Final = Fact(-(1 << 64), 1 << 64, 1, 0)
_IF: Final = Op.get("tir.if_then_else")
_SHL: Final = Op.get("tir.shift_left")
_SHR: Final = Op.get("tir.shift_right")
_AND: Final = Op.get("tir.bitwise_and")
_BITWISE: Final = frozenset((_AND, Op.get("tir.bitwise_or"), Op.get("tir.bitwise_xor")))
_SHIFTS: Final = frozenset((_SHL, _SHR))
_CHEAP: Final = frozenset(
    Op.get(f"tir.{name}")
    for name in (
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "likely", "fabs",
        "isnan", "isinf", "isfinite", "fma", "floor", "ceil", "trunc", "nearbyint", "reinterpret", "vectorlow",
        "vectorhigh", "vectorcombine", "popcount", "clz", "copysign", "isnullptr", "type_annotation", "vscale",
        "get_active_lane_mask", "large_uint_imm",
    )
)  # fmt: skip


def _type_range(kind: DataType) -> tuple[int, int]:
    if kind.is_integral:
        return int(kind.min_value), int(kind.max_value)
    return -(1 << 64), 1 << 64


def _two_power(value: int) -> int:
    return min(value & -value, _MOST) if value else _MOST


class Facts:
    """Facts of the expressions of one function; variables' facts are stated as they come into scope."""

    def __init__(self) -> None:
        self._known: dict[int, Fact] = {}
        self.kept: list[Expr] = []
        """Expressions that are no part of the program: facts are known by id, which must not be given away again."""
        self._vars: dict[Var, Fact] = {}

    def define(self, var: Var, low: int | None, high: int | None, divisor: int = 1, flags: int = 0) -> None:
        """State what is known of a variable; None for the end of its type's range."""
        least, most = _type_range(var.dtype)
        if var.nonneg:
            least = max(least, 0)
        low, high = least if low is None else max(low, least), most if high is None else min(high, most)
        fact = Fact(low, high, divisor, flags)
        before = self._vars.get(var)
        if before is not None and before != fact:
            # A variable bound in two places: what was concluded in the first need not hold in the second.
            self._known.clear()
        self._vars[var] = fact
        self._known.pop(id(var), None)

    def define_as(self, var: Var, value: Expr) -> None:
        """State that a variable has an expression's value."""
        fact = self.of(value)
        if self.leaves(value):
            self.define(var, None, None, fact.divisor)
            self._vars[var] = fact._replace(flags=WRAPS | LEAVES)
            return
        low, high = self.value_range(value)
        self.define(var, low, high, fact.divisor, fact.flags & DATA)

    def value_range(self, expr: Expr) -> tuple[int, int]:
        """The range of an expression's value in its type, wrap-around included."""
        fact = self.of(expr)
        return _type_range(expr.dtype) if fact.flags & WRAPS else (fact.low, fact.high)

    def index_range(self, expr: Expr) -> tuple[int, int]:
        """The range of an index expression, which does not overflow."""
        fact = self.of(expr)
        least, most = _WORD if self.leaves(expr) else _type_range(expr.dtype)
        return max(fact.low, least), min(fact.high, most)

    def range_of(self, expr: Expr) -> tuple[int, int]:
        """The range of an expression's value: of data with wrap-around, of an index without."""
        return self.value_range(expr) if self.of(expr).flags & DATA else self.index_range(expr)

    def data_wraps(self, expr: Expr) -> bool:
        """Whether an expression depends on data and may leave its type: what is computed wraps."""
        return self.of(expr).flags & (DATA | WRAPS) == DATA | WRAPS

    def leaves(self, expr: Expr) -> bool:
        """Whether an expression is index arithmetic of 32 bits that may leave its type: as an index it is exact."""
        return self.of(expr).flags & (DATA | LEAVES) == LEAVES

    def of(self, expr: Expr) -> Fact:
        """The facts of an expression."""
        known = self._known
        found = known.get(id(expr))
        if found is not None:
            return found
        stack: list[tuple[Expr, int]] = [(expr, 0)]
        while stack:
            op, stage = stack.pop()
            if id(op) in known:
                continue
            if op.__class__ is Let and stage < 2:
                stack.append((op, stage + 1))
                if stage == 0:
                    stack.append((op.value, 0))
                else:
                    self.define_as(op.var, op.value)
                    stack.append((op.body, 0))
                continue
            if not op.is_leaf and stage == 0:
                stack.append((op, 1))
                stack += [(child, 0) for child in op.children()]
                continue
            known[id(op)] = self._fact(op)
        return known[id(expr)]

    def _fact(self, op: Expr) -> Fact:
        cls = op.__class__
        if cls is IntImm:
            value: int = op.value  # type: ignore[attr-defined]
            return Fact(value, value, _two_power(value), 0)
        if cls is Var:
            return self._vars.get(op) or self._free(op)  # type: ignore[call-overload, arg-type]
        known = self._known
        flags = 0
        for child in op.children():
            flags |= known[id(child)].flags
        if isinstance(op, CompareOp):
            return Fact(0, 1, 1, flags & ~(WRAPS | LEAVES))
        dtype = op.dtype
        if not dtype.is_integral:
            return self._opaque(op, flags)
        low, high, divisor = (*_type_range(dtype), 1)
        if cls in BINARY:
            a, b = known[id(op.a)], known[id(op.b)]  # type: ignore[attr-defined]
            low, high = _exact(cls, a, b) or (low, high)
            divisor = _divisor(cls, a, b)
            if cls in _DIVISIONS and b.low <= 0 <= b.high:
                flags |= FAULTS
            if cls in _QUOTIENTS and a.low <= low and b.low <= -1 <= b.high:
                flags |= WRAPS  # the least integer by -1
            if dtype.is_uint and (a.flags | b.flags) & DATA:
                flags |= DATA
        elif cls is Cast:
            source = known[id(op.value)]  # type: ignore[attr-defined]
            if dtype.is_int and dtype.bits == 64 and source.flags & (DATA | LEAVES) == LEAVES:
                low, high, divisor, flags = source.low, source.high, source.divisor, flags & ~(WRAPS | LEAVES)
            elif op.value.dtype.is_integral:  # type: ignore[attr-defined]
                # What is converted is the value in its type; one that is changed by it may be any.
                least, most = _type_range(op.value.dtype.element) if source.flags & WRAPS else source[:2]  # type: ignore[attr-defined]
                if low <= least and most <= high:
                    low, high, divisor = least, most, 1 if source.flags & WRAPS else source.divisor
                flags &= ~(WRAPS | LEAVES)
            else:
                flags |= DATA
        elif cls is Let:
            body = known[id(op.body)]  # type: ignore[attr-defined]
            return body._replace(flags=body.flags | flags & _EVALUATION)
        elif cls is Ramp:
            base, stride = known[id(op.base)], known[id(op.stride)]  # type: ignore[attr-defined]
            last = dtype.lanes - 1
            ends = (stride.low * last, stride.high * last, 0)
            low, high = base.low + min(ends), base.high + max(ends)
            divisor = min(base.divisor, stride.divisor)
        elif cls is Broadcast:
            return known[id(op.value)]  # type: ignore[attr-defined]
        elif cls is Select:
            low, high, divisor, flags = _choice(known, op.condition, op.true_value, op.false_value)  # type: ignore[attr-defined]
        elif cls is Call:
            return self._call(op, flags)  # type: ignore[arg-type]
        else:
            return self._opaque(op, flags)
        return self._checked(dtype, low, high, divisor, flags)

    def _free(self, var: Var) -> Fact:
        least, most = _type_range(var.dtype)
        # A variable of unknown origin counts as an index; a float's or pointer's range means nothing.
        return Fact(max(least, 0) if var.nonneg else least, most, 1, 0)

    @staticmethod
    def _checked(kind: DataType, low: int, high: int, divisor: int, flags: int) -> Fact:
        least, most = _type_range(kind)
        if low < least or high > most:
            index = kind.is_int and kind.bits == 32
            flags |= WRAPS | (LEAVES if index else 0)
        return Fact(low, high, divisor, flags)

    @staticmethod
    def _opaque(op: Expr, flags: int) -> Fact:
        if op.__class__ is BufferLoad:
            flags |= DATA | FAULTS
        elif op.__class__ is Call:
            callee = op.op
            flags |= DATA
            if callee.__class__ is not Op or callee.purity > Purity.PURE:
                flags |= FAULTS | HEAVY
            elif callee not in _CHEAP:
                flags |= HEAVY
        return Fact(*_type_range(op.dtype), 1, flags & ~(WRAPS | LEAVES))

    def _call(self, op: Call, flags: int) -> Fact:
        known, args = self._known, op.args
        if op.op is _IF:
            return self._checked(op.dtype, *_choice(known, *args))
        if op.op in SAME:
            return known[id(args[0])]
        if op.op in _SHIFTS and (by := _number(args[1])) is not None and 0 <= by < op.dtype.bits:
            a = known[id(args[0])]
            if op.op is _SHL:
                factor = 1 << by
                return self._checked(op.dtype, a.low * factor, a.high * factor, min(a.divisor * factor, _MOST), flags)
            if not _wraps(a):
                return self._checked(op.dtype, a.low >> by, a.high >> by, 1, flags)
        if op.op in _SHIFTS and not flags & DATA:
            a, amounts = known[id(args[0])], _amounts(known[id(args[1])], op.dtype.bits)
            ends = [end << n if op.op is _SHL else end >> n for end in (a.low, a.high) for n in amounts]
            return self._checked(op.dtype, min(ends), max(ends), 1, flags)
        if op.op in _BITWISE:
            a, b, flags = known[id(args[0])], known[id(args[1])], flags | BITS
            if op.op is _AND and b.low == b.high >= 0 and not b.high & (b.high + 1):
                return Fact(0, b.high, 1, flags & ~(WRAPS | LEAVES))  # the lowest bits are those of what wrapped too
            if a.low >= 0 and b.low >= 0 and min(a.high, b.high) <= SMALL_BITS:
                high = min(a.high, b.high) if op.op is _AND else (1 << max(a.high, b.high).bit_length()) - 1
                return self._checked(op.dtype, 0, high, 1, flags)
            if op.op is _AND and b.low == b.high >= 0:
                return Fact(0, b.high, _two_power(b.high), flags & ~(WRAPS | LEAVES))
            if not flags & DATA:
                # No bit is set, or cleared, above those of the operands.
                bits = max(end.bit_length() for end in (a.low, a.high, b.low, b.high))
                low = 0 if a.low >= 0 and b.low >= 0 else -(1 << bits)
                return self._checked(op.dtype, low, (1 << bits) - 1, 1, flags)
        return self._opaque(op, flags)


_WORD: Final = (-(1 << 63), (1 << 63) - 1)
_EVALUATION: Final = FAULTS | HEAVY


def _amounts(a: Fact, bits: int) -> tuple[int, int]:
    """The least and the greatest amount of a shift, which is less than the bits of its type."""
    low = min(max(a.low, 0), bits - 1)
    return low, bits - 1 if _wraps(a) else max(min(a.high, bits - 1), low)


def _number(op: Expr) -> int | None:
    """The one number that an expression is, in all lanes."""
    if isinstance(op, Broadcast):
        op = op.value
    return op.value if isinstance(op, IntImm) else None


def _choice(known: dict[int, Fact], condition: Expr, then: Expr, other: Expr) -> tuple[int, int, int, int]:
    """What is known of a choice: data is what it chooses between, whatever chooses."""
    a, b = known[id(then)], known[id(other)]
    return *_union(a, b), a.flags | b.flags | known[id(condition)].flags & _EVALUATION


def _union(a: Fact, b: Fact) -> tuple[int, int, int]:
    return min(a.low, b.low), max(a.high, b.high), min(a.divisor, b.divisor)


def _wraps(a: Fact) -> bool:
    """Whether what is evaluated may be another number than exact arithmetic's."""
    return bool(a.flags & WRAPS) and a.flags & (DATA | LEAVES) != LEAVES


def _exact(cls: type, a: Fact, b: Fact) -> tuple[int, int] | None:
    """The range of an operation's exact results; None where nothing is known of them."""
    dividend: Bound = a.low, a.high
    if cls in _DIVISIONS and (b.low <= 0 or _wraps(a)):
        if b.low <= 0 or cls in _QUOTIENTS:
            return None
        dividend = EVERYTHING
    low, high = BINARY[cls](dividend, (b.low, b.high))
    return int(low), int(high)


_DIVISIONS: Final[frozenset[type[BinaryOp]]] = frozenset({Div, Mod, FloorDiv, FloorMod})
_QUOTIENTS: Final[frozenset[type[BinaryOp]]] = frozenset({Div, FloorDiv})


def _divisor(cls: type, a: Fact, b: Fact) -> int:
    if cls in (Add, Sub, Min, Max):
        return min(a.divisor, b.divisor)
    if cls is Mul:
        return min(a.divisor * b.divisor, _MOST)
    if cls is FloorMod and b.low == b.high:
        return min(a.divisor, b.divisor)
    return 1
