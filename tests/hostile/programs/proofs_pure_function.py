"""Subscripts through functions of the module that only compute: judged by what they return, or guarded."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

mod = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def mirrored(x: T.int32, n: T.int32) -> T.int32:
        return n - 1 - x

    @T.prim_func(private=True)
    def looked_up(x: T.int32) -> T.int32:
        t = T.alloc_buffer((4,), "int32")
        for i in range(4):
            t[i] = i * i
        return t[x % 4]

    @T.prim_func
    def main(A: T.Buffer((16,), "int32"), k: T.int32):
        for i in T.parallel(16):
            A[Module.mirrored(i, 16)] = i
        for i in range(k):
            A[Module.looked_up(i) + k] = 7
""")
kernel = tl.build(mod)["main"] if hasattr(tl.build(mod), "__getitem__") else tl.build(mod)
a = np.zeros(16, "int32")
kernel(a, 0)
np.testing.assert_array_equal(a, np.arange(15, -1, -1))
kernel(a, 4)
assert list(a[[4, 5, 8, 13]]) == [7] * 4
try:
    kernel(a, 8)
except IndexError:
    pass
else:
    raise SystemExit("wrote outside")
