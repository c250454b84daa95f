"""Random nests through automatic schedules: ``python -m tests.fuzz.automatic FIRST COUNT``.

The recipes are made to take all that they can: vectors are of two elements, tiles are small, nothing is too little work. What
they make computes the same as the loops in the interpreter and as machine code, and their trace does it again.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import tirlower as tl
from tests.checking import executes_alike, random_arguments, roundtrips
from tests.fuzz import values
from tests.fuzz.seeds import patched, run_seeds
from tests.generate.programs import generate
from tirlower.autoschedule import choose
from tirlower.autoschedule.choose import ScheduledFunction, autoschedule
from tirlower.autoschedule.recipe import AnyRecipe
from tirlower.autoschedule.recipes import (
    RECIPES,
    column_reduction,
    contraction,
    elementwise,
    fallback,
    permutation,
    row_chain,
    rows_in_lanes,
    unknown_contraction,
    window,
)
from tirlower.diagnostics import InterpreterError, LegalityError
from tirlower.ir import Block, BufferStore, For, IRModule, PrimFunc
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.buffer import IterKind
from tirlower.ir.query import each
from tirlower.ir.structural import assert_structural_equal
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target
from tirlower.script import parse

__all__ = ["check", "eager", "program", "run_one", "scheduled_eagerly"]

TARGET = Target("llvm -num_threads=2", **{"fast-math-contract": False})
MODULES = (
    choose,
    column_reduction,
    contraction,
    elementwise,
    fallback,
    permutation,
    row_chain,
    unknown_contraction,
    window,
)


@dataclass(frozen=True)
class _Small(Processor):
    """Vectors of two elements, and caches of a few."""

    def lanes(self, dtype: str = "float32") -> int:
        return 2


HOST = Processor.of("llvm -mcpu=x86-64-v3 -num_threads=2")
SMALL = _Small(HOST.cpu, 64, 256, 512, 2)
SIZES = {
    column_reduction: {"ROWS": 2},
    permutation: {"LINE": 8, "SQUARE": 4},
    row_chain: {"TOGETHER": 2, "_is_of_columns": lambda nest: False},  # sums of the programs go down columns, mostly
    elementwise: {"STENCIL_ROWS": 2, "VECTORS": 2},
}


INIT = re.compile(r"^( *)(for \w+ in range\(3\):)\n *if \w+ == 0:\n *(.*)\n", re.MULTILINE)
"""A sum whose init stands in its loop, under a condition; it may as well stand in front of the loop."""


def eager(in_lanes: bool = False) -> contextlib.AbstractContextManager[None]:
    """A context in which whatever can be done is worth it; ``in_lanes``: rows are summed up in two lanes where they may be."""
    always = {"PARALLEL_SECONDS": 0.0, "written_seconds": lambda *args: 1.0}
    changed = {m: {n: v for n, v in always.items() if hasattr(m, n)} | SIZES.get(m, {}) for m in {*MODULES, *SIZES}}
    if in_lanes:
        changed[row_chain] |= {"ROWS": 2}
        changed[rows_in_lanes] = {"ROWS": 2}
    return patched(changed)


def program(seed: int) -> str:
    """The program of a seed: a chain of nests, of integers or floats, or one of those that passes are tried on."""
    rng = random.Random(seed)
    if seed % 3 == 2:
        return generate(seed).text
    with mock.patch.object(values, "SIZE", rng.choice([4, 5, 7, 9])):
        text = values.chain(seed)
    if rng.random() < 0.7:
        text = INIT.sub(r"\1\3\n\1\2\n", text)
    return text.replace("int32", "float32") if rng.random() < 0.5 else text


def run_one(seed: int, counts: Counter[str] | None = None) -> None:
    """Schedule the program of a seed by each recipe alone, and by all of them. Raises where something differs."""
    counts = Counter() if counts is None else counts
    func = parse(program(seed))
    assert isinstance(func, PrimFunc)
    try:
        executes_alike(func, func, samples=1, seed=seed)
    except InterpreterError:
        counts["reads what nothing wrote"] += 1
        return
    done: set[str] = set()
    for recipes in (*([one] for one in RECIPES), RECIPES):
        found = scheduled_eagerly(func, recipes, in_lanes=seed % 2 == 1)
        for report in found.nests:
            counts[f"{report.recipe or 'none'}{'' if len(recipes) == 1 else ' of all'}"] += 1
        text = str(found.function)
        if any(report.recipe for report in found.nests) and text not in done:
            done.add(text)
            try:
                check(found, seed)
            except Exception as error:
                raise AssertionError(f"{found.written}\nto\n{found.function}\n{error}") from error


def scheduled_eagerly(func: PrimFunc, recipes: Any, in_lanes: bool) -> ScheduledFunction:
    """What becomes of a function where whatever can be done is worth it."""
    chosen: list[AnyRecipe] = list(recipes)
    with eager(in_lanes):
        return autoschedule(IRModule({"f": func}), SMALL, chosen).functions["f"]


def _free(func: PrimFunc) -> set[str]:
    """The buffers that blocks with a reduction axis, or annotated loops, write: whose sums may be in any order."""
    blocks = [op for op in each(Block, func.body) if any(it.kind is IterKind.REDUCE for it in op.iters)]
    loops = [op for op in each(For, func.body) if op.annotations.get(REDUCTION)]
    return {store.buffer.name for op in (*blocks, *loops) for store in each(BufferStore, op)}


def check(found: ScheduledFunction, seed: int) -> None:
    """The interpreter, machine code on every third seed, and the trace."""
    assert not any(step.verdict == "unchecked" for step in found.schedule.steps)
    bitwise = all(step.exactness == "bitwise" for step in found.schedule.steps)
    told = {name for step in found.schedule.steps for name in re.findall(r"reassociated\((.*?)\)", step.exactness)}
    assert {name for names in told for name in names.split(", ")} <= _free(found.written)
    if bitwise:
        executes_alike(found.written, found.function, samples=1, seed=seed)
    else:
        found.schedule.validate(seeds=1)
    roundtrips(found.function)
    space: dict[str, Any] = {}
    exec(str(found.trace), space)
    again = tl.Schedule(found.written)
    space["schedule"](again)
    assert_structural_equal(again.mod["main"], found.schedule.mod["main"])
    if seed % 4 == 0 and bitwise:
        arguments = random_arguments(found.written, np.random.default_rng(seed), (1, 2, 3, 5))
        others = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
        try:
            written = tl.build(found.written, TARGET, schedule="none")
        except LegalityError:
            return  # lanes that call functions of others: no build takes the program as it is written
        written(*arguments)
        tl.build(found.written, TARGET, schedule=found.trace)(*others)
        for one, other in zip(arguments, others, strict=True):
            assert not isinstance(one, np.ndarray) or one.tobytes() == other.tobytes()


if __name__ == "__main__":
    raise SystemExit(run_seeds(run_one))
