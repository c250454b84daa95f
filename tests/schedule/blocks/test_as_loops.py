"""Blocks that become the statements that they hold."""

from __future__ import annotations

import pytest

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block, IfThenElse
from tirlower.script import parse

NESTED = """
@T.prim_func
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j in T.grid({m}, {n}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.float32(0)
            for k in range({k}):
                C[vi, vj] += A[vi, k] * B[k, vj]
"""


@pytest.mark.parametrize(("m", "n", "k"), [(6, 5, 7), (1, 1, 1), (3, 4, 0), (0, 3, 2), (13, 11, 17)])
def test_a_block_with_loops_in_it(m: int, n: int, k: int) -> None:
    sch = taken(NESTED.format(m=m, n=n, k=k), lambda sch: sch.as_loops("C"))
    assert [block.name for block in each(Block, sch.mod["main"].body)] == ["root"]
    assert {step.exactness for step in sch.steps} == {"bitwise"}


def test_symbolic_sizes_conditions_offsets_and_memory_of_its_own() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32"), n: T.int64):
    for i, j in T.grid(2, T.int64(4)):
        with T.block("C"):
            v = T.axis.spatial(8, T.Cast("int64", i) * T.int64(4) + j)
            T.where(T.Cast("int64", i) * T.int64(4) + j < n)
            P = T.alloc_buffer((1,), "float32", scope="local")
            P[0] = A[v] * A[v]
            C[v] = P[0]
"""
    text = (
        text.replace("(n,)", "('n',)")
        .replace(", n: T.int64", "")
        .replace("T.int64", "T.int32")
        .replace('"int64"', '"int32"')
    )
    sch = taken(text, lambda sch: sch.as_loops("C"))
    body = sch.mod["main"].body
    assert len(list(each(IfThenElse, body))) == len(list(each(AllocBuffer, body))) == 1


def test_beside_other_statements() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((6,), "int32")):
    for i in range(6):
        A[i] = A[i] + 1
        with T.block("B"):
            v = T.axis.spatial(6, i)
            P = T.alloc_buffer((2,), "int32")
            P[0] = A[v]
            P[1] = P[0] * 2
            B[v] = P[1]
        with T.block("C"):
            v = T.axis.spatial(6, i)
            P = T.alloc_buffer((1,), "int32")
            P[0] = B[v]
            C[v] = P[0] + 1
"""
    taken(text, lambda sch: sch.as_loops("B"))
    taken(text, lambda sch: (sch.as_loops("C"), sch.as_loops("B")))
    taken(text, lambda sch: (sch.as_loops("B"), sch.as_loops("C"), sch.fission(sch.loop("i"), 1)))


def test_handles_inside_and_around_go_on() -> None:
    sch = tl.Schedule(parse(NESTED.format(m=6, n=5, k=7)))
    outer, inner, block = sch.loop("i"), sch.loop("k"), sch.get_block("C")
    sch.as_loops(block)
    assert sch.get(inner).loop_var.name == "k" and sch.get(outer).loop_var.name == "i"
    sch.reorder(sch.loop("j"), outer)
    with pytest.raises(Exception, match="C"):
        sch.get(block)


def test_it_is_the_opposite_of_as_block() -> None:
    sch = tl.Schedule(parse(NESTED.format(m=6, n=5, k=7)))
    sch.as_loops("C")
    before = str(sch.mod["main"])
    sch.as_loops(sch.as_block(sch.find("C[_] += _"), "sum"))
    assert str(sch.mod["main"]) == before


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("with T.init():\n                C[v] = T.float32(0)\n            C[v] = C[v] + A[v]", "has an init"),
        ('T.block_attr({"a": 1})\n            C[v] = A[v]', "annotated: a"),
        ("P = T.match_buffer(A[v:v + 1], (1,), 'float32')\n            C[v] = P[0]", "names of their own"),
    ],
)
def test_what_a_block_alone_can_say_stays(body: str, why: str) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            v = T.axis.{"reduce" if "init" in body else "spatial"}(8, i)
            {body}
""".replace("C[v]", "C[0]" if "init" in body else "C[v]")
    message = refused(text, lambda sch: sch.as_loops("C"), NotApplicable)
    assert why in str(message)


def test_the_root_stays() -> None:
    refused(NESTED.format(m=6, n=5, k=7), lambda sch: sch.as_loops("root"), NotApplicable)
