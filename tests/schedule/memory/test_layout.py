"""Buffers laid out anew: what every access becomes, and which maps are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.interp import interpret
from tirlower.ir import IndexMap
from tirlower.script import parse

BLOCKS = """
@T.prim_func
def f(A: T.Buffer((16, 12), "int32"), B: T.Buffer((16, 12), "int32")):
    C = T.alloc_buffer((16, 12), "int32")
    for i, j in T.grid(16, 12):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * 2
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = C[vi, vj] + C[15 - vi, vj]
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((16, 12), "int32"), B: T.Buffer((16, 12), "int32")):
    C = T.alloc_buffer((16, 12), "int32")
    for i, j in T.grid(16, 12):
        C[i, j] = A[i, j] * 2
    for i_0, i_1, j in T.grid(4, 4, 12):
        if i_0 * 4 + i_1 > 2:
            B[i_0 * 4 + i_1, j] = C[i_0 * 4 + i_1, j] + C[15 - i_0 * 4 - i_1, j]
"""
MAPS: dict[str, Any] = {
    "transposed": lambda i, j: [j, i],
    "tiled": lambda i, j: [i // 4, j // 4, i % 4, j % 4],
    "flat": lambda i, j: [i * 12 + j],
    "ragged": lambda i, j: [i // 5, j, i % 5],
    "reversed": lambda i, j: [15 - i, j],
    "swizzled": lambda i, j: [i, (j + i * 4) % 12],
}


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("text", [BLOCKS, PLAIN])
def test_every_access_moves(name: str, text: str) -> None:
    func = parse(text)
    sch = tl.Schedule(func, debug_mask="all")
    memory = sch.buffer("C")
    sch.transform_layout("C", "C", MAPS[name])
    shape = [int(extent.value) for extent in sch.get(memory).shape]
    wanted = [int(e.value) for e in IndexMap.from_func(MAPS[name]).map_shape((16, 12))]
    assert shape == wanted
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"])
    again(func, sch)


def test_as_in_tvm() -> None:
    sch = tl.Schedule(parse(BLOCKS), debug_mask="all")
    sch.transform_layout("C", ("write", 0), lambda i, j: [i // 4, j, i % 4])
    block = sch.get(sch.get_block("C"))
    assert [str(region) for region in block.writes] == ["C[vi // 4, vj, vi % 4]"]
    assert 'transform_layout(block=b0, buffer=("write", 0), index_map=lambda i, j: (i // 4, j, i % 4,)' in str(
        sch.trace.text("tvm")
    )
    other = tl.Schedule(parse(BLOCKS))
    other.trace.apply_to_schedule(other)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tvm"), other)
    same_function(other.mod["main"], sch.mod["main"])


@pytest.mark.parametrize(
    ("index_map", "word"),
    [
        (lambda i, j: [i + j], "to one place"),
        (lambda i, j: [i // 2, j], "to one place"),
        (lambda i, j: [i], "to one place"),
        (lambda i, j: [i * j], "not known"),
    ],
)
def test_maps_that_meet(index_map: Any, word: str) -> None:
    sch = tl.Schedule(parse(BLOCKS))
    verdict = sch.can("transform_layout", "C", "C", index_map)
    assert not verdict.proved and word in verdict.reason
    before = sch.mod
    with pytest.raises(tl.ScheduleError):
        sch.transform_layout("C", "C", index_map)
    assert sch.mod is before


def test_a_parameter_only_on_request() -> None:
    func = parse(BLOCKS)
    sch = tl.Schedule(func, debug_mask="all")
    with pytest.raises(NotApplicable, match="interface=True"):
        sch.transform_layout("C", "A", lambda i, j: [j, i])
    sch.transform_layout("C", "A", lambda i, j: [j, i], interface=True)
    assert sch.steps[-1].exactness.startswith("interface(A")
    a = np.arange(192, dtype="int32").reshape(16, 12)
    old, new = np.zeros((16, 12), "int32"), np.zeros((16, 12), "int32")
    interpret(func, a, old)
    interpret(sch.mod["main"], np.ascontiguousarray(a.T), new)
    assert (old == new).all()


def test_what_escapes() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16, 12), "int32"), B: T.Buffer((16, 12), "int32")):
    C = T.alloc_buffer((16, 12), "int32")
    for i, j in T.grid(16, 12):
        C[i, j] = A[i, j] * 2
    D = T.decl_buffer((192,), "int32", data=C.data)
    for i, j in T.grid(16, 12):
        B[i, j] = D[i * 12 + j]
""")
    with pytest.raises(NotApplicable, match="view"):
        tl.Schedule(func).transform_layout("C", "C", lambda i, j: [j, i])


def test_symbolic_shapes() -> None:
    func = parse("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "int32")
    B = T.match_buffer(b, (n, 4), "int32")
    C = T.alloc_buffer((n, 4), "int32")
    for i, j in T.grid(n, 4):
        C[i, j] = A[i, j] * 2
    for i, j in T.grid(n, 4):
        B[i, j] = C[i, j] + 1
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.transform_layout("C", "C", lambda i, j: [j, i])
    executes_alike(func, sch.mod["main"], sizes=(1, 2, 3, 7))


def test_separators() -> None:
    func = parse(BLOCKS)
    sch = tl.Schedule(func, debug_mask="all")
    sch.set_axis_separator("C", "C", [1])
    assert sch.get(sch.buffer("C")).axis_separators == (1,)
    executes_alike(func, sch.mod["main"])
    again(func, sch)
    for wrong in ([3], [1, 0], [-1]):
        with pytest.raises(BadArgument, match="rise from 0"):
            sch.set_axis_separator("C", "C", wrong)
    with pytest.raises(NotApplicable, match="parameter"):
        sch.set_axis_separator("C", "A", [1])
    both = tl.Schedule(func)
    both.transform_layout("C", "C", lambda i, j: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4, j])
    assert both.get(both.buffer("C")).axis_separators == (1,)
