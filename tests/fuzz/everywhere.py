"""Steps that move values, each at all places of a random program: ``python -m tests.fuzz.everywhere FIRST COUNT``.

Drawn at random (:mod:`tests.fuzz.values`), most steps name places at which they are nothing. Here each verb is tried with every stage
and every loop, from the same program, so that rare shapes meet rare steps; what is taken computes the same bits.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import tirlower as tl
from tests.checking import executes_alike
from tests.fuzz.seeds import is_a_refusal, run_seeds
from tests.fuzz.values import program
from tirlower.diagnostics import InterpreterError, ScheduleError
from tirlower.ir import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BufferStore, For
from tirlower.script import parse

__all__ = ["run_one", "steps"]

Attempt = tuple[str, tuple[Any, ...], dict[str, Any]]


def steps(func: PrimFunc) -> Iterator[Attempt]:
    """The verbs with their arguments."""
    loops = [loop.loop_var.name for loop in each(For, func.body)]
    blocks = [block.name for block in each(Block, func.body) if block.name != "root"]
    stages = list(dict.fromkeys([*blocks, *(store.buffer.name for store in each(BufferStore, func.body))]))
    for stage in stages:
        yield "compute_inline", (stage,), {}
        yield "reverse_compute_inline", (stage,), {}
        for loop, index in itertools.product(loops, (-1, -2)):
            yield "compute_at", (stage, loop), {"index": index}
            yield "reverse_compute_at", (stage, loop), {"index": index}
    for pair in itertools.permutations(stages, 2):
        yield "fuse_epilogue", pair, {}
    for pair in itertools.combinations(loops, 2):
        for verb in ("merge", "fuse_siblings", "interchange", "sink"):
            yield verb, pair, {}
    for loop, stage in itertools.product(loops, stages):
        yield "stage_mem", (loop, stage), {"inside": True}
        yield "decompose_reduction", (stage, loop), {}


def run_one(seed: int, counts: Counter[str] | None = None) -> None:
    """All steps on the program of a seed. Raises AssertionError where one that is taken changes what is computed."""
    counts = Counter() if counts is None else counts
    func = parse(program(seed))
    assert isinstance(func, PrimFunc)
    try:
        executes_alike(func, func, samples=1)
    except InterpreterError:
        counts["reads what nothing wrote"] += 1
        return
    base: Any = tl.Schedule(func, debug_mask="all", reassociate=False)
    for verb, places, options in steps(func):
        sch = base.copy()
        try:
            getattr(sch, verb)(*places, **options)
        except ScheduleError as error:
            is_a_refusal(error)
            counts[f"{verb} {type(error).__name__}"] += 1
            continue
        counts[f"{verb} taken"] += 1
        try:
            executes_alike(func, sch.mod["main"], samples=1, seed=seed)
        except Exception as error:
            raise AssertionError(f"{verb}{places} {options} on\n{func}\nto\n{sch.mod['main']}\n{error}") from error


if __name__ == "__main__":
    raise SystemExit(run_seeds(run_one))
