"""What stands for a block where there are none."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.diagnostics import Ambiguous, NotFound
from tirlower.ir import BufferStore, For
from tirlower.schedule.handles import LoopRV, StmtRV
from tirlower.schedule.stages import Stage
from tirlower.schedule.uses import UsesOf
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32"), D: T.Buffer((4,), "int32")):
    for i in range(4):
        if i > 0:
            for j in range(4):
                B[i, j] = A[i, j]
    for i in range(4):
        C[i] = B[i, 0] + A[0, 0]
        D[i] = C[i]
    for i in range(4):
        D[i] = 1
"""


def test_the_largest_nest_that_writes_one_buffer() -> None:
    sch = tl.Schedule(parse(TEXT))
    nest, store = sch.stage("B"), sch.stage("C")
    assert isinstance(nest, LoopRV) and nest.name == "i" and isinstance(store, StmtRV)
    assert isinstance(sch.get(store), BufferStore) and store.name == "C"
    site = sch._state.site(nest)
    loop = sch.get(nest)
    assert isinstance(loop, For)
    found = Stage.of(site, loop, UsesOf())
    assert [b.name for b in (*found.reads, *found.writes)] == ["A", "B"] and found.block is None
    assert [one.buffer.name for _, one in found.stores()] == ["B"]


def test_none_and_several() -> None:
    sch = tl.Schedule(parse(TEXT))
    with pytest.raises(Ambiguous, match="2 statements write 'D'"):
        sch.stage("D")
    with pytest.raises(NotFound, match="no block is named 'A'"):
        sch.stage("A")
