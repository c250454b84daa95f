"""Bounds of loops that read memory: a loop takes them once, before its first iteration, and what is made of it takes them again."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.expr import BinaryOp, BufferLoad, Call
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, may_divide_by_zero, nodes, statements
from tirlower.ir.stmt import Bind, BufferStore, For, Stmt
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["bounds_divide", "bounds_stay", "may_change"]


def bounds_stay(step: Step, loops: Sequence[For]) -> None:
    """Refuse loops, the outermost first, where what happens inside may write what their bounds are read from."""
    site = step.site(step.handles("loops")[0] if "loops" in step.values else step.handle("loop"))
    if may_change(step, loops, site, loops[0]):
        name = loops[0].loop_var.name
        step.refuse(
            f"what happens in the loop `{name}` may change what its bounds are read from, which the loop takes once",
            loops[0],
            "bind the extent to a name in front of the loop",
        )


def bounds_divide(step: Step, site: Site, loops: Sequence[For]) -> None:
    """Refuse loops whose bounds would be computed at a site, where they divide by what may be 0: the program may ask for them
    only where that is not."""
    known = step.analyzer(site)
    for loop in loops:
        for op in nodes(loop.min, loop.extent):
            if may_divide_by_zero(op):
                assert isinstance(op, BinaryOp)
                if not known.can_prove(build.ne(op.b, 0)):
                    step.refuse(
                        f"the bounds of the loop `{loop.loop_var.name}` divide by {op.b}, which is not known to be other than 0 in "
                        "front of the loops",
                        loop,
                        f"state it with T.assume({op.b} > 0)",
                    )


def may_change(step: Step, loops: Sequence[For], site: Site, part: Stmt) -> bool:
    """Whether a part of the function at a site may write what the bounds of loops are read from."""
    bounds = [bound for loop in loops for bound in (loop.min, loop.extent) if not bound.is_leaf]
    calls = [call for bound in bounds for call in each(Call, bound)]
    anything = any(not isinstance(call.op, Op) or call.op.purity > Purity.PURE for call in calls)
    read = {load.buffer.data for bound in bounds for load in each(BufferLoad, bound)}
    if not (read or anything):
        return False
    uses = step.facts.uses(part)
    # What the part allocates is none of its uses.
    stored = {one.buffer.data for one in statements(part) if isinstance(one, BufferStore)}
    written = {buffer.data for buffer in uses.writes} | uses.pointers | stored
    # A name for a pointer may be one for the memory that is read.
    renamed = any(isinstance(one, Bind) and one.value.dtype.is_handle for one in statements(step.func(site).body))
    return bool(uses.effects or not written.isdisjoint(read) or (written and (anything or renamed)))
