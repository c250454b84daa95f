"""Allocations, asserts and jumps between loops, empty loops with shifts, pointers bound in blocks: asked and built."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.script import parse

HEAD = "def f(A: T.Buffer((8, 8), 'int32'), B: T.Buffer((8, 8), 'int32'), n: T.int32):\n"
BODIES = {
    "allocation": "for i in range(8):\n    L = T.alloc_buffer((1,), 'int32')\n    L[0] = 0\n    for j in range(8):\n        L[0] = L[0] + A[i, j]\n        B[i, j] = L[0]",
    "assert": "for i in range(8):\n    assert A[i, 0] < n, 'large'\n    for j in range(8):\n        A[j, 0] = B[i, j]",
    "let": "for i in range(8):\n    x: T.int32 = A[i, 0]\n    for j in range(8):\n        A[j, 0] = A[j, 0] + x",
    "continue": "for i in range(8):\n    if A[i, 0] > 3:\n        continue\n    for j in range(8):\n        A[j, 0] = A[j, 0] + 1",
    "break": "for i in range(8):\n    for j in range(8):\n        if A[i, j] > n:\n            break\n        B[i, j] = A[i, j]",
    "empty shift": "for i in range(0):\n    for j in range(0):\n        A[i >> j, 0] = B[i << j, j]",
    "negative shift": "for i in range(4, 0):\n    A[i >> (i - 8), 0] = 1",
    "empty division": "for i in range(0):\n    A[4 // i, 4 % i] = 1",
    "pointer in a block": "for i in range(8):\n    with T.block('b'):\n        v = T.axis.spatial(8, i)\n        p = T.bind(A.data)\n        V = T.decl_buffer((64,), 'int32', data=p)\n        B[v, 0] = V[v]\n        V[v + 8] = B[v, 0]",
    "pointer twice": "p = T.bind(A.data)\nq = T.bind(p)\nV = T.decl_buffer((64,), 'int32', data=q)\nfor i in range(8):\n    A[i, 0] = V[63 - i * 8] + i",
    "two sums": "for i in range(8):\n    for j in range(8):\n        A[i, 0] += B[i, j]\n        A[0, 0] += B[7 - i, j]",
}
rng = np.random.default_rng(11)
for name, body in BODIES.items():
    for kind in ("range", "T.parallel", "T.vectorized", "T.unroll"):
        text = HEAD + "".join(f"    {line}\n" for line in body.replace("in range(", f"in {kind}(", 1).splitlines())
        try:
            func = parse(text)
            kernel = tl.build(func)
        except TirError as error:
            assert kind != "range", (name, error)
            continue
        serial = parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
        for n in (-9, 2, 99):
            A, B = rng.integers(-9, 9, (2, 8, 8)).astype("int32")
            shown = A.copy(), B.copy()
            failed = []
            for run, arrays in ((kernel, (A, B)), (lambda *a: tl.interpret(serial, *a), shown)):  # noqa: B023
                try:
                    run(*arrays, n)
                except (TirError, AssertionError, ZeroDivisionError):
                    failed.append(run)
            assert len(failed) in (0, 2), (name, kind, n)
            if not failed:
                np.testing.assert_array_equal(A, shown[0], f"{name} {kind}")
                np.testing.assert_array_equal(B, shown[1], f"{name} {kind}")
