"""Blocks beside each other that become one block."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import NotApplicable
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((16, 8), "int32"), C: T.Buffer((16, 8), "int32"), D: T.Buffer((16,), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((16, 8), "int32")
        for i_0 in range(4):
            for i_1, j in T.grid(4, 8):
                with T.block("B"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vj = T.axis.spatial(8, j)
                    B[vi, vj] = A[vi, vj] * 2
            for i_1, j in T.grid(4, 8):
                with T.block("C"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vj = T.axis.spatial(8, j)
                    C[vi, vj] = B[vi, vj] + 1
            for i_1, k in T.grid(4, 8):
                with T.block("D"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vk = T.axis.reduce(8, k)
                    with T.init():
                        D[vi] = 0
                    D[vi] = D[vi] + B[vi, vk]
"""


def test_two_of_three() -> None:
    def steps(sch: Any) -> None:
        b, c, d = (sch.get_block(name) for name in "BCD")
        loop = sch.get_loops(c)[1]
        outer = sch.blockize([b, c])
        assert [sch.get(one).name for one in sch.get_child_blocks("root")] == ["outer_B_C_", "D"]
        assert [sch.get(one).name for one in sch.get_child_blocks(outer)] == ["B", "C"]
        assert sch.get(loop) is sch.get(sch.get_loops(c)[0]) and len(sch.get_loops(outer)) == 1
        assert sch.get(d).init is not None

    sch = taken(TEXT, steps)
    got = sch.mod["main"].body.body.stmts[1].body.stmts[0]
    wanted = parse("""
@T.prim_func
def f(A: T.Buffer((16, 8), "int32"), C: T.Buffer((16, 8), "int32"), D: T.Buffer((16,), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((16, 8), "int32")
        for i_0 in range(4):
            with T.block("outer_B_C_"):
                vi_o = T.axis.spatial(4, i_0)
                vj_o = T.axis.spatial(1, 0)
                T.reads(A[vi_o * 4:vi_o * 4 + 4, 0:8], B[vi_o * 4:vi_o * 4 + 4, 0:8])
                T.writes(B[vi_o * 4:vi_o * 4 + 4, 0:8], C[vi_o * 4:vi_o * 4 + 4, 0:8])
                for i_1, j in T.grid(4, 8):
                    with T.block("B"):
                        vi_i, vj_i = T.axis.remap("SS", [i_1, j])
                        T.reads(A[vi_o * 4 + vi_i, vj_i])
                        T.writes(B[vi_o * 4 + vi_i, vj_i])
                        B[vi_o * 4 + vi_i, vj_i] = A[vi_o * 4 + vi_i, vj_i] * 2
                for i_1, j in T.grid(4, 8):
                    with T.block("C"):
                        vi_i, vj_i = T.axis.remap("SS", [i_1, j])
                        T.reads(B[vi_o * 4 + vi_i, vj_i])
                        T.writes(C[vi_o * 4 + vi_i, vj_i])
                        C[vi_o * 4 + vi_i, vj_i] = B[vi_o * 4 + vi_i, vj_i] + 1
            for i_1, k in T.grid(4, 8):
                with T.block("D"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vk = T.axis.reduce(8, k)
                    T.reads(B[vi, vk])
                    T.writes(D[vi])
                    with T.init():
                        D[vi] = 0
                    D[vi] = D[vi] + B[vi, vk]
""")
    assert got.name == "outer_B_C_"
    same_function(sch.mod["main"], wanted)


def test_all_with_what_is_reduced() -> None:
    sch = taken(TEXT, lambda sch: sch.blockize(["D", "B", "C"]))
    outer = sch.get(sch.get_block("outer_B_C_D_"))
    assert [it.var.name for it in outer.iters] == ["vi_o", "vj_o"] and len(sch.get_loops("outer_B_C_D_")) == 1
    assert sch.get(sch.get_block("D")).init is not None


@pytest.mark.parametrize("extent", ["T.int64(1)", "T.int64(5)"])
def test_other_extents_and_types(extent: str) -> None:
    text = f"""
@T.prim_func
def f(A: T.Buffer(({extent},), "int32"), B: T.Buffer(({extent},), "int32")):
    for i in range({extent}):
        with T.block("A"):
            vi = T.axis.spatial({extent}, i)
            A[vi] = 1
    for i in range({extent}):
        with T.block("B"):
            vi = T.axis.spatial({extent}, i)
            B[vi] = A[vi]
"""
    taken(text, lambda sch: sch.blockize([sch.get_block("A"), "B"]))


REDUCED = (
    TEXT.replace("for i_0 in range(4):", "for i_0, r in T.grid(4, 2):")
    .replace("vk = T.axis.reduce(8, k)", "vk = T.axis.reduce(8, r * 4 + k)")
    .replace("i_1, k in T.grid(4, 8)", "i_1, k in T.grid(4, 4)")
)


@pytest.mark.parametrize(
    ("text", "names", "word"),
    [
        (TEXT, ["B"], "two blocks or more"),
        (TEXT, ["B", "B"], "each once"),
        (TEXT, ["B", "D"], "other statements between"),
        (TEXT, ["B", "root"], "one sequence"),
        (REDUCED, ["C", "D"], "would go on outside"),
    ],
)
def test_what_is_not_put_together(text: str, names: list[str], word: str) -> None:
    refused(text, lambda sch: sch.blockize(names), NotApplicable, word)


def test_other_conditions() -> None:
    text = TEXT.replace(
        "                    B[vi, vj] =", "                    T.where(i_0 < 3)\n                    B[vi, vj] ="
    )
    refused(text, lambda sch: sch.blockize(["B", "C"]), NotApplicable, "different conditions")
    taken(TEXT, lambda sch: sch.blockize(["B", "C"]), accept="tvm")
