"""isl objects from systems of constraints: sets over chosen dims, and a scop's domains, accesses and schedule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tirlower.ir import Var
from tirlower.poly.constraint_system import BOTH, SINK, SOURCE, System
from tirlower.poly.forms import Dim, Form, constant, single
from tirlower.poly.isl import isl, matrices

if TYPE_CHECKING:
    from tirlower.poly.conditions import Condition
    from tirlower.poly.scop import Access, Loop, Scop, Statement

__all__ = [
    "accesses",
    "distinct_names",
    "domains",
    "map_of",
    "parameters",
    "relation",
    "schedule",
    "set_of",
]

Key = tuple[int, Dim]


def _set(space: isl.Space, system: System, keys: Sequence[Key]) -> isl.Set:
    kind = isl.dim_type
    result = isl.Set.empty(space)
    for eq, ineq in _matrices(system, keys):
        part = isl.BasicSet.from_constraint_matrices(space, eq, ineq, kind.cst, kind.param, kind.set, kind.div)
        result = result.union(isl.Set.from_basic_set(part))
    return result


def _matrices(system: System, keys: Sequence[Key]) -> Iterator[tuple[isl.Mat, isl.Mat]]:
    """The equations and inequalities of each case of a system, with the columns of ``keys`` first."""
    for columns, equations, inequalities in system.ordered_cases(keys):
        yield matrices(columns, equations, inequalities)


def distinct_names(dims: Iterable[Var]) -> list[str]:
    """Names for isl, made distinct."""
    seen: dict[str, int] = {}
    made = []
    for var in dims:
        count = seen.get(var.name, 0)
        seen[var.name] = count + 1
        name = "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in var.name)
        made.append(name if not count else f"{name}_{count}")
    return made


def parameters(scop: Scop) -> list[Var]:
    """The sizes and scalars of a function, in order of appearance."""
    return [var for var in scop.space.ranges if var not in scop.space.iterated]


def _instances(scop: Scop, loops: Sequence[Loop], conditions: Iterable[Condition], equal: frozenset[Var]) -> System:
    system = System(scop.space, equal)
    for condition in (*scop.context, *conditions, *(c for loop in loops for c in loop.conditions)):
        system.add(condition, SOURCE)
    return system


def set_of(scop: Scop, system: System, keys: Sequence[Key], name: str = "", fixed: Sequence[Var] = ()) -> isl.Set:
    """A system as an isl Set over ``keys``, with parameters: those of the function, then ``fixed`` loop variables."""
    params = [*parameters(scop), *fixed]
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, len(params), len(keys)).set_tuple_name(isl.dim_type.set, name)
    return _set(_named(space, params), system, _columns(system, params, keys))


def map_of(scop: Scop, system: System, keys: Sequence[Key], inputs: int, names: tuple[str, str]) -> isl.Map:
    """A system as an isl Map, the first ``inputs`` of ``keys`` its domain, with the parameters of the function."""
    params, kind = parameters(scop), isl.dim_type
    space = isl.Space.alloc(isl.DEFAULT_CONTEXT, len(params), inputs, len(keys) - inputs)
    for at, name in zip((kind.in_, kind.out), names, strict=True):
        if name:
            space = space.set_tuple_name(at, name)
    space = _named(space, params)
    result = isl.Map.empty(space)
    for eq, ineq in _matrices(system, _columns(system, params, keys)):
        part = isl.BasicMap.from_constraint_matrices(
            space, eq, ineq, kind.cst, kind.param, kind.in_, kind.out, kind.div
        )
        result = result.union(isl.Map.from_basic_map(part))
    return result


def _named(space: isl.Space, params: Sequence[Var]) -> isl.Space:
    for n, name in enumerate(distinct_names(params)):
        space = space.set_dim_name(isl.dim_type.param, n, name)
    return space


def _columns(system: System, params: Sequence[Var], keys: Sequence[Key]) -> list[Key]:
    """Parameters and ``keys``, of which the system has columns then."""
    every = [*((BOTH, param) for param in params), *keys]
    for side, dim in every:
        system.column(dim, side)
    return every


def domain(scop: Scop, statement: Statement) -> isl.Set:
    """The instances of a statement as an isl Set named after it."""
    system = _instances(scop, statement.loops, statement.conditions, frozenset())
    return set_of(scop, system, [(SOURCE, loop.var) for loop in statement.loops], statement.name)


def domains(scop: Scop) -> isl.UnionSet:
    """The instances of all statements."""
    result = isl.UnionSet.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
    for statement in scop.statements:
        result = result.union(isl.UnionSet.from_set(domain(scop, statement)))
    return result


def relation(scop: Scop, access: Access) -> isl.Map:
    """An access as an isl Map from instances to the elements of its buffer."""
    system = _instances(scop, access.loops, access.conditions, frozenset())
    outputs = []
    for n, lin in enumerate(access.coordinates):
        axis = Var(f"e{n}")
        scop.space.iterated.add(axis)
        system.column(axis, SINK)
        system.add_same(lin, single(axis))
        outputs.append((SINK, axis))
    keys: list[Key] = [*((SOURCE, loop.var) for loop in access.loops), *outputs]
    return map_of(scop, system, keys, len(access.loops), (access.statement.name, access.data.name))


def accesses(scop: Scop, write: bool) -> isl.UnionMap:
    """The reads or writes of all statements."""
    result = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
    for access in scop.accesses:
        if access.is_write == write and access.indices is not None:
            result = result.union(isl.UnionMap.from_map(relation(scop, access)))
    return result


def schedule(scop: Scop) -> isl.UnionMap:
    """The time of each instance: (place of the outer loop, its iteration, …, place of the statement)."""
    result = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
    depth = max((len(statement.loops) for statement in scop.statements), default=0)
    for statement in scop.statements:
        system = _instances(scop, statement.loops, statement.conditions, frozenset())
        times: list[Form] = []
        for loop in statement.loops:
            times += [constant(loop.order), single(loop.var)]
        times.append(constant(statement.order))
        times += [constant(0)] * (2 * depth + 1 - len(times))
        outputs: list[Key] = []
        for n, lin in enumerate(times):
            axis = Var(f"t{n}")
            scop.space.iterated.add(axis)
            system.column(axis, SINK)
            system.add_same(lin, single(axis))
            outputs.append((SINK, axis))
        keys: list[Key] = [*((SOURCE, loop.var) for loop in statement.loops), *outputs]
        result = result.union(
            isl.UnionMap.from_map(map_of(scop, system, keys, len(statement.loops), (statement.name, "")))
        )
    return result
