"""Allocations whose offset or strides are data: in front of the memory, huge, wrapped, or changed after they were made."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.script import parse

HEAD = '@T.prim_func\ndef f(A: T.Buffer((8,), "int32"), n: {}):\n'
FILL = "    for i in range(6):\n        L[i] = i + 3\n    for i in range(6):\n        A[i + 1] = L[i] * 2\n"
GROW = "    L[1] = 5\n    A[0] = 100000000\n    L[{0}] = 7\n    A[1] = L[{0}] + L[1]\n"
PLAIN = [6, 8, 10, 12, 14, 16]
FORMS = {
    "offset": ("T.int64", '    L = T.alloc_buffer((6,), "int32", elem_offset=n)\n' + FILL, (0, 1, 7), PLAIN),
    "narrow offset": ("T.int32", '    L = T.alloc_buffer((6,), "int32", elem_offset=n - 2)\n' + FILL, (2, 9), PLAIN),
    "stride": ("T.int64", '    L = T.alloc_buffer((6,), "int32", strides=(n,))\n' + FILL, (1, 3), PLAIN),
    "both": ("T.int32", '    L = T.alloc_buffer((6,), "int32", strides=(n,), elem_offset=n)\n' + FILL, (1, 5), PLAIN),
    "in a loop": (
        "T.int64",
        '    for k in range(2):\n        L = T.alloc_buffer((6,), "int32", elem_offset=n - k)\n'
        + "".join(f"    {line}\n" for line in FILL.splitlines()),
        (1, 4),
        PLAIN,
    ),
}
BAD = (-1, -4, -(2**20), -(2**31), 2**62, 2**63 - 1, -(2**63))
for name, (kind, body, good, want) in FORMS.items():
    func = parse(HEAD.format(kind) + body)
    kernel = tl.build(func)
    for n in good:
        a = np.array([9, 0, 0, 0, 0, 0, 0, 5], "int32")
        kernel(a, n)
        assert a.tolist() == [9, *want, 5], (name, n, a)
    for n in BAD:
        if kind == "T.int32" and not 2 - 2**31 <= n < 2**31:  # what wraps is an offset of 8 GB
            continue
        for run in (kernel, lambda *args: tl.interpret(func, *args)):  # noqa: B023 (called at once)
            a = np.array([9, 0, 0, 0, 0, 0, 0, 5], "int32")
            try:
                run(a, n)
            except (MemoryError, TirError):
                continue
            raise AssertionError(f"{name} with {n}: {a}")

try:
    tl.build(parse(HEAD.format("T.int32") + '    L = T.alloc_buffer((6,), "int32", elem_offset=-3)\n' + FILL))
except TirError:
    pass
else:
    raise AssertionError("the offset -3 was taken")

# A layout is that of the moment when the buffer is made: what it was read from changes afterwards.
SHRUNK = (
    '    L = T.alloc_buffer((4, A[0]), "int32")\n    L[2, 1] = 5\n    A[0] = 1\n    A[1] = L[2, 1]\n',
    '    L = T.alloc_buffer((4,), "int32", elem_offset=A[0])\n    L[2] = 5\n    A[0] = 1\n    A[1] = L[2]\n',
    '    L = T.alloc_buffer((4,), "int32", strides=(A[0],))\n    L[2] = 5\n    A[0] = 1\n    A[1] = L[2]\n',
    '    V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=A[0])\n    V[2] = 5\n    A[0] = 1\n    A[1] = V[2]\n',
)
for body in SHRUNK:
    func = parse(HEAD.format("T.int32") + body)
    for run in (tl.build(func), lambda *args: tl.interpret(func, *args)):  # noqa: B023 (called at once)
        a = np.array([3, 0, 0, 0, 0, 0, 0, 0], "int32")
        run(a, 0)
        assert a[:2].tolist() == [1, 5], (body, a)
for decl, index in (
    ('T.alloc_buffer((A[0],), "int32")', "99999999"),
    ('T.alloc_buffer((3, A[0]), "int32")', "2, 99999999"),
):
    grow = GROW.format(index).replace("L[1]", "L[1, 1]") if "," in index else GROW.format(index)
    try:
        tl.build(parse(HEAD.format("T.int32") + f"    L = {decl}\n" + grow))(np.array([3] * 8, "int32"), 0)
    except IndexError:
        pass
    else:
        raise AssertionError(f"{decl} grew after it was made")
