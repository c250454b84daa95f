"""An array as JAX hands it out, immutable and without a flag that says so: read, and never written."""

# expect: ArgumentValueError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def affine(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[7 - i] * 3 + i


class ArrayImpl:
    __module__ = "jaxlib._jax"

    def __init__(self, values):
        self.memory = np.array(values, "int32")

    def __setitem__(self, at, value):
        raise TypeError("JAX arrays are immutable")

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.memory.__dlpack__()


kernel = tl.build(affine)
x, out = ArrayImpl([5, 3, 1, 2, 8, 9, 4, 7]), np.zeros(8, "int32")
kernel(x, out)
np.testing.assert_array_equal(out, x.memory[::-1] * 3 + np.arange(8))
try:
    kernel(out, x)
finally:
    assert x.memory.tolist() == [5, 3, 1, 2, 8, 9, 4, 7]
