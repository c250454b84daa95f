"""How a description lies on a block: each map found is applied, and what it makes of the indices is counted out."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import NotApplicable
from tirlower.schedule.intrin_mapping import get_auto_tensorize_mapping_info, get_tensorize_loop_mapping
from tirlower.script import parse

MATMUL = """
@T.prim_func
def f(A: T.Buffer(({m}, {k}), "int8"), B: T.Buffer(({k}, {n}), "int8"), C: T.Buffer(({m}, {n}), "int32")):
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "int32") * T.cast(B[vk, vj], "int32")
"""
DESC = MATMUL.replace("            with T.init():\n                C[vi, vj] = 0\n", "")
DOT = """
@T.prim_func
def desc(A: T.Buffer((4,), "int8"), B: T.Buffer((16, 4), "int8"), C: T.Buffer((16,), "int32")):
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        for i, k in T.grid(16, 4):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")
"""
CONV = """
@T.prim_func
def f(A: T.Buffer((2, 10, 10, 4), "int8"), W: T.Buffer((3, 3, 4, 8), "int8"), C: T.Buffer((2, 8, 8, 8), "int32")):
    for n, h, w, co, rh, rw, ci in T.grid(2, 8, 8, 8, 3, 3, 4):
        with T.block("C"):
            vn, vh, vw, vco, vrh, vrw, vci = T.axis.remap("SSSSRRR", [n, h, w, co, rh, rw, ci])
            C[vn, vh, vw, vco] = C[vn, vh, vw, vco] + T.cast(A[vn, vh + vrh, vw + vrw, vci], "int32") * T.cast(W[vrh, vrw, vci, vco], "int32")
"""
BATCH = """
@T.prim_func
def f(A: T.Buffer((3, 8, 6), "int8"), B: T.Buffer((3, 6, 4), "int8"), C: T.Buffer((3, 8, 4), "int32")):
    for b, i, j, k in T.grid(3, 8, 4, 6):
        with T.block("C"):
            vb, vi, vj, vk = T.axis.remap("SSSR", [b, i, j, k])
            C[vb, vi, vj] = C[vb, vi, vj] + T.cast(B[vb, vk, vj], "int32") * T.cast(A[vb, vi, vk], "int32")
"""


def matmul(m: int, n: int, k: int, text: str = MATMUL) -> Any:
    return parse(text.format(m=m, n=n, k=k))


def loops(found: Any) -> dict[str, tuple[str, int]]:
    names = {
        mine.stmt.loop_var.name: (its.loop_var.name, found.desc_loop_indexer[its])
        for mine, its in found.loop_map.items()
    }
    return dict(sorted(names.items()))


def test_loops_of_a_product() -> None:
    sch: Any = tl.Schedule(matmul(32, 64, 16))
    found = get_tensorize_loop_mapping(sch, "C", matmul(16, 16, 8, DESC))
    assert loops(found) == {"i": ("i", 0), "j": ("j", 1), "k": ("k", 2)} and found.block_iter_paddings is None
    dot = get_tensorize_loop_mapping(sch, sch.get_block("C"), parse(DOT))
    assert loops(dot) == {"j": ("i", 0), "k": ("k", 1)}


def test_loops_in_another_order_and_with_others_between() -> None:
    sch: Any = tl.Schedule(matmul(32, 64, 16))
    sch.reorder(*sch.get_loops("C")[::-1])
    assert loops(get_tensorize_loop_mapping(sch, "C", parse(DOT))) == {"j": ("i", 0), "k": ("k", 1)}
    conv: Any = tl.Schedule(parse(CONV))
    assert get_tensorize_loop_mapping(conv, "C", parse(DOT)) is None  # 8 channels are no multiple of 16
    padded = get_tensorize_loop_mapping(conv, "C", parse(DOT), allow_padding=True)
    assert padded is not None and padded.block_iter_paddings == [1, 1, 1, 16, 1, 1, 1]


def test_loops_that_do_not_fit() -> None:
    sch: Any = tl.Schedule(matmul(33, 64, 16))
    assert get_tensorize_loop_mapping(sch, "C", matmul(16, 16, 8, DESC)) is None
    found = get_tensorize_loop_mapping(sch, "C", matmul(16, 16, 8, DESC), allow_padding=True)
    assert found is not None and found.block_iter_paddings == [16, 1, 1]
    sch.split(sch.get_loops("C")[2], [None, 4])
    assert get_tensorize_loop_mapping(sch, "C", matmul(11, 16, 4, DESC)) is None  # an iterator is of two loops
    vector: Any = tl.Schedule(parse('def f(A: T.Buffer((4,), "int32")):\n  for i in range(4):\n    A[i] = 1'))
    with pytest.raises(NotApplicable, match="loops around one block"):
        get_tensorize_loop_mapping(sch, "C", vector.mod["main"])


def finals(found: Any, *point: int) -> list[int]:
    return [int(value.value) for value in found.mappings[0].map_indices(list(point))]


def test_iterators_of_a_convolution_become_those_of_a_product() -> None:
    sch: Any = tl.Schedule(parse(CONV))
    found = get_auto_tensorize_mapping_info(sch, "C", matmul(16, 16, 16, DESC))
    assert found is not None
    assert finals(found, 1, 2, 3, 4, 1, 2, 3) == [(1 * 8 + 2) * 8 + 3, 4, (1 * 3 + 2) * 4 + 3]
    assert {mine.name: its.name for mine, its in found.lhs_buffer_map.items()} == {"A": "A", "W": "B", "C": "C"}
    assert [it.var.name for it in found.rhs_iters] == ["vi", "vj", "vk"] and len(found.lhs_iters) == 7


def test_what_takes_part_everywhere_stays_in_front() -> None:
    sch: Any = tl.Schedule(parse(BATCH))
    found = get_auto_tensorize_mapping_info(sch, "C", matmul(16, 16, 16, DESC))
    # The operands as they are written: the product is the transposed one.
    assert found is not None and finals(found, 2, 7, 3, 5) == [2, 3, 7, 5]
    assert {mine.name: its.name for mine, its in found.lhs_buffer_map.items()} == {"A": "B", "B": "A", "C": "C"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('T.cast(A[vi, vk], "int32") * ', 'T.cast(A[vi, vk], "int32") + '),
        ("C[vi, vj] + ", "C[vi, vj] - "),
        ("A[vi, vk]", "A[vi, 0]"),
        ('B: T.Buffer((8, 8), "int8")', 'B: T.Buffer((8, 8), "int16")'),
    ],
)
def test_other_computations_have_no_map(old: str, new: str) -> None:
    text = MATMUL.format(m=8, n=8, k=8)
    assert old in text
    sch: Any = tl.Schedule(parse(text.replace(old, new)))
    assert get_auto_tensorize_mapping_info(sch, "C", matmul(4, 4, 4, DESC)) is None
