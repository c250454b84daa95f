"""Many arrays of a function, with and without room for them on the stack: small threads, workers, functions in a chain."""

# expect: ok
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse


def arrays(count: int, size: int, parallel: bool = False) -> str:
    inside = "    for r in T.parallel(8):\n" if parallel else "    for r in range(8):\n"
    for k in range(count):
        inside += f'        L{k} = T.alloc_buffer(({size},), "int32", scope="local")\n'
    for k in range(count):
        inside += f"        for i in range({size}):\n            L{k}[(i * 7 + r) % {size}] = A[(i + {k}) % 64]\n"
    total = " + ".join(f"L{k}[i % {size}]" for k in range(count))
    return (
        '@T.prim_func\ndef f(A: T.Buffer((64,), "int32"), B: T.Buffer((8, 64), "int32")):\n'
        + inside
        + f"        for i in range(64):\n            B[r, i] = {total}\n"
    )


def wanted(count: int, size: int, a: np.ndarray) -> np.ndarray:
    out = np.zeros((8, 64), "int32")
    for r in range(8):
        for k in range(count):
            held = np.zeros(size, "int32")
            i = np.arange(size)
            held[(i * 7 + r) % size] = a[(i + k) % 64]
            out[r] += held[np.arange(64) % size]
    return out


a = np.random.default_rng(1).integers(-99, 99, 64).astype("int32")
cases = [(14, 1000), (20, 40), (3, 4096), (4, 3000), (1, 1 << 20)]
kernels = [
    (tl.build(parse(arrays(count, size, parallel))), wanted(count, size, a), count * size * 4)
    for count, size in cases
    for parallel in (False, True)
]
failed: list = []


def run(may_fail: bool) -> None:
    for kernel, want, size in kernels:
        b = np.zeros((8, 64), "int32")
        try:
            kernel(a, b)
            assert (b == want).all()
        except RecursionError:
            if not may_fail:
                failed.append(size)
        except BaseException as error:
            failed.append(error)


run(False)
for size in (32, 64, 128, 256, 1024):
    threading.stack_size(size * 1024)
    thread = threading.Thread(target=run, args=(size < 1024,))
    thread.start()
    thread.join()
assert not failed, failed
