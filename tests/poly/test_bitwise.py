"""Bitwise operations as quasi-affine forms, against Python's on every value."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tirlower.ir import Evaluate, For, PrimFunc
from tirlower.poly import extract, races
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import Opaque
from tirlower.script import parse

EXPRESSIONS = {
    "T.bitwise_xor(i % 8, j % 8)": lambda i, j: (i % 8) ^ (j % 8),
    "T.bitwise_xor(i, j // 2 % 4)": lambda i, j: i ^ (j // 2 % 4),
    "T.bitwise_xor(j % 2, i)": lambda i, j: (j % 2) ^ i,
    "T.bitwise_or(i, j % 4)": lambda i, j: i | (j % 4),
    "T.bitwise_and(i, j % 8)": lambda i, j: i & (j % 8),
    "T.bitwise_and(i % 4, j)": lambda i, j: (i % 4) & j,
    "T.bitwise_xor(i // 3 % 4 + 1, j % 4)": lambda i, j: (i // 3 % 4 + 1) ^ (j % 4),
    "T.bitwise_xor(i % 16, 5)": lambda i, j: (i % 16) ^ 5,
    "T.bitwise_xor(9, j)": lambda i, j: 9 ^ j,
    "T.bitwise_or(i, 5)": lambda i, j: i | 5,
    "T.bitwise_or(10, j % 4)": lambda i, j: 10 | (j % 4),
    "T.bitwise_and(i, 10)": lambda i, j: i & 10,
    "T.bitwise_and(6, j)": lambda i, j: 6 & j,
}


def form(text: str, low: int = 0) -> tuple[Any, Any, Any]:
    func: PrimFunc = parse(f"""
@T.prim_func
def f(A: T.Buffer((4096,), "int32")):
    for i in range({low}, 20):
        for j in range(18):
            A[{text}] = 0
""")
    (access,) = [a for a in extract(func).accesses if a.is_write]
    assert access.indices is not None
    outer = func.body
    assert isinstance(outer, For) and isinstance(outer.body, For) and not isinstance(outer.body.body, Evaluate)
    return access.indices[0], outer.loop_var, outer.body.loop_var


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_bits_are_written_out(text: str) -> None:
    lin, i, j = form(text)
    assert not any(isinstance(dim, Opaque) for dim in lin.terms)
    for x, y in itertools.product(range(20), range(18)):
        assert evaluate(lin, {i: x, j: y}) == EXPRESSIONS[text](x, y)


@pytest.mark.parametrize("text", ["T.bitwise_xor(i, j)", "T.bitwise_or(i * 9, j * 20)", "T.bitwise_xor(i - 3, j % 4)"])
def test_large_or_negative_operands_stay_unknown(text: str) -> None:
    lin, _, _ = form(text)
    assert len(lin.terms) == 1 and not lin.const


def test_a_swizzled_layout_is_injective() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((1024,), "int32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        A[tx // 8 * 8 + T.bitwise_xor(tx % 8, tx // 8 % {rows})] = tx
"""
    assert not races(parse(text.format(rows=8)))
    assert not races(parse(text.format(rows=4)))
    folded = parse(text.format(rows=8).replace("tx // 8 * 8", "tx // 16 * 8"))
    assert [race.verdict.status for race in races(folded)] == ["refuted"]
