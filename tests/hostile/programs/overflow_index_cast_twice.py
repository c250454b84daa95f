"""A cast takes what its type holds of an index past its own: two of them are not the number itself."""
# expect: ok

import functools

import numpy as np

import tirlower as tl
from tirlower.script import parse

INDICES = ("6 * -2147483648", "i * 1073741824", "i * 1073741825 * 3", "2147483647 + i", "-2147483647 - i * 4")
CASTS = (
    'T.Cast("int32", T.Cast("uint32", {}))',
    'T.Cast("int32", T.Cast("int64", {}))',
    'T.Cast("int32", T.Cast("uint64", {}))',
    'T.Cast("int64", T.Cast("uint64", {}))',
    'T.Cast("int64", T.Cast("int32", T.Cast("uint32", {})))',
    'T.Cast("int64", T.Cast("uint8", T.Cast("uint32", {})))',
)
for index in INDICES:
    for cast in CASTS:
        func = parse(f"""
def f(A: T.Buffer((16,), "int32"), O: T.Buffer((16,), "int32")):
    for i in range(9):
        e = {cast.format(index)}
        if e < 16:
            O[i] = A[e]
""")
        values = np.arange(1, 17, dtype="int32")
        try:
            kernel = tl.build(func)
        except tl.LegalityError:
            kernel = None  # it goes outside at once: as the interpreter says
        ended = []
        for run in (functools.partial(tl.interpret, func), kernel):
            out = np.zeros(16, "int32")
            try:
                if run is None:
                    raise IndexError
                run(values, out)
                ended.append(out.tolist())
            except IndexError:
                ended.append("IndexError")
        assert ended[0] == ended[1], (index, cast, ended)
