"""find_out_of_bounds: known findings, silence where there are none, and random programs against enumeration."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.generate.nodes import Nodes, nest
from tirlower import ir
from tirlower.analysis import find_out_of_bounds
from tirlower.diagnostics import BoundsError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.script import tir as T


def script(body, params='A: T.Buffer((8,), "int32"), B: T.Buffer((2, 3), "int32"), x: T.int32'):
    lines = "\n".join("    " + line for line in body.splitlines())
    return parse(f"@T.prim_func\ndef f({params}):\n{lines}\n")


def findings(body, **kwargs):
    return find_out_of_bounds(script(body, **kwargs))


FOUND = [
    ("A[8] = 1", 0, "8", {}),
    ("A[-1] = 1", 0, "-1", {}),
    ("A[0] = B[2, 2]", 0, "2", {}),
    ("A[0] = B[0, 3]", 1, "3", {}),
    ("for i in range(3):\n    A[i] = B[i, 2]", 0, "i", {"i": 2}),
    ("for i in range(9):\n    A[i] = 1", 0, "i", {"i": 8}),
    ("for i in range(4):\n    A[i * 2 + 2] = 1", 0, "i * 2 + 2", {"i": 3}),
    ("for i in range(8):\n    A[i - 1] = 1", 0, "i - 1", {"i": 0}),
    ("for i in range(8):\n    if i >= 2:\n        A[i + 1] = 1", 0, "i + 1", {"i": 7}),
    ("for i in range(2, 6):\n    for j in range(4):\n        A[i + j] = 1", 0, "i + j", {"i": 5, "j": 3}),
    ("for i in range(8):\n    A[i] = T.if_then_else(i < 7, A[i + 2], 0)", 0, "i + 2", {"i": 6}),
    ("for i in T.vectorized(2):\n    A[i * 8] = 1", 0, "i * 8", {"i": 1}),
    ("A[T.Ramp(4, 1, 8)] = T.Broadcast(1, 8)", 0, "", {}),
    ("for i in range(4):\n    y: T.int32 = i * 3\n    A[y] = 1", 0, "y", {"i": 3}),
    ("for i in range(8):\n    if x < 3:\n        A[i + 8] = 1", 0, "i + 8", None),
]


@pytest.mark.parametrize(("body", "axis", "index", "iteration"), FOUND)
def test_findings(body, axis, index, iteration):
    found = findings(body)
    assert len(found) == 1, [str(f) for f in found]
    one = found[0]
    assert one.axis == axis and (not index or str(one.index) == index)
    assert one.iteration == iteration
    assert str(one)


SILENT = [
    "A[7] = 1",
    "for i in range(8):\n    A[i] = 1",
    "for i in range(16):\n    if i < 8:\n        A[i] = 1",
    "for i in range(16):\n    A[i // 2] = 1",
    "for i in range(16):\n    A[i % 8] = B[i % 2, i % 3]",
    "A[x] = 1",
    "A[x + 100] = 1",
    "if x >= 0 and x < 8:\n    A[x] = 1",
    "A[A[0]] = 1",
    "for i in range(16):\n    if A[0] == i:\n        A[i] = 1",
    "for i in range(0):\n    A[9] = 1",
    "for i in range(16):\n    if i * i < 50:\n        A[i] = 1",
    "for i in range(8):\n    A[i] = T.if_then_else(i < 7, A[i + 1], 0)",
    "for i in range(8):\n    A[i] = T.Select(i > 0, A[i - 1], 0)",
    "for i in range(8):\n    if i < 7 and A[i + 1] > 0:\n        A[i] = 0",
    "T.evaluate(T.address_of(A[8]))",
    "for i in range(9):\n    T.evaluate(T.assume(i < 8))\n    A[i] = 1",
    "for i in range(4):\n    for j in range(4):\n        if i + j < 8:\n            A[i + j] = 1",
    "while A[0] < 3:\n    A[9] = 1",
    # What a loop's bounds load, nobody knows.
    "for i in range(B[0, 0]):\n    A[i] = 1",
    "for i in range(B[0, 0], 8):\n    A[T.min(i, 7)] = 1",
    "for i in range(B[0, 0], B[0, 0] + 3):\n    for j in range(i, 8):\n        A[T.truncmod(j, 6)] = 1",
    "y: T.int32 = B[0, 0]\nfor i in range(y):\n    A[T.truncmod(i + y, 6)] = 1",
    # Each part reaches its ends, and not their difference.
    "for i in range(x):\n    A[i % 8 - i % 4] = 1",
]


@pytest.mark.parametrize("body", SILENT)
def test_silence(body):
    found = findings(body)
    if body.startswith("while"):
        # It is outside whenever it runs at all.
        assert len(found) == 1 and found[0].iteration is None
        return
    assert found == [], [str(f) for f in found]


def test_symbolic_sizes():
    @T.prim_func
    def inside(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n):
            A[i] = 1

    @T.prim_func
    def outside(a: T.handle, n: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n):
            A[i + 1] = 1

    assert find_out_of_bounds(inside) == []
    loop = outside.body
    decided = loop.with_(body=ir.IfThenElse(ir.const(True, "bool"), loop.body, None))
    for func in (outside, outside.with_body(decided)):
        (found,) = find_out_of_bounds(func)
        assert found.iteration is None and str(found.high) == "n"


def test_blocks_use_their_bindings_and_predicates():
    @T.prim_func
    def guarded(A: T.Buffer((10,), "int32")):
        for io, ii in T.grid(3, 4):
            with T.block("b"):
                v = T.axis.spatial(10, io * 4 + ii)
                T.where(io * 4 + ii < 10)
                A[v] = 1

    @T.prim_func
    def loose(A: T.Buffer((10,), "int32")):
        for io, ii in T.grid(3, 4):
            with T.block("b"):
                v = T.axis.spatial(12, io * 4 + ii)
                A[v] = 1

    assert find_out_of_bounds(guarded) == []
    (found,) = find_out_of_bounds(loose)
    assert found.iteration == {"io": 2, "ii": 2} and found.is_store


def test_the_place_is_that_of_the_script():
    (found,) = findings("for i in range(9):\n    A[i] = 1")
    assert found.span is not None and found.span.line == 4


def _random_program(rng):
    variables = [ir.Var(name) for name in "ijk"[: rng.randint(1, 3)]]
    A = ir.Buffer("A", (rng.randint(4, 12),), "int32")

    nodes = Nodes(rng, variables)

    def index():
        return nodes.digit(nodes.affine(-1, 4, (0, 1, 1, 2, -1)))

    def guard():
        return nodes.compared(index(), -1, 8)

    value = ir.BufferLoad(A, (index(),)) if rng.random() < 0.5 else ir.IntImm("int32", 1)
    if rng.random() < 0.3:
        value = ir.build.if_then_else(guard(), value, 0)
    body = ir.BufferStore(A, value, (index(),))
    for _ in range(rng.randint(0, 2)):
        body = ir.IfThenElse(guard(), body, None)
    body = nest([(var, rng.randint(0, 2), rng.randint(0, 5)) for var in variables], body)
    handle = ir.Var("a", "handle")
    return ir.PrimFunc((handle,), {handle: A}, "void", {}, body), A.shape[0].value


def test_random_programs_agree_with_the_interpreter():
    """Programs without symbols are decided: a finding says that the interpreter stops, silence that it does not."""
    stopped = 0
    for seed in range(400):
        program, size = _random_program(random.Random(seed))
        found = find_out_of_bounds(program)
        assert all(one.iteration is not None for one in found)
        try:
            interpret(program, np.zeros(size, dtype=np.int32))
        except BoundsError:
            stopped += 1
            assert found, f"seed {seed}: no finding\n{program}"
        else:
            assert not found, f"seed {seed}: {found[0]}\n{program}"
    assert 50 < stopped < 350


def test_a_search_gives_up():
    big = "for i in range(4096):\n    for j in range(4096):\n        if i * j * 3 == 7:\n            A[8 + i] = 1"
    (found,) = findings(big)
    assert found.iteration is None
