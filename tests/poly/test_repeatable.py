"""Iterations that may run again: what is proved is so in a run, and by the flow of values; what is not repeatable is never proved."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.checking import executes_alike
from tests.sampling import by_day
from tirlower.diagnostics import InterpreterError
from tirlower.ir import For
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Seq, Stmt
from tirlower.poly import extract
from tirlower.poly.repeatable import is_repeatable
from tirlower.script import parse

HEAD = 'def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), n: T.int32):'


NUMBERS = np.random.default_rng(0)
INPUTS = [[*(NUMBERS.integers(-2, 3, (8, 8)).astype("int32") for _ in range(3)), n] for n in (0, 3, 5)]


def program(rng: random.Random) -> str:
    """A loop over elements of ``C``, sums of them mostly, with starts, guards and locals that fit, or do not."""
    sums = rng.choice(["", "", "plain", "plain", "plain", "block", "local"])
    target = rng.choice(["C[i, j]"] * 8 + ["C[j, i]", "C[i, 0]", "C[i, j // 2]", "C[0, j]"])
    read = rng.choice(["A[i, k]", "A[i, k] * B[k, j]", "B[k, j]"] * 3 + ["C[i, k]", "C[k, j]", "A[i, k] + C[i, 7 - j]"])
    other = rng.choice(["A[i, j]"] * 3 + ["C[i, j]", "C[7 - i, j]", "A[j, i] + B[i, j]"])
    guard = rng.choice([""] * 6 + ["i + j < 9", "A[i, j] > 0", "j < n"])
    body: list[str] = []
    if sums in ("plain", "block"):
        begins = rng.choice(["0"] * 4 + ["A[i, j]", "i"])
        start = f"{target} = {begins}"
        if rng.random() < 0.15:
            start = rng.choice(["B[i, j] = 1", f"if i < n:\n    {start}"])
        step = f"{target} = {target} + {read}"
        if rng.random() < 0.2:
            step = f"if k < {rng.choice(['n', '3', 'i'])}:\n    {step}"
        loop = [f"for k in range({rng.choice(['4', 'n', '0'])}):", *(f"    {line}" for line in step.split("\n"))]
        if sums == "block":
            axes = 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])'
            named = {"i": "vi", "j": "vj", "k": "vk"}
            sides = ["".join(named.get(c, c) for c in side) for side in (target, begins, read)]
            loop = [
                "for k in range(4):",
                '    with T.block("C"):',
                f"        {axes}",
                *(["        with T.init():", f"            {sides[0]} = {sides[1]}"] if rng.random() < 0.8 else []),
                f"        {sides[0]} = {sides[0]} + {sides[2]}",
            ]
            start = ""
        body = [*start.split("\n"), *loop] if start else loop
        if rng.random() < 0.1:
            body = [*loop, *start.split("\n")] if start else loop
    elif sums == "local":
        body = [
            'acc = T.alloc_buffer((1,), "int32", scope="local")',
            "acc[0] = 0",
            "for k in range(4):",
            f"    acc[0] = acc[0] + {read}",
            f"{target} = acc[0]",
        ]
    else:
        body = [f"{target} = {other}"]
    if rng.random() < 0.15:
        body.append(rng.choice(["A[i, j] = C[i, j]", "B[0, 0] = j", "C[i, j] = C[i, j] * 2"]))
    if guard:
        body = [f"if {guard}:", *(f"    {line}" for line in body)]
    loops = [f"    for i in range({rng.choice(['8', '7', '8'])}):", "        for j in range(8):"]
    if rng.random() < 0.15:
        loops.reverse()
        loops = [loops[0].strip().rjust(0), loops[1].strip()]
        loops = [f"    {loops[0]}", f"        {loops[1]}"]
    return "\n".join(
        [
            "@T.prim_func",
            HEAD,
            "    T.evaluate(T.assume(n >= 0))",
            "    T.evaluate(T.assume(n <= 5))",
            *loops,
            *(f"            {line}" for line in body),
        ]
    )


def again(func: Any, loop: For, first: int, last: int) -> Any:
    """The function with iterations from one number to another one run once more behind a loop."""

    def rebuilt(stmt: Stmt) -> Stmt:
        if stmt is loop:
            var = copy_var(loop.loop_var, "again")
            body = refresh_binders(substitute(loop.body, {loop.loop_var: var}))
            low, extent = (type(loop.min)(loop.min.dtype, value) for value in (first, last - first))  # type: ignore[call-arg]
            return Seq((loop, loop.with_(loop_var=var, min=low, extent=extent, body=body)))
        return stmt.map_children(lambda one: rebuilt(one) if isinstance(one, Stmt) else one)

    return func.with_(body=rebuilt(func.body))


def attempts(first: int, count: int) -> Counter[str]:
    """How many loops of some programs are repeatable; AssertionError where one is, and a run says otherwise."""
    counts: Counter[str] = Counter()
    for seed in range(first, first + count):
        rng = random.Random(seed)
        func = parse(program(rng))
        scop = extract(func)
        for loop in each(For, func.body):
            if loop.loop_var.name not in "ij":
                continue
            if not is_repeatable(scop, loop):
                counts["not"] += 1
                continue
            low = rng.randint(0, 6)
            after = again(func, loop, low, rng.randint(low + 1, 7))
            try:
                executes_alike(func, after, inputs=INPUTS)
            except InterpreterError:
                counts["reads what nothing wrote"] += 1
                continue
            counts["repeatable"] += 1
    return counts


@pytest.mark.parametrize("first", by_day(range(0, 900, 150)))
def test_what_is_repeatable_is_so_in_a_run(first: int) -> None:
    counts = attempts(first, 150)
    assert counts["repeatable"] > 40 and counts["not"] > 60, counts


def which(body: str, loop: str = "i") -> bool:
    """Whether a loop of a program is repeatable."""
    lines = "\n".join(f"    {line}" for line in body.strip().split("\n"))
    return is_repeatable(extract(parse(f"@T.prim_func\n{HEAD}\n{lines}")), loop)


def test_what_is_written_first() -> None:
    assert which("for i in range(8):\n    C[i, 0] = 0\n    C[i, 0] = C[i, 0] + A[i, 0]")
    assert not which("for i in range(8):\n    C[i, 0] = C[i, 0] + A[i, 0]"), "it reads what it left"
    assert not which("for i in range(8):\n    C[i, 0] = C[i, 0] + A[i, 0]\n    C[i, 0] = 0"), "the order tells"
    assert not which("for i in range(8):\n    C[i, 1] = 0\n    C[i, 0] = C[i, 0] + A[i, 0]"), "another element"
    assert not which("for i in range(8):\n    if A[i, 0] > 0:\n        C[i, 0] = 0\n    C[i, 0] = C[i, 0] + 1"), (
        "perhaps"
    )
    assert which("for i in range(8):\n    if i > n:\n        C[i, 0] = 0\n        C[i, 0] = C[i, 0] + 1")
    assert not which("for i in range(8):\n    for k in range(n):\n        C[i, 0] = 0\n    C[i, 0] = C[i, 0] + 1")


def test_a_condition_on_what_changes_is_none() -> None:
    """The same text guards both, and what it reads changes between them."""
    text = """
for i in range(8):
    if A[i, 0] > 0:
        C[i, 0] = 0
    A[i, 0] = 1
    if A[i, 0] > 0:
        C[i, 0] = C[i, 0] + 1
"""
    assert not which(text)


def test_subscripts_that_are_read() -> None:
    text = "for i in range(8):\n    B[i, 0] = 1\n    C[i, B[i, 0]] = 0\n    B[i, 0] = 3\n    C[i, B[i, 0]] = C[i, B[i, 0]] + 1"
    assert not which(text), "two subscripts of one text, and two values"


def test_a_start_that_is_written_out() -> None:
    inner = "        {} C[i, 0] = 0\n        C[i, 0] = C[i, 0] + A[i, k]"
    loops = "for i in range(8):\n    for k in range({}, 6):\n"
    assert which(loops.format(0) + inner.format("if k == 0:\n           "))
    assert which(loops.format(2) + inner.format("if k < 4:\n           "))
    assert not which(loops.format(1) + inner.format("if k == 0:\n           "))
    assert not which(loops.format(0) + inner.format("if k == n:\n           "))
    skipped = "        if A[i, k] > 0:\n            continue\n" + inner.format("if k == 0:\n           ")
    assert not which(loops.format(0) + skipped)


def test_what_other_iterations_have_a_part_in() -> None:
    assert not which("for i in range(7):\n    C[i, 0] = A[i, 0]\n    B[i, 0] = C[i + 1, 0]")
    assert not which("for i in range(8):\n    C[0, 0] = A[i, 0]"), "the last value would be another one"
    assert not which("for i in range(8):\n    C[0, 0] = C[0, 0] + A[i, 0]")
    assert not which("for i in range(8):\n    C[0, 0] = 0\n    C[0, 0] = C[0, 0] + A[i, 0]\n    B[i, 0] = C[0, 0]")


def test_views_jumps_threads_and_calls() -> None:
    view = "for i in range(8):\n    C[i, 0] = 0\n    V = T.Buffer((64,), 'int32', data=C.data)\n    V[i * 8] = V[i * 8] + 1"
    assert not which(view), "the elements of two buffers are not compared"
    beside = "for i in range(1):\n    V = T.Buffer((8, 4), 'int32', data=C.data, elem_offset=1)\n    C[i, 0] = 0\n    V[i, 0] = V[i, 0] + 1"
    assert not which(beside), "nor their subscripts"
    assert not which("for i in range(8):\n    if i == n:\n        T.evaluate(T.break_loop())\n    C[i, 0] = 0")
    assert not which("for i in range(8):\n    C[i, 0] = 0\n    if i == n:\n        T.evaluate(T.ret(0))")
    assert not which('for i in T.thread_binding(8, "threadIdx.x"):\n    C[i, 0] = 0')
    assert not which("for i in range(8):\n    T.evaluate(T.atomic_add(T.address_of(C[i, 0]), 1))")


@pytest.mark.parametrize(("outer", "expected"), [("k", False), ("i", True)])
def test_an_init_begins_in_the_iteration_or_not(outer: str, expected: bool) -> None:
    inner = "i" if outer == "k" else "k"
    sizes = {"i": "8", "k": "4"}
    text = f"""
for {outer} in range({sizes[outer]}):
    for {inner} in range({sizes[inner]}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi, 0] = 0
            C[vi, 0] = C[vi, 0] + A[vi, vk]
"""
    assert which(text) is expected


if __name__ == "__main__":
    import sys

    print(attempts(int(sys.argv[1]), int(sys.argv[2])))
