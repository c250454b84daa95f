"""Regions that start where memory says, in blocks that write that memory.

A ``T.match_buffer`` in a block names its region once, when the block begins. Lowered, each access has the region's start
in its index, so that a start which the block may change is bound to a name in front of it.
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.purity import side_effect
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.op import GlobalVar, Purity
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import Bind, Block, BufferStore, Stmt, seq

__all__ = ["with_regions_held"]


def with_regions_held(func: PrimFunc, is_pure: Callable[[GlobalVar], bool]) -> PrimFunc:
    """The function with the starts and extents of such regions bound in front of their blocks; else the same function.

    ``is_pure`` says of a function of the module whether it has no effects.
    """
    if not any(isinstance(op, Block) and op.match_buffers for op in statements(func.body)):
        return func
    return func.with_body(_Holder(Aliases(func), is_pure).visit(func.body))


class _Holder(StmtMutator):
    def __init__(self, aliases: Aliases, is_pure: Callable[[GlobalVar], bool]) -> None:
        self.aliases = aliases
        self.is_pure = is_pure
        self.sources: dict[Var, Var] = {}
        """The data variable of a matched buffer's source."""

    def visit_Block(self, op: Block) -> Stmt:
        for match in op.match_buffers:
            self.sources[match.buffer.data] = match.source.buffer.data
        made = self.generic(op)
        held: list[Bind] = []
        matches = []
        for match in op.match_buffers:
            name, source = f"{match.buffer.name}_at", match.source
            region = tuple(Range(*(self._held(e, name, op, held) for e in (r.min, r.extent))) for r in source.region)
            matches.append(match.with_(source=source.with_(region=region)))
        return seq(*held, made.with_(match_buffers=tuple(matches))) if held else made

    def _held(self, value: Expr, name: str, block: Block, held: list[Bind]) -> Expr:
        """The value, or the name that stands for it where the block may change what it reads."""
        if not self._changed(value, block):
            return value
        outside = {it.var: it.value for it in block.iters if it.value is not None}
        known = substitute(value, outside)
        if not is_const_int(block.predicate, 1):
            # Where the block does not run nothing is read.
            known = build.if_then_else(substitute(block.predicate, outside), known, const(0, value.dtype))
        held.append(Bind(Var(name, value.dtype), known, span=block.span))
        return held[-1].var

    def _changed(self, value: Expr, block: Block) -> bool:
        read = [self._memory(load) for load in each(BufferLoad, value)]
        if not read:
            return False
        inside = [block.body, *([] if block.init is None else [block.init])]
        if any(side_effect(call, self.is_pure) > Purity.READS for call in each(Call, *inside)):
            return True
        written = {self._memory(store) for store in each(BufferStore, *inside)}
        return any(self.aliases.may_alias(a, b) for a in read for b in written)

    def _memory(self, access: BufferLoad | BufferStore) -> Var:
        """The data variable behind those of matched buffers."""
        data = access.buffer.data
        while data in self.sources:
            data = self.sources[data]
        return data
