"""Steps that change an order, judged by all instances of random nests, one by one.

Each store of a program reads an element that only this instance reads, so that instances are known again whatever becomes of
their loops. A step that is taken keeps all instances and the order of those that meet; a step that is refuted names two
that meet in that order, and turns them round (or drops one) when it is taken all the same. ``python -m tests.fuzz.orders FIRST
COUNT`` judges so many programs and prints how the steps ended.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import tirlower as tl
from tests.fuzz.schedules import CALCULUS, step
from tests.fuzz.seeds import is_a_refusal, run_seeds
from tests.poly.brute import Event, NotAffine, events
from tests.poly.nests import random_nest
from tests.poly.positions import conflicts
from tirlower.diagnostics import IllegalStep, ScheduleError, UnprovedStep
from tirlower.ir import Buffer, BufferLoad, BufferStore, PrimFunc, Stmt, StmtMutator, Var, build
from tirlower.ir.stmt import For
from tirlower.poly.verdict import Point

__all__ = ["judge_one"]

STEPS = 4
MOST = 2_500
"""More accesses are not listed."""

ORDERS = [verb for verb in CALCULUS if verb not in ("hoist", "specialize", "block", "as_block", "layout", "simplify")]
VERBS = ["split", "fuse", "reorder", "reorder", "reorder", *ORDERS, *ORDERS]
HALF, WIDTH = 80, 160
Instance = tuple[str, tuple[int, ...]]


class _Tagger(StmtMutator):
    """Lets each store read an element that says which instance it is."""

    def __init__(self) -> None:
        self.loops: list[Var] = []
        self.buffers: dict[Var, Buffer] = {}

    def visit_For(self, op: For) -> Stmt:
        self.loops.append(op.loop_var)
        made = self.generic(op)
        self.loops.pop()
        return made

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        name = f"Z{len(self.buffers)}"
        buffer = Buffer(name, (WIDTH,) * max(len(self.loops), 1), "int32")
        self.buffers[Var(name.lower(), "handle")] = buffer
        indices = [build.add(var, HALF) for var in self.loops] or [build.int32(0)]
        tag = build.cast(op.value.dtype, BufferLoad(buffer, tuple(indices)))
        return op.with_(value=build.add(build.mul(op.value, 3), tag))


def tagged(func: PrimFunc) -> PrimFunc:
    """The function with its instances told apart."""
    tagger = _Tagger()
    body = tagger.visit(func.body)
    return func.with_(
        params=(*func.params, *tagger.buffers), buffer_map={**func.buffer_map, **tagger.buffers}, body=body
    )


def _named(event: Event) -> str:
    return str(event.node.buffer.name)  # type: ignore[union-attr]


class Run:
    """The instances of a program in their order."""

    def __init__(self, func: PrimFunc) -> None:
        self.found = events(func)
        self.instance: dict[tuple[int, ...], Instance] = {}
        self.time: dict[Instance, int] = {}
        for at, event in enumerate(self.found):
            if _named(event).startswith("Z"):
                key = _named(event), event.indices[0]
                assert key not in self.time, f"the instance {key} runs twice"
                self.instance[event.path[:-1]] = key
                self.time[key] = at

    def of(self, event: Event) -> Instance | None:
        """The instance of an access; None for that of a bound or a condition."""
        return self.instance.get(event.path[:-1])

    def pairs(self) -> list[tuple[Instance, Instance]]:
        """The instances that meet, in their order."""
        made: dict[tuple[Instance, Instance], None] = {}
        for a, b in conflicts(self.found):
            pair = self.of(a), self.of(b)
            if pair[0] is not None and pair[1] is not None and pair[0] != pair[1]:
                made[pair[0], pair[1]] = None
        return list(made)

    def at(self, point: Point) -> list[Event]:
        """The accesses that a point of a witness names."""
        return [
            event
            for event in self.found
            if event.statement is point.statement
            and event.is_write == point.is_write
            and point.indices in event.indices
            and tuple((loop.loop_var.name, value) for loop, value, _ in event.loops) == point.loops
        ]


def turned(pairs: Sequence[tuple[Instance, Instance]], after: Run) -> tuple[Instance, Instance] | None:
    """Two instances of some that meet that do not come in their order in another program, or not at all."""
    for one, two in pairs:
        if one not in after.time or two not in after.time or after.time[one] >= after.time[two]:
            return one, two
    return None


def judge_one(seed: int, counts: Counter[str] | None = None, verbs: Sequence[str] = VERBS) -> None:
    """Take some steps on the nest of a seed. Raises AssertionError where a verdict is wrong."""
    counts = Counter() if counts is None else counts
    rng = random.Random(seed)
    sch: Any = tl.Schedule(tagged(random_nest(seed)), debug_mask="all", reassociate=False)
    for _ in range(STEPS):
        try:
            before = Run(sch.mod["main"])
        except NotAffine:
            return
        if len(before.found) > MOST:
            counts["too many"] += 1
            return
        pairs, state, copy = before.pairs(), rng.getstate(), sch.copy()
        try:
            verb = step(sch, rng, verbs)
        except (IllegalStep, UnprovedStep) as error:
            rng.setstate(state)
            with copy.unchecked("to see what comes of it"):
                verb = step(copy, rng, verbs)
            _refused(error, before, pairs, Run(copy.mod["main"]), verb, counts)
        except ScheduleError as error:
            is_a_refusal(error)
            counts[type(error).__name__] += 1
        else:
            counts[f"{verb} taken"] += 1
            after = Run(sch.mod["main"])
            assert set(after.time) == set(before.time), f"{verb} loses or adds instances"
            wrong = turned(pairs, after)
            assert wrong is None, f"{verb} turns round {wrong}:\n{copy.mod['main']}\n{sch.mod['main']}"
            new = set(after.pairs()) - set(pairs)
            assert not new, f"{verb} lets {new} meet:\n{copy.mod['main']}\n{sch.mod['main']}"


def _refused(
    error: Any, before: Run, pairs: list[tuple[Instance, Instance]], after: Run, verb: str, counts: Counter[str]
) -> None:
    """The witness of a refusal is true."""
    if isinstance(error, UnprovedStep):
        harmless = set(after.time) == set(before.time) and turned(pairs, after) is None
        counts[f"{verb} unknown, {'legal' if harmless else 'not legal'}"] += 1
        return
    counts[f"{verb} refuted"] += 1
    points = [before.at(point) for point in error.witness.points]
    assert all(points), f"the iterations of the witness do not happen: {error}"
    first, second = points[0][0], points[-1][0]
    assert first.elements & second.elements and before.found.index(first) < before.found.index(second), error
    one, two = before.of(first), before.of(second)
    assert one is not None and two is not None and turned([(one, two)], after) is not None, (
        f"{verb} does not turn round what its witness names: {error}"
    )


if __name__ == "__main__":
    raise SystemExit(run_seeds(judge_one))
