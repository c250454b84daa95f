"""Programs after which the contents of arrays are known, for the passes that make use of it.

Each is a body over ``A`` and ``B`` of 24 elements and ``F`` of 3; then which elements of which array are known, as a
condition on ``j``, and their value.
"""

from __future__ import annotations

from tirlower.ir import PrimFunc
from tirlower.script import parse

__all__ = ["KNOWN", "program"]

PADDED = """
    for i in range(24):
        if i < 3 or i >= 17:
            A[i] = 0
    for i in range(24):
        T.evaluate(T.assume((3 <= i and i < 17) or A[i] == 0))
"""
KNOWN: dict[str, tuple[str, str, str, str]] = {
    "assumed, then incremented": ("""
    for i in range(24):
        if i >= 14:
            A[i] = 5
    for i in range(24):
        T.evaluate(T.assume(i < 14 or A[i] == 5))
    for i in range(24):
        A[i] = A[i] + 1
""", "A", "14 <= j", "6"),
    "stored as one number for all lanes": ("""
    A[T.Ramp(0, 1, 24)] = T.Broadcast(3, 24)
""", "A", "j < 14", "3"),
    "stored as lanes that count": ("""
    A[T.Ramp(0, 1, 24)] = T.Ramp(11, 2, 24)
""", "A", "j < 14", "j * 2 + 11"),
    "stored by vectors in a loop": ("""
    for i in range(6):
        A[T.Ramp(i * 4, 1, 4)] = T.Ramp(i * 4, 1, 4)
""", "A", "j < 14", "j"),
    "stored by an earlier loop": ("""
    for i in range(24):
        A[i] = i
""", "A", "j < 14", "j"),
    "sums over padding": (PADDED + """
    for i in range(24):
        B[i] = 0
        for f in range(3):
            if 0 <= i - f:
                B[i] = B[i] + A[i - f] * F[f]
""", "B", "j < 3 or 19 <= j", "0"),
    "padding scattered into sums": (PADDED + """
    for i in range(24):
        B[i] = 0
    for i in range(24):
        for f in range(3):
            if i + f < 24:
                B[i + f] = B[i + f] + A[i] * F[f]
""", "B", "j < 3 or 19 <= j", "0"),
}  # fmt: skip


def program(body: str) -> PrimFunc:
    array = 'T.Buffer((24,), "int32")'
    head = f'def f(A: {array}, B: {array}, F: T.Buffer((3,), "int32")):'
    made = parse(f"@T.prim_func\n{head}\n    T.func_attr({{'tir.noalias': True}})\n{body}")
    assert isinstance(made, PrimFunc)
    return made
