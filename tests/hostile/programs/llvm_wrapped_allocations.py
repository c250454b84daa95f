"""Allocations whose number of elements, or of bytes, wraps around to something small: refused where they are made."""

# expect: ok
# parts: 2
import sys

import numpy as np

import tirlower as tl
from tirlower.diagnostics import AllocationError
from tirlower.script import parse

FORMS = {
    "two": ("n: T.int64, m: T.int64", "(n, m)", 2),
    "four": ("n: T.int64, m: T.int64", "(n, m, n, m)", 4),
    "four narrow": ("n: T.int32, m: T.int32", "(n, m, n, m)", 4),
    "a sum": ("n: T.int64, m: T.int64", "(n * n + m * m,)", 1),
    "products": ("n: T.int64, m: T.int64", "(n * m, n * m)", 2),
    "strided": ("n: T.int64, m: T.int64", "(2, 3, 2), strides=(n * m * n, n * m, 1)", 3),
    "offset": ("n: T.int64, m: T.int64", "(m,), elem_offset=n", 1),
}
HUGE = {
    "two": [(2**32, 2**32), (2**33, 2**31), (2**62, 4), (2**61, 8), (2**62 + 1, 4), (2**40, 2**22)],
    "four": [(2**16, 2**16), (2**31, 2), (2**20, 2**12), (2**16, 2**16 + 1), (3, 2**40)],
    "four narrow": [(2**16, 2**16), (2**30, 4), (2**30, 2**30), (46341, 46341)],
    "a sum": [(2**32, 2**32), (2**31, 2**32), (3037000500, 1)],
    "products": [(2**16, 2**16), (2**32, 2**32), (2**20, 2**12)],
    "strided": [(2**32, 1), (2**21, 2**22), (2**31, 2**31)],
    "offset": [(2**62, 4), (2**62 - 1, 4), (2**62 - 2, 4), (2**63 - 1, 2)],
}
for name, (params, shape, rank) in FORMS.items():
    for dtype in ("float32", "int16")[int(sys.argv[1]) :: 2]:
        names = ", ".join("ijkl"[:rank])
        first, *rest = shape.split("), ")
        buffer = f"T.alloc_buffer({first.removesuffix(')')}), '{dtype}'" + "".join(f", {one}" for one in rest) + ")"
        kernel = tl.build(
            parse(
                f'@T.prim_func\ndef f(A: T.Buffer((4,), "{dtype}"), {params}):\n'
                f"    L = {buffer}\n    for {names} in T.grid({first.strip('(),')}):\n        L[{names}] = A[1]\n"
                f"    for {names} in T.grid({first.strip('(),')}):\n        A[0] = T.max(A[0], L[{names}] + A[2])\n"
            )
        )
        a = np.array([1, 2, 3, 4], dtype)
        kernel(a, 3, 5)
        assert a.tolist() == [5, 2, 3, 4], (name, a)
        for n, m in HUGE[name]:
            try:
                kernel(a, n, m)
            except AllocationError:
                pass
            else:
                raise AssertionError(f"{name} {dtype} {n} {m} was allocated")
