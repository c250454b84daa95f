"""``rfactor``: partial results along a loop, of every reducer, on blocks and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import same_function
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable, UnprovedStep
from tirlower.ir import BufferStore
from tirlower.ir.query import each
from tirlower.script import parse

SUM = """
@T.prim_func
def f(A: T.Buffer((6, {n}), "{dtype}"), C: T.Buffer((6,), "{dtype}")):
    for i, k in T.grid(6, {n}):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {init}
            C[vi] = {update}
"""


@pytest.mark.parametrize(
    ("dtype", "init", "update"),
    [
        ("int32", "5", "C[vi] + A[vi, vk]"),
        ("int32", "1", "A[vi, vk] * C[vi]"),
        ("int8", "T.int8(127)", "T.min(C[vi], A[vi, vk])"),
        ("float32", 'T.float32("-inf")', "T.max(C[vi], A[vi, vk])"),
    ],
)
def test_every_reducer_and_both_loops(dtype: str, init: str, update: str) -> None:
    for which in (0, 1):

        def steps(sch: Any, which: int = which) -> None:
            loops = sch.split(sch.get_loops("C")[1], [None, 4])
            sch.rfactor(loops[which], 1)

        sch = taken(SUM.format(dtype=dtype, init=init, update=update, n=8), steps)
        assert sch.steps[-1].exactness == "bitwise"


def test_the_least_number_is_no_infinity() -> None:
    func = parse(SUM.format(dtype="float32", init='T.float32("-inf")', update="T.max(C[vi], A[vi, vk])", n=8))
    sch: Any = tl.Schedule(func)
    sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1], 0)
    a, c = np.full((6, 8), -np.inf, "float32"), np.zeros(6, "float32")
    tl.interpret(sch.mod["main"], a, c)
    assert np.all(np.isneginf(c))


def test_a_loop_that_is_all_of_the_reduction_is_a_plain_store() -> None:
    sch = taken(
        SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=5),
        lambda sch: sch.rfactor(sch.get_loops("C")[1], -1),
    )
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(A: T.Buffer((6, 5), "int32"), C: T.Buffer((6,), "int32")):
    C_rf = T.alloc_buffer((6, 5), "int32")
    for i, k in T.grid(6, 5):
        with T.block("C_rf"):
            vk, vi = T.axis.remap("SS", [k, i])
            T.reads(A[vi, vk])
            T.writes(C_rf[vi, vk])
            C_rf[vi, vk] = A[vi, vk]
    for i, k in T.grid(6, 5):
        with T.block("C"):
            vk, vi = T.axis.remap("RS", [k, i])
            T.reads(C_rf[vi, vk])
            T.writes(C[vi])
            with T.init():
                C[vi] = 0
            C[vi] = C[vi] + C_rf[vi, vk]
"""),
    )


def test_what_does_not_divide_is_refused_where_a_partial_result_is_not_begun() -> None:
    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[0], 0)

    text = SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=6)
    taken(text, steps)
    # Of two lanes of four there is no first iteration here.
    refused(
        text,
        lambda sch: sch.rfactor(sch.split(sch.get_loops("C")[1], [1, 8])[1], 0),
        UnprovedStep,
        "before it is begun",
    )


def test_floats_need_a_licence() -> None:
    text = SUM.format(dtype="float32", init="T.float32(0)", update="C[vi] + A[vi, vk]", n=8)

    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1], 0)

    sch = taken(text, steps, tolerance=1e-4)
    assert sch.steps[-1].exactness.startswith("reassociated(C")
    refused(text, steps, UnprovedStep, "rounds differently", reassociate=False)


def test_plain_loops() -> None:
    taken(
        """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), C: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        C[i] = C[i] + A[i, k]
""",
        lambda sch: sch.rfactor(sch.split("k", [None, 4])[1], 0),
    )


def test_plain_loops_of_several_values() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((6, 8), "int32"), S: T.Buffer((6,), "int32"), M: T.Buffer((6,), "int32")):
    for i, k in T.grid(6, 8):
        S[i] = S[i] + A[i, k] * A[i, k]
        M[i] = T.max(M[i], A[i, k])
"""
    for which, axis in ((1, 0), (0, 1)):
        sch = taken(text, lambda sch, which=which, axis=axis: sch.rfactor(sch.split("k", [None, 4])[which], axis))
        assert {store.buffer.name for store in each(BufferStore, sch.mod["main"].body)} == {"S", "M", "S.rf", "M.rf"}
    crossed = text.replace("T.max(M[i], A[i, k])", "T.max(M[i], S[i])")
    refused(crossed, lambda sch: sch.rfactor("k", 0), NotApplicable)


@pytest.mark.parametrize(
    "better", ["M[i] >= V[i, k]", "M[i] > V[i, k]", "M[i] > V[i, k] or (M[i] == V[i, k] and P[i] < k)"]
)
@pytest.mark.parametrize("n", [0, 1, 3, 8])
def test_plain_extrema_begin_with_what_was_there(better: str, n: int) -> None:
    text = f"""
@T.prim_func
def f(V: T.Buffer((4, 8), "int32"), P: T.Buffer((4,), "int32"), M: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, {n}):
        p: T.int32 = T.Select({better}, P[i], k)
        m: T.int32 = T.Select({better}, M[i], V[i, k])
        P[i] = p
        M[i] = m
"""
    refused(text, lambda sch: sch.rfactor("k", 0), UnprovedStep, "equals")
    func = parse(text)
    rng = np.random.default_rng(n)
    least = np.iinfo("int32").min
    for factors, which in (([None], 0), ([None, 1], 0), ([1, None], 1)):
        sch: Any = tl.Schedule(func, debug_mask="all", reassociate=True)
        sch.rfactor(sch.split("k", factors)[which], 0)
        assert sch.steps[-1].exactness == "reassociated(P, M, argmax)"
        for values in (rng.permutation(32).reshape(4, 8), np.full((4, 8), least)):
            for first in (least, 5, 1000):
                runs = [(np.full(4, 7, "int32"), np.full(4, first, "int32")) for _ in range(2)]
                for one, given in zip((func, sch.mod["main"]), runs, strict=True):
                    tl.interpret(one, values.astype("int32"), *given)
                np.testing.assert_array_equal(runs[0][1], runs[1][1])
                if values[0, 0] != values[0, 1] and first not in values:  # no equals, of which another one may be kept
                    np.testing.assert_array_equal(runs[0][0], runs[1][0])
                places = [7, *(k for k in range(n) if values[0, k] == runs[1][1][0])]
                assert runs[1][0][0] in places  # one that there is, even among equals


def test_what_is_no_reduction_along_the_loop() -> None:
    text = SUM.format(dtype="int32", init="0", update="C[vi] + A[vi, vk]", n=8)
    refused(text, lambda sch: sch.rfactor(sch.get_loops("C")[0], 0), NotApplicable)
    refused(text, lambda sch: sch.rfactor(sch.get_loops("C")[1], 2), BadArgument)
    refused(
        SUM.format(dtype="int32", init="0", update="C[vi] - A[vi, vk]", n=8),
        lambda sch: sch.rfactor(sch.get_loops("C")[1], 0),
        NotApplicable,
    )


ARG = """
@T.prim_func
def f(I: T.Buffer((4, {n}), "int32"), V: T.Buffer((4, {n}), "{t}"), P: T.Buffer((4,), "int32"), M: T.Buffer((4,), "{t}")):
    for i, k in T.grid(4, {n}):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                P[vi] = -1
                M[vi] = T.{bound}("{t}")
            p: T.int32 = T.Select({better}, P[vi], I[vi, vk])
            m: T.{t} = T.Select({better}, M[vi], V[vi, vk])
            P[vi] = p
            M[vi] = m
"""


@pytest.mark.parametrize("n", [4, 8, 11])
@pytest.mark.parametrize(
    ("bound", "better", "find"),
    [
        ("min_value", "M[vi] >= V[vi, vk]", np.argmax),
        ("max_value", "M[vi] <= V[vi, vk]", np.argmin),
        ("min_value", "M[vi] > V[vi, vk] or (M[vi] == V[vi, vk] and P[vi] < I[vi, vk])", np.argmax),
        ("max_value", "M[vi] < V[vi, vk]", np.argmin),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.by_day
def test_extrema_with_their_places(n: int, bound: str, better: str, find: Any, dtype: str) -> None:
    text = ARG.format(n=n, t=dtype, bound=bound, better=better)
    rng = np.random.default_rng(n)
    v = np.array([rng.permutation(n) * 3 - 7 for _ in range(4)]).astype(dtype)  # no two are equal
    i = np.broadcast_to(np.arange(n, dtype="int32"), (4, n)).copy()
    for split, which, axis in (([None, 4], 1, 1), ([None, 4], 0, 0), ([None], 0, -1)):
        sch: Any = tl.Schedule(parse(text), debug_mask="all")
        loops = sch.split(sch.get_loops("M")[1], split)
        if n % 4 and which == 1 and len(split) == 2:
            continue
        sch.rfactor(loops[which], axis)
        assert sch.steps[-1].exactness == f"reassociated(P, M, {find.__name__})"
        for run in (
            lambda *given, sch=sch: tl.interpret(sch.mod["main"], *given),
            tl.build(sch.mod["main"], schedule="none"),
        ):
            p, m = np.zeros(4, "int32"), np.zeros(4, dtype)
            run(i, v, p, m)
            np.testing.assert_array_equal(p, find(v, axis=1))
            np.testing.assert_array_equal(m, v[np.arange(4), p])
    refused(text, lambda sch: sch.rfactor(sch.get_loops("M")[1], 0), UnprovedStep, "equals", reassociate=False)


def test_the_partial_results_of_an_extremum_are_those_of_tvm() -> None:
    text = ARG.format(n=8, t="float32", bound="min_value", better="M[vi] >= V[vi, vk]")
    sch: Any = tl.Schedule(parse(text))
    sch.rfactor(sch.split(sch.get_loops("M")[1], [None, 4])[1], 1)
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def f(I: T.Buffer((4, 8), "int32"), V: T.Buffer((4, 8), "float32"), P: T.Buffer((4,), "int32"), M: T.Buffer((4,), "float32")):
    P_rf = T.alloc_buffer((4, 4), "int32")
    M_rf = T.alloc_buffer((4, 4))
    for i, k_0, k_1 in T.grid(4, 2, 4):
        with T.block("M_rf"):
            vk_1, vi, vk_0 = T.axis.remap("SSR", [k_1, i, k_0])
            T.reads(V[vi, vk_0 * 4 + vk_1], I[vi, vk_0 * 4 + vk_1])
            T.writes(P_rf[vi, vk_1], M_rf[vi, vk_1])
            with T.init():
                P_rf[vi, vk_1] = -1
                M_rf[vi, vk_1] = T.min_value("float32")
            p: T.int32 = T.Select(M_rf[vi, vk_1] >= V[vi, vk_0 * 4 + vk_1], P_rf[vi, vk_1], I[vi, vk_0 * 4 + vk_1])
            m: T.float32 = T.Select(M_rf[vi, vk_1] >= V[vi, vk_0 * 4 + vk_1], M_rf[vi, vk_1], V[vi, vk_0 * 4 + vk_1])
            P_rf[vi, vk_1] = p
            M_rf[vi, vk_1] = m
    for i, k_1 in T.grid(4, 4):
        with T.block("M"):
            vk_1, vi = T.axis.remap("RS", [k_1, i])
            T.reads(M_rf[vi, vk_1], P_rf[vi, vk_1])
            T.writes(P[vi], M[vi])
            with T.init():
                P[vi] = -1
                M[vi] = T.min_value("float32")
            p: T.int32 = T.Select(M[vi] >= M_rf[vi, vk_1], P[vi], P_rf[vi, vk_1])
            m: T.float32 = T.Select(M[vi] >= M_rf[vi, vk_1], M[vi], M_rf[vi, vk_1])
            P[vi] = p
            M[vi] = m
"""),
    )


TWO = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), S: T.Buffer((4,), "int32"), M: T.Buffer((4,), "int32")):
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = 0
                M[vi] = -100
            {binds}
            S[vi] = {first}
            M[vi] = {second}
"""


def test_several_values_at_once() -> None:
    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("S")[1], [None, 4])[1], 0)

    for binds, first, second in (
        ("", "S[vi] + A[vi, vk] * 2", "T.max(A[vi, vk], M[vi])"),
        ("s: T.int32 = S[vi] + A[vi, vk] * 2", "s", "T.max(M[vi], A[vi, vk])"),
    ):
        sch = taken(
            TWO.format(binds=binds or "T.evaluate(0)", first=first, second=second).replace(
                "            T.evaluate(0)\n", ""
            ),
            steps,
        )
        assert sch.steps[-1].exactness == "bitwise"
    for first, second in (("S[vi] + A[vi, vk]", "T.max(M[vi], S[vi])"), ("S[vi] + M[vi]", "T.max(M[vi], A[vi, vk])")):
        text = TWO.format(binds="x: T.int32 = 1", first=first, second=second)
        refused(text, steps, NotApplicable)


def test_reducers_of_users() -> None:
    from tirlower.ir import build, const
    from tirlower.schedule.compute import reducers

    text = SUM.format(dtype="int32", init="0", update="T.bitwise_xor(C[vi], A[vi, vk])", n=8)

    def steps(sch: Any) -> None:
        sch.rfactor(sch.split(sch.get_loops("C")[1], [None, 4])[1], 0)

    refused(text, steps, NotApplicable, "register_reducer")
    reducers.register_reducer(
        "xor for a test", 1, lambda x, y: [build.bitwise_xor(x[0], y[0])], lambda types: [const(0, types[0])]
    )
    try:
        sch = taken(text, steps)
        assert sch.steps[-1].exactness == "reassociated(C, xor for a test)"
        with pytest.raises(BadArgument, match="already"):
            reducers.register_reducer("add", 1, lambda x, y: [x[0]], lambda types: [const(0)])
        with pytest.raises(BadArgument, match="2 values"):
            reducers.register_reducer("pair", 2, lambda x, y: [x[0]], lambda types: [const(0)])
    finally:
        reducers._of_users.pop("xor for a test")
