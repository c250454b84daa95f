"""Shifts by every count that a type has, of every sign, on numbers of both ends: Python's, cut to the type."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for bits in (8, 16, 32, 64):
    for dtype in (f"int{bits}", f"uint{bits}"):
        info = np.iinfo(dtype)
        ends = [info.min, info.min + 5, 0, 1, 3, 85, info.max // 3, info.max]
        A = np.array([x for x in ends for _ in range(bits)], dtype)
        S = np.array([s for _ in ends for s in range(bits)], dtype)
        n = len(A)
        kernel = tl.build(
            parse(f"""
def f(A: T.Buffer(({n},), "{dtype}"), S: T.Buffer(({n},), "{dtype}"), O: T.Buffer((2, {n}), "{dtype}")):
    for i in range({n}):
        O[0, i] = A[i] << S[i]
        O[1, i] = A[i] >> S[i]
""")
        )
        O = np.zeros((2, n), dtype)
        kernel(A, S, O)
        pairs = list(zip(A.tolist(), S.tolist(), strict=True))
        assert [v % 2**bits for v in O[0].tolist()] == [(a << s) % 2**bits for a, s in pairs], dtype
        assert O[1].tolist() == [a >> s for a, s in pairs], dtype
