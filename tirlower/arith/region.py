"""Bounds of regions over loop domains, and the part of a buffer that a statement touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tirlower.arith.analyzer import Analyzer
from tirlower.arith.arguments import domains_of, list_of, need
from tirlower.arith.int_set import IntervalSet, SetEvaluator, intersect_sets, union_sets
from tirlower.arith.iter_detect import detect_iter_map
from tirlower.arith.iter_map import IterMapLevel
from tirlower.arith.linear import detect_clip_bound, linear_coefficients
from tirlower.ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Expr,
    For,
    IfThenElse,
    IntImm,
    Range,
    Stmt,
    Var,
    Visitor,
    as_expr,
    build,
    is_const_int,
    substitute,
)
from tirlower.ir.expr import ExprLike
from tirlower.ir.query import mentions

__all__ = [
    "domain_touched",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_set",
    "union_lower_bound",
]


_SETS: Final = "give a list of sets: [IntervalSet(0, 7)]"
_REGION: Final = "give a list of ranges, one for each dimension: [Range(i, 4)]"


def _regions(
    region: Sequence[Range], domains: Mapping[Var, Range], function: str
) -> tuple[list[Range], Mapping[Var, Range]]:
    """A region and the domains of variables in it, checked."""
    return list_of(region, Range, function, "region", _REGION), domains_of(domains, function, "var_dom")


def union_lower_bound(sets: Iterable[IntervalSet], analyzer: Analyzer | None = None) -> IntervalSet:
    """An interval that lies within the union of some: those that certainly meet are joined, those apart are dropped.

    Of several groups that do not meet the first is returned.
    """
    sets = list_of(sets, IntervalSet, "union_lower_bound", "sets", _SETS)
    analyzer = analyzer or Analyzer()
    prove = analyzer.can_prove
    groups: list[IntervalSet] = []
    for one in sets:
        if one.is_nothing():
            continue
        joined = one
        rest: list[IntervalSet] = []
        for group in groups:
            if _reaches(prove, group, joined) and _reaches(prove, joined, group):
                joined = union_sets(analyzer, [group, joined])
            else:
                rest.append(group)
        first = next((k for k, group in enumerate(groups) if group not in rest), len(rest))
        groups = [*rest[:first], joined, *rest[first:]]
    return groups[0] if groups else IntervalSet.nothing()


def _reaches(prove: Callable[[Expr], bool], a: IntervalSet, b: IntervalSet) -> bool:
    """Whether ``a`` certainly reaches up to where ``b`` begins."""
    if a.max_value is None or b.min_value is None:
        return True
    return prove(build.le(b.min_value, build.add(a.max_value, 1)))


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: ExprLike = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """The exact box that a region covers as its variables run, or None when it is no box or cannot be told."""
    region, var_dom = _regions(region, var_dom, "estimate_region_strict_bound")
    analyzer = analyzer or Analyzer()
    minima = [dom.min for dom in region]
    # Variables that are in no index do not matter to the region, unless the predicate ties them to those that are.
    tied = [*minima, as_expr(predicate)]
    used = {v: d for v, d in var_dom.items() if any(mentions(m, (v,)) for m in tied)}
    minima, predicate = _rising(minima, as_expr(predicate), used, analyzer)
    found = detect_iter_map(minima, used, predicate, IterMapLevel.SURJECTIVE, analyzer=analyzer)
    if not found.indices or not is_const_int(found.padding_predicate, 0):
        return None  # padding stands for no value: what is covered is no box
    result = []
    for dom, total in zip(region, found.indices, strict=True):
        last = build.sub(dom.extent, 1)
        for split in total.args:
            # Steps wider than the region's extent leave holes: no box.
            if not analyzer.can_prove(build.le(split.scale, dom.extent)):
                return None
            last = build.add(last, build.mul(build.sub(split.extent, 1), split.scale))
        result.append(IntervalSet(total.base, analyzer.simplify(build.add(total.base, last))))
    return result


def _rising(
    minima: list[Expr], predicate: Expr, domains: Mapping[Var, Range], analyzer: Analyzer
) -> tuple[list[Expr], Expr]:
    """The same region of variables that are counted backwards where every index falls as they rise."""
    flipped: dict[Var, Expr] = {}
    for var, dom in domains.items():
        factors = []
        for low in minima:
            if mentions(low, (var,)):
                form = linear_coefficients(low, (var,))
                factors.append(None if form is None or var not in form else analyzer.simplify(form[var]))
        if factors and all(isinstance(factor, IntImm) and factor.value < 0 for factor in factors):
            flipped[var] = build.sub(build.sub(build.add(build.add(dom.min, dom.min), dom.extent), 1), var)
    if not flipped:
        return minima, predicate
    return [analyzer.simplify(substitute(low, flipped)) for low in minima], substitute(predicate, flipped)


def estimate_region_lower_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: ExprLike = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet] | None:
    """A box that the region certainly covers whole as its variables run, or None when none is known.

    The digits that detection finds are independent, so a box that is known to be covered is the exact one.
    """
    return estimate_region_strict_bound(region, var_dom, predicate, analyzer)


def eval_set(
    expr: ExprLike, dom_map: Mapping[Var, Range | IntervalSet], analyzer: Analyzer | None = None
) -> IntervalSet:
    """The interval that an expression ranges over when the variables of the map do.

    >>> i, n = Var("i"), Var("n")
    >>> eval_set(i * 4 + n, {i: Range(0, 8)})
    IntervalSet[n, n + 28]
    """
    domains_of(dom_map, "eval_set", "dom_map", (Range, IntervalSet))
    analyzer = analyzer or Analyzer()
    return SetEvaluator(analyzer, dom_map).of(analyzer.simplify(expr))


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: ExprLike = True,
    analyzer: Analyzer | None = None,
) -> list[IntervalSet]:
    """A box around all that the region covers as its variables run."""
    region, var_dom = _regions(region, var_dom, "estimate_region_upper_bound")
    analyzer = analyzer or Analyzer()
    lower = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if lower is not None:
        return lower
    domains: dict[Var, IntervalSet] = {v: IntervalSet.from_range(d) for v, d in var_dom.items()}
    clipped = detect_clip_bound(predicate, list(var_dom), analyzer)
    for position, var in enumerate(var_dom):
        if clipped:
            ends = IntervalSet(clipped[2 * position], clipped[2 * position + 1])
            domains[var] = intersect_sets(analyzer, [domains[var], ends])
    evaluator = SetEvaluator(analyzer, domains)
    result = []
    for dom in region:
        low = evaluator.of(analyzer.simplify(dom.min))
        high = evaluator.of(analyzer.simplify(build.sub(build.add(dom.min, dom.extent), 1)))
        if low.is_nothing() or high.is_nothing():
            result.append(IntervalSet.nothing())
        else:
            result.append(IntervalSet(low.min_value, high.max_value))
    return result


class _Touched(Visitor):
    def __init__(self, analyzer: Analyzer, buffer: Buffer, loads: bool, stores: bool) -> None:
        self.analyzer = analyzer
        self.buffer = buffer
        self.loads = loads
        self.stores = stores
        self.domains: dict[Var, IntervalSet] = {}
        self.sets: list[list[IntervalSet]] = [[] for _ in buffer.shape]

    def visit_For(self, op: For) -> None:
        """The loop variable is relaxed over its range in the body."""
        self.visit_expr(op.min)
        self.visit_expr(op.extent)
        self.domains[op.loop_var] = IntervalSet.from_range(Range(op.min, op.extent))
        self.visit(op.body)
        del self.domains[op.loop_var]

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        """The condition clips the variables it bounds, in its branch."""
        self.visit_expr(op.condition)
        outer = dict(self.domains)
        variables = list(outer)
        clipped = detect_clip_bound(op.condition, variables, self.analyzer)
        for position, var in enumerate(variables if clipped else ()):
            ends = IntervalSet(clipped[2 * position], clipped[2 * position + 1])
            self.domains[var] = intersect_sets(self.analyzer, [outer[var], ends])
        self.visit(op.then_case)
        self.domains = outer
        if op.else_case is not None:
            self.visit(op.else_case)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """A read."""
        if op.buffer is self.buffer and self.loads:
            self.note(op.indices)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """A write."""
        self.generic(op)
        if op.buffer is self.buffer and self.stores:
            self.note(op.indices)

    def note(self, indices: Sequence[Expr]) -> None:
        """Add the range of an access."""
        evaluator = SetEvaluator(self.analyzer, self.domains)
        for sets, index in zip(self.sets, indices, strict=True):
            sets.append(evaluator.of(self.analyzer.simplify(index)))


def domain_touched(
    stmt: Stmt,
    buffer: Buffer,
    consider_loads: bool = True,
    consider_stores: bool = True,
    analyzer: Analyzer | None = None,
) -> list[Range]:
    """The box around all accesses of a buffer in a statement, its loops relaxed, conditions used where they clip.

    A dimension whose accesses have no bound is returned whole; without accesses the list is empty.
    """
    need(stmt, Stmt, "domain_touched", "stmt", "give a statement, as the body of a function is")
    need(buffer, Buffer, "domain_touched", "buffer", "give a buffer that the statement accesses")
    analyzer = analyzer or Analyzer()
    worker = _Touched(analyzer, buffer, consider_loads, consider_stores)
    worker.visit(stmt)
    if buffer.shape and not worker.sets[0]:
        return []
    result = []
    for sets, extent in zip(worker.sets, buffer.shape, strict=True):
        box = union_sets(analyzer, sets).to_range(analyzer)
        result.append(box if box is not None else Range.from_extent(extent))
    return result
