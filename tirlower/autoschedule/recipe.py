"""What a recipe is: a value that tells whether a nest is of its class, plans numbers for a processor, and takes the steps.

A recipe never rewrites a program itself. Its steps are those of :class:`tirlower.schedule.schedule.Schedule`, each proved there,
so that a wrong recipe is a refused step, never a wrong program.

A new recipe is a file under ``recipes/`` with a frozen dataclass of this kind, and a row in ``recipes/__init__.py``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Final, Generic, TypeVar, cast

from tirlower.autoschedule.classify import Nest
from tirlower.autoschedule.verbs import Verbs
from tirlower.machine.processor import Processor
from tirlower.poly import Loop
from tirlower.schedule.handles import LoopRV

__all__ = ["AnyRecipe", "Bid", "Facts", "Handles", "Plan", "Recipe", "Refusal", "nearby"]

Handles = Mapping[Loop, LoopRV]
"""The handle of each loop of the nests that a recipe takes, looked up before the first step of the schedule."""


@dataclass(frozen=True)
class Refusal:
    """Why a recipe does not take a nest: words for the report."""

    why: str


@dataclass(frozen=True, eq=False)
class Facts:
    """What a recipe knows of what it takes: the nests, the first one that it was offered and those behind it that it
    takes as well."""

    nests: tuple[Nest, ...]


@dataclass(frozen=True)
class Plan:
    """The numbers of a schedule: ``seconds`` that the model predicts, ``rule`` that gave them, in words.

    A recipe's own plan adds its parameters as fields; all of them stand in the report.
    """

    seconds: float
    rule: str

    @property
    def parameters(self) -> dict[str, object]:
        """The recipe's own fields, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("seconds", "rule")}


F = TypeVar("F", bound=Facts)
P = TypeVar("P", bound=Plan)

LARGEST: Final = 1 << 16
"""The largest number that a plan is varied to."""


def nearby(plan: P, fixed: Collection[str] = ()) -> list[P]:
    """Plans that differ from one in a single parameter: a number halved or doubled, a choice taken or not; all but the fixed ones.

    >>> @dataclass(frozen=True)
    ... class Tiles(Plan):
    ...     rows: int = 6
    ...     parallel: bool = False
    >>> [(one.rows, one.parallel) for one in nearby(Tiles(1e-3, "six rows"))]
    [(3, False), (12, False), (6, True)]
    """
    found: list[P] = []
    for name, value in plan.parameters.items():
        others: tuple[object, ...] = ()
        if isinstance(value, bool):
            others = (not value,)
        elif isinstance(value, int) and value >= 1:
            others = tuple(one for one in (value // 2, value * 2) if 1 <= one <= LARGEST)
        if name not in fixed:
            found += [replace(plan, **{name: other}) for other in others]  # type: ignore[arg-type]
    return found


@dataclass(frozen=True, eq=False)
class Bid:
    """What a recipe offers for the first one of some nests: what it takes, its plan, the ``steps`` of a plan
    (:meth:`Recipe.apply`), and its ``neighbours`` (:meth:`Recipe.neighbours`).

    Where one is ``exact``, those that reorder sums have to be much faster to be taken. ``rounding`` says, for the report, what
    rounds otherwise than the loops, by a permission of the target.
    """

    name: str
    reorders: bool
    facts: Facts
    plan: Plan
    steps: Callable[[Verbs, Plan, Handles], None]
    neighbours: Callable[[Plan], list[Plan]]
    exact: bool = False
    rounding: str = ""

    def apply(self, sch: Verbs, loops: Handles) -> None:
        """Take the steps of the plan."""
        self.steps(sch, self.plan, loops)


class AnyRecipe(abc.ABC):
    """A recipe, whatever its facts and its plan are.

    ``name`` is the class of nests, as the report has it. A recipe whose steps change the order of sums says ``reorders``; from
    others no schedule is taken whose results could differ from the loops' by a bit.
    """

    name: ClassVar[str]
    reorders: ClassVar[bool] = False

    @abc.abstractmethod
    def bid(self, nests: Sequence[Nest], processor: Processor) -> Bid | Refusal:
        """What it offers for the first one of some nests that follow each other, or why it offers nothing."""


class Recipe(AnyRecipe, Generic[F, P]):
    """A class of nests and its schedule: what a file under ``recipes/`` defines."""

    @abc.abstractmethod
    def matches(self, nests: Sequence[Nest]) -> F | Refusal:
        """Whether the first one of some nests that follow each other is of the class, with those behind it that belong to it."""

    @abc.abstractmethod
    def plan(self, facts: F, processor: Processor) -> P | Refusal:
        """The parameters for a processor, and the time that they are predicted to take."""

    def exact(self, facts: F) -> bool:
        """Whether the bits of the sums are promised, whatever order the program leaves free."""
        return False

    def rounding(self, facts: F, plan: P) -> str:
        """What rounds otherwise than the written loops, where the target permits it; nothing, as a rule."""
        return ""

    def neighbours(self, facts: F, plan: P) -> list[P]:
        """Plans near one, for who measures them: each differs from it in one parameter."""
        return nearby(plan)

    @abc.abstractmethod
    def apply(self, sch: Verbs, facts: F, plan: P, loops: Handles) -> None:
        """Take the steps. Raises :class:`~tirlower.diagnostics.ScheduleError` where one is refused; all are taken back then."""

    def bid(self, nests: Sequence[Nest], processor: Processor) -> Bid | Refusal:
        """The facts, the plan and the steps, where the nest is of the class."""
        facts = self.matches(nests)
        if isinstance(facts, Refusal):
            return facts
        plan = self.plan(facts, processor)
        if isinstance(plan, Refusal):
            return plan
        return Bid(
            self.name,
            self.reorders,
            facts,
            plan,
            lambda sch, chosen, loops: self.apply(sch, facts, cast("P", chosen), loops),
            lambda chosen: [*self.neighbours(facts, cast("P", chosen))],
            self.exact(facts),
            self.rounding(facts, plan),
        )
