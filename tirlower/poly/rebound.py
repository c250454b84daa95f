"""The bounds of nested loops in another order, as expressions: triangles, trapezia, skewed bands.

The iterations of a nest are an isl set over its variables. In a new order each loop runs from the least to the greatest
value that its variable has for those outside of it. Where this visits more than the set (gaps, sets that are not convex),
the bounds that then have to be tested are told.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tirlower.diagnostics import TirError
from tirlower.ir import For, PrimFunc, Range, build, const
from tirlower.ir.cancel import cancelled, range_between
from tirlower.poly.conditions import Condition
from tirlower.poly.constraint_system import SOURCE, System
from tirlower.poly.extract import extract
from tirlower.poly.from_isl import ast_of, from_ast, function_of
from tirlower.poly.isl import isl
from tirlower.poly.scop import Loop, Scop
from tirlower.poly.to_isl import distinct_names, parameters, set_of

__all__ = ["Rebound", "rebound"]


class Rebound:
    """Loops in a new order: ``ranges`` of their variables, outermost first, each in terms of those before it; ``tested``
    are the loops whose own bounds are to be tested in the body, for the ranges go beyond them."""

    def __init__(self, ranges: tuple[Range, ...], tested: tuple[Loop, ...]) -> None:
        self.ranges = ranges
        self.tested = tested


def rebound(func: PrimFunc | Scop, nest: Sequence[For], order: Sequence[For]) -> Rebound:
    """The bounds of loops that stand in each other (``nest``, outermost first) where they come in another order.

    Raises :class:`TirError` where the bounds are no quasi-affine forms of sizes and loops, or isl gives up.

    >>> from tirlower.script import parse
    >>> triangle = parse('''
    ... @T.prim_func
    ... def triangle(A: T.Buffer((8, 8), "int32")):
    ...     for i in range(8):
    ...         for j in range(i + 1):
    ...             A[i, j] = 1
    ... ''')
    >>> i, j = triangle.body, triangle.body.body
    >>> [(str(each.min), str(each.extent)) for each in rebound(triangle, [i, j], [j, i]).ranges]
    [('0', '8'), ('j', '8 - j')]
    """
    scop = extract(func)
    loops = [scop.loop(loop) for loop in nest]
    wanted = [scop.loop(loop) for loop in order]
    conditions = [condition for loop in loops for condition in loop.conditions]
    for loop in loops:
        if not loop.regular or not all(condition.is_exact for condition in loop.conditions):
            raise TirError(
                f"the bounds of the loop {loop.name!r} are no quasi-affine forms of sizes and loops",
                origin="poly.rebound",
            )
    around = loops[0].outer
    try:
        return _rebound(scop, loops, wanted, around, conditions)
    except isl.Error as error:
        raise TirError(
            f"the bounds of the loops {', '.join(loop.name for loop in wanted)} in this order are not found: {error}",
            origin="poly.rebound",
        ) from error


def _rebound(
    scop: Scop, loops: Sequence[Loop], wanted: Sequence[Loop], around: Sequence[Loop], conditions: Sequence[Condition]
) -> Rebound:
    fixed = [loop.var for loop in around]
    outside = [condition for loop in around for condition in loop.conditions]

    def points(held: Sequence[Condition]) -> isl.Set:
        system = System(scop.space, frozenset(fixed))
        for condition in (*scop.context, *outside, *held):
            system.add(condition, SOURCE)
        return set_of(scop, system, [(SOURCE, loop.var) for loop in wanted], fixed=fixed).coalesce()

    whole, every, kind = points(conditions), points(()), isl.dim_type
    if whole.is_empty():
        return Rebound(tuple(Range(const(0, loop.var.dtype), const(0, loop.var.dtype)) for loop in wanted), ())
    variables = [*parameters(scop), *fixed]
    names = distinct_names([*variables, *(loop.var for loop in wanted)])
    local = isl.LocalSpace.from_space(whole.get_space())
    places = [(kind.param, n) for n in range(len(variables))] + [(kind.set, n) for n in range(len(wanted))]
    atoms = {name: isl.PwAff.var_on_domain(local, *place) for name, place in zip(names, places, strict=True)}
    visited = isl.Set.universe(whole.get_space())
    ranges: list[Range] = []
    for at, loop in enumerate(wanted):
        outer = names[len(variables) : len(variables) + at]
        shadow = _of_one(whole, outer).coalesce()
        known = dict(zip(names, [*variables, *(one.var for one in wanted[:at])], strict=False))
        dtype = loop.var.dtype
        lows, highs = _ends(shadow, _of_one(every, outer).params())
        least = functools.reduce(build.max_, [build.cast(dtype, from_ast(each, known)) for each in lows])
        stops = [cancelled(build.add(build.cast(dtype, from_ast(each, known)), 1)) for each in highs]
        ranges.append(range_between(least, functools.reduce(build.min_, stops)))
        # What is visited is told by the expressions, not by what they were made of: that holds where there are points.
        own = atoms[names[len(variables) + at]]
        for each in lows:
            visited = visited.intersect(function_of(each, atoms).le_set(own))
        for each in highs:
            visited = visited.intersect(own.le_set(function_of(each, atoms)))
    everything = visited.intersect(every)
    if not whole.is_subset(everything):
        raise TirError("isl's bounds of loops in a new order leave out iterations", origin="poly.rebound")
    tested: list[Loop] = []
    if not everything.is_subset(whole):
        for loop in loops:
            own_points = points(loop.conditions)
            if not everything.is_subset(own_points):
                tested.append(loop)
                everything = everything.intersect(own_points)
    return Rebound(tuple(ranges), tuple(tested))


def _of_one(points: isl.Set, outer: Sequence[str]) -> isl.Set:
    """The values of the loop inside of some named ones, which are parameters; what the loops inside of it do goes."""
    kind, at = isl.dim_type, len(outer)
    shadow = points.project_out(kind.set, at + 1, points.dim(kind.set) - at - 1)
    params = shadow.dim(kind.param)
    if at:
        shadow = shadow.move_dims(kind.param, params, kind.set, 0, at)
        for n, name in enumerate(outer):
            shadow = shadow.set_dim_name(kind.param, params + n, name)
    return shadow


def _ends(shadow: isl.Set, room: isl.Set) -> tuple[list[isl.AstExpr], list[isl.AstExpr]]:
    """What a variable is at least, and what it is at most, for the parameters of ``room``."""
    known, kind = shadow.params(), isl.dim_type
    parts = shadow.get_basic_sets()
    if len(parts) == 1 and not parts[0].dim(kind.div):
        lows: list[isl.AstExpr] = []
        highs: list[isl.AstExpr] = []
        for constraint in parts[0].remove_redundancies().get_constraints():
            for is_low, into in ((True, lows), (False, highs)):
                bounds = constraint.is_lower_bound if is_low else constraint.is_upper_bound
                if bounds(kind.set, 0):
                    end = constraint.get_bound(kind.set, 0)
                    end = end.ceil() if is_low else end.floor()
                    # The bound of the only variable is a function of parameters alone.
                    on_params = isl.PwAff.from_aff(end).project_domain_on_params()
                    into.append(ast_of(on_params, known))
        if lows and highs:
            return lows, highs
    low, high = shadow.dim_min(0), shadow.dim_max(0)
    nothing = room.subtract(known)
    if not nothing.is_empty():
        # An expression for where there are values alone would be anything elsewhere: a loop of no use, as long as a type's range.
        zero = isl.Aff.zero_on_domain(isl.LocalSpace.from_space(known.get_space()))
        low = low.union_add(isl.PwAff.alloc(nothing, zero))
        high = high.union_add(isl.PwAff.alloc(nothing, zero.set_constant_val(-1)))
    return [ast_of(low, room)], [ast_of(high, room)]
