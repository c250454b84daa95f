"""A module of twenty-four functions that call each other in a chain, in a thread with a small stack."""

# expect: ok
import threading

import numpy as np

import tirlower as tl
from tirlower.script import parse

N = 24
text = "@I.ir_module\nclass M:\n"
for k in range(N):
    text += (
        f'    @T.prim_func{"(private=True)" if k else ""}\n    def f{k}(A: T.Buffer((64,), "int32"), n: T.int32) -> T.int32:\n'
        f'        L = T.alloc_buffer((64,), "int32", scope="local")\n'
        f"        for i in range(64):\n            L[i] = A[(i * 3 + n) % 64] + {k}\n"
        f"        A[{k % 64}] = L[(n + {k}) % 64]\n"
    )
    text += f"        return M.f{k + 1}(A.data, (n + 1) % 64) + 1\n\n" if k < N - 1 else "        return 1\n\n"
module = tl.build(parse(text))
a = np.arange(64, dtype="int32")
want = a.copy()
n = 5
for k in range(N):
    want[k % 64] = want[(((n + k) % 64) * 3 + n) % 64] + k
    n = (n + 1) % 64
seen: list = []


def run() -> None:
    mine = a.copy()
    try:
        seen.append(bool(module["f0"](mine, 5) == N and (mine == want).all()))
    except RecursionError:
        seen.append("recursion")


run()
assert seen == [True], seen
for size in (32, 64, 256):
    threading.stack_size(size * 1024)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
assert len(seen) == 4 and all(one is True or one == "recursion" for one in seen), seen
