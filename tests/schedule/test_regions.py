"""Declared regions follow what a block does, but for explicit ones."""

from __future__ import annotations

from tirlower.ir import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import Block
from tirlower.schedule.regions import with_regions
from tirlower.script import parse


def block_of(reads: str, note: str = "") -> tuple[PrimFunc, Block]:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            T.reads({reads})
            T.writes(C[0:8])
            {note or "pass"}
            C[vi] = A[vi] + B[vi // 2]
""")
    return func, next(block for block in each(Block, func.body) if block.name == "b")


def test_regions_are_what_the_body_does_and_keep_their_places() -> None:
    _, block = block_of("B[0:8], A[0:8]")
    made = with_regions(block)
    assert [str(one) for one in made.reads] == ["B[vi // 2]", "A[vi]"] and [str(one) for one in made.writes] == [
        "C[vi]"
    ]
    _, block = block_of("B[0:8]")
    assert [str(one) for one in with_regions(block).reads] == ["B[vi // 2]", "A[vi]"]


def test_explicit_regions_and_roots_stay() -> None:
    _, block = block_of("B[0:8], A[0:8]", 'T.block_attr({"explicit_read_region": [0]})')
    assert [str(one) for one in with_regions(block).reads] == ["B[0:8]", "A[vi]"]
    root = Block("root", (), True, (), (), None, (), {}, block.body)
    assert with_regions(root) is root
