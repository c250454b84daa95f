"""A tile of sums that starts from 0 and is added at the end: what ``register_tile`` does with ``order="add"``."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, BufferStore, For, Stmt
from tirlower.poly.bounds import check_bounds
from tirlower.poly.dataflow import covers
from tirlower.poly.left_out import is_quiet
from tirlower.poly.verdict import Verdict
from tirlower.schedule.compute.reducers import match_reducer
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import box_of, buffer_named, copy_nest, no_pointers, redirect, touched_under
from tirlower.schedule.places import allocation_of, blocks_at, loads_in, loops_at
from tirlower.schedule.sites import Change, Steps
from tirlower.schedule.step import Step

__all__ = ["SUM_TILE"]


def _updates(step: Step, root: Stmt, buffer: Buffer) -> list[BufferStore]:
    """The updates of a buffer under a statement, which add to its elements and see nothing else of it."""
    found: list[BufferStore] = []
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, BufferStore) and stmt.buffer is buffer:
            how = match_reducer([stmt.value], [BufferLoad(buffer, stmt.indices)])
            indices = any(load.buffer is buffer for index in stmt.indices for load in each(BufferLoad, index))
            if how is None or how.name != "add" or indices or not is_quiet(stmt):
                step.refuse(f"{stmt.value} does not add to {buffer.name}", stmt, 'order="keep" asks for no sum')
            found.append(stmt)
        elif loads_in(stmt, buffer):
            step.refuse(f"{buffer.name} is read there, beside the sum", stmt, 'use order="keep"')
    if not found:
        step.refuse(f"nothing there adds to {buffer.name}", root)
    return found


def _make(step: Step) -> Made:
    handle = step.handle("at")
    site = step.site(handle)
    func, path = step.func(site), (*site.steps, "body")
    buffer = buffer_named(step, func, step["buffer"], path)
    no_pointers(step, func, buffer, ("body",))
    draft = Draft(step, site.func)
    _updates(step, draft.stmt(path), buffer)
    box = box_of(step, func, buffer, path, touched_under(step, func, buffer, path))
    blocks = blocks_at(func, path)
    if blocks and any(mentions(low, {x.loop_var for _, x in loops_at(func, blocks[-1][0])}) for low in box.mins):
        step.refuse(f"what is touched of {buffer.name} depends on loops around the block", blocks[-1][1])
    scope = str(step["scope"])
    target = Buffer(f"{buffer.name}_{scope.replace('.', '_')}", box.shape, buffer.dtype, scope=scope)
    known = step.analyzer(site)

    def inner(indices: Sequence[Expr]) -> list[Expr]:
        return [
            known.simplify(build.sub(index, build.cast(index.dtype, low)))
            for index, low in zip(indices, box.mins, strict=True)
        ]

    def outer(axes: Sequence[Var]) -> list[Expr]:
        return [build.add(low, axis) for low, axis in zip(box.mins, axes, strict=True)]

    redirect(draft, buffer, target, path, inner)
    zero = const(0, buffer.dtype)
    begun, _ = copy_nest(target, buffer, box.shape, list, outer, value=lambda axes, load: zero)
    added, _ = copy_nest(
        buffer, target, box.shape, outer, list, where=box.inside,
        value=lambda axes, load: build.add(BufferLoad(buffer, tuple(outer(axes))), load),
    )  # fmt: skip
    draft.before(path, AllocBuffer(target), begun)
    draft.after(path, added)
    return Made(draft, tuple(loop for nest in (begun, added) for loop in each(For, nest)))


_STEP = ValueStep(_make)


def _check(step: Step) -> Verdict:
    """The terms are those from before, and 0 changes no sum; what is asked is the licence for another order, that the tile is
    inside of the buffer, and that it was begun."""
    made = _STEP.made(step)
    draft, site = made.draft, step.site(step.handle("at"))
    path: Steps = (*site.steps, "body")
    buffer = buffer_named(step, draft.old, step["buffer"], path)
    if buffer.dtype.is_float:
        licence = step.policy.reassociate
        declared = all(
            any(
                it.kind is IterKind.REDUCE
                for _, block in blocks_at(draft.old, (*path, *way))[-1:]
                for it in block.iters
            )
            for way, stmt in step.facts.inside(draft.stmt(path))
            if isinstance(stmt, BufferStore) and stmt.buffer is buffer
        )
        if licence is False or (licence == "declared" and not declared):
            return Verdict(
                "unknown",
                f"the sum into {buffer.name} rounds differently in another order",
                help="allow it with reassociate=True, or declare the reduction by a block",
            )
        step.exactness = f"reassociated({buffer.name}, add)"
    scop = draft.scop_after()
    for one in check_bounds(scop, of={buffer.data}):
        if not one.verdict.proved:
            return Verdict("unknown", f"{one.access.text} is not known to be inside of {buffer.name}")
    if allocation_of(step.facts, draft.old, buffer) is not None:
        mine = [one for one in scop.accesses if one.data is buffer.data]
        old = {id(stmt) for _, stmt in step.facts.inside(draft.old.body)}
        reads = [one for one in mine if not one.is_write and id(one.statement.node) not in old]
        found = covers(scop, [one for one in mine if one.is_write], reads)
        if not found.proved:
            return Verdict("unknown", f"an element of {buffer.name} may be added to that was not begun: {found.reason}")
    return draft.concurrent()


def _rewrite(step: Step) -> Change:
    return _STEP.rewrite(step)


SUM_TILE = Kind(
    "SumTile",
    "sum_tile",
    (
        Slot("at", Takes.LOOP),
        Slot("buffer", Takes.MEMORY, attr=True),
        Slot("scope", Takes.STRING, default="local", attr=True),
    ),
    _rewrite,
    """What an iteration of a loop adds to a buffer, summed up from 0 in memory of its own and added at the end. Returns the loops of both nests.""",
    check=_check,
    returns="many",
    tvm=False,
)
