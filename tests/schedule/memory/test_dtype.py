"""``unsafe_set_dtype``: values are converted in and out, and the step says so."""

from __future__ import annotations

import numpy as np

import tirlower as tl
from tests.schedule.stepping import refused
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

CHAIN = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.float32(1)
"""


def test_values_pass_through_the_other_type() -> None:
    sch = tl.Schedule(parse(CHAIN), debug_mask="all")
    sch.unsafe_set_dtype("B", 0, "float16")
    a, c = np.linspace(0, 1, 8, dtype="float32"), np.zeros(8, "float32")
    tl.interpret(sch.mod["main"], a, c)
    np.testing.assert_array_equal(c, a.astype("float16").astype("float32") + np.float32(1))
    assert sch.steps[-1].exactness == "precision(B, float16)"


def test_wrong_arguments() -> None:
    refused(CHAIN, lambda sch: sch.unsafe_set_dtype("C", 0, "float16"), NotApplicable)
    refused(CHAIN, lambda sch: sch.unsafe_set_dtype("B", 0, "float17"), BadArgument)
