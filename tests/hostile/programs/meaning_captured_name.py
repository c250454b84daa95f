"""A name that Python knows outside is the function's own where the function assigns it."""

# expect: ScriptError

from tirlower.script import tir as T

scale = 3


@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = A[i] * scale  # noqa: F823
        scale = scale + 1
