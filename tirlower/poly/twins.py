"""What the accesses of a rewritten program were in the program before, and which statements stay where they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tirlower.ir import Expr, For, Var
from tirlower.poly.conditions import Condition
from tirlower.poly.instances import Instances, inexact_conditions
from tirlower.poly.scop import Access, Loop, Statement

__all__ = ["Handed", "Matching", "Twin", "same_bounds"]


@dataclass(frozen=True)
class Twin:
    """An access of the program before, in the instance in which its loops have these values (in terms of the loops around
    the access of the program after; a loop that is not named has its own variable there)."""

    access: Access
    values: Mapping[Var, Expr] = field(default_factory=dict)


@dataclass(frozen=True)
class Handed:
    """A value that a read is known to see: of a write in the same program, in the instance whose loops have these values."""

    read: Access
    write: Access
    values: Mapping[Var, Expr] = field(default_factory=dict)


class Matching:
    """Twins of all accesses, the statements that changed, and the memory (``relevant``) of which anything changed."""

    def __init__(
        self,
        before: Instances,
        after: Instances,
        twins: dict[Access, Twin],
        copies: Collection[Statement],
        where: Mapping[Statement, Condition],
    ) -> None:
        self.before = before
        self.after = after
        self.twins = twins
        self.copies = copies
        self.where = where
        self.changed: list[Statement] = []
        self.staying: set[Statement] = set()
        self.relevant: set[Var] = set()
        self._last = -1
        self._there: dict[Loop, Loop] = {}
        self._back: dict[Loop, Loop] = {}
        self._match()

    def _match(self) -> None:
        """Twins of the statements that both programs have, what moved, and the memory of which anything changed.

        A statement stays where its loops are the same, those of others too, and it keeps its place among all that stay:
        of such a one only the accesses count that touch something else.
        """
        by_node: dict[int, list[Statement]] = {}
        for statement in self.before.scop.statements:
            by_node.setdefault(id(statement.node), []).append(statement)
        stays: set[Statement] = set()
        for statement in self.after.scop.statements:
            twin = None
            if statement not in self.copies:
                if any(access in self.twins for access in statement.accesses):
                    twin = self._told(statement)
                else:
                    found = by_node.get(id(statement.node), [])
                    twin = next((one for one in found if one not in stays and self._stays(statement, one)), None)
                    if twin is not None and len(twin.accesses) == len(statement.accesses):
                        for mine, other in zip(statement.accesses, twin.accesses, strict=True):
                            self.twins[mine] = Twin(other)
            if twin is None or twin in stays or not self._stays(statement, twin):
                self._twin_by_node(statement, by_node)
                self.changed.append(statement)
                self.relevant.update(access.data for access in statement.accesses)
                continue
            self._keep(statement, twin)
            stays.add(twin)
            self.staying.add(statement)
            seen: set[Access] = set()
            for access in statement.accesses:
                was = self.twins[access].access if access in self.twins else None
                if was is None or not _touches_the_same(access, was):
                    self.relevant.add(access.data)
                if was is not None:
                    seen.add(was)
                    if not _touches_the_same(access, was):
                        self.relevant.add(was.data)
            self.relevant.update(access.data for access in twin.accesses if access not in seen)
        for statement in self.before.scop.statements:
            if statement not in stays:
                self.changed.append(statement)
                self.relevant.update(access.data for access in statement.accesses)

    def _twin_by_node(self, statement: Statement, by_node: Mapping[int, Sequence[Statement]]) -> None:
        """Twins of a statement that both programs have, in the same loops, but at another time."""
        if statement in self.copies or any(access in self.twins for access in statement.accesses):
            return
        own = [loop.var for loop in statement.loops]
        for one in by_node.get(id(statement.node), []):
            if [loop.var for loop in one.loops] == own and len(one.accesses) == len(statement.accesses):
                for mine, other in zip(statement.accesses, one.accesses, strict=True):
                    self.twins[mine] = Twin(other)
                return

    def _told(self, statement: Statement) -> Statement | None:
        """The one statement, in the same iteration, that all accesses with twins have theirs in."""
        found = [self.twins[access] for access in statement.accesses if access in self.twins]
        first = found[0].access.statement
        if statement in self.where or any(one.values or one.access.statement is not first for one in found):
            return None
        return first

    def _stays(self, statement: Statement, twin: Statement) -> bool:
        """Whether a statement stays where it was."""
        if twin.order < self._last or len(twin.loops) != len(statement.loops):
            return False
        same = all(
            mine.var is other.var
            and same_bounds(mine, other)
            and self._there.get(other, mine) is mine
            and self._back.get(mine, other) is other
            for mine, other in zip(statement.loops, twin.loops, strict=True)
        )
        return same and (len(twin.conditions) == len(statement.conditions) or self._runs_alike(statement, twin))

    def _runs_alike(self, statement: Statement, twin: Statement) -> bool:
        """Whether two statements in the same loops have the same instances."""
        if not statement.accesses or not twin.accesses:
            return False
        mine, other = statement.accesses[-1], twin.accesses[-1]
        if inexact_conditions(mine) or inexact_conditions(other):
            return False
        sets = [
            program.to(access, len(access.coordinates), "X", [loop.var for loop in access.loops]).range()
            for program, access in ((self.after, mine), (self.before, other))
        ]
        return sets[0].is_equal(sets[1])

    def _keep(self, statement: Statement, twin: Statement) -> None:
        self._last = twin.order
        for mine, other in zip(statement.loops, twin.loops, strict=True):
            self._there[other] = mine
            self._back[mine] = other

    # What no flow of values shows


def same_bounds(a: Loop, b: Loop) -> bool:
    """Whether two loops run over the same numbers, as their nodes say it."""
    if not isinstance(a.node, For) or not isinstance(b.node, For):
        return type(a.node) is type(b.node)
    return a.node.min is b.node.min and a.node.extent is b.node.extent


def _touches_the_same(access: Access, other: Access) -> bool:
    """Whether two accesses are of one buffer at the very same indices."""
    if access.node is other.node:
        return True
    if access.data is not other.data or access.buffer is not other.buffer:
        return False
    mine, theirs = getattr(access.node, "indices", None), getattr(other.node, "indices", None)
    return (
        mine is not None
        and theirs is not None
        and len(mine) == len(theirs)
        and all(x is y for x, y in zip(mine, theirs, strict=True))
        and access.node.predicate is other.node.predicate  # type: ignore[union-attr]
    )
