"""Between every two integer types, and from integers to floats: what NumPy's astype gives, at the ends of the types."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
for source in INTEGERS:
    info = np.iinfo(source)
    middle = [
        info.max // 2,
        info.max // 2 + 1,
        info.max - 1,
        info.max,
        info.min,
        info.min + 1,
        0,
        1,
        100,
        16777217 % info.max,
    ]
    A = np.array(middle, source)
    targets = [name for name in [*INTEGERS, "float16", "float32", "float64"] if name != source]
    params = ", ".join(f'O{k}: T.Buffer((10,), "{name}")' for k, name in enumerate(targets))
    body = "\n".join(f'        O{k}[i] = T.Cast("{name}", A[i])' for k, name in enumerate(targets))
    kernel = tl.build(parse(f'def f(A: T.Buffer((10,), "{source}"), {params}):\n    for i in range(10):\n{body}\n'))
    found = [np.zeros(10, name) for name in targets]
    kernel(A, *found)
    for name, got in zip(targets, found, strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, A.astype(name), f"{source} to {name}")
