"""Whose value is read, judged by replaying all instances: a log of who wrote each element last."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.poly.brute import Event, events
from tests.poly.nests import random_nest
from tests.poly.positions import value_at
from tirlower.diagnostics import TirError
from tirlower.ir import BufferStore, For, PrimFunc, Stmt
from tirlower.poly import covers, extract, last_writer, unchanged_between
from tirlower.poly.execution_order import place_of
from tirlower.poly.scop import Access, Scop
from tirlower.script import tir as T

Instance = tuple[int, ...]


def instance(event: Event) -> Instance:
    return tuple(value for _, value, _ in event.loops)


def flows(found: list[Event]) -> dict[Any, set[tuple[Any, Instance, Instance]]]:
    """For each read, and each write whose value it sees (None: none), the instances of both."""
    last: dict[Any, Event] = {}
    seen: dict[Any, set[tuple[Any, Instance, Instance]]] = {}
    for event in found:
        for element in event.elements:
            key = event.memory, element
            if event.is_write:
                last[key] = event
            else:
                source = last.get(key)
                pair = (
                    (None, (), instance(event)) if source is None else (source.node, instance(source), instance(event))
                )
                seen.setdefault(event.node, set()).add(pair)
    return seen


def small(seed: int) -> tuple[PrimFunc, list[Event], Scop] | None:
    func = random_nest(seed)
    found = events(func)
    return (func, found, extract(func)) if len(found) <= 600 else None


def points(relation: Any, inputs: int) -> set[tuple[Instance, Instance]]:
    import islpy as isl

    made: set[tuple[Instance, Instance]] = set()

    def enter(point: Any) -> None:
        values = [point.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(count)]
        made.add((tuple(values[:inputs]), tuple(values[inputs:])))

    wrapped = relation.wrap()
    count = relation.dim(isl.dim_type.in_) + relation.dim(isl.dim_type.out)
    wrapped.foreach_point(enter)
    return made


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(30, 90, 30))])
def test_the_last_writers_are_those_of_a_replay(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 30):
        made = small(seed)
        if made is None:
            continue
        func, found, scop = made
        truth = flows(found)
        for read in scop.accesses:
            if read.is_write:
                continue
            seen = truth.get(read.node, set())
            answer = last_writer(scop, read)
            wanted = {node for node, _, _ in seen if node is not None}
            nodes = {write.node for write in answer.writes}
            assert wanted <= nodes, (seed, read, func.script())
            assert {flow.write.node for flow in answer.flows if flow.certain} <= wanted, (seed, read, func.script())
            told["exact" if nodes == wanted else "more"] += 1
            unwritten = any(node is None for node, _, _ in seen)
            assert answer.initial is None or answer.initial == unwritten, (seed, read, answer.initial, func.script())
            told["initial" if answer.initial is not None else "initial not known"] += 1
            for flow in answer.flows[:1]:
                if len(flow.overwritten) > 12:
                    continue  # isl takes long to subtract them
                pairs = {(a, b) for node, a, b in seen if node is flow.write.node}
                try:
                    relation = flow.relation
                except TirError:
                    told["too many cases"] += 1
                    continue
                assert points(relation, len(flow.write.loops)) == pairs, (seed, read, flow)
                told["relation"] += 1
    assert told["relation"] > 4 * told["too many cases"], told
    assert told["exact"] > 20 * told["more"] and told["initial"] > 5 * told["initial not known"], told


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_coverage_is_that_of_a_replay(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 40):
        made = small(seed)
        if made is None:
            continue
        func, found, scop = made
        rng = random.Random(seed)
        writes = [access for access in scop.accesses if access.is_write]
        for read in scop.accesses:
            if read.is_write:
                continue
            chosen = [write for write in writes if write.data is read.data and rng.random() < 0.8]
            at = rng.choice([None, *read.loops])
            verdict = covers(scop, chosen, [read], at)
            nodes = {write.node for write in chosen}
            bare = uncovered(found, read, nodes, None if at is None else at.node)
            if verdict.unknown:
                told["unknown"] += 1
                continue
            assert verdict.proved == (not bare), (seed, read, at, verdict, bare, func.script())
            told[verdict.status] += 1
            if verdict.refuted:
                assert verdict.witness is not None
                assert tuple(value for _, value in verdict.witness.source.loops) in bare
    assert told["proved"] and told["refuted"] and told["proved"] + told["refuted"] > 10 * told["unknown"], told


def uncovered(found: list[Event], read: Access, nodes: set[Any], loop: For | None) -> set[Instance]:
    """The instances of a read of an element that none of some writes has written, in the same iteration of a loop."""
    written: dict[Any, set[Any]] = {}
    bare = set()
    for event in found:
        here = None
        if loop is not None:
            at = next((n for n, (node, _, _) in enumerate(event.loops) if node is loop), None)
            here = None if at is None else event.path[: 2 * at + 2]
        for element in event.elements:
            key = event.memory, element
            if event.is_write and event.node in nodes:
                written.setdefault(key, set()).add(here)
            elif event.node is read.node:
                past = written.get(key, set())
                if not (past if loop is None else here in past):
                    bare.add(instance(event))
    return bare


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_what_changes_between_two_moments_is_what_a_replay_writes(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 40):
        made = small(seed)
        if made is None or any(event.node.buffer.name == "T" for event in made[1]):
            continue
        func, found, scop = made
        rng = random.Random(seed)
        numbers = {access.statement.node: place_of(access.statement) for access in scop.accesses}
        for access in rng.sample(scop.accesses, min(3, len(scop.accesses))):
            here = place_of(access.statement)
            there = moment(rng, scop, access)
            verdict = unchanged_between(scop, access, here, there)
            writes = between(scop, found, numbers, access, there)
            assert verdict.status == ("refuted" if writes else "proved"), (seed, access, there, verdict, func.script())
            told[verdict.status] += 1
            if verdict.refuted:
                assert verdict.witness is not None
                pair = {point.is_write: point for point in verdict.witness.points}
                if len(pair) == 2:
                    iterations = [tuple(value for _, value in pair[kind].loops) for kind in (False, True)]
                    assert tuple(iterations) in writes, (seed, access, there, str(verdict.witness), func.script())
    assert told["proved"] > 10 and told["refuted"] > 10, told


def moment(rng: random.Random, scop: Scop, access: Access) -> list[Any]:
    """The start of an iteration of the loops around, or of another one; or the end of the function."""
    if rng.random() < 0.2:
        return [999]
    loops = access.loops[: rng.randint(1, len(access.loops))]
    made: list[Any] = []
    for loop in loops:
        made += [loop.order, loop.var]
    made[-1] = made[-1] + rng.randint(-1, 2)
    return made


def between(scop: Scop, found: list[Event], numbers: dict[Stmt, Any], access: Access, there: list[Any]) -> set[Any]:
    def at(position: Any, event: Event) -> tuple[int, ...]:
        values = {node.loop_var: value for node, value, _ in event.loops}
        made = []
        for part in position:
            if hasattr(part, "terms"):
                made.append(part.const + sum(c * values[dim] for dim, c in part.terms.items()))
            else:
                made.append(value_at(part, values))
        return tuple(made)

    hits = set()
    reads = [event for event in found if event.node is access.node]
    writes = [event for event in found if event.is_write]
    for event in reads:
        ends = sorted([at(numbers[event.statement], event), at(there, event)])
        for write in writes:
            if write.memory == event.memory and write.elements & event.elements:
                if ends[0] < at(numbers[write.statement], write) < ends[1]:
                    hits.add((instance(event), instance(write)))
    return hits


# -- by hand --------------------------------------------------------------------------------------------------------


def writes_and_reads(func: PrimFunc, name: str) -> tuple[Scop, list[Access], list[Access]]:
    scop = extract(func)
    mine = [access for access in scop.accesses if access.buffer is not None and access.buffer.name == name]
    return scop, [a for a in mine if a.is_write], [a for a in mine if not a.is_write]


def test_symbolic_sizes_and_guards() -> None:
    @T.prim_func
    def pad(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32"), n: T.int32):
        for i in range(n):
            if i > 0:
                A[i] = i
            B[i] = A[i]

    scop, writes, reads = writes_and_reads(pad, "A")
    verdict = covers(scop, writes, reads)
    assert verdict.refuted and str(verdict.witness).startswith("iteration (i = 0) reads A[0]")
    assert last_writer(scop, reads[0]).initial is True


def test_a_write_that_may_not_happen_covers_nothing() -> None:
    @T.prim_func
    def maybe(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = 1
            if X[i] > 0:
                A[i] = 2
            A[X[i]] = 3
            B[i] = A[i]

    scop, writes, reads = writes_and_reads(maybe, "A")
    assert covers(scop, writes[:1], reads).proved
    assert covers(scop, writes[1:], reads).unknown
    found = last_writer(scop, reads[0])
    assert list(found.writes) == writes and not any(flow.certain for flow in found.flows)
    assert found.initial is False


def test_memory_allocated_in_a_loop_is_another_in_each_iteration() -> None:
    @T.prim_func
    def scratch(B: T.Buffer((8,), "int32")):
        for i in range(8):
            t = T.alloc_buffer((2,), "int32")
            if i == 0:
                t[0] = 1
            B[i] = t[0]

    scop, writes, reads = writes_and_reads(scratch, "t")
    verdict = covers(scop, writes, reads)
    assert verdict.refuted and "i = 1" in str(verdict.witness)


def test_the_loops_of_the_other_moment() -> None:
    @T.prim_func
    def stages(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
        for i in range(16):
            B[i] = A[i]
        for j in range(16):
            C[j] = B[j]
            A[j] = 0

    scop = extract(stages)
    read, j = scop.accesses[0], scop.loops[1]
    # Computed at the start of iteration j what is read at j: A[j] is cleared later. At any j: it may be cleared before.
    there = [j.order, j]
    here = place_of(read.statement)
    assert unchanged_between(scop, read, here, [j.order, read.loops[0]]).proved
    verdict = unchanged_between(scop, read, here, there, under=[j])
    assert verdict.refuted and verdict.witness is not None


def test_nothing_reads_the_first_of_two_stores() -> None:
    @T.prim_func
    def twice(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            for k in range(8):
                A[i, 0] = k
            B[i] = A[i, 0]

    scop, _, reads = writes_and_reads(twice, "A")
    (flow,) = last_writer(scop, reads[0]).flows
    assert points(flow.relation, 2) == {((i, 7), (i,)) for i in range(8)}
    assert isinstance(flow.write.statement.node, BufferStore) and flow.certain
