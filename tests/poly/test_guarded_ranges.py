from __future__ import annotations

import itertools
import random

from tests.poly.brute import events
from tirlower.poly import extract
from tirlower.poly.evaluate import evaluate
from tirlower.poly.forms import single
from tirlower.poly.guarded_ranges import bound_within, guarded_ranges
from tirlower.script import parse

PARTS = ["i", "j", "i // 4", "j // 3", "i % 4", "i + j", "2 * i", "-3 * j"]
COMPARISONS = [
    f"{part} {sign} {n}" for part in PARTS for sign in ("<", "<=", ">", ">=", "==", "!=") for n in range(-3, 13)
]


def test_no_value_that_a_guard_allows_is_left_out():
    narrowed = 0
    for seed in range(250):
        rng = random.Random(seed)
        func = parse(f"""
@T.prim_func
def f(A: T.Buffer((16, 9), "int32")):
    for i, j in T.grid(16, 9):
        if {" and ".join(rng.sample(COMPARISONS, 1 + seed % 2))}:
            if {" or ".join(rng.sample(COMPARISONS, 1 + seed % 3))}:
                A[i, j] = 1
""")
        scop = extract(func)
        (access,) = [access for access in scop.accesses if access.is_write]
        ranges = guarded_ranges(scop.space, access)
        narrowed += bool(ranges)
        i, j = (loop.var for loop in access.loops)
        quotients = [dim for n in (3, 4) for dim in scop.space.floordiv(single(i), n).terms]
        for event in events(func):
            at = dict(zip((i, j), (value for _, value, _ in event.loops), strict=True))
            for dim in (i, j, *quotients):
                low, high = bound_within(scop.space, dim, ranges)
                value = evaluate(single(dim), at)
                assert value is not None and low <= value <= high, f"seed {seed}: {dim} {at}\n{func.script()}"
    assert narrowed > 100


def test_the_last_warp_is_out():
    func = parse("""
@T.prim_func
def f(A: T.Buffer((288,), "int32")):
    for tx in T.thread_binding(288, thread="threadIdx.x"):
        if tx // 32 == 8:
            A[tx] = 1
        else:
            A[tx] = 2
""")
    scop = extract(func)
    found = [guarded_ranges(scop.space, access) for access in scop.accesses]
    assert [list(ranges.values()) for ranges in found] in ([[(256, 287)], [(0, 255)]], [[], [(0, 255)]])


def test_impossible_guards_narrow_nothing_to_nothing():
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if i > 5:
            if i < 2:
                A[i] = 1
""")
    scop = extract(func)
    for access, dim in itertools.product(scop.accesses, scop.space.iterated):
        low, high = bound_within(scop.space, dim, guarded_ranges(scop.space, access))
        assert low <= high
