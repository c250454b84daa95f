"""Questions of TVM's schedule analysis: the layout that an access asks for is counted out, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.ir import Expr, For, Var, build, decl_buffer
from tirlower.ir.evaluator import Evaluator
from tirlower.schedule import analysis
from tirlower.script import parse

BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((8, 8), "int32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vj, vi = T.axis.remap("SS", [j, i])
                C[vi, vj] = T.if_then_else(vi < 4, B[vi, vj], 0)
"""


def test_blocks_by_name_and_what_they_write() -> None:
    sch: Any = tl.Schedule(parse(BLOCKS))
    assert analysis.has_block(sch, "B") and analysis.has_block(sch, "root") and not analysis.has_block(sch, "D")
    assert analysis.is_output_block(sch, "C") and not analysis.is_output_block(sch, sch.get_block("B"))
    assert not analysis.is_output_block(sch, "root")
    assert analysis.is_trivial_binding(sch, "B") and not analysis.is_trivial_binding(sch, "C")
    b, c = (sch.get(sch.get_block(name)) for name in "BC")
    assert analysis.has_if_then_else(c) and not analysis.has_if_then_else(b)
    plain: Any = tl.Schedule(parse('def f(A: T.Buffer((4,), "int32")): A[0] = 1'))
    assert not analysis.has_block(plain, "A")
    with pytest.raises(BadArgument):
        analysis.is_trivial_binding(plain, "root")


def test_blocks_of_all_functions() -> None:
    one = parse(BLOCKS)
    two = parse(BLOCKS.replace('"B"', '"X"').replace("def f", "def g"))
    sch: Any = tl.Schedule(tl.ir.IRModule({"a": one, "b": two}))
    sch.work_on("a")
    assert analysis.has_block(sch, "X") and analysis.has_block(sch, "B")
    assert not analysis.is_output_block(sch, sch.get_block("X", "b"))


i, j, k, m = (Var(name, "int32") for name in "ijkm")


def nest(*loops: tuple[Var, int]) -> list[For]:
    return [For(var, 0, extent, "serial", None, {}, None) for var, extent in loops]  # type: ignore[arg-type]


def addresses(shape: Sequence[int], indices: Sequence[Expr], loops: Sequence[For], found: Any) -> list[int]:
    """The addresses in the new layout in the order in which the loops go through them."""
    sizes = [int(extent.value) for extent in found.map_shape(shape)]
    made = []
    for point in itertools.product(*(range(loop.extent.value) for loop in loops)):  # type: ignore[attr-defined]
        values = {loop.loop_var: value for loop, value in zip(loops, point, strict=True)}
        at = [int(Evaluator(index).at(values)) for index in indices]  # type: ignore[arg-type]
        address = 0
        for index, size in zip(found.map_indices(at), sizes, strict=True):
            address = address * size + int(index.value)
        made.append(address)
    return made


@pytest.mark.parametrize(
    ("shape", "indices", "loops"),
    [
        ((8, 2), [i, k], nest((k, 2), (i, 8))),
        ((8, 2), [i, k], nest((i, 8), (k, 2))),
        ((8, 12), [i * 4 + k, j * 3 + m], nest((i, 2), (j, 4), (k, 4), (m, 3))),
        ((8, 12), [i * 4 + k, j * 3 + m], nest((j, 4), (m, 3), (i, 2), (k, 4))),
        ((6, 4), [build.floordiv(i, 4), build.floormod(i, 4)], nest((i, 24))),
        ((24,), [i * 6 + j], nest((j, 6), (i, 4))),
        ((7, 5, 3), [i, j, k], nest((k, 3), (j, 5), (i, 7))),
        ((4, 1), [i, m], nest((m, 1), (i, 4))),
    ],
)
def test_the_layout_goes_through_memory_in_order(shape: Sequence[int], indices: Any, loops: Sequence[For]) -> None:
    found = analysis.suggest_index_map(decl_buffer(shape, "float32"), indices, loops)
    assert found is not None
    assert addresses(shape, indices, loops, found) == list(range(len(addresses(shape, indices, loops, found))))


@pytest.mark.parametrize(
    ("shape", "indices", "loops"),
    [
        ((8, 2), [i, i], nest((i, 2))),
        ((8, 4), [i, k], nest((i, 8), (k, 2))),
        ((8,), [i + j], nest((i, 4), (j, 5))),
        ((9,), [i + 1], nest((i, 8))),
        ((16,), [i * i], nest((i, 4))),
    ],
)
def test_no_layout(shape: Sequence[int], indices: Any, loops: Sequence[For]) -> None:
    assert analysis.suggest_index_map(decl_buffer(shape, "float32"), indices, loops) is None


def test_a_wrong_number_of_indices() -> None:
    with pytest.raises(NotApplicable, match="2 dimensions, got 1"):
        analysis.suggest_index_map(decl_buffer((2, 2), "int8"), [i], nest((i, 4)))


def test_under_a_predicate() -> None:
    loops = nest((i, 3), (j, 4))
    index = i * 4 + j
    found = analysis.suggest_index_map(decl_buffer((12,), "int8"), [index], loops, index < 10)
    assert found is not None and [int(at.value) for at in found.map_indices([9])] == [2, 1]
    assert analysis.suggest_index_map(decl_buffer((13,), "int8"), [index], loops) is None
