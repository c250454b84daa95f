"""Views of pointers that are bound to names, of other types, offsets and directions: none leaves its memory."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

# The view, and how many elements it may have from its start.
VIEWS = (
    ('q = T.bind(A.data)\n    V = T.Buffer((1000000,), "int32", data=q)', 16),
    ('q: T.handle("int32") = T.address_of(A[11])\n    V = T.decl_buffer((1000000,), "int32", data=q)', 5),
    ('V = T.Buffer((1000000,), "int32", data=A.data, elem_offset=-3)', 0),
    ('V = T.Buffer((1000000,), "int32", data=A.data, strides=(-1,), elem_offset=9)', 10),
    ('V = T.Buffer((1000000,), "int32", data=A.data, strides=(5,))', 4),
    ('V = T.Buffer((1000000,), "int64", data=A.data)', 8),
    ('V = T.Buffer((1000000,), "int8", data=A.data)', 64),
    ('t = T.alloc_buffer((16,), "int32")\n    V = T.Buffer((1000000,), "int32", data=t.data)', 16),
)
for view, count in VIEWS:
    kernel = tl.build(
        parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), k: T.int32):
    {view}
    V[k] = V[k] * 2
""")
    )
    for k in (*range(count), count, 999_999):
        try:
            kernel(np.arange(1, 17, dtype="int32"), k)
            stopped = False
        except IndexError:
            stopped = True
        assert stopped == (k >= count), (view, k)
