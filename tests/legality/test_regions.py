"""A matched region is where it was when its block began, whatever the block does to the memory that said so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.ir import Bind
from tirlower.ir.query import each
from tirlower.script import parse

HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), I: T.Buffer((64,), "int32"), n: T.int32):
"""


def func(body: str) -> Any:
    return parse(HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines()))


CHANGED = {
    "the start": """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
    M[0] = 7
    I[0] = 40
    M[1] = M[0] + 1
""",
    "by a matched buffer of another block": """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
    with T.block("c"):
        J = T.match_buffer(I[0:4], (4,), "int32", offset_factor=1)
        J[0] = 40
    M[1] = 8
""",
    "under a condition": """
for i in range(6):
    with T.block("b"):
        vi = T.axis.spatial(6, i)
        T.where(i < n)
        M = T.match_buffer(A[I[vi]:I[vi] + 4], (4,), "int32", offset_factor=1)
        M[0] = 7 + vi
        I[vi] = 40
        M[1] = 8 + vi
""",
    "in the other iterations": """
for i in range(6):
    with T.block("b"):
        vi = T.axis.spatial(6, i)
        M = T.match_buffer(A[I[vi]:I[vi] + 4], (4,), "int32", offset_factor=1)
        I[5 - vi] = 20 + vi
        M[3] = 8 + vi
""",
    "in the init": """
for i in range(3):
    with T.block("b"):
        vi = T.axis.reduce(3, i)
        M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
        with T.init():
            I[0] = 30
            M[0] = 5
        M[0] = M[0] + 2
""",
    "a matched region of a matched region": """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 8], (8,), "int32", offset_factor=1)
    with T.block("c"):
        K = T.match_buffer(M[I[1]:I[1] + 2], (2,), "int32", offset_factor=1)
        I[0] = 40
        I[1] = 5
        K[1] = 9
    M[0] = 3
""",
    "through a pointer": """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
    V = T.decl_buffer((64,), "int32", data=I.data)
    V[0] = 40
    M[1] = 8
""",
    "by a call": """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
    T.evaluate(T.atomic_add(T.address_of(I[0]), 7))
    M[1] = 8
""",
}


def compare(program: Any, *arrays: np.ndarray, n: int = 4) -> None:
    """Native code does what the interpreter does, which binds a region when its block begins."""
    want, got = [x.copy() for x in arrays], [x.copy() for x in arrays]
    for run, xs in ((lambda *a: tl.interpret(program, *a), want), (tl.build(program), got)):
        run(xs[0], xs[-1], n)
    for a, b in zip(want, got, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CHANGED)
def test_a_region_stays_where_it_was_when_its_block_began(name: str) -> None:
    program = func(CHANGED[name])
    starts = np.array([2, 3, 9, 12, 16, 11, *[0] * 58], "int32")
    for n in (0, 4, 6):
        compare(program, np.zeros(64, "int32"), starts, n=n)


def test_where_the_block_does_not_run_its_region_is_not_looked_up() -> None:
    program = func(CHANGED["under a condition"].replace("I[vi]:I[vi] + 4", "I[60 + vi]:I[60 + vi] + 4"))
    for n in (0, 3):
        compare(program, np.zeros(64, "int32"), np.arange(64, dtype="int32") // 8, n=n)


def test_a_block_that_never_runs_looks_nothing_up() -> None:
    body = CHANGED["under a condition"].replace("i < n", "T.bool(False)").replace("I[vi]", "I[vi + n]")
    compare(func(body), np.zeros(64, "int32"), np.arange(64, dtype="int32"), n=1000)


def test_the_start_may_be_written_through_another_array_of_the_call() -> None:
    body = """
with T.block("b"):
    M = T.match_buffer(A[I[0]:I[0] + 4], (4,), "int32", offset_factor=1)
    M[0] = 7
    M[1] = 8
"""
    program = func(body)
    compare(program, np.array([0, 1, *[5] * 62], "int32"))  # one array as both: M[0] is I[0]
    checked = tl.lower(program)
    assert not list(each(Bind, *[f.body for f in getattr(checked, "functions", {"": checked}).values()]))


def test_a_region_that_leaves_its_source_is_told_at_its_old_start() -> None:
    program = func(CHANGED["the start"].replace("M[1] = M[0] + 1", "M[3] = 1"))
    kernel = tl.build(program)
    for start in (61, -1, 64):
        arrays = np.zeros(64, "int32"), np.array([start, *[0] * 63], "int32")
        with pytest.raises(IndexError):
            kernel(*arrays, 4)
    compare(program, np.zeros(64, "int32"), np.array([60, *[0] * 63], "int32"))
