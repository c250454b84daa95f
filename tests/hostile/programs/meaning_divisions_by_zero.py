"""Divisions by data that is zero end the call, also where their value decides nothing, or is that of `x // x`."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

HEAD = """
@T.prim_func
def main(s: T.int32, k: T.int32, X: T.Buffer((4,), "int32"), A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "int32")):
    """
BODIES = [
    "O[0] = s // s",
    "O[0] = s % s",
    "O[0] = (0 * k) // s",
    "O[0] = (k - k) % X[0]",
    "O[0] = T.truncdiv(s, s)",
    "O[0] = k // s - k // s",
    "O[1] = (k // s) * s + k % s",
    "O[0] = (s * 3) // (s * 3)",
    'O[0] = T.Cast("int32", T.Cast("uint8", s) % T.Cast("uint8", s))',
    "O[0] = T.Select(k // s > 2, k, k)",
    "O[0] = T.Select(k > 5, k // s, 1)",
    "O[0] = T.Select(k > 5, A[k % 8], k % s)",
    "x = T.Select(k > 5, s // s, k)\n    O[x % 8] = 1",
    "O[0] = T.if_then_else(k > 5, 7, k // s)",
    "O[0] = T.if_then_else(k > 5, k // s, 0) * 0",
    "O[0] = T.bitwise_and(k // s, 0)",
    "O[0:4] = T.Broadcast(k // s - k // s, 4)",
    "O[1] = k // s\n    O[1] = 3",
    "O[s // s] = 3",
    "O[0] = A[s // s]",
    "x = k // s\n    O[0] = 1",
    "x = k // s\n    if k > 100:\n        O[0] = x",
    "b: T.bool = k // s > 2\n    if k == 77:\n        if b:\n            O[0] = 1",
    "if k // s > 3 and k % s < 2:\n        O[2] = O[2]",
    "if k // s > 2147483647:\n        O[0] = 9",
    "if k == 1000 or k // s > 2147483647:\n        O[0] = 9",
    "if k == 1000 and k // s > 3:\n        O[0] = O[0]",
    "for i in range(k // s):\n        O[2] = O[2]",
    "for i in range(0, s % s):\n        O[i] = 2",
    "for i in range(3):\n        O[i] = i + 0 * (k % X[i])",
    "for i in T.vectorized(4):\n        O[i] = (X[i] - X[i]) // X[i]",
    "for i in T.parallel(4):\n        O[i] = s // s",
    "for i in T.unroll(4):\n        O[i] = (s + i) // (s + i)",
    'L = T.alloc_buffer((1,), "int32")\n    L[0] = k // s\n    L[0] = 3\n    O[0] = L[0]',
    'V = T.decl_buffer((2,), "int32", data=A.data, elem_offset=s // s)\n    O[0] = V[0]',
    'V = T.decl_buffer((2,), "int32", data=A.data, elem_offset=s // s)\n    O[0] = 3',
    "if s != 0:\n        O[0] = s // s + (k - k) // s",
    "m: T.int32 = T.int32(-1)\n    if k // s >= 3 and m >= 0:\n        O[0] = 9",
    "m: T.int32 = T.int32(-1)\n    if k // s >= 3 or m < 0:\n        O[0] = 9",
    "m: T.int32 = T.int32(0)\n    O[0] = (k // s) * m",
    "for i in T.unroll(4):\n        if k // s >= i and i > 7:\n            O[i] = 2",
    "for i in T.unroll(4):\n        O[i] = (k // s) * (i - i)",
    "m: T.int32 = T.int32(-1)\n    if m >= 0 and k // s >= 3:\n        O[0] = 9",
]


def outcome(run, s, k):
    out = np.zeros(8, "int32")
    try:
        run(s, k, np.full(4, s, "int32"), np.arange(8, dtype="int32"), out)
    except tl.TirError as error:
        assert "division by zero" in str(error), error
        return "division by zero"
    return out.tolist()


for body in BODIES:
    func = parse(HEAD + body + "\n")
    kernel = tl.build(func)
    for s in (0, 3):
        for k in (0, 1, 77):
            native, wanted = outcome(kernel, s, k), outcome(lambda *args, func=func: tl.interpret(func, *args), s, k)
            assert native == wanted, (body, s, k, native, wanted)
