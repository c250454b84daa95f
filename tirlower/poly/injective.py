"""Is a map of indices injective on a box: do no two of its points come to one place?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.diagnostics import TirError
from tirlower.ir import Expr, IntImm, Var, build, const, substitute
from tirlower.ir.index_map import IndexMap
from tirlower.poly.conditions import at_least
from tirlower.poly.constraint_system import SINK, SOURCE, System
from tirlower.poly.expressions import Converter
from tirlower.poly.forms import Form, Opaque, constant, single
from tirlower.poly.isl import default_solver
from tirlower.poly.scop import Scop
from tirlower.poly.verdict import PROVED, Verdict

__all__ = ["injective", "may_pad"]


def injective(scop: Scop, index_map: IndexMap, shape: Sequence[Expr]) -> Verdict:
    """Whether an index map gives different indices for different points of a shape, in what is known of a function.

    Refuted with the two that meet. Unknown where the map is not quasi-affine, or isl gives up.

    >>> from tirlower.poly import extract
    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 8), "int32")):
    ...     A[0, 0] = 1
    ... '''))
    >>> shape = scop.func.buffers[0].shape
    >>> injective(scop, IndexMap.from_func(lambda i, j: [i // 4, j, i % 4]), shape).proved
    True
    >>> injective(scop, IndexMap.from_func(lambda i, j: [i + j]), shape).reason
    'the map takes [0, 1] and [1, 0] to one place'
    """
    points = [Var(var.name, var.dtype) for var in index_map.initial_indices]
    space = scop.space
    space.iterated.update(points)
    converter = Converter(space, scop.pointers.changing)
    names = dict(zip(index_map.initial_indices, points, strict=True))
    box: list[tuple[Form, Form]] = []
    for var, extent in zip(points, shape, strict=True):
        space.ranges[var] = (0, extent.value - 1 if isinstance(extent, IntImm) else (1 << 62))
        box.append((single(var), converter.lin(extent)))
    forms = [converter.lin(substitute(index, names)) for index in index_map.final_indices]
    if any(isinstance(dim, Opaque) for form in forms for dim in form.terms):
        return Verdict("unknown", f"the map {index_map} is no quasi-affine form of its indices")
    solver = default_solver()
    unknown: Verdict | None = None
    for var in points:
        system = System(space, frozenset())
        for condition in scop.context:
            system.add(condition, SOURCE)
        for side in (SOURCE, SINK):
            for own, end in box:
                system.add(at_least(own), side)
                system.add(at_least(end - own - constant(1)), side)
        for form in forms:
            system.relate(form, SOURCE, "=", form, SINK)
        system.relate(single(var), SOURCE, "<", single(var), SINK)
        try:
            found = system.solve(solver)
        except TirError as error:
            return Verdict("unknown", error.message)
        if found.status == "empty":
            continue
        if found.status == "found" and found.exact and found.values is not None:
            one, two = ([_value(found.values, side, dim) for dim in points] for side in (SOURCE, SINK))
            return Verdict("refuted", f"the map takes {one} and {two} to one place")
        unknown = Verdict("unknown", f"whether the map {index_map} is injective is not known: {found.reason}")
    return PROVED if unknown is None else unknown


def may_pad(index_map: IndexMap, shape: Sequence[Expr]) -> bool:
    """Whether the shape that an injective map gives may have more places than there are elements.

    >>> tiles = IndexMap.from_func(lambda i: [i // 4, i % 4])
    >>> from tirlower.ir import const
    >>> may_pad(tiles, [const(16)]), may_pad(tiles, [const(14)])
    (False, True)
    """
    one: Expr = const(1, "int64")
    old, new = (
        reduce(lambda a, b: build.mul(a, build.cast("int64", b)), sizes, one)
        for sizes in (shape, index_map.map_shape(shape))
    )
    return not Analyzer().can_prove_equal(old, new)


def _value(values: object, side: int, dim: Var) -> int:
    return int(values[side, dim])  # type: ignore[index]
