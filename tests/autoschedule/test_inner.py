"""Nests inside of loops that hand values from one iteration to the next."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX2, planned, scheduled
from tirlower.autoschedule import choose
from tirlower.autoschedule.classify import nests_of, roots_of
from tirlower.autoschedule.inner import one_iteration
from tirlower.autoschedule.sizes import taken_as, typical
from tirlower.ir import Var
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.script import parse

ONE = AVX2.replace("threads=2", "threads=1")

SCRATCH = """
def f(A: T.Buffer((3, {n}), "{d}"), W: T.Buffer(({n}, {n}), "{d}"), s: T.Buffer(({n},), "{d}")):
    for r in range(3):
        for p in range({n}):
            s[p] = T.{d}(0)
            for k in range({n}):
                s[p] += A[r, k] * W[k, p]
        for p in range({n}):
            A[r, p] = s[p]
"""
SYMMETRIC = """
def f(a: T.float32, C: T.Buffer((20, {n}), "float32"), A: T.Buffer((20, 20), "float32"), B: T.Buffer((20, {n}), "float32")):
    for i in range(20):
        for j in range({n}):
            part = T.float32(0)
            for k in range(i):
                C[k, j] += a * B[i, j] * A[i, k]
                part += B[k, j] * A[i, k]
            C[i, j] = a * C[i, j] + B[i, j] * A[i, i] + a * part
"""
TRIANGULAR = """
def f(a: T.float32, A: T.Buffer((20, 20), "float32"), B: T.Buffer((20, {n}), "float32")):
    for i in range(20):
        for j in range({n}):
            for k in range(i + 1, 20):
                B[i, j] += A[k, i] * B[k, j]
            B[i, j] = a * B[i, j]
"""
ORTHOGONAL = """
def f(A: T.Buffer((20, {n}), "float64"), R: T.Buffer(({n}, {n}), "float64"), Q: T.Buffer((20, {n}), "float64")):
    for k in range({n}):
        norm = T.float64(0)
        for i in range(20):
            norm += A[i, k] * A[i, k]
        R[k, k] = T.sqrt(norm) + T.float64(1)
        for i in range(20):
            Q[i, k] = A[i, k] / R[k, k]
        for j in range(k + 1, {n}):
            R[k, j] = T.float64(0)
            for i in range(20):
                R[k, j] += Q[i, k] * A[i, j]
            for i in range(20):
                A[i, j] -= Q[i, k] * R[k, j]
"""


@pytest.mark.parametrize("d", ["float32", "float64", "int32"])
@pytest.mark.parametrize("n", [31, 48])
def test_rows_through_memory_that_all_share(d: str, n: int) -> None:
    found = scheduled(SCRATCH.format(n=n, d=d), ONE)
    assert [nest.recipe for nest in found.nests][0] == "column reduction"
    assert found.nests[0].nest.startswith("in r: s over p, k")


@pytest.mark.parametrize("text", [SYMMETRIC, TRIANGULAR, ORTHOGONAL])
@pytest.mark.parametrize("n", [1, 7, 24])
def test_what_is_carried_stays_and_rows_are_contiguous_inside(text: str, n: int) -> None:
    found = scheduled(text.format(n=n), ONE)
    if n == 24:
        assert "loops" in {nest.recipe for nest in found.nests} and {nest.exactness for nest in found.nests} == {
            "bitwise equal"
        }
        assert found.nests[0].written > 0


@pytest.mark.parametrize("text", [SYMMETRIC, TRIANGULAR, ORTHOGONAL])
def test_of_any_size(text: str) -> None:
    func = parse(text.format(n="n").replace("(20, n)", '(20, "n")').replace("(n, n)", '("n", "n")'))
    with tl.PassContext(config={"tir.auto.least": 0}):
        made, plain = tl.build(func, ONE), tl.build(func, ONE, schedule="none")
    assert any(nest.recipe for nest in made.report().nests)
    scalars = [0.5] if len(func.params) > len(func.buffers) else []
    rng = np.random.default_rng(3)
    for n in (1, 5, 40):
        shapes = [[20 if str(extent) == "20" else n for extent in buffer.shape] for buffer in func.buffers]
        first = [rng.random(shape).astype(str(func.buffers[0].dtype)) for shape in shapes]
        ones, others = [one.copy() for one in first], [one.copy() for one in first]
        made(*scalars, *ones)
        plain(*scalars, *others)
        assert all(np.array_equal(a, b) for a, b in zip(ones, others, strict=True))


def test_time_steps_run_their_sweeps_in_parallel() -> None:
    found = scheduled("""
def f(A: T.Buffer((600, 700), "float32"), B: T.Buffer((600, 700), "float32"), c: T.Buffer((3,), "float32")):
    for t in range(3):
        for i, j in T.grid(600, 700):
            A[i, j] = A[i, j] + B[599 - i, j] * c[t]
        for i, j in T.grid(600, 700):
            B[i, j] = B[i, j] - A[i, 699 - j]
""", interpreted=False)  # fmt: skip
    assert all(nest.nest.startswith("in t: ") and nest.recipe for nest in found.nests)
    assert sum("parallel" in str(nest.parameters) for nest in found.nests) == 2


def test_an_iteration_knows_its_loops_and_conditions() -> None:
    func = parse("""
def f(n: T.int32, A: T.Buffer(("m", 9), "int32")):
    own = T.alloc_buffer((9,), "int32")
    own[0] = n
    if n > 3:
        for s in range(2):
            own[1] = s
            for t in range(m):
                for i in range(9):
                    A[t, i] = own[0]
            for u in range(m):
                A[u, 0] = s
    else:
        for v in range(m):
            A[v, 1] = 7
""")
    by_name = {loop.loop_var.name: loop for loop in each(For, func.body)}
    text = one_iteration(func, by_name["t"]).script()
    assert "if n > 3:" in text and "T.assume(t < m)" in text and "T.assume(s < 2)" in text
    assert "for u" not in text and "own[1]" not in text and "for i in range(9):" in text
    assert "7" not in text
    [nest] = nests_of(one_iteration(func, by_name["t"]))
    assert nest.root is by_name["i"] and not nest.left
    assert (
        "not n > 3" in one_iteration(func, by_name["v"]).script()
        or "else" in one_iteration(func, by_name["v"]).script()
    )
    assert len(roots_of(func)) == 2


def test_variables_of_loops_around_are_in_the_middle() -> None:
    i, j = Var("i", "int32"), Var("j", "int32")
    with taken_as(i, 10), taken_as(j, 100):
        assert typical(i * 100 + j) == 550
    assert typical(i) == typical(i) != 5


def test_so_many_looks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TRIANGULAR.format(n=24)
    assert any(nest.recipe for nest in planned(text, ONE).nests)
    monkeypatch.setattr(choose, "LOOKS", 0)
    [nest] = planned(text, ONE).nests
    assert not nest.recipe
