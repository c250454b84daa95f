"""Recursion of prim funcs, direct, mutual and in parallel workers, in threads with large and small stacks."""

# expect: ok
import sys
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse

module = tl.build(
    parse("""
@I.ir_module
class M:
    @T.prim_func
    def down(n: T.int64) -> T.int64:
        if n <= 0:
            return T.int64(0)
        return M.down(n - T.int64(1)) + T.int64(1)

    @T.prim_func
    def even(n: T.int64, A: T.Buffer((4,), "float32")) -> T.int64:
        if n <= 0:
            return T.int64(1)
        return M.odd(n - T.int64(1), A.data)

    @T.prim_func
    def odd(n: T.int64, a: T.Buffer((4,), "float32")) -> T.int64:
        L = T.alloc_buffer((900,), "float32", scope="local")
        H = T.alloc_buffer((5000,), "float32")
        for i in range(900):
            L[i] = a[i % 4]
            H[i] = L[(i * 7) % (i + 1)]
        if n <= 0:
            return T.int64(0)
        r = T.bind(M.even(n - T.int64(1), a.data))
        a[1] = a[1] + L[(n * T.int64(13)) % T.int64(900)] + H[n % T.int64(900)]
        return r

    @T.prim_func
    def spread(n: T.int64, out: T.Buffer((64,), "int64")):
        for i in T.parallel(64, annotations={"tir.num_threads": 2, "tir.unchecked": "no state"}):
            out[i] = M.down(n + T.Cast("int64", i))
""")
)


def stops(call, *args) -> None:
    try:
        call(*args)
    except RecursionError as error:
        assert "no stack is left" in str(error), error
    else:
        raise AssertionError("it went on for ever")


def attack(depth: int) -> None:
    assert module["down"](depth) == depth
    out = np.zeros(64, "int64")
    module["spread"](depth, out)
    assert (out == depth + np.arange(64)).all()
    a = np.ones(4, "float32")
    assert module["even"](4, a) == 1 and a[1] > 1
    for n in (10**7, 2**62):
        stops(module["down"], n)
        stops(module["even"], n, a)
        stops(module["spread"], n, out)
    assert module["down"](depth) == depth


failed = []


def run(depth: int) -> None:
    try:
        attack(depth)
    except BaseException as error:
        failed.append(error)
        raise


attack(1000)
for size, depth in ((0, 1000), (512, 500), (64, 20)):
    threading.stack_size(size * 1024)
    thread = threading.Thread(target=run, args=(depth,))
    thread.start()
    thread.join()
sys.exit(1 if failed else 0)
