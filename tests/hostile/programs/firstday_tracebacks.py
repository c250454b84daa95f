"""Errors in a script, a build and a call show the user's frames, not tirlower's, with place, notes and help."""

# expect: ok
import traceback

import numpy as np

import tirlower as tl
from tirlower.script import parse

SERIAL = "def f(n: T.int32, A: T.Buffer((8,), 'int32')):\n    for i in range(n):\n        A[i] = 1\n"
kernel = tl.build(parse(SERIAL))
TRIES = [
    (lambda: parse("def f(A: T.Buffer((8,), 'int32')):\n    A[0] = T.mx(1, 2)\n"), "did you mean"),
    (lambda: tl.build(parse(SERIAL.replace("range(n)", "T.parallel(n)").replace("A[i] =", "A[0] +="))), "help"),
    (lambda: kernel(9, np.zeros(8, "int32")), "A[8] is out of bounds"),
    (lambda: kernel(8, np.zeros(8, "int64")), "astype"),
    (lambda: tl.build(5), "expected a PrimFunc"),
]
for attempt, part in TRIES:
    try:
        attempt()
    except Exception as error:
        frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
        assert frames and set(frames) == {__file__}, frames
        assert part in "".join(traceback.format_exception(error)), error
    else:
        raise AssertionError(part)
