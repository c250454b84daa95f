"""A loop is cut where its jumps leave out nothing, and nowhere else: both programs are run."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.poly.test_structure import parsed
from tirlower.ir import For, PrimFunc, Var, seq, substitute
from tirlower.poly import can_distribute, can_fuse, can_reorder, reorder

# Bodies of `for i in range(8)` with the place of the cut.
NOTHING = {
    "the opposite condition": ("if i > 3:\n    T.continue_loop()\nif i <= 3:\n    B[i] = 1", 1),
    "an empty loop": ("if i > 3:\n    T.continue_loop()\nfor j in range(2, 2):\n    B[j] = 1", 1),
    "another jump": ("B[i] = C[0]\nif i > 3:\n    T.continue_loop()\nT.continue_loop()", 2),
    "two jumps": ("if i == 2:\n    T.continue_loop()\nif i > 3:\n    T.continue_loop()\nif i < 2:\n    B[i] = 1", 2),
    "in an arm": ("if i > 3:\n    B[i] = 2\n    T.continue_loop()\nelse:\n    B[i + 8] = 3\nif i < 4:\n    B[i] = 1", 1),
    "a loop that starts late": ("if i > 3:\n    T.continue_loop()\nfor j in range(i, 4):\n    B[j] = B[j] + i", 1),
    "before a break": ("if i > 3:\n    T.break_loop()\nif i < 4:\n    B[i] = 1", 1),
    "before a break at a size": ("if i == n:\n    T.break_loop()\nif i < n:\n    B[i] = 1", 1),
    "behind the last iteration": ("B[i] = 1\nif i == 7:\n    T.break_loop()", 1),
    "behind an early break": ("if i < 5:\n    B[i] = 1\nB[i + 8] = 2\nif i > 3:\n    T.break_loop()", 1),
    "an inner jump": ("if i > 3:\n    T.continue_loop()\nfor j in range(8):\n    if j + i > 3:\n        T.break_loop()\n    B[j] = i", 1),
}  # fmt: skip
SOMETHING = {
    "one iteration more": ("if i > 3:\n    T.continue_loop()\nif i <= 4:\n    B[i] = 1", 1),
    "what an assertion between states": ("if i > 3:\n    T.continue_loop()\nassert i < 4, 'no'\nB[i] = 1", 2),
    "what an assumption between states": ("if i > 3:\n    T.continue_loop()\nT.evaluate(T.assume(i < 4))\nB[i] = 1", 2),
    "a read": ("if i > 3:\n    T.continue_loop()\nx = T.bind(B[i * 20])\nif i < 3:\n    B[i] = x", 1),
    "a division by zero": ("if i > 3:\n    T.continue_loop()\nx = T.bind(8 // (i - 4))\nif i <= 3:\n    B[i] = x", 1),
    "an assertion": ("if i > 3:\n    T.continue_loop()\nassert i < 4, 'no'", 1),
    "a break of its own": ("if i < 3:\n    T.continue_loop()\nif i == 2:\n    T.break_loop()\nif i > 2:\n    B[i] = 1", 1),
    "a condition that changes": ("if C[0] > 3:\n    T.continue_loop()\nC[0] = 9\nif C[0] <= 3:\n    B[i] = 1", 2),
    "behind a break": ("if i > 3:\n    T.break_loop()\nB[i] = 1", 1),
    "before an early break": ("B[i] = 1\nif i == 6:\n    T.break_loop()", 1),
    "a second jump": ("if i > 3:\n    T.continue_loop()\nif i < 2:\n    T.continue_loop()\nif i < 3:\n    B[i] = 1", 2),
}  # fmt: skip
SILENT = {"what an assumption between states", "a condition that changes", "a read"}
"""Where the results are equal, or a false assumption decides."""


def program(body: str) -> PrimFunc:
    return parsed("for i in range(8):\n    " + body.replace("\n", "\n    "))


def cut(func: PrimFunc, at: int) -> PrimFunc:
    loop: Any = func.body
    other = Var("i", "int32")
    second = For(
        other, loop.min, loop.extent, loop.kind, None, {}, substitute(seq(loop.body.stmts[at:]), {loop.loop_var: other})
    )
    return func.with_body(seq(loop.with_(body=seq(loop.body.stmts[:at])), second))  # fmt: skip


def results(func: PrimFunc) -> list[Any]:
    found: list[Any] = []
    for n in (0, 1, 5, 8, 9):
        arrays = np.zeros((8, 8), np.int32), np.arange(64, dtype=np.int32), np.full(1, 3, np.int32)
        try:
            tl.interpret(func, *arrays, n)
        except Exception as error:
            found.append(type(error))
        else:
            found.append([array.tolist() for array in arrays])
    return found


@pytest.mark.parametrize("body, at", NOTHING.values(), ids=NOTHING)
def test_a_cut_where_jumps_leave_out_nothing(body: str, at: int) -> None:
    func = program(body)
    verdict = can_distribute(func, "i", at)
    assert verdict.proved, verdict.reason
    assert results(cut(func, at)) == results(func)


@pytest.mark.parametrize("name", SOMETHING)
def test_no_cut_where_jumps_leave_out_something(name: str) -> None:
    body, at = SOMETHING[name]
    func = program(body)
    assert can_distribute(func, "i", at).refuted
    assert name in SILENT or results(cut(func, at)) != results(func)


def test_many_jumps_are_not_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = "if i > 5:\n    T.continue_loop()\nif i > 3:\n    T.continue_loop()\n"
    func = program(jumps + "if i <= 3:\n    B[i] = 1")
    assert can_distribute(func, "i").proved
    monkeypatch.setattr(reorder, "MAX_SKIPS", 3)
    assert can_distribute(func, "i").refuted and can_distribute(func, "i", 2).proved


# What has a meaning, or succeeds, only where an assertion held in an iteration before.
COUNTS_ON_IT = {
    "an assumption": "T.evaluate(T.assume(i <= n))",
    "a division": "C[0] += 8 // (n - i)",
    "a shift": "C[0] += T.shift_right(i, n - i)",
    "memory that nothing wrote": 't = T.alloc_buffer((1,), "int32")\nif i <= n:\n    t[0] = 1\nB[i] = t[0]',
}
FAILS, HOLDS = "assert i < n, 'no'", "assert i < 8, 'no'"


def loops(*bodies: str, var: str = "i") -> str:
    """Loops one behind the other."""
    return "\n".join(f"for {var} in range(8):\n{textwrap.indent(body, '    ')}" for body in bodies)


@pytest.mark.parametrize("counting", COUNTS_ON_IT.values(), ids=COUNTS_ON_IT)
def test_what_counts_on_an_assertion_does_not_come_before_it(counting: str) -> None:
    for body, assertion, answer in (
        (counting, FAILS, "refuted"),
        (counting, HOLDS, "proved"),
        ("B[i] = 2", FAILS, "proved"),
    ):
        body = loops(body, var="k").replace("range(8)", "range(1)")  # one statement
        assert can_distribute(parsed(loops(f"{body}\n{assertion}")), "i", 1).status == answer
        assert can_distribute(parsed(loops(f"{assertion}\n{body}")), "i", 1).proved  # which still comes first
        adjacent = parsed(loops(assertion.replace("i", "j", 1), var="j") + "\n" + loops(body))
        assert can_fuse(adjacent, "j", "i").status == answer
        nested = parsed(loops(loops(f"{body}\n{assertion}".replace("B[i]", "B[i + 8 * j]"), var="j")))
        assert can_reorder(nested, ["j", "i"]).status == answer


def test_loops_that_do_nothing_change_places_though_one_is_left() -> None:
    nest = "for i in range(8):\n    for j in range(4):\n        if i + j > 3:\n            T.break_loop()\n        {}"
    for rest, answer in (
        ("for k in range(2, 2):\n            B[k] = C[0]", "proved"),
        ("k = T.bind(i * j)", "proved"),
        ("B[j] = i", "refuted"),
        ("k = T.bind(i // (j - 1))", "refuted"),
        ("for k in range(n):\n            B[k] = C[0]", "refuted"),
        ("assert j < 3, 'no'", "refuted"),
    ):
        assert can_reorder(parsed(nest.format(rest)), ["j", "i"]).status == answer, rest
