"""The legality table: every answer right, every refusal with a witness that happens when the program is run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.poly.brute import NotAffine, events, vector_conflict
from tests.poly.legality_base import happening, replayed
from tests.poly.legality_table import TABLE, Program, Question
from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret
from tirlower.ir import For, Var
from tirlower.poly import (
    Scop,
    Verdict,
    can_bind,
    can_reorder,
    carried_reductions,
    extract,
    is_parallel,
    is_unrollable,
    is_vectorizable,
    races,
)
from tirlower.poly import isl as isl_wrapper
from tirlower.script import tir as T

CASES = [(p, q) for p in TABLE for q in p.questions]


def ask(scop: Any, question: Question) -> Verdict:
    if question.kind == "parallel":
        return is_parallel(scop, question.loops[0])
    if question.kind == "vectorized":
        return is_vectorizable(scop, question.loops[0])
    if question.kind == "bind":
        return can_bind(scop, *question.loops)
    return can_reorder(scop, question.loops)


@pytest.mark.parametrize(
    ("program", "question"), CASES, ids=lambda x: getattr(x, "name", None) or f"{x.kind}-{'-'.join(x.loops)}"
)
def test_answer(program: Program, question: Question):
    scop = extract(program.func)
    verdict = ask(scop, question)
    wanted = "refuted" if question.answer == "structure" else question.answer
    assert verdict.status == wanted, (verdict.reason, str(verdict.witness))
    if verdict.proved:
        return
    assert verdict.reason
    if question.answer != "refuted":
        assert verdict.witness is None
        return
    recheck(program, question, verdict, scop)


def recheck(program: Program, question: Question, verdict: Verdict, scop: Scop) -> None:
    """Run the program for the witness's sizes: both accesses happen, in the loop's two iterations, on one element."""
    witness = verdict.witness
    assert witness is not None and witness.sink is not None
    found = events(program.func, witness.parameters)
    assert happening(found, witness.source) and happening(found, witness.sink), (
        "an access of the witness does not happen"
    )
    assert replayed(witness, found), "no element in common"
    first, second = dict(witness.source.loops), dict(witness.sink.loops)
    if question.kind == "reorder":
        order = list(question.loops)
        assert [first[v] for v in order] != [second[v] for v in order]
        before = [first[n] for n, _ in witness.source.loops], [second[n] for n, _ in witness.sink.loops]
        assert before[0] < before[1]
        assert [first[v] for v in order] > [second[v] for v in order]
    else:
        loop = scop.loop(question.loops[0])
        assert first[loop.name] != second[loop.name]
        for outer in loop.outer:
            assert first[outer.name] == second[outer.name]
    error = verdict.error(f"the loop {question.loops[0]!r} cannot be {question.kind}")
    text = str(error)
    assert "-->" in text and "^" in text and "legality_" in text


def test_the_table_has_its_themes_and_size():
    assert len(TABLE) >= 80 and len({p.name for p in TABLE}) == len(TABLE)
    themes = {p.theme for p in TABLE}
    assert themes >= {
        "scan", "shifted copy", "disjoint parts", "wavefront", "split and fused", "triangular", "guards", "temporaries",
        "symbolic sizes", "indirect", "flattened", "nested parallel",
    }  # fmt: skip
    for kind in ("parallel", "vectorized", "reorder", "bind"):
        answers = {q.answer for _, q in CASES if q.kind == kind}
        assert {"proved", "refuted"} <= answers


def test_vectorized_answers_equal_brute_force_where_sizes_are_constant():
    checked = 0
    for program, question in CASES:
        if question.kind != "vectorized" or question.answer == "unknown" or program.theme == "symbolic sizes":
            continue
        try:
            found = events(program.func)
        except (NotAffine, NotImplementedError):
            continue
        loop = extract(program.func).loop(question.loops[0]).node
        conflict = vector_conflict(found, loop)
        assert (conflict is None) == (question.answer == "proved"), (program.name, conflict)
        checked += 1
    assert checked > 60


# -- single questions -----------------------------------------------------------------------------------------------


@T.prim_func
def total(A: T.Buffer((128,), "float32"), S: T.Buffer((1,), "float32")):
    for i in range(128):
        S[0] = S[0] + A[i]


def test_a_reduction_is_named_and_can_be_left_out():
    verdict = is_parallel(total, "i")
    assert (
        verdict.reduction == "sum into S"
        and "carries the reduction" in verdict.reason
        and "partial result" in verdict.help
    )
    assert is_parallel(total, "i", reductions=True).proved
    assert is_vectorizable(total, "i", reductions=True).proved


def test_a_reduction_next_to_another_dependence_does_not_excuse_it():
    @T.prim_func
    def both(A: T.Buffer((17,), "float32"), S: T.Buffer((1,), "float32")):
        for i in range(16):
            S[0] = S[0] + A[i]
            A[i + 1] = A[i]

    verdict = is_parallel(both, "i", reductions=True)
    assert verdict.refuted and verdict.witness is not None and verdict.witness.source.buffer == "A"
    assert is_parallel(both, "i").reduction == ""


def test_an_accumulator_that_is_also_read_is_no_reduction():
    @T.prim_func
    def running(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), S: T.Buffer((1,), "float32")):
        for i in range(16):
            S[0] = S[0] + A[i]
            B[i] = S[0]

    assert is_parallel(running, "i", reductions=True).refuted


def test_a_block_reduction_counts_its_init():
    @T.prim_func
    def dot(A: T.Buffer((16,), "float32"), S: T.Buffer((1,), "float32")):
        for k in range(16):
            with T.block("S"):
                vk = T.axis.reduce(16, k)
                with T.init():
                    S[0] = 0.0
                S[0] += A[vk]

    assert is_parallel(dot, "k").refuted
    assert is_parallel(dot, "k", reductions=True).proved


@T.prim_func
def pairs(A: T.Buffer((4, 8), "int32"), C: T.Buffer((2,), "int32")):
    for k, i in T.grid(8, 4):
        with T.block("C"):
            vk, vi = T.axis.remap("RS", [k, i])
            with T.init():
                C[vi // 2] = 0
            C[vi // 2] += A[vi, vk]


def test_an_init_behind_updates_of_its_element_is_no_part_of_a_reduction():
    # Partial results begin with what inits set before the loop; here i = 1 forgets what i = 0 has added.
    for ask_of in (is_parallel, is_vectorizable):
        verdict = ask_of(pairs, "k", reductions=True)
        assert verdict.refuted and "comes behind an update" in verdict.reason
        assert str(verdict.witness) == "iteration (k = 0, i = 0) reads C[0] and iteration (k = 0, i = 1) writes C[0]"
    assert is_parallel(pairs, "k").reduction == "", "no annotation makes it legal"
    assert is_parallel(pairs, "i", reductions=True).refuted, "in iterations of the loop itself too"
    verdict = can_reorder(pairs, ["i", "k"])
    assert verdict.refuted and "turns round a dependence" in verdict.reason


def test_an_init_that_reads_its_element_is_no_part_of_a_reduction():
    @T.prim_func
    def twice(A: T.Buffer((16,), "int32"), S: T.Buffer((1,), "int32")):
        for k in range(16):
            with T.block("S"):
                vk = T.axis.reduce((1, 17), k)
                with T.init():
                    S[0] = S[0] * 2
                S[0] += A[vk - 1]

    assert is_parallel(twice, "k", reductions=True).refuted


def test_a_reduction_through_a_bound_pointer_is_carried():
    @T.prim_func
    def bound(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        q = T.bind(C.data)
        V = T.decl_buffer((4,), "int32", data=q)
        for k, i in T.grid(8, 4):
            with T.block("V"):
                vk, vi = T.axis.remap("RS", [k, i])
                with T.init():
                    V[vi] = 0
                V[vi] += A[vi, vk]

    assert [found.buffer.name for found in carried_reductions(bound, "k")] == ["V"]
    assert is_parallel(bound, "k", reductions=True).proved and is_parallel(bound, "k").reduction == "sum into V"


def test_loops_are_given_as_nodes_variables_and_names():
    loop = total.body
    assert isinstance(loop, For)
    assert {is_parallel(total, which).status for which in (loop, loop.loop_var, "i")} == {"refuted"}
    with pytest.raises(Exception, match="has no loop 'j'"):
        is_parallel(total, "j")
    with pytest.raises(Exception, match="has no loop 'z'"):
        is_parallel(total, Var("z"))


def test_an_ambiguous_name_is_refused():
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32")):
        for i in range(8):
            A[i] = 0.0
        for i in range(8):
            A[i] = A[i] + 1.0

    with pytest.raises(Exception, match="2 loops named 'i'"):
        is_parallel(twice, "i")
    assert all(is_parallel(twice, loop).proved for loop in extract(twice).loops)


def test_unrollable():
    @T.prim_func
    def loops(A: T.Buffer(("n",), "float32"), n: T.int32):
        for i in range(4):
            A[i] = 0.0
        for j in range(n):
            A[j] = 0.0
        for k in range(8):
            if A[k] > 0.0:
                T.evaluate(T.break_loop())

    scop = extract(loops)
    assert is_unrollable(scop, "i").proved
    assert is_unrollable(scop, "j").refuted and "n" in is_unrollable(scop, "j").reason
    assert is_unrollable(scop, "k").refuted


def test_a_loop_that_is_left_early_is_not_parallel():
    @T.prim_func
    def search(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            if A[i] == 3:
                T.evaluate(T.break_loop())
            B[i] = 1

    verdict = is_parallel(search, "i")
    assert verdict.unknown and "early" in verdict.reason


def test_races_lists_the_loops_that_race():
    @T.prim_func
    def racing(A: T.Buffer((8, 8), "int32"), S: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            for j in T.parallel(8):
                S[i] = S[i] + A[i, j]
        for k in T.parallel(8):
            S[k] = 0

    assert [race.loop.name for race in races(racing)] == ["j"]


def test_races_between_threads_and_blocks():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((1,), "float32")):
        for b in T.thread_binding(2, thread="blockIdx.x"):
            s = T.alloc_buffer((32,), "float32", scope="shared")
            for t in T.thread_binding(32, thread="threadIdx.x"):
                s[t] = A[b * 32 + t]
                T.evaluate(T.tvm_storage_sync("shared"))
                B[b * 32 + t] = s[31 - t]
                C[0] = s[t]

    found = races(kernel)
    assert [race.loop.name for race in found] == ["b", "t"]
    assert all(race.verdict.witness.source.buffer == "C" for race in found if race.verdict.witness)


# Statements of threads (ty, tx) of 4 by 4, and whether no two of them meet within it.
TWO_AXES = {
    "s[ty * 4 + tx] = ty": True,
    "s[tx * 4 + ty] = s[tx * 4 + ty] + 1": True,
    "s[ty * 4 + tx] = s[tx * 4 + ty]": False,
    "s[tx + ty] = ty": False,
    "s[tx + 2 * ty] = ty": False,
    "s[4 * ty + 3 - tx] = s[4 * ty + 3 - tx]": True,
    "s[tx * 4 + ty] = s[(ty * 4 + tx) // 4 * 4]": False,
    "s[T.bitwise_xor(tx, ty)] = ty": False,
    "s[T.bitwise_xor(tx, ty) + 4 * ty] = s[T.bitwise_xor(tx, ty) + 4 * ty] * 2": True,
    "for k in range(2):\n    s[(ty * 4 + tx + k) % 16] = k": True,
    "for k in range(4):\n    s[(ty + k) % 4 * 4 + tx] = s[(ty + k) % 4 * 4 + tx] + k": True,
    "for k in range(4):\n    s[(ty + tx + k) % 4 * 4 + tx] = k": True,
    "for k in range(4):\n    s[(ty + tx + k) % 4 + tx] = k": False,
    "for k in T.unroll(2):\n    s[ty * 4 + tx + k * 16] = s[tx * 4 + ty + 16 - k * 16]": True,
    "for v in T.vectorized(2):\n    s[(ty * 4 + tx) * 2 + v] = v": True,
    "for v in T.vectorized(2):\n    s[ty * 4 + tx + v] = v": False,
    "if tx == ty:\n    s[tx + ty] = 1": True,
    "if tx < ty:\n    s[tx + ty] = ty": False,
    "if ty == 0:\n    s[tx] = s[tx + 4]": True,
    "if tx == 0:\n    s[ty] = s[ty + 1]": False,
}  # fmt: skip


@pytest.mark.parametrize("body", TWO_AXES)
def test_threads_of_two_axes(body: str):
    """Within one statement threads of both axes meet; the interpreter finds the races that are not proved absent."""
    from tirlower.script import parse

    text = """
@T.prim_func
def kernel(A: T.Buffer((64,), "int32")):
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            s = T.alloc_buffer((64,), "int32", scope="shared")
            for i in range(4):
                s[i * 16 + ty * 4 + tx] = A[i * 16 + ty * 4 + tx]
            T.tvm_storage_sync("shared")
"""
    parsed = parse(text + "".join(f"            {line}\n" for line in body.splitlines()))
    found = races(parsed)
    assert bool(found) is not TWO_AXES[body], [str(race.verdict) for race in found]
    assert all(race.verdict.refuted for race in found)
    if found:
        with pytest.raises(InterpreterError, match="data race"):
            interpret(parsed, np.zeros(64, "int32"), races=True)
    elif "for k" not in body:  # between the steps of a loop a barrier may be missing still
        interpret(parsed, np.zeros(64, "int32"), races=True)


def test_a_fact_is_used_where_it_stands_only():
    @T.prim_func
    def late(A: T.Buffer((100,), "float32"), k: T.int32):
        for i in range(16):
            A[i + k] = A[i]
        T.evaluate(T.assume(k >= 16))
        for j in range(16):
            A[j + k] = A[j]

    assert is_parallel(late, "i").refuted and is_parallel(late, "j").proved


def test_an_assumption_about_an_index_array_is_used():
    @T.prim_func
    def scatter(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(I[i] >= i * 2 and I[i] < i * 2 + 2))
            A[I[i]] = 1.0

    assert is_parallel(scatter, "i").proved


def test_an_assumption_about_memory_that_changes_is_not():
    @T.prim_func
    def scatter(A: T.Buffer((64,), "float32"), I: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(T.assume(I[i] >= i * 2 and I[i] < i * 2 + 2))
            I[i] = 0
            A[I[i]] = 1.0

    assert is_parallel(scatter, "i").unknown


def test_without_islpy_simple_arithmetic_proves_and_the_rest_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isl_wrapper._MODULE, "__dict__", {"module": None, "missing": True})
    monkeypatch.setattr(isl_wrapper._DEFAULT, "solver", None)
    answers: dict[str, int] = {"proved": 0, "unknown": 0, "refuted": 0}
    for program, question in CASES:
        verdict = ask(extract(program.func), question)
        answers[verdict.status] += 1
        if verdict.refuted:  # by its form, or by iterations that were enumerated
            assert question.answer in ("structure", "refuted") and (question.answer == "structure" or verdict.witness)
        if verdict.proved:
            assert question.answer == "proved"
        if verdict.unknown and question.answer == "refuted":
            assert "islpy" in verdict.reason
    legal = sum(q.answer == "proved" for _, q in CASES)
    assert answers["proved"] >= 0.75 * legal, answers


def test_an_answer_that_takes_too_long_is_unknown(monkeypatch: pytest.MonkeyPatch):
    @T.prim_func
    def hard(A: T.Buffer((4096,), "float32")):
        for i, j, k in T.grid(64, 64, 64):
            if (i * 7 + j * 11 + k * 13) % 17 == (i * 5 + k * 3) % 7:
                A[(i * 31 + j * 37 + k * 41) % 101] = 1.0

    verdict = is_parallel(hard, "i", solver=isl_wrapper.Solver(max_operations=50))
    assert verdict.unknown and "gave up after 50 operations" in verdict.reason


def test_unrolled_statements_are_one_family():
    lines = "\n".join(f"        A[i * 256 + {n}] = A[i * 256 + {n}] + B[{n}]" for n in range(256))
    source = f"@T.prim_func\ndef f(A: T.Buffer((4096,), 'float32'), B: T.Buffer((256,), 'float32')):\n    for i in range(16):\n{lines}\n"
    from tirlower.script import parse

    solver = isl_wrapper.Solver()
    assert is_parallel(parse(source), "i", solver=solver).proved
    assert is_vectorizable(parse(source), "i", solver=solver).proved
    assert solver.asked == 0
