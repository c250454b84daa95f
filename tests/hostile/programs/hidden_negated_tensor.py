"""A tensor whose negation is still pending: its memory has the other sign, and is not read."""

# expect: ArgumentTypeError
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def affine(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[7 - i] * 3 + i


class Tensor:
    """As PyTorch's: ``is_neg`` says that each element is the negative of what memory holds."""

    requires_grad = False

    def __init__(self, values, neg):
        self.memory, self.neg = np.array(values, "int32"), neg

    def is_neg(self):
        return self.neg

    def is_conj(self):
        return False

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **asked):
        return self.memory.__dlpack__(**asked)


kernel, out = tl.build(affine), np.zeros(8, "int32")
plain = Tensor([5, 3, 1, 2, 8, 9, 4, 7], False)
kernel(plain, out)
np.testing.assert_array_equal(out, plain.memory[::-1] * 3 + np.arange(8))
for written in (False, True):
    bad = Tensor([1] * 8, True)
    try:
        kernel(*((plain, bad) if written else (bad, out)))
    except tl.ArgumentError as error:
        assert "resolve_neg" in str(error)
    else:
        raise SystemExit("the sign of a tensor was lost")
kernel(Tensor([1] * 8, True), out)
