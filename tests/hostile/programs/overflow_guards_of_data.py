"""Conditions on doubled, shifted and shortened values, and subscripts that wrap on their way: natively as in NumPy."""

# expect: ok
import functools

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def doubled(s: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if s + s >= 0:
        O[2] = B[5]


@T.prim_func
def below(e: T.int32, s: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if e - s >= 0 and s >= 1 and e < 16:
        O[1] = B[e]


@T.prim_func
def widened(s: T.int32, n: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    O[3] = B[T.Cast("int64", (s + 4) - T.Select(s == n, s, -2147483648))]


@T.prim_func
def limits(B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32"), k: T.int64):
    e: T.int64 = (k - T.int64(2**63 - 1) - T.int64(1)) << T.int64(2)
    O[0] = B[e]


@T.prim_func
def negated(x: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if -x <= 0 and x < 16:
        O[0] = B[x]
    if T.abs(x) < 16:
        O[1] = B[T.abs(x)]


@T.prim_func
def product(x: T.int32, y: T.int32, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if x >= 0 and y >= 1 and x * y < 16:
        O[0] = B[x]


@T.prim_func
def loaded(X: T.Buffer((2,), "int64"), B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if X[0] <= T.int64(3) and X[0] + X[1] >= T.int64(3) and X[1] >= T.int64(0):
        O[0] = B[X[0]]


@T.prim_func
def shortened(x: T.int64, B: T.Buffer((16,), "int32"), O: T.Buffer((4,), "int32")):
    if x < T.int64(16):
        O[0] = B[T.Cast("int32", x)]
    if T.Cast("int32", x) >= 0 and T.Cast("int32", x) < 16:
        O[1] = B[x]


B = np.arange(16, dtype="int32") * 11 + 3
built = functools.cache(tl.build)


def same(func, *args) -> None:
    """The same values, or an error from both."""
    native, seen = np.full(4, -7, "int32"), np.full(4, -7, "int32")
    kernel, failed, refused = built(func), False, False
    call = dict(zip([p.name for p in func.params], args, strict=True))
    try:
        kernel(*[native if value is None else value for value in call.values()])
    except IndexError:
        failed = True
    try:
        tl.interpret(func, *[seen if value is None else value for value in call.values()])
    except (tl.InterpreterError, IndexError):
        refused = True
    assert failed == refused, (func.name, args, failed, refused)
    assert (native == seen).all(), (func.name, args, native, seen)


ENDS = [-(2**31), -(2**31) + 2, -(2**30), -17, -1, 0, 1, 5, 15, 16, 2**30, 2**31 - 17, 2**31 - 4, 2**31 - 2, 2**31 - 1]
for x in ENDS:
    same(doubled, x, B, None)
    same(negated, x, B, None)
    for y in ENDS:
        same(widened, x, y, B, None)
        same(below, x, y, B, None)
        same(product, x, y, B, None)
LONG = [*ENDS, -(2**63), -(2**63) + 1, 2**63 - 1, 2**62, -(2**62) + 3, 2**32 + 3, 2**33 - 1]
for x in LONG:
    same(limits, B, None, x)
    same(shortened, x, B, None)
    for y in LONG:
        same(loaded, np.array([x, y], "int64"), B, None)
