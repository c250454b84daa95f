"""Shapes whose products pass 2**31 and 2**63 in the text of a kernel: sizes are exact, or refused."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for count, extent in ((3, 2**20), (5, 2**16), (2, 2**31 - 1), (3, 2**31 - 1)):
    shape = ", ".join([str(extent)] * count)
    zeros = ", ".join(["i"] * count)
    try:
        kernel = tl.build(
            parse(f"""
def f(A: T.Buffer((4,), "int32")):
    W = T.alloc_buffer(({shape},), "int32")
    for i in range(4):
        W[{zeros}] = i * 3 + 1
        A[i] = W[{zeros}]
""")
        )
        A = np.zeros(4, "int32")
        kernel(A)
    except (MemoryError, tl.TirError) as error:
        assert len(str(error)) > 10
        continue
    assert A.tolist() == [1, 4, 7, 10], (count, extent, A)
small = tl.build(
    parse("""
def g(n: T.int32, A: T.Buffer((4,), "int32")):
    W = T.alloc_buffer((n, n, n), "int32")
    for i in range(4):
        W[i, i, i] = i * 5 - 1
    for i in range(4):
        A[i] = W[i, i, i]
""")
)
for n in (4, 7, 2**16, 2**22, 2**31 - 1, 0, -1):
    A = np.zeros(4, "int32")
    try:
        small(n, A)
    except (MemoryError, IndexError, ValueError, OverflowError) as error:
        assert n not in (4, 7), error
        continue
    assert n >= 4 and A.tolist() == [-1, 4, 9, 14], (n, A)
