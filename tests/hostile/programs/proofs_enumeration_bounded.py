"""Loops with far more iterations than can be enumerated, and subscripts that only enumeration could judge."""

# expect: ok
import time

import tirlower as tl
from tirlower.script import parse

BODIES = (
    "for i in T.parallel(1000000000):\n        A[(i ^ (i >> 3)) & 63] = i",
    "for i in T.parallel(100000):\n        for j in range(100000):\n            A[(i * j) & 63] = j",
    "for i in T.parallel(60000):\n" + "".join(f"        A[(i * {n}) & 63] = A[(i ^ {n}) & 63]\n" for n in range(60)),
)
for body in BODIES:
    start = time.process_time()
    try:
        tl.build(parse(f'@T.prim_func\ndef f(A: T.Buffer((64,), "int32")):\n    {body}'))
    except tl.LegalityError:
        assert time.process_time() - start < 5, body
        continue
    raise SystemExit(body)
