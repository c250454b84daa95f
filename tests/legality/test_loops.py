"""Build and lower refuse loops that are not what they claim to be, and say which iterations disagree."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError, TransformError
from tirlower.ir import IRModule
from tirlower.legality.check import check_legality
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import VectorizeLoop


@T.prim_func
def scan(A: T.Buffer((16,), "float32")):
    for i in T.parallel(15):
        A[i + 1] = A[i] + A[i + 1]


@T.prim_func
def vector_sum(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    for i in T.vectorized(16):
        B[0] = B[0] + A[i]


@T.prim_func
def scatter(A: T.Buffer((16,), "float32"), Index: T.Buffer((16,), "int32")):
    for i in T.parallel(16):
        A[Index[i]] = T.float32(1)


@T.prim_func
def trusted(A: T.Buffer((16,), "float32"), Index: T.Buffer((16,), "int32")):
    for i in T.parallel(16, annotations={"tir.unchecked": "Index is a permutation"}):
        A[Index[i]] = T.float32(1)


@T.prim_func
def halves(A: T.Buffer((32,), "float32")):
    for i in T.parallel(16):
        A[i] = A[i + 16]


@pytest.mark.parametrize("use", [tl.build, tl.lower])
def test_a_refuted_loop_shows_its_witness(use):
    with pytest.raises(LegalityError, match="parallel loop `i` of 'scan' is not legal") as info:
        use(scan)
    text = str(info.value)
    assert "at i = 0 writes A[1]" in text
    assert "at i = 1 reads A[1]" in text
    assert "A[i + 1] = A[i] + A[i + 1]" in text


def test_a_reduction_names_itself():
    with pytest.raises(LegalityError, match="carries the reduction of B"):
        tl.build(vector_sum)


def test_an_unknown_one_is_refused_with_the_remedy():
    with pytest.raises(LegalityError, match="cannot be proved legal") as info:
        tl.build(scatter)
    assert "tir.unchecked" in (info.value.help or "")


def test_a_trusted_one_runs_and_is_reported():
    kernel = tl.build(trusted)
    a = np.zeros(16, "float32")
    kernel(a, np.arange(16, dtype="int32")[::-1].copy())
    np.testing.assert_array_equal(a, 1)
    assert any("Index is a permutation" in str(note) for note in kernel.report().loops)


def test_disjoint_halves_are_accepted():
    a = np.arange(32, dtype="float32")
    tl.build(halves)(a)
    np.testing.assert_array_equal(a[:16], np.arange(16, 32))


def test_the_check_can_be_turned_off_and_misspelt():
    with tl.PassContext(config={"tir.legality": "off"}):
        tl.lower(scan)
    with pytest.raises(TransformError, match="'check' or 'off'"):
        tl.PassContext(config={"tir.legality": "of"})


def test_a_pass_by_hand_never_checks():
    assert "T.vectorized" not in VectorizeLoop()(vector_sum).script()


def test_unrolled_loops_need_a_constant_extent():
    func = parse("""
def f(A: T.Buffer(("n",), "int32")):
    for i in T.unroll(n):
        A[i] = i
""")
    with pytest.raises(LegalityError, match="cannot unroll loop 'i' of 'f'") as info:
        tl.build(func)
    assert "for i in T.unroll(n)" in str(info.value) and "split the loop" in str(info.value)


@pytest.mark.parametrize(
    "jumps, expected",
    [
        ("if i % 3 == 2:\n            continue", [0, 1, 0, 3, 4, 0, 6, 7]),
        ("if i == 5:\n            break", [0, 1, 2, 3, 4, 0, 0, 0]),
        (
            "if i % 3 == 2:\n            continue\n        if A[i] == 1 or i == 7:\n            break",
            [0, 1, 0, 3, 4, 0, 6, 0],
        ),
    ],
)
def test_an_unrolled_loop_whose_body_jumps_runs_as_a_loop(jumps, expected):
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in T.unroll(1, 8):
        {jumps}
        A[i] = i
""")
    out = np.zeros(8, np.int32)
    tl.build(func)(out)
    assert out.tolist() == expected


def test_unrolled_loops_are_reported():
    func = parse("""
def f(A: T.Buffer((4,), "int32")):
    for i in T.unroll(4):
        A[i] = i
""")
    assert [(note.kind, note.status) for note in tl.build(func).report().loops] == [("unroll", "proved")]


THREADS = """
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            {line}
"""


def test_thread_bound_loops_must_not_race():
    low = tl.lower(parse(THREADS.format(line="B[b * 8 + t] = A[b * 8 + t] + 1")))
    a, b = np.arange(32, dtype="int32"), np.zeros(32, "int32")
    tl.interpret(low, a, b)
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(LegalityError, match="the thread-bound loop `t` of 'f' is not legal") as info:
        tl.lower(parse(THREADS.format(line="B[b * 8 + t // 2] = A[b * 8 + t]")))
    assert "t = 0" in str(info.value) and "t = 1" in str(info.value)
    with pytest.raises(LegalityError, match="the thread-bound loop `b`"):
        tl.lower(parse(THREADS.format(line="B[t] = A[b * 8 + t]")))


def test_threads_hand_values_on_through_shared_memory():
    func = parse("""
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        s = T.alloc_buffer((8,), "int32", scope="shared")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            s[t] = A[b * 8 + t]
            T.evaluate(T.tvm_storage_sync("shared"))
            B[b * 8 + t] = s[7 - t]
""")
    a, b = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    tl.simulate(tl.lower(func, "nvptx -arch=sm_80"), a, b)
    np.testing.assert_array_equal(b.reshape(4, 8), a.reshape(4, 8)[:, ::-1])


def test_a_thread_bound_loop_can_be_trusted():
    text = """
def f(A: T.Buffer((32,), "int32"), X: T.Buffer((32,), "int32")):
    for t in T.thread_binding(32, thread="threadIdx.x"{more}):
        A[X[t]] = t
"""
    with pytest.raises(LegalityError, match="cannot be proved legal"):
        tl.lower(parse(text.format(more="")))
    tl.lower(parse(text.format(more=', annotations={"tir.unchecked": "X is a permutation"}')))


def test_annotated_reductions_are_no_obstacle():
    text = """
def f(A: T.Buffer((64,), "int32"), S: T.Buffer((1,), "int32")):
    S[0] = 0
    for i in T.parallel(64{more}):
        S[0] = S[0] + A[i]
"""
    with pytest.raises(LegalityError, match="carries the reduction"):
        tl.build(parse(text.format(more="")))
    checked = check_legality(
        IRModule({"f": parse(text.format(more=', annotations={"tir.reduction": True}'))}), tl.PassContext()
    )
    assert [note.status for note in checked.checks.loops] == ["proved"]


REDUCTION = """
def f(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(32, thread="{tag}"):
            with T.block("sum"):
                vi = T.axis.spatial(4, i)
                vk = T.axis.{kind}(32, k)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
"""


def test_the_threads_of_a_block_may_reduce_together():
    func = parse(REDUCTION.format(tag="threadIdx.x", kind="reduce"))
    checked = check_legality(IRModule({"f": func}), tl.PassContext())
    note = checked.checks.loops[-1]
    assert (note.loop, note.status) == ("k", "proved")
    a, b = np.random.default_rng(0).standard_normal((4, 32), dtype=np.float32), np.zeros(4, np.float32)
    tl.simulate(tl.lower(func, "nvptx -arch=sm_80"), a, b)
    np.testing.assert_allclose(b, a.astype(np.float64).sum(1), rtol=1e-5, atol=1e-6)


def test_a_reduction_that_no_iterator_states_is_a_race():
    flat = """
def f(A: T.Buffer((4, 32), "float32"), B: T.Buffer((4,), "float32")):
    for i in T.thread_binding(4, thread="blockIdx.x"):
        for k in T.thread_binding(32, thread="threadIdx.x"):
            B[i] = B[i] + A[i, k]
"""
    with pytest.raises(LegalityError, match="carries the reduction of B"):
        tl.lower(parse(flat), "nvptx -arch=sm_80")
    beside = REDUCTION.format(tag="threadIdx.x", kind="reduce") + "            B[i] = B[i] + A[i, k]\n"
    with pytest.raises(LegalityError):
        tl.lower(parse(beside), "nvptx -arch=sm_80")


@pytest.mark.parametrize("kind", ["vectorized", "parallel"])
@pytest.mark.parametrize(
    "condition",
    ["(i ^ 1) == i", "i % 2 + (i + 1) % 2 != 1", "i * 3 + j * 5 == 1", "i + k > 20 and k < 3", "(i | 8) < 8"],
)
def test_a_break_that_is_proved_never_to_happen_stops_no_pass(kind: str, condition: str) -> None:
    func = parse(f"""
@T.prim_func
def f(k: T.int32, A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
    for j in range(8):
        for i in T.{kind}(16):
            if {condition}:
                break
            B[j, i] = A[j, i] * T.float32(2)
""")
    source, found = np.random.default_rng(0).random((8, 16), dtype=np.float32), np.zeros((8, 16), "float32")
    tl.build(func)(2, source, found)
    assert (found == source * 2).all()


def test_a_break_of_a_vectorized_loop_that_happens_is_refused() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in T.vectorized(16):
        if (i ^ 1) == i + 1:
            break
        A[i] = i
""")
    with pytest.raises(LegalityError, match="may leave the loop 'i' early"):
        tl.build(func)
