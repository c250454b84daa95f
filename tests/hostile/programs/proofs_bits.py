"""Subscripts made of bits, squares and narrow casts, in parallel and vectorized loops: right, or refused."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

LEGAL = {
    "(i ^ 1)": lambda i: i ^ 1,
    "(i ^ 48)": lambda i: i ^ 48,
    "i * i": lambda i: i * i,
    "(i * 37) & 63": lambda i: (i * 37) & 63,
    "1 << (i // 4)": None,
    "i & 15": None,
    "T.Cast('int32', T.Cast('int8', i * 32)) + 200": None,
    "T.Cast('int32', T.Cast('uint8', i * 3))": lambda i: (i * 3) % 256,
    "(i - 8) * (i - 8)": None,
}
for index, place in LEGAL.items():
    for kind in ("parallel", "vectorized"):
        func = parse(f"""
@T.prim_func
def f(A: T.Buffer((1024,), "int32")):
    for i in T.{kind}(32):
        A[{index}] = i + 1
""")
        a = np.zeros(1024, "int32")
        try:
            tl.build(func)(a)
        except tl.LegalityError:
            assert place is None, (index, kind)
            continue
        assert place is not None, (index, kind)
        wanted = np.zeros(1024, "int32")
        for i in range(32):
            wanted[place(i)] = i + 1
        np.testing.assert_array_equal(a, wanted, index)
