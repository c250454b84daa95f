"""Threads and tasks enter one context, build under it, and leave in any order; nothing of theirs stays in it."""

# expect: ok
import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tirlower as tl
from tirlower.script import tir as T


@T.prim_func
def affine(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[7 - i] * 3 + i


def right():
    """Build, run, compare; whether the machine code came from the disk."""
    a, b = np.arange(8, dtype="int32") * 7 - 5, np.zeros(8, "int32")
    made = tl.build(affine)
    made(a, b)
    np.testing.assert_array_equal(b, a[::-1] * 3 + np.arange(8))
    return made.report().cached


class Watch:
    def run_before_pass(self, mod, info):
        pass


watch = Watch()
ctx = tl.PassContext(opt_level=3, trace=True, instruments=[watch])


def work(_):
    with ctx:
        right()
        assert tl.PassContext.current() is ctx
        low = tl.lower(affine)
        assert "B[i] = " in low.script()
        return list(ctx.ir_after)


with ThreadPoolExecutor(4) as pool:
    traces = list(pool.map(work, range(8)))
assert all(len(trace) > 5 for trace in traces)
assert ctx.instruments == [watch] and not ctx.ir_after and tl.PassContext.current() is not ctx


async def task(times):
    for _ in range(times):
        with ctx:
            await asyncio.sleep(0)
            assert tl.PassContext.current() is ctx
        await asyncio.sleep(0)


async def tasks():
    await asyncio.gather(task(2), task(3), task(5))


asyncio.run(tasks())
assert tl.PassContext.current() is not ctx
