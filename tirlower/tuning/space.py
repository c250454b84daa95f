"""The candidates of a function: what recipes offer for its nests, with other numbers than the model's.

A candidate says for some nests which recipe they get, with which plan, or that they stay as written; the other nests get what
the model chooses. It is made by the automatic schedule itself, so each of its steps is proved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from tirlower.autoschedule.choose import Offer, Scheduled
from tirlower.autoschedule.explain import NestReport
from tirlower.autoschedule.recipe import Bid, Plan
from tirlower.diagnostics import TirError
from tirlower.driver.scheduling import automatic
from tirlower.ir.func import IRModule
from tirlower.machine.target import Target
from tirlower.schedule.trace import Trace

__all__ = ["Candidate", "Chosen", "Space", "digest_of"]

Chosen: TypeAlias = "Mapping[str, Bid | None]"
"""What nests get, by their titles: a bid, or None where they stay as written."""

EXACT = "bitwise equal"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule of a function: the choices that made it, how it differs from the untuned one, in words; the
    JSON of its trace, and its steps; or why it cannot be had (``error``)."""

    choices: Chosen
    change: str
    trace: str = ""
    exact: bool = True
    steps: Trace | None = None
    error: str = ""

    @cached_property
    def digest(self) -> str:
        """What tells its trace from others."""
        return digest_of(self.trace)


def digest_of(trace: str) -> str:
    """What tells the text of a trace from others."""
    return hashlib.blake2b(trace.encode(), digest_size=16).hexdigest()


class Space:
    """The candidates of a module of one function."""

    def __init__(self, mod: IRModule, target: Target, config: Mapping[str, object]) -> None:
        self._mod = mod
        self._target = target
        self._config = config
        self._offers: dict[str, list[Offer]] = {}
        self._taken: dict[Candidate, dict[str, Bid | None]] = {}

    def candidate(self, choices: Chosen, change: str) -> Candidate:
        """The schedule that some choices make."""

        def prefer(title: str, offers: list[Offer]) -> list[Offer]:
            self._offers.setdefault(title, offers)
            if title not in choices:
                return offers
            chosen = choices[title]
            if chosen is None:
                return []
            named = [one for one in offers if one.bid.name == chosen.name]
            return [replace(one, part=0.0, bid=replace(one.bid, plan=chosen.plan)) for one in named]

        try:
            made = automatic(self._mod, self._target, self._config, prefer)
        except TirError as error:
            return Candidate(choices, change, error=error.message)
        for title, bid in choices.items():
            if bid is not None and not _is_taken(title, bid, made):
                notes = [note for report in made.nests if _title(report) == title for note in report.notes]
                why = next((note for note in notes if note.startswith(f"no {bid.name}: ")), f"no {bid.name}")
                return Candidate(choices, change, error=f"{title}: {why}")
        trace = next((one.trace for one in made.functions.values() if one.taken is not None), Trace())
        text = json.dumps(trace.as_json(dialect="tirlower"))
        exact = all(report.exactness == EXACT for report in made.nests)
        found = Candidate(choices, change, text, exact, trace)
        self._taken[found] = self._bids(choices, made)
        return found

    def neighbours(self, of: Candidate) -> Iterator[Candidate]:
        """Schedules that differ from one in what a single nest gets, those of the longest nests first."""
        for title, bid in self._taken[of].items():
            for other in self._others(title, bid):
                choices = {**of.choices, title: other}
                yield self.candidate(choices, "; ".join(self._said(one, choices[one]) for one in choices))

    def _others(self, title: str, bid: Bid | None) -> Iterator[Bid | None]:
        """What else a nest may get."""
        if bid is not None:
            for plan in bid.neighbours(bid.plan):
                yield replace(bid, plan=plan)
        for offer in self._offers[title]:
            if bid is None or offer.bid.name != bid.name:
                yield offer.bid
        if bid is not None:
            yield None

    def _said(self, title: str, bid: Bid | None) -> str:
        """What a nest gets, in words: how it differs from what was offered."""
        if bid is None:
            return f"{title}: as written"
        [plan] = [offer.bid.plan for offer in self._offers[title] if offer.bid.name == bid.name]
        return f"{title}: {bid.name}" + _difference(plan, bid.plan)

    def _bids(self, choices: Chosen, made: Scheduled) -> dict[str, Bid | None]:
        """What each nest of a schedule got, by its title, of which recipes bid; the longest first."""
        found: dict[str, Bid | None] = {}
        for report in sorted(made.nests, key=lambda report: -(report.seconds or report.written)):
            title = _title(report)
            if title not in self._offers or title in found:
                continue
            named = [offer.bid for offer in self._offers[title] if offer.bid.name == report.recipe]
            found[title] = choices.get(title, named[0] if named else None)
        return found


def _title(report: NestReport) -> str:
    """The title of the first of the nests that were scheduled together."""
    return report.nest.partition("; ")[0]


def _is_taken(title: str, bid: Bid, made: Scheduled) -> bool:
    """Whether a nest got what was chosen for it."""
    return any(_title(report) == title and report.recipe == bid.name for report in made.nests)


def _difference(plan: Plan, other: Plan) -> str:
    """In which parameters a plan differs from another one: ``, rows 6 -> 8``."""
    mine, theirs = plan.parameters, other.parameters
    return "".join(f", {name} {mine[name]} -> {theirs[name]}" for name in mine if mine[name] != theirs[name])
