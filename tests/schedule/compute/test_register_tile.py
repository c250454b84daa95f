"""``register_tile``: the tile is begun, loaded, updated and stored in vectors, and each bit is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, UnprovedStep
from tirlower.ir.query import each
from tirlower.ir.stmt import For, ForKind

PRODUCT = """
@T.prim_func
def f(A: T.Buffer(({m}, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer(({m}, 16), "float32")):
    for i, j, k in T.grid({m}, 16, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""


def tiled(sch: Any, **options: Any) -> None:
    i, j, k = sch.loops("C")
    i_0, i_1 = sch.split(i, [None, 4])
    j_0, j_1 = sch.split(j, [None, 8])
    k_0, k_1 = sch.split(k, [None, 4])
    sch.reorder(k_0, i_0, j_0, k_1, i_1, j_1)
    sch.register_tile("C", [i_1, j_1], at=j_0, vector=j_1, **options)


@pytest.mark.parametrize("m", [8, 7])
def test_all_four_parts_are_vectors(m: int) -> None:
    sch = taken(PRODUCT.format(m=m), tiled)
    loops = [loop for loop in each(For, sch.mod["main"].body) if loop.kind is ForKind.VECTORIZED]
    assert len(loops) == 4
    assert all(record.exactness == "bitwise" for record in sch.steps)
    assert sch.steps[-1].instruction.kind.method == "register_tile"
    methods = [part.instruction.kind.method for part in sch.steps[-1].parts]
    assert methods.count("vectorize") == 4
    assert "decompose_reduction" in methods


def test_plain_loops() -> None:
    def steps(sch: Any) -> None:
        i, k = sch.loops("C")
        i_0, i_1 = sch.split(i, [None, 4])
        sch.reorder(i_0, k, i_1)
        sch.register_tile("C", [i_1], at=i_0, vector=i_1)

    taken(
        """
@T.prim_func
def f(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 6):
        C[i] = C[i] + A[i, k]
""",
        steps,
    )


def test_what_reads_the_accumulator_in_between_sees_the_tile() -> None:
    def steps(sch: Any) -> None:
        sch.register_tile("C", [], at="i")

    taken(
        """
@T.prim_func
def f(A: T.Buffer((8, 6), "int32"), C: T.Buffer((8,), "int32"), D: T.Buffer((8, 6), "int32")):
    for i in range(8):
        for k in range(6):
            C[i] = C[i] + A[i, k]
            D[i, k] = C[i]
""",
        steps,
    )


@pytest.mark.parametrize("m", [8, 7, 1])
def test_a_tile_that_is_added_at_the_end(m: int) -> None:
    sch = taken(PRODUCT.format(m=m), lambda sch: tiled(sch, order="add"), tolerance=1e-4)
    assert sch.steps[-1].exactness == "reassociated(C, add)"
    text = str(sch.mod["main"])
    assert text.index("C_init") < text.index("C_local = ")  # the init is outside of the tile
    whole = taken(
        PRODUCT.format(m=m).replace("float32", "int32").replace("T.int32(0)", "0"), lambda sch: tiled(sch, order="add")
    )
    assert whole.steps[-1].exactness == "bitwise"


def test_sums_of_floats_need_a_licence_to_be_added_at_the_end() -> None:
    def steps(sch: Any) -> None:
        sch.register_tile("C", [], at="i", order="add")

    text = """
@T.prim_func
def f(A: T.Buffer((8, 6), "{t}"), C: T.Buffer((8,), "{t}"), D: T.Buffer((8, 6), "{t}")):
    for i in range(8):
        for k in range(6):
            C[i] = {first} + A[i, k]
            D[i, k] = {second}
"""
    plain = text.format(t="float32", first="C[i]", second="A[i, k]")
    refused(plain, steps, UnprovedStep, "rounds differently")
    taken(plain, steps, tolerance=1e-4, reassociate=True)
    taken(text.format(t="int32", first="C[i]", second="A[i, k]"), steps)
    refused(text.format(t="int32", first="C[i]", second="C[i]"), steps, NotApplicable, "beside the sum")
    refused(text.format(t="int32", first="2 * C[i]", second="0"), steps, NotApplicable, "does not add")


def test_wrong_arguments() -> None:
    refused(PRODUCT.format(m=8), lambda sch: tiled(sch, order="sideways"), BadArgument)
    refused(PRODUCT.format(m=8), lambda sch: sch.register_tile("X", [], at="j"), NotApplicable)
