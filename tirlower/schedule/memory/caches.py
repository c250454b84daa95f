"""What the caches have in common: where a copy of a buffer stands among the nests of a scope, and the copy itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.query import has
from tirlower.ir.stmt import AllocBuffer, Block, BlockIter, BufferStore, For, ForKind, Seq, Stmt
from tirlower.schedule.draft import Draft
from tirlower.schedule.places import blocks_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["Row", "cache_name", "cached_copy", "has_blocks", "new_buffer", "place_new", "row_of", "scope_body", "under"]


@dataclass(frozen=True)
class Row:
    """Statements one after another: what stands at a place, the body of a scope or a loop; one that is no sequence is alone."""

    body: Steps
    stmt: Stmt

    @classmethod
    def at(cls, func: PrimFunc, body: Steps) -> Row:
        """The row that stands at a place."""
        stmt = Path(body).chain(func)[-1]
        assert isinstance(stmt, Stmt)
        return cls(body, stmt)

    @classmethod
    def around(cls, func: PrimFunc, path: Steps) -> Row:
        """The row that a statement is one of."""
        return cls.at(func, path[:-2] if len(path) > 2 and path[-2] == "stmts" else path)

    @property
    def stmts(self) -> tuple[Stmt, ...]:
        """The statements."""
        return self.stmt.stmts if isinstance(self.stmt, Seq) else (self.stmt,)

    def place(self, at: int) -> Steps:
        """The place of a statement, by its number."""
        return (*self.body, "stmts", at) if isinstance(self.stmt, Seq) else self.body

    def of(self, path: Steps) -> int:
        """The number of the statement that a place is in; -1 for none."""
        depth = len(self.body)
        if path[:depth] != self.body:
            return -1
        if not isinstance(self.stmt, Seq):
            return 0
        at = path[depth + 1] if len(path) > depth + 1 else -1
        assert isinstance(at, int)
        return at


def row_of(func: PrimFunc, scope: Steps, paths: Sequence[Steps], writers: Sequence[Steps]) -> Row:
    """The row in which readers and writers of a buffer are apart: that of the scope, or that of a loop around all of them."""
    row = Row.at(func, scope)
    while True:
        mine = {row.of(path) for path in paths}
        theirs = {row.of(path) for path in writers if row.of(path) >= 0}
        if len(mine | theirs) != 1 or not theirs:
            return row
        at = mine.pop()
        place, stmt = row.place(at), row.stmts[at]
        if not isinstance(stmt, For) or not all(len(p) > len(place) + 1 for p in (*paths, *writers)):
            return row
        row = Row.at(func, (*place, "body"))


def scope_body(func: PrimFunc, path: Steps) -> Steps:
    """The place of the body of the block around a place; of the function's where there is none."""
    around = blocks_at(func, path)
    return (*around[-1][0], "body") if around else ("body",)


def under(step: Step, func: PrimFunc, path: Steps) -> set[Stmt]:
    """The statements under a place."""
    root = Path(path).chain(func)[-1]
    assert isinstance(root, Stmt)
    return {stmt for _, stmt in step.facts.inside(root)}


def cache_name(buffer: Buffer, scope: str) -> str:
    """The name of a cache: ``A_shared``, ``A_shared_dyn``."""
    return f"{buffer.name}_{scope.replace('.', '_')}"


def new_buffer(buffer: Buffer, scope: str, name: str | None = None) -> Buffer:
    """A compact buffer of the same shape in another scope."""
    return Buffer(name or cache_name(buffer, scope), buffer.shape, buffer.dtype, scope=scope)


def place_new(draft: Draft, row: Row, buffer: Buffer) -> None:
    """Allocate a buffer at the head of the block around a row, or of the row itself."""
    func = draft.old
    blocks = blocks_at(func, row.body)
    whole = [(way, block) for way, block in blocks if not block.iters]
    body = (*whole[0][0], "body") if whole and len(blocks) == len(whole) else row.body
    head = Row.at(func, body)
    at = next((at for at, stmt in enumerate(head.stmts) if not isinstance(stmt, AllocBuffer)), None)
    if at is None:
        draft.after(head.place(len(head.stmts) - 1), AllocBuffer(buffer))
    else:
        draft.first(head.place(at), AllocBuffer(buffer))


def cached_copy(
    draft: Draft, target: Buffer, source: Buffer, mins: Sequence[Expr], extents: Sequence[Expr], name: str, blocks: bool
) -> tuple[Stmt, Stmt]:
    """The nest that copies a part of a buffer to the same place of another one; and what it is a stage by: the block, or
    the store where the program has none.
    """
    axes = [Var(f"ax{n}", extent.dtype) for n, extent in enumerate(extents)]
    places: list[Expr] = [build.add(low, axis) for low, axis in zip(mins, axes, strict=True)]
    stage: Stmt
    if blocks:
        iters = tuple(
            BlockIter(
                Var(f"v{n}", at.dtype), Range(const(0, at.dtype), build.cast(at.dtype, size)), IterKind.SPATIAL, at
            )
            for n, (at, size) in enumerate(zip(places, target.shape, strict=True))
        )
        indices = tuple(it.var for it in iters)
        store = BufferStore(target, BufferLoad(source, indices), indices)
        stage = with_regions(Block(name, iters, const(1, "bool"), (), (), None, (), {}, store))
    else:
        store = BufferStore(target, BufferLoad(source, tuple(places)), tuple(places))
        stage = store
    draft.copy(store)
    nest: Stmt = stage
    for axis, extent in zip(reversed(axes), reversed(extents), strict=True):
        nest = For(axis, const(0, axis.dtype), extent, ForKind.SERIAL, None, {}, nest)
    return nest, stage


def has_blocks(func: PrimFunc) -> bool:
    """Whether a program is made of blocks."""
    return has(Block, func.body)
