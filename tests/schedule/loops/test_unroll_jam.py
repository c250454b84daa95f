"""Several iterations of an outer loop at once."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable
from tirlower.script import parse


@pytest.mark.parametrize("extent", ["8", "7", "n"])
@pytest.mark.parametrize("factor", [1, 2, 3])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_product(extent: str, factor: int, blocks: bool) -> None:
    body = "C[i, j] = C[i, j] + A[i, k] * B[k, j]"
    if blocks:
        body = """with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((9, 4), "float32"), B: T.Buffer((4, 5), "float32"), C: T.Buffer((9, 5), "float32"), n: T.int32):
    for i in range(1, 1 + {extent}):
        for j in range(5):
            for k in range(4):
                {body}
""")
    sch = tl.Schedule(func, debug_mask="all", reassociate=False)
    sch.unroll_jam("i", factor)
    roundtrips(sch.mod["main"])
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, dtype="float32") for shape in ((9, 4), (4, 5), (9, 5))]
    executes_alike(func, sch.mod["main"], inputs=[[*arrays, n] for n in (-1, 0, 1, 4, 8)])
    again(func, sch)


def test_statements_beside_inner_loops_and_a_triangle() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(9):
        B[i] = 1
        for k in range(4):
            B[i] = B[i] + A[i, k]
            A[i, k] = B[i]
        for l in range(i):
            A[i, l] = A[i, l] * B[i]
""")
    sch = tl.Schedule(func, debug_mask="all")
    k = sch.loop("k")
    sch.unroll_jam("i", 2)
    assert len(k.twins) == 0 and sch.get(k).loop_var.name == "k"
    executes_alike(func, sch.mod["main"])


def test_what_is_handed_on() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j] = A[i, j + 1]
""")
    sch = tl.Schedule(func)
    with pytest.raises(IllegalStep) as raised:
        sch.unroll_jam("i", 2)
    first, second = raised.value.witness.points
    assert first.indices == second.indices and dict(first.loops)["i"] != dict(second.loops)["i"]
    # Only in iterations that are left over: those keep their order.
    left = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(5, 8):
        if i >= 4:
            A[4, j] = A[4, j + 1] + i
        else:
            A[i, j] = 1
""")
    sch = tl.Schedule(left, debug_mask="all")
    sch.unroll_jam("i", 2)
    executes_alike(left, sch.mod["main"])


def test_what_has_not_the_form() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((9, 9), "int32")):
    for i in range(9):
        for j in range(9):
            if j > 3:
                T.evaluate(T.continue_loop())
            A[i, j] = 1
    for v in T.vectorized(8):
        A[v, 0] = 1
    for w in range(2):
        A[w, 0] = 1
""")
    sch = tl.Schedule(func)
    with pytest.raises(NotApplicable, match="early"):
        sch.unroll_jam("i", 2)
    with pytest.raises(NotApplicable, match="vectorized"):
        sch.unroll_jam("v", 2)
    with pytest.raises(NotApplicable, match="fewer"):
        sch.unroll_jam("w", 3)
    with pytest.raises(BadArgument, match="1 to 64"):
        sch.unroll_jam("w", 0)
