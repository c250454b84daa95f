"""Arithmetic on numbers and on names bound to them is exact, on what is converted wraps: natively, interpreted and in proofs."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

HEAD = """
@T.prim_func
def main(s: T.int32, O: T.Buffer((8,), "int32")):
    """
BODIES = [
    "e: T.int32 = T.abs(-2147483647)\n    if e + 1 <= 16:\n        ",
    "e = 2147483647\n    if e + 1 <= 16:\n        ",
    "e = 2147483647\n    if e + 1 > 16:\n        ",
    "e: T.int32 = 2147483647\n    f: T.int32 = e + 1\n    if f <= 16:\n        ",
    "e: T.int32 = T.max(2147483647, 3)\n    if e + 1 < 0:\n        ",
    "e: T.int32 = T.bitwise_xor(2147483647, 0)\n    if e + 10 < 0:\n        ",
    "e: T.int32 = T.clz(1) * 100000000\n    if e + e + e < 0:\n        ",
    "e: T.int32 = T.clz(1) * 100000000\n    if e + e + e > 0:\n        ",
    'e: T.int32 = T.Cast("int32", T.float64(2147483646.5))\n    if e + 10 < 0:\n        ',
    "e: T.int32 = 65536\n    if e * e - 1 < 0:\n        ",
    "e: T.int32 = -2147483648\n    if -e < 0:\n        ",
    "e: T.int32 = -2147483648\n    if -e - 1 > 0:\n        ",
    "e: T.int64 = T.int64(9223372036854775807)\n    if e + T.int64(1) < T.int64(0):\n        ",
    "e: T.int32 = 2147483647\n    if (e + 5) // 65536 < 0:\n        ",
]


def outcome(run):
    out = np.zeros(8, "int32")
    try:
        run(0, out)
    except IndexError:
        return "IndexError"
    return out.tolist()


for body in BODIES:
    for store in ("O[1] = 1", "O[3000 + s] = 1"):
        func = parse(HEAD + body + store + "\n")
        native, wanted = outcome(tl.build(func)), outcome(lambda *args, func=func: tl.interpret(func, *args))
        assert native == wanted, (body, store, native, wanted)

# Indices do not overflow, whatever is left of them: such a branch may run or not, and never reaches outside.
for test in ("> 16", "<= 16"):
    for term in ("(i + 2147483647) - i + 1", "T.max((i + 2147483647) - i, 0) + 1", "(i + e) - i + 1", "e + i + 1"):
        text = f"e: T.int32 = 2147483647\n    for i in range(8):\n        if {term} {test}:\n            O[i + 300000000] = 1\n"
        try:
            outcome(tl.build(parse(HEAD + text)))
        except tl.LegalityError:
            pass
