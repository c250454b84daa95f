from __future__ import annotations

import pytest

from tirlower.analysis.streamed import has_streams, is_sequential, streamed
from tirlower.script import parse

BODIES = {
    "A[0] = 1.0": "A",
    "A[0] = B[0]": "A",
    "A[0] = 1.0\n    B[0] = 1.0": "AB",
    "A[0] = A[1]": "",
    "A[0] = B[0]\n    B[1] = 0.0": "A",
    "A[0] = 1.0\n    if A[1] > 0.0:\n        B[0] = 1.0": "B",
    "A[0] = 1.0\n    B[T.Cast('int32', A[1])] = 1.0": "B",
    "A[0] = 1.0\n    T.evaluate(T.call_extern('int32', 'f', A.data, T.address_of(B[0])))\n    B[1] = 0.0": "",
    "A[0] = 1.0\n    T.prefetch(T.address_of(A[8]), 1, 3, 1)": "",
    "L = T.alloc_buffer((4,))\n    L[0] = 1.0\n    B[0] = 1.0": "B",
}


@pytest.mark.parametrize("body", BODIES)
def test_arrays_that_are_only_filled(body: str) -> None:
    func = parse(f"def f(A: T.Buffer((16,)), B: T.Buffer((16,))):\n    {body}\n")
    found = streamed(func.body, [buffer.data for buffer in func.buffers])
    assert "".join(sorted(var.name for var in found)) == BODIES[body]


def test_regions_are_attributes() -> None:
    text = "def f(A: T.Buffer((16,))):\n    for i in range(16):\n        with T.attr(None, '{}', True):\n            A[i] = 1.0\n"
    assert has_streams(parse(text.format("tir.nontemporal")).body)
    assert not has_streams(parse(text.format("pragma_nontemporal")).body)


FOUR = "T.broadcast(T.float32(0), 4)"
LOOPS = {
    "for i in range(4):\n        A[i] = 1.0": True,
    "for i in range(4):\n        A[i * 2] = 1.0": False,
    "for i in range(4):\n        A[4 - i] = 1.0": False,
    f"for i in range(2):\n        A[i * 8 + 4:i * 8 + 8] = {FOUR}\n        A[i * 8:i * 8 + 4] = {FOUR}": True,
    f"for i in range(2):\n        A[i * 4:i * 4 + 4] = {FOUR}\n        A[i * 4 + 8:i * 4 + 12] = {FOUR}": False,
    f"for i in range(1):\n        A[i * 8:i * 8 + 4] = {FOUR}\n        A[n:n + 4] = {FOUR}": False,
    "for i in range(2):\n        for j in range(8):\n            A[i * 8 + j] = 1.0": True,
    "for i in range(8):\n        for j in range(2):\n            A[j * 8 + i] = 1.0": False,
    "A[0] = 1.0": False,
    "for i in range(4):\n        if n > i:\n            A[i] = 1.0": True,
}


@pytest.mark.parametrize("body", LOOPS)
def test_arrays_that_are_filled_one_element_behind_the_other(body: str) -> None:
    func = parse(f"def f(A: T.Buffer((16,)), n: T.int32):\n    {body}\n")
    assert is_sequential(func.body, func.buffers[0].data) is LOOPS[body]
