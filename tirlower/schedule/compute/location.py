"""What ``sample_compute_location`` may draw besides loops: inlined, or where it stands; a block is then computed so."""

from __future__ import annotations

from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.draft import ValueStep
from tirlower.schedule.kind import Kind
from tirlower.schedule.sites import Change
from tirlower.schedule.step import Step, judge

__all__ = ["INLINE", "ROOT", "Located"]

INLINE, ROOT = "inline", "root"
"""The names of the places that are no loops."""


class Located:
    """A step that moves a block to a loop, or does with it as a mark says that stands for a loop."""

    def __init__(self, moves: ValueStep, inlines: Kind) -> None:
        self.moves = moves
        self.inlines = inlines

    def check(self, step: Step) -> Verdict:
        """Whether the block may be moved, or inlined; where it stands it always may be."""
        mark = step.mark()
        if mark != INLINE:
            return PROVED if mark == ROOT else self.moves.check(step)
        other = step.other(self.inlines, block=step["block"])
        found = judge(other)
        step.plan, step.exactness = other.plan, other.exactness
        return found

    def rewrite(self, step: Step) -> Change:
        """The change."""
        mark = step.mark()
        if mark != INLINE:
            return Change() if mark == ROOT else self.moves.rewrite(step)
        other = step.other(self.inlines, block=step["block"])
        other.plan = step.plan
        return self.inlines.rewrite(other)
