"""Shapes computed from sizes whose products leave their types: the call is refused, whatever array is given."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import ArgumentError
from tirlower.script import parse


def square(kind):
    return parse(
        f"""
@T.prim_func
def f(n: T.{kind}, B: T.Buffer((n * n,), "int8"), O: T.Buffer((1,), "int8")):
    for i in range(n):
        for j in range(n):
            O[0] = O[0] + B[i * n + j]
"""
    )


PRODUCT = """
@T.prim_func
def f(n: T.int64, m: T.int64, B: T.Buffer((n * m + 1, 0), "int8"), O: T.Buffer((1,), "int8")):
    O[0] = 3
"""


def wide(count):
    return np.lib.stride_tricks.as_strided(np.ones(1, "int8"), (count,), (0,))


def empty(count):
    return np.lib.stride_tricks.as_strided(np.ones(1, "int8"), (count, 0), (0, 1))


def refused(kernel, *args):
    try:
        kernel(*args, np.zeros(1, "int8"))
    except ArgumentError as error:
        assert "does not fit" in str(error), error
    else:
        raise AssertionError(args)


for kind, bits in (("int64", 64), ("int32", 32)):
    kernel = tl.build(square(kind))
    out = np.zeros(1, "int8")
    kernel(3, np.arange(9, dtype="int8"), out)
    assert out[0] == 36
    root = 1 << bits // 2
    for n in (root, root // 2 * 3, root + 1, -root):
        wraps = n * n % (1 << bits)
        refused(kernel, n, wide(0 if wraps == 0 else 1))
kernel = tl.build(parse(PRODUCT))
out = np.zeros(1, "int8")
kernel(5, 7, empty(36), out)
assert out[0] == 3
refused(kernel, 2**32, 2**32, empty(1))
refused(kernel, 2**33, 2**33, empty(1))
refused(kernel, 2**63 - 1, 1, empty(0))
