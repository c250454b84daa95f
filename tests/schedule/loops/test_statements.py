"""Two statements of one sequence change places."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.loops.test_reverse import again
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.script import parse

THREE = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for t in range(2):
        for i in range(8):
            A[i] = A[i] + t
        for j in range(8):
            B[j] = B[j] * 2
        with T.block("C"):
            C[t] = 3
"""


@pytest.mark.parametrize("pair", [("A", "B"), ("B", "A"), ("A", "C"), ("B", "C")])
def test_what_does_not_meet(pair: tuple[str, str]) -> None:
    func = parse(THREE)
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    sch.reorder_stmts(*pair)
    assert sch.get(i).loop_var.name == "i"
    executes_alike(func, sch.mod["main"])
    again(func, sch)


@pytest.mark.parametrize("body", ["B[j] = A[7 - j]", "A[j] = B[j] * 2"])
def test_what_meets(body: str) -> None:
    sch = tl.Schedule(parse(THREE.replace("B[j] = B[j] * 2", body)))
    i, j = sch.loop("i"), sch.loop("j")
    with pytest.raises(IllegalStep) as raised:
        sch.reorder_stmts(i, j)
    first, second = raised.value.witness.points
    assert dict(first.loops)["t"] == dict(second.loops)["t"] and first.indices == second.indices


def test_what_stands_between() -> None:
    func = parse(THREE.replace("B[j] = B[j] * 2", "B[j] = A[7 - j]"))
    with pytest.raises(IllegalStep):
        tl.Schedule(func).reorder_stmts("A", "C")


def test_what_has_not_the_form() -> None:
    sch = tl.Schedule(parse(THREE))
    with pytest.raises(NotApplicable, match="no sequence"):
        sch.reorder_stmts(sch.loop("t"), "A")
    with pytest.raises(BadArgument, match="another one"):
        sch.reorder_stmts("A", sch.loop("i"))


def test_what_is_declared_in_between_stays_in_front_of_what_uses_it() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6,), "int32"), X: T.Buffer((6,), "int32")):
    for i in range(6):
        A[i] = i
    DECLARED
    for j in range(6):
        USED
"""
    for declared, used in (
        ("D = T.alloc_buffer((6,), 'int32', scope='local')", "D[j] = j"),
        ("n = T.int32(3)", "X[j] = j + n"),
        ("D = T.decl_buffer((2, 3), 'int32', data=X.data)", "D[j // 3, j % 3] = 1"),
    ):
        program = text.replace("DECLARED", declared).replace("USED", used)
        for order in ("ij", "ji"):
            refused(
                program,
                lambda sch, order=order: sch.reorder_stmts(*map(sch.loop, order)),
                NotApplicable,
                "is declared between the two",
            )
        taken(program.replace(used, "X[j] = j"), lambda sch: sch.reorder_stmts(sch.loop("i"), sch.loop("j")))
