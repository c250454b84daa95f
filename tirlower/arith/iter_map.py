"""Iteration maps: index expressions as digits of iterators.

A *mark* is an iterator: a loop variable, or the sum of digits that a fusion makes. A *split* is one digit of a mark,
``((mark // lower_factor) % extent) * scale``, and an index is a sum of splits plus a base. When the splits of each mark
neither overlap nor leave gaps, the map from loop variables to indices is one to one, whatever was split, fused or
reordered on the way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from tirlower import ir
from tirlower.arith.affine import LINEAR
from tirlower.arith.mixed_radix import DIVISIONS
from tirlower.diagnostics import TirError
from tirlower.ir import Expr, IntImm, Range, Var, build, is_const_int
from tirlower.ir.node import Node
from tirlower.ir.query import mentions

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = [
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplit",
    "IterSplitExpr",
    "IterSum",
    "IterSumExpr",
    "NotAMap",
    "split_expr",
    "sum_expr",
]


class IterMapLevel(enum.IntEnum):
    """What is asked of a map: that it is one to one and onto, that no two digits overlap, or nothing."""

    BIJECTIVE = 0
    SURJECTIVE = 1
    NO_CHECK = 3
    Bijective = BIJECTIVE
    Surjective = SURJECTIVE
    NoCheck = NO_CHECK

    @classmethod
    def of(cls, value: IterMapLevel | str | int) -> IterMapLevel:
        """The level by its name (``"bijective"``, ``"surjective"``, ``"nocheck"``) or number.

        Raises :class:`TirError` for another one.
        """
        if isinstance(value, str):
            found = cls.__members__.get({"nocheck": "NO_CHECK"}.get(value.lower(), value.upper()))
        else:
            found = next((level for level in cls if level == value), None)
        if found is None:
            raise TirError(
                f"there is no level {value!r} of a check of iteration maps",
                help="the levels are 'bijective', 'surjective' and 'nocheck'",
            )
        return found


class IterMark:
    """An iterator: ``source`` takes each value from 0 to ``extent - 1``. Compared by identity.

    The source is a sum of splits, or an expression: an input variable less its least value. ``var`` and ``start`` are
    those two. ``overlaps`` says that the splits of a sum reach into one another: all values occur, some more than once.
    """

    __slots__ = ("extent", "overlaps", "source", "start", "var")

    def __init__(self, source: Expr | IterSum, extent: Expr, var: Var | None = None, start: Expr | None = None) -> None:
        self.source = source
        self.extent = extent
        self.overlaps = False
        self.var = source if isinstance(source, Var) else var
        self.start = start

    def __repr__(self) -> str:
        return f"IterMark({self.source}, extent={self.extent})"


class IterSplit:
    """``((mark // lower_factor) % extent) * scale``."""

    __slots__ = ("extent", "lower_factor", "scale", "source")

    def __init__(self, source: IterMark, lower_factor: Expr, extent: Expr, scale: Expr) -> None:
        self.source = source
        self.lower_factor = lower_factor
        self.extent = extent
        self.scale = scale

    def scaled(self, scale: Expr) -> IterSplit:
        """The split with another scale."""
        return IterSplit(self.source, self.lower_factor, self.extent, scale)

    def __repr__(self) -> str:
        return f"IterSplit({self.source}, lower_factor={self.lower_factor}, extent={self.extent}, scale={self.scale})"


class IterSum:
    """The sum of splits and a base."""

    __slots__ = ("args", "base")

    def __init__(self, args: Sequence[IterSplit], base: Expr) -> None:
        self.args = tuple(args)
        self.base = base

    def __repr__(self) -> str:
        return f"IterSum([{', '.join(map(repr, self.args))}], {self.base})"


IterSplitExpr, IterSumExpr = IterSplit, IterSum
"""TIR's names of the forms."""
IterMapExpr: TypeAlias = IterSplit | IterSum
"""Either form, by TIR's name of what they have in common."""


@dataclass
class IterMapResult:
    """The indices as iteration maps, or what stood in the way.

    ``indices`` is empty where the map was not found. ``padding_predicate`` says which values of the (padded) iterators
    stand for no value of the inputs; it is False without padding.
    """

    indices: list[IterSum]
    errors: list[str] = field(default_factory=list)
    padding_predicate: Expr = field(default_factory=lambda: IntImm(ir.BOOL, 0))


Equal = Callable[[Expr, Expr], bool]


def mark_expr(mark: IterMark, equal: Equal) -> Expr:
    """The value of a mark in the input variables."""
    return sum_expr(mark.source, equal) if isinstance(mark.source, IterSum) else mark.source


def split_expr(split: IterSplit, equal: Equal) -> Expr:
    """The value of a split in the input variables, with no division or remainder that does nothing."""
    value = mark_expr(split.source, equal)
    lower, extent = split.lower_factor, split.extent
    span = build.mul(lower, extent)
    whole = equal(split.source.extent, span)
    if not whole:
        value = build.floormod(value, span)
    if not is_const_int(lower, 1):
        value = build.floordiv(value, lower)
    return build.mul(value, split.scale)


def sum_expr(total: IterSum, equal: Equal) -> Expr:
    """The value of a sum in the input variables."""
    result: Expr | None = None
    for arg in total.args:
        part = split_expr(arg, equal)
        result = part if result is None else build.add(result, part)
    return total.base if result is None else build.add(result, total.base)


class NotAMap(Exception):
    """An expression that is no iteration map, and why."""


class Detector:
    """Rewrites index expressions to sums of splits of the input iterators."""

    def __init__(
        self,
        analyzer: Analyzer,
        input_iters: Mapping[Var, Range],
        level: IterMapLevel,
        simplify_trivial: bool = True,
        padding: bool = False,
    ) -> None:
        self.analyzer = analyzer
        self.level = level
        self.padding = padding
        self.padding_conditions: list[Expr] = []
        self._inputs: dict[Var, IterSum] = {}
        self._fused: dict[object, IterMark] = {}
        self.constraints: list[tuple[list[IterSplit], IterMark, Expr]] = []
        for var, dom in input_iters.items():
            one = IntImm(var.dtype, 1)
            # The digits are those of the offset from the start.
            offset = var if is_const_int(dom.min, 0) else build.sub(var, dom.min)
            mark = IterMark(offset, dom.extent, var, dom.min)
            if simplify_trivial and is_const_int(dom.extent, 1):
                self._inputs[var] = IterSum((), dom.min)
            else:
                self._inputs[var] = IterSum((IterSplit(mark, one, dom.extent, one),), dom.min)

    # -- arithmetic on extents and scales ----------------------------------------------------------------------------
    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two scales or extents are certainly equal."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return self.analyzer.can_prove_equal(a, b)

    def text(self, a: IterSum) -> str:
        """A sum as an expression, for messages."""
        return str(sum_expr(a, self.equal))

    def divides(self, a: Expr, b: Expr) -> bool:
        """Whether ``a`` divides ``b``."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value != 0 and b.value % a.value == 0
        if is_const_int(a, 1) or is_const_int(b, 0):
            return True
        return self.analyzer.can_prove(build.eq(build.floormod(b, a), 0))

    def product(self, a: Expr, b: Expr) -> Expr:
        """The simplified product."""
        return self.analyzer.simplify(build.mul(a, b))

    def quotient(self, a: Expr, b: Expr) -> Expr:
        """The simplified quotient."""
        return self.analyzer.simplify(build.floordiv(a, b))

    # -- expressions -------------------------------------------------------------------------------------------------
    def rewrite(self, root: Expr) -> IterSum:
        """The map of an index expression. Raises :class:`NotAMap`."""
        memo: dict[Expr, IterSum] = {}
        stack = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            if op.__class__ is Var and op in self._inputs:
                memo[op] = self._inputs[op]
            elif not mentions(op, self._inputs):
                memo[op] = IterSum((), self.analyzer.simplify(op))
            elif op.__class__ in LINEAR or op.__class__ in DIVISIONS:
                waiting = [c for c in (op.b, op.a) if c not in memo]
                if waiting:
                    stack += waiting
                    continue
                memo[op] = self._operation(op, memo[op.a], memo[op.b])
            else:
                raise NotAMap(f"{op} is no sum, product with a constant, quotient or remainder of iterators")
            stack.pop()
        return memo[root]

    def _operation(self, op: ir.BinaryOp, a: IterSum, b: IterSum) -> IterSum:
        kind = op.__class__
        if kind is ir.Add:
            return self._sum(a, b, 1)
        if kind is ir.Sub:
            return self._sum(a, b, -1)
        if kind is ir.Mul:
            if a.args and b.args:
                raise NotAMap(f"{op} is a product of iterators")
            return self._times(a, b.base) if a.args else self._times(b, a.base)
        if b.args:
            raise NotAMap(f"the divisor of {op} depends on the iterators")
        if kind in (ir.Div, ir.Mod) and not self.analyzer.can_prove(build.ge(op.a, 0)):
            raise NotAMap(f"{op} truncates, and its dividend may be negative")
        if not self.analyzer.can_prove(build.gt(b.base, 0)):
            if not self.analyzer.can_prove(build.ge(b.base, 0)):
                raise NotAMap(f"the divisor of {op} is not known to be positive")
            # What something is divided by is not zero: a size is positive then, also for what follows.
            self.analyzer.enter_constraint(build.gt(b.base, 0))
        return self._divided(a, b.base, kind in (ir.FloorMod, ir.Mod), op)

    def _sum(self, a: IterSum, b: IterSum, sign: int) -> IterSum:
        args = list(a.args)
        for arg in b.args:
            scale = arg.scale if sign > 0 else self.analyzer.simplify(build.sub(0, arg.scale))
            for position, have in enumerate(args):
                if self._same_digit(have, arg):
                    total = self.analyzer.simplify(build.add(have.scale, scale))
                    if is_const_int(total, 0):
                        del args[position]
                    else:
                        args[position] = have.scaled(total)
                    break
            else:
                args.append(arg.scaled(scale))
        combine = build.add if sign > 0 else build.sub
        return IterSum(args, self.analyzer.simplify(combine(a.base, b.base)))

    def _same_digit(self, a: IterSplit, b: IterSplit) -> bool:
        return a.source is b.source and self.equal(a.lower_factor, b.lower_factor) and self.equal(a.extent, b.extent)

    def _times(self, a: IterSum, factor: Expr) -> IterSum:
        if is_const_int(factor, 0):
            return IterSum((), factor)
        return IterSum([arg.scaled(self.product(arg.scale, factor)) for arg in a.args], self.product(a.base, factor))

    # -- division ----------------------------------------------------------------------------------------------------
    def _divided(self, a: IterSum, c: Expr, remainder: bool, op: Expr | None) -> IterSum:
        zero = IntImm(c.dtype, 0)
        a = self._with_constraints(a)
        if is_const_int(c, 1):
            return IterSum((), zero) if remainder else a
        if not a.args:
            fold = build.floormod if remainder else build.floordiv
            return IterSum((), self.analyzer.simplify(fold(a.base, c)))
        # Terms that are multiples of the divisor come out of a quotient, and vanish from a remainder.
        whole = [arg for arg in a.args if self.divides(c, arg.scale)]
        rest = IterSum([arg for arg in a.args if not any(arg is w for w in whole)], a.base)
        whole_sum = IterSum([w.scaled(self.quotient(w.scale, c)) for w in whole], zero)
        if not rest.args:
            fold = build.floormod if remainder else build.floordiv
            base = self.analyzer.simplify(fold(rest.base, c))
            return IterSum((), base) if remainder else IterSum(whole_sum.args, base)
        if self.divides(c, rest.base):
            base = self.quotient(rest.base, c)
            rest = IterSum(rest.args, zero)
        else:
            base = zero
            if self.padding or (isinstance(rest.base, IntImm) and isinstance(c, IntImm) and c.value > 0):
                # The whole divisors in the base come out too; a symbolic one is padded in front by what is left.
                left = self.analyzer.simplify(build.floormod(rest.base, c))
                base, rest = self.quotient(rest.base, c), IterSum(rest.args, left)
            if self._bounded(rest, c):
                return rest if remainder else IterSum(whole_sum.args, base)
        split = self._aligned(rest, c)
        if split is not None:
            g, high, low = split
            inner = self._divided(high, self.quotient(c, g), remainder, op)
            if remainder:
                return self._sum(self._times(inner, g), low, 1)
            return self._sum(IterSum(whole_sum.args, base), inner, 1)
        digit = self._one_digit(rest, op, c)
        part = self._remainder_of(digit, c, op) if remainder else self._quotient_of(digit, c, op)
        if remainder:
            return part
        return IterSum((*whole_sum.args, *part.args), self.analyzer.simplify(build.add(base, part.base)))

    def _aligned(self, a: IterSum, c: Expr) -> tuple[Expr, IterSum, IterSum] | None:
        """``a`` as ``g * high + low`` with ``0 <= low < g`` where ``g`` divides ``c``: the cut falls between digits."""
        for arg in a.args:
            g = arg.scale
            if is_const_int(g, 1) or not self.divides(g, c) or self.equal(g, c):
                continue
            high = [other for other in a.args if self.divides(g, other.scale)]
            low = IterSum([other for other in a.args if not any(other is h for h in high)], a.base)
            if (low.args or not is_const_int(low.base, 0)) and self._bounded(low, g):
                scaled = [h.scaled(self.quotient(h.scale, g)) for h in high]
                return g, IterSum(scaled, IntImm(g.dtype, 0)), low
        return None

    def _bounded(self, a: IterSum, c: Expr) -> bool:
        """Whether a sum stays within ``0 <= a < c``."""
        value = self._range_of(a)
        if value is None:
            return False
        low, high = value
        return self.analyzer.can_prove(build.ge(low, 0)) and self.analyzer.can_prove(build.lt(high, c))

    def _range_of(self, a: IterSum) -> tuple[Expr, Expr] | None:
        low = high = a.base
        for arg in a.args:
            reach = build.mul(build.sub(arg.extent, 1), arg.scale)
            if not self.analyzer.can_prove(build.ge(arg.scale, 0)):
                return None
            high = build.add(high, reach)
        return self.analyzer.simplify(low), self.analyzer.simplify(high)

    def _one_digit(self, a: IterSum, op: Node | None, c: Expr) -> IterSplit:
        """A sum as one split: its only term, or the mark that fusing its terms makes; padded where that is asked."""
        if len(a.args) == 1 and is_const_int(a.base, 0):
            digit = a.args[0]
        else:
            fused = self.fuse(a)
            if fused is None:
                raise NotAMap(f"the dividend of {op} is no iterator: {self.text(a)}")
            digit = fused.args[0]
            if not is_const_int(fused.base, 0):
                if not (self.padding and is_const_int(digit.scale, 1)):
                    raise NotAMap(f"the dividend of {op} starts at {fused.base}, which is no multiple of the divisor")
                return self._padded(digit, fused.base, c)
        if self.padding and is_const_int(digit.scale, 1) and not self.divides(c, digit.extent):
            if not self.analyzer.can_prove(build.le(digit.extent, c)):
                return self._padded(digit, IntImm(c.dtype, 0), c)
        return digit

    def _padded(self, digit: IterSplit, base: Expr, c: Expr) -> IterSplit:
        """``digit + base`` as a mark whose extent is a multiple of the divisor, and what its padding is."""
        simplify = self.analyzer.simplify
        left = simplify(build.floormod(base, c))
        size = simplify(build.add(left, digit.extent))
        blocks = simplify(build.ceildiv(size, c))
        extent = self.product(blocks, c)
        one = IntImm(c.dtype, 1)
        mark = self._mark_of(IterSum((digit,), left), extent)
        value = build.add(split_expr(digit, self.equal), left)
        block, place = build.floordiv(value, c), build.floormod(value, c)
        if not is_const_int(left, 0):
            self._pads(build.logical_and(simplify(build.eq(block, 0)), simplify(build.lt(place, left))))
        last = simplify(build.floormod(size, c))
        if not is_const_int(last, 0):
            at_end = build.eq(block, build.sub(blocks, 1))
            behind = build.logical_and(simplify(at_end), simplify(build.ge(place, last)))
            if not isinstance(last, IntImm):
                behind = build.logical_and(simplify(build.ne(last, 0)), behind)  # a whole block has nothing behind
            self._pads(behind)
        return IterSplit(mark, one, extent, one)

    def _pads(self, condition: Expr) -> None:
        """Note where a padded iterator stands for no value of the inputs: once, however often it is divided."""
        if not any(self.analyzer.interner.same(condition, known) for known in self.padding_conditions):
            self.padding_conditions.append(condition)

    def _quotient_of(self, digit: IterSplit, c: Expr, op: Expr | None) -> IterSum:
        zero = IntImm(c.dtype, 0)
        if not self.divides(digit.scale, c):
            raise NotAMap(f"in {op}, the scale {digit.scale} of the dividend does not divide the divisor")
        c = self._divisor_of(digit, c, op)
        one = IntImm(c.dtype, 1)
        if self.analyzer.can_prove(build.le(digit.extent, c)):
            return IterSum((), zero)
        if self.divides(c, digit.extent):
            lower = self.product(digit.lower_factor, c)
            return IterSum((IterSplit(digit.source, lower, self.quotient(digit.extent, c), one),), zero)
        if self.level is IterMapLevel.NO_CHECK and self._is_top(digit):
            extent = self.analyzer.simplify(build.ceildiv(digit.extent, c))
            return IterSum((IterSplit(digit.source, self.product(digit.lower_factor, c), extent, one),), zero)
        raise NotAMap(f"in {op}, the divisor does not divide the extent {digit.extent} of the dividend")

    def _divisor_of(self, digit: IterSplit, c: Expr, op: Node | None) -> Expr:
        """What the values of a digit are divided by where the digit, scaled, is divided by ``c``."""
        found = self.quotient(c, digit.scale)
        negative = (
            found.value <= 0 if isinstance(found, IntImm) else isinstance(digit.scale, IntImm) and digit.scale.value < 0
        )
        if negative:
            raise NotAMap(f"in {op}, the dividend falls as its iterator rises")
        return found

    def _is_top(self, digit: IterSplit) -> bool:
        """Whether a digit is the highest of its mark, so that no remainder bounds it."""
        return self.equal(self.product(digit.lower_factor, digit.extent), digit.source.extent)

    def _remainder_of(self, digit: IterSplit, c: Expr, op: Node | None) -> IterSum:
        zero = IntImm(c.dtype, 0)
        if not self.divides(digit.scale, c):
            raise NotAMap(f"in {op}, the scale {digit.scale} of the dividend does not divide the divisor")
        c = self._divisor_of(digit, c, op)
        if self.analyzer.can_prove(build.le(digit.extent, c)):
            return IterSum((digit,), zero)
        if self.divides(c, digit.extent) or (self.level is IterMapLevel.NO_CHECK and self._is_top(digit)):
            return IterSum((IterSplit(digit.source, digit.lower_factor, c, digit.scale),), zero)
        raise NotAMap(f"in {op}, the divisor does not divide the extent {digit.extent} of the dividend")

    # -- fusion ------------------------------------------------------------------------------------------------------
    def constrain(self, a: IterSum, low: Expr | None, high: Expr | None) -> None:
        """Note that ``low <= a < high`` for a sum of iterators (a predicate of the loop nest)."""
        a = self._with_constraints(a)  # a bound on a part of it is known already
        fused = self.fuse(a)
        if fused is None or not fused.args or not is_const_int(fused.args[0].scale, 1):
            raise NotAMap(f"the predicate bounds {self.text(a)}, which is no iterator")
        digit = fused.args[0]
        simplify = self.analyzer.simplify
        zero = IntImm(digit.extent.dtype, 0)
        start = zero if low is None else simplify(build.max_(build.sub(low, fused.base), 0))
        end = digit.extent if high is None else simplify(build.min_(build.sub(high, fused.base), digit.extent))
        extent = simplify(build.sub(end, start))
        parts = list(a.args)
        order = (self._chain(parts) if len(parts) > 1 else None) or parts
        source = IterSum(tuple(reversed(order)), simplify(build.sub(0, start)))
        self.constraints.append((parts, IterMark(source, extent), start))

    def fuse(self, a: IterSum) -> IterSum | None:
        """A sum as one split of one mark (plus its base), or None when its terms do not fit together.

        The terms fit when their scales are ``s``, ``s * e0``, ``s * e0 * e1`` … for extents ``e0``, ``e1`` … of the
        terms in that order.
        """
        a = self._with_constraints(a)
        if len(a.args) <= 1:
            return a
        order = self._chain(list(a.args))
        if order is None:
            return self._overlapping(a) if self.level is IterMapLevel.SURJECTIVE else None
        scale = order[0].scale
        extent = self.product(self.quotient(order[-1].scale, scale), order[-1].extent)
        zero = IntImm(scale.dtype, 0)
        one = IntImm(scale.dtype, 1)
        parts = [arg.scaled(self.quotient(arg.scale, scale)) for arg in reversed(order)]
        mark = self._mark_of(IterSum(parts, zero), extent)
        return IterSum((IterSplit(mark, one, extent, scale),), a.base)

    def _overlapping(self, a: IterSum) -> IterSum | None:
        """A sum that takes each value of an interval, some more than once: ``x * 2 + y`` where ``y`` is below 3.

        The terms fit when each scale is a multiple of the smallest that the terms below it reach; of constants only.
        """
        constant = [
            (arg.scale.value, arg.extent.value, arg)
            for arg in a.args
            if isinstance(arg.scale, IntImm) and isinstance(arg.extent, IntImm)
        ]
        if len(constant) < len(a.args):
            return None
        args = sorted(constant, key=lambda arg: arg[0])
        scale, extent, _ = args[0]
        if scale <= 0:
            return None
        for factor, size, _ in args[1:]:
            steps, rest = divmod(factor, scale)
            if rest or steps > extent:
                return None
            extent += (size - 1) * steps
        dtype = a.base.dtype
        parts = tuple(arg.scaled(IntImm(dtype, factor // scale)) for factor, _, arg in reversed(args))
        mark = self._mark_of(IterSum(parts, IntImm(dtype, 0)), IntImm(dtype, extent))
        mark.overlaps = True
        return IterSum((IterSplit(mark, IntImm(dtype, 1), mark.extent, IntImm(dtype, scale)),), a.base)

    def _chain(self, args: list[IterSplit]) -> list[IterSplit] | None:
        """The terms from the smallest scale to the largest, where each continues the one before."""
        first = self._smallest(args)
        if first is None:
            return None
        order = [first]
        left = [arg for arg in args if arg is not first]
        expected = self.product(first.scale, first.extent)
        while left:
            found = next((arg for arg in left if self.equal(arg.scale, expected)), None)
            if found is None and self.level is IterMapLevel.NO_CHECK:
                # A gap is allowed: the next larger scale that the expected one does not reach past.
                larger = [
                    arg
                    for arg in left
                    if self.analyzer.can_prove(build.ge(arg.scale, expected)) and self.divides(first.scale, arg.scale)
                ]
                found = self._smallest(larger) if len(larger) == len(left) else None
            if found is None:
                return None
            order.append(found)
            left = [arg for arg in left if arg is not found]
            expected = self.product(found.scale, found.extent)
        return order

    def _smallest(self, args: list[IterSplit]) -> IterSplit | None:
        """The term whose scale divides all others (symbolic ones too)."""
        constants = [(arg.scale.value, k) for k, arg in enumerate(args) if isinstance(arg.scale, IntImm)]
        if constants:
            least, position = min(constants)
            return args[position] if least > 0 else None
        return next((a for a in args if all(self.divides(a.scale, b.scale) for b in args)), None)

    def _mark_of(self, source: IterSum, extent: Expr) -> IterMark:
        """The mark of a fused sum; the same sum gives the same mark."""
        rep = self.analyzer.interner.representative
        key = (
            tuple((id(p.source), rep(p.lower_factor), rep(p.extent), rep(p.scale)) for p in source.args),
            rep(source.base),
            rep(extent),
        )
        found = self._fused.get(key)
        if found is None:
            found = self._fused[key] = IterMark(source, extent)
        return found

    def _with_constraints(self, a: IterSum) -> IterSum:
        """The sum with the terms that a predicate constrains replaced by the constrained mark."""
        for parts, mark, start in self.constraints:
            matched: list[IterSplit] = []
            factor: Expr | None = None
            for part in parts:
                have = next((arg for arg in a.args if self._same_digit(arg, part)), None)
                if have is None or not self.divides(part.scale, have.scale):
                    break
                ratio = self.quotient(have.scale, part.scale)
                if factor is not None and not self.equal(ratio, factor):
                    break
                factor = ratio
                matched.append(have)
            else:
                assert factor is not None
                one = IntImm(factor.dtype, 1)
                left = [arg for arg in a.args if not any(arg is m for m in matched)]
                base = self.analyzer.simplify(build.add(a.base, build.mul(start, factor)))
                a = IterSum((*left, IterSplit(mark, one, mark.extent, factor)), base)
        return a
