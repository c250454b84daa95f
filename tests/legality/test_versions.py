"""Which arrays a function writes through its parameters, itself or by what it calls; the rest is in tests/test_overlap.py."""

from __future__ import annotations

from tests.driver.test_units import module
from tirlower.legality.versions import what_calls_need

FUNCTIONS = """
@T.prim_func
def copy(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[i]
@T.prim_func
def through(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    Module.copy(A.data, C.data)
    B[0] = 1
@T.prim_func
def back(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    Module.copy(B.data, A.data)
@T.prim_func
def twice(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    Module.through(A.data, B.data, C.data)
@T.prim_func
def circle(n: T.int32, A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    if n > 0:
        Module.turn(n, A.data, B.data)
@T.prim_func
def turn(n: T.int32, A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    B[0] = A[0]
    Module.circle(n - 1, A.data, B.data)
"""


def test_what_is_written_by_those_that_are_called() -> None:
    writes, others = what_calls_need(module(FUNCTIONS))
    assert writes["copy"] == (False, True) and writes["back"] == (True, False)
    assert writes["through"] == writes["twice"] == (False, True, True)
    assert not any(others.values())


def test_what_stands_in_a_circle_of_calls_may_write_all() -> None:
    writes, _ = what_calls_need(module(FUNCTIONS))
    assert writes["circle"][1] and writes["turn"][1]
