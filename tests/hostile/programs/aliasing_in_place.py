"""Functions that work in place, and functions that seem to: one array for what is read and what is written."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

N = 301
HEAD = """
@T.prim_func
def f(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")):
"""
BODIES = [
    "for i in T.parallel(N):\n    C[i] = A[i] + B[i]",
    "for i in T.parallel(N):\n    C[N - 1 - i] = A[N - 1 - i] * B[N - 1 - i]",
    "for i in range(N - 1):\n    C[i] = A[i + 1] + B[i]",
    "for i in range(1, N):\n    C[i] = A[i - 1] + B[i]",
    "for i in T.parallel(N):\n    C[i] = A[N - 1 - i] + B[i]",
    "for i in range(N):\n    C[i] = A[i] + B[0]",
    "for i in T.parallel(N):\n    C[i] = A[i]\nfor i in T.parallel(N):\n    C[i] = C[i] + A[i] + B[i]",
    "for k in range(3):\n    for i in T.parallel(N):\n        C[i] = A[i] + B[i]",
    "for i in range(N):\n    B[i] = A[i]\n    C[i] = A[i] + 1.0",
]


def serial(body: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    code = compile(body.replace("T.parallel", "range"), "body", "exec")
    exec(code, {"A": a, "B": b, "C": c, "N": N})


for body in BODIES:
    text = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    kernel = tl.build(parse(text.replace("N", str(N))))
    for which in ("aba", "abb", "aaa", "aab", "bbb", "abc"):
        results = []
        for run in (kernel, lambda *arrays, body=body: serial(body, *arrays)):
            arrays = {name: np.random.default_rng(5 + ord(name)).random(N).astype("float32") for name in "abc"}
            run(*(arrays[name] for name in which))
            results.append(np.stack(list(arrays.values())))
        assert np.array_equal(*results), (body, which)
