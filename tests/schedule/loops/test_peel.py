"""First and last iterations in loops of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tests.schedule.stepping import refused
from tirlower.diagnostics import BadArgument, NotApplicable, ScheduleError
from tirlower.script import parse


@pytest.mark.parametrize("extent", ["7", "1", "0", "n", "n - 4"])
@pytest.mark.parametrize(("front", "back"), [(1, 0), (0, 1), (2, 3), (9, 1)])
@pytest.mark.parametrize("blocks", [False, True])
def test_all_iterations_stay(extent: str, front: int, back: int, blocks: bool) -> None:
    body = "A[i] = A[i] * 2 + i"
    if blocks:
        body = """with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = A[vi] * 2 + vi"""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(2, 2 + {extent}):
        {body}
""")
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    parts = sch.peel(i, front, back)
    assert len(parts) == 1 + bool(front) + bool(back)
    assert sch.get(i) is sch.get(parts[bool(front)])
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"], inputs=[[np.arange(16, dtype="int32"), n] for n in (-1, 0, 1, 2, 5, 13)])
    again(func, sch)


@pytest.mark.parametrize("extent", ["7", "8", "1", "0", "n", "n - 4"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("front", "beyond"), [(0, 1), (0, 4), (1, 4), (3, 5)])
def test_what_is_beyond_a_multiple(extent: str, dtype: str, front: int, beyond: int) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), n: T.{dtype}):
    for i in range(2, 2 + {extent}):
        A[i] = A[i] * 2 + T.Cast("int32", i)
""")
    sch = tl.Schedule(func, debug_mask="all")
    i = sch.loop("i")
    *_, kept, rest = sch.peel(i, front, beyond=beyond)
    assert sch.get(i) is sch.get(kept)
    sch.split(kept, [None, beyond], disable_predication=True)  # which is proved to be exact
    left = getattr(sch.get(rest).extent, "value", None)
    if extent.isdigit():
        assert left == max(0, int(extent) - front) % beyond
    executes_alike(func, sch.mod["main"], inputs=[[np.arange(16, dtype="int32"), n] for n in (-1, 0, 1, 2, 5, 13)])
    again(func, sch)


def test_multiples_of_multiples_are_proved() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i] = i
""")
    sch = tl.Schedule(func, debug_mask="all")
    whole, rest = sch.peel("i", beyond=32)
    half, _ = sch.peel(rest, beyond=8)
    for loop, size in ((whole, 32), (half, 8)):
        sch.split(loop, [None, size], disable_predication=True)
    assert "if " not in str(sch.mod["main"])
    executes_alike(func, sch.mod["main"], inputs=[[np.zeros(n, "int32")] for n in (0, 1, 8, 31, 32, 47, 64)])


def test_names_of_blocks_stay_apart() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("A"):
            vi = T.axis.spatial(16, i)
            A[vi] = vi
""")
    sch = tl.Schedule(func, debug_mask="all")
    block = sch.get_block("A")
    sch.peel("i", 1, 1)
    assert sch.get(sch.get_block("A")) is sch.get(block)
    assert sch.get(sch.get_block("A_front")).name == "A_front" and sch.get(sch.get_block("A_back")).name == "A_back"


def test_what_is_refused() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in T.vectorized(16):
        A[i] = i
    for j in range(16):
        if j > 3:
            T.evaluate(T.break_loop())
        A[j] = j
""")
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="vectorized"):
        sch.peel("i", 1)
    with pytest.raises(NotApplicable, match="early"):
        sch.peel("j", 1)
    with pytest.raises(BadArgument, match="nothing"):
        sch.peel("j")
    with pytest.raises(BadArgument, match="or more"):
        sch.peel("j", -1)
    with pytest.raises(BadArgument, match="back= or beyond="):
        sch.peel("j", back=1, beyond=4)
    with pytest.raises(BadArgument, match="or more"):
        sch.peel("j", beyond=-4)


def test_the_handle_of_a_sequence_in_the_body_is_in_no_ones_way() -> None:
    sch = tl.Schedule(
        parse("""
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 1
        with T.alloc_buffer((1,), "int32", scope="local") as w:
            w[0] = i
            A[i] = A[i] + w[0]
""")
    )
    store, _ = sch.loop("i").body
    sch.peel("i", 1)
    assert len(store.twins) == 1


SUMS = """
@T.prim_func
def f(A: T.Buffer((16, 8), "float32"), C: T.Buffer((24,), "float32"), n: T.{dtype}):
    for i in range({low}, {low} + {extent}):
        {body}
"""
PLAIN = """C[i] = T.float32(1)
        for k in range(8):
            C[i] = C[i] + A[i % 16, k]"""
BLOCK = """for k in range(8):
            with T.block("C"):
                vi = T.axis.spatial(24, i)
                vk = T.axis.reduce(8, k)
                with T.init():
                    C[vi] = T.float32(1)
                C[vi] = C[vi] + A[vi % 16, vk]"""


@pytest.mark.parametrize("debug_mask", ["none", "all"])
@pytest.mark.parametrize("body", [PLAIN, BLOCK])
@pytest.mark.parametrize(
    ("low", "extent", "dtype", "beyond"),
    [
        ("0", "8", "int32", 4),
        ("3", "7", "int32", 4),
        ("0", "n", "int32", 4),
        ("2", "n", "int32", 5),
        ("0", "13", "int64", 13),
    ],
)
def test_the_last_part_begins_earlier(
    debug_mask: str, body: str, low: str, extent: str, dtype: str, beyond: int
) -> None:
    func = parse(SUMS.format(low=low, extent=extent, dtype=dtype, body=body))
    sch = tl.Schedule(func, debug_mask=debug_mask)
    block = sch.get_block("C") if body is BLOCK else None
    i = sch.loop("i")
    if "n" in extent:
        sch.specialize(i, f"{extent} >= {beyond}")
    kept, last = sch.peel(i, beyond=beyond, tail="shift")
    assert sch.get(i) is sch.get(kept) and sch.get(last).extent.value == beyond
    if block is not None:
        assert sch.get(block).name == "C" and [twin.name for twin in block.twins][-1].startswith("C_")
    for loop in (kept, last):
        sch.split(loop, [None, beyond], disable_predication=True)
    roundtrips(sch.mod["main"])
    numbers = np.random.default_rng(0)
    a, c = numbers.random((16, 8), dtype=np.float32), numbers.random(24, dtype=np.float32)
    executes_alike(func, sch.mod["main"], inputs=[[a, c, n] for n in (0, 1, 3, 4, 5, 8, 13, 21)])
    again(func, sch)


UPDATE = """
@T.prim_func
def f(C: T.Buffer((16,), "int32"), N: T.Buffer((1,), "int32"), n: T.int32):
    for i in range({extent}):
        {body}
"""


def test_what_must_not_run_again() -> None:
    refused(
        UPDATE.format(extent=7, body="C[i] = C[i] + i"),
        lambda sch: sch.peel("i", beyond=4, tail="shift"),
        match="would see",
    )
    once = UPDATE.format(extent=5, body="C[i] = i + C[i + 1]")
    refused(once, lambda sch: sch.peel("i", beyond=4, tail="shift"))
    even = UPDATE.format(extent=8, body="C[i] = C[i] + i")  # of whole parts none runs twice
    sch = tl.Schedule(parse(even), debug_mask="all")
    kept, last = sch.peel("i", beyond=4, tail="shift")
    assert [str(sch.get(kept).extent), str(sch.get(last).min), str(sch.get(last).extent)] == ["4", "4", "4"]
    executes_alike(parse(even), sch.mod["main"])


def test_where_no_last_part_can_begin_earlier() -> None:
    def error(extent: str, *args: object, body: str = "C[i] = i", **options: object) -> ScheduleError:
        sch = tl.Schedule(parse(UPDATE.format(extent=extent, body=body)))
        with pytest.raises((NotApplicable, BadArgument)) as caught:
            sch.peel("i", *args, **options)
        return caught.value

    assert "is not known to be 4 at least" in str(error("n", beyond=4, tail="shift"))
    assert 'sch.specialize(loop, "n >= 4")' in str(error("n", beyond=4, tail="shift"))
    assert "at least" in str(error("3", beyond=4, tail="shift"))
    assert "at least" in str(error("N[0]", beyond=4, tail="shift")), "nothing writes it"
    assert "without front= or back=" in str(error("8", 1, beyond=4, tail="shift"))
    assert "nothing is peeled" in str(error("8", tail="shift"))
    assert "tail= is one of 'rest', 'shift'" in str(error("8", beyond=4, tail="mask"))
    effect = 'T.evaluate(T.call_extern("int32", "putchar", 46))'
    assert error("7", beyond=4, tail="shift", body=effect) is not None


def test_sizes_of_64_bits() -> None:
    func = parse(SUMS.format(low="2", extent="n", dtype="int64", body=PLAIN))
    sch = tl.Schedule(func)
    sch.specialize(sch.loop("i"), "n >= 5")
    _, last = sch.peel("i#0", beyond=5, tail="shift")
    assert sch.get(last).extent.value == 5 and sch.get(last).extent.dtype == "int64"
    a, c = np.ones((16, 8), np.float32), np.zeros(24, np.float32)
    executes_alike(func, sch.mod["main"], inputs=[[a, c, n] for n in (0, 4, 5, 6, 9, 10, 21)])
