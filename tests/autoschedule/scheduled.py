"""Functions scheduled in tests: run before and after by the interpreter and by machine code, and the trace taken again as Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tirlower as tl
from tests.checking import executes_alike, random_arguments, roundtrips
from tirlower.autoschedule.choose import ScheduledFunction, autoschedule
from tirlower.autoschedule.recipe import AnyRecipe
from tirlower.autoschedule.recipes import RECIPES
from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.structural import assert_structural_equal
from tirlower.machine.processor import Processor
from tirlower.script import parse

__all__ = ["AVX2", "AVX512", "planned", "replays", "same_bits", "scheduled"]

AVX2 = "llvm -mcpu=x86-64-v3 -mcache=32K,512K,16M -num_threads=2"
AVX512 = "llvm -mcpu=x86-64-v4 -mcache=48K,1M,32M -num_threads=2"


def planned(
    program: str | PrimFunc, target: str = AVX2, *, recipes: Sequence[AnyRecipe] = RECIPES
) -> ScheduledFunction:
    """What becomes of a function on a stated machine."""
    func = parse(program) if isinstance(program, str) else program
    found = autoschedule(IRModule({"f": func}), Processor.of(target), recipes).functions["f"]
    assert not any(step.verdict == "unchecked" for step in found.schedule.steps)
    return found


def replays(found: ScheduledFunction) -> None:
    """The text of the trace does the same to the function."""
    space: dict[str, Any] = {}
    exec(str(found.trace), space)
    sch = tl.Schedule(found.written)
    space["schedule"](sch)
    assert_structural_equal(sch.mod["main"], found.schedule.mod["main"])


def scheduled(
    program: str | PrimFunc,
    target: str = AVX2,
    *,
    interpreted: bool = True,
    tolerance: float = 0.0,
    recipes: Sequence[AnyRecipe] = RECIPES,
) -> ScheduledFunction:
    """The same, replayed from its text and run: by the interpreter before and after (of small sizes), and as machine code
    beside the written loops'.

    Without a ``tolerance`` all bits are the same; it is for sums whose order the program leaves free.
    """
    found = planned(program, target, recipes=recipes)
    replays(found)
    roundtrips(found.function)
    if interpreted:
        executes_alike(found.written, found.function, tolerance=tolerance, samples=1)
    same_bits(found, target, tolerance)
    return found


def same_bits(found: ScheduledFunction, target: str = AVX2, tolerance: float = 0.0) -> None:
    """Machine code of the function and of what was made of it writes the same bytes, or what is near to them."""
    func = found.written
    plain, made = tl.build(func, target, schedule="none"), tl.build(found.function, target, schedule="none")
    if hasattr(plain, "lacking"):
        return  # code for a processor that this one is not
    arguments = random_arguments(func, np.random.default_rng(0))
    others = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
    plain(*arguments)
    made(*others)
    for one, other in zip(arguments, others, strict=True):
        if isinstance(one, np.ndarray):
            if tolerance:
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)
            else:
                assert one.tobytes() == other.tobytes()
