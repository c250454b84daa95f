"""What is proved of a consumer run in the loops of what it reads is proved by the flow of values too; what is one off by neither."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tirlower as tl
from tests.poly.second_opinion import counted, no_flow
from tirlower.diagnostics import ScheduleError
from tirlower.ir import Expr, Range, Var, build
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.poly import run_earlier
from tirlower.schedule.compute import reverse_compute_at, reverse_inline
from tirlower.script import parse


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What boxes and positions alone prove."""
    return counted(monkeypatch, "run_earlier")


HEAD = 'def f(A: T.Buffer((12, 12), "int32"), C: T.Buffer((12, 12), "int32"), D: T.Buffer((12, 12), "int32")):'


def consumer(rng: random.Random, pad: str) -> list[str]:
    """A nest, a sum or not, a block or not, that reads ``B``."""
    read = rng.choice(["vi, vj"] * 24 + ["vj, vi", "vi, 0", "vi, 7 - vj", "vi + 1, vj"])
    target = rng.choice(["vi, vj"] * 24 + ["vj, vi", "vi, vj // 2", "0, vj", "vj + 2, vi"])
    other = rng.choice([""] * 12 + [" + A[vi, vj]", " + D[vj, vi]", f" + B[{read}]", " + C[vj, vi]"])
    rows, columns = rng.choice(["8"] * 24 + ["7"]), rng.choice(["8"] * 24 + ["6"])
    sums = rng.random() < 0.3
    loops = ["x", "y", *(["z"] if sums else [])]
    if rng.random() < 0.3:
        rng.shuffle(loops)
    size = {"x": rows, "y": columns, "z": "3"}
    lines = [f"{pad}for {', '.join(loops)} in T.grid({', '.join(size[one] for one in loops)}):"]
    inner, value = pad + "    ", f"B[{read}]{other}"
    if rng.random() < 0.7:
        axes = [("S", "vi", rows, "x"), ("S", "vj", columns, "y"), *([("R", "vk", "3", "z")] if sums else [])]
        lines.append(f'{inner}with T.block("C"):')
        inner += "    "
        for kind, name, extent, loop in axes:
            lines.append(f"{inner}{name} = T.axis.{'spatial' if kind == 'S' else 'reduce'}({extent}, {loop})")
        if rng.random() < 0.05:
            lines.append(f"{inner}T.where({rng.choice(['x < 5', 'x + y < 11'])})")
        if sums and rng.random() < 0.7:
            lines += [f"{inner}with T.init():", f"{inner}    C[{target}] = 3"]
    else:
        value, target = (text.replace("vi", "x").replace("vj", "y") for text in (value, target))
        if rng.random() < 0.05:
            lines.append(f"{inner}if x < 5:")
            inner += "    "
    factor = ("vk" if "vi" in value else "z") if sums else "2"
    lines.append(f"{inner}C[{target}] = {f'C[{target}] + ' if sums else ''}{factor} * ({value})")
    return lines


def program(rng: random.Random) -> str:
    """Nests that write ``B`` and a consumer, with accesses of what it touches here and there, each with a detail of its own."""
    around, pad = rng.random() < 0.2, "    "
    alloc = 'B = T.alloc_buffer((12, 12), "int32")'
    lines = ["@T.prim_func", HEAD]
    if around:
        pad += "    "
        inside = rng.random() < 0.5
        lines += ["    for r in range(2):", pad + alloc] if inside else ["    " + alloc, "    for r in range(2):"]
    else:
        lines.append(pad + alloc)
    beside = ["A[3, 3] = 4", "C[1, 1] = 2", "D[0, 0] = 3", "D[2, 9] = C[2, 2]", "B[2, 2] = 1", "C[9, 9] = 1"]
    low = rng.choice([*["8"] * 8, "9", "1, 8"])
    if low != "8":
        lines += [f"{pad}for p, q in T.grid(12, 12):", f"{pad}    B[p, q] = p - q"]
    lines.append(f"{pad}for u in range({low}):")
    if rng.random() < 0.1:
        lines.append(f"{pad}    {rng.choice(beside)}")
    target = rng.choice(["u, v"] * 24 + ["v, u", "7 - u, v", "0, v"])
    for at in range(rng.choice([1, 1, 1, 2])):
        value = rng.choice([*["A[u, v]"] * 6, "A[v, u]", "D[u, v]", "u - v", "C[u, v]", "B[u, v]" if at else "A[0, v]"])
        lines.append(f"{pad}    for v in range({rng.choice(['8', '8', '8', '9'])}):")
        if rng.random() < 0.15:
            lines += [f"{pad}        B[{target}] = 0", f"{pad}        for w in range(3):"]
            lines.append(f"{pad}            B[{target}] = B[{target}] + {value} * w")
        else:
            lines.append(f"{pad}        B[{target}] = {value} + {at}")
    if rng.random() < 0.1:
        lines.append(f"{pad}{rng.choice(beside)}")
    lines += consumer(rng, pad)
    if rng.random() < 0.2:
        lines.append(f"{pad}{rng.choice([*beside, *['D[1, 1] = B[1, 1]'] * 6])}")
    return "\n".join(lines)


def askew(monkeypatch: pytest.MonkeyPatch) -> Callable[[random.Random], None]:
    """Where the consumer goes is taken for something else, as a mistake in computing it would make it."""
    state, part_of, solved = [random.Random(0)], reverse_compute_at.part_of, reverse_inline._solved

    def wrong_part(step: Any, draft: Any, source: Any, needed: dict[Var, Range], *args: Any) -> Any:
        rng = state[0]
        if rng.random() < 0.2:
            var = rng.choice([*source.domains])
            part = needed.get(var, source.domains[var])
            by, more = rng.choice([(0, 1), (0, -1), (1, 0), (-1, 0), (1, -1), (-1, 1), (-2, 4)])
            needed[var] = Range(build.add(part.min, by), build.add(part.extent, more))
        return part_of(step, draft, source, needed, *args)

    def wrong_values(*args: Any) -> dict[Var, Expr]:
        values, rng = solved(*args), state[0]
        if values and rng.random() < 0.25:
            var = rng.choice([*values])
            values[var] = rng.choice(
                [build.add(values[var], 1), build.sub(7, values[var]), rng.choice([*values.values()])]
            )
        return values

    monkeypatch.setattr(reverse_compute_at, "part_of", wrong_part)
    monkeypatch.setattr(reverse_inline, "_solved", wrong_values)
    return lambda rng: state.__setitem__(0, rng)


def attempts(first: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Move the consumers of so many programs into some loop, or into the statement, that writes what they read."""
    follow = askew(monkeypatch)
    for seed in range(first, first + count):
        rng = random.Random(seed)
        follow(rng)
        sch: Any = tl.Schedule(parse(program(rng)))
        what = "C"
        try:
            for name in rng.sample(["u", "v#0", "x", "y"], rng.choice([0, 0, 1, 2])):
                sch.split(sch.loop(name), [None, rng.choice([2, 4])])
            if rng.random() < 0.4:
                sch.reverse_compute_inline(what)
            else:
                loops = [
                    loop.loop_var.name for loop in each(For, sch.mod["main"].body) if loop.loop_var.name[0] in "uv"
                ]
                sch.reverse_compute_at(what, f"{rng.choice(loops)}#0", preserve_unit_loops=rng.random() < 0.3)
        except ScheduleError:
            continue


@pytest.mark.parametrize("first", range(0, 120, 60))
def test_consumers_of_all_kinds(first: int, quick: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    attempts(first, 60, monkeypatch)
    assert quick["proved"] > 4 and quick["refused"] > 5


PAIR = """
@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16), "float32")
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 4, 4):
        with T.block("B"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            B[vi, vj] = A[vj, vi] * 2.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(B[vi, vj], 0.0) + C[vi, vj]
"""


@pytest.mark.parametrize("loop", ["i_0", "j_0", "i_1", "j_1", ""])
def test_blocks_need_no_flow(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_flow(monkeypatch)
    sch: Any = tl.Schedule(parse(PAIR))
    if loop:
        sch.split(sch.get_loops("C")[1], [None, 4])
        sch.reverse_compute_at("C", f"{loop}#0")
    else:
        sch.reverse_compute_inline("C")


@pytest.mark.parametrize(
    ("change", "by"),
    [
        ("B[vi, vj], 0.0)", "B[vj, vi], 0.0)"),
        ("C[vi, vj] = T.max", "A[vi, vj] = T.max"),  # what B is made of is written where B is read
        ("B[vi, vj], 0.0) + C[vi, vj]", "B[vi, vj], 0.0) + C[vj, vi]"),
        ("C[vi, vj] = T.max", "C[vi, 0] = T.max"),
        ("B[vi, vj] = A", "B[vi, 0] = A"),
    ],
)
@pytest.mark.parametrize("loop", ["i_0", "j_1", ""])
def test_one_off(change: str, by: str, loop: str, quick: Counter[str]) -> None:
    sch: Any = tl.Schedule(parse(PAIR.replace(change, by)))
    found = sch.can("reverse_compute_at", "C", loop) if loop else sch.can("reverse_compute_inline", "C")
    assert not quick["proved"] or found.proved


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["_comes_before", "_between", "_each_once", "_replaces"])
def test_a_condition_left_out_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: Any, *_: object, **__: object) -> None:
        self.further = []

    monkeypatch.setattr(run_earlier._Proof, name, nothing)
    counted(monkeypatch, "run_earlier")
    with pytest.raises(AssertionError, match="\nto\n"):
        attempts(0, 600, monkeypatch)
