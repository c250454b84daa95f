"""What is proved of an init put in front is proved by the flow of values too; what is no such init is proved by neither."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tests.poly.second_opinion import counted, no_flow
from tests.sampling import by_day
from tirlower.diagnostics import ScheduleError
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.script import parse


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What boxes and positions alone prove."""
    return counted(monkeypatch, "begun_earlier")


def program(rng: random.Random) -> str:
    """A reduction among statements that may access its result, in loops of any order."""
    loops = ["i", "j", "k"]
    rng.shuffle(loops)
    bounds = {
        "i": rng.choice(["8", "8", "1, 8"]),
        "j": rng.choice(["8", "5"]),
        "k": rng.choice(["4", "4", "1", "2, 5", "0"]),
    }
    if rng.random() < 0.3:
        bounds["k"] = "n"
    binding = {"j": "j", "k": rng.choice(["k", "k", "k", "3 - k"])}
    terms = ["A[vi, vk]", "A[vk, vj]", "C[vj, vi]", "C[vi, 0]", "X[vi]"]
    update = f"C[vi, vj] + {rng.choice(terms[:2] * 3 + terms)}"
    lines = [
        "@T.prim_func",
        'def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), X: T.Buffer((8,), "int32"), n: T.int32):',
        "    T.evaluate(T.assume(n >= 1))" if rng.random() < 0.7 else "    T.evaluate(0)",
        "    T.evaluate(T.assume(n <= 4))",
    ]
    beside = ["X[{0}] = 1", "X[0] = C[0, 0]", "C[{0}, 0] = 3", "C[7, 7] = 2"]
    for depth, name in enumerate(loops):
        pad = "    " * (depth + 1)
        lines.append(f"{pad}for {name} in range({bounds[name]}):")
        if rng.random() < 0.2:
            lines.append(f"{pad}    {rng.choice(beside).format(name)}")
    pad = "    " * 4
    low = bounds["k"].split(",")[0] if "," in bounds["k"] else "0"
    high = bounds["k"].split(",")[-1].strip()
    lines += [
        f'{pad}with T.block("C"):',
        f"{pad}    vi = T.axis.spatial(8, i)",
        f"{pad}    vj = T.axis.spatial(8, {binding['j']})",
        f"{pad}    vk = T.axis.reduce(({low}, {high}), {binding['k']})",
    ]
    if rng.random() < 0.2:
        lines.append(f"{pad}    T.where({rng.choice(['i < 6', 'k > 0', 'i + j < 9'])})")
    lines += [f"{pad}    with T.init():", f"{pad}        C[vi, vj] = {rng.choice(['0', '0', '7', 'vi'])}"]
    lines.append(f"{pad}    C[vi, vj] = {update}")
    if rng.random() < 0.3:
        lines.append(f"        {rng.choice(beside).format(loops[0])}")
    return "\n".join(lines)


@pytest.mark.parametrize("first", by_day(range(0, 120, 60)))
def test_inits_of_all_kinds(first: int, quick: Counter[str]) -> None:
    for seed in range(first, first + 60):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(program(rng)))
        try:
            if rng.random() < 0.4:
                sch.split(sch.loop(rng.choice("ijk")), [None, rng.choice([2, 4])])
            names = [loop.loop_var.name for loop in each(For, sch.mod["main"].body)]
            sch.decompose_reduction("C", sch.loop(rng.choice(names)))
        except ScheduleError:
            continue
    assert quick["proved"] > 8


PRODUCT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, k_0, j, k_1 in T.grid(8, 2, 8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            vk = T.axis.reduce(8, k_0 * 4 + k_1)
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk]
"""


@pytest.mark.parametrize("loop", ["i", "k_0", "j", "k_1"])
def test_a_product_needs_no_flow(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flow(monkeypatch)
    sch: Any = tl.Schedule(parse(PRODUCT))
    sch.decompose_reduction("C", sch.loop(loop))


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("A[vi, vk]", "C[vi, 7 - vj]"),
        ("C[vi, vj] = C[vi, vj] +", "C[vi, vj] = C[vi, (vj + 1) % 8] +"),
        ("k_0 * 4 + k_1", "7 - (k_0 * 4 + k_1)"),
    ],
)
def test_what_the_old_init_hid_is_seen(change: str, by: str, quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(PRODUCT.replace(change, by)))
    assert not sch.can("decompose_reduction", "C", sch.loop("k_0")).proved
    assert not quick["proved"]


PEELED = """
@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n",), "float32"), n: T.int32, m: T.int32):
    if m >= LEAST:
        for i_0 in range(n % 32 // 8):
            for k in range(m):
                for i_1 in range(8):
                    with T.block("C"):
                        vi = T.axis.spatial(n, n // 32 * 32 + i_0 * 8 + i_1)
                        vk = T.axis.reduce(m, k)
                        with T.init():
                            C[vi] = 0.0
                        C[vi] = C[vi] + A[vi, vk]
"""


def test_a_sum_of_unknown_length_needs_no_flow_where_it_has_a_step(quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(PEELED.replace("LEAST", "1")))
    sch.decompose_reduction("C", sch.loop("k"))
    assert quick["proved"]


def test_a_sum_that_may_have_no_step_begins_where_it_did(quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(PEELED.replace("LEAST", "0")))
    assert not sch.can("decompose_reduction", "C", sch.loop("k")).proved
    assert not quick["proved"]
