"""The ends of every integer type: stored, compared, added, shifted and combined bit by bit as in NumPy."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

OPS = ["a + b", "a - b", "a * b", "a & b", "a | b", "a ^ b", "~a", "T.min(a, b)", "T.max(a, b)"]
TESTS = ["a < b", "a <= b", "a == b", "a != b", "a > b", "a >= b"]


class T:
    min, max = staticmethod(np.minimum), staticmethod(np.maximum)


for bits in (8, 16, 32, 64):
    for dtype in (f"int{bits}", f"uint{bits}"):
        info = np.iinfo(dtype)
        ends = [info.min, info.min + 1, 0, 1, 2, info.max // 2, info.max // 2 + 1, info.max - 1, info.max]
        A = np.array([x for x in ends for _ in ends], dtype)
        B = np.array([y for _ in ends for y in ends], dtype)
        lines = [f"O[{k}, i] = {text}" for k, text in enumerate(OPS)]
        lines += [f"C[{k}, i] = {text}" for k, text in enumerate(TESTS)]
        body = "\n".join("        " + line.replace("a", "A[i]").replace("b", "B[i]") for line in lines)
        body = body.replace("T.mA[i]x", "T.max")
        kernel = tl.build(
            parse(
                f'def f(A: T.Buffer((81,), "{dtype}"), B: T.Buffer((81,), "{dtype}"), '
                f'O: T.Buffer(({len(OPS)}, 81), "{dtype}"), C: T.Buffer(({len(TESTS)}, 81), "bool")):\n'
                f"    for i in range(81):\n{body}\n"
            )
        )
        O, C = np.zeros((len(OPS), 81), dtype), np.zeros((len(TESTS), 81), "bool")
        kernel(A, B, O, C)
        for k, text in enumerate(OPS):
            np.testing.assert_array_equal(O[k], eval(text, {"a": A, "b": B, "T": T}), f"{dtype} {text}")
        for k, text in enumerate(TESTS):
            np.testing.assert_array_equal(C[k], eval(text, {"a": A, "b": B}), f"{dtype} {text}")
