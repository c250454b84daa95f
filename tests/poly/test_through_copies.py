"""What is proved by boxes and positions is proved by the flow of values too; what is one off is proved by neither."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from tests.fuzz.values import chain
from tests.poly.second_opinion import counted, no_flow
from tirlower.diagnostics import ScheduleError
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore, For
from tirlower.script import parse


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What boxes and positions alone prove."""
    return counted(monkeypatch, "fed_through_copies")


def program(rng: random.Random) -> str:
    """Nests that fill, update and read ``C`` and read ``A``, each with a detail of its own."""
    low, high = rng.choice([(0, 8), (0, 8), (1, 8), (0, 7)])
    shift, other = rng.choice([0, 0, 0, 1]), rng.choice([0, 0, -1])
    first = rng.choice(
        ["C[i, j] = 0", "if k == 0:\n                C[i, j] = 0", "if i > 2:\n                C[i, j] = 0"]
    )
    update = rng.choice(
        ["C[i, j] = C[i, j] + A[k, j]", "C[i, j] = A[j, k] + C[i, j]", f"C[i, j] = C[i, j + {shift}] + A[i, k]"]
    )
    order = rng.choice(["k, j", "j, k"])
    sizes = {"k": "3", "j": f"{low}, {high - shift}"}
    names = order.split(", ")
    lines = [
        "@T.prim_func",
        'def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), D: T.Buffer((8,), "int32")):',
        f"    for i in range({-other}, 8):",
    ]
    if rng.random() < 0.3:
        lines.append(f"        {rng.choice(['C[i, 3] = 5', 'A[i, 1] = 2', 'D[i] = C[i, 2]', 'D[i] = A[2, i]'])}")
    if "k" not in first or rng.random() < 0.2:
        lines += [f"        for m in range({sizes['j']}):"]
        lines.append("            " + first.replace("k == 0", "i == 1").replace("j]", "m]"))
        first = ""
    lines += [
        f"        for {names[0]} in range({sizes[names[0]]}):",
        f"          for {names[1]} in range({sizes[names[1]]}):",
    ]
    lines += [f"            {first}"] if first else []
    lines.append(f"            {update}")
    if rng.random() < 0.4:
        lines.append(
            f"        {rng.choice(['D[i] = C[i, 4]', 'C[i, 0] = 1', 'D[i] = A[i, i]', f'D[i] = C[i + {other}, 4]'])}"
        )
    return "\n".join(lines)


LAYOUTS: list[Any] = [
    None,
    lambda i, j: [j, i],
    lambda i, j: [i // 4, j, i % 4],
    lambda i, j: [j // 3, i, j % 3],
    lambda i, j: [i + j],
    lambda i, j: [i // 2, j],
]


def step(sch: Any, rng: random.Random) -> None:
    """A step that copies, with a window that may be too small or elsewhere, and copies that may be missing."""
    loops = [loop.loop_var.name for loop in each(For, sch.mod["main"].body)]
    at, buffer = sch.loop(rng.choice(loops)), rng.choice(["A", "C", "C"])
    kind = rng.random()
    if kind < 0.2:
        sch.pack(buffer, at=at, layout=rng.choice(LAYOUTS))
    elif kind < 0.3:
        stores = [store.buffer.name for store in each(BufferStore, sch.mod["main"].body)]
        sch.cache_write(rng.choice(stores), 0, "local", copy_in=rng.random() < 0.5)
    else:
        parts = [(rng.choice(["0", "0", "1", "i"]), rng.choice(["8", "8", "7", "1", "2"])) for _ in range(2)]
        window = f"{buffer}[{', '.join(f'{low}:+{width}' for low, width in parts)}]"
        ways = [{"load": rng.random() < 0.6, "store": rng.random() < 0.6}, {}]
        sch.stage_mem(at, rng.choice([buffer, window, window]), inside=rng.random() < 0.6, **rng.choice(ways))


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(40, 160, 40))])
def test_windows_of_all_kinds(first: int, quick: Counter[str]) -> None:
    for seed in range(first, first + 40):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(program(rng)))
        for _ in range(3):
            try:
                step(sch, rng)
            except ScheduleError:
                continue
    assert quick["proved"] > 5 and quick["refused"] > 5


def test_chains_of_nests(quick: Counter[str]) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(chain(seed)))
        names = [store.buffer.name for store in each(BufferStore, sch.mod["main"].body)]
        for name in names:
            for verb in ("cache_write", "cache_read"):
                try:
                    if verb == "cache_write":
                        sch.cache_write(name, 0, "local", copy_in=rng.random() < 0.3)
                    else:
                        sch.cache_read(name, rng.choice(["A", "B"]), "local")
                except ScheduleError:
                    continue
    assert quick["proved"] > 20


BLOCKED = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i_0, j, k, i_1 in T.grid(2, 8, 8, WIDTH):
        with T.block("C"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk]
"""


@pytest.mark.parametrize(("width", "proved"), [("4", True), ("3", False), ("5", False)])
def test_an_init_that_writes_every_digit_fills_a_tile(width: str, proved: bool, quick: Counter[str]) -> None:
    text = BLOCKED.replace("WIDTH", width).replace(
        "T.axis.spatial(8", "T.axis.spatial(16" if width == "5" else "T.axis.spatial(8"
    )
    sch: Any = tl.Schedule(parse(text))
    try:
        sch.cache_write("C", 0, "local")
    except ScheduleError:
        assert not proved
    assert bool(quick["proved"]) is proved


UPDATED = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i in range(8):
        for k in range(8):
            for j in range(8):
                C[i, j] = C[i, j] + A[k, j]
"""


@pytest.mark.parametrize(
    ("window", "named", "proved"),
    [
        ("C[i:+1, 0:+8]", {}, True),
        ("C[i:+1, 0:+8]", {"store": False}, False),
        ("C[i:+1, 0:+8]", {"load": False}, False),
        ("C[i:+1, 0:+7]", {}, False),
        ("C[i:+1, 1:+7]", {}, False),
        ("C[0:+8, 0:+8]", {}, True),
        ("A[0:+8, 0:+8]", {}, True),
        ("A[i:+1, 0:+8]", {}, False),
    ],
)
def test_a_tile_is_the_box_that_it_should_be(window: str, named: dict[str, bool], proved: bool) -> None:
    sch: Any = tl.Schedule(parse(UPDATED))
    assert sch.can("stage_mem", sch.loop("k"), window, **named).proved is proved


def test_copies_need_no_isl_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    no_flow(monkeypatch)
    sch: Any = tl.Schedule(parse(UPDATED))
    sch.stage_mem("k", "C")
    sch.pack("A", layout=lambda i, j: [j // 4, i, j % 4])
    sch = tl.Schedule(parse(UPDATED))
    sch.cache_read("C", "A", "local")
    # A loop of one iteration is in the subscripts, and in those of the copies it is not.
    sch = tl.Schedule(parse(UPDATED))
    outer, _ = sch.split(sch.loop("j"), [1, None])
    sch.reorder(outer, sch.loop("k"))
    sch.stage_mem("k", "C")
    sch.pack("A", layout=lambda i, j: [j // 4, i, j % 4])


OWN = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), D: T.Buffer((8,), "int32")):
    C = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for j in range(START, 8):
            C[j] = A[j] + i
        for j in range(8):
            D[j] = D[j] + C[j]
    LAST
"""


@pytest.mark.parametrize(
    ("start", "last", "proved"),
    [("0", "D[0] = 1", True), ("1", "D[0] = 1", False), ("0", "D[0] = C[3]", False)],
)
def test_memory_that_nothing_accesses_any_more_needs_no_copy(
    start: str, last: str, proved: bool, quick: Counter[str]
) -> None:
    sch: Any = tl.Schedule(parse(OWN.replace("START", start).replace("LAST", last)))
    found = sch.can("stage_mem", "i", "C", inside=True, load=False, store=False)
    assert bool(quick["proved"]) is proved
    assert found.proved or not proved
