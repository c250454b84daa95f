from __future__ import annotations

import pytest

from tests.poly.brute import dependences as brute_dependences
from tests.poly.brute import events
from tests.poly.nests import random_nest
from tirlower.poly import dependences, extract
from tirlower.script import tir as T
from tirlower.script.printer import script


@pytest.mark.parametrize("first", range(5000, 5060, 10))
def test_dependences_equal_brute_force(first: int):
    for seed in range(first, first + 10):
        func = random_nest(seed)
        found = events(func)
        if len(found) > 400:
            continue
        wanted = brute_dependences(found)
        got = set()
        for dependence in dependences(func):
            assert dependence.certain, (seed, str(dependence))
            for point in _points(dependence.deltas):
                got.add((dependence.kind, dependence.source.statement.node, dependence.sink.statement.node, point))
        assert got == wanted, (seed, script(func), got ^ wanted)


def _points(deltas) -> list[tuple[int, ...]]:
    import islpy as isl

    found = []
    count = deltas.n_dim()
    deltas.foreach_point(
        lambda p: found.append(tuple(p.get_coordinate_val(isl.dim_type.set, n).to_python() for n in range(count)))
    )
    return found


def test_kinds_directions_and_distances():
    @T.prim_func
    def stencil(A: T.Buffer((10, 10), "float32"), n: T.int32):
        for t, i in T.grid(n, 8):
            A[0, i + 1] = A[0, i] + A[0, i + 2]

    found = dependences(stencil)
    table = {(d.kind, d.source.text, d.sink.text, d.carrier.name if d.carrier else "") for d in found}
    assert ("flow", "A[0, i + 1]", "A[0, i]", "i") in table
    assert ("anti", "A[0, i + 2]", "A[0, i + 1]", "i") in table
    assert ("output", "A[0, i + 1]", "A[0, i + 1]", "t") in table
    inner = next(d for d in found if d.kind == "flow" and d.carrier and d.carrier.name == "i")
    assert inner.distance == (0, 1) and inner.directions == ("=", "<")
    outer = next(d for d in found if d.kind == "output")
    assert outer.directions == ("<", "=") and outer.distance == (None, 0)
    assert outer.witness is not None and outer.witness.parameters["n"] >= 2


def test_a_dependence_within_an_iteration_has_no_carrier():
    @T.prim_func
    def chain(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = 1.0
            B[i] = A[i]

    (found,) = dependences(chain)
    assert found.carrier is None and found.distance == (0,) and found.kind == "flow"


def test_private_memory_carries_nothing():
    @T.prim_func
    def private(B: T.Buffer((8,), "float32")):
        for i in range(8):
            t = T.alloc_buffer((1,), "float32")
            t[0] = 1.0
            B[i] = t[0]

    assert [d.carrier for d in dependences(private)] == [None]


def test_reductions_are_marked_and_guesses_are_uncertain():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), S: T.Buffer((1,), "float32"), I: T.Buffer((8,), "int32")):
        for i in range(8):
            S[0] = T.max(S[0], A[i])
        for j in range(8):
            A[I[j]] = 0.0

    found = dependences(extract(kernel))
    assert all(d.reduction and d.certain for d in found if d.source.data is d.sink.data and d.source.buffer.name == "S")
    scatter = [d for d in found if d.carrier is not None and d.carrier.name == "j"]
    assert scatter and not any(d.certain for d in scatter)
