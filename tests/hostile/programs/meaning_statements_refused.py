"""What a script says twice, or falsely: each is an error of the script that points at it, none is taken."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.script import parse

HEAD = "@T.prim_func\ndef f(A: T.Buffer((8,), 'int32'), B: T.Buffer((8,), 'int32'), h: T.handle, n: T.int32):\n"
BLOCK = "    for i in range(8):\n        with T.block('b'):\n            v = T.axis.spatial(8, i)\n{}            B[v] = A[v]\n"
WRONG = {
    "two buffers of a name": "    L = T.alloc_buffer((4,), 'int32')\n    L = T.alloc_buffer((4,), 'int32')\n    L[0] = 1\n",
    "a buffer of a parameter's name": "    A = T.alloc_buffer((4,), 'int32')\n    A[0] = 1\n",
    "two matches of a handle": "    X = T.match_buffer(h, (4,), 'int32')\n    Y = T.match_buffer(h, (4,), 'int32')\n    X[0] = Y[0]\n",
    "a buffer copied": "    B = A\n    B[0] = 1\n",
    "an axis twice": BLOCK.format("            v = T.axis.spatial(8, i)\n"),
    "two reads": BLOCK.format("            T.reads(A[v])\n            T.reads(A[v])\n"),
    "two writes": BLOCK.format("            T.writes(B[v])\n            T.writes(B[v])\n"),
    "two attributes": BLOCK.format("            T.block_attr({'a': 1})\n            T.block_attr({'a': 2})\n"),
    "two wheres": BLOCK.format("            T.where(i < 4)\n            T.where(i < 8)\n"),
    "a return of a statement": "    return T.evaluate(0)\n",
    "a return of a loop": "    return T.serial(4)\n",
    "a constant too large": "    A[0] = 2**31\n",
    "a negative for unsigned": "    L = T.alloc_buffer((4,), 'uint8')\n    L[0] = -1\n    A[0] = L[0]\n",
    "300 for uint8": "    x: T.uint8 = 300\n    A[0] = x\n",
    "a constant of T": "    A[0] = T.int8(200)\n",
    "a float for integers": "    A[0] = 1.5\n",
    "a false match": "    with T.block('r'):\n        M = T.match_buffer(A[0:4], (8,), 'int32')\n        M[7] = 1\n",
    "a match of another type": "    with T.block('r'):\n        M = T.match_buffer(A[0:4], (4,), 'float32')\n        M[0] = 1.0\n",
    "a view too large": "    V = T.Buffer((9,), 'int32', data=A.data)\n    V[8] = 1\n",
    "a view too far": "    V = T.decl_buffer((4,), 'int32', data=A.data, elem_offset=6)\n    V[3] = 1\n",
    "a view in front": "    V = T.decl_buffer((4,), 'int32', data=A.data, elem_offset=-1)\n    V[0] = 1\n",
    "a view of another type": "    V = T.decl_buffer((8,), 'float64', data=A.data)\n    V[7] = 1.0\n",
    "a divisor of zero": "    A[0] = 1 // 0\n",
    "a remainder by zero": "    A[0] = n % 0\n",
    "a statement of a value": "    A[0]\n    B[0] == 1\n    X = 3\n    X[0] = 1\n",
}
for name, body in WRONG.items():
    try:
        func = parse(HEAD + body)
        made = tl.build(func)
        if "view" in name:
            made(np.zeros(8, "int32"), np.zeros(8, "int32"), np.zeros(4, "int32"), 3)
    except TirError as error:
        text = str(error)
        assert "Traceback" not in text and len(text) > 20, (name, text)
        if name == "a divisor of zero":
            assert "1 // 0" in text or "1 divided by 0" in text or "division by zero" in text, text
            assert "%" not in text, text
    else:
        raise SystemExit(f"{name} was taken:\n{func}")
for text in (
    "@T.prim_func(private=True)\ndef f(A: T.Buffer((8,), 'int32')):\n    T.func_attr({'global_symbol': 'g'})\n    A[0] = 1\n",
    "def f(A: T.Buffer((8,), 'int32'), A: T.int32):\n    A[0] = 1\n",
    "def f(A: T.Buffer((-1,), 'int32')):\n    A[0] = 1\n",
    "def f(A: T.Buffer((8,), 'int33x')):\n    A[0] = 1\n",
):
    try:
        made = tl.build(parse(text))
    except TirError:
        continue
    raise SystemExit(f"taken: {text}")
