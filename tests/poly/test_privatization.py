"""What boxes say is written before it is read in an iteration is said of all points too; brute force over small nests agrees."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.poly.brute import events
from tirlower.ir import PrimFunc
from tirlower.poly import extract, privatization
from tirlower.poly.isl import default_solver
from tirlower.script import parse


def program(rng: random.Random) -> PrimFunc:
    """A loop with statements that write and read ``T``, in nests, sums and under guards of all kinds."""
    lines = [
        "@T.prim_func",
        'def f(A: T.Buffer((20, 20), "int32")):',
        '    t = T.alloc_buffer((20, 20), "int32")',
        f"    for r in range({rng.choice(['3', '1', '1, 3'])}):",
    ]
    for at in range(rng.choice([2, 2, 3])):
        i, j, k = f"i{at}", f"j{at}", f"k{at}"
        pad = "        "
        names = [i, j]
        rng.shuffle(names)
        sums = rng.random() < 0.4
        if sums:
            names.insert(rng.randint(0, 2), k)
        size = {i: rng.choice(["4", "4", "4", "3", "1, 4"]), j: rng.choice(["3", "3", "2", "5"]), k: "2"}
        for name in names:
            lines.append(f"{pad}for {name} in range({size[name]}):")
            pad += "    "
        target = rng.choice([f"{i}, {j}"] * 5 + [f"{i} + r, {j}", f"{i} * 3 + {j}, 0", f"{j}, {i}", f"{i}, 2 * {j}"])
        other = rng.choice([f"{i}, {j}"] * 5 + [f"3 - {i}, {j}", f"{i} + r, {j}", f"{i}, 0"])
        if rng.random() < 0.2:
            lines.append(f"{pad}if {rng.choice([f'{i} < 3', f'{j} > r', 'r == 1', f'{i} + {j} < 5'])}:")
            pad += "    "
        if sums:
            lines.append(f"{pad}if {rng.choice([f'{k} == 0', f'{k} == 0', f'{k} == 1', f'{k} + {i} == 0'])}:")
            lines.append(f"{pad}    t[{target}] = 0")
            lines.append(f"{pad}t[{target}] = t[{target}] + A[{i}, {j}]")
        elif rng.random() < 0.5 and at:
            lines.append(f"{pad}A[{i}, {j}] = t[{other}] + 1")
        else:
            lines.append(f"{pad}t[{target}] = A[{j}, {i}]")
    lines.append(f"        A[r, 10] = t[{rng.choice(['1, 1', 'r, 0', '3, 2'])}]")
    func = parse("\n".join(lines))
    assert isinstance(func, PrimFunc)
    return func


def unwritten(func: PrimFunc, loop: str) -> set[object]:
    """The loads of ``t`` that some iteration of a loop makes of an element that it has not written before."""
    found: set[object] = set()
    written: set[object] = set()
    at = None
    for event in events(func):
        values = {one.loop_var.name: value for one, value, _ in event.loops}
        if at != [values.get(name) for name in ("r", loop)]:
            at, written = [values.get(name) for name in ("r", loop)], set()
        if event.node.buffer.name != "t":
            continue
        if event.is_write:
            written |= set(event.elements)
        elif not set(event.elements) <= written:
            found.add(event.node)
    return found


@pytest.mark.parametrize("first", [0, 60])
def test_boxes_say_what_all_points_say(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 60):
        judge(seed, counts)
    assert counts["covered"] > 20 and counts["not covered"] > 20


def judge(seed: int, counts: Counter[str]) -> None:
    func = program(random.Random(seed))
    scop = extract(func)
    accesses = [one for one in scop.accesses if one.data.name.startswith("t")]
    writes = [one for one in accesses if one.is_write]
    for name in ("r", *(f"i{n}" for n in range(3))):
        loop = next((one for one in scop.loops if one.name == name), None)
        if loop is None:
            continue
        missed = unwritten(func, name)
        for read in (one for one in accesses if not one.is_write and loop in one.loops):
            if not any(privatization._box_covers(scop, one, read, loop) for one in writes if scop.exact(one)):
                counts["not covered"] += 1
                continue
            counts["covered"] += 1
            assert read.node not in missed, f"{seed}: {read.text} in {name}\n{func}"
            assert privatization.covered_within(scop, read, writes, loop, default_solver()) is True


def test_the_result_of_a_tile_asks_no_points(monkeypatch: pytest.MonkeyPatch) -> None:
    scop = extract(
        parse("""
@T.prim_func
def f(A: T.Buffer((64, 8), "float32"), C: T.Buffer((64, 64), "float32")):
    t = T.alloc_buffer((64, 64), "float32")
    for i_0, i_1, k, i_2, j in T.grid(4, 2, 8, 8, 64):
        with T.block("t"):
            vi = T.axis.spatial(64, i_0 * 16 + i_1 * 8 + i_2)
            vk, vj = T.axis.remap("RS", [k, j])
            with T.init():
                t[vi, vj] = 0.0
            t[vi, vj] += A[vi, vk]
""")
    )

    def points(*_: object) -> None:
        raise AssertionError("points were asked for")

    monkeypatch.setattr(privatization, "covered", points)
    writes = [one for one in scop.accesses if one.is_write]
    [read] = [one for one in scop.accesses if not one.is_write and one.data is writes[0].data]
    assert privatization.covered_within(scop, read, writes, scop.loop("i_0"), default_solver())


@pytest.mark.parametrize(
    ("write", "size", "covered"),
    [
        ("t[i] = A[i]", 4, True),
        ("t[i] = A[i]", 5, False),  # the last element is nobody's
        ("t[A[i]] = 1", 4, None),  # which elements are written depends on data
        ("t[7 - i] = A[i]", 4, False),
    ],
)
def test_what_is_certainly_not_covered_is_told_from_what_may_be(write: str, size: int, covered: bool | None) -> None:
    scop = extract(
        parse(f"""
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    t = T.alloc_buffer((8,), "int32")
    for r in range(3):
        for i in range(4):
            {write}
        for i in range({size}):
            B[i] = t[i]
""")
    )
    [read] = [one for one in scop.accesses if one.buffer.name == "t" and not one.is_write]
    writes = [one for one in scop.accesses if one.buffer.name == "t" and one.is_write]
    assert privatization.covered_within(scop, read, writes, scop.loop("r"), default_solver()) is covered
