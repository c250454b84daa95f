"""Blocks of more threads than any GPU has, and one axis with two extents: refused where they are built."""

# expect: ok
import tirlower as tl
from tirlower.script import parse

WIDE = """
def f(A: T.Buffer((4096,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(2048, thread="threadIdx.x"):
            A[bx * 2048 + tx] = tx
"""
TWICE = """
def f(A: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        for ty in T.thread_binding(64, thread="threadIdx.x"):
            A[ty] = tx
"""
for text in (WIDE, TWICE):
    try:
        tl.build(parse(text), "nvptx -arch=sm_80")
    except tl.TirError as error:
        assert str(error).startswith("error"), error
    else:
        raise AssertionError(text)
