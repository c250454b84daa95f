"""Chains in which each line uses the one before twice: sums, products, divisions, choices, casts, bits, comparisons.

Each must build in time, run without touching anything outside, and give what Python computes in int32 arithmetic.
"""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

LENGTH = 40
STEPS = {
    "sum": "x{k} + x{k} * A[1]",
    "square": "x{k} * x{k} + 1",
    "division": "x{k} // 2 + x{k} // 3",
    "remainder": "(x{k} * 3 + {k}) % (64 + {k})",
    "by a value": "x{k} // (x{k} % 7 + 2) + x{k} % 9",
    "select": "T.Select(x{k} > {k}, x{k} - 1, x{k} + 2)",
    "if": "T.if_then_else(x{k} > {k}, x{k} - 1, x{k} + 2)",
    "min": "T.min(x{k} * 2, T.max(x{k} - 1, {k}))",
    "cast": 'T.Cast("int32", T.Cast("int8", x{k})) + x{k} // 2',
    "bits": "(x{k} ^ 21) + (x{k} & 6)",
    "truth": 'T.Cast("int32", x{k} > 3) + T.Cast("int32", x{k} < 9)',
}


class T:
    """What the steps call, of Python integers."""

    min, max = staticmethod(min), staticmethod(max)

    @staticmethod
    def Select(condition, yes, no):
        return yes if condition else no

    if_then_else = Select

    @staticmethod
    def Cast(dtype, value):
        bits = int(dtype[3:])
        return (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


A = np.array([5, 3, 1, 7, 2, 6, 4, 8], "int32")
for name, step in STEPS.items():
    lines = [f"        x{k + 1} = {step.format(k=k)}" for k in range(LENGTH)]
    text = "\n".join(
        [
            'def f(A: T.Buffer((8,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((8,), "int32")):',
            "    for i in range(8):",
            "        x0 = A[i]",
            *lines,
            f"        C[i] = x{LENGTH}",
            f"        B[x{LENGTH} % 64] = i + 1",
        ]
    )
    B, C = np.zeros(64, "int32"), np.zeros(8, "int32")
    tl.build(parse(text))(A, B, C)
    expected = np.zeros(64, "int32")
    for i in range(8):
        values = {"T": T, "A": A.tolist(), "x0": int(A[i])}
        for k in range(LENGTH):
            values[f"x{k + 1}"] = T.Cast("int32", eval(step.format(k=k), values))
        last = values[f"x{LENGTH}"]
        assert C[i] == last, (name, i, C[i], last)
        expected[last % 64] = i + 1
    np.testing.assert_array_equal(B, expected, err_msg=name)
