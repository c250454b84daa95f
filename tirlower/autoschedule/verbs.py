"""The verbs of a schedule that recipes use, with their types: the schedule's own are made from a table, which no checker sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import IRModule
from tirlower.schedule.handles import BlockRV, Handle, LoopRV

__all__ = ["Verbs"]


class Verbs(Protocol):
    """A schedule, as recipes see it (docs/schedule_verbs.md says what each verb does, and when it is refused)."""

    @property
    def mod(self) -> IRModule:
        """The module as it is now; its one function is ``main``."""

    def get(self, rand_var_or_handle: Handle | Var) -> object:
        """What a handle stands for now."""

    def loop(self, selector: str) -> LoopRV:
        """A loop by a selector."""

    def loops(self, name: str) -> list[LoopRV]:
        """The loops around a block, or around what writes a buffer."""

    def get_block(self, name: str) -> BlockRV:
        """A block by its name."""

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """The loops around a block."""

    def add_unit_loop(self, block_or_loop: LoopRV | BlockRV) -> LoopRV:
        """Put a loop of one iteration around something."""

    def split(self, loop: LoopRV, factors: Sequence[int | Expr | None]) -> list[LoopRV]:
        """Split a loop."""

    def fuse(self, *loops: LoopRV) -> LoopRV:
        """Fuse loops."""

    def count(self, name: str) -> LoopRV:
        """Make a loop over its numbers of a ``while`` that counts."""

    def reorder(self, *loops: LoopRV) -> None:
        """Put loops in an order."""

    def loop_partition(self, loop: LoopRV, factors: Sequence[int | str | None]) -> list[LoopRV]:
        """Cut the iterations of a loop into ranges."""

    def fission(self, loop: LoopRV, at: int | None = None) -> list[LoopRV]:
        """Give each statement of a loop's body a loop of its own."""

    def as_loops(self, block: BlockRV | str) -> None:
        """Let what a block holds stand in the loops around it."""

    def parallel(self, loop: LoopRV, *, reduction: bool = False) -> None:
        """Run a loop in parallel."""

    def vectorize(
        self, loop: LoopRV, lanes: int | None = None, *, tail: str = "exact", reduction: bool = False
    ) -> list[LoopRV] | None:
        """Run a loop as lanes; with a number of them it becomes two loops."""

    def annotate(self, block_or_loop: LoopRV | BlockRV, ann_key: str, ann_val: object) -> None:
        """Annotate a loop."""

    def compute_inline(self, block: LoopRV | BlockRV | str) -> None:
        """Put what a nest computes in the place of the loads of its result."""

    def contract(self, buffer: str, dim: int) -> None:
        """Take a dimension from a buffer."""

    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Put the init of a reduction in front of a loop."""

    def fuse_siblings(self, first: LoopRV, second: LoopRV, shift: int = 0) -> LoopRV:
        """Run two loops that stand beside each other in step, the second one some iterations behind."""

    def skew(self, outer: LoopRV, inner: LoopRV, f: int) -> None:
        """Let a loop count from a multiple of one around it further on."""

    def interchange(self, outer: LoopRV, inner: LoopRV) -> None:
        """Let two loops change places."""

    def peel(self, loop: LoopRV, front: int = 0, back: int = 0, *, beyond: int = 0, tail: str = "rest") -> list[LoopRV]:
        """Give the first and the last iterations of a loop, or those beyond a multiple, loops of their own."""

    def specialize(self, where: LoopRV | BlockRV | str, *conditions: str, upto: LoopRV | None = None) -> None:
        """Write a statement once more for where a condition holds."""

    def prefetch(self, buffer: str, loop: LoopRV, of: LoopRV, *, ahead: int = 1) -> None:
        """Ask for what a later iteration reads."""

    def privatize(self, buffer: str, loop: LoopRV) -> None:
        """Give each iteration of a loop a buffer of its own."""

    def stage_mem(
        self, where: LoopRV, window: str, *, load: object = "auto", store: object = "auto", inside: bool = False
    ) -> list[LoopRV]:
        """Keep what a loop touches of a buffer in memory of its own."""

    def simplify(self, block_or_loop: LoopRV | BlockRV) -> None:
        """Put in what is known where a loop stands."""

    def unroll_jam(self, loop: LoopRV, factor: int) -> LoopRV:
        """Do several iterations of a loop at once."""

    def unroll(self, loop: LoopRV) -> None:
        """Write a loop out."""

    def unflatten(self, buffer: str, shape: str) -> None:
        """See a parameter of one dimension in several."""

    def expand(self, buffer: str, loop: LoopRV) -> None:
        """Allocate what each iteration of a loop allocates once in front of it."""

    def inline_bind(self, name: str, at: LoopRV | None = None) -> None:
        """Put a value that has a name in the place of the name."""

    def materialize(self, name: str, at: LoopRV | None = None) -> None:
        """Store what has a name in memory of its own."""

    def pack(
        self, buffer: str, at: LoopRV | None = None, layout: object = None, *, parallel: bool = False
    ) -> list[LoopRV]:
        """Copy what a loop reads of a buffer, laid out anew."""

    def register_tile(
        self, target: str, loops: Sequence[LoopRV], at: LoopRV, vector: LoopRV | None = None, *, store: object = "auto"
    ) -> list[LoopRV]:
        """Keep a tile of an accumulator in registers."""
