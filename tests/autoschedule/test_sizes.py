"""Sizes that the caller alone knows, as numbers."""

from __future__ import annotations

import string

from tirlower.autoschedule.sizes import typical
from tirlower.ir import Var
from tirlower.script import parse


def test_names_of_one_letter_are_different_primes():
    found = [typical(Var(name, "int64")) for name in string.ascii_letters]
    assert len(set(found)) == len(found) and all(x is not None and 400 < x < 800 and x % 2 for x in found)


def test_expressions_of_sizes():
    n = Var("n", "int32")
    assert typical((n + 7) // 8 * 8, {n: 9}) == 16
    assert typical(n * 0) == 0
    func = parse("""
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer((4,), "int32")):
    A[0, 0] = T.float32(0)
""")
    rows, columns = func.buffers[0].shape
    assert typical(rows * columns) == typical(rows) * typical(columns)


def test_what_is_read_from_memory_is_no_number():
    func = parse("""
def f(B: T.Buffer((4,), "int32")):
    for i in range(B[0]):
        B[1] = i
""")
    assert typical(func.body.extent) is None
