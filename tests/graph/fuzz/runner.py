"""Random graphs through random orders of random passes, judged by the reference after every pass and by compiled code.

Everything is judged to the bit: under the policy ``exact`` no pass may change one, and what the generator makes gives rules
of the class ``default`` nothing to round. A graph that is compiled is compared with itself compiled as it is written.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import tirlower as tl
import tirlower.graph as tg
from tests.graph.fuzz.generate import generate
from tirlower.graph.core.debug import Assert, Said
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.core.verify import verify
from tirlower.graph.passes.base import GraphPass
from tirlower.graph.passes.compare import bindings, compare, difference, outcome, random_inputs, said_differs
from tirlower.graph.passes.shrink import GraphCase, reduce_graph

__all__ = ["Failure", "POOL", "Report", "run_many", "run_one"]

POOL: tuple[GraphPass, ...] = (
    tg.passes.DCE(),
    tg.passes.CSE(),
    tg.passes.Canonicalize(),
    tg.passes.CanonicalizeControl(),
    tg.passes.SimplifyGlobals(),
    tg.passes.FoldGlobals(),
    tg.passes.FoldConstants(),
    tg.passes.StripDebug(),
    tg.passes.Expand(),
    tg.passes.CheckNoShapeQueries(),
)


class Failure(AssertionError):
    """A wrong pass: the seed, the pass, what is wrong, and the smallest graph that shows it."""

    def __init__(self, seed: int, guilty: str, message: str, shown: str = "") -> None:
        super().__init__(f"seed {seed}: {guilty} {message}\n{shown}")
        self.seed, self.guilty, self.message, self.shown = seed, guilty, message, shown

    def __reduce__(self) -> tuple[object, ...]:
        return (Failure, (self.seed, self.guilty, self.message, self.shown))


@dataclass
class Report:
    """What was run."""

    count: int = 0
    nodes: int = 0
    passes: Counter[str] = field(default_factory=Counter)
    """How often each pass changed a graph."""
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        changed = ", ".join(f"{name} {n}" for name, n in sorted(self.passes.items()))
        return f"{self.count} graphs, {self.nodes} nodes, {len(self.failures)} failures; changed by {changed}"


def run_one(
    seed: int, pool: Sequence[GraphPass] = POOL, native: bool = False, reduce: float = 0.0, report: Report | None = None
) -> None:
    """Run a seed. Raises :class:`Failure` that names the first guilty pass."""
    rng = random.Random(seed + 1)
    graph = generate(seed, 14 if native else None)
    verify(graph)
    numerics = "exact" if native else rng.choice(("exact", "default"))
    order = rng.sample(list(pool), rng.randint(1, len(pool))) + rng.choices(list(pool), k=rng.randint(0, 3))
    several = bindings(graph)
    drawn = [random_inputs(graph, values, seed, special=rng.random() < 0.8) for values in rng.sample(several, 1)]
    now = graph
    known = [_outcome(graph, inputs, graph) for inputs in drawn]
    debug = True
    with tl.PassContext(config={"graph.numerics": numerics}):
        for pass_ in order:
            before, now = now, _passed(seed, pass_, now)
            if now is before:
                continue
            if report is not None:
                report.passes[pass_.info.name] += 1
            debug = debug and pass_.keeps_debug
            for inputs, was in zip(drawn, known, strict=True):
                if was is None:  # without meaning on these inputs
                    continue
                made = _outcome(now, inputs, graph)
                found = "fails where its input runs" if made is None else _differs(was, made, debug)
                if found is not None:
                    raise Failure(seed, pass_.info.name, found, _smallest(pass_, before, inputs, reduce))
    if report is not None:
        report.count += 1
        report.nodes += len(graph.nodes)
    if native:
        holds = [inputs for inputs, was in zip(drawn, known, strict=True) if was is not None and _asserted(was[1])]
        with contextlib.redirect_stdout(io.StringIO()):
            _compiled(seed, graph, now, holds)


Outcome = tuple[tuple[np.ndarray, ...], list[Said]]
"""Results, and what assertions and prints said."""


def _outcome(graph: tg.Graph, inputs: Sequence[np.ndarray], like: tg.Graph) -> Outcome | None:
    said: list[Said] = []
    try:
        return outcome(graph, inputs, like, said=said), said
    except tg.GraphError:
        return None


def _differs(was: Outcome, now: Outcome, debug: bool) -> str | None:
    found = difference(was[0], now[0], was[0], Numerics.EXACT)
    if found is None and debug:
        found = said_differs(was[1], now[1], was[1], Numerics.EXACT)
    return None if found is None else found.message


def _asserted(said: Sequence[Said]) -> bool:
    return all(one.array.item() for one in said if one.kind is Assert)


def _passed(seed: int, pass_: GraphPass, graph: tg.Graph) -> tg.Graph:
    name = pass_.info.name
    try:
        after = pass_(graph)
        verify(after)
        again = pass_(after)
    except Exception as error:
        raise Failure(seed, name, f"raises {error!r}", str(graph)) from error
    if again is not after and not isinstance(pass_, (tg.passes.Canonicalize, tg.passes.FoldConstants)):
        raise Failure(seed, name, "changes its own result", str(graph))
    return after


def _smallest(pass_: GraphPass, graph: tg.Graph, inputs: Sequence[np.ndarray], seconds: float) -> str:
    if not seconds:
        return str(graph)

    def fails(case: GraphCase) -> bool:
        found = compare(case.graph, pass_(case.graph), Numerics.EXACT, case.inputs, pass_.keeps_debug)
        return found is not None

    case = reduce_graph(GraphCase(graph, tuple(inputs)), fails, seconds)
    return f"{case.graph}\nwith {case.inputs}\nbecomes\n{pass_(case.graph)}"


def _compiled(seed: int, graph: tg.Graph, after: tg.Graph, drawn: Sequence[Sequence[np.ndarray]]) -> None:
    """Compiled as it is written and after the passes, it gives the same bits."""
    plain = tg.compile(graph, options=tg.Options(optimize=False, numerics="exact"))
    passed = tg.compile(after, options=tg.Options(numerics="exact"))
    public = [one.name for one in graph.effects if one.public and one.name in plain.state and one.name in passed.state]
    for inputs in (one for one in drawn for _ in range(1 + bool(graph.effects))):
        was, now = ([*_flat(exe(*inputs)), *(exe.state[name] for name in public)] for exe in (plain, passed))
        for n, (a, b) in enumerate(zip(was, now, strict=True)):
            same = a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind not in "biu" and same:
                with np.errstate(all="ignore"):
                    same = bool(np.all(((a == b) & (np.signbit(a) == np.signbit(b))) | ((a != a) & (b != b))))
            elif same:
                same = bool((a == b).all())
            if not same:
                raise Failure(seed, "the compiled graph", f"gives {b} for result {n}, as it is written {a}", str(graph))


def _flat(made: object) -> tuple[np.ndarray, ...]:
    return made if isinstance(made, tuple) else (made,)  # type: ignore[return-value]


def run_many(
    first: int, count: int, *, workers: int = 1, native: int = 0, seconds: float = float("inf"), reduce: float = 0.0
) -> Report:
    """Run so many seeds from the first one on; each ``native``-th graph is compiled too."""
    report, end = Report(), time.monotonic() + seconds
    jobs = ((seed, native > 0 and seed % native == 0, reduce) for seed in range(first, first + count))
    if workers == 1:
        made = map(_job, jobs)
        return _collected(report, made, end)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return _collected(report, pool.imap_unordered(_job, jobs, 8), end)


def _job(job: tuple[int, bool, float]) -> Report:
    seed, native, reduce = job
    report = Report()
    try:
        run_one(seed, native=native, reduce=reduce, report=report)
    except Failure as failure:
        report.failures.append(failure)
    except Exception as error:
        report.failures.append(Failure(seed, "what stands around the passes", f"raises {error!r}"))
    return report


def _collected(report: Report, made, end: float) -> Report:
    for one in made:
        report.count += one.count
        report.nodes += one.nodes
        report.passes += one.passes
        report.failures += one.failures
        for failure in one.failures:
            print(failure, flush=True)
        if len(report.failures) >= 20 or time.monotonic() > end:
            break
    return report
