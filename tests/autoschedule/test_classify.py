"""Nests: what accesses move by, what a person has decided already, what is checked as it runs."""

from __future__ import annotations

import pytest

from tirlower.autoschedule.classify import Nest, extent_of, nests_of, same_for_all, selectors, strides_of
from tirlower.autoschedule.sizes import typical
from tirlower.script import parse


def only(text: str) -> Nest:
    [nest] = nests_of(parse(text))
    return nest


def moves(nest: Nest) -> list[dict[str, int | None]]:
    return [{loop.name: by for loop, by in strides_of(access).items()} for access in nest.accesses()]


def test_blocks_plain_loops_and_local_accumulators_look_alike():
    block = only("""
def f(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    for i, j, k in T.grid(8, 6, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
""")
    assert moves(block)[1:] == [{"i": 6, "j": 1}, {"i": 4, "k": 1}, {"k": 6, "j": 1}, {"i": 6, "j": 1}]
    assert [statement.reduction is not None for statement in block.statements] == [True, True]
    local = only("""
def f(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(8):
        acc = T.float32(0)
        for k in range(4):
            acc = acc + A[i, k]
        C[i] = acc
""")
    assert local.title == "C over i, k" and local.left == ""
    assert moves(local) == [{}, {}, {"i": 4, "k": 1}, {}, {}, {"i": 1}]


def test_strides_that_are_not_known():
    nest = only("""
def f(A: T.Buffer(("n", "m"), "float32")):
    for i, j in T.grid(n, m):
        A[i, j] = T.float32(0)
""")
    assert moves(nest) == [{"i": typical(nest.func.buffers[0].shape[1]), "j": 1}]
    assert extent_of(nest.loops[0]) is None
    assert same_for_all(nest.loops[1])
    triangle = only("""
def f(A: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for j in range(i):
            A[i, j] = T.float32(0)
""")
    assert [same_for_all(loop) for loop in triangle.loops] == [True, False]
    quotient = only("""
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = A[i // 2]
""")
    assert moves(quotient) == [{"i": None}, {"i": 1}]


def test_selectors_count_loops_of_a_name_in_the_text():
    first, second = nests_of(
        parse("""
def f(A: T.Buffer((8, 8), "float32")):
    for i, j in T.grid(8, 8):
        A[i, j] = T.float32(1)
    for i in range(8):
        A[i, i] = T.float32(2)
""")
    )
    names = selectors(first.func)
    assert [names[id(loop.node)] for loop in first.loops] == ["i#0", "j"]
    assert [names[id(loop.node)] for loop in second.loops] == ["i#1"]


@pytest.mark.parametrize(
    ("head", "body", "why"),
    [
        ("for i in T.parallel(8):", "A[i] = i", "the loop `i` is parallel already"),
        ("for i in T.vectorized(8):", "A[i] = i", "the loop `i` is vectorized already"),
        ("for i in T.unroll(8):", "A[i] = i", "the loop `i` is unrolled already"),
        ('for i in T.serial(8, annotations={"hint": 1}):', "A[i] = i", "the loop `i` is annotated: hint"),
        ("for i in range(8):", "A[X[i]] = i", "A[X[i]] is not proved"),
        ("for i in range(8):", 'T.evaluate(T.call_extern("int32", "put", A.data, i))', "through a pointer"),
        (
            "for i in range(8):",
            'L = T.alloc_buffer((4,), "int32", scope="local"); L[0] = i; A[i] = L[0]',
            "`L` is in local memory",
        ),
        ("for i in range(8):", "A[i] = i; break", "may end early"),
    ],
)
def test_nests_that_are_left_alone(head: str, body: str, why: str):
    lines = "".join(f"        {line.strip()}\n" for line in body.split(";"))
    nest = only(f'def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):\n    {head}\n{lines}')
    assert why in nest.left


def test_a_block_that_is_annotated_is_left_alone_and_regions_do_not_count():
    text = """
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi])
            {note}
            A[vi] = 1
"""
    assert only(text.format(note="")).left == ""
    assert only(text.format(note='T.block_attr({"hint": 1})')).left == "the block `A` is annotated: hint"


def test_sizes_of_the_caller_are_proved_and_points_are_not_known():
    nest = only("""
def f(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i] = i
""")
    assert nest.left == "" and nest.points == float("inf")


def test_statements_in_no_loop_are_of_no_nest():
    nest = only("""
def f(n: T.int32, A: T.Buffer((9,), "float32")):
    A[8] = T.float32(1)
    for i in range(8):
        A[i] = A[8]
    A[8] = A[0]
""")
    assert len(nest.statements) == 1 and nest.branch == 0 and not nest.open


def test_nests_in_branches():
    before, then, more, other, behind = nests_of(
        parse("""
def f(n: T.int32, A: T.Buffer((9,), "float32")):
    for i in range(8):
        A[i] = T.float32(0)
    if n > 3:
        for i in range(8):
            A[i] = T.float32(1)
        for i in range(8):
            A[i] = T.float32(2)
    elif n < 0:
        for i in range(8):
            if i > n:
                A[i] = T.float32(3)
    for i in range(8):
        A[i] = T.float32(4)
""")
    )
    assert before.branch == behind.branch == 0
    assert then.branch == more.branch != 0 and other.branch not in (0, then.branch)
    assert [len(access.conditions) for nest in (before, then, other) for access in nest.accesses()] == [0, 1, 3]
    assert [len(access.guards) for nest in (before, then, other) for access in nest.accesses()] == [0, 0, 1]


def test_what_is_left_alone_for_its_accesses_says_which():
    nest = only("""
def f(n: T.int32, A: T.Buffer((n,), "float32"), B: T.Buffer((9,), "float32")):
    for i in range(9):
        B[i] = A[i] + A[0]
""")
    assert {one.access.text for one in nest.open} == {"A[i]", "A[0]"}
    assert nest.left == "A[i] is not proved to be inside its buffer, and is checked as it runs"
