"""Is every access inside its buffer? Proved, refuted with an iteration, or unknown, access by access."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tirlower.arith.intervals import INF
from tirlower.ir import PrimFunc, Var
from tirlower.poly.conditions import Condition, any_of, at_least
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.constraint_system import BOTH, Outcome, System, TooManyCases
from tirlower.poly.cover import covered
from tirlower.poly.expressions import Converter
from tirlower.poly.extract import extract
from tirlower.poly.forms import Atom, Dim, Form, Opaque, single
from tirlower.poly.implied import implied, infeasible_at
from tirlower.poly.isl import Solver, available
from tirlower.poly.scop import Access, Scop
from tirlower.poly.to_isl import parameters
from tirlower.poly.verdict import PROVED, Verdict, Witness

__all__ = ["AccessBounds", "check_bounds", "domain_of", "ways_out"]


@dataclass(frozen=True)
class AccessBounds:
    """The verdict on one access: whether all of its subscripts are inside its buffer in every iteration.

    Refuted means that some iteration is certainly outside, whatever the sizes for which the access runs at all;
    the witness is that iteration. Unknown accesses are those that a guard would decide at run time: ``open`` are the
    subscripts that it has to look at. ``inside_source`` says, of an access to a buffer that a block matches to a region,
    that the element is proved to be inside the buffer of the region too.
    """

    access: Access
    verdict: Verdict
    open: tuple[int, ...] = ()
    inside_source: bool = True


def check_bounds(
    func: PrimFunc | Scop, *, of: Collection[Var] | None = None, solver: Solver | None = None
) -> list[AccessBounds]:
    """A verdict for each access by subscripts (``of`` some memory alone), in the order of the text.

    >>> from tirlower.script import parse
    >>> for found in check_bounds(parse('''
    ... @T.prim_func
    ... def shift(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = A[i + 1]
    ... ''')):
    ...     print(found.access.text, found.verdict.status, found.verdict.witness)
    A[i + 1] refuted iteration (i = 7) reads A[8]
    B[i] proved None
    """
    scop = extract(func)
    conflicts = Conflicts(scop, solver)
    proved: set[object] = set()
    found = []
    for access in scop.accesses:
        if access.indices is None or access.extents is None or (of is not None and access.data not in of):
            continue
        # Equal subscripts under the same conditions (a load and a store of `C[i, j]`) are proved once.
        key = (
            tuple(lin.key for lin in access.indices),
            tuple(lin.key for lin in access.extents),
            access.loops,
            tuple(id(condition) for condition in access.conditions),
        )
        with conflicts.solver.verdict():
            verdict, open_ = (PROVED, ()) if key in proved else _check(conflicts, access)
            inside = access.site is None or _in_source(conflicts, access)
        if verdict.proved:
            proved.add(key)
        found.append(AccessBounds(access, verdict, open_, inside))
    return found


def _check(conflicts: Conflicts, access: Access) -> tuple[Verdict, tuple[int, ...]]:
    scop = conflicts.scop
    unknown: Verdict | None = None
    open_: list[int] = []
    for axis, (index, extent) in enumerate(zip(access.indices or (), access.extents or (), strict=True)):
        ways = ways_out(scop, access, index, extent)
        if ways and not _flattened_inside(scop, access, index, extent):
            found = _axis(conflicts, access, axis, [at_least(way) for way in ways])
            if found.refuted:
                return found, ()
            if not found.proved:
                open_.append(axis)
                if unknown is None:
                    unknown = found
    return PROVED if unknown is None else unknown, tuple(open_)


def ways_out(scop: Scop, access: Access, index: Form, extent: Form) -> list[Form]:
    """How a subscript goes outside: below 0 and past the end, as forms that are at least 0 then; without what intervals or one
    condition exclude."""
    ways = [way for way in ((-index).shifted(-1), index - extent) if scop.space.interval(way)[1] >= 0]
    if not ways:
        return ways
    here = [*access.conditions, *(condition for loop in access.loops for condition in loop.conditions)]
    return [way for way in ways if not implied(here, (-way).shifted(-1))]


def _in_source(conflicts: Conflicts, access: Access) -> bool:
    """Whether an access to a matched region is proved to be inside the buffer that the region is of."""
    scop = conflicts.scop
    source, indices = access.site or (None, ())
    assert source is not None  # asked of matched regions only
    sizes = Converter(scop.space, set())
    for index, extent in zip(indices, source.shape, strict=True):
        ways = ways_out(scop, access, index, sizes.lin(extent))
        if ways:
            system = domain_of(scop, access)
            system.add(any_of([at_least(way) for way in ways]), BOTH)
            found = system.solve(conflicts.solver)
            if found.status != "empty":
                found = conflicts.points.violation(access, [at_least(way) for way in ways]) or found
            if found.status != "empty":
                return False
    return True


def _axis(conflicts: Conflicts, access: Access, axis: int, ways: list[Condition]) -> Verdict:
    """The verdict on one subscript, which is outside where one of ``ways`` holds."""
    scop = conflicts.scop
    free = _unrelated(scop, access, ways)
    if free:
        found = Outcome("found", False, None, free)
    else:
        system = domain_of(scop, access)
        system.add(any_of(ways), BOTH)
        found = system.solve(conflicts.solver)
    if found.status != "empty" and not (found.status == "found" and found.exact):
        found = conflicts.points.violation(access, ways) or found
    if found.status == "empty":
        return PROVED
    buffer = access.buffer
    assert buffer is not None  # the access has extents
    extent = buffer.shape[axis]
    inside = f"subscript {axis} of {access.text} stays inside 0 <= index < {extent}"
    if found.status == "unknown":
        return Verdict("unknown", f"whether {inside} is not known: {found.reason}")
    if not found.exact or not access.regular or scop.irregular or _may_end_before(scop, access):
        why = found.reason or scop.irregular or "whether and how often it runs depends on what is computed"
        return Verdict("unknown", f"whether {inside} depends on values at run time: {why}")
    assert found.values is not None  # exact
    point = conflicts.point(access, BOTH, found.values)
    witness = None if point is None else Witness(point, None, conflicts.parameters(found.values))
    if not _certain(conflicts, access, ways):
        return Verdict(
            "unknown",
            f"subscript {axis} of {access.text} leaves 0 <= index < {extent} for some sizes",
            witness,
            "relate the sizes with T.assume(…) or an assert, or by the shapes of the parameters",
        )
    reason = f"subscript {axis} of {access.text} goes outside 0 <= index < {extent}"
    remedy = "correct the subscript, the extent or the guard"
    index = access.indices[axis] if access.indices is not None else None
    if index is not None and index.is_constant and index.const < 0:
        remedy = f"subscripts do not count from the end: write [{extent} - {-index.const}]"
    return Verdict("refuted", reason, witness, remedy)


def _may_end_before(scop: Scop, access: Access) -> bool:
    """Whether an assertion may have failed before the access, of which the conditions at the access do not speak: they
    speak of its own iteration, not of those before."""
    for order, loops, condition in scop.asserted:
        first = order < access.order or (loops and access.loops and loops[0] is access.loops[0])
        if first and (loops or all(condition is not each for each in access.conditions)):
            return True
    return False


def _unrelated(scop: Scop, access: Access, ways: list[Condition]) -> str:
    """A value read from memory that no condition mentions and that alone takes a subscript outside: isl cannot say more.
    Nothing where there is none."""
    here = (*scop.context, *access.conditions, *(c for loop in access.loops for c in loop.conditions))
    known: set[Dim] = set()
    for condition in here:
        for form in condition.forms():
            for dim in form.terms:
                if isinstance(dim, Atom) and not isinstance(dim, Opaque):
                    return ""  # which may contain any
                known.add(dim)
    for way in ways:
        for lin in way.forms():
            if any(isinstance(dim, Atom) and not isinstance(dim, Opaque) for dim in lin.terms):
                continue  # `x % 8` is `x - x // 8 * 8`
            for dim, c in lin.terms.items():
                if isinstance(dim, Opaque) and dim not in known and abs(dim.interval[c > 0]) == INF:
                    return dim.name
    return ""


def domain_of(scop: Scop, access: Access) -> System:
    """When an access runs: the sizes and iterations."""
    return _domain(scop, access, access.conditions)


def _domain(scop: Scop, access: Access, conditions: Sequence[Condition]) -> System:
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *conditions, *(c for loop in access.loops for c in loop.conditions)):
        system.add(condition, BOTH)
    return system


def _whatever_the_branch(scop: Scop, access: Access) -> System:
    """When an access runs, or would in another branch of the choices around its nest: of several versions for sizes, one may be
    there for those that are wrong."""
    stated = {id(condition) for _, _, condition in scop.asserted}
    around = access.conditions[: len(access.conditions) - len(access.guards)]
    return _domain(scop, access, [*(one for one in around if id(one) in stated), *access.guards])


def _certain(conflicts: Conflicts, access: Access, ways: list[Condition]) -> bool:
    """Whether the access goes outside for all sizes for which it runs."""
    scop = conflicts.scop
    if conflicts.points.static(access, ways):
        return True
    if not scop.exact(access) or not all(way.is_exact for way in ways):
        return False
    params: list[tuple[int, Dim]] = [(BOTH, var) for var in parameters(scop)]
    plain = _whatever_the_branch(scop, access)
    plain_rows = plain.copy()
    for index in access.indices or ():
        plain_rows.row(index, BOTH)
    try:
        # What stands in the alternatives of a choice has its column only where these are taken one by one.
        used = {dim for case in plain_rows.copy().cases() for (_, dim) in case.columns}
    except TooManyCases:
        return False
    params = [key for key in params if key[1] in used]
    for extent in access.extents or ():
        params += [
            (BOTH, dim) for dim in extent.terms if (BOTH, dim) not in params and not scop.space.deps(single(dim))
        ]
    if not params:
        return True
    if not available():
        return False
    outside = _whatever_the_branch(scop, access)
    outside.add(any_of(ways), BOTH)
    try:
        return covered(plain, params, [(outside, params)], conflicts.solver) is True
    except TooManyCases:
        return False


def _flattened_inside(scop: Scop, access: Access, index: Form, extent: Form) -> bool:
    """Whether a flattened subscript with symbolic strides is inside: its digits are, the first below what the extent
    has of its stride. ``(i * n + j) < m * n`` where ``i < m`` and ``0 <= j < n``."""
    if not access.digits or access.stride is None or len(access.coordinates) != 1:
        return False
    if access.coordinates[0].key != index.key:
        return False
    # Past a constant offset that all subscripts of the buffer have.
    if access.base < 0:
        return False
    top, rest = scop.space.divide(extent.shifted(-access.base), access.stride)
    if rest.terms or rest.const:
        return False
    first = access.digits[0]
    return all(infeasible_at(scop, access, way) for way in ((-first).shifted(-1), first - top))
