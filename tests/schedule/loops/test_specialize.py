"""A statement once more for where a condition holds."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(a: T.handle, k: T.int32):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "int32")
    for i in range(n):
        for j in range(4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * k + vi
"""


@pytest.mark.parametrize("conditions", [["n % 4 == 0"], ["k == 1", "n > 2"], ["k < n and k > 0", "k == 0", "n == 1"]])
@pytest.mark.parametrize("where", ["i", "j"])
def test_all_cases(conditions: list[str], where: str) -> None:
    func = parse(TEXT)
    sch = tl.Schedule(func, debug_mask="all")
    loop = sch.loop(where)
    if where == "j":
        conditions = [*conditions, "i % 2 == 1"]
    sch.specialize(loop, *conditions)
    roundtrips(sch.mod["main"])
    assert len(loop.twins) == len(conditions) and sch.get_block("A_other")
    executes_alike(
        func, sch.mod["main"], inputs=[[np.ones((n, 4), "int32"), k] for n in (0, 1, 3, 4) for k in (0, 1, 2)]
    )
    again(func, sch)


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("m == 3", "no condition here"),
        ("n + 1", "no condition but"),
        ("n ==", "no condition here"),
        ("i == 3", "no condition here"),
        ("n % k == 0", "divide by zero"),
    ],
)
def test_what_is_no_condition(condition: str, word: str) -> None:
    sch = tl.Schedule(parse(TEXT))
    with pytest.raises(BadArgument, match=word):
        sch.specialize(sch.loop("i"), condition)
    with pytest.raises(BadArgument):
        sch.specialize(sch.loop("i"))
