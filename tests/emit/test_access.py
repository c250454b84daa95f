"""Addresses of vector accesses: lanes of data wrap in their type, and the masked ones may be anywhere."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

pytestmark = pytest.mark.by_day

SOURCE = """
@T.prim_func
def f(s: T.{kind}, t: T.{kind}, B: T.Buffer((16,), "int32"), O: T.Buffer((64,), "int32")):
    for i in T.vectorized({lanes}):
        if {index} >= 0 and {index} < 16:
            {statement}
"""
INDICES = (
    "s * i",
    "s * (i + s)",
    "s * i + t",
    "t - i * s",
    "i * 1073741824 + t",
    "(i + t) * 65536 * s",
    "i * -3 + t",
    "T.Cast('int64', s * i)",
    "T.Cast('int64', (i - t) * s)",
)
STATEMENTS = ("O[i] = B[{index}]", "B[{index}] = t + i", "O[i] = B[{index}] + B[15 - i % 16]")
ENDS = (0, 1, 3, -1, 15, 65536, 46341, 2**30, -(2**30), 2**31 - 1, 2**31 - 9, -(2**31), -(2**31) + 5)


@pytest.mark.parametrize("target", ["llvm", *(["c"] if shutil.which("cc") else [])])
@pytest.mark.parametrize("index", INDICES)
@pytest.mark.by_day
def test_lanes_of_data_that_wrap_are_where_their_condition_says(index: str, target: str) -> None:
    for lanes, statement in ((4, STATEMENTS[0]), (16, STATEMENTS[1]), (17, STATEMENTS[0]), (64, STATEMENTS[2])):
        text = SOURCE.format(kind="int32", lanes=lanes, index=index, statement=statement.format(index=index))
        func = parse(text.replace("T.vectorized", "T.serial") if "= t" in statement else text)
        kernel = tl.build(func, target, schedule="none")
        for s in ENDS:
            for t in (0, 5, s, -(2**31), 2**31 - 2):
                arrays = np.arange(100, 116, dtype="int32"), np.zeros(64, "int32")
                want, got = [x.copy() for x in arrays], [x.copy() for x in arrays]
                tl.interpret(func, s, t, *want)
                kernel(s, t, *got)
                for a, b in zip(want, got, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=f"s = {s}, t = {t}\n{text}")
