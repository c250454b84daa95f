"""Loops that read what one of their iterations writes: that iteration by itself, those before it and behind it in vectors.

Index set splitting (Griebl, Feautrier and Lengauer 2000), where the one dependence that stands in the way of vectors goes through
one iteration: shortest paths (``d[i, j] = min(d[i, j], d[i, k] + d[k, j])``), transitive closures, eliminations in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, strides_of
from tirlower.autoschedule.model import ENTRY, seconds_of, trips
from tirlower.autoschedule.points import point_of
from tirlower.autoschedule.recipe import Facts, Handles, Plan, Recipe, Refusal
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.cancel import linear_difference
from tirlower.ir.expr import Expr, IntImm, is_const_int
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, For
from tirlower.machine.processor import Processor
from tirlower.poly import Loop

__all__ = ["ONE_APART", "OneApart", "OneApartPlan"]

PARTS: Final = 3
"""The loops that one becomes."""

FEW: Final = 8
"""The vectors in a row below which shorter ones leave less over."""

SHORT: Final = 128
"""The bits of the shortest vectors."""


@dataclass(frozen=True, eq=False)
class _Facts(Facts):
    """The loop that is cut, at which iteration, and how many are before it."""

    loop: Loop
    point: Expr
    before: Expr


@dataclass(frozen=True)
class OneApartPlan(Plan):
    """How many elements a vector has."""

    lanes: int


@dataclass(frozen=True)
class OneApart(Recipe[_Facts, OneApartPlan]):
    """The innermost loop in vectors, but for one iteration."""

    name: ClassVar[str] = "one iteration apart"

    def matches(self, nests: Sequence[Nest]) -> _Facts | Refusal:
        """Loops directly in each other, contiguous along the innermost, which reads what it writes in one iteration."""
        nest = nests[0]
        perfect = perfect_loops(nest)
        if len(perfect) < len(nest.loops) or not nest.statements or any(each(Block, nest.root)):
            return Refusal("its loops do not stand directly in each other")
        loop = perfect[-1]
        for access in nest.accesses():
            stride = strides_of(access).get(loop, 0)
            if access.indices is None or stride not in (0, 1) or (access.is_write and stride != 1):
                return Refusal(f"{access.text} is not contiguous along `{loop.name}`")
        point = point_of(nest.statements, loop)
        if point is None or not isinstance(loop.node, For):
            return Refusal(f"no one iteration of `{loop.name}` writes what all of them read")
        before = linear_difference(point, loop.node.min)
        if isinstance(before, IntImm) and before.value < 0:
            return Refusal(f"`{loop.name}` begins behind {point}, which all of its iterations read")
        return _Facts((nest,), loop, point, before)

    def plan(self, facts: _Facts, processor: Processor) -> OneApartPlan | Refusal:
        """One vector a statement: what is left of the two parts, element by element, is little."""
        accesses = list(facts.nests[0].accesses())
        bits = max(access.buffer.dtype.bits for access in accesses if access.buffer is not None)
        lanes = processor.lanes(f"uint{8 * -(-bits // 8)}")
        while lanes * bits > SHORT and trips(facts.loop) < FEW * lanes:
            lanes //= 2
        extent = extent_of(facts.loop)
        if lanes < 2 or (extent is not None and extent < PARTS * lanes):
            return Refusal(f"{extent} iterations are few vectors of {lanes}")
        entries = 1.0
        for loop in facts.loop.outer:
            entries *= trips(loop)
        steps = trips(facts.loop) / lanes + lanes  # the rests of two parts are half a vector each
        cycles = entries * (PARTS * ENTRY + steps * max(1.0, len(accesses) / 2))
        return OneApartPlan(seconds_of(cycles), f"`{facts.loop.name}` is cut at {facts.point}", lanes)

    def apply(self, sch: Verbs, facts: _Facts, plan: OneApartPlan, loops: Handles) -> None:
        """Cut the loop in front of the iteration and behind it."""
        loop = loops[facts.loop]
        parts = []
        if not is_const_int(facts.before, 0):
            before, loop = sch.loop_partition(loop, [str(facts.before)])
            parts.append(before)
        parts += sch.peel(loop, front=1)[1:]
        for part in parts:
            sch.vectorize(part, plan.lanes, tail="scalar")


ONE_APART: Final = OneApart()
