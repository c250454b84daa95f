"""First and last iterations in loops of their own."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, NotApplicable
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
