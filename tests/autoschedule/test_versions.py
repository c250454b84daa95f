"""Versions between which a call chooses."""

from __future__ import annotations

import tirlower as tl
from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.versions import enough_work, in_parallel, said, where_some, where_wide
from tirlower.script import parse

ROWS = """
def f(A: T.Buffer(("n", "m"), "float32")):
    for i, j in T.grid(n, m):
        A[i, j] = T.float32(1)
"""


def test_the_condition_is_of_all_unknown_sizes():
    nests = nests_of(parse(ROWS))
    condition = enough_work(nests, 1e-5)
    assert condition.startswith('T.Cast("float64", n) * T.Cast("float64", m) >= T.float64(')
    assert "two versions: parallel where n * m >= " in said(nests, 1e-5)
    assert enough_work(nests, 2e-5) != condition


def test_known_sizes_need_no_versions():
    nests = nests_of(parse(ROWS.replace('"n", "m"', "8, 4").replace("n, m", "8, 4")))
    assert enough_work(nests, 1.0) == "" == said(nests, 1.0)
    sch = tl.Schedule(nests[0].func)
    i = sch.loop("i")
    in_parallel(sch, i, nests, 1.0)
    where_wide(sch, i, nests[0].loops[1], 4)
    assert [step.instruction.kind.method for step in sch.steps if not step.instruction.kind.pure] == ["parallel"]


def test_bounds_that_move_are_no_sizes():
    nests = nests_of(
        parse(ROWS.replace("for i, j in T.grid(n, m):", "for i in range(n):\n      for j in range(T.min(i, m)):"))
    )
    assert enough_work(nests, 1.0) == ""


def test_the_serial_version_stands_beside():
    func = parse(ROWS)
    nests = nests_of(func)
    sch = tl.Schedule(func)
    i = sch.loop("i")
    where_wide(sch, i, nests[0].loops[1], 4)
    in_parallel(sch, i, nests, 1e-5)
    text = str(sch.mod["main"])
    assert text.count("if ") == 2 and text.count("T.parallel") == 1 and "if m >= 4:" in text


def test_large_sizes_do_not_overflow():
    """More than 2**63 elements, of which the condition alone is asked."""
    func = parse("""
def f(n: T.int32, m: T.int32, k: T.int32, A: T.Buffer((1,), "int32")):
    for i in range(n):
        for j in range(m):
            for l in range(k):
                A[0] = i
""")
    sch = tl.Schedule(func)
    i = sch.loop("i")
    sch.specialize(i, enough_work(nests_of(func), 1e-3))
    text = str(sch.mod["main"])
    assert 'T.Cast("float64", n) * T.Cast("float64", m) * T.Cast("float64", k) >= T.float64(' in text


def test_sizes_that_may_be_below_zero_are_told_apart_once():
    text = """
def f(k: T.int32, l: T.int32, A: T.Buffer(("n", 8), "float32")):
    for i, j, p, q in T.grid(n, k, l, 8):
        A[i, q] = A[i, q] + T.float32(1)
"""
    func = parse(text)
    nest = nests_of(func)[0]
    sch = tl.Schedule(func)
    where_some(sch, sch.loop("i"), nest.scop.space, nest.loops)
    assert "if k >= 1 and l >= 1:" in str(sch.mod["main"]) and str(sch.mod["main"]).count("if ") == 1
    sch = tl.Schedule(func)
    where_some(sch, sch.loop("i"), nest.scop.space, [nest.loops[0], nest.loops[3]])
    assert not list(sch.steps[1:])
