"""Nodes made by hand, in a process that never imports the script: texts, sources and messages all the same."""

# expect: ok
import sys

import numpy as np

import tirlower as tl
from tirlower.ir import Add, Buffer, BufferLoad, BufferStore, For, IRModule, PrimFunc, Range, Var

i, A, B = Var("i"), Buffer("A", (8,), "int32"), Buffer("B", (8,), "int32")
a, b = Var("a", "handle"), Var("b", "handle")
store = BufferStore(B, Add(BufferLoad(A, (7 - i,)), i), (i,))
func = PrimFunc((a, b), {a: A, b: B}, "void", {"global_symbol": "f"}, For(i, 0, 8, "serial", None, {}, store))
assert "tirlower.script" not in sys.modules
assert str(i + 1) == "i + 1" and str(Range(0, i)) == "0:i"
assert "B[i] = A[7 - i] + i" in str(func) and "B[i] = A[7 - i] + i" in IRModule({"f": func}).script()
assert "A[7 - i]" in tl.lower(func).script()
kernel = tl.build(func)
assert "A[7 - i]" in kernel.source("tir")
x, y = np.arange(8, dtype="int32") * 5 - 9, np.zeros(8, "int32")
kernel(x, y)
np.testing.assert_array_equal(y, x[::-1] + np.arange(8))
try:
    bool(BufferLoad(A, (i + 1,)) + i)
except tl.TirError as error:
    assert "A[i + 1] + i" in str(error), error
else:
    raise SystemExit("the truth of an expression is not known")
