"""Which two instances show that a program computes something else: an example of a relation, as points of the program before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.ir import Var
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import Dim
from tirlower.poly.instances import Instances, number, value_of
from tirlower.poly.isl import isl
from tirlower.poly.scop import Access
from tirlower.poly.to_isl import parameters
from tirlower.poly.verdict import Point, Verdict, Witness

__all__ = ["ASSUME", "refuted"]

Spot = tuple[Access, tuple[int, ...]]
"""An instance of an access."""

ASSUME = "state what is known with T.assume(…)"


def refuted(before: Instances, wanted: isl.UnionMap, extra: isl.UnionMap, reason: str) -> Verdict:
    """A refusal with two instances of the program before: what a read sees there and does not see any more."""
    sample = _sample(wanted)
    if sample is None:
        return Verdict("unknown", reason or "a read may see another value", help=ASSUME)
    reader, source, params = sample
    others = [one for one in _samples_of(extra, reader, params) if one != source]
    now = _spot(before, others[0]) if others else None
    read, written = _spot(before, reader), _spot(before, source)
    by_name = {var.name: var for var in parameters(before.scop)}
    values = {by_name[name]: value for name, value in params.items() if name in by_name}
    shown = {name: value for name, value in params.items() if name in by_name}
    kept = read or written
    if now is not None and kept is not None and not _meet(before, now, kept, values):
        now = None  # two elements that come to stand in one place
    place = {one: _place(one[0], one[1]) for one in (read, written, now) if one is not None}
    first, second = written, read
    if read is None:  # the value that the function ends with
        first, second = (written, None) if now is None else (now, written)
        why = "would not be what the function leaves"
    elif now is not None and (written is None or place[now] > place[read]):
        first, second = read, now
        why = "would see what is written after it"
    elif written is None:
        first, second = read, now
        why = "would see what nothing has written"
    else:
        why = "would not see any more what it sees"
    if first is None:
        first, second = second, None
    points = [_point(before, one, values) if one is not None else None for one in (first, second)]
    if second is not None and first is not None and points[1] is not None and place[second] < place[first]:
        points.reverse()
    witness = None if points[0] is None else Witness(points[0], points[1], shown)
    subject = read[0].text if read is not None else written[0].text if written is not None else "a value"
    return Verdict("refuted", reason or f"{subject} {why}", witness)


def _meet(before: Instances, a: Spot, b: Spot, params: Mapping[Var, int]) -> bool:
    """Whether two instances touch one element."""
    points = _point(before, a, params), _point(before, b, params)
    if points[0] is None or points[1] is None:
        return False
    home = before.scop.homes.get(a[0].data, ())  # each iteration of these loops has memory of its own
    mine, other = ([at for loop, at in zip(x.loops, ats, strict=False) if loop in home] for x, ats in (a, b))
    return a[0].data is b[0].data and mine == other and points[0].indices == points[1].indices


def _spot(before: Instances, one: tuple[str, tuple[int, ...]]) -> tuple[Access, tuple[int, ...]] | None:
    access = before.by_name.get(one[0])
    return None if access is None else (access, one[1])


def _place(access: Access, at: Sequence[int]) -> tuple[int, ...]:
    made: list[int] = []
    for loop, value in zip(access.loops, at, strict=False):
        made += [loop.order, value]
    return (*made, access.order, access.phase)


def _point(before: Instances, one: tuple[Access, tuple[int, ...]], params: Mapping[Var, int]) -> Point | None:
    access, at = one
    values: dict[Dim, int] = {}
    values.update(params.items())
    values |= {loop.var: value for loop, value in zip(access.loops, at, strict=False)}
    values |= dict(zip(before.lanes(access), at[len(access.loops) :], strict=False))
    indices: list[int] = []
    for form in access.indices or ():
        found = evaluate(form, values)
        if found is None:
            return None
        indices.append(found)
    loops = tuple((loop.name, values[loop.var]) for loop in access.loops if loop.regular)
    span = getattr(access.node, "span", None) or access.statement.node.span
    name = access.buffer.name if access.buffer is not None else access.data.name
    node = access.statement.node
    return Point(loops, access.is_write, name, tuple(indices), access.text, span, access.node, node)


def _sample(
    relation: isl.UnionMap,
) -> tuple[tuple[str, tuple[int, ...]], tuple[str, tuple[int, ...]], dict[str, int]] | None:
    """A pair of a relation, each with its name and coordinates, and the values of the parameters."""
    found: list[isl.Map] = []
    relation.foreach_map(found.append)
    for one in sorted(found, key=str):
        if one.is_empty():
            continue
        kind = isl.dim_type
        inputs, outputs = one.dim(kind.in_), one.dim(kind.out)
        names = one.get_tuple_name(kind.in_), one.get_tuple_name(kind.out)
        shown = _small(one.move_dims(kind.in_, 0, kind.param, 0, 0))
        point = shown.wrap().sample_point()
        params = {
            shown.get_dim_name(kind.param, n) or "": number(point.get_coordinate_val(kind.param, n))
            for n in range(shown.dim(kind.param))
        }
        values = [number(point.get_coordinate_val(kind.set, n)) for n in range(inputs + outputs)]
        return (names[0], tuple(values[:inputs])), (names[1], tuple(values[inputs:])), params
    return None


def _small(relation: isl.Map) -> isl.Map:
    """A part of a relation in which sizes are small, if there is one."""
    kind = isl.dim_type
    for most in (4, 16, 64, 1024):
        part = relation
        for n in range(relation.dim(kind.param)):
            part = part.upper_bound_val(kind.param, n, value_of(most)).lower_bound_val(kind.param, n, value_of(-most))
        if not part.is_empty():
            return part
    return relation


def _samples_of(
    relation: isl.UnionMap, reader: tuple[str, tuple[int, ...]], params: Mapping[str, int]
) -> list[tuple[str, tuple[int, ...]]]:
    """What one instance is related to, an example of each name."""
    maps: list[isl.Map] = []
    relation.foreach_map(maps.append)
    made: list[tuple[str, tuple[int, ...]]] = []
    kind = isl.dim_type
    for one in sorted(maps, key=str):
        if one.get_tuple_name(kind.in_) != reader[0]:
            continue
        for n, value in enumerate(reader[1]):
            one = one.fix_val(kind.in_, n, value_of(value))
        for n in range(one.dim(kind.param)):
            name = one.get_dim_name(kind.param, n) or ""
            if name in params:
                one = one.fix_val(kind.param, n, value_of(params[name]))
        if not one.is_empty():
            image = one.range()
            point = image.sample_point()
            values = tuple(number(point.get_coordinate_val(kind.set, n)) for n in range(image.dim(kind.set)))
            made.append((one.get_tuple_name(kind.out), values))
    return made
