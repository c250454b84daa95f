"""Iterations that end early, in parallel and vectorized loops."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

BODIES = (
    "if B[i] > 5:\n            T.continue_loop()\n        A[i] = B[i] * 2",
    "if B[i] > 3:\n            if B[i] > 8:\n                T.continue_loop()\n            A[i] = 1\n        B[i] = A[i] + 1",
    "for j in range(5):\n            if j > i % 3:\n                T.continue_loop()\n            A[i] = A[i] * 3 + j",
    "if i > 99:\n            T.break_loop()\n        A[i] = i",
)
rng = np.random.default_rng(5)
for body in BODIES:
    for kind in ("parallel", "vectorized"):
        text = f"""
@T.prim_func
def f(A: T.Buffer((37,), "int32"), B: T.Buffer((37,), "int32")):
    for i in T.{kind}(37):
        {body}
"""
        a, b = rng.integers(0, 12, 37).astype("int32"), rng.integers(0, 12, 37).astype("int32")
        wanted = a.copy(), b.copy()
        tl.interpret(parse(text.replace(f"T.{kind}", "T.serial")), *wanted)
        tl.build(parse(text))(a, b)
        np.testing.assert_array_equal(a, wanted[0])
        np.testing.assert_array_equal(b, wanted[1])
