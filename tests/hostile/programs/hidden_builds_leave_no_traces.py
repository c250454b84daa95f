"""Builds under the user's context: no timers, no traces and no memory of theirs stay; asm is the code that runs."""

# expect: ok
import gc
import re
import resource

import numpy as np

import tirlower as tl
from tirlower.script import parse


def function(k):
    return parse(
        f"def f{k}(A: T.Buffer(('n',), 'int32')):\n    for i in T.parallel(n):\n        A[i] = A[i] * {k % 50 + 2} - i\n"
    )


with tl.PassContext(opt_level=3, trace=True) as ctx:
    before = {key: repr(value) for key, value in vars(ctx).items()}
    tl.lower(function(1))
    seen = list(ctx.ir_after)
    kernel = tl.build(function(0))
    assert list(ctx.ir_after) == seen and kernel.ir_after, "a build's trace was left in the context"
    assert list(ctx.instruments) == [] and tl.PassContext.current() is ctx
assert tl.PassContext.current() is not ctx

# What asm shows is what runs: the constant of the program stands in it, and the symbol is called.
only = parse("def f(A: T.Buffer((1,), 'int32')):\n    A[0] = A[0] ^ 305419896\n")
kernel = tl.build(only)
a = np.zeros(1, "int32")
kernel(a)
assert a[0] == 305419896 and re.search(r"305419896|0x12345678", kernel.source("asm"))

# A while loop without effects is not taken to end, nor is one with them repeated.
counted = tl.build(
    parse("def f(A: T.Buffer((1,), 'int32'), n: T.int32):\n    k = 0\n    while k < n:\n        k += 1\n    A[0] = k\n")
)
for n in (-1, 0, 1, 1000):
    counted(a, n)
    assert a[0] == max(n, 0)


def build(first, last):
    for k in range(first, last):
        x = np.arange(5, dtype="int32")
        tl.build(function(k))(x)
        assert x.tolist() == [i * (k % 50 + 2) - i for i in range(5)]
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


start = build(0, 40)
assert build(40, 100) - start < 60 * 40_000, "each build keeps memory"
