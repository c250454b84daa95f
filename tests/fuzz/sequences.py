"""Random sequences of passes, each where its stage and its needs allow it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tirlower import transforms as tr
from tirlower.driver.pipelines import cpu_pipeline
from tirlower.machine.target import Target
from tirlower.transforms import Pass, find_pass

__all__ = ["LEFT_OUT", "passes_for", "pool"]

LOWERING = (
    "LowerInitBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "ConvertBlocksToOpaque",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "FlattenBuffer",
)
"""The passes that change the stage, in their order."""

LEFT_OUT = frozenset({"MakePackedAPI", "MakeUnpackedAPI", "FuseMultiplyAdd"})
"""Passes that are never drawn: they change what a call passes, or how often it is rounded."""

_STAGES = {"block": 0, "opaque": 1, "flat": 2, "1-D": 3}


def _hoist(rng: random.Random) -> Pass:
    conditionals, lets = rng.choice([0, 1, 2, 3, 7, 15]), rng.choice([0, 1, 3, 7])
    return tr.HoistExpression(
        hoisted_conditionals=tr.HoistedConditionals(conditionals), hoisted_let_bindings=tr.HoistedLetBindings(lets)
    )


def _flag(rng: random.Random) -> bool:
    return rng.random() < 0.5


OPTIONS: dict[str, Callable[[random.Random], Pass]] = {
    "HoistExpression": _hoist,
    "BindTarget": lambda rng: tr.BindTarget(Target("llvm")),
    "HoistIfThenElse": lambda rng: tr.HoistIfThenElse(rng.choice([None, "basic"])),
    "UnrollLoop": lambda rng: tr.UnrollLoop(
        auto_max_step=rng.choice([0, 8, 64]), auto_max_extent=rng.choice([0, 2, 4]), unroll_local_access=_flag(rng)
    ),
    "LoopPartition": lambda rng: tr.LoopPartition(
        partition_const_loop=_flag(rng), no_unroll_loop_with_extent_one=_flag(rng)
    ),
    "VectorizeLoop": lambda rng: tr.VectorizeLoop(rng.random() < 0.9, predicate=_flag(rng)),
    "CommonSubexprElimTIR": lambda rng: tr.CommonSubexprElimTIR(True, identify_equiv_terms=_flag(rng)),
    "RemoveNoOp": lambda rng: tr.RemoveNoOp(use_dataflow_analysis=_flag(rng)),
    "ReduceBranchingThroughOvercompute": lambda rng: tr.ReduceBranchingThroughOvercompute(
        use_dataflow_analysis=_flag(rng)
    ),
    "CompactBufferAllocation": lambda rng: tr.CompactBufferAllocation(_flag(rng)),
    "Simplify": lambda rng: tr.Simplify(
        transitively_prove_inequalities=_flag(rng),
        propagate_knowns_to_prove_conditional=_flag(rng),
        propagate_knowns_to_simplify_expressions=_flag(rng),
        convert_boolean_to_and_of_ors=_flag(rng),
        apply_constraints_to_boolean_branches=_flag(rng),
    ),
    "NarrowDataType": lambda rng: tr.NarrowDataType(rng.choice([32, 32, 64])),
}
"""Passes drawn with options."""


def pool(skip: Sequence[str] = ()) -> list[str]:
    """The passes that may be inserted, by name: all of the catalog but those left out and those of device threads."""
    names = [entry.name.removeprefix("tir.") for entry in tr.catalog()]
    left = {*LEFT_OUT, *skip, *LOWERING}
    return [name for name in names if name not in left and not _of_threads(name)]


def _of_threads(name: str) -> bool:
    """Whether a pass is about the threads of a device, which no generated program has."""
    return ".threads." in find_pass(name).__module__


def _make(name: str, rng: random.Random) -> Pass:
    make = OPTIONS.get(name)
    return make(rng) if make is not None else find_pass(name)()


def _needs(name: str, done: Sequence[str]) -> list[str]:
    """What must run before a pass and has not, in order."""
    found: list[str] = []
    for needed in (one for one in find_pass(name).needs if isinstance(one, str)):
        plain = needed.removeprefix("tir.")
        if plain not in done and plain not in LOWERING:
            found += [*_needs(plain, done), plain]
    return found


def passes_for(seed: int, blocks: bool, skip: Sequence[str] = ()) -> list[Pass]:
    """The passes for a program: the default pipeline with others inserted, or a part of the lowering among others."""
    rng = random.Random(f"passes {seed}")
    names = pool(skip)
    if rng.random() < 0.2:
        return _pipeline(rng, names)
    return _free(rng, names, blocks)


def _insertable(name: str, stage: int) -> bool:
    """Whether a pass takes a program of a stage."""
    wanted = find_pass(name).stage.value
    if wanted == "any":
        return True
    if wanted == "flat":
        return stage in (2, 3)
    return wanted in _STAGES and _STAGES[wanted] == stage


def _pipeline(rng: random.Random, names: list[str]) -> list[Pass]:
    steps: list[Pass] = [step.pass_ for step in cpu_pipeline()]
    extra = [rng.choice(names) for _ in range(rng.randint(1, 3))]
    for name in extra:
        plain = [one.info.name.removeprefix("tir.") for one in steps]
        places = [at for at in range(len(steps) + 1) if _insertable(name, _stage_after(plain[:at]))]
        if places:
            at = rng.choice(places)
            steps[at:at] = [_make(one, rng) for one in (*_needs(name, plain[:at]), name)]
    return steps


def _stage_after(done: Sequence[str]) -> int:
    if "FlattenBuffer" in done:
        return 3
    if "LowerOpaqueBlock" in done:
        return 2
    return 1 if "ConvertBlocksToOpaque" in done else 0


def _free(rng: random.Random, names: list[str], blocks: bool) -> list[Pass]:
    """Some passes, a few before each step of the lowering; without blocks the lowering is mostly left out."""
    steps: list[Pass] = []
    done: list[str] = []
    lowering = list(LOWERING)
    if not blocks:
        lowering = [name for name in lowering[-1:] if rng.random() < 0.6]
    elif rng.random() < 0.3:
        lowering = lowering[: rng.randint(0, len(lowering))]
    budget = rng.choice((3, 4, 5, 6))
    cuts = sorted(rng.randint(0, len(lowering)) for _ in range(budget))
    for at in range(len(lowering) + 1):
        stage = _stage_after(done) if blocks else (3 if "FlattenBuffer" in done else 2)
        fitting = [name for name in names if _insertable(name, stage)]
        for _ in range(cuts.count(at)):
            name = rng.choice(fitting)
            for one in (*_needs(name, done), name):
                steps.append(_make(one, rng))
                done.append(one)
        if at < len(lowering):
            steps.append(find_pass(lowering[at])())
            done.append(lowering[at])
    return steps


def names_of(steps: Sequence[Any]) -> str:
    """The sequence as one line."""
    return ", ".join(repr(one) for one in steps)
