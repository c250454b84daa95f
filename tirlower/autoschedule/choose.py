"""Which recipe a nest gets: all bid, and the cheapest whose steps are all proved is taken.

A refused step takes a candidate back whole, and the next one is tried; where none is left the nest stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import cast

from tirlower.analysis.call_graph import calls_of
from tirlower.autoschedule.borders import Border, borders_of, without_borders, without_rims_of_sums
from tirlower.autoschedule.classify import Nest, extent_of, nests_of, roots_of, selectors, title_of
from tirlower.autoschedule.explain import PART_OF_ANOTHER, NestReport, together
from tirlower.autoschedule.inner import one_iteration
from tirlower.autoschedule.model import is_slow, is_triangle, trips, written_seconds
from tirlower.autoschedule.prepare import cut, depth_of_cut, prepared, where_all_is_inside
from tirlower.autoschedule.recipe import AnyRecipe, Bid, Handles, Refusal
from tirlower.autoschedule.recipes import RECIPES
from tirlower.autoschedule.recipes.fallback import FALLBACK
from tirlower.autoschedule.sizes import taken_as
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.work import instances
from tirlower.diagnostics import ScheduleError, TransformError
from tirlower.ir.annotations import ELSEWHERE, IN_PLACE, NOALIAS
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.stmt import For
from tirlower.machine.processor import Processor
from tirlower.poly.same_values import at_most
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.report import exactness_of
from tirlower.schedule.schedule import Schedule
from tirlower.schedule.trace import Trace

__all__ = ["Offer", "Preference", "Scheduled", "ScheduledFunction", "autoschedule", "replayed"]

TOGETHER = 64
"""The nests that recipes are offered at a time, for chains: what a function of very many costs is what its nests cost."""

BITS = 4.0
"""How many times as fast a recipe that changes the order of sums has to be where one bids that is asked to keep their bits."""

CUT = 0.5
"""What is left of a nest's predicted time where it is cut into several: what they hand on to each other goes through memory."""

LITTLE = 0.3
"""A recipe that leaves more of the written loops' time than this does not keep a nest from being cut."""

LOOKS = 12
"""Nests of a function that are cut, or looked into, to see what recipes make of the parts: the function is looked at anew for each."""

OPERATIONS = 5_000_000
"""isl's operations for one question of a recipe, some seconds: the longest that prove anything take half, and there are other recipes."""

AT_BORDER = "it is what conditions decide at the ends of loops"
"""Why a part of a nest is left as written."""

WORTH = 0.9
"""A plan that is predicted to take more of the written loops' time than this is not worth its steps."""


@dataclass(frozen=True, eq=False)
class Offer:
    """A bid with the part of the written loops' time that it is predicted to take, and that time in seconds."""

    part: float
    written: float
    bid: Bid


Preference = Callable[[str, list[Offer]], list[Offer]]
"""Which of the offers for a nest, told by its title, are tried, and in which order: those of the model come the best first."""


@dataclass(frozen=True, eq=False)
class _Bidders:
    """Who bids: the recipes, for a processor, and what somebody else prefers to the model's order."""

    processor: Processor
    recipes: Sequence[AnyRecipe]
    prefer: Preference | None = None

    def offers(self, nests: Sequence[Nest], notes: list[str]) -> list[Offer]:
        """What recipes offer for the first nest, the best first."""
        found: list[Offer] = []
        for recipe in self.recipes:
            bid = recipe.bid(nests, self.processor)
            if isinstance(bid, Refusal):
                notes.append(f"no {recipe.name}: {bid.why}")
                continue
            written = sum(written_seconds(nest, self.processor) for nest in bid.facts.nests)
            found.append(Offer(bid.plan.seconds / max(written, 1e-12), written, bid))
        exact = any(one.bid.exact for one in found)
        found.sort(key=lambda one: one.part * (BITS if exact and one.bid.reorders else 1.0))
        return found if self.prefer is None else self.prefer(nests[0].title, found)


@dataclass(frozen=True, eq=False)
class ScheduledFunction:
    """A function as it was written, a report for each nest, and the schedule of it (``taken``: None where no step was)."""

    written: PrimFunc
    nests: tuple[NestReport, ...]
    taken: Schedule | None = None

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule of the function as written, with the steps taken."""
        return self.taken if self.taken is not None else Schedule(self.written)

    @cached_property
    def trace(self) -> Trace:
        """The steps: they run as they stand on a schedule of the function as written."""
        return self.schedule.trace.simplified(False)

    @cached_property
    def function(self) -> PrimFunc:
        """What is to be compiled: the written function itself where nothing was done.

        It relies on arrays that share no memory no more than the written one says: who builds it tests the call.
        """
        if self.taken is None:
            return self.written
        made = self.taken.program
        assert isinstance(made, PrimFunc)
        if made is self.written or NOALIAS in self.written.attrs:
            return made
        return made.without_attr(NOALIAS).without_attr(IN_PLACE)


@dataclass(frozen=True, eq=False)
class Scheduled:
    """The functions of a module that were looked at, by key, and the module that was made of it."""

    module: IRModule
    functions: dict[str, ScheduledFunction]

    @property
    def nests(self) -> tuple[NestReport, ...]:
        """The reports of all nests."""
        return tuple(report for made in self.functions.values() for report in made.nests)


def autoschedule(
    mod: IRModule,
    processor: Processor,
    recipes: Sequence[AnyRecipe] = RECIPES,
    *,
    any_order: bool = False,
    least: int = 0,
    prefer: Preference | None = None,
) -> Scheduled:
    """Schedule the functions of a module for a processor. What is written stays where nothing is to be gained. ``any_order``
    permits sums of floats in any order. A function whose statements run less often than ``least``, together, is left as written.
    ``prefer`` decides for each nest between what is offered, in place of the model.

    >>> from tirlower.script import parse
    >>> made = autoschedule(IRModule({"f": parse('''
    ... def f(A: T.Buffer((96, 64), "float32"), B: T.Buffer((64, 96), "float32"), C: T.Buffer((96, 96), "float32")):
    ...     for i, j, k in T.grid(96, 96, 64):
    ...         C[i, j] = C[i, j] + A[i, k] * B[k, j]
    ... ''')}), Processor.of("llvm -mcpu=x86-64-v3 -num_threads=1"))
    >>> made.nests[0].recipe, made.nests[0].exactness
    ('contraction', 'bitwise equal')
    >>> print(made.functions["f"].trace)
    import tirlower as tl
    <BLANKLINE>
    <BLANKLINE>
    def schedule(sch: tl.Schedule) -> None:
        i = sch.loop("i")
        j = sch.loop("j")
        k = sch.loop("k")
        sch.reorder(i, j, k)
        i_0, i_1 = sch.split(i, [None, 6])
        sch.reorder(i_0, j, k, i_1)
        j_0, j_1 = sch.split(j, [None, 16])
        sch.reorder(j_0, k, i_1, j_1)
        ax0, ax1, ax0_1, ax1_1 = sch.register_tile("C", [i_1, j_1], j_0, j_1, store=True)
    """
    functions: dict[str, ScheduledFunction] = {}
    made = dict(mod.functions)
    for key, func in mod.functions.items():
        if ELSEWHERE in func.attrs or calls_of(func):  # a schedule is of one function, and calls name others
            continue
        with at_most(OPERATIONS):
            functions[key] = found = _function(func, _Bidders(processor, recipes, prefer), any_order, least)
        made[key] = found.function
    changed = any(made[key] is not func for key, func in mod.functions.items())
    return Scheduled(IRModule(made, dict(mod.attrs)) if changed else mod, functions)


def replayed(mod: IRModule, trace: Trace, recipe: str = "trace") -> Scheduled:
    """The module with a trace's steps taken on its function (the one without or with a symbol, where it is the only one);
    the report calls them ``recipe``.

    Raises :class:`~tirlower.diagnostics.ScheduleError` for a step that is refused, or that names what is not there.
    """
    functions = {key: func for key, func in mod.functions.items() if ELSEWHERE not in func.attrs}
    if len(functions) != 1:
        raise TransformError(
            f"a trace is of one function, and the module has {len(functions)}",
            origin="schedule",
            help="take the steps yourself: sch = tl.Schedule(module); trace.apply_to_schedule(sch); tl.build(sch)",
        )
    [(key, func)] = functions.items()
    sch = Schedule(func)
    trace.apply_to_schedule(sch)
    nest = NestReport(func.name, func.name, recipe, steps=len(sch.steps), exactness=exactness_of(sch.steps))
    made = ScheduledFunction(func, (nest,), sch)
    return Scheduled(IRModule({**mod.functions, key: made.function}, dict(mod.attrs)), {key: made})


def _function(func: PrimFunc, bidders: _Bidders, any_order: bool, least: int) -> ScheduledFunction:
    few = instances(func.body) if least else None
    if few is not None and few < least:
        why = f"its statements run {few} times in all, which is too little to gain from"
        return ScheduledFunction(func, tuple(NestReport(func.name, title_of(root), why=why) for root in roots_of(func)))
    ahead = prepared(func)
    now = func if ahead is None else ahead.mod["main"]
    nests = nests_of(now, any_order)
    versions = where_all_is_inside(now, nests, ahead)
    if versions is not None:
        ahead, now = versions, versions.mod["main"]
        nests = nests_of(now, any_order)
    steps = _Steps(now, nests, ahead)
    reports = _each(steps, bidders, func.name, _Looks(LOOKS))
    return ScheduledFunction(func, tuple(reports), steps.begun if any(report.recipe for report in reports) else None)


class _Steps:
    """The schedule of a function and the handles of the loops of some of its nests, made for the first recipe that is tried:
    where none is, they would cost as much as all bids. ``begun`` is a schedule whose program the function is; ``around`` a loop of it
    that the nests stand in."""

    def __init__(
        self, func: PrimFunc, nests: Sequence[Nest], begun: Schedule | None = None, around: LoopRV | None = None
    ) -> None:
        self.func = func
        self.nests = nests
        self.begun = begun
        self.around = around

    def program(self) -> PrimFunc:
        """The function as it is now, or one iteration of the loop around."""
        func = self.schedule.mod["main"]
        assert isinstance(func, PrimFunc)
        if self.around is None:
            return func
        root = self.schedule.get(self.around)
        assert isinstance(root, For)
        return one_iteration(func, root)

    @cached_property
    def schedule(self) -> Schedule:
        """The schedule."""
        self.begun = self.begun or Schedule(self.func)
        return self.begun

    @cached_property
    def loops(self) -> Handles:
        """The handles, looked up before any step of a recipe."""
        names, sch = selectors(self.func), cast("Verbs", self.schedule)
        return {loop: sch.loop(names[id(loop.node)]) for nest in self.nests if not nest.left for loop in nest.loops}


@dataclass
class _Looks:
    """How many more nests of a function are looked into: for parts of them, or the loops inside."""

    left: int

    def taken(self) -> bool:
        """Whether there was one left."""
        self.left -= 1
        return self.left >= 0


def _each(begun: _Steps, bidders: _Bidders, name: str, looks: _Looks) -> list[NestReport]:
    """Schedule nests one after another, with those behind them that their recipes take as well; the reports. As far as ``looks``
    go, what stands at the borders of a nest may be taken from it, and nests that no recipe takes may be cut, or taken by what
    stands inside."""
    reports: list[NestReport] = []
    at = 0
    while at < len(begun.nests):
        nest = begun.nests[at]
        borders = borders_of(nest) if looks.left > 0 and not nest.left else ()
        if borders and looks.taken():
            apart = partial(without_borders, cast("Verbs", begun.schedule), nest, borders, begun.loops)
            left = NestReport(name, "", written=written_seconds(nest, bidders.processor))
            made = _apart(begun, nest, apart, bidders, left, _Looks(0), borders)
            if made:
                reports += made
                at += 1
                continue
        inside = looks.left > 0 and is_slow(nest, bidders.processor)
        cuts = looks.left > 0 and not nest.left and (nest.sum_depth or inside)
        depth = depth_of_cut(nest.root) if cuts else 0
        handles = [begun.loops[loop] for loop in nest.loops[: max(depth, inside)]]
        earlier = begun.schedule.branch() if depth or inside else None
        made = _next(begun, begun.nests[at : at + TOGETHER], bidders, name)
        at += len(made)
        if earlier is not None and len(made) == 1 and (_gains_little(made[0]) or is_triangle(nest)):
            taken = begun.schedule.branch()
            found: list[NestReport] = []
            if depth and looks.taken():
                begun.schedule.become(earlier)
                parts = partial(cut, cast("Verbs", begun.schedule), handles[:depth])
                found = _apart(begun, nest, parts, bidders, made[0], looks)
            if not found and inside and looks.taken():
                begun.schedule.become(earlier)
                found = _inside(begun, nest, handles[0], bidders, made[0], looks)
            if found:
                made = found
            else:
                begun.schedule.become(taken)
        reports += made
    return reports


def _gains_little(report: NestReport) -> bool:
    """Whether a nest is left as written, or nearly: by what it is cut into more may be gained."""
    return report.recipe in ("", FALLBACK.name) or report.seconds > LITTLE * report.written


def _inside(
    begun: _Steps, nest: Nest, loop: LoopRV, bidders: _Bidders, left: NestReport, looks: _Looks
) -> list[NestReport]:
    """The reports of the nests inside of the outermost loop of one, where recipes gain from them; none, and nothing changed, where they
    do not."""
    sch = begun.schedule
    earlier = sch.branch()
    inside = _Steps(sch.mod["main"], (), sch, loop)
    inside.nests = nests_of(inside.program(), nest.any_order)
    with taken_as(nest.loops[0].var, times := trips(nest.loops[0])):
        reports = _each(inside, bidders, left.function, looks)
    name = nest.loops[0].name
    stays = [f"`{name}` stays: {note}" for note in together(left.notes)]
    reports = [
        replace(
            one,
            nest=f"in {name}: {one.nest}",
            seconds=times * one.seconds,
            written=times * one.written,
            notes=(*one.notes, *(stays if one is reports[0] else ())),
        )
        for one in reports
    ]
    seconds = sum(report.seconds or report.written for report in reports)
    if seconds > WORTH * (left.seconds or left.written) or not any(report.recipe for report in reports):
        sch.become(earlier)
        return []
    return reports


def _apart(
    begun: _Steps,
    nest: Nest,
    steps: Callable[[], set[int]],
    bidders: _Bidders,
    left: NestReport,
    looks: _Looks,
    borders: Sequence[Border] = (),
) -> list[NestReport]:
    """The reports of the nests that one becomes by some steps, which give the outermost loops that stay as they were written (by
    identity), where recipes gain from that; none, and nothing changed, where they do not."""
    sch, known = begun.schedule, all(extent_of(one.loop) is not None for one in borders)
    earlier, before = sch.branch(), {id(root) for root in roots_of(begun.program())}
    try:
        others = before | steps()
        parts = _parts(begun, nest, others)
        if borders and known and without_rims_of_sums(cast("Verbs", sch), sch.mod["main"], parts):
            parts = _parts(begun, nest, others)
    except ScheduleError:
        sch.become(earlier)
        return []
    if borders:  # they hand nothing on to each other: no chains of them
        parts = [replace(one, branch=id(one.root)) for one in parts]
        if not known:  # what is at the borders of arrays of any size is taken to be little, and not worth its versions
            parts = [replace(one, left=one.left or (AT_BORDER if _has_guards(one) else "")) for one in parts]
    reports = _each(_Steps(sch.mod["main"], parts, sch, begun.around), bidders, left.function, looks)
    seconds = sum(report.seconds or report.written for report in reports)
    if seconds > CUT * (left.seconds or left.written) or not any(report.recipe for report in reports):
        sch.become(earlier)
        return []
    return reports


def _has_guards(nest: Nest) -> bool:
    """Whether a nest asks something as it runs."""
    return any(access.guards for access in nest.accesses())


def _parts(begun: _Steps, nest: Nest, others: set[int]) -> list[Nest]:
    """The nests that one has become: those whose outermost loops are none of some others, by identity."""
    return [one for one in nests_of(begun.program(), nest.any_order) if id(one.root) not in others]


def _next(begun: _Steps, nests: Sequence[Nest], bidders: _Bidders, name: str) -> list[NestReport]:
    """Schedule the first one of some nests, with those behind it that its recipe takes as well; their reports."""
    first = nests[0]
    if first.left:
        return [NestReport(name, first.title, why=first.left)]
    written = written_seconds(first, bidders.processor)
    apart = (at for at, nest in enumerate(nests) if nest.left or nest.branch != first.branch)
    free = next(apart, len(nests))
    notes: list[str] = []
    for offer in bidders.offers(nests[:free], notes):
        bid = offer.bid
        if offer.part > WORTH:
            notes.append(f"no {bid.name}: it is predicted to gain nothing")
            continue
        loops, sch = begun.loops, begun.schedule
        earlier, count = sch.branch(), len(sch.steps)
        try:
            bid.apply(cast("Verbs", sch), loops)
        except ScheduleError as error:
            sch.become(earlier)
            notes.append(f"no {bid.name}: {error.message}")
            continue
        steps = sch.steps[count:]
        if not bid.reorders and any(step.exactness != "bitwise" for step in steps):
            sch.become(earlier)
            notes.append(f"no {bid.name}: it would change the order of a sum")
            continue
        done = [step for step in steps if not step.instruction.kind.pure]
        report = NestReport(
            name,
            "; ".join(nest.title for nest in bid.facts.nests),
            bid.name,
            bid.plan.parameters,
            bid.plan.rule,
            len(done),
            bid.rounding or exactness_of(done),
            bid.plan.seconds,
            offer.written,
            notes=tuple(notes),
        )
        rest = [NestReport(name, nest.title, why=PART_OF_ANOTHER) for nest in bid.facts.nests[1:]]
        return [report, *rest]
    return [NestReport(name, first.title, why="no recipe gains anything", written=written, notes=tuple(notes))]
