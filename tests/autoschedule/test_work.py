"""How often the statements of a function run at most: a count of its loops by hand, and never less than what runs."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.autoschedule.work import instances
from tirlower.script import parse


def work(body: str, params: str = "") -> int | None:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return instances(parse(f'def f(A: T.Buffer((1,), "int32"){params}):\n{lines}').body)


def test_statements_in_loops() -> None:
    assert work("A[0] = 1") == 1
    assert work("for i in range(7):\n    for j in T.parallel(3):\n        A[0] += 1\n    A[0] += 1") == 7 * (3 + 1)
    assert work("for i in range(0):\n    A[0] += 1") == 0
    assert work("for i in range(1 << 20):\n    for j in range(1 << 20):\n        A[0] += 1") == 1 << 40


@pytest.mark.parametrize("loop", ["for i in range(n):", "for i in range(A[0]):", "while A[0] < 9:"])
def test_what_a_call_decides_is_not_known(loop: str) -> None:
    assert work(f"{loop}\n    A[0] += 1", ", n: T.int32") is None
    assert work(f"for k in range(0):\n    {loop}\n        A[0] += 1", ", n: T.int32") is None


def test_a_bound_that_moves_with_a_loop_is_not_known() -> None:
    assert work("for i in range(4):\n    for j in range(i):\n        A[0] += 1") is None


@pytest.mark.parametrize("seed", range(20))
def test_no_less_than_what_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def block(depth: int, indent: str) -> list[str]:
        lines: list[str] = []
        for n in range(int(rng.integers(1, 4))):
            kind = rng.integers(4) if depth else 0
            if kind < 2:
                lines.append(f"{indent}A[0] += 1")
            elif kind == 2:
                name = f"i{depth}{n}"
                lines += [f"{indent}for {name} in range({rng.integers(0, 4)}):", *block(depth - 1, indent + "    ")]
            else:
                lines += [f"{indent}if A[0] % 2 == 0:", *block(depth - 1, indent + "    ")]
                lines += [f"{indent}else:", *block(depth - 1, indent + "    ")]
        return lines

    func = parse('def f(A: T.Buffer((1,), "int32")):\n' + "\n".join(block(3, "    ")))
    count = np.zeros(1, "int32")
    tl.interpret(func, count)
    found = instances(func.body)
    assert found is not None and found >= count[0]
    if "if" not in func.script():
        assert found == count[0]
