"""Inverses of index maps that split, fuse, permute, pad or reverse dimensions.

Each output is seen as a sum ``base + scale * digit + ...`` of digits of the inputs. A digit is a piece of an integer
written in a mixed radix: ``mark // lower % extent`` (without the ``%`` for the top piece). A mark is an input; or a
sum that a division cuts across its terms, such as ``i + 1`` in ``(i + 1) // 4`` (a padding on the left) or
``10 * i + j`` in ``(10 * i + j) // 4``; or a digit read backwards (``7 - i``).

The map is inverted by reading the digits off the outputs and putting each mark together again, the latest first. Where
the outputs can take values that no input gives (a mark outside its range, a digit at or above its extent), a
condition says so: their disjunction is the predicate of the padding.

The pieces are those of iteration maps (iterators that are split and fused), as the field calls them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    Add,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    Mul,
    Sub,
    Var,
    const,
)
from tirlower.ir.functor import Dispatch, post_order_visit

__all__ = ["NotInvertible", "Size", "invert", "ranges_of"]

Size = int | Expr
"""A number that is a constant or symbolic."""


class NotInvertible(Exception):
    """The map has no inverse of the form that this module finds; the text says why."""


@dataclass(eq=False, slots=True)
class _Mark:
    """A number that is written in digits: ``low <= value < high``, at least 0."""

    source: Var | _Sum | _Digit
    low: int
    high: Size


@dataclass(frozen=True, slots=True)
class _Digit:
    """``mark // lower % extent``; an extent of None reaches to the top."""

    mark: _Mark
    lower: int
    extent: int | None

    @property
    def size(self) -> Size:
        """How many values it takes, counted from 0."""
        if self.extent is not None:
            return self.extent
        return _ceildiv(self.mark.high, self.lower)


@dataclass(frozen=True, slots=True)
class _Sum:
    """``base + sum(scale * digit)``."""

    terms: tuple[tuple[_Digit, int], ...]
    base: int

    @staticmethod
    def of(terms: dict[_Digit, int], base: int) -> _Sum:
        return _Sum(tuple((d, s) for d, s in terms.items() if s), base)

    def plus(self, other: _Sum, factor: int = 1) -> _Sum:
        terms = dict(self.terms)
        for digit, scale in other.terms:
            terms[digit] = terms.get(digit, 0) + factor * scale
        return _Sum.of(terms, self.base + factor * other.base)

    def times(self, factor: int) -> _Sum:
        return _Sum.of({d: s * factor for d, s in self.terms}, self.base * factor)


def _ceildiv(a: Size, b: int) -> Size:
    if isinstance(a, int):
        return -(-a // b)
    return a if b == 1 else _number(build.floordiv(build.add(a, b - 1), b))


def _number(value: Size) -> Size:
    return value.value if isinstance(value, IntImm) else value


def _is_multiple(size: Size, of: int) -> bool:
    if isinstance(size, int):
        return size % of == 0
    return of == 1 or (isinstance(size, Mul) and isinstance(size.b, IntImm) and size.b.value % of == 0)


class _Analysis(Dispatch[Expr, _Sum, list[_Sum]]):
    """The outputs of a map over given input ranges, as sums of digits."""

    def __init__(self, inputs: Sequence[tuple[Var, Range]]) -> None:
        self.inputs = inputs
        self.marks: list[_Mark] = []
        self.known: dict[Var | _Sum | _Digit, _Mark] = {}
        self.of_var: dict[Var, _Sum] = {}
        for var, domain in inputs:
            if not isinstance(domain.min, IntImm):
                raise NotInvertible(f"the range of {var.name!r} starts at {domain.min}, which is not a constant")
            extent = _number(domain.extent)
            if isinstance(extent, int) and extent < 1:
                raise NotInvertible(f"the range of {var.name!r} is empty")
            start = domain.min.value
            if extent == 1 and isinstance(extent, int):
                self.of_var[var] = _Sum((), start)
            else:
                self.of_var[var] = _Sum(((_Digit(self.mark(var, 0, extent), 1, None), 1),), start)

    def mark(self, source: Var | _Sum | _Digit, low: int, high: Size) -> _Mark:
        """The mark of a source; one for equal sources."""
        found = self.known.get(source)
        if found is None:
            found = self.known[source] = _Mark(source, low, high)
            self.marks.append(found)
        return found

    def sum_of(self, root: Expr) -> _Sum:
        """An output as a sum of digits. Raises :class:`NotInvertible` where it is none."""
        memo: dict[int, _Sum] = {}

        def look(op: Expr) -> None:
            memo[id(op)] = self.dispatch(op, [memo[id(c)] for c in op.children()])

        post_order_visit(root, look)
        return memo[id(root)]

    def on_IntImm(self, op: IntImm, parts: list[_Sum]) -> _Sum:
        return _Sum((), op.value)

    def on_Var(self, op: Var, parts: list[_Sum]) -> _Sum:
        found = self.of_var.get(op)
        if found is None:
            raise NotInvertible(f"{op.name!r} is not an index of the map")
        return found

    def on_Add(self, op: Add, parts: list[_Sum]) -> _Sum:
        return parts[0].plus(parts[1])

    def on_Sub(self, op: Sub, parts: list[_Sum]) -> _Sum:
        return parts[0].plus(parts[1], -1)

    def on_Mul(self, op: Mul, parts: list[_Sum]) -> _Sum:
        if parts[0].terms and parts[1].terms:
            self.otherwise(op, parts)
        a, b = parts if not parts[1].terms else parts[::-1]
        return a.times(b.base)

    def on_Cast(self, op: Cast, parts: list[_Sum]) -> _Sum:
        return parts[0] if op.dtype.is_integral else self.otherwise(op, parts)

    def otherwise(self, op: Expr, parts: list[_Sum]) -> _Sum:
        """A quotient or remainder by a constant."""
        if isinstance(op, (FloorDiv, FloorMod, Div, Mod)) and not parts[1].terms and parts[1].base > 0:
            a = self.positive(parts[0])
            # Truncation is flooring where nothing is negative.
            if isinstance(op, (FloorDiv, FloorMod)) or a.base >= 0:
                quotient, remainder = self.divide(a, parts[1].base)
                return quotient if isinstance(op, (FloorDiv, Div)) else remainder
        raise NotInvertible(f"{op} is no sum, multiple, division or remainder by constants")

    def positive(self, value: _Sum) -> _Sum:
        """The same number with positive scales only: a digit with a negative one is read backwards."""
        if all(scale > 0 for _, scale in value.terms):
            return value
        terms: dict[_Digit, int] = {}
        base = value.base
        for digit, scale in value.terms:
            if scale > 0:
                terms[digit] = terms.get(digit, 0) + scale
                continue
            size = digit.size
            if not isinstance(size, int):
                raise NotInvertible("a symbolic extent is read backwards")
            back = _Digit(self.mark(digit, 0, size), 1, None)
            terms[back] = terms.get(back, 0) - scale
            base += scale * (size - 1)
        return _Sum.of(terms, base)

    def divide(self, value: _Sum, by: int) -> tuple[_Sum, _Sum]:
        """Quotient and remainder of a sum with positive scales."""
        found = self.divide_terms(value, by)
        if found is not None:
            return found
        # The cut goes across terms: the whole sum becomes a number of its own.
        shift = 0 if value.base >= 0 else -(value.base // by)
        whole = _Sum(tuple(sorted(value.terms, key=lambda t: t[1])), value.base + shift * by)
        mark = self.mark(whole, whole.base, _top(whole, 1))
        return (
            _Sum(((_Digit(mark, by, None), 1),), -shift),
            _Sum(((_Digit(mark, 1, by), 1),), 0),
        )

    def divide_terms(self, value: _Sum, by: int) -> tuple[_Sum, _Sum] | None:
        """Divide term by term, cutting at most one digit; None where a carry could pass between terms."""
        high = _Sum(tuple((d, s // by) for d, s in value.terms if s % by == 0), value.base // by)
        low = sorted(((d, s) for d, s in value.terms if s % by), key=lambda t: t[1])
        rest = _Sum(tuple(low), value.base % by)
        most = _top(rest)
        if isinstance(most, int) and most < by:
            return high, rest
        digit, scale = low[-1]
        under = _Sum(tuple(low[:-1]), rest.base)
        most = _top(under)
        if by % scale or not isinstance(most, int) or most >= scale:
            return None
        cut = self.cut(digit, by // scale)
        if cut is None:
            return None
        return high.plus(cut[0]), under.plus(cut[1], scale)

    def cut(self, digit: _Digit, by: int) -> tuple[_Sum, _Sum] | None:
        """Quotient and remainder of a digit, as digits; None where the digit ends inside a piece."""
        size = digit.size
        if isinstance(size, int) and size <= by:
            return _Sum((), 0), _Sum(((digit, 1),), 0)
        upper = None
        if digit.extent is not None:
            if digit.extent % by:
                return None
            upper = digit.extent // by
        return (
            _Sum(((_Digit(digit.mark, digit.lower * by, upper), 1),), 0),
            _Sum(((_Digit(digit.mark, digit.lower, by), 1),), 0),
        )


def _top(value: _Sum, plus: int = 0) -> Size:
    """The greatest value of a sum with positive scales, and ``plus``."""
    constant = value.base + plus
    symbolic: Expr | None = None
    for digit, scale in value.terms:
        size = digit.size
        if isinstance(size, int):
            constant += scale * (size - 1)
        else:
            constant -= scale
            part = build.mul(size, scale)
            symbolic = part if symbolic is None else build.add(symbolic, part)
    if symbolic is None:
        return constant
    return build.add(symbolic, constant) if constant >= 0 else build.sub(symbolic, -constant)


def ranges_of(inputs: Sequence[tuple[Var, Range]], outputs: Sequence[Expr]) -> list[Range]:
    """The range of each output. Raises :class:`NotInvertible` where one is no sum of digits."""
    analysis = _Analysis(inputs)
    found = []
    for output in outputs:
        value = analysis.positive(analysis.sum_of(output))
        dtype = output.dtype
        found.append(Range(const(value.base, dtype), _expr(_top(value, 1 - value.base), dtype)))
    return found


def _expr(size: Size, kind: DataType) -> Expr:
    return const(size, kind) if isinstance(size, int) else build.cast(kind, size)


def invert(
    inputs: Sequence[tuple[Var, Range]], outputs: Sequence[Expr], targets: Sequence[Var]
) -> tuple[list[Expr], Expr]:
    """The inputs in terms of ``targets`` (which stand for the outputs), and the predicate of the padding.

    The targets range from 0 to the greatest value of their output. Raises :class:`NotInvertible` when an input
    cannot be told from the outputs.
    """
    analysis = _Analysis(inputs)
    solver = _Solver(analysis)
    for output, target in zip(outputs, targets, strict=True):
        solver.read(analysis.positive(analysis.sum_of(output)), target)
    # A mark is made after what it is made of, so the digits of the latest are known first.
    for mark in reversed(analysis.marks):
        solver.assemble(mark)
    found = []
    for var, domain in inputs:
        value = solver.inputs.get(var, const(0, var.dtype))
        assert isinstance(domain.min, IntImm)
        found.append(build.cast(var.dtype, build.add(value, const(domain.min.value, value.dtype))))
    return found, build.any_of(*solver.conditions)


class _Solver:
    """Reads digits off the outputs and puts the marks together."""

    def __init__(self, analysis: _Analysis) -> None:
        self.analysis = analysis
        self.digits: dict[_Mark, dict[_Digit, Expr]] = {}
        self.inputs: dict[Var, Expr] = {}
        self.conditions: list[Expr] = []

    def read(self, value: _Sum, target: Expr) -> None:
        """Find the digits of a sum from its value."""
        dtype = target.dtype
        if value.base < 0:
            raise NotInvertible(f"an output starts at {value.base}, below 0")
        if value.base > 0:
            self.conditions.append(build.lt(target, const(value.base, dtype)))
        rest = build.sub(target, const(value.base, dtype))
        self._read_terms(rest, sorted(value.terms, key=lambda t: t[1]))

    def _read_terms(self, rest: Expr, terms: list[tuple[_Digit, int]]) -> None:
        dtype = rest.dtype
        for place, ((_, scale), (_, step)) in enumerate(itertools.pairwise(terms), 1):
            if step % scale:
                # Below a step that is no multiple of theirs, terms are a number of their own where they stay below it.
                reach = sum(
                    (digit.size - 1) * by if isinstance(digit.size, int) else step for digit, by in terms[:place]
                )
                if reach >= step or any(by % step for _, by in terms[place:]):
                    raise NotInvertible("the terms of an output overlap")
                below = build.floormod(rest, const(step, dtype))
                self.conditions.append(build.gt(below, const(reach, dtype)))
                self._read_terms(below, terms[:place])
                self._read_terms(build.sub(rest, below), terms[place:])
                return
        if terms and terms[0][1] > 1:
            self.conditions.append(build.ne(build.floormod(rest, const(terms[0][1], dtype)), const(0, dtype)))
        for place, (digit, scale) in enumerate(terms):
            part = build.floordiv(rest, const(scale, dtype))
            if place + 1 < len(terms):
                ratio = terms[place + 1][1] // scale
                size = digit.size
                if not isinstance(size, int) or size > ratio:
                    raise NotInvertible("the terms of an output overlap")
                part = build.floormod(part, const(ratio, dtype))
                if size < ratio:
                    self.conditions.append(build.ge(part, const(size, dtype)))
            known = self.digits.setdefault(digit.mark, {})
            if digit in known:
                raise NotInvertible("two outputs depend on the same part of an index")
            known[digit] = part

    def assemble(self, mark: _Mark) -> None:
        """A mark from its digits; then what the mark was made of."""
        known = self.digits.get(mark)
        source = mark.source
        if known is None:
            if isinstance(source, Var):
                raise NotInvertible(f"no output depends on {source.name!r}")
            return  # it was cancelled
        digits = sorted(known, key=lambda d: d.lower)
        value: Expr | None = None
        reached: int | None = 1
        for digit in digits:
            if reached is None or digit.lower < reached:
                raise NotInvertible("two outputs depend on the same part of an index")
            if digit.lower > reached:
                raise NotInvertible("the outputs leave out a part of an index")
            reached = None if digit.extent is None else digit.lower * digit.extent
        if reached is not None and not (isinstance(mark.high, int) and reached >= mark.high):
            raise NotInvertible("the outputs leave out the upper part of an index")
        for digit in reversed(digits):
            part = build.mul(known[digit], digit.lower)
            value = part if value is None else build.add(*build.match_types(value, part))
        assert value is not None
        self.bound(mark, digits, known, value)
        if isinstance(source, Var):
            self.inputs[source] = value
        elif isinstance(source, _Digit):
            size = source.size
            assert isinstance(size, int)  # `positive` reads only constant sizes backwards
            self.digits.setdefault(source.mark, {})[source] = build.sub(const(size - 1, value.dtype), value)
        else:
            self.read_within(source, value)

    def read_within(self, source: _Sum, value: Expr) -> None:
        """The digits of a sum whose range is checked already."""
        before = len(self.conditions)
        self.read(source, value)
        if source.base > 0:
            del self.conditions[before]  # `value < base` is the mark's own lower bound

    def bound(self, mark: _Mark, digits: list[_Digit], known: dict[_Digit, Expr], value: Expr) -> None:
        """Conditions for a mark outside its range, in terms of its leading digit where there are several."""
        top = digits[-1]
        lead = known[top]
        dtype = value.dtype
        lower = top.lower
        below = [build.mul(known[d], d.lower) for d in reversed(digits[:-1])]
        rest = below[0] if below else const(0, dtype)
        for part in below[1:]:
            rest = build.add(*build.match_types(rest, part))
        if mark.low > 0:
            if below and mark.low < lower:
                first = build.eq(lead, const(0, lead.dtype))
                self.conditions.append(build.logical_and(first, build.lt(rest, const(mark.low, rest.dtype))))
            else:
                self.conditions.append(build.lt(value, const(mark.low, dtype)))
        if top.extent is None and _is_multiple(mark.high, lower):
            return
        if not isinstance(mark.high, int):
            self.conditions.append(build.ge(value, build.cast(dtype, mark.high)))
            return
        if top.extent is not None and mark.high == lower * top.extent:
            return
        last, over = divmod(mark.high, lower)
        if top.extent is not None:
            self.conditions.append(build.ge(value, const(mark.high, dtype)))
        elif last == 0:
            self.conditions.append(build.ge(rest, const(over, rest.dtype)))
        else:
            at_end = build.eq(lead, const(last, lead.dtype))
            beyond = build.ge(rest, const(over, rest.dtype))
            if over == lower - 1:
                beyond = build.eq(rest, const(over, rest.dtype))
            self.conditions.append(build.logical_and(at_end, beyond))
