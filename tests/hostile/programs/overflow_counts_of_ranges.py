"""Ranges whose bounds or steps are data run as often as Python's, or raise IndexError for more iterations than int32 counts."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

HEAD = """
@T.prim_func
def main(lo: T.int32, hi: T.int32, s: T.int32, X: T.Buffer((3,), "int32"), O: T.Buffer((2,), "int64")):
    """
LOOP = """
        O[0] += 1
        O[1] = T.Cast("int64", i)
        if O[0] >= 20:
            break
"""
TOP, LOW = 2**31 - 1, -(2**31)
VALUES = (0, 1, -1, 5, 9, TOP, TOP - 1, LOW, LOW + 7, 2**30)


def wrap(value):
    return (value - LOW) % 2**32 + LOW


RANGES = [
    ("lo, hi", lambda lo, hi, s: (lo, hi)),
    ("lo, hi, 2", lambda lo, hi, s: (lo, hi, 2)),
    ("0, hi, 4", lambda lo, hi, s: (0, hi, 4)),
    ("5, hi, 3", lambda lo, hi, s: (5, hi, 3)),
    ("-5, X[1], 3", lambda lo, hi, s: (-5, hi, 3)),
    ("lo, 100, 3", lambda lo, hi, s: (lo, 100, 3)),
    ("hi, lo, -3", lambda lo, hi, s: (hi, lo, -3)),
    ("hi, -1, -1", lambda lo, hi, s: (hi, -1, -1)),
    ("lo, hi, 1000000000", lambda lo, hi, s: (lo, hi, 10**9)),
    ("lo, hi, s", lambda lo, hi, s: (lo, hi, s)),
    ("3, 90, s", lambda lo, hi, s: (3, 90, s)),
    ("X[0], X[1], X[2]", lambda lo, hi, s: (lo, hi, s)),
    ("1, T.int32(-2147483640) - hi", lambda lo, hi, s: (1, wrap(-2147483640 - hi))),
    ("lo * 2, lo * 2 + 5, 2", lambda lo, hi, s: (wrap(lo * 2), wrap(lo * 2 + 5), 2)),
]


def outcome(run, *args):
    out = np.zeros(2, "int64")
    try:
        run(*args, out)
    except (IndexError, tl.InterpreterError) as error:
        assert "the loop i runs" in str(error), error
        return "past"
    return out.tolist()


for text, model in RANGES:
    func = parse(f"{HEAD}for i in range({text}):{LOOP}")
    kernel = tl.build(func)
    for lo in VALUES:
        for hi in VALUES:
            for s in (1, 3, -3, TOP, LOW) if "s" in text or "X[2]" in text else (1,):
                run = range(*model(lo, hi, s))
                # What `len` of a range refuses.
                count = max(-(-(run.stop - run.start) // run.step), 0)
                wanted = [min(count, 20), run[min(count, 20) - 1] if count else 0] if count <= TOP else "past"
                given = lo, hi, s, np.array([lo, hi, s], "int32")
                native, meant = (
                    outcome(kernel, *given),
                    outcome(lambda *args, func=func: tl.interpret(func, *args), *given),
                )
                assert native == wanted and meant == wanted, (text, lo, hi, s, wanted, native, meant)

# A variable that leaves its type would be in front of the array.
func = parse(
    f"{HEAD}for i in range(2, hi + 2):\n        if i < 3:\n            O[i - 2] = 5\n        if i == 40:\n            break\n"
)
for run in (tl.build(func), lambda *args: tl.interpret(func, *args)):
    assert outcome(run, 0, TOP, 0, np.zeros(3, "int32")) == "past"
    assert outcome(run, 0, TOP - 1, 0, np.zeros(3, "int32")) == [5, 0]
