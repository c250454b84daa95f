from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.poly.brute import Event, events
from tests.poly.nests import random_perfect_nest
from tirlower.poly import can_distribute, can_fuse, can_reorder, extract
from tirlower.script import tir as T
from tirlower.script.printer import script


def conflicts(found: list[Event]) -> list[tuple[Event, Event]]:
    """The pairs of accesses of one element, one of them a write, in their order."""
    touched: dict[Any, list[Event]] = {}
    for event in found:
        for element in event.elements:
            touched.setdefault((event.memory, element), []).append(event)
    return [
        (a, b)
        for group in touched.values()
        for n, a in enumerate(group)
        for b in group[n + 1 :]
        if a.is_write or b.is_write
    ]


def turned(found: list[Event], order: tuple[str, ...]) -> bool:
    """Whether running the iterations in another order of the loops turns two accesses of an element round."""
    for a, b in conflicts(found):
        keys = []
        for event in (a, b):
            values = {node.loop_var.name: value for node, value, _ in event.loops}
            keys.append(([values[name] for name in order], event.path[-2:]))
        if keys[0] > keys[1]:
            return True
    return False


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_reorder_equals_brute_force(first: int):
    for seed in range(first, first + 20):
        func = random_perfect_nest(seed)
        found = events(func)
        scop = extract(func)
        names = [loop.name for loop in scop.loops]
        for order in itertools.permutations(names):
            verdict = can_reorder(scop, order)
            wanted = "refuted" if turned(found, order) else "proved"
            assert verdict.status == wanted, (seed, order, verdict, script(func))
            if verdict.refuted:
                assert verdict.witness is not None and verdict.witness.sink is not None, (seed, order)
                points = [[dict(p.loops)[n] for n in names] for p in verdict.witness.points]
                assert points[0] < points[1]


def test_some_loops_keep_their_place():
    @T.prim_func
    def nest(A: T.Buffer((4, 4, 4), "float32")):
        for i, j, k in T.grid(3, 4, 3):
            A[i + 1, j, k] = A[i, j, k + 1]

    assert can_reorder(nest, ["k", "i"]).refuted  # k, j, i
    assert can_reorder(nest, ["j", "i"]).proved  # j, i, k
    assert can_reorder(nest, ["i"]).proved


def test_loops_that_are_not_nested_perfectly_are_refused_for_their_form():
    @T.prim_func
    def beside(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = 0.0
            for j in range(4):
                A[i, j] = 1.0
        for k in range(4):
            B[k] = 1.0

    verdict = can_reorder(beside, ["j", "i"])
    assert verdict.refuted and verdict.witness is None and "beside" in verdict.reason
    assert "not nested" in can_reorder(beside, ["k", "i"]).reason
    assert "twice" in can_reorder(beside, ["i", "i"]).reason


def test_float_sums_reorder_only_when_allowed():
    @T.prim_func
    def total(A: T.Buffer((4, 4), "float32"), S: T.Buffer((1,), "float32")):
        for i, j in T.grid(4, 4):
            S[0] += A[i, j]

    verdict = can_reorder(total, ["j", "i"])
    assert verdict.refuted and "reassociate" in verdict.help
    assert can_reorder(total, ["j", "i"], reassociate=True).proved


def test_unknown_where_an_index_is_read():
    @T.prim_func
    def scatter(A: T.Buffer((64,), "float32"), I: T.Buffer((4, 4), "int32")):
        for i, j in T.grid(4, 4):
            A[I[i, j]] = T.cast(i, "float32")

    verdict = can_reorder(scatter, ["j", "i"])
    assert verdict.unknown and "not known" in verdict.reason


# -- fusion ---------------------------------------------------------------------------------------------------------


@T.prim_func
def producer_consumer(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32"), C: T.Buffer((17,), "float32")):
    for i in range(16):
        B[i] = A[i] * 2.0
    for j in range(16):
        C[j] = B[j] + 1.0
    for k in range(1, 17):
        A[k - 1] = C[k] + B[k]
    for m in range(8):
        A[m] = 0.0


def test_fusing_adjacent_loops():
    assert can_fuse(producer_consumer, "i", "j").proved
    verdict = can_fuse(producer_consumer, "j", "k")
    assert verdict.refuted and verdict.witness is not None
    assert dict(verdict.witness.source.loops)["j"] - 0 > dict(verdict.witness.sink.loops)["k"] - 1
    assert "extents" in can_fuse(producer_consumer, "k", "m").reason
    assert (
        "between" in can_fuse(producer_consumer, "i", "k").reason
        or "stands" in can_fuse(producer_consumer, "i", "k").reason
    )
    assert "first one first" in can_fuse(producer_consumer, "j", "i").reason


def test_fusing_is_refuted_in_the_other_direction_too():
    @T.prim_func
    def forward(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32")):
        for i in range(16):
            A[i] = B[i]
        for j in range(16):
            A[j + 1] = 0.0

    # Fused, iteration 0 clears A[1] before iteration 1 sets it.
    verdict = can_fuse(forward, "i", "j")
    assert verdict.refuted and verdict.witness is not None
    assert verdict.witness.source.indices == verdict.witness.sink.indices


def test_fusing_nested_loops():
    @T.prim_func
    def nest(A: T.Buffer((8, 8, 8), "float32")):
        for i, j in T.grid(8, 8):
            for k in range(j + 1):
                A[i, j, k] = 0.0

    assert can_fuse(nest, "i", "j").proved
    assert can_fuse(nest, "j", "k").refuted and can_fuse(nest, "i", "k").refuted and can_fuse(nest, "j", "i").refuted


# -- distribution ---------------------------------------------------------------------------------------------------


def test_distributing_a_loop():
    @T.prim_func
    def body(A: T.Buffer((17,), "float32"), B: T.Buffer((17,), "float32"), C: T.Buffer((17,), "float32")):
        for i in range(16):
            A[i] = 1.0
            B[i] = A[i] + C[i]
            C[i + 1] = 2.0

    assert can_distribute(body, "i", 1).proved
    verdict = can_distribute(body, "i", 2)
    assert verdict.refuted and verdict.witness is not None and verdict.witness.source.buffer == "C"
    assert can_distribute(body, "i").refuted
    assert "cannot be cut" in can_distribute(body, "i", 3).reason


def test_distributing_what_shares_a_temporary_or_a_binding():
    @T.prim_func
    def shared(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            t = T.alloc_buffer((1,), "int32")
            t[0] = A[i]
            B[i] = t[0]
        for j in range(16):
            k: T.int32 = A[j] * 2
            B[j] = k

    assert "allocated" in can_distribute(shared, "i", 2).reason
    assert "bound" in can_distribute(shared, "j", 1).reason
