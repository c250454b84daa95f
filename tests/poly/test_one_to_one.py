"""What is proved of memory of another shape or place is proved by the flow of values too; what mixes elements is proved by neither."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tests.poly.second_opinion import counted, no_flow
from tirlower.diagnostics import ScheduleError
from tirlower.script import parse


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What subscripts alone prove."""
    return counted(monkeypatch, "one_to_one")


INDICES = ["i, j"] * 8 + [
    "i, 0",
    "j, i",
    "0, j",
    "i, j + 1",
    "i + 1, j",
    "2 * i, j",
    "i, j // 2",
    "i // 2, j",
    "7 - i, j",
    "i, A[i, j] % 8",
]
DATA = ["A[i, j]", "A[j, i] + 1", "i - j"]


def program(rng: random.Random) -> str:
    """Statements in nests that share loops, and memory of the function's own in front of them or inside."""
    place = rng.choice(["front", "outer", "inner"])
    alloc, spaces = 'B = T.alloc_buffer((18, 10), "int32")', "    "
    lines = ["@T.prim_func", 'def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):']
    if place == "front":
        lines.append(spaces + alloc)
    if rng.random() < 0.3:
        lines.append(spaces + "for t in range(3):")
        spaces += "    "
        if place == "outer" and rng.random() < 0.5:
            place = ""
            lines.append(spaces + alloc)
    lines.append(f"{spaces}for i in range({rng.choice(['8', '8', '1, 7', '1'])}):")
    if place == "outer":
        lines.append(f"{spaces}    {alloc}")
    for _ in range(rng.choice([1, 1, 2])):
        inner = rng.choice([f"for j in range({rng.choice(['8', '8', '2, 8'])}):", "if i > 2:"])
        lines.append(f"{spaces}    for j in range(8):" if place == "inner" else f"{spaces}    {inner}")
        names = inner.startswith("for") or place == "inner"

        def told(text: str, names: bool = names) -> str:
            return text if names else text.replace("j", "1")

        pad = spaces + "        "
        if place == "inner":
            lines.append(pad + alloc)
        lines.append(f"{pad}B[{told(rng.choice(INDICES))}] = {told(rng.choice(DATA))}")
        if rng.random() < 0.5:
            lines.append(f"{pad}B[{told(rng.choice(INDICES))}] = B[{told(rng.choice(INDICES))}] + 1")
        lines.append(f"{pad}C[{told('i, j')}] = B[{told(rng.choice(INDICES))}] * 3")
        if place == "inner":
            break
    return "\n".join(lines)


def step(sch: Any, rng: random.Random) -> None:
    """Move or reshape the memory."""
    kind = rng.choice(["expand", "privatize", "privatize", "lift_alloc", "contract", "layout"])
    loop = sch.loop(rng.choice(["i", "j", "i"]))
    if kind == "expand":
        sch.expand("B", loop)
    elif kind == "privatize":
        sch.privatize("B", loop)
    elif kind == "lift_alloc":
        sch.lift_alloc("B", loop)
    elif kind == "contract":
        sch.contract("B", rng.choice([0, 1]))
    else:
        sch.transform_layout("i", "B", lambda a, b: [b, a])


@pytest.mark.parametrize("first", range(0, 180, 60))
def test_memory_of_all_kinds(first: int, quick: Counter[str]) -> None:
    for seed in range(first, first + 60):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(program(rng)))
        try:
            if rng.random() < 0.2:
                sch.split(sch.loop("i"), [None, 4], preserve_unit_iters=True)
            step(sch, rng)
        except ScheduleError:
            continue
    assert quick["proved"] > 2


ROWS = """
@T.prim_func
def f(X: T.Buffer((64, 40), "float32"), Y: T.Buffer((64,), "float32")):
    S = T.alloc_buffer((64,), "float32")
    for i_0, i_1 in T.grid(8, 8):
        S[i_0 * 8 + i_1] = 0.0
        for j in range(40):
            S[i_0 * 8 + i_1] = S[i_0 * 8 + i_1] + X[i_0 * 8 + i_1, j]
        Y[i_0 * 8 + i_1] = S[i_0 * 8 + i_1]
"""
LOCAL = """
@T.prim_func
def f(X: T.Buffer((8, 4), "float32"), Y: T.Buffer((8, 4), "float32")):
    for i, j in T.grid(8, 4):
        acc = T.alloc_buffer((1,), "float32")
        acc[0] = X[i, j]
        Y[i, j] = acc[0] * 2.0
"""


@pytest.mark.parametrize(
    ("text", "verb", "buffer", "loop"),
    [(ROWS, "privatize", "S", "i_0"), (ROWS, "privatize", "S", "i_1"), (LOCAL, "expand", "acc", "j")],
)
def test_rows_and_tiles_need_no_flow(
    text: str, verb: str, buffer: str, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_flow(monkeypatch)
    getattr(tl.Schedule(parse(text)), verb)(buffer, loop)


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("= S[i_0 * 8 + i_1]\n", "= S[63 - (i_0 * 8 + i_1)]\n"),
        ("Y[i_0 * 8 + i_1] = S[i_0 * 8 + i_1]", "Y[i_0 * 8 + i_1] = S[i_0 * 7 + i_1]"),
        ("S[i_0 * 8 + i_1] = 0.0", "S[i_0 * 8 + i_1 + 1] = 0.0"),
    ],
)
def test_what_iterations_hand_to_others_stays_in_front(change: str, by: str, quick: Counter[str]) -> None:
    text = ROWS.replace(change, by)
    assert text != ROWS
    sch: Any = tl.Schedule(parse(text))
    assert not sch.can("privatize", "S", "i_0").proved
    assert not quick["proved"]


def test_an_element_of_the_iteration_before_is_another_one(quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(
        parse("""
def f(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
    S = T.alloc_buffer((9,), "float32")
    for i in range(8):
        S[i + 1] = X[i]
        Y[i] = S[i]
""")
    )
    assert not sch.can("privatize", "S", "i").proved
    assert not quick["proved"]
