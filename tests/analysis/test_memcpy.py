"""Copies: what is one by the elements that it moves, counted out, is found; what is none is not."""

from __future__ import annotations

import itertools

import pytest

from tirlower.analysis import identify_memcpy
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir import BufferStore, For, Var, const, substitute
from tirlower.script import tir as T


def nest(func):
    """The outermost loop of a function."""
    return func.body


def moved(func):
    """The pairs of flat offsets that a nest of constant loops moves, in order."""
    loops, op = [], func.body
    while isinstance(op, For):
        loops.append(op)
        op = op.body
    pairs = []
    for values in itertools.product(*[range(x.min.value, x.min.value + x.extent.value) for x in loops]):
        env = {x.loop_var: value for x, value in zip(loops, values, strict=True)}
        at = [
            int(substitute(e, env).value)
            for e in (op.value.buffer.offset_of(op.value.indices), op.buffer.offset_of(op.indices))
        ]
        pairs.append(tuple(at))
    return pairs


def elements(region):
    """The flat offsets of a region."""
    axes = [range(r.min.value, r.min.value + r.extent.value) for r in region.region]
    return [region.buffer.offset_of([const(x, "int32") for x in at]).value for at in itertools.product(*axes)]


@T.prim_func
def rows(A: T.Buffer((8, 16), "int32"), B: T.Buffer((4, 16), "int32")):
    for i, j in T.grid(4, 16):
        B[i, j] = A[i + 2, j]


@T.prim_func
def reshaped(A: T.Buffer((64,), "int32"), B: T.Buffer((4, 16), "int32")):
    for i, j in T.grid(4, 16):
        B[i, j] = A[i * 16 + j]


@T.prim_func
def fused(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32")):
    for f in T.parallel(64):
        B[f // 16, f % 16] = A[f // 16, f % 16]


@T.prim_func
def other_order(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32")):
    for j, i in T.grid(16, 4):
        B[i, j] = A[i, j]


@T.prim_func
def part_of_a_row(A: T.Buffer((4, 16), "int32"), B: T.Buffer((32,), "int32")):
    for i in T.vectorized(8):
        B[i + 3] = A[2, i + 4]


@pytest.mark.parametrize("func", [rows, reshaped, fused, other_order, part_of_a_row], ids=lambda f: f.name)
def test_copies(func):
    found = identify_memcpy(nest(func))
    assert found is not None
    pairs = sorted(moved(func))
    assert pairs == list(zip(elements(found.source), elements(found.dest), strict=True))


@T.prim_func
def transposed(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32")):
    for i, j in T.grid(16, 16):
        B[i, j] = A[j, i]


@T.prim_func
def columns(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4, 16), "int32")):
    for i, j in T.grid(4, 8):
        B[i, j] = A[i, j]


@T.prim_func
def strided(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(32):
        B[i * 2] = A[i * 2]


@T.prim_func
def computed(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(64):
        B[i] = A[i] + 1


@T.prim_func
def converted(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        B[i] = A[i]


@T.prim_func
def within(A: T.Buffer((64,), "int32")):
    for i in range(32):
        A[i + 32] = A[i]


@T.prim_func
def repeated(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i, j in T.grid(4, 64):
        B[j] = A[j]


@T.prim_func
def gathered(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), at: T.Buffer((64,), "int32")):
    for i in range(64):
        B[i] = A[at[i]]


@T.prim_func
def reversed_(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(64):
        B[i] = A[63 - i]


@T.prim_func
def guarded(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(64):
        if i < 60:
            B[i] = A[i]


NONE = [transposed, columns, strided, computed, converted, within, repeated, gathered, reversed_, guarded]


@pytest.mark.parametrize("func", NONE, ids=lambda f: f.name)
def test_what_is_no_copy(func):
    assert identify_memcpy(nest(func)) is None


def test_symbolic_sizes():
    @T.prim_func
    def f(A: T.Buffer(("n", 16), "int32"), B: T.Buffer(("n", 16), "int32")):
        for i, j in T.grid(n, 16):
            B[i, j] = A[i, j]

    found = identify_memcpy(nest(f))
    assert found is not None and str(found.source) == "A[0:n, 0:16]" and str(found.dest) == "B[0:n, 0:16]"


def test_other_statements_are_refused():
    with pytest.raises(ArgumentTypeError, match="takes a loop, got BufferStore"):
        identify_memcpy(rows.body.body.body)
    assert isinstance(rows.body.body.body, BufferStore) and Var
