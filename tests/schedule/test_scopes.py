"""Blocks of a scope, the edges between them, and what TVM says of them."""

from __future__ import annotations

from tirlower.schedule.scopes import DepKind, Scope, is_affine, scope_of
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((8, 8), "float32")
        for i, j in T.grid(LIMIT, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj]
        for i, j in T.grid(8, 8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.float32(0)
"""


def scope(limit: str = "8", cut: bool = False) -> Scope:
    text = TEXT.replace("LIMIT", limit)
    if cut:
        text = text[: text.index('        for i, j in T.grid(8, 8):\n            with T.block("D")')]
    func = parse(text)
    return Scope(func, ("body",))


def test_edges_are_between_each_two_blocks_raw_first() -> None:
    found = [(edge.src.block.name, edge.dst.block.name, edge.kind.name) for edge in scope().edges()]
    assert found == [("B", "C", "RAW"), ("B", "D", "WAW"), ("C", "D", "WAR")]
    assert [DepKind.RAW, DepKind.WAW, DepKind.WAR, DepKind.OPAQUE] == [0, 1, 2, 3]


def test_flags() -> None:
    whole, short = scope(cut=True), scope("4", cut=True)
    assert whole.stage_pipeline() == "" and "reads more than" in short.stage_pipeline()
    assert "reads before" in scope().stage_pipeline()
    b, c = whole.children
    assert whole.is_output(c) and not whole.is_output(b) and whole.producers(c) == [b] and whole.consumers(b) == [c]
    assert whole.not_complete(b) == "" and whole.not_reduction(b) == "it has no init"
    three = scope()
    assert "another block" in three.not_complete(three.children[0])
    assert is_affine(whole.func, b) and scope_of(whole.func, b.way).root == ("body",)
