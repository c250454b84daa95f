"""Declared regions: wider ones are kept, what would hide an access is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

FUNC = parse("""
@T.prim_func
def f(A: T.Buffer((18, 4), "int32"), B: T.Buffer((16, 4), "int32")):
    for i, j in T.grid(16, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi + 2, vj]
""")


@pytest.mark.parametrize(
    "ranges",
    [
        lambda vi, vj: [(vi, vi + 3), vj],
        lambda vi, vj: [(vi - vi % 4, vi + 3), (0, 4)],
        lambda vi, vj: [(0, 18), (0, 4)],
    ],
)
def test_what_has_all_accesses_in_it(ranges: Any) -> None:
    sch = tl.Schedule(FUNC, debug_mask="all")
    block = sch.get_block("B")
    sch.annotate_buffer_access(block, 0, "read", ranges)
    assert list(sch.get(block).annotations["explicit_read_region"]) == [0]
    region = str(sch.get(block).reads[0])
    roundtrips(sch.mod["main"])
    executes_alike(FUNC, sch.mod["main"])
    again(FUNC, sch)
    # It stays where other steps touch the block.
    sch.split(sch.get_loops(block)[0], [None, 3])
    assert str(sch.get(block).reads[0]) == region


@pytest.mark.parametrize(
    "ranges", [lambda vi, vj: [vi, vj], lambda vi, vj: [(vi, vi + 2), vj], lambda vi, vj: [(vi + 1, vi + 5), (0, 4)]]
)
def test_what_has_not(ranges: Any) -> None:
    with pytest.raises(NotApplicable, match="not known"):
        tl.Schedule(FUNC).annotate_buffer_access("B", 0, "read", ranges)


def test_wrong_arguments() -> None:
    sch = tl.Schedule(FUNC)
    with pytest.raises(BadArgument, match="out of range"):
        sch.annotate_buffer_access("B", 1, "read", lambda vi, vj: [vi, vj])
    with pytest.raises(BadArgument, match="'read' or 'write'"):
        sch.annotate_buffer_access("B", 0, "reads", lambda vi, vj: [vi, vj])
    with pytest.raises(BadArgument, match="2 dimensions"):
        sch.annotate_buffer_access("B", 0, "read", lambda vi, vj: [vi])


def test_hidden_regions_mislead_nothing() -> None:
    sch = tl.Schedule(FUNC, debug_mask="all")
    block = sch.get_block("B")
    sch.unsafe_hide_buffer_access(block, "read", [0])
    assert sch.get(block).reads == () and len(sch.get(block).writes) == 1
    executes_alike(FUNC, sch.mod["main"])
    again(FUNC, sch)
    with pytest.raises(BadArgument, match="no numbers"):
        sch.unsafe_hide_buffer_access(block, "write", [0, 0])
    scan = parse("""
@T.prim_func
def f(A: T.Buffer((18,), "int32")):
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi + 1] = A[vi]
""")
    other = tl.Schedule(scan)
    other.unsafe_hide_buffer_access("A", "read", [0])
    assert other.can("parallel", other.get_loops("A")[0]).refuted
