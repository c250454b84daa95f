"""Sums of int64 that wrap to numbers below 0 write nothing in front of the array."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

kernel = tl.build(
    parse("""
def f(off: T.int64, length: T.int64, A: T.Buffer(("n",), "int32")):
    if off >= T.int64(0) and length >= T.int64(0) and off + length <= T.Cast("int64", n):
        for i in range(length):
            A[off + i] = 7
""")
)
memory = np.arange(96, dtype="int32")
A = memory[32:64]
wild = 0
for off in (0, 3, 31, 32, 33, 2**31, 2**62, 2**63 - 40, 2**63 - 1):
    for length in (0, 1, 5, 32, 40, 2**62, 2**63 - 1):
        memory[:] = np.arange(96)
        expected = memory.copy()
        total = (off + length + 2**63) % 2**64 - 2**63
        inside = off + length <= 32
        if inside:
            expected[32 + off : 32 + off + length] = 7
        try:
            kernel(off, length, A)
            assert inside or total > 32 or length == 0, (off, length)
            assert (memory == expected).all(), (off, length)
        except IndexError:
            assert total <= 32 and not inside, (off, length)
            wild += 1
            assert (memory[:32] == expected[:32]).all() and (memory[64:] == expected[64:]).all(), (off, length)
assert wild > 4
