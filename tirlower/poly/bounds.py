"""Is every access inside its buffer? Proved, refuted with an iteration, or unknown, access by access."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.ir import PrimFunc
from tirlower.poly.affine import Space
from tirlower.poly.conditions import Condition, any_of, at_least
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.extract import extract
from tirlower.poly.facts import infeasible_at
from tirlower.poly.forms import Dim, Lin, single
from tirlower.poly.isl import Solver, available, isl_module
from tirlower.poly.scop import Access, Scop
from tirlower.poly.system import BOTH, System, TooManyCases
from tirlower.poly.to_isl import parameters, union_over
from tirlower.poly.verdict import PROVED, Verdict, Witness

__all__ = ["AccessBounds", "check_bounds"]


@dataclass(frozen=True)
class AccessBounds:
    """The verdict on one access: whether all of its subscripts are inside its buffer in every iteration.

    Refuted means that some iteration is certainly outside, whatever the sizes for which the access runs at all;
    the witness is that iteration. Unknown accesses are those that a guard would decide at run time.
    """

    access: Access
    verdict: Verdict


def check_bounds(func: PrimFunc | Scop, *, solver: Solver | None = None) -> list[AccessBounds]:
    """A verdict for each access by subscripts, in the order of the text.

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
        if access.indices is None or access.extents is None:
            continue
        # Equal subscripts under the same conditions (a load and a store of `C[i, j]`) are proved once.
        key = (
            tuple(lin.key for lin in access.indices),
            tuple(lin.key for lin in access.extents),
            access.loops,
            tuple(id(condition) for condition in access.conditions),
        )
        verdict = PROVED if key in proved else _check(conflicts, access)
        if verdict.proved:
            proved.add(key)
        found.append(AccessBounds(access, verdict))
    return found


def _check(conflicts: Conflicts, access: Access) -> Verdict:
    scop = conflicts.scop
    unknown: Verdict | None = None
    for axis, (index, extent) in enumerate(zip(access.indices or (), access.extents or (), strict=True)):
        ways = [way for way in ((-index).shifted(-1), index - extent) if not _never(scop.space, way)]
        if ways and not _flattened_inside(scop, access, index, extent):
            found = _axis(conflicts, access, axis, [at_least(way) for way in ways])
            if found.refuted:
                return found
            if not found.proved:
                if unknown is None:
                    unknown = found
    return PROVED if unknown is None else unknown


def _never(space: Space, violation: Lin) -> bool:
    high = space.interval(violation)[1]
    return high is not None and high < 0


def _axis(conflicts: Conflicts, access: Access, axis: int, ways: list[Condition]) -> Verdict:
    """The verdict on one subscript, which is outside where one of ``ways`` holds."""
    scop = conflicts.scop
    system = _domain(scop, access)
    system.add(any_of(ways), BOTH)
    found = system.solve(conflicts.solver)
    if found.status == "empty":
        return PROVED
    buffer = access.buffer
    assert buffer is not None  # the access has extents
    what = f"subscript {axis} of {access.text}, whose extent is {buffer.shape[axis]}"
    if found.status == "unknown":
        return Verdict("unknown", f"whether {what} stays inside is not known: {found.reason}")
    if not found.exact or not access.regular or scop.irregular:
        why = found.reason or scop.irregular or "how often it runs depends on what is computed"
        return Verdict("unknown", f"whether {what} stays inside depends on values at run time: {why}")
    assert found.values is not None  # exact
    point = conflicts.point(access, BOTH, found.values)
    witness = None if point is None else Witness(point, None, conflicts.parameters(found.values))
    if not _certain(conflicts, access, ways):
        return Verdict(
            "unknown",
            f"{what}, is outside for some sizes",
            witness,
            "relate the sizes with T.assume(…) or an assert, or by the shapes of the parameters",
        )
    return Verdict("refuted", f"{what}, goes outside", witness, "correct the subscript, the extent or the guard")


def _domain(scop: Scop, access: Access) -> System:
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *access.conditions, *(c for loop in access.loops for c in loop.conditions)):
        system.add(condition, BOTH)
    return system


def _certain(conflicts: Conflicts, access: Access, ways: list[Condition]) -> bool:
    """Whether the access goes outside for all sizes for which it runs."""
    scop = conflicts.scop
    if not scop.exact(access) or not all(way.is_exact for way in ways):
        return False
    params: list[tuple[int, Dim]] = [(BOTH, var) for var in parameters(scop)]
    plain = _domain(scop, access)
    plain_rows = plain.copy()
    for index in access.indices or ():
        plain_rows.row(index, BOTH)
    used = {dim for (_, dim) in plain_rows.columns}
    params = [key for key in params if key[1] in used]
    for extent in access.extents or ():
        params += [
            (BOTH, dim) for dim in extent.terms if (BOTH, dim) not in params and not scop.space.deps(single(dim))
        ]
    if not params:
        return True
    if not available():
        return False
    outside = _domain(scop, access)
    outside.add(any_of(ways), BOTH)
    isl = isl_module()
    with conflicts.solver.limited():
        try:
            return bool(union_over(plain, params).is_subset(union_over(outside, params)))
        except (isl.Error, TooManyCases):
            return False


def _flattened_inside(scop: Scop, access: Access, index: Lin, extent: Lin) -> bool:
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
