"""Handles: what a user holds of a program that changes under it.

A handle has no state but an identity and a name for messages; where it stands is the schedule's to know
(:mod:`tirlower.schedule.sites`), and what it stands for is asked of the schedule that made it.
"""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block, BufferStore, For, Stmt

__all__ = ["BlockRV", "BufferRV", "ExprRV", "GapRV", "Handle", "InText", "LoopRV", "Owner", "StmtRV", "handle_of"]


class Owner(Protocol):
    """What a handle asks of its schedule."""

    def loop_at(self, handle: LoopRV) -> For:
        """The loop that a handle stands for."""

    def block_at(self, handle: BlockRV) -> Block | PrimFunc:
        """The block that a handle stands for; the function where it is the root of one without a root block."""

    def loops_around(self, handle: BlockRV) -> list[LoopRV]:
        """The loops around a block, recorded as a look-up."""

    def twins_of(self, handle: Handle) -> list[Handle]:
        """The handles of the other copies of what a handle stands for."""

    def beside(self, handle: Handle, to: str) -> list[Handle]:
        """What stands around, in or beside what a handle stands for, recorded as a look-up."""

    def buffers_of(self, handle: Handle, side: str) -> list[Buffer]:
        """The buffers that it reads or writes."""


class Handle:
    """Base of all handles. Compared by identity."""

    __slots__ = ("__weakref__", "name", "owner")
    what: ClassVar[str] = "statement"
    prefix: ClassVar[str] = "s"

    def __init__(self, name: str, owner: Owner) -> None:
        self.name = name
        self.owner = owner

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def twins(self) -> list[Handle]:
        """The other copies, where a step wrote what it stands for several times."""
        return self.owner.twins_of(self)


class InText(Handle):
    """A loop, block or statement: where it stands in the text can be asked. All of it is of the program as it is now."""

    __slots__ = ()

    def _one(self, to: str) -> Handle | None:
        found = self.owner.beside(self, to)
        return found[0] if found else None

    @property
    def parent(self) -> Handle | None:
        """The loop or block around it; None where there is none."""
        return self._one("parent")

    @property
    def body(self) -> list[Handle]:
        """The statements inside of it, in the order of the text."""
        return self.owner.beside(self, "body")

    @property
    def next(self) -> Handle | None:
        """The statement behind it in its sequence; None where it is the last."""
        return self._one("next")

    @property
    def prev(self) -> Handle | None:
        """The statement in front of it in its sequence; None where it is the first."""
        return self._one("prev")

    @property
    def before(self) -> Handle | None:
        """The gap in front of it, which goes where it goes."""
        return self._one("before")

    @property
    def after(self) -> Handle | None:
        """The gap behind it, which goes where it goes."""
        return self._one("after")

    @property
    def reads(self) -> list[Buffer]:
        """The buffers that it reads, in the order of the text."""
        return self.owner.buffers_of(self, "read")

    @property
    def writes(self) -> list[Buffer]:
        """The buffers that it writes, in the order of the text."""
        return self.owner.buffers_of(self, "write")


class LoopRV(InText):
    """A loop: its iterations, wherever they go."""

    __slots__ = ()
    what = "loop"
    prefix = "l"

    @property
    def var(self) -> Var:
        """The variable of the loop as it is now."""
        return self.owner.loop_at(self).loop_var

    @property
    def min(self) -> Expr:
        """Where the loop starts."""
        return self.owner.loop_at(self).min

    @property
    def extent(self) -> Expr:
        """How often the loop runs."""
        return self.owner.loop_at(self).extent


class BlockRV(InText):
    """A block: its computation, wherever it goes."""

    __slots__ = ()
    what = "block"
    prefix = "b"

    @property
    def loops(self) -> list[LoopRV]:
        """The loops around it up to the next block, outermost first."""
        return self.owner.loops_around(self)


class StmtRV(InText):
    """A statement that is neither a loop nor a block."""

    __slots__ = ()


class GapRV(Handle):
    """A place between statements: ``side`` ("before" or "after") of a statement, wherever that goes, and behind what is put there."""

    __slots__ = ("side",)
    what = "gap"
    prefix = "g"

    def __init__(self, name: str, owner: Owner, side: str = "before") -> None:
        super().__init__(name, owner)
        self.side = side


class BufferRV(Handle):
    """A buffer: its contents, whatever its scope and layout become."""

    __slots__ = ()
    what = "buffer"
    prefix = "m"


ExprRV: TypeAlias = Var
"""An int32 variable that the schedule gives a value."""


def handle_of(node: Stmt | PrimFunc | Buffer, owner: Owner) -> Handle:
    """A new handle of the kind that a statement takes."""
    if isinstance(node, For):
        return LoopRV(node.loop_var.name, owner)
    if isinstance(node, Block):
        return BlockRV(node.name, owner)
    if isinstance(node, Buffer):
        return BufferRV(node.name, owner)
    if isinstance(node, BufferStore):
        return StmtRV(node.buffer.name, owner)
    return BlockRV("root", owner) if isinstance(node, PrimFunc) else StmtRV(type(node).__name__.lower(), owner)
