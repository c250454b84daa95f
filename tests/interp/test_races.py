from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.script import parse

HEAD = """
@T.prim_func
def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s = T.alloc_buffer((8,), "int32", scope="shared")
            l = T.alloc_buffer((1,), "int32", scope="local")
"""


def _run(body: str) -> np.ndarray:
    lines = "".join(f"            {line}\n" for line in body.strip().splitlines())
    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    interpret(parse(HEAD + lines), a, b, races=True)
    return b


RACES = {
    "a read of another thread's value": ("s[tx] = A[tx]\nB[bx * 8 + tx] = s[7 - tx]", "writes s.*reads s"),
    "an overwritten value": ("s[tx] = 1\nl[0] = s[tx]\ns[7 - tx] = l[0]", "reads s.*writes s|writes s.*writes s"),
    "one element for all": ("s[0] = tx", "writes s.*writes s"),
    "a read in the same statement": ("s[tx] = tx\nT.tvm_storage_sync('shared')\ns[tx] = s[(tx + 1) % 8]", "reads"),
    "blocks": ("B[tx] = tx", "blockIdx.x = 0.*blockIdx.x = 1"),
    "an atomic and a plain write": (
        "if tx == 0:\n    B[bx] = 0\nT.evaluate(T.atomic_add(T.address_of(B[bx]), 1))", "atomically",
    ),
    "a barrier of the warp only, other warps or none": ("s[tx] = 0\nB[bx * 8 + tx] = s[7 - tx]", "race"),
    "a loop": (
        "for i in range(2):\n    s[(tx + i) % 8] = i\n    B[bx * 8 + tx] = s[(tx + i) % 8]", "data race on 's'",
    ),
}  # fmt: skip

CLEAN = {
    "own elements": "s[tx] = A[tx]\nB[bx * 8 + tx] = s[tx]",
    "a barrier": "s[tx] = A[tx]\nT.tvm_storage_sync('shared')\nB[bx * 8 + tx] = s[7 - tx]",
    "atomics": "T.evaluate(T.atomic_add(T.address_of(B[0]), 1))",
    "private memory": "l[0] = tx\nB[bx * 8 + tx] = l[0]",
    "a barrier of the warp": "s[tx] = A[tx]\nT.tvm_storage_sync('warp')\nB[bx * 8 + tx] = s[7 - tx]",
    "reads": "B[bx * 8 + tx] = A[0]",
    "two barriers in a loop": (
        "for i in range(3):\n    s[tx] = i\n    T.tvm_storage_sync('shared')\n    B[bx * 8 + tx] = s[7 - tx]\n"
        "    T.tvm_storage_sync('shared')"
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_races_are_found(name: str) -> None:
    body, message = RACES[name]
    with pytest.raises(InterpreterError, match=message):
        _run(body)


@pytest.mark.parametrize("name", CLEAN)
def test_no_false_alarm(name: str) -> None:
    _run(CLEAN[name])


def test_the_message_names_both_threads() -> None:
    with pytest.raises(InterpreterError) as caught:
        _run("s[tx] = A[tx]\nB[bx * 8 + tx] = s[7 - tx]")
    text = str(caught.value)
    assert "threadIdx.x = 7) writes s[7]" in text
    assert "threadIdx.x = 0) reads s[7]" in text


def test_shared_memory_allocated_in_a_loop_is_one() -> None:
    body = (
        "for i in range(2):\n    t = T.alloc_buffer((8,), 'int32', scope='shared')\n    t[tx] = i\n"
        "    T.tvm_storage_sync('shared')\n    B[bx * 8 + tx] = t[7 - tx]"
    )
    with pytest.raises(InterpreterError, match="data race on 't'"):
        _run(body)


def test_kernels_are_ordered() -> None:
    func = parse("""
@T.prim_func
def two(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = tx
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[tx] = A[7 - tx]
""")
    b = np.zeros(8, np.int32)
    interpret(func, np.zeros(8, np.int32), b, races=True)
    assert b.tolist() == list(range(8))[::-1]
