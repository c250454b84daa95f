"""Blocks done by intrinsics, where they mean what these describe."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.diagnostics import BadArgument, NotApplicable, StricterThanLegal
from tirlower.ir import TensorIntrin
from tirlower.script import parse

DESC = """
@T.prim_func
def desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4, 4), "int32", offset_factor=1)
    B = T.match_buffer(b, (4, 4), "int32", offset_factor=1)
    C = T.match_buffer(c, (4, 4), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for i, j, k in T.grid(4, 4, 4):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
IMPL = """
@T.prim_func
def impl(a: T.handle, b: T.handle, c: T.handle):
    sa = T.int32()
    sb = T.int32()
    sc = T.int32()
    A = T.match_buffer(a, (4, 4), "int32", strides=[sa, 1], offset_factor=1)
    B = T.match_buffer(b, (4, 4), "int32", strides=[sb, 1], offset_factor=1)
    C = T.match_buffer(c, (4, 4), "int32", strides=[sc, 1], offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:4], A[0:4, 0:4], B[0:4, 0:4])
        T.writes(C[0:4, 0:4])
        for k in range(4):
            for i, j in T.grid(4, 4):
                C[i, j] += A[i, k] * B[k, j]
"""
TEXT = """
@T.prim_func
def f(X: T.Buffer((8, 12), "int32"), Y: T.Buffer((12, 16), "int32"), Z: T.Buffer((8, 16), "int32")):
    for i, j, k in T.grid(8, 16, 12):
        with T.block("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                Z[vi, vj] = 0
            Z[vi, vj] = {update}
"""


def intrin() -> TensorIntrin:
    return TensorIntrin(parse(DESC), parse(IMPL))  # type: ignore[arg-type]


def tiled(update: str) -> tuple[Any, Any]:
    sch: Any = tl.Schedule(parse(TEXT.format(update=update)), debug_mask="all")
    _, inner = sch.tile(sch.loops("Z"), [4, 4, 4])
    return sch, inner[0]


@pytest.mark.parametrize(
    "update",
    [
        "Z[vi, vj] + X[vi, vk] * Y[vk, vj]",
        "X[vi, vk] * Y[vk, vj] + Z[vi, vj]",
        "Z[vi, vj] + Y[vk, vj] * X[vi, vk]",
    ],
)
@pytest.mark.parametrize("as_block", [False, True])
def test_a_product(update: str, as_block: bool) -> None:
    sch, loop = tiled(update)
    func = parse(TEXT.format(update=update))
    sch.tensorize(sch.blockize(loop) if as_block else loop, intrin())
    assert "T.match_buffer" in str(sch.mod["main"]) and "update" not in str(sch.mod["main"])
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])


def test_tvm_asks_for_the_same_structure() -> None:
    for update, order, taken in (
        ("Z[vi, vj] + X[vi, vk] * Y[vk, vj]", (0, 1, 2), True),
        ("X[vi, vk] * Y[vk, vj] + Z[vi, vj]", (0, 1, 2), False),
        ("Z[vi, vj] + X[vi, vk] * Y[vk, vj]", (1, 0, 2), False),
    ):
        strict: Any = tl.Schedule(parse(TEXT.format(update=update)), accept="tvm")
        loops = [strict.split(loop, [None, 4]) for loop in strict.loops("Z")]
        inner = [pair[1] for pair in loops]
        strict.reorder(*(pair[0] for pair in loops), *(inner[at] for at in order))
        before = strict.mod
        if taken:
            strict.tensorize(inner[order[0]], intrin())
            continue
        with pytest.raises(StricterThanLegal, match="does not match the description of the intrinsic structurally"):
            strict.tensorize(inner[order[0]], intrin())
        assert strict.mod is before


@pytest.mark.parametrize(
    ("update", "word"),
    [
        ("Z[vi, vj] - X[vi, vk] * Y[vk, vj]", "described is"),
        ("Z[vi, vj] + X[vi, vk] * Y[vk, 15 - vj]", "not at one distance"),
        ("Z[vi, vj] + X[vi, vk] * X[vi, vk]", "not at one distance"),
        ("Z[vi, vj] + X[vi, vk] * Y[vk, vj] * 2", "described is"),
        ("Z[vi, vj] + X[vi, vk] * 3", "described is"),
    ],
)
def test_what_means_something_else(update: str, word: str) -> None:
    sch, loop = tiled(update)
    before = sch.mod
    with pytest.raises(NotApplicable, match="not what the intrinsic describes") as raised:
        sch.tensorize(loop, intrin())
    assert word in str(raised.value)
    assert sch.mod is before


def test_other_sizes_and_names() -> None:
    sch: Any = tl.Schedule(parse(TEXT.format(update="Z[vi, vj] + X[vi, vk] * Y[vk, vj]")))
    _, inner = sch.tile(sch.loops("Z"), [4, 4, 3])
    with pytest.raises(NotApplicable, match="runs 3 times"):
        sch.tensorize(inner[0], intrin())
    with pytest.raises(BadArgument, match="no tensor intrinsic"):
        sch.tensorize(inner[0], "no_such_intrinsic")


def test_by_name_and_again() -> None:
    name = "test_tensorize_product_4x4x4"
    if TensorIntrin.get(name, allow_missing=True) is None:
        TensorIntrin.register(name, parse(DESC), parse(IMPL))  # type: ignore[arg-type]
    func = parse(TEXT.format(update="Z[vi, vj] + X[vi, vk] * Y[vk, vj]"))
    sch: Any = tl.Schedule(func)
    _, inner = sch.tile(sch.loops("Z"), [4, 4, 4])
    sch.tensorize(inner[0], name)
    other = tl.Schedule(func)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), other)
    same_function(other.mod["main"], sch.mod["main"])
    executes_alike(func, sch.mod["main"])
