"""Where a buffer is used, against a look at every statement."""

from __future__ import annotations

import pytest

from tests.fuzz.values import chain
from tests.generate.programs import generate
from tirlower.ir import IRModule
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, BufferStore
from tirlower.schedule.facts import Facts
from tirlower.schedule.places import allocation_of, loads_in, reading, using, writing
from tirlower.script import parse


@pytest.mark.parametrize("seed", range(24))
def test_no_use_is_missed(seed: int) -> None:
    parsed = parse(generate(seed).text if seed % 2 else chain(seed))
    func = parsed["main"] if isinstance(parsed, IRModule) else parsed
    facts = Facts()
    every = [(("body", *way), stmt) for way, stmt in facts.inside(func.body)]
    buffers = {*func.buffers, *(op.buffer for op in each(AllocBuffer, func.body))}
    for buffer in buffers:
        assert reading(facts, func, buffer) == [(way, stmt) for way, stmt in every if loads_in(stmt, buffer)]
        stores = [(way, stmt) for way, stmt in every if isinstance(stmt, BufferStore) and stmt.buffer is buffer]
        assert writing(facts, func, buffer) == stores
        homes = [(way, stmt) for way, stmt in every if isinstance(stmt, AllocBuffer) and stmt.buffer is buffer]
        assert allocation_of(facts, func, buffer) == (homes[0] if homes else None)


def test_what_does_not_use_a_buffer_is_not_looked_into() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 1
    for j in range(8):
        B[j] = A[j]
""")
    assert not isinstance(func, IRModule)
    assert [type(stmt).__name__ for _, stmt in using(Facts(), func.body, func.buffers[1])] == ["For", "BufferStore"]
