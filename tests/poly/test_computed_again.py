"""What is proved of a computation run where it is read is proved by the flow of values too; what is one off is proved by neither."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tirlower as tl
from tests.poly.second_opinion import counted, no_flow
from tests.sampling import by_day
from tirlower.diagnostics import ScheduleError
from tirlower.ir import Range, Var, build
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.poly import computed_again
from tirlower.schedule.compute import compute_at
from tirlower.script import parse


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What boxes and positions alone prove."""
    return counted(monkeypatch, "computed_again")


HEAD = 'def f(A: T.Buffer((12, 12), "int32"), C: T.Buffer((12, 12), "int32"), D: T.Buffer((12, 12), "int32")):'


def producer(rng: random.Random, pad: str) -> list[str]:
    """A nest, a sum or not, a block or not, that fills ``B``."""
    value = rng.choice([*["A[vi, vj]"] * 4, "A[vj, vi]", "C[vi, vj] * 2", "A[vi, vj] + C[vj, vi]", "vi - vj"])
    rows, columns = rng.choice(["8"] * 12 + ["7", "9"]), rng.choice(["8"] * 12 + ["6", "9"])
    target = rng.choice(["vi, vj"] * 24 + ["vj, vi", "vi, vj // 2", "0, vj"])
    at_i = rng.choice(["i"] * 16 + [f"{rows} - 1 - i"])
    sums = rng.random() < 0.5
    loops = ["i", "j", *(["k"] if sums else [])]
    if rng.random() < 0.3:
        rng.shuffle(loops)
    size = {"i": rows, "j": columns, "k": "3"}
    lines = [f"{pad}for {', '.join(loops)} in T.grid({', '.join(size[one] for one in loops)}):"]
    inner = pad + "    "
    guard = rng.choice(["None"] * 24 + ["i < 5", "i + j < 11", "j > 0"])
    axes = [("S", "vi", rows, at_i), ("S", "vj", columns, "j"), *([("R", "vk", "3", "k")] if sums else [])]
    if rng.random() < 0.3:
        axes = axes[::-1]
    lines.append(f'{inner}with T.block("B"):')
    for kind, name, extent, value_of in axes:
        lines.append(f"{inner}    {name} = T.axis.{'spatial' if kind == 'S' else 'reduce'}({extent}, {value_of})")
    if guard != "None":
        lines.append(f"{inner}    T.where({guard})")
    if sums and rng.random() < 0.85:
        lines += [f"{inner}    with T.init():", f"{inner}        B[{target}] = 3"]
    sum_of = rng.choice([f"B[{target}]"] * 6 + ["B[vi, 0]"])
    lines.append(f"{inner}    B[{target}] = {f'{sum_of} + vk * ({value})' if sums else value}")
    return lines


def program(rng: random.Random) -> str:
    """A producer and nests that read ``B``, with writes of what it is made of here and there, each with a detail of its own."""
    around, pad = rng.random() < 0.25, "    "
    alloc = 'B = T.alloc_buffer((12, 12), "int32")'
    lines = ["@T.prim_func", HEAD]
    if around:
        pad += "    "
        inside = rng.random() < 0.5
        lines += ["    for r in range(2):", pad + alloc] if inside else ["    " + alloc, "    for r in range(2):"]
    else:
        lines.append(pad + alloc)
    if rng.random() < 0.05:
        lines += [f"{pad}for x, y in T.grid(12, 12):", f"{pad}    B[x, y] = x"]
    lines += producer(rng, pad)
    beside = ["A[3, 3] = 4", "C[1, 1] = 2", "D[0, 0] = 3", "D[2, 9] = 1", "B[2, 2] = 1"]
    if rng.random() < 0.15:
        lines.append(f"{pad}{rng.choice(beside)}")
    lines.append(f"{pad}for u in range({rng.choice(['8', '8', '1, 7'])}):")
    if rng.random() < 0.15:
        lines.append(f"{pad}    {rng.choice(beside)}")
    for at in range(rng.choice([1, 1, 2])):
        read = rng.choice(["u, v"] * 6 + ["v, u", "u, v + 1", "7 - u, v", "u // 2, v", "u - 1, v", "u, v % 4"])
        into = rng.choice(["C[u, v]", *["D[u, v]"] * 6, "D[v, u]", "A[u, v]", "D[0, v]"])
        other = rng.choice(["", "", " + C[u, v]", " + A[v, u]", " + D[u, v]", f" + B[{read}]", " + B[u + 1, v]"])
        lines += [f"{pad}    for v in range({rng.choice(['8', '8', '1, 8'])}):"]
        lines.append(f"{pad}        {into} = B[{read}]{other} + {at}")
    if rng.random() < 0.2:
        lines.append(f"{pad}{rng.choice([*beside, 'D[1, 1] = B[1, 1]'])}")
    return "\n".join(lines)


def askew(monkeypatch: pytest.MonkeyPatch) -> Callable[[random.Random], None]:
    """What is needed is taken for more, less or something else, as its mistakes in computing it would make it."""
    right, state = compute_at._needed, [random.Random(0)]

    def wrong(step: Any, source: Any, *args: Any) -> dict[Var, Range]:
        needed, rng = right(step, source, *args), state[0]
        if rng.random() < 0.75:
            return needed
        var = rng.choice([*source.domains])
        part = needed.get(var, source.domains[var])
        by, more = rng.choice([(0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1), (-2, 4)])
        needed[var] = Range(build.add(part.min, by), build.add(part.extent, more))
        return needed

    monkeypatch.setattr(compute_at, "_needed", wrong)
    return lambda rng: state.__setitem__(0, rng)


def attempts(first: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the producers of so many programs to some loop of their readers."""
    follow = askew(monkeypatch)
    for seed in range(first, first + count):
        rng = random.Random(seed)
        follow(rng)
        sch: Any = tl.Schedule(parse(program(rng)))
        try:
            for name in rng.sample(["i", "j", "u", "v"], rng.choice([0, 0, 1, 2])):
                sch.split(sch.loop(name if name != "v" else "v#0"), [None, rng.choice([2, 4])])
            if rng.random() < 0.2:
                sch.fuse(*sch.get_loops("B")[-2:])
            loops = [loop.loop_var.name for loop in each(For, sch.mod["main"].body) if loop.loop_var.name[0] in "uv"]
            sch.compute_at("B", f"{rng.choice(loops)}#0", preserve_unit_loops=rng.random() < 0.3)
        except ScheduleError:
            continue


@pytest.mark.parametrize("first", by_day(range(0, 120, 60)))
def test_computations_of_all_kinds(first: int, quick: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    attempts(first, 60, monkeypatch)
    assert quick["proved"] > 8 and quick["refused"] > 5


SUM = """
@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16), "float32")
    for i, k, j in T.grid(16, 4, 16):
        with T.block("B"):
            vi, vk, vj = T.axis.remap("SRS", [i, k, j])
            with T.init():
                B[vi, vj] = 0.0
            B[vi, vj] = B[vi, vj] + A[vi, vk] * A[vk, vj]
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            C[vi, vj] = B[vi, vj] + B[vi, 0]
"""


@pytest.mark.parametrize("loop", ["i_0", "j_0", "i_1", "j_1"])
def test_sums_need_no_flow(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flow(monkeypatch)
    sch: Any = tl.Schedule(parse(SUM.replace(" + B[vi, 0]", "")))
    k = sch.get_loops("B")[1]
    sch.split(k, [None, 2])
    sch.compute_at("B", loop)


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("B[vi, 0]\n", "B[0, vj]\n"),
        ("C[vi, vj] = B", "A[vi, vj] = B"),  # what B is made of is written where it is read
        ("            with T.init():\n                B[vi, vj] = 0.0\n", ""),  # sums up what was there
        ("B[vi, vj] + A[vi", "B[vj, vi] + A[vi"),
        ("vj = T.axis.spatial(16, j_0", "vj = T.axis.spatial(16, 15 - j_0"),
    ],
)
@pytest.mark.parametrize("loop", ["i_0", "j_1"])
def test_one_off(change: str, by: str, loop: str, quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(SUM.replace(change, by)))
    found = sch.can("compute_at", "B", loop)
    assert not quick["proved"] or found.proved


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["are_old", "_covers", "_inputs", "same_sums"])
def test_a_condition_left_out_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Any, *_: object) -> None:
        self.further, self.sums_up = [], set()

    monkeypatch.setattr(computed_again._Proof, name, nothing)
    counted(monkeypatch, "computed_again")
    with pytest.raises(AssertionError, match="\nto\n"):
        attempts(0, 600, monkeypatch)
