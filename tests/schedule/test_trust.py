"""What is believed where a verdict is "unknown": regions about opaque calls, letters of iterators; never what is refuted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import IllegalStep, NotApplicable, ScheduleError, UnprovedStep
from tirlower.script import parse

CALL = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((9, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj])
            T.writes(B[vi, vj])
            T.evaluate(T.call_extern("int32", "foo", T.address_of(A[vi, vj]), T.address_of(B[vi, vj])))
"""
SCATTER = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), X: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("{kinds}", [i, j])
            B[X[vi], vj] = A[vi, vj]
"""


def schedule(text: str, *trust: str) -> Any:
    return tl.Schedule(parse(text), trust=trust)


def said(sch: Any) -> list[str]:
    return [f"{one.verdict}: {one.why}" for one in sch.steps if not one.instruction.kind.pure]


def test_regions_say_what_a_call_touches() -> None:
    sch = schedule(CALL, "regions")
    sch.reorder("j", "i")
    sch.parallel("i")
    assert said(sch) == ["trusted: the regions of `B`"] * 2
    assert "trusted: the regions of `B`" in sch.report() and "call_extern" in str(sch.mod["main"])
    for verb in ("reorder", "parallel"):
        with pytest.raises(UnprovedStep):
            getattr(schedule(CALL), verb)(*(("j", "i") if verb == "reorder" else ("i",)))


@pytest.mark.parametrize("region", ["B[vi:vi + 2, vj]", "B[0, vj]", "B[vi // 2, vj]"])
def test_regions_that_meet_are_no_licence(region: str) -> None:
    sch = schedule(CALL.replace("T.writes(B[vi, vj])", f"T.writes({region})"), "regions")
    with pytest.raises(UnprovedStep):
        sch.parallel("i")
    sch.parallel("j")
    assert said(sch) == ["trusted: the regions of `B`"]


def test_letters_are_believed_where_they_are_asked_for() -> None:
    text = SCATTER.format(kinds="SS")
    for trust in ((), ("regions",)):
        with pytest.raises(UnprovedStep):
            schedule(text, *trust).parallel("i")
    sch = schedule(text, "axes")
    sch.parallel("i")
    assert said(sch) == ["trusted: the iterators of `B`"] and sch.can("parallel", "j").proved
    a, b = np.arange(64, dtype="float32").reshape(8, 8), np.zeros((8, 8), "float32")
    tl.build(sch, schedule="none")(
        a, np.arange(8, dtype="int32")[::-1].copy(), b
    )  # the build takes it on that word too
    assert (b[::-1] == a).all()
    with pytest.raises(UnprovedStep):
        schedule(SCATTER.format(kinds="RS"), "axes").parallel("i")


def test_plain_statements_have_no_letters() -> None:
    text = SCATTER.format(kinds="SS").replace("        with T.block", "        A[i, j] = A[i, j]\n        with T.block")
    with pytest.raises(UnprovedStep):
        schedule(text, "axes").parallel("i")


def test_what_is_refuted_is_not_believed() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((9,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi + 1] = A[vi]
"""
    with pytest.raises(IllegalStep):
        schedule(text, "regions", "axes").parallel("i")


def test_a_jump_is_no_call() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi])
            A[vi] = 1
            if vi == 3:
                T.evaluate(T.ret(0))
"""
    sch = schedule(text, "regions")
    assert not sch.can("parallel", "i").proved
    with pytest.raises(Exception, match="parallel"):
        sch.parallel("i")


def test_what_is_declared_of_a_call_stays_declared() -> None:
    wide = CALL.replace("T.writes(B[vi, vj])", "T.writes(B[vi:vi + 2, vj])")
    sch = schedule(wide, "regions")
    outer, inner = sch.split("i", [None, 4])
    sch.blockize(inner)
    assert [str(one) for one in sch.get(sch.get_block("B")).writes] == ["B[vi_o * 4 + vi_i:vi_o * 4 + vi_i + 2, vj_i]"]
    with pytest.raises(UnprovedStep):
        sch.parallel(outer)
    narrow = schedule(CALL, "regions")
    outer, inner = narrow.split("i", [None, 4])
    narrow.blockize(inner)
    narrow.parallel(outer)


def test_what_a_call_touches_is_not_made_up() -> None:
    plain = CALL.replace('        with T.block("B"):\n', "").replace(
        '            vi, vj = T.axis.remap("SS", [i, j])\n', ""
    )
    plain = "\n".join(line for line in plain.splitlines() if "T.reads" not in line and "T.writes" not in line)
    plain = plain.replace("            T.evaluate", "        T.evaluate").replace("vi, vj", "i, j")
    sch = schedule(plain, "regions")
    with pytest.raises(NotApplicable, match="may touch anything"):
        sch.as_block(sch.loop("j"))
    hidden = schedule(CALL, "regions")
    hidden.unsafe_hide_buffer_access("B", "write", [0])
    assert said(hidden) == ["trusted: what is hidden is not touched by the calls in the block"]


def test_steps_that_move_values_do_not_move_those_of_calls() -> None:
    for verb, args in (("cache_write", ("B", 0, "local")), ("cache_read", ("B", 0, "local"))):
        sch = schedule(CALL, "regions", "axes")
        with pytest.raises(ScheduleError):
            getattr(sch, verb)(*args)
