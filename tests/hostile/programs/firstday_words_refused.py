"""A word of NumPy that a script does not have: an error at its place, with what to write."""

# expect: ScriptError
from tirlower.script import parse

parse("def f(A: T.Buffer((4,), 'float32')):\n    A[0] = np.sum(A)\n", {"np": __import__("numpy")})
