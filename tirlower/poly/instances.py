"""The instances of accesses as isl relations: what each touches, when it happens, which instances of another program it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.ir import BlockIter, Expr, Var
from tirlower.poly.conditions import Condition
from tirlower.poly.constraint_system import SINK, SOURCE, System
from tirlower.poly.expressions import Converter
from tirlower.poly.forms import Dim, Form, Opaque, constant, single
from tirlower.poly.isl import isl
from tirlower.poly.scop import Access, Scop
from tirlower.poly.to_isl import map_of

__all__ = [
    "Instances",
    "NotKnown",
    "at_the_end",
    "inexact_conditions",
    "number",
    "renamed",
    "tuple_space",
    "union_of",
    "value_of",
]


class NotKnown(Exception):
    """Something is no quasi-affine form, so that the question cannot be asked."""


class Instances:
    """The instances of a program's accesses, under names of their own: a ``prefix`` and a number."""

    def __init__(self, scop: Scop, prefix: str) -> None:
        self.scop = scop
        self.prefix = prefix
        self.names: dict[Access, str] = {access: f"{prefix}{n}" for n, access in enumerate(scop.accesses)}
        self.by_name = {name: access for access, name in self.names.items()}
        self.depth = max((len(access.loops) for access in scop.accesses), default=0)
        self.last = max((access.order for access in scop.accesses), default=0) + 1
        self.converter = Converter(scop.space, scop.pointers.changing)
        for op in scop.names:
            if op.value is not None and (isinstance(op, BlockIter) or op.var.dtype.is_integral):
                self.converter.bind(op.var, op.value)

    # Instances

    def lanes(self, access: Access) -> list[Var]:
        """The lanes of an access of vectors."""
        lanes = self.scop.space.lanes
        dims = (dim for form in access.coordinates for dim in form.terms)
        return list(dict.fromkeys(dim for dim in dims if isinstance(dim, Var) and dim in lanes))

    def spread(self, access: Access, dims: int) -> int:
        """How many coordinates of the element stand in an instance: all where not known which element is accessed."""
        if access.indices is not None and all(_is_exact(form) for form in access.coordinates):
            return 0
        return dims

    def system(self, access: Access) -> System:
        """The instances of an access."""
        system = System(self.scop.space, frozenset())
        conditions = (*self.scop.context, *access.conditions, *(c for loop in access.loops for c in loop.conditions))
        for condition in conditions:
            system.add(condition, SOURCE)
        return system

    def axes(self, system: System, count: int) -> list[tuple[int, Dim]]:
        """New dims on the side of results."""
        made: list[tuple[int, Dim]] = []
        for n in range(count):
            axis = Var(f"e{n}")
            self.scop.space.iterated.add(axis)
            system.column(axis, SINK)
            made.append((SINK, axis))
        return made

    def instance(self, access: Access) -> list[tuple[int, Dim]]:
        """The dims of an instance."""
        return [*((SOURCE, loop.var) for loop in access.loops), *((SOURCE, lane) for lane in self.lanes(access))]

    def home(self, access: Access) -> list[Form]:
        """The iterations of the loops inside which the memory was allocated: each has memory of its own."""
        return [single(loop.var) for loop in self.scop.homes.get(access.data, ())]

    def element(self, access: Access, memory: str, dims: int) -> isl.Map:
        """The instances of an access with the element that each touches."""
        system = self.system(access)
        home = self.home(access)
        spread = self.spread(access, dims)
        own = self.axes(system, spread)
        outputs = self.axes(system, len(home) + dims)
        for form, (_, axis) in zip(home, outputs, strict=False):
            system.relate(form, SOURCE, "=", single(axis), SINK)
        for n, (_, axis) in enumerate(outputs[len(home) :]):
            if spread:
                system.relate(single(own[n][1]), SINK, "=", single(axis), SINK)
            if access.indices is not None:
                form = access.coordinates[n]
                if _is_exact(form):
                    system.relate(form, SOURCE, "=", single(axis), SINK)
        keys = [*self.instance(access), *own, *outputs]
        return self._map(system, keys, len(keys) - len(outputs), (self.names[access], memory))

    def time(self, access: Access, dims: int) -> isl.Map:
        """The instances of an access with the times at which they happen."""
        system = System(self.scop.space, frozenset())
        times: list[Form] = []
        for loop in access.loops:
            times += [constant(loop.order), single(loop.var)]
        times.append(constant(access.order))
        times += [constant(0)] * (2 * self.depth + 1 - len(times))
        times.append(constant(access.phase))
        keys = self.instance(access)
        for _, dim in keys:
            system.column(dim, SOURCE)
        own = self.axes(system, self.spread(access, dims))
        outputs = self.axes(system, len(times))
        for form, (_, axis) in zip(times, outputs, strict=True):
            system.relate(form, SOURCE, "=", single(axis), SINK)
        return self._map(system, [*keys, *own, *outputs], len(keys) + len(own), (self.names[access], "T"))

    def to(
        self,
        access: Access,
        dims: int,
        name: str,
        values: Sequence[Expr | Var],
        lanes: int = 0,
        spread: int = 0,
        where: Condition | None = None,
    ) -> isl.Map:
        """The instances of an access with others: of a name, their loops given as expressions, then lanes, then elements."""
        system = self.system(access)
        if where is not None:
            system.add(where, SOURCE)
        own = self.axes(system, self.spread(access, dims))
        outputs = self.axes(system, len(values) + lanes + spread)
        forms = [self.form(value) for value in values]
        forms += [single(lane) for lane in self.lanes(access)[:lanes]]
        for form, (_, axis) in zip(forms, outputs, strict=False):
            system.relate(form, SOURCE, "=", single(axis), SINK)
        for (_, mine), (_, axis) in zip(own, outputs[len(forms) :], strict=False):
            system.relate(single(mine), SINK, "=", single(axis), SINK)
        keys = [*self.instance(access), *own, *outputs]
        return self._map(system, keys, len(keys) - len(outputs), (self.names[access], name))

    def form(self, value: Expr | Var) -> Form:
        """An expression over loops as a form."""
        found = self.converter.lin(value)
        if not _is_exact(found):
            raise NotKnown(f"the value {value} of a loop is no quasi-affine form")
        return found

    def _map(self, system: System, keys: Sequence[tuple[int, Dim]], inputs: int, names: tuple[str, str]) -> isl.Map:
        return map_of(self.scop, system, list(keys), inputs, names)


def _is_exact(form: Form) -> bool:
    """Whether a form says which element it is."""
    return all(getattr(dim, "exact", True) and not isinstance(dim, Opaque) for dim in form.terms)


def inexact_conditions(access: Access) -> list[str]:
    """What is not known of whether an instance happens."""
    conditions = (*access.conditions, *(c for loop in access.loops for c in loop.conditions))
    return [str(one) for one in conditions if not one.is_exact] + [
        loop.name for loop in access.loops if not loop.regular
    ]


def union_of(maps: Iterator[isl.Map] | Sequence[isl.Map]) -> isl.UnionMap:
    """Several relations as one."""
    result = isl.UnionMap.empty(isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 0))
    for one in maps:
        result = result.union(isl.UnionMap.from_map(one))
    return result


def tuple_space(params: isl.Space, name: str, dims: int) -> isl.Space:
    """The space of tuples of a name."""
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, dims).set_tuple_name(isl.dim_type.set, name)
    return space.align_params(params)


def renamed(space: isl.Space, name: str) -> isl.Map:
    """The elements of a tuple with those of another name."""
    made = isl.Map.identity(space.map_from_set())
    return made.set_tuple_name(isl.dim_type.out, name)


def at_the_end(space: isl.Space, dims: int, last: int) -> isl.Map:
    """Elements with the time after everything."""
    made = isl.Map.from_domain(isl.Set.universe(space)).add_dims(isl.dim_type.out, dims)
    made = made.set_tuple_name(isl.dim_type.out, "T")
    for n in range(dims):
        made = made.fix_val(isl.dim_type.out, n, value_of(last if n == 0 else 0))
    return made


def value_of(value: int) -> isl.Val:
    """A number of isl."""
    return isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value)


def number(value: isl.Val) -> int:
    """A number of isl as an int."""
    try:
        return int(value.to_python())
    except TypeError:  # isl's operations ran out while it looked for a point: it has no text
        raise NotKnown("isl gave up") from None
