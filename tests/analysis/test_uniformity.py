from __future__ import annotations

from typing import Any

import pytest

from tirlower.analysis.uniformity import Uniformity
from tirlower.ir import For, IfThenElse, While, pre_order_visit
from tirlower.script import parse


def _control(body: str) -> tuple[Uniformity, Any]:
    """The facts of a kernel, and its first branch or loop that is no thread axis."""
    text = """
@T.prim_func
def kernel(A: T.Buffer((32,), "int32"), n: T.int32):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((32,), "int32", scope="shared")
            l = T.alloc_buffer((4,), "int32", scope="local")
            l[0] = 0
"""
    func = parse(text + "".join(f"            {line}\n" for line in body.splitlines()))
    found: list[Any] = []

    def look(op: Any) -> None:
        if isinstance(op, (IfThenElse, While)) or (isinstance(op, For) and op.thread_tag is None):
            found.append(op)

    pre_order_visit(func.body, look)
    return Uniformity(func.body), found[0]


@pytest.mark.parametrize(
    ("condition", "varies"),
    [
        ("bx == 0", False), ("n > 3", False), ("s[bx] > 0", False), ("A[3] > 0", False), ("l[0] > 0", False),
        ("tx == 0", True), ("s[tx] > 0", True), ("A[tx] > 0", True), ("T.tvm_warp_activemask() > T.uint32(3)", True),
    ],
)  # fmt: skip
def test_conditions(condition: str, varies: bool) -> None:
    facts, branch = _control(f"if {condition}:\n    s[tx] = 1")
    assert facts.varies(branch.condition) is varies


@pytest.mark.parametrize(
    ("before", "varies"),
    [
        ("l[1] = n\nl[2] = l[1] + bx", False), ("l[1] = tx\nl[2] = l[1]", True), ("l[tx % 2] = 1", True),
        ("l[1] = tx", False), ("l[1] = tx\nl[n % 4] = 0", True), ("if tx > 3:\n    l[2] = n", True),
        ("l[1] = tx\nT.evaluate(T.call_extern('int32', 'f', T.address_of(l[1])))", True),
        ("for i in range(n):\n    l[1] = i", False), ("for i in range(tx):\n    l[2] = 1", True),
        ("T.evaluate(T.call_extern('int32', 'f', l.data))", True),
    ],
)  # fmt: skip
def test_memory_of_a_thread(before: str, varies: bool) -> None:
    facts, branch = _control("while l[3] > 0:\n    l[3] = l[2] - 1")
    assert not facts.diverges(branch)
    facts, branch = _control(f"if l[2] > 0:\n    s[tx] = 1\n{before}")
    assert facts.varies(branch.condition) is varies


@pytest.mark.parametrize(
    ("body", "diverges"),
    [
        ("for i in range(n):\n    s[tx] = i", False), ("for i in range(tx):\n    s[tx] = i", True),
        ("for i in range(n):\n    if tx > i:\n        T.break_loop()\n    s[tx] = i", True),
        ("for i in range(n):\n    if i > 3:\n        T.break_loop()\n    s[tx] = i", False),
    ],
)  # fmt: skip
def test_loops(body: str, diverges: bool) -> None:
    facts, loop = _control(body)
    assert facts.diverges(loop) is diverges


@pytest.mark.parametrize(
    ("condition", "by_warp"),
    [
        ("tx // 32 == 0", False), ("tx < 32", False), ("tx < 33", True), ("tx // 16 == 0", True), ("tx % 32 == 0", True),
        ("T.shift_right(tx, 5) == 1", False), ("T.bitwise_and(tx, 32) > 0", False), ("T.bitwise_and(tx, 31) > 0", True),
        ("tx // 32 + n < 3", False), ("tx + n < 32", True), ("tx // 32 == 0 and n > 3", False), ("A[tx // 32] > 0", False),
        ("A[tx] > 0", True), ("tx - tx == 0", False), ("T.if_then_else(tx < 32, n, 3) > 0", False), ("tx // (tx - 40) == 0", True),
        ("T.min(tx, 31) < 31", True), ("T.max(tx, 63) < 64", False), ("l[0] > 0", False),
    ],
)  # fmt: skip
def test_conditions_of_the_warps_of_a_block(condition: str, by_warp: bool) -> None:
    text = f"""
@T.prim_func
def kernel(A: T.Buffer((64,), "int32"), n: T.int32):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        l = T.alloc_buffer((4,), "int32", scope="local")
        l[0] = tx // 32
        if {condition}:
            A[tx] = 1
"""
    func = parse(text)
    found: list[IfThenElse] = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, IfThenElse) else None)
    assert Uniformity(func.body, together=32).varies(found[0].condition) is by_warp
    assert Uniformity(func.body, together=64).varies(found[0].condition) or condition in _OF_ALL


_OF_ALL = ("tx - tx == 0", "T.max(tx, 63) < 64")
