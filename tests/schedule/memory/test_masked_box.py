"""Tiles that are touched under a mask: their copies are under it too, word for word."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.loops.test_reverse import again
from tirlower.diagnostics import ScheduleError
from tirlower.ir import For, IfThenElse
from tirlower.ir.query import each
from tirlower.script import parse

FORMS = {
    "plain": """
    for i, j in T.grid(M, N):
        C[i, j] = T.float32(0)
        for k in range(5):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
    "perfect": """
    for i, j, k in T.grid(M, N, 5):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""",
    "block": """
    for i, j, k in T.grid(M, N, 5):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
}


def product(form: str) -> tl.ir.PrimFunc:
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(("M", 5), "float32"), B: T.Buffer((5, "N"), "float32"), C: T.Buffer(("M", "N"), "float32")):
{FORMS[form]}
""")


def tiled(form: str, rows: int, columns: int) -> tl.Schedule:
    """A tile in registers whose rows and columns need not divide the sizes."""
    sch = tl.Schedule(product(form), debug_mask="all")
    i_0, i_1 = sch.split(sch.loop("i"), [None, rows])
    j_0, j_1 = sch.split(sch.loop("j"), [None, columns])
    if form == "plain":
        sch.reorder(i_0, j_0, i_1, j_1)
        j_1 = sch.fission(j_1)[-1]
        first, i_1 = sch.fission(i_1)
        sch.reorder("k", i_1, j_1)
        sch.unroll(first)
    else:
        sch.reorder(i_0, j_0, "k", i_1, j_1)
    sch.register_tile("C", [i_1, j_1], at=j_0, vector=j_1, store=True)
    return sch


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (3, 16), (1, 2)])
def test_copies_are_under_the_mask_of_the_tile(form: str, rows: int, columns: int) -> None:
    sch = tiled(form, rows, columns)
    func = sch.mod["main"]
    text = str(func)
    assert f'T.alloc_buffer(({rows}, {columns}), scope="local")' in text and "T.Select" not in text
    copies = [loop for loop in each(For, func.body) if loop.loop_var.name == "ax1"]
    assert copies and all(isinstance(loop.body, IfThenElse) or "T.where" in str(loop.body) for loop in copies)
    assert all(f"j_0 * {columns} + ax1 < N" in str(loop.body) for loop in copies)
    rng = np.random.default_rng(0)
    sizes = ((1, 1), (3, 7), (4, 8), (5, 17), (9, 16), (0, 3), (3, 0))
    inputs = [
        [rng.random((m, 5), "float32"), rng.random((5, n), "float32"), rng.random((m, n), "float32")] for m, n in sizes
    ]
    executes_alike(product(form), func, inputs=inputs)
    again(product(form), sch)
    kernel = tl.build(sch)
    for a, b, c in inputs:
        want = a @ b + (c if form == "perfect" else 0)
        kernel(a, b, c)
        np.testing.assert_allclose(c, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("body", "masked"),
    [
        ("if o * 8 + i < n:\n                L[o * 8 + i] = L[o * 8 + i] + k", True),
        ("if o * 8 + i < n:\n                L[o * 8 + i] = L[o * 8 + i] + L[o * 8 + i + 1]", False),  # two places
        ("if o * 8 + i < n:\n                L[o * 8 + i * 2] = L[o * 8 + i * 2] + 1", False),  # every second one
        (
            "if o * 8 + k < n:\n                L[o * 8 + i] = L[o * 8 + i] + 1",
            False,
        ),  # of a loop that it does not move with
        ("if A[o * 8 + i] < n:\n                L[o * 8 + i] = L[o * 8 + i] + 1", False),  # what is read may change
        ("L[o * 8 + i] = T.if_then_else(o * 8 + i < n, L[o * 8 + i] + 1, 2)", False),  # one of two accesses
    ],
)
def test_which_tiles_have_a_mask(body: str, masked: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), L: T.Buffer((80,), "int32"), n: T.int32):
    for o in range(8):
        for k in range(3):
            for i in range(8):
                {body.replace(16 * " ", 20 * " ")}
""")
    sch = tl.Schedule(func, debug_mask="all")
    try:
        sch.stage_mem("k", "L")
    except ScheduleError:
        assert not masked
        return
    assert ("if o * 8 + ax0 < n:" in str(sch.mod["main"])) is masked
    inputs = [[np.arange(64, dtype="int32") % 7, np.arange(80, dtype="int32"), n] for n in (-1, 0, 5, 30, 99)]
    executes_alike(func, sch.mod["main"], inputs=inputs)


@pytest.mark.parametrize("place", ["t + i", "o * 8 + i"])
@pytest.mark.parametrize("limit", ["m", "n"])
def test_names_that_are_bound_inside_say_nothing_outside(place: str, limit: str) -> None:
    """Where a tile starts, and its mask, are asked for in front of it."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), L: T.Buffer((80,), "int32"), n: T.int32):
    for o in range(8):
        for k in range(3):
            t = o * 8
            m = n + k
            for i in range(8):
                if {place} < {limit}:
                    L[{place}] = L[{place}] + A[k]
""")
    sch = tl.Schedule(func, debug_mask="all")
    sch.stage_mem("k", "L")
    assert ("if o * 8 + ax0 < n:" in str(sch.mod["main"])) is (place != "t + i" and limit == "n")
    inputs = [[np.arange(64, dtype="int32") % 7, np.arange(80, dtype="int32"), n] for n in (-1, 0, 5, 30, 99)]
    executes_alike(func, sch.mod["main"], inputs=inputs)
