"""``reorder_block_iter_var``: the iterators of a block in another order."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["REORDER_BLOCK_ITER_VAR"]


def _order(step: Step) -> tuple[Block, list[int]]:
    block, order = step.stmt(step.handle("block")), step["new_order"]
    assert isinstance(order, (list, tuple))
    if isinstance(block, PrimFunc):
        step.refuse("a function without blocks has no root block that has iterators")
    assert isinstance(block, Block)
    numbers = [number for number in map(step.number, order) if isinstance(number, int)]
    if sorted(numbers) != list(range(len(block.iters))):
        raise BadArgument(
            f"the new order {list(order)} is no permutation of the iterators 0 to {len(block.iters) - 1}",
            help=f"the block has: {', '.join(it.var.name for it in block.iters) or 'none'}",
        )
    return block, numbers


def _check(step: Step) -> Verdict:
    _order(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    block, order = _order(step)
    new, forward = block.with_(iters=tuple(block.iters[number] for number in order)), Forward()
    forward.keep(block, new)
    return Change(Edit(step.site(step.handle("block")), new), forward, relabel={})


REORDER_BLOCK_ITER_VAR = Kind(
    "ReorderBlockIterVar",
    "reorder_block_iter_var",
    (Slot("block", Takes.BLOCK), Slot("new_order", Takes.INTEGERS)),
    _rewrite,
    """Put the iterators of a block in another order, given as their numbers; nothing else changes.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 5), "int32")):
    ...     for i, j in T.grid(4, 5):
    ...         with T.block("A"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             A[vi, vj] = 1
    ... '''))
    >>> sch.reorder_block_iter_var("A", [1, 0])
    >>> [it.var.name for it in sch.get(sch.get_block("A")).iters]
    ['vj', 'vi']
    """,
    check=_check,
)
