"""``read_at`` and ``write_at``: what is touched of a buffer in an iteration of a loop, copied in or out there by one block."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Block, BlockIter, BufferStore, For, ForKind, IfThenElse, Stmt
from tirlower.rewrite.auto_copy.form import AUTO_COPY
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import Row, cache_name, has_blocks, new_buffer, place_new, scope_body
from tirlower.schedule.memory.staging import Box, box_of, no_pointers, redirect, touched_under
from tirlower.schedule.places import loops_at, reading, writing
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["READ_AT", "WRITE_AT"]


def _make(step: Step, side: str) -> Made:
    handle = step.handle("loop")
    site, place, loop = step.site(step.handle("block")), step.site(handle), step.loop(handle)
    # A nest without blocks may be named as a whole, with the loop in it.
    depth = min(len(site.steps), len(place.steps)) if step.stage("block").block is None else len(place.steps)
    if site.func != place.func or site.steps[:depth] != place.steps[:depth]:
        step.refuse(f"the loop `{loop.loop_var.name}` is not around the block", loop)
    func, body = step.func(site), (*place.steps, "body")
    buffer = step.buffer(f"{side}_buffer_index")
    no_pointers(step, func, buffer, ("body",))
    touched = touched_under(step, func, buffer, body)
    accesses = [access for access in touched if access.is_write is (side == "write")]
    if not accesses:
        step.refuse(f"the loop `{loop.loop_var.name}` does not {side} {buffer.name}", loop)
    box = box_of(step, func, buffer, body, accesses)
    target = new_buffer(buffer, str(step["storage_scope"]))
    draft, row = Draft(step, site.func), Row.at(func, body)
    redirect(draft, buffer, target, body, list, stores=side == "write")
    nest, made, store = _copied(step, draft, body, buffer, target, box, side)
    draft.copy(store)
    if side == "read":
        first = min(row.of(way) for way, _ in reading(step.facts, func, buffer) if way[: len(body)] == body)
        draft.first(row.place(first), nest)
    else:
        last = max(row.of(way) for way, _ in writing(step.facts, func, buffer) if way[: len(body)] == body)
        draft.after(row.place(last), nest)
    place_new(draft, Row.at(func, scope_body(func, place.steps)), target)
    return Made(draft, (made,))


def _copied(
    step: Step, draft: Draft, body: Steps, buffer: Buffer, target: Buffer, box: Box, side: str
) -> tuple[Stmt, Stmt, BufferStore]:
    """The copy of a box: its nest, what it is a stage by (the block; the store where the program has none), and its store."""
    axes = [Var(f"ax{n}", size.dtype) for n, size in enumerate(box.shape)]
    used: list[For] = []
    names: dict[Var, Expr] = {}
    blocks = has_blocks(draft.old)
    if blocks:
        parts = [*box.mins, *(width for width in box.widths if width is not None)]
        for _, loop in loops_at(draft.old, body):
            if any(mentions(part, {loop.loop_var}) for part in parts):
                names[loop.loop_var] = Var(f"v{len(used)}", loop.loop_var.dtype)
                used.append(loop)
    at = [build.add(substitute(low, names), axis) for low, axis in zip(box.mins, axes, strict=True)]
    load, into = (buffer, target) if side == "read" else (target, buffer)
    store = BufferStore(into, BufferLoad(load, tuple(at)), tuple(at))
    inside = box.inside(axes)
    nest: Stmt = store if inside is None else IfThenElse(substitute(inside, names), store)
    for axis, size in zip(reversed(axes), reversed(box.shape), strict=True):
        nest = For(axis, const(0, axis.dtype), size, ForKind.SERIAL, None, {}, nest)
    if not blocks:
        return nest, store, store
    iters: list[BlockIter] = []
    for loop in used:
        var = names[loop.loop_var]
        assert isinstance(var, Var)
        if any(mentions(part, {other.loop_var for other in used}) for part in (loop.min, loop.extent)):
            step.refuse(f"the bounds of `{loop.loop_var.name}` depend on another loop", loop)
        iters.append(BlockIter(var, Range(loop.min, loop.extent), IterKind.SPATIAL, loop.loop_var))
    name = cache_name(buffer, str(step["storage_scope"]))
    made = with_regions(Block(name, tuple(iters), const(1, "bool"), (), (), None, (), {AUTO_COPY: 1}, nest))
    return made, made, store


_READ = ValueStep(lambda step: _make(step, "read"))
_WRITE = ValueStep(lambda step: _make(step, "write"))
READ_AT = Kind(
    "ReadAt",
    "read_at",
    (
        Slot("loop", Takes.LOOP),
        Slot("block", Takes.STAGE),
        Slot("read_buffer_index", Takes.BUFFER, attr=True, side="read"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
    ),
    _READ.rewrite,
    """Copy what is read of a buffer in an iteration of a loop to a buffer in another scope there, in one block in front of the first reader,
    annotated ``auto_copy``. Returns the block.

    The new buffer ``A_shared`` is as large as the old one; the block ``A_shared`` has iterators for the loops that its region depends on.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vj, vi] + 1
    ... '''))
    >>> sch.read_at("i", "B", 0, "shared")
    BlockRV('A_shared')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
        A_shared = T.alloc_buffer((8, 8), "int32", scope="shared")
        for i in range(8):
            with T.block("A_shared"):
                v0 = T.axis.spatial(8, i)
                T.reads(A[0:8, v0])
                T.writes(A_shared[0:8, v0])
                T.block_attr({"auto_copy": 1})
                for ax0, ax1 in T.grid(8, 1):
                    A_shared[ax0, v0 + ax1] = A[ax0, v0 + ax1]
            for j in range(8):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A_shared[vj, vi])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A_shared[vj, vi] + 1
    """,
    check=_READ.check,
    returns="one",
)
WRITE_AT = Kind(
    "WriteAt",
    "write_at",
    (
        Slot("loop", Takes.LOOP),
        Slot("block", Takes.STAGE),
        Slot("write_buffer_index", Takes.BUFFER, attr=True, side="write"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
    ),
    _WRITE.rewrite,
    """Let what is written to a buffer in an iteration of a loop go to a buffer in another scope, from which one block behind the last writer
    brings it out there, annotated ``auto_copy``. Returns the block.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vi, vj] + 1
    ... '''))
    >>> sch.write_at("i", "B", 0, "local")
    BlockRV('B_local')
    """,
    check=_WRITE.check,
    returns="one",
)
