"""Masks on what lanes do under a condition, and what needs none: loads that all lanes share, and a thread's own arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.interp import interpret
from tirlower.ir import For, IfThenElse, Select, build
from tirlower.ir.expr import BufferLoad
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore
from tirlower.rewrite.vectors.masks import some_lane
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import VectorizeLoop

ENDS = (-(2**31), -1, 0, 1, 7, 15, 16, 17, 2**31 - 1)


def sums(dtype: str, memory: str) -> PrimFunc:
    """A row of sums, of which the first ``n`` go on; with ``memory`` they lie in an array of the function's own."""
    return parse(f"""
@T.prim_func
def f(n: T.int32, A: T.Buffer((5,), "{dtype}"), B: T.Buffer((5, 16), "{dtype}"), C: T.Buffer((16,), "{dtype}")):
    L = T.alloc_buffer((16,), "{dtype}", scope="{memory}")
    for j in range(16):
        L[j] = C[j]
    for k in range(5):
        for j in T.vectorized(16):
            if j < n:
                L[j] = L[j] + A[k] * B[k, j]
    for j in range(16):
        C[j] = L[j]
""")


def lanes_in_turn(func: PrimFunc) -> int:
    """How many loops there are over single lanes."""
    return sum(loop.loop_var.name.endswith("_s") for loop in each(For, func.body))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("memory", ["local", "global"])
def test_updates_under_a_mask_are_those_of_the_lanes_in_turn(dtype: str, memory: str) -> None:
    func = sums(dtype, memory)
    run = tl.build(func)
    for n in ENDS:
        rng = np.random.default_rng(n % 100)
        a, b, c = ((rng.random(shape) * 9).astype(dtype) for shape in (5, (5, 16), 16))
        want = c.copy()
        for k in range(5):
            for j in range(max(0, min(n, 16))):
                want[j] = want[j] + a[k] * b[k, j]
        run(n, a, b, c)
        np.testing.assert_allclose(c, want, rtol=1e-6, err_msg=str(n))


def flat(func: PrimFunc, **options: bool) -> PrimFunc:
    return VectorizeLoop(**options)(tl.transforms.FlattenBuffer()(func))


def test_what_lanes_share_is_read_where_there_is_some_lane() -> None:
    made = flat(sums("float32", "global"), predicate=True, tail=True)
    assert lanes_in_turn(made) == 0
    [guard] = each(IfThenElse, made.body)
    assert str(guard.condition) == "0 < n"
    reads = [load for load in each(BufferLoad, guard) if load.buffer.name == "A"]
    assert reads and all(load.predicate is None for load in reads)
    assert all(load.predicate is not None for load in each(BufferLoad, guard) if load.buffer.name in ("B", "L"))


def test_arrays_of_a_thread_are_chosen_from_and_stored_whole() -> None:
    made = flat(sums("float32", "local"), predicate=True, tail=True)
    assert lanes_in_turn(made) == 0
    [store] = [one for one in each(BufferStore, made.body) if any(True for _ in each(Select, one.value))]
    assert store.buffer.name == "L" and store.predicate is None


def test_the_pass_alone_takes_such_statements_lane_by_lane() -> None:
    assert lanes_in_turn(flat(sums("float32", "local"), predicate=True)) == 1


def test_what_threads_share_keeps_its_masks() -> None:
    """A store of all lanes would put back what another thread has written meanwhile."""
    func = parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((2,), "int32"), C: T.Buffer((24,), "int32")):
    L = T.alloc_buffer((24,), "int32", scope="local")
    for i in T.parallel(2):
        for j in T.vectorized(16):
            if j < n:
                L[i * 8 + j] = A[i]
    for j in range(24):
        C[j] = L[j]
""")
    made = VectorizeLoop(predicate=True, tail=True)(func)
    [store] = [one for one in each(BufferStore, made.body) if one.buffer.name == "L"]
    assert store.predicate is not None


@pytest.mark.parametrize("inside", [True, False])
def test_lanes_outside_of_an_array_keep_their_masks(inside: bool) -> None:
    func = parse(f"""
@T.prim_func
def f(n: T.int32, A: T.Buffer((4,), "int32"), C: T.Buffer((20,), "int32")):
    L = T.alloc_buffer(({28 if inside else 27},), "int32", scope="local")
    for i in range(4):
        for j in T.vectorized(16):
            if j < n:
                L[i * 4 + j] = A[i]
    for j in range(20):
        C[j] = L[j]
""")
    made = VectorizeLoop(predicate=True, tail=True)(func)
    [store] = [one for one in each(BufferStore, made.body) if one.buffer.name == "L"]
    assert (store.predicate is None) == inside


def test_no_lane_reads_nothing() -> None:
    """The place that all lanes read is outside where there is no lane; the interpreter would say so."""
    func = parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((16,), "int32"), C: T.Buffer((16,), "int32")):
    for j in T.vectorized(16):
        if j < n and n <= 16:
            C[j] = A[n - 1] + j
""")
    made = VectorizeLoop(predicate=True, tail=True)(func)
    for n in (0, -5, 1, 16):
        a, c = np.arange(16, dtype="int32"), np.zeros(16, "int32")
        tl.interpret(made, n, a, c)
        np.testing.assert_array_equal(c, [a[n - 1] + j if j < n else 0 for j in range(16)])


def test_both_ways_of_a_condition() -> None:
    func = parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((3,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    L = T.alloc_buffer((20,), "float32", scope="local")
    for j in range(20):
        L[j] = 1
    for k in range(3):
        for j in T.vectorized(16):
            if j < n:
                L[j + 2] = L[j + 2] + B[j] * A[k]
            else:
                L[j + 4] = L[j + 4] - B[j]
    for j in range(16):
        C[j] = L[j + 3]
""")
    run = tl.build(func)
    for n in ENDS:
        a, b = np.array([1, 2, 3], "float32"), np.arange(16, dtype="float32")
        got, want = np.zeros(16, "float32"), np.zeros(16, "float32")
        run(n, a, b, got)
        tl.interpret(func, n, a, b, want)
        np.testing.assert_array_equal(got, want)


def test_some_lane_of_a_mask() -> None:
    n = T.int32()
    mask = T.get_active_lane_mask("boolx8", n, n + 3)
    found = some_lane(mask)
    assert found is not None and str(found) == str(build.lt(n, n + 3))
    assert some_lane(T.Broadcast(n < 3, 8)) is None


READ_ALWAYS = """
@T.prim_func
def f(p: T.int32, A: T.Buffer((5,), "int32"), C: T.Buffer((16,), "int32"), K: T.Buffer((2,), "int32")):
    for j in T.vectorized(16):
        {}
"""


@pytest.mark.parametrize(
    "body",
    [
        "if A[p] + C[j] < 7:\n            C[j] = A[p] + C[j]",
        "if C[j] < A[p] and C[j] > A[2]:\n            C[j] = A[p] * 2\n        else:\n            C[j] = A[p] - 1",
        "C[j] = T.if_then_else(A[p] < C[j], A[p] + 1, C[j])",
    ],
)
def test_a_load_that_the_condition_makes_for_all_lanes_needs_no_lane_under_it(body: str) -> None:
    before = parse(READ_ALWAYS.format(body))
    after = VectorizeLoop(predicate=True)(before)
    assert lanes_in_turn(after) == 0 and ("T.Select" in after.script() or "predicate" in after.script())
    for p in range(5):
        results = [np.arange(16, dtype="int32") % 9 for _ in range(2)]
        for func, C in zip((before, after), results, strict=True):
            interpret(func, p, np.arange(5, dtype="int32") * 3, C, np.zeros(2, "int32"))
        assert (results[0] == results[1]).all()


@pytest.mark.parametrize(
    ("body", "p"),
    [
        ("if C[j] > 99:\n            C[j] = A[p]", 7),  # nothing reads it where no lane does
        ("if C[j] > 99 and A[p] > 0:\n            C[j] = A[p]", 7),
        ("if T.if_then_else(C[j] > 99, A[p], 0) > 0:\n            C[j] = A[p]", 7),
        ("if C[j] < A[K[p]]:\n            K[0] = 100\n            C[j] = A[K[p]]", 1),  # another element by then
        ("if C[j] > 99:\n            if A[p] < C[j]:\n                C[j] = A[p]", 7),
        ("C[j] = T.if_then_else(C[j] > 99, A[p], C[j])", 7),
    ],
)
def test_a_load_that_the_condition_may_leave_out_is_made_in_its_lanes_alone(body: str, p: int) -> None:
    before = parse(READ_ALWAYS.format(body))
    results = [np.arange(16, dtype="int32") % 9 for _ in range(2)]
    for func, C in zip((before, VectorizeLoop(predicate=True)(before)), results, strict=True):
        interpret(func, p, np.arange(5, dtype="int32") * 3, C, np.array([1, 2], "int32"))
    assert (results[0] == results[1]).all()
