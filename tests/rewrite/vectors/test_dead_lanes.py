"""Lanes that nothing ever looks at: stores to them need no mask, and nothing else changes."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tirlower.ir import For, PrimFunc, Select
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore, ForKind, IfThenElse
from tirlower.rewrite.vectors.dead_lanes import DeadLanes
from tirlower.script import parse
from tirlower.transforms import FlattenBuffer, VectorizeLoop

TILE = """
@T.prim_func
def f(n: T.int32, m: T.int32, A: T.Buffer((5, 64), "int32"), C: T.Buffer((3, 64), "int32")):
    for q in range(4):
        L = T.alloc_buffer((48,), "int32", scope="local")
        P = T.alloc_buffer((48,), "int32", scope="local")
        for i in range(3):
            for j in T.vectorized(16):
                {begin}
        for k in range(5):
            for i in range(3):
                for j in T.vectorized(16):
                    if q * 16 + j < n:
                        L[i * 16 + j] = L[i * 16 + j] + A[k, q * 16 + j]
        {between}
        for i in range(3):
            for j in T.vectorized(16):
                {end}
"""
BEGIN = "L[i * 16 + j] = i"
END = "if q * 16 + j < n: C[i, q * 16 + j] = L[i * 16 + j]"


def tile(begin: str = BEGIN, between: str = "pass", end: str = END) -> PrimFunc:
    return parse(TILE.format(begin=begin, between=between, end=end.replace(": C", f":\n{20 * ' '}C")))


def masks_kept(func: PrimFunc) -> int:
    """How many updates choose between what they compute and what there was; the program still computes the same."""
    made = VectorizeLoop(predicate=True, tail=True)(FlattenBuffer()(func))
    rng = np.random.default_rng(0)
    for n, m in ((0, 3), (1, 16), (15, 0), (16, 40), (33, 50), (63, 1), (64, 64), (99, -2)):
        a, c = rng.integers(-9, 9, (5, 64), "int32"), rng.integers(-9, 9, (3, 64), "int32")
        found = [c.copy() for _ in range(3)]
        tl.interpret(func, n, m, a, found[0])
        tl.interpret(made, n, m, a, found[1])
        tl.build(func, "llvm -mcpu=x86-64-v3", schedule="none")(n, m, a, found[2])
        for one in found[1:]:
            np.testing.assert_array_equal(one, found[0], err_msg=f"{n}, {m}")
    return sum(isinstance(one.value, Select) for one in each(BufferStore, made.body))


@pytest.mark.parametrize("begin", [BEGIN, f"if q * 16 + j < n:\n{20 * ' '}{BEGIN}"])
def test_what_is_read_under_one_mask_alone_is_stored_without(begin: str) -> None:
    assert masks_kept(tile(begin)) == 0


def test_a_store_under_another_mask_keeps_it() -> None:
    """Lanes that it leaves out are looked at."""
    assert masks_kept(tile(f"{BEGIN}\n{16 * ' '}if j < m:\n{20 * ' '}L[i * 16 + j] = 5")) == 1


def test_a_store_that_begins_elsewhere_keeps_its_mask() -> None:
    """What its lanes leave out is in other lanes of what is read."""
    assert (
        masks_kept(
            tile(between="for j in T.vectorized(16):\n            if q * 16 + j < n:\n                L[j + 8] = 9")
        )
        == 1
    )


@pytest.mark.parametrize(
    "end",
    [
        "C[i, q * 16 + j] = L[i * 16 + j]",  # under no condition
        "if q * 16 + j < m: C[i, q * 16 + j] = L[i * 16 + j]",  # under another one
        "if q * 16 + j <= n: C[i, q * 16 + j] = L[i * 16 + j]",
        "if q * 16 + j < n: C[i, q * 16 + j] = L[i * 16 + 15 - j]",  # other lanes
        "if q * 16 + j < n: C[i, q * 16 + j] = L[T.max(i * 16 - 1, 0) + j]",  # other vectors
        "if q * 16 + j >= n: C[i, q * 16 + j] = L[i * 16 + j]",
        "if q * 16 + j < n and j < m: C[i, q * 16 + j] = L[i * 16 + j]",
    ],
)
def test_what_is_read_otherwise_keeps_its_masks(end: str) -> None:
    assert masks_kept(tile(end=end)) > 0


@pytest.mark.parametrize(
    "between",
    [
        "C[0, q] = L[17]",  # one element, outside of all lanes
        "T.evaluate(T.call_extern('int32', 'llabs', T.address_of(L[0])))",  # its pointer is taken
        "for j in T.vectorized(8):\n            if q * 16 + j < n:\n                C[0, q * 16 + j] = L[j]",  # half as many lanes
        "for j in T.vectorized(16):\n            if q * 16 + j < n:\n                C[0, j] = 0\n            else:\n                C[1, j] = L[j]",
    ],
)
def test_what_else_looks_at_the_lanes(between: str) -> None:
    made = VectorizeLoop(predicate=True, tail=True)(FlattenBuffer()(tile(between=between)))
    assert any(isinstance(one.value, Select) for one in each(BufferStore, made.body))
    if "extern" not in between:
        assert masks_kept(tile(between=between)) > 0


def test_a_mask_that_moves_while_the_array_lives() -> None:
    """What one iteration leaves out, the next one looks at."""
    func = parse("""
@T.prim_func
def f(n: T.int32, m: T.int32, A: T.Buffer((5, 64), "int32"), C: T.Buffer((3, 64), "int32")):
    L = T.alloc_buffer((16,), "int32", scope="local")
    for j in T.vectorized(16):
        L[j] = 1
    for q in range(4):
        for j in T.vectorized(16):
            if q * 16 + j < n:
                L[j] = L[j] * 3 + A[0, j]
        for j in T.vectorized(16):
            if q * 16 + j < n:
                C[0, q * 16 + j] = L[j]
""")
    assert masks_kept(func) > 0
    [flat] = [FlattenBuffer()(func)]
    loop = next(
        one for one in each(For, flat.body) if one.kind is ForKind.VECTORIZED and isinstance(one.body, IfThenElse)
    )
    [store] = each(BufferStore, loop)
    assert isinstance(loop.body, IfThenElse)
    assert not DeadLanes(flat).are_of(store.buffer, 16, loop.body.condition, loop.loop_var)


CONDITIONS = ("q * 16 + j < n", "j < n", "j < m", "j + q < m", "n < j", "j != m")
PLACES = ("j", "16 + j", "32 + j", "p * 16 + j", "p + j", "47 - j")


def drawn(seed: int) -> PrimFunc:
    """A program of some loops over lanes that share two arrays of a thread's own."""
    rng = random.Random(seed)
    few = rng.sample(CONDITIONS, rng.choice((1, 1, 2)))
    lines = []
    for _ in range(rng.randint(2, 5)):
        array, other = rng.choice("LP"), rng.choice("LP")
        place, seen = (rng.choice(PLACES[: rng.choice((1, 4, 6))]) for _ in range(2))
        value = rng.choice((f"{other}[{seen}] + A[p, q * 16 + j]", f"A[p, q * 16 + j] * {array}[{place}]", "j + q"))
        target = rng.choice((f"{array}[{place}]", f"{array}[{place}]", "C[p, q * 16 + j]"))
        held = rng.choice(few) if rng.random() < 0.85 else "True"
        lines += [
            "        for p in range(3):",
            "            for j in T.vectorized(16):",
            f"                if {held}:",
            f"                    {target} = {value if 'C[' not in target else f'{array}[{place}]'}",
        ]
    inside = rng.random() < 0.6
    arrays = [
        'L = T.alloc_buffer((48,), "int32", scope="local")',
        'P = T.alloc_buffer((48,), "int32", scope="local")',
    ]
    arrays += ["for j in T.vectorized(48):", "    L[j] = j", "    P[j] = 7 - j"]
    head = [f"    {line}" for line in arrays] if not inside else []
    body = [f"        {line}" for line in arrays] if inside else []
    ends = ["        for p in range(3):", "            for j in T.vectorized(16):", f"                if {rng.choice(few)}:",
            "                    C[p, q * 16 + j] = L[p * 16 + j] - P[p * 16 + j]"]  # fmt: skip
    text = "\n".join([*head, "    for q in range(4):", *body, *lines, *ends])
    return parse(f"""
@T.prim_func
def f(n: T.int32, m: T.int32, A: T.Buffer((5, 64), "int32"), C: T.Buffer((3, 64), "int32")):
{text}
""")


@pytest.mark.parametrize("seed", [*range(40), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(40, 1000))])
def test_random_programs_compute_the_same(seed: int) -> None:
    func = drawn(seed)
    made = VectorizeLoop(predicate=True, tail=True)(FlattenBuffer()(func))
    rng = np.random.default_rng(seed)
    for n, m in ((0, 3), (5, 16), (33, 9), (64, 64)):
        a, c = rng.integers(-9, 9, (5, 64), "int32"), rng.integers(-9, 9, (3, 64), "int32")
        other = c.copy()
        tl.interpret(func, n, m, a, c)
        tl.interpret(made, n, m, a, other)
        np.testing.assert_array_equal(other, c, err_msg=f"{seed}: {n}, {m}")


def test_random_programs_have_dead_lanes_and_others() -> None:
    kept = []
    for seed in range(60):
        made = VectorizeLoop(predicate=True, tail=True)(FlattenBuffer()(drawn(seed)))
        kept.append(sum(isinstance(one.value, Select) for one in each(BufferStore, made.body)))
    assert 10 < sum(one == 0 for one in kept) < 50
