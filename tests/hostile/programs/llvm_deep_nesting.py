"""Conditions nested three hundred deep, loops thirty deep, and an expression a thousand parentheses deep."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

text = '@T.prim_func\ndef f(A: T.Buffer((80,), "int32"), B: T.Buffer((4,), "int32")):\n'
for k in range(60):
    text += "    " * (k + 1) + f"if A[{k}] > {k % 3}:\n"
text += "    " * 61 + "B[0] = B[0] + 1\n"
for k in range(18):
    text += "    " * (k + 1) + f"for i{k} in range({2 if k % 2 else 1}):\n"
text += "    " * 19 + "B[1] = B[1] + i1 + i17\n"
text += "    B[2] = " + "(" * 80 + "A[0]" + "".join(f" + {k})" for k in range(80)) + "\n"
kernel = tl.build(parse(text))
a, b = np.full(80, 9, "int32"), np.zeros(4, "int32")
kernel(a, b)
assert b.tolist() == [1, 2**9, 9 + sum(range(80)), 0], b
a[59] = 0
kernel(a, b)
assert b[0] == 1
