"""Tiles through views that move: disjoint ones run at once and right, others are refused."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse


def text(offset: str, strides: str = "") -> str:
    return f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in T.parallel(8):
        V = T.decl_buffer((8,), "int32", data=A.data, elem_offset={offset}{strides})
        for j in range(8):
            V[j] = i * 100 + j
"""


a = np.zeros(64, "int32")
tl.build(parse(text("i * 8")))(a)
np.testing.assert_array_equal(a.reshape(8, 8), np.add.outer(np.arange(8) * 100, np.arange(8)))
tl.build(parse(text("i", ", strides=(8,)")))(a)
np.testing.assert_array_equal(a.reshape(8, 8).T, np.add.outer(np.arange(8) * 100, np.arange(8)))
for wrong in (
    text("i * 7"),
    text("i"),
    text("56 - i * 7"),
    text("0", ", strides=(i + 1,)"),
    text("i * 8", ", strides=(2,)"),
):
    try:
        tl.build(parse(wrong))
    except tl.LegalityError:
        continue
    raise SystemExit(wrong)
