"""What TVM asks beyond legality: refused with accept="tvm", in its words, and taken without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import IllegalStep, StricterThanLegal
from tirlower.script import parse

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((8, 8), "float32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
"""
# C is written from its own values: neither complete nor a reduction.
UPDATE = """
@T.prim_func
def f(B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + C[vi]
"""
PRODUCT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + A[vi, vk]
"""
MIXED = """
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i, j in T.grid(4, 4):
        with T.block("A"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(7, i + j)
            A[vi * 4 + vj % 4] = 1
"""
NOTED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in T.serial(8, annotations={"hint": 1}):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1
"""
SHIFTED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(2, 8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = 1
"""
Call = Callable[[Any], object]


@pytest.mark.parametrize(
    ("text", "call", "word"),
    [
        (UPDATE, lambda s: s.parallel(s.get_loops("C")[0]), "neither a complete block .it reads what it writes."),
        (UPDATE, lambda s: s.vectorize(s.get_loops("C")[0]), "not of compact dataflow"),
        (NOTED, lambda s: s.split(s.get_loops("A")[0], [2, 4]), "has annotations"),
        (SHIFTED, lambda s: s.split(s.get_loops("A")[0], [2, 3]), "does not start with 0"),
        (SHIFTED, lambda s: s.fuse(s.get_loops("A")[0]), "does not start with 0"),
        (MIXED, lambda s: s.reorder(*s.get_loops("A")[::-1]), "is not affine"),
    ],
)
def test_what_is_legal_is_refused_in_tvms_words(text: str, call: Call, word: str) -> None:
    strict: Any = tl.Schedule(parse(text), accept="tvm")
    before = strict.mod
    with pytest.raises(StricterThanLegal, match=word) as raised:
        call(strict)
    assert strict.mod is before and "accept='legal' takes it" in str(raised.value)
    call(tl.Schedule(parse(text)))


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (CHAIN, lambda s: s.parallel(s.get_loops("B")[0])),
        (CHAIN, lambda s: s.split(s.get_loops("B")[0], [None, 4])),
        (CHAIN, lambda s: s.reorder(*s.get_loops("C")[::-1])),
        (PRODUCT, lambda s: s.parallel(s.get_loops("C")[0])),
        (PRODUCT, lambda s: s.fuse(*s.get_loops("C"))),
        (PRODUCT, lambda s: s.decompose_reduction("C", s.get_loops("C")[1])),
        (CHAIN, lambda s: s.compute_inline("B")),
    ],
)
def test_what_tvm_takes_is_taken(text: str, call: Call) -> None:
    strict, own = tl.Schedule(parse(text), accept="tvm"), tl.Schedule(parse(text))
    call(strict)
    call(own)
    assert str(strict.mod) == str(own.mod)


def test_an_iterator_of_a_reduction_is_not_parallel() -> None:
    sch: Any = tl.Schedule(parse(PRODUCT), accept="tvm")
    with pytest.raises(StricterThanLegal, match="is not data parallel") as raised:
        sch.parallel(sch.get_loops("C")[1])
    assert "accept='legal'" not in str(raised.value)  # nor is it legal
    with pytest.raises(IllegalStep):
        tl.Schedule(parse(PRODUCT)).parallel("k")


def test_an_output_block_is_not_inlined() -> None:
    sch: Any = tl.Schedule(parse(CHAIN), accept="tvm")
    with pytest.raises(StricterThanLegal, match="The block `C` is an output block"):
        sch.compute_inline("C")


def test_a_loop_below_a_reduction_loop_is_no_place_for_the_init() -> None:
    text = PRODUCT.replace("i, k in", "k, i in")
    sch: Any = tl.Schedule(parse(text), accept="tvm")
    with pytest.raises(StricterThanLegal, match="not above all the reduction loops"):
        sch.decompose_reduction("C", sch.get_loops("C")[1])


def test_plain_loops_are_asked_nothing() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = A[i] + 1
""")
    sch: Any = tl.Schedule(func, accept="tvm")
    sch.parallel("i")
    assert sch.get(sch.loop("i")).kind.value == "parallel"


WAR = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    with T.block("root"):
        T.reads()
        T.writes()
        B = T.alloc_buffer((8, 8), "int32")
        for i, j in T.grid(8, 8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + 1
        for i, j in T.grid(8, 8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * 2
        for i, j in T.grid(8, 8):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = 7
"""


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (lambda sch: sch.read_at(sch.get_loops("C")[0], "C", 0, "local"), "stage pipeline"),
        (lambda sch: sch.write_at(sch.get_loops("C")[0], "C", 0, "local"), "stage pipeline"),
        (lambda sch: sch.pad_einsum("C", [16, 1]), "stage pipeline"),
    ],
)
def test_what_a_whole_scope_is_asked(step: Callable[[Any], None], words: str) -> None:
    sch: Any = tl.Schedule(parse(WAR), accept="tvm")
    with pytest.raises(StricterThanLegal, match=words):
        step(sch)
    step(tl.Schedule(parse(WAR)))
    step(tl.Schedule(parse(CHAIN.replace("float32(", "float32(")), accept="tvm"))


def test_merged_nests_are_bare_from_0_and_of_one_scope() -> None:
    def step(sch: Any) -> None:
        sch.merge(sch.get_loops("B")[1], sch.get_loops("C")[1])

    step(tl.Schedule(parse(CHAIN), accept="tvm"))
    noted = CHAIN.replace(
        "for i, j in T.grid(8, 8):", "for i in range(8):\n            for j in T.serial(8, annotations={'x': 1}):", 1
    )
    noted = noted.replace('            with T.block("B")', '                with T.block("B")').replace(
        '                vi, vj = T.axis.remap("SS", [i, j])\n                B[vi',
        '                    vi, vj = T.axis.remap("SS", [i, j])\n                    B[vi',
        1,
    )
    with pytest.raises(StricterThanLegal, match="annotations"):
        step(tl.Schedule(parse(noted), accept="tvm"))


def test_a_padding_in_a_block_that_is_not_complete() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((10,), "int32")):
    for i in range(10):
        with T.block("C"):
            v = T.axis.opaque(10, i)
            C[v] = T.if_then_else(1 <= v and v < 9, A[v - 1], 0)
"""
    with pytest.raises(StricterThanLegal, match="not a complete block"):
        tl.Schedule(parse(text), accept="tvm").decompose_padding("C", "i")
    tl.Schedule(parse(text)).decompose_padding("C", "i")


FROM_TWO = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(2, 8):
        with T.block("A"):
            vi = T.axis.spatial((2, 8), i)
            A[vi] = vi
    for j in range(2, 8):
        with T.block("B"):
            vi = T.axis.spatial((2, 8), j)
            B[vi] = vi
"""
TWO_IN_ONE = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("A"):
            vi, vj = T.axis.remap("SS", [i, j])
            A[vi, vj] = vi
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = vj
"""


@pytest.mark.parametrize(
    ("text", "words"), [(FROM_TWO, "does not start with 0"), (TWO_IN_ONE, "not the only block"), (MIXED, "not trivial")]
)
def test_blocks_of_a_new_layout_stand_alone_in_their_loops(text: str, words: str) -> None:
    sch: Any = tl.Schedule(parse(text), accept="tvm")
    turned = (lambda i: [7 - i]) if text is FROM_TWO else (lambda i, j: [j, i])
    with pytest.raises(StricterThanLegal, match=words):
        sch.transform_block_layout("A", turned)
    tl.Schedule(parse(CHAIN), accept="tvm").transform_block_layout("B", lambda i, j: [j, i])


READ_TWICE = CHAIN.replace("B[vi, vj] * T.float32(2)", "B[vi, vj] * A[vi, vj]")
TWO_IN_A_LOOP = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj]
"""
# C reads rows of B that nobody writes in the scope, where it adds nothing to them.
UNCOVERED = CHAIN.replace("T.grid(8, 8):\n            with T.block(\"B\")", "T.grid(4, 8):\n            with T.block(\"B\")").replace(
    "B[vi, vj] * T.float32(2)", "T.if_then_else(vi < 4, B[vi, vj], T.float32(2))"
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "call", "word"),
    [
        (READ_TWICE, lambda s: s.reindex("C", "A"), "`A` has 2 readers in the scope, not one block"),
        (
            TWO_IN_A_LOOP.replace("A[vj, vi]", "2"),
            lambda s: s.reindex("C", ("read", 0)),
            "`C` is not the only block in the loop `i`",
        ),
    ],
)
def test_copies_are_asked_who_else_there_is(text: str, call: Call, word: str) -> None:
    test_what_is_legal_is_refused_in_tvms_words(text, call, word)
    test_what_tvm_takes_is_taken(CHAIN, lambda s: s.reindex("C", ("read", 0)))


def test_what_is_cached_has_been_written() -> None:
    strict: Any = tl.Schedule(parse(UNCOVERED), accept="tvm")
    with pytest.raises(StricterThanLegal, match="reads more of `B` than the blocks before it write"):
        strict.cache_read("C", 0, "local")
    test_what_tvm_takes_is_taken(CHAIN, lambda s: s.cache_read("C", 0, "local"))


def test_one_block_is_made_of_one_block() -> None:
    sch: Any = tl.Schedule(parse(TWO_IN_A_LOOP), accept="tvm")
    with pytest.raises(StricterThanLegal, match="has 2 blocks under it, not a single one"):
        sch.blockize(sch.get_loops("B")[1])
    test_what_tvm_takes_is_taken(CHAIN, lambda s: s.blockize(s.get_loops("B")[1]))


STRIDED = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((20,), "int32")):
    for i in range(10):
        with T.block("C"):
            v = T.axis.spatial(20, {index})
            C[v] = T.if_then_else({low} <= v and v < {high}, A[v // {by} - {low} // {by}], 0)
"""


def test_a_padding_is_filled_by_ones() -> None:
    def step(sch: Any) -> None:
        sch.decompose_padding("C", "i")

    strided = STRIDED.format(index="i * 2", low=2, high=18, by=2)
    test_what_is_legal_is_refused_in_tvms_words(strided, step, "a stride of 1")
    step(tl.Schedule(parse(STRIDED.format(index="i", low=1, high=9, by=1)), accept="tvm"))
    split: Any = tl.Schedule(parse(STRIDED.format(index="i", low=1, high=9, by=1)), accept="tvm")
    split.split("i", [None, 5])
    split.decompose_padding("C", "i_0")


SUMMED = """
@T.prim_func
def f(A: T.Buffer((8, 16), "int32"), B: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    for {loops}:
        with T.block("B"):
            vi = T.axis.spatial(8, {i})
            vk = T.axis.reduce({count}, {k})
            with T.init():
                B[vi] = 0
            B[vi] += A[vi, vk]
"""


@pytest.mark.parametrize(
    ("loops", "i", "k", "word"),
    [
        (
            "m, r in T.grid(32, 4)",
            "m // 4",
            "m % 4 * 4 + r",
            "touched by both data parallel block iters and reduction",
        ),
        ("i, k, r in T.grid(8, 16, 2)", "i", "k", "`r` under the outermost reduction loop is not bound"),
    ],
)
def test_loops_of_a_partial_sum_are_of_one_kind(loops: str, i: str, k: str, word: str) -> None:
    text = SUMMED.format(loops=loops, i=i, k=k, count=16)
    strict: Any = tl.Schedule(parse(text), accept="tvm")
    with pytest.raises(StricterThanLegal, match=word):
        strict.rfactor("r" if "m" in loops else "k", 0)
    plain = text.replace(loops, "i, k, r in T.grid(8, 4, 4)").replace(f"(8, {i})", "(8, i)")
    plain = plain.replace(f"(16, {k})", "(16, k * 4 + r)")
    tl.Schedule(parse(plain), accept="tvm").rfactor("r", 0)


@pytest.mark.parametrize("verb", ["reindex_cache_read", "reindex_cache_write"])
def test_a_region_of_one_point_is_what_is_asked_for(verb: str) -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in T.grid(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            T.reads(B[vi, 0:8])
            T.writes(C[vi, 0:8])
            for j in range(8):
                C[vi, j] = B[vi, j]
""")
    sch = tl.Schedule(func, accept="tvm")
    getattr(sch, verb)("B", 0, "local", lambda i, j: [i, j])
    with pytest.raises(StricterThanLegal, match="is not a single point"):
        getattr(tl.Schedule(func, accept="tvm"), verb)("C", 0, "local", lambda i: [i])
