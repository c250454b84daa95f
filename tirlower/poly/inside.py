"""Where something holds: for which sizes accesses are inside their buffers, as a condition that a program can ask before it runs
them; in which iterations at the end of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.ir import Expr, Var, build
from tirlower.poly.bounds import AccessBounds, domain_of, ways_out
from tirlower.poly.conditions import Condition, any_of, at_least, equal
from tirlower.poly.constraint_system import BOTH, System, TooManyCases
from tirlower.poly.forms import single
from tirlower.poly.from_isl import from_ast
from tirlower.poly.isl import available, default_solver, isl
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.to_isl import distinct_names, parameters, set_of

__all__ = ["reach", "where_inside"]

CONSTRAINTS: Final = 24
"""Constraints in a condition, from which on it is none that a call should be asked."""


def where_inside(scop: Scop, found: Sequence[AccessBounds]) -> Expr | None:
    """A condition on the sizes and scalars of a function, in 64 bits, such that accesses which are not proved inside their buffers
    are inside for those of which it holds; None where there is none, or isl does not tell soon, or is not there.

    Where it does not hold they may be inside as well.

    >>> from tirlower.poly import check_bounds, extract
    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... def f(n: T.int32, m: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((m,), "int32")):
    ...     for i in range(m):
    ...         B[i] = A[i + 2]
    ... '''))
    >>> print(where_inside(scop, check_bounds(scop)))
    T.Cast("int64", n) >= T.Cast("int64", m) + T.int64(2)
    """
    if not available():
        return None
    whole: isl.Set | None = None
    with default_solver().limited():
        try:
            for one in found:
                if one.verdict.refuted or not one.inside_source:
                    return None
                if not one.verdict.proved:
                    where = _of_one(scop, one.access)
                    whole = where if whole is None else whole.intersect(where)
            return None if whole is None else _condition(scop, whole)
        except (isl.Error, TooManyCases):
            return None


def _of_one(scop: Scop, access: Access) -> isl.Set:
    """The sizes for which an access is inside, of those for which it runs; of others, any that make it shorter to say."""
    runs = set_of(scop, domain_of(scop, access), [])
    inside = runs
    for index, extent in zip(access.indices or (), access.extents or (), strict=True):
        ways = ways_out(scop, access, index, extent)
        if ways:
            system = domain_of(scop, access)
            system.add(any_of([at_least(way) for way in ways]), BOTH)
            inside = inside.subtract(set_of(scop, system, []))
    return inside.coalesce().gist(runs.coalesce()).coalesce()


def _condition(scop: Scop, where: isl.Set) -> Expr | None:
    system = System(scop.space, frozenset())
    for condition in scop.context:
        system.add(condition, BOTH)
    context = set_of(scop, system, [])
    if where.intersect(context).is_empty():
        return None
    where = where.gist(context.coalesce()).coalesce().remove_redundancies()
    if where.plain_is_universe() or sum(len(part.get_constraints()) for part in where.get_basic_sets()) > CONSTRAINTS:
        return None
    variables = parameters(scop)
    names = {name: build.cast("int64", var) for name, var in zip(distinct_names(variables), variables, strict=True)}
    return from_ast(isl.AstBuild.from_context(context.params()).expr_from_set(where.params()), names)


def reach(scop: Scop, loops: Sequence[Loop], loop: Loop, condition: Condition, *, from_end: bool = False) -> int | None:
    """How many iterations from the first one (or the last one) of one of some loops have all of those in which a condition inside of
    these may hold, for all sizes; None where that is no number, or isl is not there.

    >>> from tirlower.poly import extract
    >>> from tirlower.poly.conditions import negate
    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... def f(n: T.int32, A: T.Buffer((n,), "int32")):
    ...     for i in range(n):
    ...         if i < n - 2:
    ...             A[i] = A[i + 2]
    ... '''))
    >>> reach(scop, scop.loops, scop.loop("i"), negate(scop.accesses[0].conditions[0]), from_end=True)
    2
    """
    if loop.extent is None or not available():
        return None
    own, axis = single(loop.var), Var("distance")
    system = System(scop.space, frozenset(scop.space.iterated))
    for held in (*scop.context, condition, *(one for each in loops for one in each.conditions)):
        system.add(held, BOTH)
    scop.space.iterated.add(axis)
    system.column(axis, BOTH)
    distance = (loop.start + loop.extent - own).shifted(-1) if from_end else own - loop.start
    system.add(equal(distance - single(axis)), BOTH)
    with default_solver().limited():
        try:
            found = set_of(scop, system, [(BOTH, axis)])
            if found.is_empty():
                return 0
            most = found.dim_max(0).max_val()
        except (isl.Error, TooManyCases):
            return None
    return most.to_python() + 1 if most.is_int() else None
