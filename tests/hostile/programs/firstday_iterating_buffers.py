"""Loops and functions of Python over a buffer ask for element after element: they are refused, and end."""

# expect: ok
import tirlower as tl
from tirlower.script import parse

FORMS = [
    "for a in A:\n        B[0] = a",
    "for i, a in enumerate(A):\n        B[i] = a",
    "for a, b in zip(A, B):\n        B[0] = a",
    "B[0] = sum(A)",
    "B[0] = max(A)",
    "x = list(A)",
    "for a in reversed(A):\n        B[0] = a",
    "x, *y = A",
    "B[0] = sorted(A)[0]",
    "B[0] = sum([a for a in A])",
]
for form in FORMS:
    for shape in ("(4,)", "('n',)"):
        try:
            parse(f"def f(A: T.Buffer({shape}, 'float32'), B: T.Buffer({shape}, 'float32')):\n    {form}\n")
        except tl.ScriptError as error:
            assert "^" in str(error), error
        else:
            raise AssertionError(form)
