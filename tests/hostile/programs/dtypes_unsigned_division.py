"""Quotients and remainders of unsigned numbers in the upper half of their types, and by variables of 0."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for bits in (8, 16, 32, 64):
    top = 2**bits - 1
    ends = [1, 2, 3, 7, top // 2, top // 2 + 1, top - 1, top]
    A = np.array([x for x in ends for _ in ends], f"uint{bits}")
    B = np.array([y for _ in ends for y in ends], f"uint{bits}")
    kernel = tl.build(
        parse(f"""
def f(A: T.Buffer((64,), "uint{bits}"), B: T.Buffer((64,), "uint{bits}"), O: T.Buffer((4, 64), "uint{bits}")):
    for i in range(64):
        O[0, i] = A[i] // B[i]
        O[1, i] = A[i] % B[i]
        O[2, i] = A[i] // T.uint{bits}(10)
        O[3, i] = A[i] % T.uint{bits}(7)
""")
    )
    O = np.zeros((4, 64), A.dtype)
    kernel(A, B, O)
    a, b = [int(v) for v in A], [int(v) for v in B]
    assert O[0].tolist() == [x // y for x, y in zip(a, b, strict=True)] and O[1].tolist() == [
        x % y for x, y in zip(a, b, strict=True)
    ]
    assert O[2].tolist() == [x // 10 for x in a] and O[3].tolist() == [x % 7 for x in a]
    B[40] = 0
    try:
        kernel(A, B, O)
    except ZeroDivisionError:
        pass
    else:
        raise AssertionError(bits)
