from __future__ import annotations

import pytest

from tirlower.analysis.buffer_facts import Fact
from tirlower.analysis.element_facts import guessed, is_apart, lane_value, path_to, vector_fact
from tirlower.arith import Analyzer
from tirlower.ir import Broadcast, Buffer, BufferStore, For, IfThenElse, Ramp, Seq, Var, as_expr, build, const
from tirlower.ir.functor import substitute
from tirlower.script import parse

A = Buffer("A", (64,), "int32")
i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")


def fact(index: object, *params: tuple[Var, int, int]) -> Fact:
    ranges = tuple((var, const(low), const(extent)) for var, low, extent in params)
    return Fact(A, (as_expr(index),), const(0), const(True, "bool"), ranges)


def test_an_index_is_read_as_digits() -> None:
    found = guessed(fact(i * 8 + j * 2 + k + 5, (i, 0, 8), (j, 0, 4), (k, 0, 2)), (n,), Analyzer())
    for value in range(5, 69):
        at = {var: Analyzer().simplify(build.cast("int32", _put(expr, value))).value for var, expr in found.items()}
        assert at[i] * 8 + at[j] * 2 + at[k] + 5 == value and at[j] in range(4) and at[k] in range(2)
    # Ranges that begin elsewhere, and one parameter that moves the index by more than one.
    found = guessed(fact(i * 4 + j, (i, 2, 8), (j, 1, 4)), (n,), Analyzer())
    at = {var: Analyzer().simplify(_put(expr, 3 * 4 + 2)).value for var, expr in found.items()}
    assert (at[i], at[j]) == (3, 2)
    assert str(guessed(fact(i * 3, (i, 0, 8)), (n * 3,), Analyzer())[i]) == "n"
    # No guess where the index is no such sum.
    for index in (i * j, i - j, i * n + j):
        assert not guessed(fact(index, (i, 0, 8), (j, 0, 4)), (n,), Analyzer())


def _put(expr: object, value: int) -> object:
    return substitute(expr, {n: const(value)})


@pytest.mark.parametrize(
    ("index", "extent", "expected"),
    [
        (i * 4 + j, 4, True), (i * 4 + j, 5, False), (i * -4 + j, 4, True), (i * 4 + j * 2, 2, True),
        (i * 4 + j * 2, 3, False), (i + n, 9, True), (j, 4, False), (i * n + j, 1, False), (i * 4 - j, 4, True),
    ],
)  # fmt: skip
def test_iterations_that_have_elements_of_their_own(index: object, extent: int, expected: bool) -> None:
    told = is_apart(as_expr(index), i, fact(index, (j, 0, extent)), Analyzer())
    assert told is expected
    form = str(index).replace("n", "1")
    if expected:
        places = [{eval(form, {"i": x, "j": y}) for y in range(extent)} for x in range(6)]
        assert all(not (a & b) for number, a in enumerate(places) for b in places[:number])


def test_lanes_of_vectors() -> None:
    lane = Var("lane")
    ramp = Ramp(n, const(3), 4)
    for vector, expected in (
        (Broadcast(n, 4), "n"), (ramp, "n + lane * 3"), (ramp + Broadcast(const(1), 4), "n + lane * 3 + 1"),
        (ramp * ramp, "(n + lane * 3) * (n + lane * 3)"),
    ):  # fmt: skip
        assert str(lane_value(vector, lane)) == expected
    assert lane_value(A[Ramp(const(0), const(1), 4)], lane) is None


def test_what_a_vector_store_says() -> None:
    def told(value: object, stride: int = 1) -> Fact | None:
        return vector_fact(BufferStore(A, value, (Ramp(const(8), const(stride), 4),)), Analyzer())

    zero = told(Broadcast(const(0), 4))
    assert zero is not None and str(zero.value) == "0" and str(zero.params[0][2]) == "4"
    counted = told(Ramp(const(11), const(2), 4), -1)
    assert counted is not None and str(counted.value) == "11 + lane * 2"
    assert str(counted.indices[0]) == "8 + lane * -1"
    # Lanes that wrap are said nothing of; nor is what one place gets of many lanes.
    assert told(Ramp(const(2147483646), const(1), 4)) is None
    assert told(Ramp(n, const(1), 4)) is None
    assert told(Broadcast(const(0), 4), 0) is None


def test_the_way_to_a_store() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(8):
        A[0] = 1
        if i < n:
            for j in range(4):
                A[i * 4 + j] = 2
        else:
            A[1] = 3
        while A[2] > 0:
            A[2] = A[2] - 1
""")
    loop = func.body
    assert isinstance(loop, For) and isinstance(loop.body, Seq)
    first, branch, repeat = loop.body.stmts
    assert path_to(loop, first) == [loop]
    assert isinstance(branch, IfThenElse)
    inner = branch.then_case
    assert path_to(loop, inner.body) == [loop, branch.condition, inner]
    other = path_to(loop, branch.else_case)
    assert other is not None and str(other[1]) == "not i < n"
    assert path_to(loop, repeat.body) is None
