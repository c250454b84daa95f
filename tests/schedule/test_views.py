"""A schedule's moment as TVM shows it."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.schedule.test_scopes import TEXT
from tirlower.diagnostics import BadArgument, TirError
from tirlower.ir import IntImm, Var
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


def test_places_go_along_when_a_statement_is_replaced() -> None:
    func = parse(TEXT.replace("LIMIT", "8"))
    state = ScheduleState(func, debug_mask="all")
    root = state.get_sref(func.body)
    nests = func.body.body.stmts[1:]
    srefs = [state.get_sref(loop) for loop in nests]
    inner, block = (state.get_sref(stmt) for stmt in (nests[0].body, nests[0].body.body))
    other = state.get_sref(nests[1].body.body)
    new_block = block.stmt.with_(annotations={"hint": 1})
    new = nests[0].with_(body=nests[0].body.with_(body=new_block))
    state.replace(srefs[0], new, {block.stmt: new_block})
    assert srefs[0].stmt is new and inner.stmt is new.body and block.stmt is new_block
    assert root.stmt is state.mod["main"].body is not func.body and block.parent is inner and inner.parent is srefs[0]
    assert other.stmt is nests[1].body.body and state.get_sref(other.stmt) is other
    # Another variable, and a block that is not said to be the old one: both places end.
    fresh = nests[1].with_(loop_var=Var("x", "int32"))
    anew = nests[0].body.body.with_(annotations={"hint": 2})
    state.replace(srefs[0], nests[0].with_(body=nests[0].body.with_(body=anew)))
    assert srefs[0].stmt is not None and block.stmt is None and block.parent is None
    with pytest.raises(BadArgument, match="does not stand in this state"):
        state.replace(block, anew)
    state.debug_mask = "none"
    state.replace(srefs[1], fresh)
    assert srefs[1].stmt is None and state.get_sref(fresh).seq_index == 2


def test_what_may_take_whose_place() -> None:
    func = parse(TEXT.replace("LIMIT", "8"))
    state = ScheduleState(func, debug_mask=1)
    loop = func.body.body.stmts[1]
    block = loop.body.body
    with pytest.raises(BadArgument, match="Block is not replaced by a For"):
        state.replace(state.get_sref(block), loop)
    with pytest.raises(TirError):
        state.replace(state.get_sref(loop), loop.body)  # its variable is no more
    assert state.mod["main"] is func
    closed = block.with_(iters=tuple(it.with_(value=IntImm(it.var.dtype, 0)) for it in block.iters))
    state.replace(state.get_sref(loop), closed)
    assert state.get_sref(closed).parent is state.get_sref(state.mod["main"].body)
