"""The verbs of a schedule that recipes use, with their types: the schedule's own are made from a table, which no checker sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tirlower.ir.expr import Expr
from tirlower.schedule.handles import BlockRV, LoopRV

__all__ = ["Verbs"]


class Verbs(Protocol):
    """A schedule, as recipes see it (docs/schedule_verbs.md says what each verb does, and when it is refused)."""

    def loop(self, selector: str) -> LoopRV:
        """A loop by a selector."""

    def loops(self, name: str) -> list[LoopRV]:
        """The loops around a block, or around what writes a buffer."""

    def get_block(self, name: str) -> BlockRV:
        """A block by its name."""

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block."""

    def split(self, loop: LoopRV, factors: Sequence[int | Expr | None]) -> list[LoopRV]:
        """Split a loop."""

    def fuse(self, *loops: LoopRV) -> LoopRV:
        """Fuse loops."""

    def reorder(self, *loops: LoopRV) -> None:
        """Put loops in an order."""

    def loop_partition(self, loop: LoopRV, factors: Sequence[int | None]) -> list[LoopRV]:
        """Cut the iterations of a loop into ranges."""

    def fission(self, loop: LoopRV, at: int | None = None) -> list[LoopRV]:
        """Give each statement of a loop's body a loop of its own."""

    def parallel(self, loop: LoopRV) -> None:
        """Run a loop in parallel."""

    def vectorize(self, loop: LoopRV) -> None:
        """Run a loop as lanes."""

    def unroll(self, loop: LoopRV) -> None:
        """Write a loop out."""

    def pack(self, buffer: str, at: LoopRV | None = None, layout: object = None) -> list[LoopRV]:
        """Copy what a loop reads of a buffer, laid out anew."""

    def register_tile(
        self, target: str, loops: Sequence[LoopRV], at: LoopRV, vector: LoopRV | None = None
    ) -> list[LoopRV]:
        """Keep a tile of an accumulator in registers."""
