"""What a verb means by a block where there are none: the statement or nest that writes one buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tirlower.ir.buffer import Buffer
from tirlower.ir.stmt import Block, BufferStore, For, Stmt
from tirlower.schedule.edits import Site, Steps
from tirlower.schedule.uses import UsesOf

__all__ = ["Stage", "nests_of", "stores_of"]


@dataclass(frozen=True)
class Stage:
    """What computes: a block, or a statement or nest of plain loops. ``site`` is its place, ``stmt`` what stands there;
    ``reads`` and ``writes`` are its buffers: those that a block declares, those that plain statements use, in the order of the text.
    """

    site: Site
    stmt: Stmt
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    @property
    def block(self) -> Block | None:
        """The block; None where there is none."""
        return self.stmt if isinstance(self.stmt, Block) else None

    @classmethod
    def of(cls, site: Site, stmt: Stmt, uses: UsesOf) -> Stage:
        """What stands at a place."""
        if isinstance(stmt, Block):
            reads, writes = ([region.buffer for region in side] for side in (stmt.reads, stmt.writes))
            return cls(site, stmt, tuple(reads), tuple(writes))
        found = uses(stmt)
        return cls(site, stmt, tuple(found.reads), tuple(found.writes))

    def stores(self) -> list[tuple[Steps, BufferStore]]:
        """Its stores, each with the way from here, in the order of the text; those of an init of its own first."""
        return list(stores_of(self.stmt))


def stores_of(stmt: Stmt) -> Iterator[tuple[Steps, BufferStore]]:
    """The stores under a statement, each with the way to it, in the order of the text."""
    stack: list[tuple[Steps, Stmt]] = [((), stmt)]
    while stack:
        way, op = stack.pop()
        if isinstance(op, BufferStore):
            yield way, op
            continue
        inside: list[tuple[Steps, Stmt]] = []
        for name in op.child_names:
            value = getattr(op, name)
            if isinstance(value, Stmt):
                inside.append(((*way, name), value))
            elif isinstance(value, tuple):
                inside += [((*way, name, at), one) for at, one in enumerate(value) if isinstance(one, Stmt)]
        stack += inside[::-1]


def nests_of(root: Stmt, name: str, uses: UsesOf) -> list[tuple[Steps, Stmt]]:
    """The outermost loops and statements that write the buffer of a name and nothing else, outside of blocks."""
    found: list[tuple[Steps, Stmt]] = []
    stack: list[tuple[Steps, Stmt]] = [((), root)]
    while stack:
        way, op = stack.pop()
        written = {buffer.name for buffer in uses(op).writes}
        # What a statement allocates is no use of it, and is written inside all the same.
        if isinstance(op, Block) and op.iters:
            continue
        if isinstance(op, (For, BufferStore)) and written == {name}:
            found.append((way, op))
            continue
        inside: list[tuple[Steps, Stmt]] = []
        for field in op.child_names:
            value = getattr(op, field)
            if isinstance(value, Stmt):
                inside.append(((*way, field), value))
            elif isinstance(value, tuple):
                inside += [((*way, field, at), one) for at, one in enumerate(value) if isinstance(one, Stmt)]
        stack += inside[::-1]
    return found
