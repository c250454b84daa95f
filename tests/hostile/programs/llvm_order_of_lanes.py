"""Long vector statements that read what they write: all lanes are read before any is written."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for n in (24, 100, 257):
    kernel = tl.build(
        parse(f"""
@T.prim_func
def f(A: T.Buffer(({2 * n},), "int32"), I: T.Buffer(({n},), "int32")):
    A[1:{n + 1}] = A[0:{n}]
    A[0:{n}] = A[T.Ramp({n} - 1, -1, {n})] + A[0:{n}]
    A[T.Ramp(0, 2, {n})] = A[0:{n}]
    A[0:{n}] = A[0:{n}] + T.Broadcast(A[3], {n})
    A[I[0:{n}]] = A[0:{n}] * T.Broadcast(A[I[2]], {n})
    I[0:{n}] = I[I[0:{n}]]
    A[T.Ramp({n} + 7, -1, {n})] = A[8:{n + 8}]
""")
    )
    rng = np.random.default_rng(n)
    a, index = rng.integers(-9, 9, 2 * n).astype("int32"), rng.permutation(n).astype("int32")
    want, places = a.copy(), index.copy()
    want[1 : n + 1] = want[:n].copy()
    want[:n] = want[:n][::-1] + want[:n]
    want[: 2 * n : 2] = want[:n].copy()
    want[:n] = want[:n] + want[3]
    want[places] = want[:n] * want[places[2]]
    places[:] = places[places]
    want[8 : n + 8] = want[8 : n + 8][::-1].copy()
    kernel(a, index)
    assert (a == want).all() and (index == places).all(), n
