"""The remedy that a refusal names is the one that fits the dependence."""

from __future__ import annotations

import pytest

from tirlower.poly import can_bind, is_parallel, is_vectorizable
from tirlower.script import parse

HEAD = """
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((9, 9), "int32"), S: T.Buffer((1,), "int32")):
"""

CASES = {
    "reduction": ("    for i in range(16):\n        S[0] = S[0] + A[i]", ("tir.reduction", "rfactor", "T.atomic_add")),
    "histogram": ("    for i in range(16):\n        S[A[i]] += 1", ("tir.reduction", "T.atomic_add", "tir.unchecked")),
    "product": ("    for i in range(16):\n        S[0] = S[0] * A[i]", ("tir.reduction", "atomic operations")),
    "temporary": (
        "    t = T.alloc_buffer((1,), 'int32')\n    for i in range(16):\n        t[0] = A[i]\n        A[i] = t[0] + 1",
        ("allocate t inside the loop 'i'",),
    ),
    "same": ("    for i in range(16):\n        S[0] = i", ("let one iteration write S", "guard")),
    "shift": ("    for i in range(15):\n        A[i] = A[i + 1]", ("read A from a copy",)),
    "scan": ("    for i in range(15):\n        A[i + 1] = A[i]", ("keep the loop serial",)),
    "wavefront": (
        "    for j in range(8):\n        for i in range(8):\n            B[j + 1, i + 1] = B[j, i + 1] + B[j + 1, i]",
        ("skew 'i' by the loop 'j'",),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_remedy_of_a_parallel_loop(name: str) -> None:
    body, words = CASES[name]
    verdict = is_parallel(parse(HEAD + body), "i")
    assert not verdict.proved
    for word in words:
        assert word in verdict.help, verdict.help


def test_the_remedy_that_is_named_helps() -> None:
    own = (
        HEAD
        + "    for i in range(16):\n        t = T.alloc_buffer((1,), 'int32')\n        t[0] = A[i]\n        A[i] = t[0] + 1"
    )
    guarded = HEAD + "    for i in range(16):\n        if i == 15:\n            S[0] = i"
    skewed = HEAD + (
        "    for w in range(15):\n        for j in range(T.max(0, w - 7), T.min(8, w + 1)):\n"
        "            B[j + 1, w - j + 1] = B[j, w - j + 1] + B[j + 1, w - j]"
    )
    assert is_parallel(parse(own), "i").proved
    assert is_parallel(parse(guarded), "i").proved
    assert is_parallel(parse(skewed), "j").proved


def test_vectors_and_threads_have_remedies_of_their_own() -> None:
    func = parse(HEAD + CASES["reduction"][0])
    assert "atomic" not in is_vectorizable(func, "i").help and "tir.reduction" in is_vectorizable(func, "i").help
    bound = can_bind(func, "i", "blockIdx.x").help
    assert "T.atomic_add" in bound and "tir.reduction" not in bound
