"""Any nest: the loop innermost along which memory is contiguous, and one loop in parallel that is proved to be.

What is left is for LLVM. The order of the loops of a sum among each other stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, strides_of
from tirlower.autoschedule.model import PARALLEL_SECONDS, cycles_of, seconds_of
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.verbs import Verbs
from tirlower.autoschedule.versions import in_parallel, said
from tirlower.machine.processor import Processor
from tirlower.poly import Loop, is_parallel

__all__ = ["FALLBACK", "Fallback", "FallbackPlan"]


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The loops that stand directly in each other, outermost first, and those of them that a sum runs over."""

    perfect: tuple[Loop, ...]
    sums: frozenset[Loop]

    @property
    def nest(self) -> Nest:
        """The nest."""
        return self.nests[0]


@dataclass(frozen=True)
class FallbackPlan(Plan):
    """The loop that becomes the innermost one (where another one is), and the one that runs in parallel, by name."""

    innermost: str | None = None
    parallel: str | None = None


@dataclass(frozen=True)
class Fallback(Recipe[_Facts, FallbackPlan]):
    """Interchange for contiguous memory, and one parallel loop."""

    name: ClassVar[str] = "loops"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """Every nest is of this class."""
        nest = nests[0]
        perfect = perfect_loops(nest)
        sums = set[Loop]()
        for statement in nest.statements:
            written = [strides_of(access) for access in statement.accesses if access.is_write]
            sums |= {loop for loop in statement.loops if any(loop not in strides for strides in written)}
        return _Facts((nest,), perfect, frozenset(sums))

    def plan(self, facts: _Facts, processor: Processor) -> FallbackPlan | Refusal:
        """The order that is predicted to be the fastest, and the outermost loop of it that may run in parallel."""
        nest = facts.nest
        costs = [(self._cycles(facts, order, processor), order) for order in _orders(facts)]
        cycles, order = min(costs, key=lambda one: one[0])
        if cycles > 0.8 * costs[0][0]:
            cycles, order = costs[0]
        seconds = seconds_of(cycles)
        rule = f"memory is contiguous along {order[-1].name}" if order is not costs[0][1] else ""
        parallel = None
        if processor.threads > 1:
            if seconds < PARALLEL_SECONDS:
                rule = _joined(rule, f"not parallel: {seconds * 1e6:.2g} µs of work")
            else:
                parallel = next((loop for loop in order if self._may(nest, loop)), None)
                rule = _joined(rule, "" if parallel else "not parallel: no loop is proved to be")
        if parallel is not None:
            seconds /= min(processor.threads, extent_of(parallel) or processor.threads)
            rule = _joined(rule, said(facts.nests, seconds))
        if order is costs[0][1] and parallel is None:
            return Refusal(rule or "the loops stand as they should")
        return FallbackPlan(
            seconds, rule, order[-1].name if order is not costs[0][1] else None, parallel.name if parallel else None
        )

    @staticmethod
    def _may(nest: Nest, loop: Loop) -> bool:
        extent = extent_of(loop)
        return (extent is None or extent > 1) and is_parallel(nest.scop, loop).proved

    @staticmethod
    def _cycles(facts: _Facts, order: tuple[Loop, ...], processor: Processor) -> float:
        """The cycles of all statements with the perfect loops in an order."""
        total = 0.0
        for statement in facts.nest.statements:
            inside = [loop for loop in statement.loops if loop not in order]
            total += cycles_of(statement, [*order, *inside], processor)
        return total

    def apply(self, sch: Verbs, facts: _Facts, plan: FallbackPlan, loops: Handles) -> None:
        """Reorder, then run a loop in parallel."""
        if plan.innermost is not None:
            order = next(order for order in _orders(facts) if order[-1].name == plan.innermost)
            sch.reorder(*(loops[loop] for loop in order))
        if plan.parallel is not None:
            loop = next(loop for loop in facts.perfect if loop.name == plan.parallel)
            in_parallel(sch, loops[loop], facts.nests, plan.seconds)


FALLBACK: Final = Fallback()


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _orders(facts: _Facts) -> Iterator[tuple[Loop, ...]]:
    """The order as written, then those with another loop innermost; loops of a sum keep theirs."""
    yield facts.perfect
    for last in facts.perfect[:-1]:
        order = (*(loop for loop in facts.perfect if loop is not last), last)
        before = [loop for loop in facts.perfect if loop in facts.sums]
        if [loop for loop in order if loop in facts.sums] == before:
            yield order
