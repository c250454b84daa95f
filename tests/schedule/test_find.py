"""Statements found by their form and by what they do."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import Ambiguous, BadArgument, NotFound
from tirlower.ir import BufferStore
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        C[i] = T.float32(0)
        for k in range(8):
            C[i] = A[i, k] * B[k, i] + C[i]
        if i > 3:
            C[i] = C[i] * T.float32(2)
    for i in range(1, 7):
        C[i] = T.max(C[i - 1], C[i + 1])
    T.evaluate(T.call_extern("int32", "g", C.data))
"""


def texts(sch: Any, found: list[Any]) -> list[str]:
    return [str(sch.get(one)).strip().splitlines()[0] for one in found]


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("C[_] += _", ["C[i] = A[i, k] * B[k, i] + C[i]"]),
        ("C[_] += A[_] * B[_]", ["C[i] = A[i, k] * B[k, i] + C[i]"]),
        ("C[_] += B[_] * A[_]", []),
        ("C[_] = 0", ["C[i] = T.float32(0)"]),
        ("C[_] *= 2", ["C[i] = C[i] * T.float32(2)"]),
        ("C[_i] = T.max(C[_i - 1], C[_i + 1])", ["C[i] = T.max(C[i - 1], C[i + 1])"]),
        ("C[_i] = T.max(C[_i - 1], C[_i + 2])", []),
        ("C[_i] = T.max(C[_j - 1], C[_i + 1])", ["C[i] = T.max(C[i - 1], C[i + 1])"]),
        ("_[i, k] = _", []),
        ("for i in _: ...", ["for i in range(8):", "for i in range(1, 7):"]),
        ("for _ in range(1, 7): ...", ["for i in range(1, 7):"]),
        ("for _ in range(8):\n    C[_] = 0\n    ...", ["for i in range(8):"]),
        ("for k in _: C[_] = 0", []),
        ("if i > _: ...", ["if i > 3:"]),
        ("if _: A[_] = 0", []),
        ("T.call_extern(_, 'g', _)", ['T.call_extern("int32", "g", C)']),
    ],
)
def test_patterns(pattern: str, wanted: list[str]) -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    if not wanted:
        with pytest.raises(NotFound):
            sch.find(pattern, many=True)
        return
    assert texts(sch, sch.find(pattern, many=True)) == wanted


def test_one_is_asked_for_and_where() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    with pytest.raises(Ambiguous, match="4 statements are"):
        sch.find("C[_] = _")
    k = sch.loop("k")
    assert isinstance(sch.get(sch.find("_[_] = _", within=k)), BufferStore)
    for wrong in ("C[", "x", "a; b", "while _: ...", "def f(): ..."):
        with pytest.raises((BadArgument, NotFound)):
            sch.find(wrong)
    assert 'sch.find("_[_] = _", within=k)' in str(sch.trace)


def test_a_question_is_asked_again_in_another_program() -> None:
    sch: Any = tl.Schedule(parse(TEXT))
    sch.unroll(sch.find("for _ in range(8): C[_] += _"))
    other: Any = tl.Schedule(parse(TEXT.replace("k in", "m in").replace("k]", "m]").replace("[k,", "[m,")))
    sch.trace.apply_to_schedule(other)
    assert other.get(other.loop("m")).kind.value == "unroll"


def test_blocks_are_found_by_name_and_select_filters() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(7):
        B[i + 1, 0] = B[i, 0]
""")
    sch: Any = tl.Schedule(func)
    assert sch.find('with T.block("B"): ...').name == "B"
    assert [one.name for one in sch.select(reads="A")] == ["i", "j"]
    assert [one.name for one in sch.select(vectorizable=False)] == ["i"]
    assert [one.name for one in sch.select("block", writes="B")] == ["root", "B"]
    assert [one.name for one in sch.select(under=sch.loop("j"))] == []
    assert [one.name for one in sch.select(under=sch.loop("B/i#0"))] == ["j"]
    with pytest.raises(BadArgument, match="kind="):
        sch.select("stage")
