"""``pad_einsum``: iterations that change nothing, whatever stands in the operands; where they would, it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

PRODUCT = """
@T.prim_func
def f(A: T.Buffer(({m}, {k}), "{t}"), B: T.Buffer(({k}, {n}), "{t}"), C: T.Buffer(({m}, {n}), "{t}")):
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = {init}
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
PLAIN = """
@T.prim_func
def f(A: T.Buffer((7, 5), "int32"), B: T.Buffer((5, 3), "int32"), C: T.Buffer((7, 3), "int32")):
    for i, j, k in T.grid(7, 3, 5):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 5, 3), (8, 4, 4), (2, 9, 11)])
@pytest.mark.by_day
def test_products_of_any_size(m: int, n: int, k: int) -> None:
    for dtype, init in (("float32", "T.float32(0)"), ("int32", "3")):
        text = PRODUCT.format(m=m, n=n, k=k, t=dtype, init=init)
        sch = taken(text, lambda sch: sch.pad_einsum("C", [4, 1, 8]))
        assert sch.steps[-1].exactness == "bitwise"
        native = parse(text)
        rng = np.random.default_rng(0)
        a, b = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
        given = [x.astype(dtype) for x in (a, b)]
        results = [np.zeros((m, n), dtype) for _ in range(2)]
        for func, out in zip((native, sch.mod["main"]), results, strict=True):
            tl.build(func, schedule="none")(*given, out)
        np.testing.assert_array_equal(*results)


def test_blocks_loops_and_buffers_are_those_of_tvm() -> None:
    sch = taken(
        PRODUCT.format(m=7, n=4, k=3, t="float32", init="T.float32(0)"), lambda sch: sch.pad_einsum("C", [4, 2, 4])
    )
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((7, 3), "float32"), B: T.Buffer((3, 4), "float32"), C: T.Buffer((7, 4), "float32")):
    A_pad = T.alloc_buffer((8, 4))
    B_pad = T.alloc_buffer((4, 4))
    C_pad = T.alloc_buffer((8, 4))
    for i0, i1 in T.grid(8, 4):
        with T.block("A_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            A_pad[v0, v1] = T.if_then_else(v0 < 7 and v1 < 3, A[v0, v1], T.float32(0))
    for i0, i1 in T.grid(4, 4):
        with T.block("B_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            B_pad[v0, v1] = T.if_then_else(v0 < 3, B[v0, v1], T.float32(0))
    for i, j, k in T.grid(8, 4, 4):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C_pad[vi, vj] = T.float32(0)
            C_pad[vi, vj] = C_pad[vi, vj] + A_pad[vi, vk] * B_pad[vk, vj]
    for i0, i1 in T.grid(7, 4):
        with T.block("C_pad"):
            v0, v1 = T.axis.remap("SS", [i0, i1])
            C[v0, v1] = C_pad[v0, v1]
"""),
    )
    assert "sch.pad_einsum(block=b0, padding=[4, 2, 4])" in str(sch.trace.text("tvm"))
    again: Any = tl.Schedule(parse(PRODUCT.format(m=7, n=4, k=3, t="float32", init="T.float32(0)")))
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tvm"), again)
    same_function(again.mod["main"], sch.mod["main"])


def test_plain_loops_begin_with_what_was_there() -> None:
    for padding in ([4, 1, 8], [1, 1, 8], [8, 8, 1]):
        taken(PLAIN, lambda sch, padding=padding: sch.pad_einsum("C", padding))


ONE = """
@T.prim_func
def f(A: T.Buffer((3, 5), "{t}"), B: T.Buffer((3,), "{t}"), C: T.Buffer((3,), "{t}")):
    for i, k in T.grid(3, 5):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


@pytest.mark.parametrize(
    ("dtype", "init", "update"),
    [
        ("float32", 'T.float32("-inf")', "T.max(C[vi], A[vi, vk])"),
        ("int8", "T.int8(127)", "T.min(A[vi, vk], C[vi])"),
        ("int32", "1", "C[vi] * A[vi, vk]"),
        ("float32", "B[vi]", "C[vi] * A[vi, vk]"),
        ("int32", "B[vi]", "C[vi] + A[vi, vk] * B[vi]"),
        ("float32", "T.float32(1)", "C[vi] + A[vi, vk]"),
    ],
)
def test_what_is_filled_in_is_neutral(dtype: str, init: str, update: str) -> None:
    text = ONE.format(t=dtype, init=init, update=update)
    sch = taken(text, lambda sch: sch.pad_einsum("C", [2, 4]))
    rng = np.random.default_rng(1)
    a = rng.integers(1, 50, (3, 5)).astype(dtype)
    for given in (a, (-a).astype(dtype)):
        results = [np.zeros(3, dtype) for _ in range(2)]
        for func, out in zip((parse(text), sch.mod["main"]), results, strict=True):
            tl.interpret(func, given, rng.integers(1, 9, 3).astype(dtype) * 0 + 3, out)
        np.testing.assert_array_equal(*results)


def test_zero_times_an_infinity_is_none() -> None:
    text = ONE.format(t="float32", init="T.float32(0)", update="C[vi] + A[vi, vk] * B[vi]")
    refused(text, lambda sch: sch.pad_einsum("C", [1, 4]), NotApplicable, "all values are finite")
    taken(text, lambda sch: sch.pad_einsum("C", [4, 1]))  # nothing more is summed
    sch: Any = tl.Schedule(parse(text))
    sch.pad_einsum("C", [1, 4], finite=True)
    assert sch.steps[-1].verdict == "assumed"
    # What is assumed is what would go wrong.
    out = np.zeros(3, "float32")
    tl.interpret(sch.mod["main"], np.ones((3, 5), "float32"), np.full(3, np.inf, "float32"), out)
    assert np.isnan(out).all()


def test_signs_of_zeros_and_nans_need_a_beginning() -> None:
    for init, update in (("B[vi]", "C[vi] + A[vi, vk]"), ("B[vi]", "T.max(C[vi], A[vi, vk])")):
        text = ONE.format(t="float32", init=init, update=update)
        refused(text, lambda sch: sch.pad_einsum("C", [1, 4]), NotApplicable, "before")


def test_what_has_not_the_form() -> None:
    for update in ("C[vi] - A[vi, vk]", "C[vi] + (A[vi, vk] + 1)", "C[vi] + 7 // A[vi, vk]", "C[vi] + A[vi, 4 - vk]"):
        text = ONE.format(t="int32", init="0", update=update)
        refused(text, lambda sch: sch.pad_einsum("C", [2, 4]), NotApplicable)
    text = ONE.format(t="int32", init="0", update="C[vi] + A[vi, vk]")
    for wrong in ([2], [2, 0], [2, 4, 1]):
        refused(text, lambda sch, wrong=wrong: sch.pad_einsum("C", wrong), BadArgument)


def test_a_symbolic_size() -> None:
    taken(
        """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    C = T.match_buffer(c, (1,), "int32")
    for i, k in T.grid(1, n):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] += A[vk]
""",
        lambda sch: sch.pad_einsum("C", [1, 4]),
    )
