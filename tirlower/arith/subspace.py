"""Subspace division: an iteration map as an outer map and an inner one, by which iterators are inner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of, expressions_of, list_of
from tirlower.arith.conditions import conjuncts
from tirlower.arith.iter_detect import detect_iter_map, with_ranges
from tirlower.arith.iter_map import Detector, IterMapLevel, IterMark, IterSplit, IterSum, NotAMap
from tirlower.ir import Expr, IntImm, Range, Var, as_expr, build, is_const_int
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import mentions

__all__ = ["subspace_divide"]

Part = tuple[IterSplit | None, IterSplit | None]
"""What a digit is outside and inside; None where it is nothing there."""


def subspace_divide(
    bindings: Sequence[Expr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: ExprLike = True,
    check_level: IterMapLevel | str | int = IterMapLevel.SURJECTIVE,
    analyzer: Analyzer | None = None,
    simplify_trivial_iterators: bool = True,
) -> list[tuple[IterMark, IterMark]]:
    """Each binding as ``outer * inner.extent + inner``, where ``inner`` depends on ``sub_iters`` only and ``outer`` on the rest.

    The result has a pair of marks ``(outer, inner)`` for each binding: the ``source`` of a mark is its value (see
    :func:`normalize_iter_map_to_expr`), ``extent`` how many values it takes. A constant that a binding starts at is
    part of ``inner``. One more pair ends the list: the ``extent`` of its marks is the predicate of the outer and of the
    inner iterators. The list is empty where the bindings cannot be divided so: they are no iteration map under
    ``check_level``, the inner digits do not lie below the outer ones, or the predicate ties outer and inner iterators.

    The idea, and the form of the result, are those of TIR's function of this name.

    >>> from tirlower.arith import normalize_iter_map_to_expr
    >>> i, j = Var("i"), Var("j")
    >>> ((outer, inner), predicates) = subspace_divide([i * 8 + j], {i: Range(0, 4), j: Range(0, 8)}, [j])
    >>> [normalize_iter_map_to_expr(mark.source) for mark in (outer, inner)], outer.extent.value, inner.extent.value
    ([Var(i), Var(j)], 4, 8)
    """
    outer_analyzer = analyzer if analyzer is not None else Analyzer()
    domains_of(input_iters, "subspace_divide", "input_iters")
    bindings = expressions_of(bindings, "subspace_divide", "bindings")
    inner_iters = frozenset[Var](
        list_of(sub_iters, Var, "subspace_divide", "sub_iters", "give a list of iterators: [j]")
    )
    predicates = _divide_predicate(as_expr(predicate), input_iters, inner_iters, outer_analyzer)
    if predicates is None:
        return []
    found = detect_iter_map(
        bindings, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer=outer_analyzer
    )
    if not found.indices or not is_const_int(found.padding_predicate, 0):
        return []
    level = IterMapLevel.of(check_level)
    detector = Detector(with_ranges(outer_analyzer, input_iters), input_iters, level)
    divider = _Divider(detector, inner_iters, not simplify_trivial_iterators)
    try:
        result = [divider.divided(total) for total in found.indices]
    except NotAMap:
        return []
    nothing = IterSum((), IntImm("int32", 0))  # type: ignore[arg-type]
    return [*result, (IterMark(nothing, predicates[0]), IterMark(nothing, predicates[1]))]


def _divide_predicate(
    predicate: Expr, iters: Mapping[Var, Range], inner: frozenset[Var], analyzer: Analyzer
) -> tuple[Expr, Expr] | None:
    """The conjuncts on outer and on inner iterators; None where one mentions both."""
    parts: tuple[list[Expr], list[Expr]] = ([], [])
    known = with_ranges(analyzer, iters)
    outer = frozenset(iters) - inner
    for part in conjuncts(analyzer.simplify(predicate)):
        if known.can_prove(part):
            continue
        is_inner = mentions(part, inner)
        if is_inner and mentions(part, outer):
            return None
        parts[is_inner].append(part)
    return build.all_of(*parts[0]), build.all_of(*parts[1])


class _Divider:
    """Divides marks, digits and sums; what is neither outer, inner, nor outer above inner raises :class:`NotAMap`."""

    def __init__(self, detector: Detector, inner: frozenset[Var], keeps_trivial: bool) -> None:
        self.detector = detector
        self.keeps_trivial = keeps_trivial
        self.inner = inner
        self.sides: dict[IterMark, tuple[bool, bool]] = {}
        self.marks: dict[IterMark, tuple[IterMark, IterMark]] = {}

    def side(self, mark: IterMark) -> tuple[bool, bool]:
        """Whether a mark depends on outer iterators, and whether on inner ones."""
        found = self.sides.get(mark)
        if found is None:
            if isinstance(mark.source, IterSum):
                parts = [self.side(arg.source) for arg in mark.source.args]
                found = (any(p[0] for p in parts), any(p[1] for p in parts))
            else:
                found = (mark.var not in self.inner, mark.var in self.inner)
            self.sides[mark] = found
        return found

    def divided(self, total: IterSum) -> tuple[IterMark, IterMark]:
        """A binding as its outer and inner part."""
        outer, inner = self.terms(total)
        inner_mark = self.gathered(inner, total.base, IntImm(total.base.dtype, 1))
        return self.gathered(outer, IntImm(total.base.dtype, 0), inner_mark.extent), inner_mark

    def terms(self, total: IterSum) -> tuple[list[IterSplit], list[IterSplit]]:
        """The digits of a sum, largest first, as outer ones above inner ones."""
        outer: list[IterSplit] = []
        inner: list[IterSplit] = []
        for arg in total.args:
            above, below = self.digit(arg)
            if above is not None:
                if inner:
                    raise NotAMap("an outer iterator lies below an inner one")
                outer.append(above)
            if below is not None:
                inner.append(below)
        return outer, inner

    def gathered(self, splits: Sequence[IterSplit], base: Expr, unit: Expr) -> IterMark:
        """Digits as a mark of its own: scales count units, and each digit continues the one below it."""
        extent: Expr = IntImm(base.dtype, 1)
        scaled: list[IterSplit] = []
        for split in reversed(splits):
            expected = self.detector.product(unit, extent)
            if not self.detector.equal(split.scale, expected):
                raise NotAMap("the digits leave gaps")
            scaled.append(split.scaled(extent))
            extent = self.detector.product(extent, split.extent)
        return IterMark(IterSum(tuple(reversed(scaled)), base), extent)

    def digit(self, split: IterSplit) -> Part:
        """One digit: outer, inner, or (where it straddles the two parts of its mark) both."""
        has_outer, has_inner = self.side(split.source)
        if not has_inner:
            return split, None
        if not has_outer:
            return None, split
        detector = self.detector
        outer, inner = self.mark(split.source)
        end = detector.product(split.lower_factor, split.extent)
        if detector.divides(inner.extent, split.lower_factor):
            lower = detector.quotient(split.lower_factor, inner.extent)
            return IterSplit(outer, lower, split.extent, split.scale), None
        if detector.divides(end, inner.extent):
            inside = IterSplit(inner, split.lower_factor, split.extent, split.scale)
            if not (self.keeps_trivial and is_const_int(outer.extent, 1) and detector.equal(end, inner.extent)):
                return None, inside
            # Outer iterators of one value take part where they were asked to be kept.
            unit = IntImm(split.scale.dtype, 1)
            return IterSplit(outer, unit, unit, detector.product(split.scale, split.extent)), inside
        if not detector.divides(split.lower_factor, inner.extent) or not detector.divides(inner.extent, end):
            raise NotAMap("a digit is cut between outer and inner iterators")
        one = IntImm(split.scale.dtype, 1)
        below = detector.quotient(inner.extent, split.lower_factor)
        scale = detector.product(split.scale, below)
        return (
            IterSplit(outer, one, detector.quotient(end, inner.extent), scale),
            IterSplit(inner, split.lower_factor, below, split.scale),
        )

    def mark(self, mark: IterMark) -> tuple[IterMark, IterMark]:
        """A mark of outer and inner iterators as ``outer * inner.extent + inner``."""
        found = self.marks.get(mark)
        if found is None:
            source = mark.source
            if not isinstance(source, IterSum) or not is_const_int(source.base, 0):
                raise NotAMap("a predicate ties outer and inner iterators")
            outer, inner = self.divided(source)
            if not self.detector.equal(self.detector.product(outer.extent, inner.extent), mark.extent):
                raise NotAMap("a predicate ties outer and inner iterators")
            found = self.marks[mark] = (outer, inner)
        return found
