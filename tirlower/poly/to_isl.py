"""isl objects from systems of constraints: sets over chosen dims, and a scop's domains, accesses and schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tirlower.ir import Var
from tirlower.poly.constraint_system import BOTH, SINK, SOURCE, System
from tirlower.poly.forms import Dim, Form, constant, single
from tirlower.poly.isl import Row, isl_module, matrix

if TYPE_CHECKING:
    from tirlower.poly.scop import Access, Loop, Scop, Statement

__all__ = ["accesses", "distinct_names", "domains", "parameters", "relation", "schedule", "set_of", "union_over"]

Key = tuple[int, Dim]


def union_over(system: System, keys: Sequence[Key]) -> Any:
    """The values that some dims can take in a system, as a nameless isl Set of those dims in order."""
    isl = isl_module()
    for _, dim in keys:
        system.column(dim, BOTH)
    result = isl.Set.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(keys)))
    for case in system.copy().cases():
        rows = _ordered(case, keys)
        if rows is None:
            continue
        columns, equations, inequalities = rows
        kind = isl.dim_type
        space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, len(keys))
        part = isl.BasicSet.from_constraint_matrices(
            space, matrix(equations, columns), matrix(inequalities, columns), kind.cst, kind.param, kind.set, kind.div
        )
        result = result.union(isl.Set.from_basic_set(part))
    return result


def _ordered(case: System, keys: Sequence[Key]) -> tuple[int, list[Row], list[Row]] | None:
    """The rows of a case with the columns of ``keys`` first."""
    rows = case.matrices()
    if rows is None:
        return None
    columns, equations, inequalities = rows
    first = [case.columns[key] for key in keys]
    rest = [column for column in range(columns) if column not in set(first)]
    order = [0, *(column + 1 for column in (*first, *rest))]
    pick = (
        [tuple(row[at] for at in order) for row in equations],
        [tuple(row[at] for at in order) for row in inequalities],
    )
    return columns, *pick


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


def _instances(scop: Scop, loops: Sequence[Loop], conditions: Iterable[Any], equal: frozenset[Var]) -> System:
    system = System(scop.space, equal)
    for condition in (*scop.context, *conditions, *(c for loop in loops for c in loop.conditions)):
        system.add(condition, SOURCE)
    return system


def set_of(
    scop: Scop,
    system: System,
    keys: Sequence[Key],
    inputs: int | None = None,
    names: tuple[str, str] = ("", ""),
    fixed: Sequence[Var] = (),
) -> Any:
    """A system as an isl Set over ``keys`` (or as a Map, the first ``inputs`` of them its domain), with parameters:
    those of the function, then ``fixed`` loop variables."""
    isl = isl_module()
    params = [*parameters(scop), *fixed]
    every: list[Key] = [*((BOTH, p) for p in params), *keys]
    for side, dim in every:
        system.column(dim, side)
    ctx, kind = isl.DEFAULT_CONTEXT, isl.dim_type
    taken = distinct_names(params)
    if inputs is None:
        space = isl.Space.set_alloc(ctx, len(params), len(keys)).set_tuple_name(kind.set, names[0])
    else:
        space = isl.Space.alloc(ctx, len(params), inputs, len(keys) - inputs)
        for at, name in ((kind.in_, names[0]), (kind.out, names[1])):
            if name:
                space = space.set_tuple_name(at, name)
    for n, name in enumerate(taken):
        space = space.set_dim_name(kind.param, n, name)
    result = isl.Set.empty(space) if inputs is None else isl.Map.empty(space)
    for case in system.copy().cases():
        rows = _ordered(case, every)
        if rows is None:
            continue
        columns, equations, inequalities = rows
        eq, ineq = matrix(equations, columns), matrix(inequalities, columns)
        if inputs is None:
            part = isl.BasicSet.from_constraint_matrices(space, eq, ineq, kind.cst, kind.param, kind.set, kind.div)
            result = result.union(isl.Set.from_basic_set(part))
        else:
            made = isl.BasicMap.from_constraint_matrices(
                space, eq, ineq, kind.cst, kind.param, kind.in_, kind.out, kind.div
            )
            result = result.union(isl.Map.from_basic_map(made))
    return result


def domain(scop: Scop, statement: Statement) -> Any:
    """The instances of a statement as an isl Set named after it."""
    system = _instances(scop, statement.loops, statement.conditions, frozenset())
    return set_of(scop, system, [(SOURCE, loop.var) for loop in statement.loops], names=(statement.name, ""))


def domains(scop: Scop) -> Any:
    """The instances of all statements: an isl UnionSet."""
    isl = isl_module()
    result = isl.UnionSet.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
    for statement in scop.statements:
        result = result.union(isl.UnionSet.from_set(domain(scop, statement)))
    return result


def relation(scop: Scop, access: Access) -> Any:
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
    return set_of(scop, system, keys, len(access.loops), (access.statement.name, access.data.name))


def accesses(scop: Scop, write: bool) -> Any:
    """The reads or writes of all statements: an isl UnionMap."""
    isl = isl_module()
    result = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
    for access in scop.accesses:
        if access.is_write == write and access.indices is not None:
            result = result.union(isl.UnionMap.from_map(relation(scop, access)))
    return result


def schedule(scop: Scop) -> Any:
    """The time of each instance: (place of the outer loop, its iteration, …, place of the statement)."""
    isl = isl_module()
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
            isl.UnionMap.from_map(set_of(scop, system, keys, len(statement.loops), (statement.name, "")))
        )
    return result
