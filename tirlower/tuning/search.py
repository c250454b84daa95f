"""``tl.tune``: the neighbours of a function's plan, measured; the fastest is kept where builds find it."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tirlower.autoschedule.explain import time_text
from tirlower.call.parameters import outputs_of
from tirlower.diagnostics import TirError, user_frames
from tirlower.driver.build import build_module, module_of, target_of
from tirlower.driver.kernel import BuiltKernel
from tirlower.driver.plan_database import Database, Found, PlanKey, Trial
from tirlower.driver.tuned import default_path
from tirlower.ir.expr import IntImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.packed import Packed
from tirlower.machine.target import Target, TargetLike
from tirlower.rewrite.context import Choices
from tirlower.schedule.trace import Trace
from tirlower.schedule.trace_json import load_trace
from tirlower.transforms import PassContext
from tirlower.tuning.apart import measured_apart
from tirlower.tuning.executors import executor_of
from tirlower.tuning.job import Given, Job, Outcome, Plan, inputs_of
from tirlower.tuning.space import Candidate, Space, digest_of

__all__ = ["Tuned", "tune"]

STEP: Final = 0.99
"""Of the best plan's time: what takes more is no progress, and the search ends."""

WORTH: Final = 0.98
"""Of the untuned plan's time, measured once more: what takes more is not kept."""

AGAIN: Final = 3
"""Plans that are measured once more, the fastest first, until one is worth keeping."""

TURNS: Final = 2
"""How many times each of these is, with :data:`LONGER` rounds: the worse ratio counts."""

LONGER: Final = 15
CACHES: Final = ("readwrite", "only", "off")
BATCH: Final = 4
"""Candidates that are measured by one process: what it costs to start, and the base, are shared."""

Measure = Callable[[Job], Sequence[Outcome]]


@dataclass(frozen=True)
class Tuned:
    """What a search found: the ``trace`` of the plan that is kept and how it differs from the untuned one (None, and nothing,
    where that one stands), the seconds of a call with both, measured in turns, and what was tried."""

    function: str
    trace: Trace | None
    change: str
    seconds: float
    untuned: float
    trials: tuple[Trial, ...]
    database: Path

    @property
    def speedup(self) -> float:
        """The untuned plan's time over this one's; 1 where it stands."""
        return self.untuned / self.seconds if self.trace is not None and self.seconds else 1.0

    def __str__(self) -> str:
        best = f"{time_text(self.seconds)} a call, {self.speedup:.2f} times as fast as the untuned plan"
        head = f"{self.function}: {best if self.trace is not None else 'the untuned plan stands'}"
        good = sorted((one for one in self.trials if not one.error), key=lambda one: one.ratio)
        lines = [f"  {one.ratio:.2f} of its time: {one.change}" for one in good]
        return "\n".join([head, *lines, *(f"  {one.change}: {one.error}" for one in self.trials if one.error)])


def tune(
    func: PrimFunc | BuiltKernel,
    args: Sequence[object] | Mapping[str, object],
    target: TargetLike = None,
    *,
    executor: object = None,
    budget: float = 60.0,
    trials: int | None = None,
    outputs: Sequence[str] | None = None,
    database: Path | str | None = None,
    limit: float = 60.0,
    cache: str = "readwrite",
    measure: Measure = measured_apart,
) -> Tuned:
    """Measure the neighbours of a function's automatic schedule, and keep the fastest: later builds take it.

    ``func``: a function, or a kernel of one, whose target and outputs are meant then. ``args``: the arguments of a call, in
    their order or by name; their sizes and their integers are what is measured (large arrays of floats are filled with random
    numbers), and they are not written to. ``executor`` does the measuring: one of ``concurrent.futures``, a client of Dask,
    ``tirlower.tuning.RayExecutor()``; without one, one candidate after another, each in a process of its own (as with any
    executor). ``budget``: seconds after which no further candidate is begun. ``trials``: how many are tried at most.
    ``limit``: seconds that one may take. ``database``: the file that the plans are in, that of the disk cache's folder when left
    out (what builds look into, unless ``tir.auto.tuned`` says otherwise). ``cache``: ``"only"`` measures nothing, and gives what an
    earlier search kept; ``"off"`` reads and keeps nothing. ``measure`` runs a job, in the executor.

    Each step of a candidate is proved, as those of the untuned plan are, and no bit changes that it would not change. A candidate
    that crashes, hangs or computes anything else is out, and nothing else is. The fastest is measured once more beside the
    untuned plan, and not kept unless it is faster then too. What was measured is kept as well: a search that was interrupted goes
    on where it ended.

    Raises :class:`TirError` for a function that is not for the host, or does not run with these arguments, for one of which
    nothing is kept under ``cache="only"``, and what :func:`tirlower.build` raises.

    The search goes along single parameters, from the best plan so far, until none is faster (hill climbing).

    >>> import tempfile, numpy as np
    >>> import tirlower as tl
    >>> from tirlower.tuning import Job, Outcome
    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def f(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32")):
    ...     for i, j in T.grid(512, 512):
    ...         B[i, j] = A[j, i]
    >>> arrays = np.zeros((512, 512), "float32"), np.zeros((512, 512), "float32")
    >>> def clock(job: Job) -> list[Outcome]:  # a stand-in, for this example: stores past the caches take half the time
    ...     return [Outcome(1e-3 if "nontemporal" in plan.trace else 2e-3, 2e-3) for plan in job.plans]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tl.tune(f, arrays, "llvm -num_threads=1", database=f"{folder}/plans", measure=clock)
    >>> found.speedup
    2.0
    >>> found.trials[0].change
    'B over i, j: permutation, tile 16 -> 8'
    """
    with user_frames():
        _check(budget, trials, limit, cache)
        mod, where, names = _asked(func, target, outputs)
        given = inputs_of((), args) if isinstance(args, Mapping) else inputs_of(args, {})
        folder = tempfile.TemporaryDirectory() if cache == "off" else None
        path = f"{folder.name}/plans" if folder else database if database is not None else default_path()
        if path is None:
            raise TirError(
                "there is no place for the plans: the disk cache is off", origin="tune", help="name a database="
            )
        choices = PassContext.current().choices.copy()
        if not choices["opt_level"]:
            raise TirError("at opt_level=0 builds take no schedule", origin="tune", help="leave that context")
        choices["config"] = {**choices["config"], "tir.auto.tuned": False}
        search = _Search(mod, where, choices, names, given, Database(path), limit)
        if cache == "only":
            return search.known(_sizes(mod, given))
        build_module(mod, where, PassContext(**choices), names or None, schedule="auto")  # raises what a build does
        with folder or contextlib.nullcontext():
            return search.run(executor, measure, budget, trials, _sizes(mod, given))


def _check(budget: float, trials: int | None, limit: float, cache: str) -> None:
    if cache not in CACHES:
        raise TirError(f"cache= is one of {', '.join(map(repr, CACHES))}, got {cache!r}", origin="tune")
    for name, value in (("budget", budget), ("trials", 1 if trials is None else trials), ("limit", limit)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise TirError(f"{name}= is a number above 0, got {value!r}", origin="tune")


def _asked(func: object, target: TargetLike, outputs: Sequence[str] | None) -> tuple[IRModule, Target, tuple[str, ...]]:
    """The module of a function, its target and what its calls return: of a kernel those that it has."""
    if isinstance(func, BuiltKernel):
        spec = func.artifact.spec
        target = spec.asked if target is None else target
        outputs = next(iter(spec.outputs.values()), None) if outputs is None else outputs
    mod, single = module_of(func)
    if not single:
        raise TirError(
            "a search is for one function", origin="tune", help="give it each function that is slow: mod['name']"
        )
    where = target_of(target)
    if where.kind != "llvm":
        raise TirError(f"plans are found for the host, not for {where.kind}", origin="tune", help='tune for "llvm"')
    [made] = mod.functions.values()
    return mod, where, outputs_of(made, outputs)


def _sizes(mod: IRModule, given: Given) -> str:
    """The shapes and numbers that a plan was measured for; nothing where they are the function's own."""
    [func] = mod.functions.values()
    shapes = [extent for buffer in func.buffer_map.values() for extent in buffer.shape]
    if all(isinstance(extent, IntImm) for extent in shapes) and len(func.buffer_map) == len(func.params):
        return ""
    inputs = [*given.args, *given.kwargs.values()]
    return ", ".join("x".join(map(str, one.shape)) if one.number is None else str(one.number) for one in inputs)


@dataclass(frozen=True, eq=False)
class _Search:
    """One function, for one target, with the arguments of one call."""

    mod: IRModule
    target: Target
    choices: Choices
    outputs: tuple[str, ...]
    given: Given
    database: Database
    limit: float

    def run(self, executor: object, measure: Measure, budget: float, trials: int | None, sizes: str) -> Tuned:
        """Climb, measure the best once more, and keep it."""
        end = time.monotonic() + budget
        [func] = self.mod.functions.values()
        key = PlanKey.of(func, self.target, self.choices["config"])
        space = Space(self.mod, self.target, self.choices["config"])
        base = space.candidate({}, "the untuned plan")
        if base.error:
            raise TirError(f"`{func.name}` has no automatic schedule: {base.error}", origin="tune")
        runner, at_once = executor_of(executor)
        jobs = _Jobs(self, base, lambda job: runner.submit(measure, job), at_once, end, trials, sizes, key)
        self._runs(jobs, base)
        results = jobs.climbed(space)
        found, plan = jobs.best(results)
        self.database.keep(key, sizes, found)
        done = tuple(trial for _, trial in results)
        trace = None if plan is None else plan.steps
        return Tuned(
            func.name,
            trace,
            "" if plan is None else plan.change,
            found.seconds,
            found.untuned,
            done,
            self.database.path,
        )

    def known(self, sizes: str) -> Tuned:
        """What an earlier search kept. Raises :class:`TirError` where there was none."""
        [func] = self.mod.functions.values()
        key = PlanKey.of(func, self.target, self.choices["config"])
        found, trials = self.database.plan(key, sizes), self.database.trials(key, sizes)
        if found is None:
            where = f" at {sizes}" if sizes else ""
            raise TirError(
                f"no search of `{func.name}`{where} for {self.target} is kept in {self.database.path}",
                origin="tune",
                help='cache="readwrite" searches',
            )
        try:
            trace = Trace(*load_trace(json.loads(found.trace))) if found.trace else None
        except (ValueError, RecursionError) as error:
            raise TirError(
                f"the plan of `{func.name}` in {self.database.path} is no trace: {error}",
                origin="tune",
                help='cache="readwrite" searches for another one',
            ) from error
        mine = trials.get(digest_of(found.trace))
        change = mine.change if trace is not None and mine is not None else ""
        times = found.seconds, found.untuned
        return Tuned(func.name, trace, change, *times, tuple(trials.values()), self.database.path)

    def _runs(self, jobs: _Jobs, base: Candidate) -> None:
        """Raise :class:`TirError` unless a call with these arguments works."""
        [outcome] = jobs.ask([base], rounds=1).result()
        if outcome.error:
            raise TirError(
                f"the untuned plan cannot be measured: {outcome.error}",
                origin="tune",
                help="call the kernel with these arguments: what is wrong with them is said there",
            )


@dataclass(eq=False)
class _Batch:
    """Candidates that are measured by one process, and their outcomes, once they were sent."""

    candidates: list[Candidate]
    outcomes: Future[Sequence[Outcome]] | None = None


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What is measured of a search, by whom, and until when."""

    search: _Search
    base: Candidate
    submit: Callable[[Job], Future[Sequence[Outcome]]]
    at_once: int
    end: float
    most: int | None
    sizes: str
    key: PlanKey

    def ask(self, candidates: Sequence[Candidate], rounds: int = 7) -> Future[Sequence[Outcome]]:
        """Have candidates measured."""
        search = self.search
        base, *plans = (Plan(one.trace, one.exact) for one in (self.base, *candidates))
        program = Packed(search.mod)
        return self.submit(
            Job(
                program,
                search.target,
                search.choices,
                search.outputs,
                base,
                tuple(plans),
                search.given,
                rounds,
                limit=search.limit,
            )
        )

    def climbed(self, space: Space) -> list[tuple[Candidate, Trial]]:
        """All candidates that were measured, from each best one to its neighbours, until none is faster."""
        known = self.search.database.trials(self.key, self.sizes)
        best, ratio = self.base, 1.0
        found: dict[str, tuple[Candidate, Trial]] = {}
        left = self.most
        while left is None or left > 0:
            seen = {*found, self.base.digest}
            new = list(self._measured(_new(space.neighbours(best), seen, self.base.exact), known, left))
            found |= {candidate.digest: (candidate, trial) for candidate, trial in new}
            left = None if left is None else left - len(new)
            least = min(new, key=lambda one: one[1].ratio, default=None)
            if least is None or least[1].ratio > STEP * ratio:
                break
            best, ratio = least[0], least[1].ratio
        return list(found.values())

    def _measured(
        self, candidates: Iterable[Candidate], known: Mapping[str, Trial], most: int | None
    ) -> Iterator[tuple[Candidate, Trial]]:
        """Candidates and what was measured of them, in their order, as many as there is time for."""
        waiting: deque[tuple[Candidate, Trial | tuple[_Batch, int]]] = deque()
        batch = _Batch([])
        for number, candidate in enumerate(candidates):
            if (most is not None and number >= most) or time.monotonic() > self.end:
                break
            trial = known.get(candidate.digest)
            if candidate.error:
                trial = Trial(candidate.change, error=candidate.error)
            if trial is not None:
                waiting.append((candidate, trial))
                continue
            waiting.append((candidate, (batch, len(batch.candidates))))
            batch.candidates.append(candidate)
            if len(batch.candidates) == BATCH:
                batch.outcomes = self.ask(batch.candidates)
                batch = _Batch([])
                while len(waiting) > self.at_once * BATCH:
                    yield self._done(*waiting.popleft())
        if batch.candidates:
            batch.outcomes = self.ask(batch.candidates)
        while waiting:
            yield self._done(*waiting.popleft())

    def _done(self, candidate: Candidate, told: Trial | tuple[_Batch, int]) -> tuple[Candidate, Trial]:
        """A candidate with its trial, which is kept unless the executor failed: then it is tried again by another search."""
        if isinstance(told, Trial):
            return candidate, told
        batch, place = told
        assert batch.outcomes is not None
        trial = _trial(candidate, batch.outcomes, place)
        if batch.outcomes.exception() is not None:
            return candidate, trial
        self.search.database.note(self.key, self.sizes, candidate.digest, trial)
        return candidate, trial

    def best(self, results: Sequence[tuple[Candidate, Trial]]) -> tuple[Found, Candidate | None]:
        """The fastest candidate that is faster than the untuned plan when both are measured once more; that one, where none is."""
        times = [trial.untuned for _, trial in results if trial.untuned]
        for candidate, trial in sorted(results, key=lambda one: one[1].ratio)[:AGAIN]:
            if trial.ratio > WORTH:
                break
            again = [_trial(candidate, self.ask([candidate], LONGER), 0) for _ in range(TURNS)]
            worst = max(again, key=lambda one: one.ratio)
            if worst.ratio <= WORTH:
                return Found(candidate.trace, worst.seconds, worst.untuned), candidate
        untuned = min(times, default=0.0)
        return Found("", untuned, untuned), None


def _trial(candidate: Candidate, asked: Future[Sequence[Outcome]], place: int) -> Trial:
    """What came of a job's plan; whatever the executor raises is the candidate's error."""
    try:
        outcome = asked.result()[place]
    except Exception as error:
        return Trial(candidate.change, error=f"{type(error).__name__}: {error}")
    return Trial(candidate.change, outcome.seconds, outcome.base, outcome.error)


def _new(candidates: Iterable[Candidate], seen: set[str], exact: bool) -> Iterator[Candidate]:
    """Candidates that were not seen before; where the untuned plan keeps all bits, those that do. What cannot be had has no trace
    to be told by."""
    for one in candidates:
        if one.error:
            yield replace(one, trace=f"{one.change}: {one.error}")
        elif one.digest not in seen and (one.exact or not exact):
            seen.add(one.digest)
            yield one
