"""Scratch memory is cut to what is accessed: what a condition says holds under it, not where the memory is allocated."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

BODIES = {
    "guarded by the library": "c[n] = 9",
    "guarded": "if 0 <= n and n < 3:\n        c[n] = 9",
    "asserted": 'assert 0 <= n and n < 3, "no"\n    c[n] = 9',
    "two": "if 5 <= n and n < 9:\n        c[n] = 9\n        c[n + 3] = 8",
    "in a loop": "for j in range(3):\n        if n + j < 8 and n >= 0:\n            c[n + j] = j",
}
VALUES = (0, 1, 2, 3, -1, 5, 29, 30, 100, -100, 2**31 - 1, -(2**31), 2**31 - 3)

for name, body in BODIES.items():
    for size in (10, 3000):
        func = parse(f"""
@T.prim_func
def f(O: T.Buffer((4,), "int32"), n: T.int32):
    c = T.alloc_buffer(({size},), "int32")
    c[2] = 1
    {body}
    for i in range(4):
        if c[2] + 3 > i:
            O[i] = c[2]
""")
        kernel = tl.build(func)
        for n in VALUES:
            results = []
            for run in (kernel, lambda *args, func=func: tl.interpret(func, *args)):
                out = np.zeros(4, "int32")
                try:
                    run(out, n)
                    results.append((out.tolist(), None))
                except tl.TirError as error:
                    results.append((out.tolist(), type(error).__name__))
                except (IndexError, AssertionError) as error:
                    results.append((out.tolist(), type(error).__name__))
            assert results[0] == results[1], (name, size, n, results)
