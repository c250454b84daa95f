"""``parallelize``, ``auto_vectorize``, ``unroll_small``: the loops that may, of all that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import IntImm
from tirlower.ir.functor import StmtMutator
from tirlower.ir.query import has
from tirlower.ir.stmt import For, ForKind, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.sites import Change, Edit, Forward, Site, Steps
from tirlower.schedule.step import Step

__all__ = ["AUTO_VECTORIZE", "PARALLELIZE", "UNROLL_SMALL"]


@dataclass
class _Chosen:
    """The loops that are taken, and why others are not."""

    taken: list[For] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def ask(self, step: Step, site: Site, loop: For, kind: ForKind) -> bool:
        """Take a loop where its iterations may run so."""
        if loop.kind is not ForKind.SERIAL:
            return False
        around = [one.kind for one in step.chain(site)[:-1] if isinstance(one, For)]
        if ForKind.VECTORIZED in around or (kind is ForKind.PARALLEL and ForKind.THREAD_BINDING in around):
            self.left.append(f"{loop.loop_var.name}: a loop around it runs at once already")
            return False
        verdict = step.facts.concurrent(step.func(site), site.steps, loop, kind)
        if verdict.proved:
            self.taken.append(loop)
        else:
            self.left.append(f"{loop.loop_var.name}: {verdict.reason}")
        return verdict.proved


class _Kinds(StmtMutator):
    """Gives loops a kind."""

    def __init__(self, loops: Mapping[For, ForKind]) -> None:
        self.loops = loops
        self.made: list[For] = []

    def visit_For(self, op: For) -> Stmt:
        new = self.generic(op)
        assert isinstance(new, For)
        if op in self.loops:
            new = new.with_(kind=self.loops[op])
            self.made.append(new)
        return new


def _change(step: Step, roots: list[Site], kind: ForKind, chosen: _Chosen) -> Change:
    """The statements at some places with the chosen loops of a kind; the loops are the outputs."""
    forward, edits, outputs = Forward(), list[Edit](), list[Stmt | Site]()
    kinds = dict.fromkeys(chosen.taken, kind)
    for site in roots:
        old = step.chain(site)[-1]
        mutator = _Kinds(kinds)
        new = mutator.visit(old)
        if new is not old:
            forward.like(old, new)
            edits.append(Edit(site, new))
            outputs += mutator.made
    step.notes += chosen.left
    return Change(tuple(edits), forward, tuple(outputs))


def _loops_under(step: Step, site: Site) -> Iterator[tuple[Steps, For]]:
    """The loops at a place and inside, each with its own place."""
    for way, stmt in step.facts.inside(step.chain(site)[-1]):
        if isinstance(stmt, For):
            yield (*site.steps, *way), stmt


def _outermost(step: Step, site: Site, wanted: Callable[[Site, For], bool]) -> None:
    """Ask of loops from outside to inside; one inside of a loop that is taken is not asked about."""
    done: list[Steps] = []
    for steps, loop in _loops_under(step, site):
        if any(steps[: len(way)] == way for way in done):
            continue
        if wanted(Site(site.func, steps), loop):
            done.append(steps)


def _roots(step: Step) -> list[Site]:
    handles = step.handles("loops")
    if handles:
        return [step.site(handle) for handle in handles]
    return [Site(function_of(step.state), ("body",))]


def _parallelize(step: Step) -> Change:
    chosen, least = _Chosen(), step["min_work"]
    roots = _roots(step)
    tops = [site for site in roots if not any(_inside(site, other) for other in roots if other != site)]

    def wanted(site: Site, loop: For) -> bool:
        count = loop.extent.value if isinstance(loop.extent, IntImm) else None
        if isinstance(least, int) and count is not None and count < least:
            chosen.left.append(f"{loop.loop_var.name}: it runs {count} times, fewer than {least}")
            return False
        return chosen.ask(step, site, loop, ForKind.PARALLEL)

    for site in tops:
        _outermost(step, site, wanted)
    return _change(step, tops, ForKind.PARALLEL, chosen)


def _inside(site: Site, other: Site) -> bool:
    return site.func == other.func and site.steps[: len(other.steps)] == other.steps


PARALLELIZE = Kind(
    "Parallelize",
    "parallelize",
    (
        Slot("loops", Takes.LOOP, rest=True),
        Slot("min_work", Takes.INTEGER, default=None, extra=True),
    ),
    _parallelize,
    """Run the outermost loops in parallel that may, of those given and all inside, or of the whole function; loops of fewer
    than ``min_work`` iterations are left alone.

    Returns the loops; why others were left is among the notes of the step (``sch.steps[-1].why``).

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9, 8), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j] = A[i, j]
    ...     for k in range(8):
    ...         B[k] = k
    ... '''))
    >>> sch.parallelize()
    [LoopRV('j'), LoopRV('k')]
    """,
    returns="many",
    tvm=False,
)


def _auto_vectorize(step: Step) -> Change:
    chosen, site = _Chosen(), step.site(step.handle("where"))
    for steps, loop in _loops_under(step, site):
        if has(For, loop.body):
            continue
        if not isinstance(loop.extent, IntImm):
            chosen.left.append(f"{loop.loop_var.name}: its extent {loop.extent} is not a number")
        else:
            chosen.ask(step, Site(site.func, steps), loop, ForKind.VECTORIZED)
    return _change(step, [site], ForKind.VECTORIZED, chosen)


AUTO_VECTORIZE = Kind(
    "AutoVectorize",
    "auto_vectorize",
    (Slot("where", Takes.LOOP_OR_BLOCK),),
    _auto_vectorize,
    """Vectorize the innermost loops inside of a loop or block that may, and run a number of times that is known.

    Returns the loops; why others were left is among the notes of the step (``sch.steps[-1].why``).

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 9), "int32")):
    ...     for i in range(8):
    ...         for j in range(8):
    ...             A[i, j] = j
    ...         for k in range(8):
    ...             A[i, k + 1] = A[i, k]
    ... '''))
    >>> sch.auto_vectorize(sch.loop("i"))
    [LoopRV('j')]
    >>> sch.steps[-1].why.startswith("k: ")
    True
    """,
    returns="many",
    tvm=False,
)


def _check_unroll(step: Step) -> Verdict:
    most = step.number(step["max"])
    if not isinstance(most, int) or not 0 < most <= 64:
        raise BadArgument(f"max= is a number of iterations from 1 to 64, got {most!r}")
    return PROVED


def _unroll_small(step: Step) -> Change:
    chosen, site, most = _Chosen(), step.site(step.handle("where")), step.number(step["max"])
    assert isinstance(most, int)
    for _, loop in _loops_under(step, site):
        if loop.kind is not ForKind.SERIAL:
            continue
        if not isinstance(loop.extent, IntImm) or loop.extent.value > most:
            chosen.left.append(f"{loop.loop_var.name}: its extent is {loop.extent}")
        elif step.facts.leaves(loop):
            chosen.left.append(f"{loop.loop_var.name}: a statement leaves it early")
        else:
            chosen.taken.append(loop)
    return _change(step, [site], ForKind.UNROLLED, chosen)


UNROLL_SMALL = Kind(
    "UnrollSmall",
    "unroll_small",
    (Slot("where", Takes.LOOP_OR_BLOCK), Slot("max", Takes.INTEGER, default=8)),
    _unroll_small,
    """Unroll the loops at and inside of a loop or block that run at most ``max`` times.

    Returns the loops; why others were left is among the notes of the step (``sch.steps[-1].why``).

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((64, 4), "int32")):
    ...     for i, j in T.grid(64, 4):
    ...         A[i, j] = j
    ... '''))
    >>> sch.unroll_small(sch.loop("i"))
    [LoopRV('j')]
    """,
    check=_check_unroll,
    returns="many",
    tvm=False,
)
