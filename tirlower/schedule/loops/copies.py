"""Loops whose iterations several loops share: parts of a loop with bodies of their own."""

from __future__ import annotations

from collections.abc import Collection

from tirlower.ir.expr import Expr, Var
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import Block, For, Stmt
from tirlower.schedule.sites import Forward

__all__ = ["Renamed", "part_of"]


class Renamed(StmtMutator):
    """Gives blocks names with an ending, and another one where that is taken."""

    def __init__(self, ending: str, taken: Collection[str] = ()) -> None:
        self.ending = ending
        self.taken = set(taken)

    def visit_Block(self, op: Block) -> Stmt:
        made = self.generic(op)
        assert isinstance(made, Block)
        name, number = f"{op.name}_{self.ending}", 1
        while name in self.taken:
            name, number = f"{op.name}_{self.ending}_{number}", number + 1
        self.taken.add(name)
        return made.with_(name=name)


def part_of(loop: For, low: Expr, extent: Expr, name: str, forward: Forward | None, ending: str = "") -> For:
    """Some of a loop's iterations as a loop of their own. With ``forward``, what stands in the old body goes on there;
    else the body is a copy, whose blocks have names with an ending where one is given."""
    var = copy_var(loop.loop_var, name)
    values: dict[Var, Expr] = {loop.loop_var: var}
    body = substitute(loop.body, values)
    if forward is None:
        body = refresh_binders(body)
    if ending:
        body = Renamed(ending).visit(body)
    if forward is not None:
        forward.like(loop.body, body)
    return loop.with_(loop_var=var, min=low, extent=extent, body=body)
