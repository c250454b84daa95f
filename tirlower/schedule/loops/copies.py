"""Loops whose iterations several loops share: parts of a loop with bodies of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.ir.expr import Expr
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.query import each
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Block, For, Stmt
from tirlower.schedule.sites import Forward
from tirlower.schedule.step import Step

__all__ = ["Renamed", "copy_of", "names_of_blocks", "part_of", "twinned"]


class Renamed(StmtMutator):
    """Gives blocks names with an ending, and another one where that is taken; ``taken`` has the new ones too then."""

    def __init__(self, ending: str, taken: set[str]) -> None:
        self.ending = ending
        self.taken = taken

    def visit_Block(self, op: Block) -> Stmt:
        made = self.generic(op)
        assert isinstance(made, Block)
        name, number = f"{op.name}_{self.ending}", 1
        while name in self.taken:
            name, number = f"{op.name}_{self.ending}_{number}", number + 1
        self.taken.add(name)
        return made.with_(name=name)


def names_of_blocks(step: Step, func: str) -> set[str]:
    """The names of the blocks of a function."""
    return {block.name for block in each(Block, step.state.mod[func].body)}


def copy_of(stmt: Stmt, ending: str, taken: set[str]) -> Stmt:
    """A statement once more: with binders of its own, its blocks by names with an ending."""
    made = refresh_binders(stmt)
    return Renamed(ending, taken).visit(made) if ending else made


def part_of(loop: For, low: Expr, extent: Expr, name: str, copied: tuple[str, set[str]] | None = None) -> For:
    """Some of a loop's iterations as a loop of their own; ``copied`` says that its body is a copy, how the names of its
    blocks end, and which are taken."""
    var = copy_var(loop.loop_var, name)
    body = substitute(loop.body, {loop.loop_var: var})
    if copied is not None:
        body = copy_of(body, *copied)
    return loop.with_(loop_var=var, min=low, extent=extent, body=body)


def twinned(forward: Forward, old: Stmt, new: Stmt, copies: Sequence[Stmt]) -> None:
    """What stands in a statement goes on in another one of the same shape, with further copies."""
    for a, b, *rest in zip(_all(old), _all(new), *map(_all, copies), strict=True):
        forward.keep(a, b, *rest)


def _all(root: Stmt) -> Iterator[Stmt]:
    stack: list[Stmt] = [root]
    while stack:
        stmt = stack.pop()
        yield stmt
        stack += [child for child in stmt.children() if isinstance(child, Stmt)]
