"""Allocations and views whose layout reads memory, made without a script: refused, for the memory changes afterwards."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import WellFormedError
from tirlower.ir import IRBuilder, decl_buffer

PARTS = {
    "shape": lambda n: {"shape": (n,)},
    "second extent": lambda n: {"shape": (2, n)},
    "product": lambda n: {"shape": (n * n,)},
    "stride": lambda n: {"shape": (4,), "strides": (n,)},
    "offset": lambda n: {"shape": (4,), "elem_offset": n - 1},
}


def made(part, view, bound):
    b = IRBuilder()
    with b.func("f"):
        A = b.buffer_param("A", (64,), "int32")
        n = b.let("n", A[0]) if bound else A[0]
        L = decl_buffer(dtype="int32", name="L", data=A.data if view else None, **PARTS[part](n))
        b.decl(L) if view else b.emit(tl.ir.AllocBuffer(L))
        place = (1, 2) if part == "second extent" else (2,)
        b.store(L, 5, place)
        b.store(A, 100000000, (0,))
        b.store(A, L[place], (1,))
    return b.get()


for part in PARTS:
    for view in (False, True):
        try:
            tl.build(made(part, view, False))
        except WellFormedError as error:
            assert "'L' reads memory" in str(error) and "bind the value" in str(error)
        else:
            raise AssertionError(f"{part} of a {'view' if view else 'buffer'} was taken")
        a = np.full(64, 3, "int32")
        tl.build(made(part, view, True))(a)
        assert a[1] == 5 and a[0] == 100000000, (part, view, a)
