"""``schedule=``: what it takes, what kernels know of it, and that it is a part of what determines a build."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX2
from tirlower.diagnostics import TirError
from tirlower.script import parse

FUNC = parse("""
def f(A: T.Buffer((64, 48), "float32"), B: T.Buffer((64, 48), "float32")):
    for j, i in T.grid(48, 64):
        B[i, j] = A[i, j] * T.float32(2)
""")


def works(kernel: tl.Kernel) -> bool:
    a, b = np.random.default_rng(0).random((2, 64, 48), dtype=np.float32)
    kernel(a, b)
    return bool((b == a * 2).all())


def test_what_a_kernel_knows():
    kernel = tl.build(FUNC, AVX2, schedule="auto")
    assert works(kernel) and "sch.reorder(i, j)" in str(kernel.schedule)
    again = tl.Schedule(FUNC)
    kernel.schedule.apply_to_schedule(again)
    assert kernel.source("scheduled").split("):")[1] == str(again.mod["main"]).split("):")[1]
    assert kernel.func.body is FUNC.body and kernel.report().nests[0].recipe in str(kernel.report())
    assert tl.build(FUNC, AVX2).artifact.key == kernel.artifact.key  # it is the default
    plain = tl.build(FUNC, AVX2, schedule="none")
    assert works(plain) and not plain.schedule.insts and plain.report().nests == ()
    assert "for j, i in T.grid(48, 64)" in plain.source("scheduled")
    assert plain.artifact.key != kernel.artifact.key


def test_a_kernel_from_the_cache_is_scheduled_by_nobody(tmp_path: Path):
    """The rooms that schedule and prove are not imported for it: in a fresh process they take four times what the kernel does."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, tirlower as tl\nfrom tirlower.script import parse\n"
        f"func = parse({str(FUNC)!r})\ntl.build(func, {str(AVX2)!r}, schedule='auto')\n"
        "rooms = {m.split('.')[1] for m in sys.modules if m.startswith('tirlower.')}\n"
        "print(sorted(rooms & {'schedule', 'poly'}))"
    )
    env = {**os.environ, "TIRLOWER_CACHE_DIR": str(tmp_path / "cache")}
    runs = [subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True) for _ in range(2)]
    assert [run.stdout.strip() for run in runs] == ["['poly', 'schedule']", "[]"], runs


NOT_FOR_A_BUILD = (
    "tirlower.interp",
    "tirlower.validate",
    "tirlower.graph",
    "tirlower.gpu",
    "tirlower.tune",
    "tirlower.schedule.certify",
    "tirlower.schedule.blocks.tensorize",
    "tirlower.schedule.compute.rfactor",
    "tirlower.schedule.loops.launch",
    "tirlower.schedule.memory.rolling",
    "tirlower.transforms.tensorcores",
    "tirlower.transforms.tir_only",
)


def test_a_fresh_process_imports_what_its_kernel_needs(tmp_path: Path):
    """Verbs that no recipe took, what judges by running, what other machines and graphs need: a third of the modules."""
    code = (
        "import sys, tirlower as tl\nfrom tirlower.script import parse\n"
        f"func = parse({str(FUNC)!r})\nkernel = tl.build(func, {str(AVX2)!r})\n"
        "print('tirlower.schedule.loops.reorder' in sys.modules)\n"
        f"print([m for m in sys.modules if f'{{m}}.'.startswith({tuple(f'{name}.' for name in NOT_FOR_A_BUILD)})])"
    )
    env = {**os.environ, "TIRLOWER_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["True", "[]"], done


def test_a_trace_and_its_file(tmp_path: Path):
    trace = tl.build(FUNC, AVX2, schedule="auto").schedule
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace.as_json(dialect="tirlower")))
    for given in (trace, path, str(path)):
        kernel = tl.build(FUNC, AVX2, schedule=given)
        assert works(kernel) and "sch.reorder(i, j)" in str(kernel.schedule)
    lowered = tl.lower(FUNC, AVX2, schedule=trace, until="FlattenBuffer")
    assert str(lowered) == str(tl.lower(FUNC, AVX2, schedule="auto", until="FlattenBuffer"))
    assert str(lowered) != str(tl.lower(FUNC, AVX2, until="FlattenBuffer"))


@pytest.mark.parametrize("given", ["automatic", 3, None, Path("nowhere.json")])
def test_what_is_no_schedule(given: object):
    for make in (lambda: tl.build(FUNC, schedule=given), lambda: tl.jit(schedule=given)):
        with pytest.raises(TirError, match="schedule="):
            make()


def test_a_trace_of_another_program_is_refused():
    other = parse("""
def f(A: T.Buffer((8,), "float32")):
    for k in range(8):
        A[k] = A[k] + T.float32(1)
""")
    trace = tl.build(FUNC, AVX2, schedule="auto").schedule
    with pytest.raises(TirError, match="no loop is 'j'"):
        tl.build(other, AVX2, schedule=trace)
    with pytest.raises(TirError, match="built as it is"):
        tl.build(tl.Schedule(FUNC), schedule=trace)


def test_a_schedule_is_built_as_it_is():
    assert not tl.build(tl.Schedule(FUNC), AVX2, schedule="auto").schedule.insts


def test_jit_pickles_and_modules():
    lazy = tl.jit(target=AVX2, schedule="auto")(FUNC)
    assert works(pickle.loads(pickle.dumps(lazy))) and works(lazy) and lazy.schedule.insts
    again = pickle.loads(pickle.dumps(tl.build(FUNC, AVX2, schedule="auto")))
    assert works(again) and again.schedule.insts
    module = tl.IRModule({name: parse(FUNC.script().replace("def f", f"def {name}")) for name in "fg"})
    module = tl.IRModule({name: func.with_attr("global_symbol", name) for name, func in module.items()})
    both = tl.build(module, AVX2, schedule="auto")
    assert works(both["f"]) and works(both["g"]) and both["g"].schedule.insts


def test_from_the_disk_cache_the_schedule_is_made_again():
    kernel = tl.build(FUNC, AVX2 + " -opt-level=1", schedule="auto")
    again = tl.build(FUNC, AVX2 + " -opt-level=1", schedule="auto")
    assert again.artifact.cached and str(again.schedule) == str(kernel.schedule)


def test_the_written_program_is_judged():
    wrong = parse("""
def f(A: T.Buffer((8,), "float32")):
    for i in range(9):
        A[i] = T.float32(1)
""")
    with pytest.raises(tl.LegalityError, match=r"writes A\[8\]"):
        tl.build(wrong, schedule="auto")


def test_guards_hold_for_nests_that_are_left_alone():
    func = parse("""
def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), B: T.Buffer((64, 64), "int32")):
    for j, i in T.grid(64, 64):
        B[i, j] = i - j
    for i in range(8):
        A[X[i]] = i
""")
    kernel = tl.build(func, AVX2, schedule="auto")
    assert [bool(nest.recipe) for nest in kernel.report().nests] == [True, False]
    a, x, b = np.zeros(8, "int32"), np.array([0, 1, 2, 9, 0, 0, 0, 0], "int32"), np.zeros((64, 64), "int32")
    with pytest.raises(IndexError):
        kernel(a, x, b)
    assert a.tolist() == [0, 1, 2, 0, 0, 0, 0, 0]


def test_other_targets_compile_what_is_written():
    kernel = tl.build(FUNC, "c", schedule="auto")
    assert works(kernel) and not kernel.schedule.insts


NORMS = parse("""
def f(A: T.Buffer((64, 1000), "float32"), S: T.Buffer((64,), "float32")):
    for i in range(64):
        S[i] = T.float32(0)
        for j in range(1000):
            S[i] = S[i] + A[i, j] * A[i, j]
""")


@pytest.mark.parametrize("flag", ["-fast-math-reassoc=1", "-fast-math=1"])
def test_the_target_permits_another_order_of_sums(flag: str):
    kept, free = (tl.build(NORMS, f"{AVX2} {more}", schedule="auto") for more in ("", flag))
    assert kept.report().nests[0].exactness == "bitwise equal"
    assert "-fast-math-reassoc" in kept.report().nests[0].rule
    assert free.report().nests[0].exactness == "equal up to the order of the sum into S"
    assert kept.artifact.key != free.artifact.key
    values, sums = np.random.default_rng(0).random((64, 1000), dtype=np.float32), np.empty(64, np.float32)
    free(values, sums)
    np.testing.assert_allclose(sums, (values.astype(float) ** 2).sum(1), rtol=1e-5)


def test_a_configuration_says_what_may_be_done():
    def nest(**config: object) -> dict[str, object]:
        with tl.PassContext(config={f"tir.auto.{key}": value for key, value in config.items()}):
            [found] = tl.build(FUNC, AVX2.replace("threads=2", "threads=8"), schedule="auto").report().nests
        return {"recipe": found.recipe, **found.parameters}

    large = 'def f(A: T.Buffer((4096, 4096), "float32"), B: T.Buffer((4096, 4096), "float32")):'
    assert nest(classes=["loops"])["recipe"] == "loops"
    assert nest(classes=[])["recipe"] == ""
    text = str(FUNC.body).replace("48", "4096").replace("64", "4096")
    func = parse(large + "\n    " + text.replace("\n", "\n    "))
    for key in ("parallel", "nontemporal"):
        for value in (True, False):
            with tl.PassContext(config={f"tir.auto.{key}": value}):
                [found] = tl.build(func, AVX2, schedule="auto").report().nests
            assert found.parameters[key] is value
    with pytest.raises(TirError, match="no class of nests"):
        nest(classes=["loop"])


def test_little_work_is_left_as_written():
    small = parse(FUNC.script().replace("64", "20").replace("48", "25"))
    one, [report] = tl.build(small, AVX2), tl.build(small, AVX2).report().nests
    assert (
        not one.schedule.insts
        and report.nest == "B over j, i"
        and report.why.startswith("its statements run 500 times")
    )
    with tl.PassContext(config={"tir.auto.least": 500}):
        assert tl.build(small, AVX2).schedule.insts
    unknown = FUNC.script().replace("(64, 48)", '("n", 48)').replace("T.grid(48, 64)", "T.grid(48, n)")
    assert tl.build(parse(unknown), AVX2).schedule.insts


def test_at_level_0_what_is_written_is_compiled():
    trace = tl.build(FUNC, AVX2).schedule
    with tl.PassContext(opt_level=0):
        plain, taken = tl.build(FUNC, AVX2), tl.build(FUNC, AVX2, schedule=trace)
    assert works(plain) and not plain.schedule.insts and "T.grid(48, 64)" in plain.source("scheduled")
    assert works(taken) and taken.schedule.insts


def test_faults_of_automatic_schedules_say_how_to_do_without(monkeypatch: pytest.MonkeyPatch):
    """What nobody wrote is told apart from what was written, whether the schedule fails or what it made."""

    class Broken:
        name = "broken"

        def bid(self, nests: object, processor: object) -> object:
            raise ZeroDivisionError("by a width")

    target = AVX2 + " -opt-level=2"
    monkeypatch.setattr("tirlower.driver.scheduling.RECIPES", (Broken(),))
    with pytest.raises(tl.TransformError, match=r"schedule of f failed: ZeroDivisionError: by a width[\s\S]*\"none\""):
        tl.build(FUNC, target)
    monkeypatch.undo()
    assert works(tl.build(FUNC, target + " -fast-math-contract=0", schedule="none"))

    def generate(*args: object) -> object:
        raise tl.CodegenError("no such instruction")

    monkeypatch.setattr("tirlower.driver.cpu.CpuBackend.generate", generate)
    with pytest.raises(tl.CodegenError, match="those of the automatic schedule"):
        tl.build(FUNC, target)
    with pytest.raises(tl.CodegenError) as caught:
        tl.build(FUNC, target, schedule="none")
    assert "schedule" not in str(caught.value)


def test_steps_are_validated(monkeypatch: pytest.MonkeyPatch):
    with tl.PassContext(validate=True):
        assert works(tl.build(FUNC, AVX2, schedule="auto"))
    asked = []
    monkeypatch.setattr(tl.Schedule, "validate", lambda self: asked.append(self))
    with tl.PassContext(validate=True):
        tl.build(FUNC, AVX2, schedule="auto")
        tl.build(FUNC, AVX2, schedule="none")
    assert len(asked) == 1


def test_measured_time_stands_beside_the_predicted_one():
    kernel = tl.build(FUNC, AVX2, schedule="auto")
    a, b = np.random.default_rng(0).random((2, 64, 48), dtype=np.float32)
    report = kernel.report(measure=[a, b])
    assert (b == a * 2).all() and report.measured is not None and 0 < report.measured < 1
    assert 0 < report.predicted < 1 and "a call; predicted " in str(report)
    assert kernel.report().measured is None and "measured" not in str(kernel.report())
    plain = tl.build(FUNC, AVX2, schedule="none").report(measure=[a, b])
    assert plain.predicted == 0.0 and "a call" in str(plain) and "predicted" not in str(plain)
