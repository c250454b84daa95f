"""Detecting, checking, simplifying and inverting iteration maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower import ir
from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of, expressions_of, list_of
from tirlower.arith.conditions import conjuncts
from tirlower.arith.iter_map import (
    Detector,
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplit,
    IterSum,
    NotAMap,
    split_expr,
    sum_expr,
)
from tirlower.arith.linear import EXCHANGED
from tirlower.diagnostics import TirError
from tirlower.ir import Expr, IntImm, Range, Var, as_expr, build, is_const_int
from tirlower.ir.expr import ExprLike
from tirlower.ir.node import Node
from tirlower.ir.query import each

__all__ = [
    "detect_iter_map",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
]


def detect_iter_map(
    indices: Sequence[Node],
    input_iters: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: IterMapLevel | str | int = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> IterMapResult:
    """Each index as a sum of digits of the input iterators, where the map passes the check.

    ``input_iters`` gives the range of each iterator; ``predicate`` a conjunction of bounds on sums of them, under which
    the map is looked at. BIJECTIVE: the map takes each point of a box exactly once, and all iterators take part;
    SURJECTIVE: it takes each point, and the digits of different indices do not overlap; NO_CHECK: nothing. Without the check
    for BIJECTIVE divisions that do not come out even are padded: the map is one of padded iterators, and
    ``padding_predicate`` says which of their values stand for none of the inputs. The result's ``indices`` is empty, and ``errors`` says why, when there is no such
    map. Raises :class:`TirError` for an unknown level, and for what is no range.
    """
    level = IterMapLevel.of(check_level)
    domains_of(input_iters, "detect_iter_map", "input_iters")
    outer = analyzer if analyzer is not None else Analyzer()
    exprs = expressions_of(indices, "detect_iter_map", "indices")
    try:
        iters, constraints = _split_predicate(outer, as_expr(predicate), dict(input_iters))
    except NotAMap as problem:
        return IterMapResult([], [str(problem)])
    inner = with_ranges(outer, iters)
    result = _detect(exprs, iters, constraints, level, simplify_trivial_iterators, inner)
    if not result.indices and exprs:
        # As written an index may hide its iterators; simplified it may lose them. Either will do.
        simple = [inner.simplify(expr) for expr in exprs]
        if any(new is not old for new, old in zip(simple, exprs, strict=True)):
            again = _detect(simple, iters, constraints, level, simplify_trivial_iterators, inner)
            if again.indices:
                return again
    return result


Constraint = tuple[Expr, Expr | None, Expr | None]


def _detect(
    exprs: Sequence[Expr],
    iters: Mapping[Var, Range],
    constraints: Sequence[Constraint],
    level: IterMapLevel,
    simplify_trivial: bool,
    inner: Analyzer,
) -> IterMapResult:
    result = IterMapResult([])
    detector = Detector(inner, iters, level, simplify_trivial, level is not IterMapLevel.BIJECTIVE)
    try:
        for expr, low, high in sorted(constraints, key=lambda c: _count_iters(c[0], iters)):
            detector.constrain(_rewritten(detector, expr, inner), low, high)
        sums = [_fused_index(detector, expr, inner) for expr in exprs]
        _respect_predicate(detector, sums)
    except NotAMap as problem:
        result.errors.append(str(problem))
        return result
    if level is not IterMapLevel.NO_CHECK:
        result.errors = _check(detector, sums, level, iters)
        if result.errors:
            return result
    result.indices = sums
    if detector.padding_conditions:
        # Not simplified as a whole: within their ranges the iterators never stand for padding.
        result.padding_predicate = build.any_of(*detector.padding_conditions)
    return result


def with_ranges(outer: Analyzer, iters: Mapping[Var, Range]) -> Analyzer:
    """An analyzer that knows the ranges of the iterators, and what another one knows."""
    inner = Analyzer()
    inner.rewriter.substitution.update({v: e for v, e in outer.rewriter.substitution.items() if v not in iters})
    for var, dom in outer.ranges.items():
        if var not in iters:
            inner.bind(var, dom)
    for condition in outer.constraints:
        inner.enter_constraint(condition)
    for dom in iters.values():
        if not isinstance(dom.extent, IntImm):
            # Of an iterator without values everything is true.
            inner.enter_constraint(build.gt(dom.extent, 0))
    for var, dom in iters.items():
        # A range of one value would make `bind` replace the iterator by it.
        inner.bind(var, dom if not is_const_int(dom.extent, 1) else Range(dom.min, IntImm(dom.extent.dtype, 2)))
    return inner


def _count_iters(expr: Expr, iters: Mapping[Var, Range]) -> int:
    return sum(1 for var in each(Var, expr) if var in iters)


def _split_predicate(
    analyzer: Analyzer, predicate: Expr, iters: dict[Var, Range]
) -> tuple[dict[Var, Range], list[Constraint]]:
    """Bounds of single iterators go into their ranges; those of sums of them are returned. Raises NotAMap."""
    constraints: list[Constraint] = []
    for part in conjuncts(analyzer.simplify(predicate)):
        if not _count_iters(part, iters):
            continue
        if part.__class__ not in EXCHANGED:
            raise NotAMap(f"the predicate {part} is no bound of an iterator")
        kind, a, b = part.__class__, part.a, part.b
        if _count_iters(b, iters) and not _count_iters(a, iters):
            a, b = b, a
            kind = EXCHANGED[kind]
        if _count_iters(b, iters):
            a, b = build.sub(a, b), IntImm(b.dtype, 0)
        low: Expr | None = None
        high: Expr | None = None
        if kind in (ir.LT, ir.LE, ir.EQ):
            high = b if kind is ir.LT else build.add(b, 1)
        if kind in (ir.GT, ir.GE, ir.EQ):
            low = build.add(b, 1) if kind is ir.GT else b
        if isinstance(a, Var):
            iters[a] = _narrowed(analyzer, iters[a], low, high)
        else:
            _add_bounds(analyzer, constraints, a, low, high)
    return iters, constraints


def _add_bounds(
    analyzer: Analyzer, constraints: list[Constraint], a: Expr, low: Expr | None, high: Expr | None
) -> None:
    """Note ``low <= a < high``, together with what is known of the same sum."""
    for at, (known, least, end) in enumerate(constraints):
        if analyzer.interner.same(known, a):
            low = least if low is None else low if least is None else analyzer.simplify(build.max_(low, least))
            high = end if high is None else high if end is None else analyzer.simplify(build.min_(high, end))
            constraints[at] = (known, low, high)
            return
    constraints.append((a, low, high))


def _narrowed(analyzer: Analyzer, dom: Range, low: Expr | None, high: Expr | None) -> Range:
    start = dom.min if low is None else analyzer.simplify(build.max_(dom.min, low))
    end = build.add(dom.min, dom.extent)
    end = end if high is None else build.min_(end, high)
    return Range(start, analyzer.simplify(build.sub(end, start)))


def _rewritten(detector: Detector, expr: Expr, analyzer: Analyzer) -> IterSum:
    """The map of an expression, as it is written or else as it simplifies.

    Simplification reduces ``(i * 4 + j) % 3`` to ``(i + j) % 3``, where the iterator is lost; but it also removes
    what is no iterator, such as ``min(i, 8)`` of an ``i`` below 8.
    """
    try:
        return detector.rewrite(expr)
    except NotAMap:
        simple = analyzer.simplify(expr)
        if simple is expr:
            raise
        return detector.rewrite(simple)


def _fused_index(detector: Detector, index: Expr, analyzer: Analyzer) -> IterSum:
    """An index as one split plus base (or a constant)."""
    found = _rewritten(detector, index, analyzer)
    fused = detector.fuse(found)
    if fused is None:
        if detector.level is IterMapLevel.NO_CHECK:
            return found
        raise NotAMap(f"the terms of {index} do not fit together: {detector.text(found)}")
    if detector.level is not IterMapLevel.NO_CHECK:
        for arg in fused.args:
            if not analyzer.can_prove(build.gt(arg.scale, 0)):
                raise NotAMap(f"the index {index} falls as its iterator rises")
    return fused


def _respect_predicate(detector: Detector, sums: Sequence[IterSum]) -> None:
    """Refuse a map that takes a bounded sum of iterators apart: its digits would not be independent."""
    used = _marks_in(sums)
    for parts, mark, _ in detector.constraints:
        if mark not in used and any(part.source in used for part in parts):
            raise NotAMap(f"the predicate ties the iterators of {_name(detector, mark)}, which the indices take apart")


def _marks_in(sums: Sequence[IterSum]) -> set[IterMark]:
    found: set[IterMark] = set()
    pending = list(sums)
    while pending:
        for arg in pending.pop().args:
            if arg.source not in found:
                found.add(arg.source)
                if isinstance(arg.source.source, IterSum):
                    pending.append(arg.source.source)
    return found


def _check(detector: Detector, sums: Sequence[IterSum], level: IterMapLevel, iters: Mapping[Var, Range]) -> list[str]:
    """Whether the splits of each mark, over all indices, neither overlap nor (when bijective) leave gaps."""
    errors: list[str] = []
    used: dict[IterMark, list[IterSplit]] = {}
    pending: list[IterMark] = []

    def use(split: IterSplit) -> None:
        if split.source not in used:
            used[split.source] = []
            pending.append(split.source)
        used[split.source].append(split)

    for total in sums:
        for arg in total.args:
            use(arg)
    while pending:
        mark = pending.pop(0)
        if isinstance(mark.source, IterSum):
            for arg in mark.source.args:
                use(arg)
    for mark, splits in used.items():
        problem = _cover(detector, mark, splits, level)
        if problem:
            errors.append(problem)
    if level is IterMapLevel.BIJECTIVE:
        seen = {mark.var for mark in used}
        for var, dom in iters.items():
            if var not in seen and not is_const_int(dom.extent, 1):
                errors.append(f"the iterator {var.name} takes no part in the indices")
    return errors


def _cover(detector: Detector, mark: IterMark, splits: list[IterSplit], level: IterMapLevel) -> str | None:
    expected: Expr = IntImm(mark.extent.dtype, 1)
    left = list(splits)
    while left:
        found = next((s for s in left if detector.equal(s.lower_factor, expected)), None)
        if found is None:
            if level is IterMapLevel.BIJECTIVE:
                return f"a part of {_name(detector, mark)} takes no part in the indices"
            larger = [s for s in left if detector.divides(expected, s.lower_factor)]
            if len(larger) != len(left):
                return f"parts of {_name(detector, mark)} overlap"
            found = next(
                (s for s in larger if all(detector.divides(s.lower_factor, t.lower_factor) for t in larger)), None
            )
            if found is None:
                return f"parts of {_name(detector, mark)} overlap"
        left.remove(found)
        expected = detector.product(found.lower_factor, found.extent)
        if any(not detector.divides(expected, s.lower_factor) for s in left):
            return f"parts of {_name(detector, mark)} overlap"
    if detector.equal(expected, mark.extent):
        return None
    if level is IterMapLevel.SURJECTIVE and detector.divides(expected, mark.extent):
        return None
    return f"the parts of {_name(detector, mark)} do not cover it: {expected} of {mark.extent}"


def _name(detector: Detector, mark: IterMark) -> str:
    return mark.var.name if mark.var is not None else f"({detector.text(mark.source)})"  # type: ignore[arg-type]


def normalize_iter_map_to_expr(expr: IterSum | IterSplit, analyzer: Analyzer | None = None) -> Expr:
    """An iteration map as an ordinary expression in its input variables."""
    equal = (analyzer if analyzer is not None else Analyzer()).can_prove_equal
    if not isinstance(expr, (IterSum, IterSplit)):
        raise TirError(
            f"normalize_iter_map_to_expr: expr is {expr!r}, which is no sum of digits",
            origin="arith",
            help="give one of the indices of a result of detect_iter_map",
        )
    return split_expr(expr, equal) if isinstance(expr, IterSplit) else sum_expr(expr, equal)


def iter_map_simplify(
    indices: Sequence[Expr],
    input_iters: Mapping[Var, Range],
    predicate: ExprLike = True,
    check_level: IterMapLevel | str | int = IterMapLevel.SURJECTIVE,
    simplify_trivial_iterators: bool = True,
    analyzer: Analyzer | None = None,
) -> list[Expr]:
    """The indices simplified as iteration maps; as ordinary expressions where they are no such map."""
    exprs = expressions_of(indices, "iter_map_simplify", "indices")
    found = detect_iter_map(exprs, input_iters, predicate, check_level, simplify_trivial_iterators, analyzer)
    inner = with_ranges(analyzer if analyzer is not None else Analyzer(), input_iters)
    if not found.indices:
        return [inner.simplify(index) for index in exprs]
    return [inner.simplify(sum_expr(index, inner.can_prove_equal)) for index in found.indices]


def normalize_to_iter_sum(index: Expr, input_iters: Mapping[Var, Range], analyzer: Analyzer | None = None) -> IterSum:
    """An index as a sum of splits, largest scale first, without asking that the map be one to one.

    Raises :class:`TirError` when it is no sum of digits.
    """
    domains_of(input_iters, "normalize_to_iter_sum", "input_iters")
    inner = with_ranges(analyzer if analyzer is not None else Analyzer(), input_iters)
    detector = Detector(inner, input_iters, IterMapLevel.NO_CHECK)
    try:
        found = _rewritten(detector, as_expr(index), inner)
    except NotAMap as problem:
        raise TirError(str(problem), origin="normalize_to_iter_sum") from None
    sized = [(-arg.scale.value, k) if isinstance(arg.scale, IntImm) else None for k, arg in enumerate(found.args)]
    if None in sized:
        return found
    return IterSum([found.args[k] for _, k in sorted(s for s in sized if s is not None)], found.base)


def inverse_affine_iter_map(
    iter_map: Sequence[IterSum], outputs: Sequence[ExprLike], analyzer: Analyzer | None = None
) -> dict[Var, Expr]:
    """The input iterators in terms of the outputs of a (bijective) map: ``{variable: expression}``.

    Raises :class:`TirError` for a map of another number of outputs, and for one that is not one to one.
    """
    iter_map = list_of(
        iter_map, IterSum, "inverse_affine_iter_map", "iter_map", "give the indices of a result of detect_iter_map"
    )
    wanted = expressions_of(outputs, "inverse_affine_iter_map", "outputs")
    if len(iter_map) != len(wanted):
        raise TirError(
            f"the map has {len(iter_map)} outputs, got {len(wanted)} expressions", origin="inverse_affine_iter_map"
        )
    simplify = (analyzer if analyzer is not None else Analyzer()).simplify
    values: dict[IterMark, Expr] = {}
    order: list[IterMark] = []
    for total, output in zip(iter_map, wanted, strict=True):
        _spread(total, build.sub(output, total.base), values, order)
    result: dict[Var, Expr] = {}
    while order:
        # A mark is read once every mark that it is a part of has been.
        mark = next(m for m in order if not any(_contains(other, m) for other in order if other is not m))
        order.remove(mark)
        value = values[mark]
        if mark.overlaps:
            raise TirError(
                f"the map takes some values more than once: {', '.join(map(str, iter_map))}",
                origin="inverse_affine_iter_map",
                help="ask detect_iter_map for a bijective map",
            )
        if isinstance(mark.source, IterSum):
            _spread(mark.source, build.sub(value, mark.source.base), values, order)
        elif mark.var is not None:
            result[mark.var] = simplify(value if mark.start is None else build.add(value, mark.start))
    return result


def _contains(outer: IterMark, inner: IterMark) -> bool:
    if not isinstance(outer.source, IterSum):
        return False
    return any(arg.source is inner or _contains(arg.source, inner) for arg in outer.source.args)


def _spread(total: IterSum, value: Expr, values: dict[IterMark, Expr], order: list[IterMark]) -> None:
    """Take a value apart into the splits of a sum (outermost first), and add each to what is known of its mark."""
    for position, arg in enumerate(total.args):
        part = build.floordiv(value, arg.scale)
        if position > 0:
            part = build.floormod(part, arg.extent)
        contribution = build.mul(part, arg.lower_factor)
        if arg.source in values:
            values[arg.source] = build.add(values[arg.source], contribution)
        else:
            values[arg.source] = contribution
            order.append(arg.source)
