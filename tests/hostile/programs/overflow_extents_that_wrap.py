"""Products of what is passed as extents: they wrap as NumPy's do, and nothing outside the array is touched."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def cube(n: T.int32, A: T.Buffer((64,), "int32")):
    for i in range(n * n * n):
        A[i] = A[i] + 1


@T.prim_func
def doubled(n: T.int32, m: T.Buffer((1,), "int32"), A: T.Buffer((64,), "int32")):
    for i in T.parallel(n * 2):
        if i < 64:
            A[i] = A[i] + 1
    for j in T.vectorized(m[0] + m[0]):
        if j < 64:
            A[j] = A[j] + 2


first, second = tl.build(cube), tl.build(doubled)
for n in (-(2**31), -70000, -3, 0, 1, 3, 4, 5, 2**11, 2**16, 2**22, 2**30, 2**30 + 1):
    trips = (n**3 + 2**31) % 2**32 - 2**31
    A = np.zeros(64, "int32")
    try:
        first(n, A)
        assert trips <= 64
    except IndexError:
        assert trips > 64, n
    assert A.tolist() == [int(i < trips) for i in range(64)], n
for n in (-(2**31), -(2**30) - 1, -1, 0, 20, 2**30, 2**31 - 1):
    trips = (2 * n + 2**31) % 2**32 - 2**31
    if trips < 1000:
        A = np.zeros(64, "int32")
        second(n, np.array([n], "int32"), A)
        assert A.tolist() == [3 * int(i < trips) for i in range(64)], n
