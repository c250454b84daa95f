"""How often a step that is legal is refused: counted, by verb, over attempts at random programs.

Steps that change an order are judged by all instances of small nests (:mod:`tests.fuzz.orders`): a refused step is taken all
the same, and is legal where no two instances that meet are turned round. Steps that move values are judged by runs
(:mod:`tests.fuzz.values`): what is refused and computes the same in each of some runs counts as legal, which it need not be.
Each step that is taken is also asked of TVM's conditions, where its program has blocks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import tirlower as tl
from tests.checking import executes_alike
from tests.fuzz import orders, values
from tests.fuzz.schedules import step as order_step
from tests.poly.brute import NotAffine
from tests.poly.nests import random_nest
from tirlower.diagnostics import (
    BoundsError,
    IllegalStep,
    InterpreterError,
    ScheduleError,
    StricterThanLegal,
    UnprovedStep,
)
from tirlower.ir.query import has
from tirlower.ir.stmt import Block
from tirlower.schedule.conditions import CONDITIONS
from tirlower.script import parse

__all__ = ["COLUMNS", "measured"]

COLUMNS = (
    "taken",
    "no form",
    "refuted",
    "unknown",
    "refuted though legal",
    "unknown though legal",
    "asked TVM",
    "TVM refuses",
)
"""What is counted of each verb."""
RUNS = 3
Counts = dict[str, Counter[str]]
Take = Callable[[Any, random.Random], object]


def measured(first: int, count: int) -> Counts:
    """The counts by verb over the nests and the chains of so many seeds."""
    counts: Counts = {}
    for seed in range(first, first + count):
        _nest(seed, counts)
        _chain(seed, counts)
    return counts


def _nest(seed: int, counts: Counts) -> None:
    rng = random.Random(seed)
    sch: Any = tl.Schedule(orders.tagged(random_nest(seed)), reassociate=False)
    for _ in range(orders.STEPS):
        try:
            before = orders.Run(sch.mod["main"])
        except NotAffine:
            return
        if len(before.found) > orders.MOST:
            return

        def legal(forced: Any, before: orders.Run = before) -> bool:
            after = orders.Run(forced.mod["main"])
            return set(after.time) == set(before.time) and orders.turned(before.pairs(), after) is None

        _attempt(sch, rng, lambda sch, rng: order_step(sch, rng, orders.VERBS), legal, counts, "")


def _chain(seed: int, counts: Counts) -> None:
    rng = random.Random(seed)
    program = parse(values.program(seed))
    try:
        executes_alike(program, program, samples=1)
    except InterpreterError:
        return
    sch: Any = tl.Schedule(program, reassociate=False)
    for _ in range(values.STEPS):

        def legal(forced: Any, now: Any = sch.mod["main"]) -> bool:
            try:
                executes_alike(now, forced.mod["main"], samples=RUNS)
            except (AssertionError, BoundsError, InterpreterError):
                return False
            return True

        verb = rng.choice(list(values.VERBS))
        _attempt(sch, rng, values.VERBS[verb], legal, counts, verb)


def _attempt(sch: Any, rng: random.Random, take: Take, legal: Callable[[Any], bool], counts: Counts, name: str) -> None:
    """Take a step, of this name where that is known, and count how that ended."""
    state, before, now = rng.getstate(), sch.copy(), sch.mod["main"]
    try:
        take(sch, rng)
    except (IllegalStep, UnprovedStep) as error:
        verb = name or str(error.origin)
        what = "refuted" if isinstance(error, IllegalStep) else "unknown"
        row = counts.setdefault(verb, Counter())
        row[what] += 1
        after = rng.getstate()
        rng.setstate(state)
        try:
            with before.unchecked("to see what comes of it"):
                take(before, rng)
            row[f"{what} though legal"] += legal(before)
        except ScheduleError:
            pass  # it has no form
        rng.setstate(after)
    except ScheduleError as error:
        if name or error.origin:
            counts.setdefault(name or str(error.origin), Counter())["no form"] += 1
    else:
        records = [one for one in sch.steps if not one.instruction.kind.pure]
        if not records or len(records) == len([one for one in before.steps if not one.instruction.kind.pure]):
            return
        kind = records[-1].instruction.kind
        row = counts.setdefault(name or kind.method, Counter())
        row["taken"] += 1
        if kind.name in CONDITIONS and has(Block, now.body):
            row["asked TVM"] += 1
            after = rng.getstate()
            rng.setstate(state)
            row["TVM refuses"] += _refused_by_tvm(now, rng, take)
            rng.setstate(after)


def _refused_by_tvm(now: Any, rng: random.Random, take: Take) -> bool:
    other: Any = tl.Schedule(now, reassociate=False, accept="tvm")
    try:
        take(other, rng)
    except StricterThanLegal:
        return True
    except ScheduleError:
        return False
    return False
