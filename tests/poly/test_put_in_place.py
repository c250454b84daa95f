"""What is proved of a value put where it is read is proved by the flow of values too; what is one off is proved by neither."""

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
    """What subscripts, boxes and positions alone prove."""
    return counted(monkeypatch, "put_in_place")


HEAD = 'def f(A: T.Buffer((12, 12), "int32"), C: T.Buffer((12, 12), "int32"), D: T.Buffer((12, 12), "int32")):'


def program(rng: random.Random) -> str:
    """A nest that fills ``B`` and nests that read it, with writes of what it is made of here and there, each with a detail of its own."""
    value = rng.choice(["A[i, j] + 1", "A[j, i]", "C[i, j] * 2", "A[i, j] + C[j, i]", "i - j", "A[(i + j) % 8, 0]"])
    rows, columns = rng.choice(["8"] * 6 + ["1, 8", "7"]), rng.choice(["8"] * 6 + ["2, 8"])
    target = rng.choice(["i, j"] * 12 + ["j, i", "i, j // 2", "0, j", "i, j + 1"])
    guard = rng.choice([""] * 12 + ["if i > 1:", "if A[0, 0] > 0:"])
    around = rng.random() < 0.25
    lines = ["@T.prim_func", HEAD]
    pad, alloc = "    ", 'B = T.alloc_buffer((8, 12), "int32")'
    if around:
        pad += "    "
        lines += (
            ["    for r in range(3):", pad + alloc]
            if rng.random() < 0.5
            else ["    " + alloc, "    for r in range(3):"]
        )
    else:
        lines.append(pad + alloc)
    nest = [f"for i in range({rows}):", f"    for j in range({columns}):"]
    if rng.random() < 0.2:
        nest = [f"for j in range({columns}):", f"    for i in range({rows}):"]
    store = f"B[{target}] = {value}"
    if rng.random() < 0.15:  # what is read is of the iteration before, or of nobody
        lines += [f"{pad}for x, y in T.grid(8, 8):", f"{pad}    D[x, y] = B[x, y] + A[x, y]"]
    lines += [pad + line for line in nest]
    lines += [f"{pad}        {guard}", f"{pad}            {store}"] if guard else [f"{pad}        {store}"]
    beside = ["A[3, 3] = 4", "C[1, 1] = 2", "D[0, 0] = 3", "A[9, 9] = 1"]
    for at in range(rng.choice([1, 1, 2])):
        if rng.random() < 0.15:
            lines.append(f"{pad}{rng.choice(beside)}")
        low = rng.choice(["8", "8", "2, 8", "2, 7"])
        read = rng.choice(["u, v"] * 8 + ["v, u", "u, v + 1", "7 - u, v", "u // 2, v", "u - 1, v"])
        into = rng.choice(
            ["C[u, v]", "D[u, v]", "D[u, v]", "D[v, u]", "D[u, v]", "A[u, v]", "D[0, v]", "D[B[u, v], 0]"]
        )
        other = rng.choice(["", " + C[u, v]", " + A[v, u]", " + D[u, v]", f" + B[{read}]"])
        lines += [f"{pad}for u in range({low}):", f"{pad}    for v in range({rng.choice(['8', '2, 8'])}):"]
        lines.append(f"{pad}        {into} = B[{read}]{other} + {at}")
    if rng.random() < 0.2:
        lines.append(f"{pad}{rng.choice(beside)}")
    return "\n".join(lines)


@pytest.mark.parametrize("first", range(0, 160, 80))
def test_values_of_all_kinds(first: int, quick: Counter[str]) -> None:
    for seed in range(first, first + 80):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(program(rng)))
        try:
            for name in rng.sample("ijuv", rng.choice([0, 0, 1, 2])):
                sch.split(sch.loop(name), [None, rng.choice([2, 4])])
            sch.compute_inline("B")
        except ScheduleError:
            continue
    assert quick["proved"] > 5 and quick["refused"] > 5


BLOCKS = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8), "float32")
    for i_0, j, i_1 in T.grid(2, 8, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj = T.axis.spatial(8, j)
            B[vi, vj] = A[vj, vi] * 2.0
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(B[vi, vj], B[vj, vi])
"""


@pytest.mark.parametrize("loops", ["i_0, j, i_1 in T.grid(2, 8, 4)", "i, j in T.grid(8, 8)"])
def test_blocks_need_no_flow(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flow(monkeypatch)
    text = BLOCKS.replace("i_0, j, i_1 in T.grid(2, 8, 4)", loops)
    text = text if "i_0" in loops else text.replace("i_0 * 4 + i_1", "i")
    sch: Any = tl.Schedule(parse(text))
    sch.compute_inline("B")


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("B[vj, vi])", "B[vj, (vi + 1) % 8])"),
        ("C[vi, vj] = T.max", "A[vi, vj] = T.max"),  # what B is made of is written where it is read
        ("vj = T.axis.spatial(8, j)\n            B[", "vj = T.axis.spatial(8, 7 - j)\n            B["),
    ],
)
def test_one_off(change: str, by: str, quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(BLOCKS.replace(change, by)))
    found = sch.can("compute_inline", "B")
    assert not quick["proved"] or found.proved
