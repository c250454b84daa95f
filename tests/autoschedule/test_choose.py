"""Which recipe is taken: the best bid that is proved, and none that changes a bit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tirlower.autoschedule import choose
from tirlower.autoschedule.choose import autoschedule, replayed
from tirlower.autoschedule.classify import Nest
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.recipes.fallback import FALLBACK
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir import IRModule
from tirlower.machine.processor import Processor
from tirlower.script import parse

SUMS = parse("""
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((513, 512), "float32")):
    for i, k in T.grid(64, 64):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] += A[vi, vk]
    for i, j in T.grid(512, 512):
        C[i + 1, j] = C[i, j]
""")
MACHINE = Processor.of(AVX2)


@dataclass(frozen=True)
class _Steps(Recipe[Facts, Plan]):
    """Takes some steps of any nest, and claims to take so many seconds."""

    name: ClassVar[str] = "steps"
    seconds: float = 1e-9
    verb: str = "parallel"
    nests: int = 1

    def matches(self, nests: Sequence[Nest]) -> Facts | Refusal:
        return Facts(tuple(nests[: self.nests])) if len(nests) >= self.nests else Refusal("too few")

    def plan(self, facts: Facts, processor: Processor) -> Plan | Refusal:
        return Plan(self.seconds, "a test says so")

    def apply(self, sch: Verbs, facts: Facts, plan: Plan, loops: Handles) -> None:
        handles = [loops[loop] for loop in facts.nests[0].loops]
        if self.verb == "rfactor":
            sch.rfactor(handles[-1], 0)  # type: ignore[attr-defined]
        else:
            sch.parallel(handles[0])


class _Reordering(_Steps):
    reorders: ClassVar[bool] = True


def test_a_refused_step_takes_the_candidate_back_and_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choose, "LOOKS", 0)
    made = autoschedule(IRModule({"f": SUMS}), MACHINE, [_Steps(1e-9, "parallel"), FALLBACK]).functions["f"]
    first, second = made.nests
    assert (first.recipe, second.recipe) == ("steps", "loops")
    assert any("no steps: " in note and "parallel" in note for note in second.notes)
    assert second.parameters == {"innermost": None, "parallel": "j"}


def test_a_step_that_reassociates_is_taken_from_recipes_that_say_so_alone():
    for recipe, taken in ((_Steps(1e-9, "rfactor"), ""), (_Reordering(1e-9, "rfactor"), "steps")):
        first, _ = autoschedule(IRModule({"f": SUMS}), MACHINE, [recipe]).nests
        assert first.recipe == taken
        assert ("order of the sum" in first.exactness) == bool(taken)
    assert any(
        "it would change the order of a sum" in note
        for note in autoschedule(IRModule({"f": SUMS}), MACHINE, [_Steps(1e-9, "rfactor")]).nests[0].notes
    )


def test_what_gains_nothing_is_not_done():
    made = autoschedule(IRModule({"f": SUMS}), MACHINE, [_Steps(1.0)])
    assert made.module["f"] is SUMS and not made.functions["f"].trace.insts
    assert all("predicted to gain nothing" in nest.notes[0] for nest in made.nests)


def test_a_recipe_may_take_nests_that_follow_each_other():
    made = autoschedule(IRModule({"f": SUMS}), MACHINE, [_Steps(1e-9, "parallel", 2)])
    first, second = made.nests
    assert first.nest.count("over") == 2 and second.why == "it is part of the one before"


def test_a_function_without_loops():
    func = parse('def f(A: T.Buffer((1,), "int32")):\n    A[0] = 1')
    made = autoschedule(IRModule({"f": func}), MACHINE)
    assert made.module["f"] is func and made.nests == ()


def test_a_function_that_calls_another_one_stays_as_written():
    mod = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((512, 512), "float32")):
        for j, i in T.grid(512, 512):
            A[i, j] = Module.twice(A[i, j])
    @T.prim_func(private=True)
    def twice(x: T.float32) -> T.float32:
        T.ret(x + x)
""")
    assert autoschedule(mod, MACHINE).module["main"] is mod["main"]
    a = np.arange(512 * 512, dtype="float32").reshape(512, 512)
    expected = a + a
    tl.build(mod, schedule="auto")["main"](a)
    np.testing.assert_array_equal(a, expected)


def test_a_trace_is_taken_again():
    made = autoschedule(IRModule({"f": SUMS}), MACHINE)
    again = replayed(IRModule({"f": SUMS}), made.functions["f"].trace)
    assert str(again.module) == str(made.module)


def test_the_result_relies_on_arrays_that_are_apart_no_more_than_what_was_written():
    func = parse("""
def f(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
    for j, i in T.grid(512, 512):
        A[i, j] = B[i, j]
""")
    made = autoschedule(IRModule({"f": func}), MACHINE).functions["f"]
    assert made.trace.insts and "tir.noalias" not in made.function.attrs
    assert tl.Schedule(func).program is func
    said = func.with_attr("tir.noalias", True)
    assert autoschedule(IRModule({"f": said}), MACHINE).module["f"].attrs["tir.noalias"]


def test_more_threads_are_another_plan():
    plans = [
        autoschedule(IRModule({"f": SUMS}), replace(MACHINE, threads=threads)).nests[1].recipe for threads in (1, 8)
    ]
    assert plans == ["", "loops"]


def _calls(nests: int, statement: str) -> int:
    """How many functions of Python are called to schedule so many nests."""
    lines = ['def f(A: T.Buffer((64,), "float32"), B: T.Buffer((65,), "float32")):']
    for number in range(nests):
        lines += [f"    for i{number} in range(64):", "        " + statement.replace("i", f"i{number}")]
    func, count = parse("\n".join(lines)), 0

    def called(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        autoschedule(IRModule({"f": func}), MACHINE)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("statement", ["B[i] = A[i] + T.float32(1)", "B[i + 1] = B[i] + T.float32(1)"])
def test_what_a_function_costs_is_what_its_nests_cost(statement: str) -> None:
    """Nests that share memory, each of which may be the first stage of a chain of all behind it."""
    assert _calls(260, statement) < 2.6 * _calls(130, statement)


def test_a_question_that_takes_too_long_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe may ask what isl works at for half a minute; there are others, and the program is right as it is written."""
    text = """
def f(A: T.Buffer(("m", "k"), "float32"), B: T.Buffer(("k", "n"), "float32"), C: T.Buffer(("m", "n"), "float32")):
    for i, j, p in T.grid(m, n, k):
        C[i, j] = C[i, j] + A[i, p] * B[p, j]
"""
    processor = Processor.of(AVX2)
    monkeypatch.setattr(choose, "OPERATIONS", 1)
    [nest] = autoschedule(IRModule({"f": parse(text)}), processor).nests
    lines = "\n".join(nest.lines())
    assert nest.recipe != "contraction of any size" and "no contraction of any size: stage_mem" in lines
    assert "isl gave up" in lines
    monkeypatch.undo()
    [nest] = autoschedule(IRModule({"f": parse(text)}), processor).nests
    assert nest.recipe == "contraction of any size"


def test_somebody_else_chooses_between_offers():
    """The plan that is preferred is taken as it is; of nothing that is preferred, nothing is."""
    func, seen = IRModule({"f": SUMS}), dict[str, list[str]]()

    def narrow(title: str, offers: list[choose.Offer]) -> list[choose.Offer]:
        seen[title] = [offer.bid.name for offer in offers]
        found = [offer for offer in offers if offer.bid.name == "elementwise"]
        return [
            replace(one, part=0.0, bid=replace(one.bid, plan=replace(one.bid.plan, lanes=8)))  # type: ignore[call-arg]
            for one in found
        ]

    first, second = autoschedule(func, MACHINE, prefer=narrow).nests
    assert "row chain" in seen["B over i, k"] and not first.recipe
    assert second.recipe == "elementwise" and second.parameters["lanes"] == 8
    assert all(not nest.recipe for nest in autoschedule(func, MACHINE, prefer=lambda title, offers: []).nests)


LAYER_NORM = """
def f(x: T.Buffer(({n}, 40), "float32"), g: T.Buffer((40,), "float32"), y: T.Buffer(({n}, 40), "float32")):
    for i in range({n}):
        mean = 0.0
        for j in range(40):
            mean += x[i, j]
        mean /= 40
        var = 0.0
        for j in range(40):
            var += (x[i, j] - mean) ** 2
        inv = 1.0 / T.sqrt(var / 40 + 1e-5)
        for j in range(40):
            y[i, j] = (x[i, j] - mean) * inv * g[j]
"""
ATTENTION = """
def f(q: T.Buffer(({n}, 16), "float32"), k: T.Buffer((24, 16), "float32"), v: T.Buffer((24, 16), "float32"),
      s: T.Buffer(({n}, 24), "float32"), o: T.Buffer(({n}, 16), "float32")):
    for i in range({n}):
        for j in range(24):
            s[i, j] = 0.0
            for d in range(16):
                s[i, j] += q[i, d] * k[j, d]
        total = 0.0
        for j in range(24):
            s[i, j] = T.exp(s[i, j])
            total += s[i, j]
        for d in range(16):
            o[i, d] = 0.0
            for j in range(24):
                o[i, d] += s[i, j] / total * v[j, d]
"""
FORCES = """
def f(at: T.Buffer(({n}, 2), "float64"), force: T.Buffer(({n}, 2), "float64")):
    for i in range({n}):
        fx = T.float64(0)
        fy = T.float64(0)
        for j in range({n}):
            dx = at[j, 0] - at[i, 0]
            dy = at[j, 1] - at[i, 1]
            near = dx * dx + dy * dy + 0.5
            fx += dx / near
            fy += dy / near
        force[i, 0] = fx
        force[i, 1] = fy
"""


LAGS = """
def f(x: T.Buffer(({n} * 9,), "float32"), r: T.Buffer(({n},), "float32")):
    for lag in range({n}):
        total = 0.0
        for i in range({n} * 9 - lag):
            total += x[i] * x[i + lag]
        r[lag] = total
"""


@pytest.mark.parametrize("n", [32, 33])
@pytest.mark.parametrize(
    "program", [LAYER_NORM, ATTENTION, FORCES, LAGS], ids=["layer norm", "attention", "forces", "lags"]
)
def test_what_a_recipe_gains_little_from_is_cut(program: str, n: int):
    found = scheduled(program.format(n=n), AVX512.replace("threads=2", "threads=1"))
    reports = found.nests
    assert len(reports) > 1 and any(step.instruction.kind.name == "Fission" for step in found.schedule.steps)
    assert {nest.exactness for nest in reports if nest.recipe} == {"bitwise equal"}


def test_rows_that_run_otherwise_are_not_summed_up_side_by_side():
    """Their loops do not jam: they turn around instead."""
    found = planned(LAGS.format(n=32), AVX512.replace("threads=2", "threads=1"))
    assert [one.recipe for one in found.nests] == ["", "loops", ""]


def test_a_recipe_that_gains_much_keeps_its_nest_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choose, "LITTLE", 1.0)
    found = planned(LAYER_NORM.format(n=32), AVX512.replace("threads=2", "threads=1"))
    assert len(found.nests) == 1
