from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.ir import Call, PrimFunc, pre_order_visit
from tirlower.script import parse
from tirlower.transforms import LowerAsyncDMA, PassContext, VectorizeLoop


def asynchronous(copy: str, queue: int = 0, depth: int = 4) -> str:
    """A copy in its own group of a queue."""
    pad = " " * depth
    lines = "\n".join(f"{pad}        {line}" for line in copy.splitlines())
    return f'{pad}with T.attr(0, "async_commit_queue_scope", {queue}):\n{pad}    with T.attr(0, "async_scope", 1):\n{lines}\n'


def waiting(body: str, queue: int = 0, count: int = 0, depth: int = 4) -> str:
    pad = " " * depth
    lines = "\n".join(f"{pad}        {line}" for line in body.splitlines())
    head = f'{pad}with T.attr(0, "async_wait_queue_scope", {queue}):\n'
    return f'{head}{pad}    with T.attr(0, "async_wait_inflight_count", {count}):\n{lines}\n'


def function(
    body: str, params: str = 'A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32'
) -> PrimFunc:
    return parse(f"@T.prim_func\ndef f({params}):\n{body}")


def names(func: PrimFunc) -> list[str]:
    found: list[str] = []
    pre_order_visit(
        func.body, lambda op: found.append(op.op.short) if isinstance(op, Call) and "dma" in op.op.name else None
    )
    return found


def sizes(func: PrimFunc) -> list[str]:
    found: list[str] = []
    pre_order_visit(
        func.body,
        lambda op: found.append(str(op.args[3])) if isinstance(op, Call) and op.op.short == "dma_copy" else None,
    )
    return found


LIMITED = [[np.arange(64, dtype="float32"), np.zeros(64, "float32"), n] for n in (0, 1, 3, 4)]


def lowered(body: str, params: str | None = None, inputs: Any = LIMITED) -> PrimFunc:
    func = function(body) if params is None else function(body, params)
    return check(LowerAsyncDMA(), func, inputs=inputs if params is None else None)


def test_a_copy_and_its_wait() -> None:
    after = lowered(asynchronous("for i in range(16):\n    B[n * 16 + i - 16] = A[n * 8 + i]".replace("n * 16", "16"))
                    + waiting("B[0] = B[0] * T.float32(2)"))  # fmt: skip
    assert names(after) == ["dma_copy", "dma_wait"] and sizes(after) == ["64"]
    assert "async" not in after.script()


@pytest.mark.parametrize(
    ("copy", "size"),
    [
        ("for i in range(4):\n    for j in range(8):\n        B[i * 8 + j + 3] = A[i * 8 + j + 5]", "128"),
        ("for j in range(8):\n    for i in range(4):\n        B[i * 8 + j] = A[32 + j + i * 8]", "128"),  # any order
        ("for i in range(2, 5):\n    for j in range(1, 9):\n        B[i * 8 + j] = A[i * 8 + j - 17]", "96"),
        ("for u in range(7, 8):\n    for i in range(5):\n        B[u * 3 + i] = A[u + i]", "20"),  # a loop of one
        ("for i in T.unroll(13):\n    B[i] = A[i + 1]", "52"),
        ("for i in range(2):\n    B[i * 8:i * 8 + 8] = A[i * 8 + 4:i * 8 + 12]", "64"),  # vectors
        ("B[8:24] = A[1:17]", "64"),
    ],
)
def test_contiguous_copies(copy: str, size: str) -> None:
    after = lowered(asynchronous(copy))
    assert names(after) == ["dma_copy"] and sizes(after) == [size]


@pytest.mark.parametrize(
    "copy",
    [
        "for i in range(8):\n    B[i * 2] = A[i * 2]",  # gaps
        "for i in range(8):\n    B[i] = A[i * 2]",  # gathered
        "for i in range(8):\n    B[i] = A[7 - i]",  # reversed
        "for i in range(4):\n    for j in range(4):\n        B[i * 4 + j] = A[j * 4 + i]",  # transposed
        "for i in range(4):\n    for j in range(i, i + 2):\n        B[i * 4 + j * 2] = A[i * 4 + j]",  # no box
        "for i in range(8):\n    B[i] = A[i] + T.float32(1)",  # computed
        "for i in range(8):\n    B[i + 1] = B[i]",  # its own memory
        "for i in range(8):\n    if i < n:\n        B[i] = A[i]",  # guarded
        "for i in range(8):\n    B[0] = A[0]",  # one element, again and again
        "B[0] = A[0]",  # no loop
        "for i in range(8):\n    B[T.min(i, 5)] = A[T.min(i, 5)]",  # not linear
        "for i in range(2):\n    B.vstore([T.Ramp(i * 8, 1, 4)], A.vload([T.Ramp(i * 8, 1, 4)], predicate=T.broadcast(T.bool(True), 4)), predicate=T.broadcast(T.bool(True), 4))",
    ],
)  # fmt: skip
def test_other_statements_stay(copy: str) -> None:
    func = function(asynchronous(copy) + waiting("B[1] = B[1] + T.float32(1)"))
    check(LowerAsyncDMA(), func, func, inputs=LIMITED)


def test_several_copies_are_a_group() -> None:
    copies = "for i in range(8):\n    B[i] = A[i]\nfor i in range(8):\n    B[i + 8] = A[i + 16]\nB[20] = T.float32(7)"
    after = lowered(asynchronous(copies, 3) + waiting("B[1] = B[1] + T.float32(1)", 3, 0))
    assert names(after) == ["dma_start_group", "dma_copy", "dma_copy", "dma_end_group", "dma_wait"]
    assert "T.dma_wait(3, 0)" in after.script() and "B[20] = T.float32(7" in after.script()


def test_symbolic_extents_are_guarded() -> None:
    after = lowered(asynchronous("for i in range(n):\n    for j in range(16):\n        B[i * 16 + j] = A[i * 16 + j]"))
    assert names(after) == ["dma_start_group", "dma_copy", "dma_end_group"]
    assert "if 0 < n" in after.script().replace("n > 0", "0 < n")
    proved = lowered(
        asynchronous("for i in range(n):\n    B[i] = A[i]"), 'A: T.Buffer(("n",), "int8"), B: T.Buffer(("n",), "int8")'
    )
    assert sizes(proved) == ["n"]


@pytest.mark.parametrize("inner", ["range(4)", "range(i)", "range(n)"])
def test_rows_with_gaps_are_copies_of_one_group(inner: str) -> None:
    after = lowered(asynchronous(f"for i in range(4):\n    for j in {inner}:\n        B[i * 8 + j] = A[i * 8 + j]"))
    assert names(after) == ["dma_start_group", "dma_copy", "dma_end_group"]


def test_a_copy_that_may_not_happen_is_a_group_still() -> None:
    after = lowered(asynchronous("if n > 1:\n    for j in range(4):\n        B[j] = A[j]"))
    assert names(after) == ["dma_start_group", "dma_copy", "dma_end_group"]
    after = lowered(asynchronous("for i in range(n):\n    B[i] = A[i]"))
    assert names(after) == ["dma_start_group", "dma_copy", "dma_end_group"]


@pytest.mark.parametrize("dtype", ["int8", "float16", "float64", "bool", "int64"])
def test_dtypes(dtype: str) -> None:
    params = f'A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "{dtype}")'
    after = lowered(asynchronous("for i in range(10):\n    B[i + 1] = A[i + 30]"), params)
    size = {"int8": 10, "float16": 20, "float64": 80, "bool": 10, "int64": 80}[dtype]
    assert sizes(after) == [str(size)]
    after = check(LowerAsyncDMA(), function(asynchronous("for i in range(10):\n    B[i] = T.Cast('int32', A[i])"),
                                            f'A: T.Buffer((64,), "{dtype}"), B: T.Buffer((64,), "int32")'))  # fmt: skip
    assert names(after) == []


def pipelined() -> str:
    """Two stages, as InjectSoftwarePipeline writes them: a copy ahead, a wait for the one before."""
    first = asynchronous("for i in range(16):\n    S[i] = A[i]")
    loop = "    for k in range(3):\n" + asynchronous(
        "for i in range(16):\n    S[(k + 1) % 2 * 16 + i] = A[(k + 1) * 16 + i]", depth=8
    )
    loop += waiting("for i in range(16):\n    B[k * 16 + i] = S[k % 2 * 16 + i] * T.float32(2)", 0, 1, depth=8)
    last = waiting("for i in range(16):\n    B[48 + i] = S[16 + i] * T.float32(2)")
    return '    S = T.alloc_buffer((32,), "float32")\n' + first + loop + last


def test_a_pipeline() -> None:
    after = lowered(pipelined())
    assert names(after) == ["dma_copy", "dma_copy", "dma_wait", "dma_wait"]
    assert "T.dma_wait(0, 1)" in after.script() and "T.dma_wait(0, 0)" in after.script()
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    tl.build(after, schedule="none")(a, b, 0)
    np.testing.assert_array_equal(b, a * 2)


def test_a_queue_with_a_group_without_copies_stays() -> None:
    mixed = asynchronous("for i in range(8):\n    B[i] = A[i]", 0) + asynchronous(
        "for i in range(8):\n    B[i + 9] = A[i * 2]", 0
    )
    other = asynchronous("for i in range(8):\n    B[i + 20] = A[i]", 1) + waiting("B[1] = B[1] + T.float32(1)", 1)
    after = lowered(mixed + other + waiting("B[2] = B[2] + T.float32(1)", 0))
    assert names(after) == ["dma_copy", "dma_wait"] and after.script().count("async_commit_queue_scope") == 2
    assert after.script().count("async_wait_queue_scope") == 1


def test_a_wait_before_the_copies_of_its_queue() -> None:
    body = "    for k in range(4):\n" + waiting("B[k] = T.float32(k)", depth=8)
    body += asynchronous("for i in range(8):\n    B[k * 8 + i + 8] = A[k * 8 + i]", depth=8)
    assert names(lowered(body)) == ["dma_wait", "dma_copy"]


def test_copies_outside_of_groups_stay() -> None:
    func = function("    for i in range(8):\n        B[i] = A[i]\n" + waiting("B[9] = A[9]"))
    check(LowerAsyncDMA(), func, func, inputs=LIMITED)


@pytest.mark.parametrize("key", ["tir.experimental_dma_bypass_cache", "tir.dma_bypass_cache"])
def test_the_cache_may_be_bypassed(key: str) -> None:
    func = function(asynchronous("for i in range(8):\n    B[i] = A[i]"))
    assert ", 32, 0)" in LowerAsyncDMA()(func).script()
    with PassContext(config={key: True}):
        assert ", 32, 1)" in LowerAsyncDMA()(func).script()


def test_after_vectorization() -> None:
    func = function(
        asynchronous("for i in range(4):\n    for j in T.vectorized(8):\n        B[i * 8 + j] = A[i * 8 + j + 1]")
    )
    for program in (func, VectorizeLoop()(func)):
        assert sizes(check(LowerAsyncDMA(), program, inputs=LIMITED)) == ["128"]


def test_views_and_declarations_around() -> None:
    body = """    V = T.decl_buffer((32,), "float32", data=A.data, elem_offset=8)
    S = T.alloc_buffer((32,), "float32")
"""
    body += asynchronous("for i in range(16):\n    S[i + 4] = V[i + 2]")
    body += waiting("x: T.float32 = S[5]\nB[0] = x") + "    B[1] = S[6]\n"
    after = lowered(body)
    assert names(after) == ["dma_copy", "dma_wait"]
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    tl.build(after, schedule="none")(a, b, 0)
    assert b[:2].tolist() == [11, 12]
