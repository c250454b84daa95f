"""Plain statements that become blocks, with the iterators and regions that they have."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import roundtrips
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import IllegalStep, NotApplicable
from tirlower.script import parse

PRODUCT = """
@T.prim_func
def f(A: T.Buffer((6, 7), "{dtype}"), B: T.Buffer((7, 5), "{dtype}"), C: T.Buffer((6, 5), "{dtype}")):
    for i in range(6):
        for j in range(5):
            C[i, j] = T.{dtype}(0)
            for k in range(7):
                C[i, j] += A[i, k] * B[k, j]
"""


def kinds(sch: Any, name: str) -> list[str]:
    return [it.kind.value for it in sch.get(sch.get_block(name)).iters]


@pytest.mark.parametrize(
    ("dtype", "reorderable", "last"),
    [("int32", False, "reduce"), ("float32", False, "opaque"), ("float32", True, "reduce")],
)
def test_iterators_say_what_iterations_are(dtype: str, reorderable: bool, last: str) -> None:
    def steps(sch: Any) -> None:
        update, init = sch.find("C[_] += _"), sch.find(f"C[_] = T.{dtype}(0)")
        assert sch.as_block(update, "sum", reorderable).name == "sum"
        assert sch.as_block(init, "zero").name == "zero"

    sch = taken(PRODUCT.format(dtype=dtype), steps)
    assert kinds(sch, "sum") == ["spatial", "spatial", last] and kinds(sch, "zero") == ["spatial", "spatial"]
    block = sch.get(sch.get_block("sum"))
    assert sorted(map(str, block.reads)) == ["A[vi, vk]", "B[vk, vj]", "C[vi, vj]"]


def test_no_licence_comes_of_it() -> None:
    # Sums of floats keep their order until somebody says that they need not.
    text = PRODUCT.format(dtype="float32")

    def steps(sch: Any, **more: Any) -> None:
        block = sch.as_block(sch.find("C[_] += _"), "sum", **more)
        sch.reverse(sch.get_loops(block)[2])

    refused(text, steps, IllegalStep)
    sch: Any = tl.Schedule(parse(text))
    steps(sch, reorderable=True)
    assert "order of the sum into C" in sch.report()


def test_whole_nests_and_the_root() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 7), "int64"), B: T.Buffer((6,), "int64")):
    for i in range(T.int64(1), T.int64(6)):
        for j in range(7):
            A[i, j] = A[i - T.int64(1), j] + T.int64(1)
"""
    sch = taken(text, lambda sch: sch.as_block("A"))
    assert sch.get(sch.get_block("A")).iters == () and sch.get_block("root")
    sch = taken(text, lambda sch: sch.as_block(sch.loop("j"), "row"))
    (it,) = sch.get(sch.get_block("row")).iters
    assert it.kind.value == "opaque" and str(it.domain.min) == "T.int64(1)" and it.domain.extent.value == 5


def test_bounds_that_depend_on_other_loops() -> None:
    text = """
@T.prim_func
def f(n: T.int32, A: T.Buffer((n, 7), "int32"), B: T.Buffer((7, 7), "int32")):
    for i in range(7):
        for j in range(i, 7):
            B[i, j] = i - j
    for i in range(n):
        for j in range(T.min(i, 7)):
            A[i, j] = 3
"""
    sch = taken(text, lambda sch: sch.as_block(sch.find("B[_] = _")))
    assert [str(it.domain.extent) for it in sch.get(sch.get_block("B")).iters] == ["7", "7"]
    taken(text, lambda sch: sch.as_block(sch.find("A[_] = _")))
    unknown = text.replace("T.min(i, 7)", "i").replace("A[i, j] = 3", "A[i, 0] = j")
    refused(unknown, lambda sch: sch.as_block(sch.find("A[_] = _")), NotApplicable, "no numbers bound it")


def test_blocks_are_blocks() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6,), "int32")):
    for i in range(6):
        with T.block("A"):
            vi = T.axis.spatial(6, i)
            A[vi] = vi
"""
    refused(text, lambda sch: sch.as_block("A"), NotApplicable, "a block already")
    refused(text, lambda sch: sch.as_block(sch.loop("i")), NotApplicable, "there are blocks in it")


def test_what_writes_nothing_has_a_name_all_the_same() -> None:
    """It had its text for one, which does not read back."""
    sch = tl.Schedule(parse("def f(n: T.int32):\n    for i in range(n):\n        T.evaluate(0)"), debug_mask="all")
    block = sch.as_block(sch.loop("i"))
    assert sch.get(block).name == "i"
    roundtrips(sch.mod["main"])


@pytest.mark.parametrize("scope", ["parameter", "allocated"])
def test_bounds_that_the_function_writes(scope: str) -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), M: T.Buffer((2,), "int32")):
    N = {made}
    N[0] = M[0] % 16
    {before}
    for i in range({bound}):
        A[i] = A[i] + 1
        N[0] = 3
"""
    made = "M" if scope == "parameter" else 'T.alloc_buffer((2,), "int32", scope="local")'
    plain = text.format(made=made, before="T.evaluate(0)", bound="N[0]")
    if scope == "parameter":
        plain = plain.replace("    N = M\n", "").replace("N[", "M[")

    def steps(sch: Any) -> None:
        sch.as_block(sch.find("A[_] = _"))

    refused(plain, steps, NotApplicable)
    remedied = text.format(made=made, before="n = T.bind(N[0])", bound="n")
    if scope == "parameter":
        remedied = remedied.replace("    N = M\n", "").replace("N[", "M[")
    taken(remedied, steps)
