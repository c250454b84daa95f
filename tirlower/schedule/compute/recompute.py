"""``recompute``: each consumer of a block has a copy of it for itself."""

from __future__ import annotations

from tirlower.ir.buffer import Buffer
from tirlower.ir.functor import Substituter
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block, For, Stmt
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.copies import copy_of
from tirlower.schedule.memory.caches import Row, place_new, scope_body
from tirlower.schedule.memory.staging import no_pointers, redirect
from tirlower.schedule.places import allocation_of, reading, writing
from tirlower.schedule.stages import stores_of
from tirlower.schedule.step import Step

__all__ = ["RECOMPUTE"]


def _make(step: Step) -> Made:
    stage = step.stage("block")
    func, site = step.func(stage.site), stage.site
    buffers = list(dict.fromkeys(store.buffer for _, store in stage.stores()))
    if len(buffers) != 1:
        step.refuse(f"one buffer is meant, and {len(buffers)} are written there", stage.stmt)
    [buffer] = buffers
    if allocation_of(step.facts, func, buffer) is None:
        step.refuse(f"{buffer.name} is a parameter: whoever reads it there reads one", stage.stmt)
    no_pointers(step, func, buffer, ("body",))
    row = Row.at(func, scope_body(func, site.steps))
    here = row.of(site.steps)
    home, nest = row.place(here), row.stmts[here]
    if any(way[: len(home)] != home for way, _ in writing(step.facts, func, buffer)):
        step.refuse(f"{buffer.name} has other writers", stage.stmt)
    if any(store.buffer is not buffer for _, store in stores_of(nest)) or list(each(AllocBuffer, nest)):
        step.refuse("the nest does more than that", nest, "distribute its loops first")
    places = sorted({row.of(way) for way, _ in reading(step.facts, func, buffer) if way[: len(home)] != home})
    if len(places) < 2 or places[0] < 0:
        step.refuse(f"{len(places)} consumers read {buffer.name}: there is nobody to compute it for again", stage.stmt)
    draft, outputs = Draft(step, site.func), list[Stmt]()
    taken = {block.name for block in each(Block, func.body)}
    for number, at in enumerate(places[1:], start=1):
        copy = Buffer(f"{buffer.name}_{number}", buffer.shape, buffer.dtype, scope=buffer.scope)
        way = row.place(at)
        redirect(draft, buffer, copy, way, list, stores=False)
        made = _copied(draft, nest, buffer, copy, number, taken)
        draft.before(way, made)
        outputs.append(next(each(Block, made), made))
        place_new(draft, row, copy)
    return Made(draft, tuple(outputs))


def _copied(draft: Draft, nest: Stmt, buffer: Buffer, copy: Buffer, number: int, taken: set[str]) -> Stmt:
    """The nest once more, with binders of its own, into another buffer."""
    made = copy_of(Substituter({buffer.data: copy.data}, {buffer: copy}).visit(nest), f"_{number}", taken)
    loops = zip(each(For, nest), each(For, made), strict=True)
    draft.same(made, nest, {old.loop_var: new.loop_var for old, new in loops})
    return made


_STEP = ValueStep(_make)
RECOMPUTE = Kind(
    "Recompute",
    "recompute",
    (Slot("block", Takes.STAGE),),
    _STEP.rewrite,
    """Compute a block once for each of its consumers, into a buffer of that consumer's own: ``B_1`` … from the second one on. Returns the copies'
    blocks (their nests, where there are no blocks).

    Each can be computed at its consumer then, or fused with it. Legal where what goes into the block is in front of each consumer what it was.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((8,), "int32")
    ...     for i in range(8):
    ...         B[i] = A[i] * 2
    ...     for i in range(8):
    ...         X[i] = B[i] + 1
    ...     for i in range(8):
    ...         Y[i] = B[7 - i]
    ... '''))
    >>> len(sch.recompute("B"))
    1
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32"), Y: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((8,), "int32")
        B_1 = T.alloc_buffer((8,), "int32")
        for i in range(8):
            B[i] = A[i] * 2
        for i in range(8):
            X[i] = B[i] + 1
        for i in range(8):
            B_1[i] = A[i] * 2
        for i in range(8):
            Y[i] = B_1[7 - i]
    """,
    check=_STEP.check,
    returns="many",
    tvm=False,
)
