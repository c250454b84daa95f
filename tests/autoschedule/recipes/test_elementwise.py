"""Chains of elementwise nests and stencils: the bits of the loops as written, whatever is inlined, fused or in vectors."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size

ONE = AVX2.replace("threads=2", "threads=1")
CHAIN = """
def f(A: T.Buffer(({0}, {1}), "{2}"), B: T.Buffer(({1},), "{2}"), C: T.Buffer(({0}, {1}), "{2}")):
    P = T.alloc_buffer(({0}, {1}), "{2}")
    Q = T.alloc_buffer(({0}, {1}), "{2}")
    for i, j in T.grid({0}, {1}):
        with T.block("P"):
            vi, vj = T.axis.remap("SS", [i, j])
            P[vi, vj] = A[vi, vj] * B[vj]
    for i, j in T.grid({0}, {1}):
        with T.block("Q"):
            vi, vj = T.axis.remap("SS", [i, j])
            Q[vi, vj] = P[vi, vj] + A[vi, vj]
    for i, j in T.grid({0}, {1}):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = Q[vi, vj] + B[vj] * A[vi, vj]
"""
BLUR = """
def f(X: T.Buffer(({rows} + 2, {cols} + 2), "float32"), Y: T.Buffer(({rows}, {cols}), "float32")):
    H = T.alloc_buffer(({rows} + 2, {cols}), "float32")
    for i, j in T.grid({rows} + 2, {cols}):
        H[i, j] = X[i, j] + X[i, j + 1] + X[i, j + 2]
    for i, j in T.grid({rows}, {cols}):
        Y[i, j] = (H[i, j] + H[i + 1, j] + H[i + 2, j]) * T.float32(0.11111111)
"""
SHAPES = [(1, 1), (1, 131), (131, 1), (5, 7), (13, 67), (3, 128), (7, 130)]


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_chains_have_the_bits_of_their_nests(shape: tuple[int, int], dtype: str):
    scheduled(CHAIN.format(*shape, dtype))


def test_a_product_that_is_inlined_is_rounded_as_it_was_stored():
    found = planned(CHAIN.format(64, 640, "float32"), AVX512)
    first, second, third = found.nests
    assert first.recipe == "elementwise" and first.parameters["inlined"] == 2
    assert first.exactness == "bitwise equal" and second.why == third.why == "it is part of the one before"
    assert "P, Q computed where it is read" in first.rule
    assert len([step for step in found.schedule.steps if step.instruction.kind.name == "ComputeInline"]) == 2


@pytest.mark.parametrize("shape", [(1, 1), (5, 131), (4, 64), (9, 83), (2, 40)])
def test_stencils(shape: tuple[int, int]):
    scheduled(BLUR.format(rows=shape[0], cols=shape[1]))


def test_rows_of_a_stencil_share_what_they_load():
    [report, _] = planned(BLUR.format(rows=512, cols=512)).nests
    assert report.parameters["rows"] == 4 and report.parameters["lanes"] == 8
    assert report.parameters["parallel"] and not report.parameters["nontemporal"]
    # Rows of X are longer than those of Y: one loop over both would do 4 vectors of a row, not a vector of 4 rows.
    kinds = [step.instruction.kind.name for step in planned(BLUR.format(rows=512, cols=512)).schedule.steps]
    assert "Fuse" not in kinds and "UnrollJam" in kinds


COPY = """
def f(A: T.Buffer(({0}, {1}), "float32"), B: T.Buffer(({0}, {1}), "float32")):
    for {2} in T.grid({3}):
        B[i, j] = A[i, j] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("places", "rows"),
    [
        ("X[i, j] + X[i + 1, j] + X[i + 2, j]", 1),  # 1.5 of 3 loads saved
        ("X[i, j + 1] + X[i + 1, j] + X[i + 1, j + 1] + X[i + 1, j + 2] + X[i + 2, j + 1]", 1),  # 1.5 of 5
        ("X[i, j] + X[i + 1, j] + X[i, j + 1] + X[i + 1, j + 1]", 1),  # 1.5 of 4
        ("X[i, j] + X[i, j + 1] + X[i + 1, j] + X[i + 1, j + 1] + X[i + 2, j] + X[i + 2, j + 1]", 4),  # 3 of 6
        ("X[i, j] + X[i, j] + X[i + 1, j] + X[i + 1, j] + X[i + 2, j] + X[i + 2, j]", 1),  # each place once
    ],
)
def test_rows_are_done_together_where_they_save_loads(places: str, rows: int):
    text = (
        "def f(X: T.Buffer((514, 514), 'float32'), Y: T.Buffer((512, 512), 'float32')):\n"
        f"    for i, j in T.grid(512, 512):\n        Y[i, j] = {places}\n"
    )
    [report] = planned(text, ONE).nests
    assert report.parameters.get("rows", 1) == rows
    scheduled(text.replace("514", "22").replace("512", "20"))


def test_loops_over_one_run_of_memory_are_one():
    found = planned(COPY.format(333, 517, "i, j", "333, 517"))
    assert [step.instruction.kind.name for step in found.schedule.steps if not step.instruction.kind.pure][0] == "Fuse"
    scheduled(COPY.format(9, 17, "j, i", "17, 9"))
    exchanged = planned(COPY.format(333, 517, "j, i", "517, 333"), ONE)
    assert [report.recipe for report in exchanged.nests] == ["elementwise"]


def test_what_is_larger_than_half_the_last_cache_goes_past_it():
    large = COPY.format(4096, 4096, "i, j", "4096, 4096")
    assert planned(large, ONE).nests[0].parameters["nontemporal"]
    assert "past it" in planned(large, ONE).nests[0].rule
    assert planned(COPY.format(512, 512, "i, j", "512, 512"), ONE).nests[0].why
    # Where each element takes long anyway, the stores are no hindrance.
    costly = large.replace("A[i, j] + ", "T.exp(A[i, j]) / ")
    assert planned(costly, ONE).nests[0].why == "no recipe gains anything"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("B[A[i]] = i", "is not at one stride"),
        ("B[0] = A[i]", "is written more than once"),
        ("B[i * 2] = A[i]", "contiguous along no loop"),
        ("B[i] = A[B[i]]", "is not at one stride"),
    ],
)
def test_what_is_not_elementwise(body: str, why: str):
    text = f"""
def f(A: T.Buffer((4096,), "int32"), B: T.Buffer((8192,), "int32")):
    for i in range(4096):
        {body}
"""
    [report] = planned(text, ONE).nests
    assert report.recipe != "elementwise"
    assert any(why in note for note in report.notes) or "checked as it runs" in report.why


def test_little_work_is_not_parallel_and_what_carries_is_none():
    [report] = planned("""
def f(A: T.Buffer((131, 130), "float32"), B: T.Buffer((131, 130), "float32")):
    for j, i in T.grid(130, 131):
        B[i, j] = A[i, j] + T.float32(1)
""").nests
    assert report.recipe == "elementwise" and not report.parameters["parallel"] and "not parallel" in report.rule
    scan = scheduled("""
def f(A: T.Buffer((200,), "int32")):
    for i in range(199):
        A[i + 1] = A[i + 1] + A[i]
""")
    assert scan.nests[0].recipe == ""


def test_in_place_and_symbolic_sizes():
    scheduled("""
def f(A: T.Buffer((260,), "float32")):
    for i in range(260):
        A[i] = A[i] * A[i]
""")
    scheduled("""
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("n", "m"), "float32")):
    for j, i in T.grid(m, n):
        B[i, j] = A[i, j] * T.float32(2)
""")


def test_a_result_that_is_read_elsewhere_is_stored():
    found = scheduled("""
def f(A: T.Buffer((300,), "float32"), B: T.Buffer((300,), "float32"), C: T.Buffer((300,), "float32")):
    P = T.alloc_buffer((300,), "float32")
    for i in range(300):
        P[i] = A[i] / T.float32(3)
    for i in range(300):
        B[i] = P[i] + T.float32(1)
    for i in range(299):
        C[i] = P[299 - i]
""")
    assert not any(step.instruction.kind.name == "ComputeInline" for step in found.schedule.steps)


def test_sizes_that_are_not_known():
    found = of_any_size(
        """
def f(A: T.Buffer(("n", "m"), "float32"), b: T.Buffer(("m",), "float32"), C: T.Buffer(("n", "m"), "float32")):
    S = T.alloc_buffer((n, m), "float32")
    for i, j in T.grid(n, m):
        S[i, j] = A[i, j] + b[j]
    for i, j in T.grid(n, m):
        C[i, j] = T.max(S[i, j], T.float32(0)) * A[i, j]
""",
        [
            {"n": n, "m": m}
            for n, m in [(0, 3), (3, 0), (1, 1), (1, 500), (500, 1), (9, 63), (9, 64), (7, 131), (600, 700)]
        ],
    )
    [report, _] = found.nests
    assert (report.recipe, report.exactness) == ("elementwise", "bitwise equal")
    assert report.parameters["inlined"] == 1 and "parallel where n * m >= " in report.rule


CROSS = """
def f(a: T.handle, b: T.handle):
    m, n = T.int32(), T.int32()
    A = T.match_buffer(a, (m, n), "{dtype}")
    B = T.match_buffer(b, (m, n), "{dtype}")
    for i, j in T.grid(m - 2, n - 2):
        x = A[i, j] + A[i, j + 1] + A[i, j + 2] - A[i + 2, j] - A[i + 2, j + 1] - A[i + 2, j + 2]
        y = A[i, j] + A[i + 1, j] + A[i + 2, j] - A[i, j + 2] - A[i + 1, j + 2] - A[i + 2, j + 2]
        B[i, j] = x * x + y * y
"""


@pytest.mark.parametrize(
    ("dtype", "machine", "masked"),
    [
        ("float32", "x86-64-v4", True),
        ("float32", "x86-64-v3", True),
        ("int8", "x86-64-v4", True),
        ("int8", "x86-64-v3", False),
        ("float64", "x86-64-v2", False),
    ],
)
def test_the_rest_of_rows_that_share_loads_is_a_vector_where_lanes_can_be_left_out(
    dtype: str, machine: str, masked: bool
):
    sizes = [{"m": m, "n": n} for m, n in ((1, 5), (3, 3), (5, 19), (6, 66), (7, 69), (11, 33), (16, 131))]
    found = of_any_size(CROSS.format(dtype=dtype), sizes, f"llvm -num_threads=1 -mcpu={machine}")
    [report] = found.nests
    assert report.recipe == "elementwise" and report.parameters["rows"] == 4
    assert report.parameters["masked"] is masked and ('tail="mask"' in str(found.trace)) is masked
