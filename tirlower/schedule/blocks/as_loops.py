"""``as_loops``: a block goes, and what it holds stands in the loops around it."""

from __future__ import annotations

from tirlower.ir.expr import IntImm
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import Block, IfThenElse
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["AS_LOOPS"]


def _rewrite(step: Step) -> Change:
    handle = step.handle("block")
    site, block = step.site(handle), step.stmt(handle)
    assert isinstance(block, Block)
    if not block.iters and len(site.steps) == 1:
        step.refuse("it is the root of the function", block)
    if block.init is not None:
        step.refuse("it has an init", block, "decompose_reduction makes a block of its own of that")
    if block.match_buffers:
        step.refuse("it gives parts of buffers names of their own", block)
    if block.annotations:
        step.refuse(f"it is annotated: {', '.join(block.annotations)}", block, "unannotate it first")
    values = {it.var: it.value for it in block.iters if it.value is not None}
    body = substitute(block.body, values)
    forward = Forward()
    forward.like(block.body, body)
    forward.end(block, body)
    certain = isinstance(block.predicate, IntImm) and block.predicate.value
    return Change(
        Edit(site, body if certain else IfThenElse(substitute(block.predicate, values), body)), forward, relabel={}
    )


AS_LOOPS = Kind(
    "AsLoops",
    "as_loops",
    (Slot("block", Takes.BLOCK),),
    _rewrite,
    """Take a block away; always legal. What it holds stands in the loops around it, under its condition where it has one, with
    the values of its iterators in their place. The opposite of ``as_block``.

    What its iterators said of the iterations is lost: sums of floats keep their order from then on. A block with an init, names
    for parts of buffers or annotations is refused.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("sum"):
    ...             vi = T.axis.spatial(4, i)
    ...             C[vi] = 0
    ...             for k in range(8):
    ...                 C[vi] += A[vi, k]
    ... '''))
    >>> sch.as_loops("sum")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
        with T.block("root"):
            T.reads()
            T.writes()
            for i in range(4):
                C[i] = 0
                for k in range(8):
                    C[i] = C[i] + A[i, k]
    """,
    tvm=False,
)
