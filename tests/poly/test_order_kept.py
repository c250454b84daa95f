"""New orders, judged by running all instances and sorting them by their new positions."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from tests.poly.brute import events
from tests.poly.legality_base import replayed
from tests.poly.nests import random_nest, random_perfect_nest
from tests.poly.positions import conflicts, leaf_positions, turned
from tests.poly.test_left_out import parsed
from tests.sampling import by_day
from tirlower.diagnostics import TirError
from tirlower.ir import BufferStore, For
from tirlower.ir.query import each
from tirlower.poly import can_reorder, extract, order_kept
from tirlower.script import parse
from tirlower.script import tir as T

SEEDS = 240


@pytest.mark.parametrize("first", by_day(range(0, SEEDS, 40)))
def test_stores_at_new_positions_equal_brute_force(first: int) -> None:
    told = Counter[str]()
    for seed in range(first, first + 40):
        func = random_nest(seed)
        found = events(func)
        if len(found) > 1500:
            continue
        pairs = conflicts(found, one_memory=True)
        scop = extract(func)
        for trial in range(3):
            positions = leaf_positions(func, seed * 10 + trial)
            verdict = order_kept(scop, positions)
            broken = turned(pairs, positions)
            wanted = "proved" if broken is None else "refuted"
            assert verdict.status == wanted, (seed, trial, verdict, broken, positions, func.script())
            told[wanted] += 1
            if broken is None or any(event.node.buffer.name == "T" for event in found):
                continue
            assert verdict.witness is not None, (seed, trial)
            assert replayed(verdict.witness, found), (seed, trial, verdict.witness, func.script())
    assert min(told.values()) >= 10, told


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_permutation_of_loops_is_answered_as_by_can_reorder(first: int) -> None:
    for seed in range(first, first + 20):
        scop = extract(random_perfect_nest(seed))
        body = scop.loops[-1].node.body
        for order in itertools.permutations(scop.loops):
            verdict = order_kept(scop, {body: order}, scop.loops[0])
            assert verdict.status == can_reorder(scop, order).status, (seed, order)


def loops(func) -> dict[str, For]:
    return {loop.loop_var.name: loop for loop in each(For, func.body)}


def test_a_skewed_wavefront_may_be_tiled() -> None:
    @T.prim_func
    def stencil(A: T.Buffer((9, 66), "int32")):
        for t, i in T.grid(8, 64):
            A[t + 1, i + 1] = A[t, i] + A[t, i + 1] + A[t, i + 2]

    t, i = loops(stencil).values()
    tile = [t.loop_var // 4, i.loop_var // 8, t.loop_var % 4, i.loop_var % 8]
    verdict = order_kept(stencil, {i.body: tile}, t)
    assert verdict.refuted and verdict.witness is not None and verdict.witness.sink is not None
    skewed = i.loop_var + t.loop_var
    assert order_kept(stencil, {i.body: [t.loop_var // 4, skewed // 8, t.loop_var % 4, skewed % 8]}, t).proved
    assert order_kept(stencil, {i.body: [t, i.loop_var * -1]}, t).proved


def test_what_stands_outside_keeps_its_iterations() -> None:
    @T.prim_func
    def nest(A: T.Buffer((9, 9, 9), "int32")):
        for s in range(8):
            for i, j in T.grid(8, 8):
                A[s + 1, i + 1, j] = A[s, i, j + 1]

    _, i, j = loops(nest).values()
    # Within one s nothing meets; over all of them i and j would have to keep their order.
    assert order_kept(nest, {j.body: [j, i]}, i).proved
    assert order_kept(nest, {j.body: [j, i]}).refuted


def test_loops_side_by_side_are_put_in_step() -> None:
    @T.prim_func
    def pair(A: T.Buffer((18,), "int32"), B: T.Buffer((18,), "int32"), C: T.Buffer((18,), "int32")):
        for i in range(16):
            B[i + 1] = A[i]
        for j in range(16):
            C[j] = B[j + 2]

    i, j = loops(pair).values()
    ahead = {i.body: [i, 0], j.body: [j, 1]}
    verdict = order_kept(pair, ahead, [i, j])
    assert verdict.refuted and str(verdict.witness) == (
        "iteration (i = 1) writes B[2] and iteration (j = 0) reads B[2]"
    )
    assert order_kept(pair, {i.body: [i, 0], j.body: [j.loop_var + 1, 1]}, [i, j]).proved  # one iteration later


def test_a_loop_is_cut_between_its_statements() -> None:
    @T.prim_func
    def body(A: T.Buffer((17,), "int32"), B: T.Buffer((17,), "int32")):
        for i in range(16):
            A[i] = B[i]
            B[i + 1] = A[i]

    (i,) = loops(body).values()
    first, second = i.body.stmts
    assert order_kept(body, {first: [0, i], second: [1, i]}, i).refuted
    assert order_kept(body, {first: [i, 0], second: [i, 1]}, i).proved


def test_statements_beside_an_inner_loop_are_sunk() -> None:
    @T.prim_func
    def sums(A: T.Buffer((8, 8), "int32"), S: T.Buffer((8,), "int32")):
        for i in range(8):
            S[i] = 0
            for k in range(8):
                S[i] = S[i] + A[i, k]

    i, k = loops(sums).values()
    init = i.body.stmts[0]
    assert order_kept(sums, {init: [0, i, 0], k.body: [k, i, 1]}, i).proved
    verdict = order_kept(sums, {init: [7, i, 0], k.body: [k, i, 1]}, i)
    assert verdict.refuted and verdict.witness is not None


def test_symbolic_sizes() -> None:
    @T.prim_func
    def triangle(A: T.Buffer(("n", "n"), "int32"), n: T.int32):
        for i in range(n):
            for j in range(i):
                A[i, j] = A[j, i] + A[i, j]

    i, j = loops(triangle).values()
    assert order_kept(triangle, {j.body: [j, i]}, i).proved
    assert order_kept(triangle, {j.body: [0, 0]}, i).proved  # all at once


def test_float_sums_need_a_licence_and_what_starts_them_comes_first() -> None:
    @T.prim_func
    def total(A: T.Buffer((4, 4), "float32"), S: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 4):
            with T.sblock("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]

    i, k = loops(total).values()
    backwards = {k.body: [i, k.loop_var * -1]}
    assert "reassociate" in order_kept(total, {k.body: [i, k.loop_var % 2, k]}, i).help
    assert order_kept(total, {k.body: [i, k.loop_var % 2, k]}, i, reassociate=True).proved
    assert order_kept(total, backwards, i, reassociate=True).refuted  # the init would come last


# -- what is no order of accesses -----------------------------------------------------------------------------------


def test_memory_allocated_inside_is_moved_as_a_whole_or_is_one() -> None:
    @T.prim_func
    def scratch(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            t = T.alloc_buffer((1,), "int32")
            t[0] = A[i]
            B[i] = t[0]

    (i,) = loops(scratch).values()
    write, read = each(BufferStore, i.body)
    assert order_kept(scratch, {i.body: [i.loop_var * -1]}, i).proved
    verdict = order_kept(scratch, {write: [0, i], read: [1, i]}, i)
    assert verdict.refuted and "an element for each iteration" in verdict.help


JUMPS = {
    "a break": ("for i in range(8):\n    if i == n:\n        T.break_loop()\n    B[i, 0] = 1", "refuted"),
    "a continue": ("for i in range(8):\n    if i == n:\n        T.continue_loop()\n    B[i, 0] = 1", "proved"),
    "a return": ("for i in range(8):\n    if i == n:\n        T.ret(0)\n    B[i, 0] = 1", "refuted"),
    "a break of an inner loop": (
        "for i in range(8):\n    for j in range(8):\n        if j == n:\n            T.break_loop()\n        B[i, j] = 1",
        "proved",
    ),
    "an assertion": ("for i in range(8):\n    assert i < n, 'no'\n    B[i, 0] = 8 // (n - i)", "refuted"),
    "a jump that never happens": (
        "for i in range(8):\n    if i > 9:\n        T.break_loop()\n    B[i, 0] = 1",
        "proved",
    ),
}


@pytest.mark.parametrize("text, wanted", JUMPS.values(), ids=JUMPS)
def test_jumps_stay_inside_of_what_is_moved(text: str, wanted: str) -> None:
    func = parsed(text.replace("B[i, 0]", "B[i]").replace("B[i, j]", "B[i * 8 + j]"))
    loop = loops(func)["i"]
    verdict = order_kept(func, {loop.body: [loop.loop_var * -1]}, loop)
    if wanted == "proved":
        assert not verdict.refuted, verdict
    else:
        assert verdict.refuted and verdict.witness is None, verdict


def test_a_value_with_a_name_stays_with_its_uses() -> None:
    func = parsed("for i in range(8):\n    x = T.bind(C[0])\n    B[i] = x")
    loop = loops(func)["i"]
    bind, store = loop.body.stmts
    assert order_kept(func, {loop.body: [loop.loop_var * -1]}, loop).proved
    assert "'x' is bound" in order_kept(func, {bind: [0, loop], store: [1, loop]}, loop).reason


# -- positions ------------------------------------------------------------------------------------------------------


def test_positions_that_do_not_compare_are_errors() -> None:
    @T.prim_func
    def body(A: T.Buffer((17,), "int32"), X: T.Buffer((17,), "int32")):
        for i in range(16):
            A[i] = 1
            A[i] = 2
            for j in range(4):
                X[j] = 1

    i, j = loops(body).values()
    first, second, _ = i.body.stmts
    with pytest.raises(TirError, match="do not compare"):
        order_kept(body, {first: [i], second: [i, i, i, i]}, i)
    with pytest.raises(TirError, match="names 'j'"):
        order_kept(body, {first: [j]}, i)
    with pytest.raises(TirError, match="quasi-affine"):
        order_kept(body, {first: [each_load(X := body.buffers[1], i)]}, i)
    with pytest.raises(TirError, match="not in the part"):
        order_kept(body, {i: [0]}, j)


def each_load(buffer, loop):
    from tirlower.ir import BufferLoad

    return BufferLoad(buffer, (loop.loop_var,))


def test_what_is_not_known_is_unknown_and_what_cannot_meet_is_proved() -> None:
    @T.prim_func
    def scatter(A: T.Buffer((64,), "float32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            A[I[i]] = B[i]

    (i,) = loops(scatter).values()
    assert order_kept(scatter, {i.body: [i.loop_var * -1]}, i).unknown
    assert order_kept(scatter, {i.body: [i.loop_var + 3]}, i).proved


def test_while_loops_move_as_a_whole_alone() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        while A[i] < 3:
            A[i] = A[i] + 1
        B[i] = 2
""")
    loop = func.body
    assert isinstance(loop, For)
    turn, store = loop.body.stmts
    assert order_kept(func, {turn: [loop, 1], store: [loop, 0]}, loop).proved
    refused = order_kept(func, {turn.body: [loop, 1], store: [loop, 0]}, loop)
    assert refused.status == "refuted" and refused.reason == "a while loop cannot change places"
