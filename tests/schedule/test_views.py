"""A schedule's moment as TVM shows it."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.test_scopes import TEXT
from tirlower.diagnostics import BadArgument
from tirlower.schedule.views import DepKind, ScheduleState
from tirlower.script import parse


def test_srefs_edges_and_flags() -> None:
    sch: Any = tl.Schedule(parse(TEXT.replace("LIMIT", "4")))
    state = sch.state
    b, c, d = (sch.get_sref(sch.get_block(name)) for name in "BCD")
    root = sch.get_sref(sch.get_block("root"))
    assert (
        root.parent is None and b.parent.parent.parent == root and b.parent.parent.seq_index == 1 and b.seq_index == -1
    )
    scope = state.get_block_scope(root)
    assert [(e.dst.stmt.name, e.kind) for e in scope.get_deps_by_src(b)] == [("C", DepKind.RAW), ("D", DepKind.WAW)]
    assert [(e.src.stmt.name, e.kind) for e in scope.get_deps_by_dst(d)] == [("B", DepKind.WAW), ("C", DepKind.WAR)]
    flags = state._get_cached_flags(c)
    assert flags.affine_binding and not flags.region_cover and flags.stage_pipeline
    assert not state._get_cached_flags(root).stage_pipeline
    sch.split(sch.get_loops("C")[0], [None, 4])
    assert sch.get_sref(sch.get_block("C")).parent.stmt.loop_var.name == "j" and sch.state.mod is sch.mod


def test_what_is_not_there() -> None:
    func = parse(TEXT.replace("LIMIT", "8"))
    state = ScheduleState(func)
    with pytest.raises(BadArgument, match="not in the module"):
        state.get_sref(parse(TEXT.replace("LIMIT", "8")).body)
    loop = state.get_sref(func.body.body.stmts[1])
    with pytest.raises(BadArgument, match="a loop is no scope"):
        state.get_block_scope(loop)
