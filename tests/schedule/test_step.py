"""A step is a transaction: a failure at any stage of it leaves program, trace, handles and generator as they were."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import ScheduleError, TirError
from tirlower.ir.structural import assert_structural_equal
from tirlower.schedule import step as steps
from tirlower.schedule.handles import Handle
from tirlower.schedule.registry import method_kind
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((16, 12), "int32"), B: T.Buffer((16, 12), "int32")):
    for i, j in T.grid(16, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""
CALLS: dict[str, Any] = {
    "split": lambda sch: sch.split("i", [None, 4]),
    "fuse": lambda sch: sch.fuse("i", "j"),
    "reorder": lambda sch: sch.reorder("j", "i"),
    "parallel": lambda sch: sch.parallel("i"),
    "bind": lambda sch: sch.bind("i", "threadIdx.x"),
    "add_unit_loop": lambda sch: sch.add_unit_loop("B"),
    "annotate": lambda sch: sch.annotate("B", "key", 1),
    "sample_perfect_tile": lambda sch: sch.sample_perfect_tile("i", 2),
}


class Fault(TirError):
    """A planted failure."""


def _fail(*args: Any, **kwargs: Any) -> Any:
    raise Fault("planted")


def _key_error(*args: Any, **kwargs: Any) -> Any:
    raise KeyError("planted")


@pytest.mark.parametrize("verb", CALLS)
@pytest.mark.parametrize("stage", ["check", "rewrite", "moved", "handle_of", "verify_well_formed", "Record"])
@pytest.mark.parametrize("fault", [_fail, _key_error])
def test_a_fault_at_any_stage_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, verb: str, stage: str, fault: Any
) -> None:
    sch: Any = tl.Schedule(parse(TEXT), debug_mask="all", seed=5)
    held = [*sch.get_loops("B"), sch.get_block("B")]
    kind, module, trace, random = (
        method_kind(verb),
        sch.mod,
        sch.trace.as_json(dialect="tirlower"),
        sch.copy().fork_seed(),
    )
    text = str(module)
    nodes = [sch.get(one) for one in held]
    with monkeypatch.context() as patch:
        if stage in ("check", "rewrite"):
            # Kinds are frozen; look-ups that the call makes first must still work.
            patch.setitem(vars(kind), stage, fault)
        elif stage == "handle_of":
            real, count = steps.handle_of, [0]

            def late(node: Any, owner: Any) -> Handle:
                count[0] += 1
                return fault() if count[0] > 6 else real(node, owner)

            patch.setattr(steps, stage, late)
        else:
            real_stage = getattr(steps, stage)

            def only_this(*args: Any, **kwargs: Any) -> Any:
                change = args[2] if stage == "moved" else None
                if stage == "moved" and not change.edits and change.random is None:
                    return real_stage(*args, **kwargs)
                if stage == "Record" and args[0].kind.pure and not args[0].kind.draws:
                    return real_stage(*args, **kwargs)
                return fault()

            patch.setattr(steps, stage, only_this)
        try:
            CALLS[verb](sch)
        except (ScheduleError, Fault):
            failed = True
        except KeyError:
            failed = stage == "Record"  # behind everything that a step may do wrong
            assert failed
        else:
            failed = False
    if not failed:
        assert stage in ("check", "handle_of", "verify_well_formed", "moved"), stage  # not every verb goes through each
        return
    assert sch.mod is module and str(sch.mod) == text
    assert_structural_equal(sch.mod["main"], parse(TEXT))
    assert sch.trace.as_json(dialect="tirlower") == trace and sch.copy().fork_seed() == random
    assert [sch.get(one) for one in held] == nodes
    CALLS[verb](sch)
    assert len(sch.steps) > len(trace["steps"])


def test_the_module_of_a_refused_step_in_a_module_of_two_functions() -> None:
    func: Any = parse(TEXT)
    first: Any = parse(TEXT.replace("def f", "def g"))
    sch: Any = tl.Schedule(tl.IRModule({"one": first, "two": func}))
    with pytest.raises(ValueError, match="does not know which function"):
        sch.get_block("B")
    sch.work_on("two")
    sch.parallel(sch.get_loops("B")[0])
    assert sch.mod["one"] is first and "T.parallel" in str(sch.mod["two"])
    assert dataclasses.is_dataclass(sch.steps[-1])
