"""Stages along rows: in vectors where the order is free, and the bits of the loops as written where it is not."""

from __future__ import annotations

import pytest

from bench.rows.naive import attention
from examples.schedules.softmax import naive
from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tirlower.autoschedule.recipes.row_chain import ROW_CHAIN

ONE = AVX2.replace("threads=2", "threads=1")
SUM = """
def f(A: T.Buffer(({0}, {1}), "{2}"), S: T.Buffer(({0},), "{2}")):
    for i, j in T.grid({0}, {1}):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.cast(0, "{2}")
            S[vi] += A[vi, vj]
"""
IN_ORDER = """
def f(A: T.Buffer(({0}, {1}), "float32"), x: T.Buffer(({1},), "float32"), S: T.Buffer(({0},), "float32")):
    for i in range({0}):
        S[i] = T.float32(0)
        for j in range({1}):
            S[i] = S[i] + A[i, j] * x[j]
"""
NORM = """
def f(A: T.Buffer(({0}, {1}), "float32"), g: T.Buffer(({1},), "float32"), B: T.Buffer(({0}, {1}), "float32")):
    S = T.alloc_buffer(({0},), "float32")
    R = T.alloc_buffer(({0},), "float32")
    for i, j in T.grid({0}, {1}):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] += A[vi, vj] * A[vi, vj]
    for i in range({0}):
        R[i] = T.float32(1) / T.sqrt(S[i] * T.float32(0.01) + T.float32(1e-5))
    for i, j in T.grid({0}, {1}):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * R[vi] * g[vj]
"""
SHAPES = [(1, 1), (131, 1), (5, 7), (9, 83), (17, 40)]


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(shape: tuple[int, int]):
    scheduled(naive(*shape), tolerance=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_norms(shape: tuple[int, int]):
    scheduled(NORM.format(*shape), tolerance=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_of_rows(shape: tuple[int, int], dtype: str):
    scheduled(SUM.format(*shape, dtype), tolerance=0.0 if dtype == "int32" else 1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sum_without_permission_has_the_bits_of_its_loops(shape: tuple[int, int]):
    scheduled(IN_ORDER.format(*shape))


def test_all_stages_of_a_row_come_before_the_next_row():
    found = planned(naive(4096, 4096), AVX512)
    first, *rest = found.nests
    assert first.recipe == "row chain" and all("part of the one before" in one.why for one in rest)
    assert first.parameters == {
        "lanes": 64, "partial": 16, "together": 1, "prefetch": "X", "nontemporal": True, "parallel": True,
        "in_lanes": False,
    }  # fmt: skip
    assert first.exactness == "equal up to the order of the sum into S"
    assert str(found.schedule.mod["main"]).count("for i") == 1
    kinds = [step.instruction.kind.name for step in found.schedule.steps]
    assert (kinds.count("FuseSiblings"), kinds.count("Privatize"), kinds.count("Prefetch")) == (3, 3, 1)


def test_what_is_not_done_without_permission_is_said():
    [plain] = planned(IN_ORDER.format(512, 512), ONE).nests
    assert plain.exactness == "bitwise equal" and plain.parameters["together"] == 8
    assert "sum kept in order: no permission" in plain.rule
    [free] = planned(SUM.format(512, 512, "float32"), ONE).nests
    assert free.exactness == "equal up to the order of the sum into S"
    [whole] = planned(SUM.format(512, 512, "int32"), ONE).nests
    assert whole.exactness == "bitwise equal"


def test_permission_by_an_annotation():
    annotated = IN_ORDER.replace("range({1}):", 'T.serial({1}, annotations={{"tir.reduction": True}}):')
    [report] = scheduled(annotated.format(9, 130), tolerance=1e-5).nests
    assert report.recipe == "row chain" and "order of the sum" in report.exactness


def test_nests_that_reach_into_other_rows_are_not_run_in_step():
    found = scheduled("""
def f(A: T.Buffer((40, 50), "float32"), B: T.Buffer((40,), "float32")):
    S = T.alloc_buffer((40,), "float32")
    for i in range(40):
        S[i] = T.float32(0)
        for j in range(50):
            S[i] = S[i] + A[i, j]
    for i in range(40):
        B[i] = S[39 - i]
""")
    assert len([one for one in found.nests if one.recipe == "row chain"]) == 1
    assert not any(step.instruction.kind.name == "FuseSiblings" for step in found.schedule.steps)


def test_rows_of_more_loops():
    found = scheduled(
        """
def f(A: T.Buffer((3, 5, 70), "float32"), B: T.Buffer((3, 5, 70), "float32")):
    S = T.alloc_buffer((3, 5), "float32")
    for b, i, j in T.grid(3, 5, 70):
        with T.block("S"):
            vb, vi, vj = T.axis.remap("SSR", [b, i, j])
            with T.init():
                S[vb, vi] = T.float32(0)
            S[vb, vi] += A[vb, vi, vj]
    for b, i, j in T.grid(3, 5, 70):
        with T.block("B"):
            vb, vi, vj = T.axis.remap("SSS", [b, i, j])
            B[vb, vi, vj] = A[vb, vi, vj] / S[vb, vi]
""",
        tolerance=1e-4,
    )
    assert found.nests[0].recipe == "row chain" and "2 loops over rows" in found.nests[0].rule


def test_symbolic_rows():
    scheduled(
        """
def f(A: T.Buffer(("n", "m"), "float32"), S: T.Buffer(("n",), "float32")):
    for i, j in T.grid(n, m):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] += A[vi, vj]
""",
        tolerance=1e-4,
    )


FUSED = """
def f(X: T.Buffer(({0}, {1}), "float32"), Y: T.Buffer(({0}, {1}), "float32")):
    for i in range({0}):
        M: T.float32 = T.min_value("float32")
        for j in range({1}):
            M = T.max(M, X[i, j])
        S: T.float32 = T.float32(0)
        for j in range({1}):
            Y[i, j] = T.exp(X[i, j] - M)
            S += Y[i, j]
        for j in range({1}):
            Y[i, j] = Y[i, j] / S
"""


@pytest.mark.parametrize("shape", SHAPES)
def test_what_stands_in_one_loop_with_a_sum_in_order_has_a_loop_of_its_own(shape: tuple[int, int]):
    scheduled(FUSED.format(*shape))


def test_the_exponentials_are_vectors_and_the_sum_stays():
    found = planned(FUSED.format(512, 512), ONE)
    [report] = found.nests
    assert (report.recipe, report.exactness) == ("row chain", "bitwise equal")
    assert "sum kept in order" in report.rule
    kinds = [step.instruction.kind.name for step in found.schedule.steps]
    assert (kinds.count("Fission"), kinds.count("Vectorize")) == (1, 3)


def test_sizes_that_are_not_known():
    found = of_any_size(
        """
def f(X: T.Buffer(("n", "m"), "float32"), Y: T.Buffer(("n", "m"), "float32")):
    S = T.alloc_buffer((n,), "float32")
    for i, j in T.grid(n, m):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                S[vi] = T.float32(1)
            S[vi] += T.abs(X[vi, vj])
    for i, j in T.grid(n, m):
        Y[i, j] = X[i, j] / S[i]
""",
        [
            {"n": n, "m": m}
            for n, m in [(0, 3), (1, 1), (1, 500), (500, 1), (9, 31), (9, 32), (9, 63), (7, 131), (300, 400)]
        ],
        tolerance=1e-5,
    )
    assert [report.recipe for report in found.nests] == ["row chain", ""]
    assert "parallel where n * m >= " in found.nests[0].rule


IN_ORDER_CHAIN = """
def f(X: T.Buffer(({shape}), "float32"), Y: T.Buffer(({shape}), "float32")):
    M = T.alloc_buffer(({rows},), "float32")
    E = T.alloc_buffer(({shape}), "float32")
    S = T.alloc_buffer(({rows},), "float32")
    for {i} in T.grid({rows}):
        M[{i}] = T.min_value("float32")
        for j in range({cols}):
            M[{i}] = T.max(M[{i}], X[{i}, j])
    for {i}, j in T.grid({rows}, {cols}):
        E[{i}, j] = T.exp(X[{i}, j] - M[{i}])
    for {i} in T.grid({rows}):
        S[{i}] = T.float32(0)
        for j in range({cols}):
            S[{i}] = S[{i}] + E[{i}, j]
    for {i}, j in T.grid({rows}, {cols}):
        Y[{i}, j] = E[{i}, j] / S[{i}]
"""


@pytest.mark.parametrize(
    ("rows", "cols", "together"),
    [((16,), 70, 8), ((12,), 33, 4), ((7,), 40, 1), ((8,), 64, 8), ((3, 16), 35, 8), ((16,), 40000, 1)],
)
@pytest.mark.by_day
def test_chains_with_sums_in_order_do_some_rows_a_stage(rows: tuple[int, ...], cols: int, together: int):
    i = ", ".join("ab"[: len(rows)])
    sizes = ", ".join(map(str, rows))
    text = IN_ORDER_CHAIN.format(shape=f"{sizes}, {cols}", rows=sizes, cols=cols, i=i)
    found = scheduled(text, interpreted=cols < 100, recipes=[ROW_CHAIN])
    first = found.nests[0]
    assert (first.recipe, first.exactness) == ("row chain", "bitwise equal")
    assert first.parameters["together"] == together


DEVIATIONS = """
def f(X: T.Buffer(({rows}, 40), "float32"), Y: T.Buffer(({rows}, 40), "float32")):
    S = T.alloc_buffer(({n},), "float32")
    V = T.alloc_buffer(({n}, 1), "float32")
    for i in range({n}):
        S[i] = T.float32(0)
        for j in range(40):
            S[i] = S[i] + X[i, j]
    for i in range({n}):
        V[i, 0] = T.float32(0)
        for j in range(40):
            V[i, 0] = V[i, 0] + (X[i, j] - S[i]) * (X[i, j] - S[i])
    for i, j in T.grid({n}, 40):
        Y[i, j] = (X[i, j] - S[i]) / T.sqrt(V[i, 0])
"""


@pytest.mark.parametrize(("rows", "together"), [(16, 8), (19, 8), (20, 4), (11, 1), (99, 8)])
@pytest.mark.by_day
def test_chains_of_rows_that_no_number_of_them_divides(rows: int, together: int):
    found = scheduled(DEVIATIONS.format(rows=rows, n=rows), recipes=[ROW_CHAIN])
    assert found.nests[0].parameters["together"] == together


def test_chains_of_any_number_of_rows_do_some_rows_a_stage():
    text, sizes = DEVIATIONS.format(rows='"n"', n="n"), [{"n": n} for n in (0, 1, 7, 8, 9, 16, 33)]
    for target, together in ((AVX2, 8), (AVX512, 16)):
        first = of_any_size(text, sizes, target).nests[0]
        assert (first.recipe, first.exactness, first.parameters["together"]) == ("row chain", "bitwise equal", together)


def test_a_chain_ends_before_a_product_whose_rows_share_what_they_read():
    found = scheduled(attention("block", 2, 40, 48, 32), AVX512, interpreted=False, tolerance=1e-5)
    assert [nest.recipe for nest in found.nests if nest.recipe] == ["contraction", "row chain", "contraction"]
    first, *_, last = found.nests
    assert (first.parameters["packed"], last.parameters["packed"]) == (("K",), ())
    assert first.exactness == last.exactness == "bitwise equal"


@pytest.mark.parametrize(("rows", "cols", "together"), [(8, 64, 4), (11, 83, 4), (3, 64, 1), (9, 5, 1)])
def test_rows_share_the_vector_that_they_are_multiplied_with(rows: int, cols: int, together: int):
    found = scheduled(
        f"""
def f(A: T.Buffer(({rows}, {cols}), "float32"), x: T.Buffer(({cols},), "float32"), y: T.Buffer(({rows},), "float32")):
    for i, j in T.grid({rows}, {cols}):
        with T.block("y"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                y[vi] = T.float32(0)
            y[vi] += A[vi, vj] * x[vj]
""",
        ONE,
        tolerance=1e-4,
        recipes=[ROW_CHAIN],
    )
    assert found.nests[0].parameters["together"] == together
