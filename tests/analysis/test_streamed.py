from __future__ import annotations

import pytest

from tirlower.analysis.streamed import has_streams, streamed
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
