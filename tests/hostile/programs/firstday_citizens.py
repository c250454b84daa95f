"""Kernels as functions of Python: docstrings, definitions, wrappers, copies, pickles, threads, whatever was decorated."""

# expect: ok
import copy
import functools
import inspect
import pickle
import pydoc

import numpy as np

import tirlower as tl
from tirlower.script import parse
from tirlower.script import tir as T

GPU = "nvptx -arch=sm_90"


@T.prim_func
def plain(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i] = A[i] + 1


@tl.jit
@T.prim_func
def told(A: T.Buffer(("n",), "int32"), by: T.int32 = 2):
    """Adds.

    To each element.
    """
    for i in range(n):
        A[i] = A[i] + by


def nested():
    @tl.jit(gil=False)
    @T.prim_func
    def inner(A: T.Buffer((3,), "int32")):
        "One line."
        A[0] = 5

    return inner


class Holder:
    kernel = told


MADE = [told, tl.build(told.func), tl.jit(told.func), tl.build(told.func, target=GPU), tl.jit(target=GPU)(told.func)]
for made in MADE:
    assert (
        inspect.getdoc(made) == "Adds.\n\nTo each element." and made.__name__ == "told" and made.__module__ == __name__
    )
    assert inspect.unwrap(made).__code__.co_name == "told" and "def told(" in inspect.getsource(made)
    assert "by" in str(inspect.signature(made)) and inspect.signature(made).parameters["by"].default == 2
    assert functools.wraps(made)(lambda: 0).__doc__ == made.__doc__
    assert "Adds." in pydoc.render_doc(made) and len(repr(made)) < 160
    again = pickle.loads(pickle.dumps(made))
    assert again.__doc__ == made.__doc__
    assert not hasattr(again, "__wrapped__") and copy.copy(made).__name__ == copy.deepcopy(made).__name__ == "told"
assert plain.__doc__ and inspect.getsource(plain).startswith("@T.prim_func\ndef plain(")
assert inspect.getdoc(nested()) == "One line." and "def inner" in inspect.getsource(nested())
assert tl.build(plain).__doc__ == "plain(A)" and not hasattr(tl.Kernel, "__wrapped__")
for deep in (500, 2000):  # what the parser of each CPython takes
    line = " + ".join(f"A[{k % 3}] * {k}" for k in range(deep))
    func = parse(f"def f(A: T.Buffer((3,), 'int32'), B: T.Buffer((1,), 'int32')):\n    B[0] = {line}\n")
    A, B = np.array([1, -1, 2], "int32"), np.zeros(1, "int32")
    pickle.loads(pickle.dumps(tl.jit(func)))(A, B)
    assert B[0] == sum(int(A[k % 3]) * k for k in range(deep))
a = np.zeros(3, "int32")
Holder.kernel(a)
Holder().kernel(a, 5)
functools.partial(told, by=1)(a)
assert list(map(int, a)) == [8, 8, 8]
assert pickle.loads(pickle.dumps({"one": MADE[1], "same": MADE[1]}))["same"].func.script() == told.func.script()
