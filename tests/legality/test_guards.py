"""Where guards stand: under the conditions of their access, in order, and in parallel and vectorized loops."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import roundtrips
from tirlower.diagnostics import BoundsError
from tirlower.ir import For, pre_order_visit
from tirlower.script import parse
from tirlower.script import tir as T


def runs(func: Any) -> list[Any]:
    """The ways to run a function with its guards: compiled, and the lowered program interpreted."""
    low = tl.lower(func)
    roundtrips(low)
    return [tl.build(func), lambda *args: tl.interpret(low, *args)]


def both(func: Any, good: list[list[Any]], bad: list[tuple[list[Any], str]]) -> None:
    """The guarded program does what the interpreter does with the one that was written, and fails where that fails."""
    for run in runs(func):
        for args in good:
            want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            got = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            tl.interpret(func, *want)
            run(*got)
            for a, b in zip(want, got, strict=True):
                np.testing.assert_array_equal(a, b)
        for args, match in bad:
            want = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            got = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            with pytest.raises(BoundsError):
                tl.interpret(func, *want)
            with pytest.raises(IndexError, match=match):
                run(*got)
            for a, b in zip(want, got, strict=True):
                np.testing.assert_array_equal(a, b, err_msg="memory differs at the failure")


def ints(*values: int) -> np.ndarray:
    return np.array(values, "int32")


def test_branches_and_short_circuits():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), k: T.int32):
        for i in range(8):
            if X[i] >= 0 and X[i] < k:
                B[i] = A[X[i]]
            elif X[i] < -1 or A[X[i] + 1] > 2:
                B[i] = T.if_then_else(X[i] + 6 < k, A[X[i] + 6], 7)

    x = ints(0, 3, 1, 2, -1, -2, -9, 2)
    a, b = ints(5, 1, 4, 3), np.zeros(8, "int32")
    both(
        f,
        [[a, b, np.abs(x) % 4, 4], [a, b, ints(0, 3, 1, 2, -1, -2, -3, 2), 4]],
        [
            ([a, b, x, 4], r"A\[-3\] is out of bounds: index -3 of dimension 0 .*at i = 6"),
            ([a, b, ints(0, 1, 2, 4, 0, 0, 0, 0), 5], r"A\[4\] .*at i = 3"),
            ([a, b, ints(0, 1, 3, 4, 0, 0, 0, 0), 3], r"A\[4\] .*at i = 2"),
        ],
    )


def test_selects_evaluate_both_arms():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((1,), "int32"), k: T.int32):
        B[0] = T.Select(k < 4, A[k], 0)

    both(f, [[ints(1, 2, 3, 4), ints(0), 2]], [([ints(1, 2, 3, 4), ints(0), 4], r"A\[4\]")])


def test_while_conditions():
    @T.prim_func
    def f(A: T.Buffer(("n",), "int32"), B: T.Buffer((1,), "int32")):
        k = T.alloc_buffer((1,), "int32")
        k[0] = 0
        while A[k[0]] > 0:
            k[0] = k[0] + 1
            B[0] = k[0]

    both(f, [[ints(1, 1, 0), ints(0)], [ints(0), ints(9)]], [([ints(1, 2, 3), ints(0)], r"A\[3\]")])


def test_loop_bounds_and_bindings():
    @T.prim_func
    def f(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), k: T.int32):
        x: T.int32 = A[k]
        for i in range(A[k + 1]):
            B[i + x] = i

    a, b = ints(1, 2, 0, 6, 9, 1), np.zeros(6, "int32")
    both(
        f,
        [[a, b, 0], [a, b, 2]],
        [
            ([a, b, 6], r"A\[6\]"),
            ([a, b, 5], r"A\[6\]"),
            ([a, b, 3], r"B\[6\] is out of bounds.* at i = 0"),
            ([a, b, -1], r"A\[-1\]"),
        ],
    )


def test_indices_read_from_memory_are_guarded_first():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), X: T.Buffer((3,), "int32"), k: T.int32):
        A[X[k]] = A[X[0]] + 1

    both(
        f,
        [[ints(1, 2, 3, 4), ints(1, 9, 3), 2]],
        [([ints(1, 2, 3, 4), ints(1, 9, 3), 1], r"A\[9\]"), ([ints(1, 2, 3, 4), ints(1, 9, 3), 3], r"X\[3\]")],
    )


def test_blocks_predicates_and_init():
    @T.prim_func
    def f(A: T.Buffer(("n", "m"), "int32"), S: T.Buffer((10,), "int32"), X: T.Buffer((10,), "int32")):
        for i0, i1, j in T.grid(3, 4, m):
            with T.block("sum"):
                T.where(i0 * 4 + i1 < 10)
                vi = T.axis.spatial(10, i0 * 4 + i1)
                vj = T.axis.reduce(m, j)
                with T.init():
                    S[X[vi]] = 0
                S[X[vi]] = S[X[vi]] + A[vi, vj]

    x = np.arange(10, dtype="int32")[::-1].copy()
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (10, 3)).astype("int32")
    wrong = x.copy()
    wrong[4] = 10
    both(
        f,
        [[a, np.zeros(10, "int32"), x], [a[:, :0].copy(), np.zeros(10, "int32"), x]],
        [
            ([a, np.zeros(10, "int32"), wrong], r"S\[10\] is out of bounds: .*at vi = 4, j = 0"),
            (
                [a[:7].copy(), np.zeros(10, "int32"), x],
                r"A\[7, 0\] is out of bounds: index 7 of dimension 0 .*at vi = 7, j = 0",
            ),
        ],
    )


def test_a_predicate_that_proves_needs_no_guard():
    @T.prim_func
    def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
        for i0, i1 in T.grid((n + 3) // 4, 4):
            with T.block("copy"):
                T.where(i0 * 4 + i1 < n)
                vi = T.axis.spatial(n, i0 * 4 + i1)
                B[vi] = A[vi]

    assert tl.build(f).report().proved == {"f": 2}


def test_parallel_loops_report_the_iteration():
    @T.prim_func
    def f(A: T.Buffer(("m",), "float32"), X: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "float32")):
        for i in T.parallel(n):
            B[i] = A[X[i]]

    x = np.arange(1000, dtype="int32") % 50
    a, b = np.arange(50, dtype="float32"), np.zeros(1000, "float32")
    for threads in (1, 3):
        kernel = tl.build(f, f"llvm -num_threads={threads}")
        kernel(a, x, b)
        np.testing.assert_array_equal(b, a[x])
        wrong = x.copy()
        wrong[777] = 1 << 30
        with pytest.raises(IndexError, match=r"A\[1073741824\] is out of bounds: .*0 <= index < 50, at i = 777"):
            kernel(a, wrong, b)
        kernel(a, x, b)  # and can be called again


@pytest.mark.parametrize("lanes", [2, 7, 16])
def test_vectorized_loops_keep_their_vectors(lanes):
    @T.prim_func
    def f(A: T.Buffer(("m",), "float32"), X: T.Buffer((4 * lanes,), "int32"), B: T.Buffer((4 * lanes,), "float32")):
        for i in range(4):
            for j in T.vectorized(lanes):
                B[i * lanes + j] = A[X[i * lanes + j]] + T.float32(1)

    rng = np.random.default_rng(lanes)
    a = rng.random(9, dtype="float32")
    x = rng.integers(0, 9, 4 * lanes).astype("int32")
    bad = []
    for at in (0, lanes - 1, 3 * lanes - 1):
        wrong = x.copy()
        wrong[at] = -3
        bad.append(([a, wrong, np.zeros(4 * lanes, "float32")], rf"A\[-3\] .*at i = {at // lanes}, j = {at % lanes}$"))
    script = tl.lower(f).script()
    assert f"T.Broadcast(T.float32(1), {lanes})" in script
    for run in runs(f):
        b = np.zeros(4 * lanes, "float32")
        run(a, x, b)
        np.testing.assert_array_equal(b, a[x] + np.float32(1))
        for args, match in bad:
            b = np.zeros(4 * lanes, "float32")
            with pytest.raises(IndexError) as info:
                run(*args[:2], b)
            head = str(info.value).splitlines()[0]
            assert re.search(match, head), head
            # Lanes run in step: none of this vector is stored.
            done = int(match.split("i = ")[1].split(",")[0]) * lanes
            np.testing.assert_array_equal(b[:done], (a[args[1]] + np.float32(1))[:done])
            assert not b[done:].any()


def test_vectorized_loops_with_a_guard_that_no_lane_changes():
    @T.prim_func
    def f(A: T.Buffer(("n", 8), "int32"), k: T.int32):
        for j in T.vectorized(8):
            A[k, j] = j

    both(
        f, [[np.zeros((2, 8), "int32"), 1]], [([np.zeros((2, 8), "int32"), 2], r"A\[2, 0\] .* dimension 0 .*at j = 0")]
    )


def test_vectorized_conditions_and_bindings():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), k: T.int32):
        for j in T.vectorized(8):
            x: T.int32 = X[j]
            if j < k:
                B[j] = A[x]
            B[j] = B[j] + T.if_then_else(j >= k, A[x + 1], 0)

    x = ints(0, 7, 3, 2, 6, 5, 4, 0)
    a, b = np.arange(8, dtype="int32") * 3, np.zeros(8, "int32")
    both(
        f,
        [[a, x, b, 2], [a, ints(7, 7, 7, 7, 0, 0, 0, 0), b, 4]],
        [([a, x, b, 0], r"A\[8\] .*j = 1"), ([a, ints(0, 0, 0, 8, 0, 0, 0, 9), b, 8], r"A\[8\] .*j = 3")],
    )


def test_unrolled_loops():
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), X: T.Buffer((3,), "int32")):
        for i in T.unroll(3):
            A[X[i]] = i

    assert not any(isinstance(op, For) for op in _nodes(tl.lower(f)))
    both(f, [[ints(0, 0, 0, 0), ints(3, 1, 0)]], [([ints(0, 0, 0, 0), ints(3, 1, 4)], r"A\[4\] .*i = 2")])


def _nodes(mod: Any) -> list[Any]:
    found: list[Any] = []
    for func in mod.functions.values():
        pre_order_visit(func.body, lambda op: found.append(op))
    return found


def test_vectors_written_by_hand():
    @T.prim_func
    def f(A: T.Buffer(("n",), "int32"), X: T.Buffer((4,), "int32"), k: T.int32):
        A[T.Ramp(k, 2, 4)] = A[X[0:4]]
        A.vstore([T.Ramp(k * 2, 1, 4)], T.Broadcast(5, 4), predicate=T.Ramp(k * 2, 1, 4) < T.Broadcast(9, 4))

    a, x = np.arange(9, dtype="int32"), ints(3, 0, 8, 2)
    both(
        f,
        [[a, x, 0], [a, x, 2]],
        [
            ([a, x, 3], r"index 9 \(lane 3\)"),
            ([a, x, -1], r"index -1 \(lane 0\)"),
            ([a, ints(3, 0, 9, 2), 0], r"index 9 \(lane 2\)"),
        ],
    )


def test_random_gathers_agree_with_the_interpreter():
    """Programs of accesses under random conditions, run with indices of which some are wrong."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        lines = []
        for _ in range(int(rng.integers(1, 4))):
            index = rng.choice(["X[i]", "X[i] + k", "X[X[i] % 6]", "i + k", "X[i] - i"])
            guard = rng.choice(
                ["", "if X[i] >= 0:", "if X[i] < 6 and X[i] >= 0:", "if i + k < 6:", "if A[X[i] % 6] > k:"]
            )
            store = rng.choice([f"B[i] = B[i] + A[{index}]", f"A[{index}] = i + 1"])
            lines += [f"        {guard}", f"            {store}"] if guard else [f"        {store}"]
        text = "\n".join(
            [
                'def f(A: T.Buffer((6,), "int32"), X: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), k: T.int32):',
                "    for i in range(6):",
                *lines,
            ]
        )
        func = parse(text)
        kernel = tl.build(func)
        for _ in range(8):
            args = [rng.integers(0, 5, 6), rng.integers(-1, 7, 6), np.zeros(6), int(rng.integers(0, 3))]
            want = [np.asarray(a).astype("int32") if isinstance(a, np.ndarray) else a for a in args]
            got = [a.copy() if isinstance(a, np.ndarray) else a for a in want]
            failed = []
            for run, values in ((functools.partial(tl.interpret, func), want), (kernel, got)):
                try:
                    run(*values)
                    failed.append("")
                except IndexError as error:
                    failed.append(str(error).split("is out of bounds")[0].split(": ", 1)[1])
            assert failed[0] == failed[1], text
            for a, b in zip(want, got, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=text)


class Checked(list[int]):
    """A list that has no elements below 0."""

    def __getitem__(self, index: Any) -> Any:
        if index < 0:
            raise IndexError(index)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        if index < 0:
            raise IndexError(index)
        super().__setitem__(index, value)


def _error_of(run: Any, *args: Any) -> str:
    try:
        run(*args)
    except Exception as error:
        kinds = [kind for kind in (IndexError, ZeroDivisionError) if isinstance(error, kind)]
        text = "ZeroDivisionError" if "division by zero" in str(error) else ""
        return kinds[0].__name__ if kinds else text or f"{type(error).__name__}: {error}"
    return "none"


STATEMENTS = [
    "B[m] = m // n",
    "B[m] = A[m // n]",
    "B[m // n] = A[m]",
    "B[m // n] = A[k]",
    "B[k] = A[m] + m % n",
    "B[k] = m % n + A[m]",
    "B[A[k] % n] = A[m]",
    "B[A[m] % n] = A[k] // n",
    "for i in range(k): B[m + i] = A[i] + i // n",
    "for i in range(3): B[m] = i // n",
    "B[k] = T.if_then_else(n > 0, m // n + A[m], A[k])",
    "B[k] = T.Let(m // n + A[m], where={w: m + 1})",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_of_two_errors_the_one_is_raised_that_python_comes_to_first(statement):
    head = "@T.prim_func\ndef f(A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32'), m: T.int32, n: T.int32, k: T.int32):\n"
    func = parse(head + ("    w = T.int32()\n" if "Let" in statement else "") + f"    {statement}\n")
    plain = statement.replace("T.if_then_else(n > 0, m // n + A[m], A[k])", "(m // n + A[m] if n > 0 else A[k])")
    plain = plain.replace("T.Let(m // n + A[m], where={w: m + 1})", "m // n + A[m]")
    kernel, low = tl.build(func), tl.lower(func)

    def python(A: Any, B: Any, m: int, n: int, k: int) -> None:
        exec(plain, {}, {"A": A, "B": B, "m": m, "n": n, "k": k})

    for m, n, k in [(9, 0, 1), (-1, 0, 9), (1, 0, 9), (9, 2, -3), (9, 2, 1), (1, 1, 1), (2, 0, 0), (9, 3, 9)]:
        want = _error_of(python, Checked([0, 1, 2, 3]), Checked([0, 0, 0, 0]), m, n, k)
        for run in (kernel, lambda *args: tl.interpret(func, *args), lambda *args: tl.interpret(low, *args)):
            assert _error_of(run, ints(0, 1, 2, 3), ints(0, 0, 0, 0), m, n, k) == want, (m, n, k)


def test_of_trusted_accesses_the_loops_alone_are_guarded():
    program = """
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), k: T.int32, n: T.int32):
    for i in T.serial(k, k + n):
        A[X[0]] = i
"""
    for mode, guards in (("guard", 2), ("trust", 1)):
        with tl.PassContext(config={"tir.unproved_bounds": mode}):
            text = tl.lower(parse(program)).script()
        assert text.count("T.Assert") == guards and "past the values of int32" in text
