"""Tables, reversed lists, zips and enumerations of Python in a kernel; chained comparisons; choices in a line."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

values = {"COEFFICIENTS": [3, -2, 0, 5], "PAIRS": [(0, 2), (1, -3), (2, 4)], "TABLE": np.array([9, -4, 6, 1], "int32")}
kernel = tl.build(
    parse(
        """
def f(X: T.Buffer(("n",), "int32"), O: T.Buffer((5, "n"), "int32")):
    for i in range(n):
        y = 0
        for c in reversed(COEFFICIENTS):
            y = y * X[i] + c
        O[0, i] = y
        z = 0
        for k, w in PAIRS:
            z += (X[i] + k) * w
        O[1, i] = z
        O[2, i] = TABLE[X[i] % 4] if -5 <= X[i] < 5 else -X[i]
        for k, (c, pair) in enumerate(zip(COEFFICIENTS, PAIRS)):
            O[3, i] += c * pair[1] * (k + 1) * X[i]
        O[4, i] = 1 if not (X[i] < 0 or X[i] > 7) and X[i] != 3 else 2
""",
        values,
    )
)
X = np.arange(-20, 21, dtype="int32")
O = np.zeros((5, len(X)), "int32")
kernel(X, O)
for i, x in enumerate(X.tolist()):
    assert O[0, i] == 3 - 2 * x + 5 * x**3
    assert O[1, i] == x * 2 - (x + 1) * 3 + (x + 2) * 4
    assert O[2, i] == (values["TABLE"][x % 4] if -5 <= x < 5 else -x)
    assert O[3, i] == (3 * 2 * 1 + -2 * -3 * 2 + 0 * 4 * 3) * x
    assert O[4, i] == (1 if 0 <= x <= 7 and x != 3 else 2)
