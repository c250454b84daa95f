"""A fixed number of kernels judged, with fixed seeds; ``python -m tests.judge_threads`` judges any number."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.judge_threads.evaluate import NotRead, Outside, run_text
from tests.judge_threads.generate import FEATURES, Kernel, generate
from tests.judge_threads.judge import _arrays, judge, shrink
from tirlower.analysis import barriers, thread_conflicts
from tirlower.interp import races
from tirlower.poly import conflicts, legality
from tirlower.script import parse
from tirlower.transforms.threads import verify_convergence

COUNT, EACH = 40, 5


@pytest.mark.parametrize("first", range(0, COUNT, EACH))
def test_no_answer_is_wrong(first: int) -> None:
    for seed in range(first, first + EACH):
        found = judge(generate(seed)).findings
        assert not found, f"seed {seed}: {found[0]}\n{generate(seed).text}"


@pytest.mark.nightly
def test_many_kernels() -> None:
    for seed in range(1_000_000, 1_002_000):
        found = judge(generate(seed)).findings
        assert not found, f"seed {seed}: {found[0]}\n{generate(seed).text}"


def test_enough_kernels_are_accepted_and_refused() -> None:
    """A judge of kernels that are all refused, or discarded, tells little."""
    counts = [judge(generate(seed), simulated=False).counts for seed in range(200, 230)]
    accepted = sum(count["accepted"] for count in counts)
    refused = sum(count["refused"] + count["refused though legal"] for count in counts)
    assert accepted >= 8 and refused >= 8, (accepted, refused)


def test_the_evaluator_computes_what_the_interpreter_computes() -> None:
    compared = 0
    for seed in range(300, 330):
        kernel = generate(seed)
        if "T.axis.reduce" in kernel.text:
            continue  # in step threads that reduce would lose each other's terms
        want, got = _arrays(kernel), _arrays(kernel)
        try:
            result = run_text(kernel.text, kernel.name, want)
        except (NotRead, Outside):
            continue
        if result.astray:
            continue
        tl.interpret(parse(kernel.text), *got, name=kernel.name)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y, err_msg=kernel.text)
        compared += 1
    assert compared >= 15


def test_features_can_be_left_out() -> None:
    plain = "\n".join(generate(seed, FEATURES).text for seed in range(20))
    assert "shuffle" not in plain and "while" not in plain and "threadIdx.y" not in plain and "float" not in plain
    assert generate(5).text == generate(5).text != generate(6).text


HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s = T.alloc_buffer((64,), "int32", scope="shared")
            for i in range(4):
                s[i * 16 + ty * 8 + tx] = A[i * 16 + ty * 8 + tx]
            T.tvm_storage_sync("shared")
"""


def kernel(body: str) -> Kernel:
    return Kernel(HEAD + "".join(f"            {line}\n" for line in body.splitlines()), 64, "int32")


# Rules of the library, each with a kernel that is answered wrongly without it, and the kind of finding.
FAULTS = {
    "threads of inner axes": (
        legality, "_IN_STEPS", tuple(tl.ir.ForKind), "s[tx + ty] = ty", "unsound"),
    "a second sign": (
        conflicts, "_is_symmetric", lambda signs, relations: True, "if ty == 0:\n    for k in T.serial(4):\n        s[tx + k] = tx", "unsound"),
    "two arms": (
        barriers.BarrierPlanner, "_need_apart", lambda *_: None,
        "if tx < 4:\n    s[ty * 8 + tx] = 100\nelse:\n    B[ty * 8 + tx] = s[ty * 8 + 7 - tx]", "unsound"),
    "calls astray": (
        verify_convergence, "calls_astray", lambda func: (), "if tx < 4:\n    T.tvm_storage_sync('shared')", "unsound"),
    "all barriers": (
        thread_conflicts.Meetings, "any", lambda *_: False, "s[ty * 8 + tx] = tx\nB[ty * 8 + tx] = s[15 - (ty * 8 + tx)]",
        "unsound"),
    "equal writes": (
        races.RaceDetector, "_behind_writes", lambda *_: [], "s[0] = 7\nif tx == 7:\n    s[0] = 8", "missed by the simulator"),
    "what is over": (
        races, "_over", lambda mark, actor: False, "s[ty * 8 + tx] = 1\nT.tvm_storage_sync('shared')\nB[ty * 8 + tx] = s[3]",
        "false alarm of the simulator"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home, rule, fault, body, kind = FAULTS[name]
    assert not judge(kernel(body)).findings, name
    monkeypatch.setattr(home, rule, fault)
    assert kind in {finding.kind for finding in judge(kernel(body)).findings}


def test_a_finding_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_conflicts.Meetings, "any", lambda *_: False)
    small = shrink(kernel("B[ty * 8 + tx] = 3\ns[ty * 8 + tx] = tx\nB[ty * 8 + tx] = s[15 - (ty * 8 + tx)]"), "unsound")
    assert "= 3" not in small.text and "s[15" in small.text


def test_barriers_of_warps_order_their_lanes_alone() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
        s[tx] = A[tx]
        T.tvm_storage_sync("warp")
        B[tx] = s[INDEX]
"""
    arrays = _arrays(Kernel(text, 64, "int32"))
    assert not run_text(text.replace("INDEX", "T.bitwise_xor(tx, 1)"), "main", arrays).races
    assert run_text(text.replace("INDEX", "63 - tx"), "main", arrays).races == {("s", "r and w")}
    assert run_text(text.replace("INDEX", "tx"), "main", arrays).races == set()


@pytest.mark.parametrize(
    ("after", "races"),
    [("s[tx] = 2", False), ("s[tx + 8] = s[tx]", False), ("s[(tx + 1) % 8] = 2", True), ("s[15 - tx] = s[tx]", True)],
)
def test_virtual_threads_are_parts_of_one(after: str, races: bool) -> None:
    """A thread is in order with its virtual threads, as the simulator has it."""
    text = f"""
@T.prim_func
def main(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        s = T.alloc_buffer((16,), "int32", scope="shared")
        for vx in T.thread_binding(2, thread="vthread.x"):
            s[tx + vx * 8] = PLACE
        {after}
"""
    for value in ("3", "vx"):
        kernel = Kernel(text.replace("PLACE", value), 32, "int32")
        assert bool(run_text(kernel.text, kernel.name, _arrays(kernel)).races) == races, kernel.text
        assert not judge(kernel).findings
    if not races:
        both = Kernel(text.replace("tx + vx * 8", "tx").replace("PLACE", "vx"), 32, "int32")
        assert run_text(both.text, both.name, _arrays(both)).races, "two virtual threads are apart"
        assert not judge(both).findings
