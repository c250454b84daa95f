"""Nests that go along the same rows, each of which hands on to the same row of others only: they can be run in step."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.autoschedule.classify import Nest
from tirlower.poly import Access, Loop

__all__ = ["Chain", "row_of"]


class Chain:
    """Nests that go along the same rows, each of which hands on to the same row of others only."""

    def __init__(self) -> None:
        self.nests: list[Nest] = []
        self.depth = 0
        self._seen: dict[object, list[tuple[bool, tuple[int, ...]]]] = {}
        """Of each memory, whether it is written, and which subscripts are the loops over rows: once each."""

    def take(self, nest: Nest) -> bool:
        """Take a nest, if it belongs to the chain."""
        depth = min(self.depth, nest.row_loops) if self.nests else nest.row_loops
        if not depth or (self.nests and not self._along(nest, depth)):
            return False
        found = [(access.data, access.is_write, row_of(access, nest.loops[:depth])) for access in nest.accesses()]
        if self.nests and not any(data in self._seen or nest.scop.homes.get(data) == () for data, _, _ in found):
            return False
        for data, written, row in found:
            for other_written, other in self._seen.get(data, ()):
                if (written or other_written) and (len(row) < depth or row != other[:depth]):
                    return False
        for data, written, row in found:
            known = self._seen.setdefault(data, [])
            if (written, row) not in known:
                known.append((written, row))
        self.nests.append(nest)
        self.depth = depth
        return True

    def _along(self, nest: Nest, depth: int) -> bool:
        """Whether rows of a nest are those of the chain."""
        return all(
            a.extent is not None
            and b.extent is not None
            and a.extent.key == b.extent.key
            and a.start.key == b.start.key
            for a, b in zip(self.nests[0].loops[:depth], nest.loops[:depth], strict=True)
        )

    def until_its_last_sum(self) -> int:
        """Leave what stands behind the last nest that the rows' sums need; how many loops go along rows then, 0 where nothing
        is summed up."""
        ends: list[tuple[int, int]] = []  # of the nests up to each one: loops along rows, in how many loops sums stand
        for nest in self.nests:
            depth, deep = ends[-1] if ends else (nest.row_loops, 0)
            ends.append((min(depth, nest.row_loops), max(deep, nest.sum_depth)))
        while ends and ends[-1][1] <= ends[-1][0]:
            ends.pop()
        del self.nests[len(ends) :]
        return ends[-1][0] if ends else 0


def row_of(access: Access, rows: Sequence[Loop]) -> tuple[int, ...]:
    """Which subscripts are the loops over rows, one by one, up to the first one that is none."""
    found: list[int] = []
    for loop in rows:
        at = [dim for dim, form in enumerate(access.indices or ()) if form.terms == {loop.var: 1} and form.const == 0]
        if len(at) != 1:
            break
        found.append(at[0])
    return tuple(found)
