"""Floats that fit become integers by dropping the fraction, up to the last that fits, in every width."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

for source in ("float32", "float64"):
    for target in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"):
        info = np.iinfo(target)
        top = np.nextafter(np.array(info.max + 1, source), np.array(0, source))
        low = np.array(info.min, source)
        A = np.array([0.0, -0.0, 0.99, -0.99, 1.5, 100.999, 7.0, top, low], source)
        if info.min == 0:
            A[3] = 0.25
        kernel = tl.build(
            parse(f"""
def f(A: T.Buffer((9,), "{source}"), O: T.Buffer((9,), "{target}")):
    for i in range(9):
        O[i] = T.Cast("{target}", A[i])
""")
        )
        O = np.full(9, 55, target)
        kernel(A, O)
        assert O.tolist() == [int(x) for x in A.tolist()], (source, target, O, A)
