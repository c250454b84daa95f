"""Thousands of statements in a row, with names between them, a return among them, and an error near their end."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import RuntimeAssertError
from tirlower.script import parse

N = 1000
lines = []
for k in range(N):
    lines.append(f"    x{k} = T.bind(A[{(k * 7) % N}] * 2 + {k})")
    lines.append(f"    B[{k}] = x{k} + x{k // 2}")
lines.append("    if n == 1:\n        return")
lines.append("    assert n < 3, 'too large'")
lines.append("    B[0] = -1")
kernel = tl.build(
    parse(
        f'@T.prim_func\ndef f(A: T.Buffer(({N},), "int32"), B: T.Buffer(({N},), "int32"), n: T.int32):\n'
        + "\n".join(lines)
        + "\n"
    )
)
a, b = np.arange(N, dtype="int32") % 97, np.zeros(N, "int32")
x = a[(np.arange(N) * 7) % N] * 2 + np.arange(N)
want = x + x[np.arange(N) // 2]
kernel(a, b, 1)
assert (b == want).all()
kernel(a, b, 2)
assert b[0] == -1 and (b[1:] == want[1:]).all()
try:
    kernel(a, b, 3)
except RuntimeAssertError as error:
    assert "too large" in str(error)
else:
    raise AssertionError("the assertion was lost")
