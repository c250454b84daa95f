"""Whether indices that read memory have one value in all of an allocation's scope: for CompactBufferAllocation.

An index such as ``I[i]`` names one element as long as nothing writes ``I``. Writes are logged in program order; those in
a loop come before the accesses of its next iteration.
"""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.purity import side_effect
from tirlower.ir.expr import BufferLoad, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Purity
from tirlower.ir.query import each

__all__ = ["WriteLog", "memory_read"]


def memory_read(expr: Expr) -> set[Var] | None:
    """The data variables that an expression reads; None where it does more than that."""
    effect = side_effect(expr)
    if effect is Purity.PURE:
        return set()
    if effect is not Purity.READS:
        return None
    return {load.buffer.data for load in each(BufferLoad, expr)}


class WriteLog:
    """What a function writes, when, and in how many loops."""

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        self._writes: list[tuple[int, int, Var | None]] = []
        self.now = 0

    def tick(self) -> int:
        """The next moment."""
        self.now += 1
        return self.now

    def wrote(self, data: Var | None, nesting: int) -> None:
        """Memory is written inside ``nesting`` loops; None is any memory."""
        self._writes.append((self.tick(), nesting, data))

    def unchanged(self, loads: Iterable[Var], start: int, stop: int, nesting: int) -> bool:
        """Whether memory is the same between two moments of a scope that stands in ``nesting`` loops."""
        aliases = Aliases(self._func)
        return not any(
            time > start
            and (time < stop or depth > nesting)
            and (data is None or any(aliases.may_alias(data, load) for load in loads))
            for time, depth, data in self._writes
        )
