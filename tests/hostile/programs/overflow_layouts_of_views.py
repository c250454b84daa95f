"""Views whose strides and offsets are passed or loaded: positions by them leave int32, elements do not leave the memory."""

# expect: ok
import mmap

import numpy as np

import tirlower as tl
from tirlower.script import parse

LOW, HIGH = -(2**31), 2**31 - 1


def outcome(run, *args):
    try:
        run(*args)
    except (IndexError, tl.TirError) as error:
        return type(error).__name__ if isinstance(error, IndexError) else f"{error}"
    return args[-1].tolist()


SMALL = [
    'V = T.decl_buffer((2,), "int32", data=A.data, elem_offset=1, strides=(s,))\n    O[0] = V[k]',
    'V = T.Buffer((2,), "int32", data=A.data, elem_offset=k, strides=(s,))\n    O[0] = V[0]',
    'V = T.decl_buffer((2,), "int32", data=A.data, elem_offset=k, strides=(X[0],))\n    O[0] = V[0]\n    O[1] = V[1]',
    'V = T.decl_buffer((2, 2), "int32", data=A.data, elem_offset=s, strides=(-s, k))\n    O[0] = V[1, k]',
    'V = T.decl_buffer((2, 3), "int32", data=A.data, elem_offset=2, strides=(s, s))\n    O[0] = V[0, k]',
    'e: T.int32 = s + s\n    V = T.decl_buffer((2,), "int32", data=A.data, strides=(e,))\n    O[0] = V[k]',
    'V = T.decl_buffer((3,), "int32", data=A.data, strides=(T.min(s, 0),))\n    O[k] = V[k * 2]',
    'V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=k, strides=(s,))\n'
    "    for i in T.vectorized(4):\n        O[i] = V[i]",
    'V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=3, strides=(s,))\n    V[k] = 5\n    O[0] = A[k]',
    'q = T.bind(A.data)\n    V = T.decl_buffer((2,), "int32", data=q, elem_offset=s * s, strides=(s,))\n    O[0] = V[k]',
]
HEAD = """
@T.prim_func
def main(s: T.int32, k: T.int32, X: T.Buffer((4,), "int32"), A: T.Buffer((8,), "int32"), O: T.Buffer((4,), "int32")):
    """
for body in SMALL:
    func = parse(HEAD + body + "\n")
    kernel = tl.build(func)
    for s in (0, 1, -1, LOW, LOW + 1, HIGH, HIGH - 1, 2**30, -(2**30), 2**16):
        for k in (0, 1):
            X, A = np.full(4, s, "int32"), np.arange(8, dtype="int32")
            native = outcome(kernel, s, k, X, A, np.zeros(4, "int32"))
            wanted = outcome(lambda *args, func=func: tl.interpret(func, *args), s, k, X, A, np.zeros(4, "int32"))
            assert native == wanted, (body, s, k, native, wanted)

# Memory of more elements than int32 counts: what is inside of it is found.
n = 2**32 + 4096
memory = np.frombuffer(mmap.mmap(-1, n), "int8")
memory[2**31 + 3], memory[2 * HIGH + 3] = 7, 9
HEAD = """
@T.prim_func
def main(s: T.int32, k: T.int32, n: T.int64, A: T.Buffer((n,), "int8"), O: T.Buffer((4,), "int8")):
    """
LARGE = [
    ('V = T.decl_buffer((8,), "int8", data=A.data, elem_offset=k)\n    O[0] = V[4]', 7),
    (
        'V = T.decl_buffer((8,), "int8", data=A.data, elem_offset=k)\n    for i in range(4, 6):\n        O[i - 4] = V[i]',
        7,
    ),
    ('V = T.decl_buffer((3, k), "int8", data=A.data)\n    O[0] = V[2, 3]', 9),
    ('V = T.decl_buffer((3, k), "int8", data=A.data)\n    for i in range(3):\n        O[2 - i] = V[i, 3]', 9),
    ('V = T.decl_buffer((3,), "int8", data=A.data, elem_offset=s, strides=(k,))\n    O[0] = V[2]', 9),
    (
        'V = T.decl_buffer((8,), "int8", data=A.data, elem_offset=k)\n    for i in T.vectorized(4):\n        O[i] = V[i + 4]',
        7,
    ),
]
for body, wanted in LARGE:
    out = np.zeros(4, "int8")
    tl.build(parse(HEAD + body + "\n"))(3, HIGH, n, memory, out)
    assert out[0] == wanted, (body, out)
