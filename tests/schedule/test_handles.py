"""A handle that survives denotes the iterations that it denoted, by instance sets, whatever random steps were taken."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import DeadHandle, ScheduleError
from tirlower.ir import IntImm, Var
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import Block, BufferStore, For, IfThenElse, Seq, Stmt
from tirlower.schedule.sites import Site
from tirlower.schedule.state import State
from tirlower.script import parse

PLAIN = """
@T.prim_func
def f(A: T.Buffer((5, 6), "int32"), B: T.Buffer((4, 5, 6), "int32")):
    for i, j in T.grid(5, 6):
        A[i, j] = i
    for k in range(2, 6):
        for l, m in T.grid(5, 6):
            B[k - 2, l, m] = A[l, m]
"""
BLOCKS = """
@T.prim_func
def f(A: T.Buffer((5, 6), "int32"), B: T.Buffer((4, 5, 6), "int32")):
    for i, j in T.grid(5, 6):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = vi
    for k, l, m in T.grid(4, 5, 6):
        with T.block("B"):
            vk, vl, vm = T.axis.remap("SSS", [k, l, m])
            B[vk, vl, vm] = A[vl, vm]
"""


def value(expr: Any, known: dict[Var, Any]) -> int:
    found = substitute(expr, known)
    assert isinstance(found, IntImm), found
    return int(found.value)


def runs(stmt: Stmt, known: dict[Var, Any], loop: For, at: int | None) -> Iterator[tuple[object, int]]:
    """The elements that are written in each iteration of a loop, with the number of the iteration."""
    if isinstance(stmt, Seq):
        for one in stmt.stmts:
            yield from runs(one, known, loop, at)
    elif isinstance(stmt, For):
        first = value(stmt.min, known)
        for number in range(value(stmt.extent, known)):
            here = number if stmt is loop else at
            yield from runs(
                stmt.body, {**known, stmt.loop_var: IntImm(stmt.loop_var.dtype, first + number)}, loop, here
            )
    elif isinstance(stmt, IfThenElse):
        if value(stmt.condition, known):
            yield from runs(stmt.then_case, known, loop, at)
    elif isinstance(stmt, Block):
        own = {**known, **{it.var: IntImm(it.var.dtype, value(it.value, known)) for it in stmt.iters}}
        if value(stmt.predicate, own):
            yield from runs(stmt.body, own, loop, at)
    elif isinstance(stmt, BufferStore) and at is not None:
        yield (stmt.buffer.name, *(value(index, known) for index in stmt.indices)), at


def denoted(state: State, handle: Any) -> set[tuple[object, int]]:
    loop = state.stmt(handle)
    assert isinstance(loop, For)
    return set(runs(state.mod["main"].body, {}, loop, None))


def step(sch: Any, handles: list[Any], rng: random.Random) -> None:
    alive = [one for one in handles if isinstance(sch._state.places.get(one), Site)]
    loop = rng.choice(alive)
    match rng.choice(["split", "reorder", "reorder", "unit", "kind", "fuse", "annotate"]):
        case "split":
            handles += sch.split(loop, [None, rng.choice([1, 2, 4])])
        case "reorder":
            nest = rng.sample(alive, min(len(alive), rng.choice([2, 3])))
            sch.reorder(*nest)
        case "unit":
            handles.append(sch.add_unit_loop(loop))
        case "kind":
            getattr(sch, rng.choice(["parallel", "unroll", "vectorize"]))(loop)
        case "fuse":
            handles.append(sch.fuse(*rng.sample(alive, 2)))
        case _:
            sch.annotate(loop, f"key{rng.random()}", 1)


@pytest.mark.parametrize("text", [PLAIN, BLOCKS])
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(6, 12))])
@pytest.mark.by_day
def test_instance_sets(text: str, seed: int) -> None:
    rng = random.Random(seed)
    sch: Any = tl.Schedule(parse(text))
    handles = [sch.loop(name) for name in "ijklm"]
    first = {handle: denoted(sch._state, handle) for handle in handles}
    for _ in range(14):
        try:
            step(sch, handles, rng)
        except ScheduleError:
            continue
        for handle in handles:
            first.setdefault(handle, set())
            try:
                now = denoted(sch._state, handle)
            except DeadHandle:
                continue
            if not first[handle]:
                first[handle] = now
            assert now == first[handle], handle
    assert len(sch.steps) > 8
