"""``register_tile``: a tile of an accumulator in registers, with its init, load, update and store in vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import Expr, Var
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path
from tirlower.ir.query import mentions
from tirlower.ir.stmt import Block, BufferStore, ForKind, Stmt
from tirlower.schedule.compute.reduction import DECOMPOSE_REDUCTION
from tirlower.schedule.compute.sum_tile import SUM_TILE
from tirlower.schedule.handles import BlockRV, Handle
from tirlower.schedule.kind import Do, Kind, Slot, Takes
from tirlower.schedule.lookups import GET_BLOCK, GET_LOOPS
from tirlower.schedule.loops.kinds import UNROLL, VECTORIZE
from tirlower.schedule.loops.tile import no_change
from tirlower.schedule.memory.stage_mem import STAGE_MEM
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["REGISTER_TILE"]

_ORDERS = ("keep", "add")


def _compose(step: Step, do: Do) -> Sequence[Handle]:
    at, vector = step.handle("at"), step["vector"]
    loops = step.handles("loops")
    if step["order"] not in _ORDERS:
        raise BadArgument(f"order= is one of {', '.join(map(repr, _ORDERS))}, got {step['order']!r}")
    if vector is not None and vector not in loops:
        raise BadArgument("vector= is one of the loops of the tile")
    site = step.site(at)
    block, buffer = _target(step, str(step["target"]), site.func, site.steps)
    wide = step.loop(vector).loop_var if isinstance(vector, Handle) else None
    dims = _dims(step, site.func, site.steps, buffer, wide)
    inits: list[tuple[Handle, bool]] = []
    if block is not None and block.init is not None:
        [update] = do(GET_BLOCK, name=block.name, func_name=site.func)
        around = [loop for loop in do(GET_LOOPS, block=update) if _inside(step, loop, at)]
        if not around or around[0] in loops:
            step.refuse(f"no loop in `{step.loop(at).loop_var.name}` is around the tile's loops", step.loop(at))
        if step["order"] == "add":
            around = _summing(step, update, do(GET_LOOPS, block=update))
        names = {step.loop(one).loop_var.name for one in loops}
        lane = wide.name if wide is not None else ""
        [init] = do(DECOMPOSE_REDUCTION, block=update, loop=around[0])
        assert isinstance(init, BlockRV)
        for loop in do(GET_LOOPS, block=init):
            name = step.loop(loop).loop_var.name.removesuffix("_init")
            if _inside(step, loop, at) and name in names:
                inits.append((loop, name == lane))
    if step["order"] == "add":
        copies = do(SUM_TILE, at=at, buffer=buffer, scope=step["scope"])
    else:
        copies = do(STAGE_MEM, where=at, window=buffer, scope=step["scope"], store=step["store"], inside=True)
    count = len(dims)
    for n, loop in enumerate(copies):
        _kind(step, do, loop, wide is not None and dims[n % count])
    for loop, is_lane in inits:
        _kind(step, do, loop, is_lane)
    for loop in loops:
        _kind(step, do, loop, loop is vector)
    return copies


def _summing(step: Step, update: Handle, around: Sequence[Handle]) -> list[Handle]:
    """The loops from the outermost one on that sums up: the init stands in front of it, outside of the tile."""
    block = step.stmt(update)
    assert isinstance(block, Block)
    bound = [it.value for it in block.iters if it.kind is IterKind.REDUCE and it.value is not None]
    first = next(
        (n for n, loop in enumerate(around) if any(mentions(value, {step.loop(loop).loop_var}) for value in bound)), 0
    )
    return [*around[first:]]


def _kind(step: Step, do: Do, handle: Handle, lanes: bool) -> None:
    """Vectors along one loop, copies for the iterations of the others."""
    loop = step.loop(handle)
    if lanes and loop.kind is not ForKind.VECTORIZED:
        do(VECTORIZE, loop=handle)
    elif not lanes and loop.kind is ForKind.SERIAL:
        do(UNROLL, loop=handle)


def _inside(step: Step, inner: Handle, outer: Handle) -> bool:
    """Whether a loop stands in another one."""
    mine, other = step.site(inner), step.site(outer)
    return (
        mine.func == other.func and len(mine.steps) > len(other.steps) and mine.steps[: len(other.steps)] == other.steps
    )


def _target(step: Step, name: str, func: str, path: Steps) -> tuple[Block | None, str]:
    """The block of a name (or that writes the buffer of a name) under a place, and the buffer that it writes."""
    root = Path(path).chain(step.state.mod[func])[-1]
    assert isinstance(root, Stmt)
    blocks = [stmt for _, stmt in step.facts.inside(root) if isinstance(stmt, Block)]
    for block in blocks:
        stores = [stmt for _, stmt in step.facts.inside(block) if isinstance(stmt, BufferStore)]
        if stores and (block.name == name or any(store.buffer.name == name for store in stores)):
            return block, stores[-1].buffer.name
    return None, name


def _dims(step: Step, func: str, path: Steps, buffer: str, wide: Var | None) -> list[bool]:
    """Of each dimension of a buffer, whether it goes along the vector's loop."""
    root = Path(path).chain(step.state.mod[func])[-1]
    assert isinstance(root, Stmt)
    values: dict[Var, Expr] = {}
    found: list[bool] = []
    for _, stmt in step.facts.inside(root):
        if isinstance(stmt, Block):
            values |= {it.var: it.value for it in stmt.iters if it.value is not None}
        if isinstance(stmt, BufferStore) and stmt.buffer.name == buffer:
            along = [wide is not None and mentions(substitute(index, values), {wide}) for index in stmt.indices]
            found = [a or b for a, b in zip(found or [False] * len(along), along, strict=True)]
    if not found:
        step.refuse(f"nothing there writes {buffer}")
    return found


REGISTER_TILE = Kind(
    "RegisterTile",
    "register_tile",
    (
        Slot("target", Takes.STRING, attr=True),
        Slot("loops", Takes.LOOPS),
        Slot("at", Takes.LOOP),
        Slot("vector", Takes.LOOP, default=None),
        Slot("order", Takes.STRING, default="keep", attr=True, extra=True),
        Slot("scope", Takes.STRING, default="local", attr=True, extra=True),
        Slot("store", Takes.VALUE, default="auto", attr=True, extra=True),
    ),
    no_change,
    """Keep the tile of an accumulator that an iteration of a loop works on in registers.

    ``target``: a reduction, by the name of its block or buffer; ``loops``: those of the tile; ``at``: the loop in whose
    body the tile is loaded (or begun with the init), updated and stored. ``vector``, one of the loops, becomes vectors in
    all of these; the others are written out. The order of the updates is kept, so that each bit is; with ``order="add"`` the
    tile starts from 0 and is added at the end, which for floats is another order and needs the licence for it. ``store`` is that of ``stage_mem``: with True nobody asks whether
    something behind the tile writes all of it anew. Returns the loops of the copies.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i, k in T.grid(8, 16):
    ...         C[i] = C[i] + A[i, k]
    ... '''))
    >>> i, k = sch.loops("C")
    >>> i_0, i_1 = sch.split(i, [None, 4])
    >>> sch.reorder(i_0, k, i_1)
    >>> copies = sch.register_tile("C", [i_1], at=i_0, vector=i_1)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8,), "float32")):
        for i_0 in range(2):
            C_local = T.alloc_buffer((4,), scope="local")
            for ax0 in T.vectorized(4):
                C_local[ax0] = C[i_0 * 4 + ax0]
            for k in range(16):
                for i_1 in T.vectorized(4):
                    C_local[i_1] = C_local[i_1] + A[i_0 * 4 + i_1, k]
            for ax0 in T.vectorized(4):
                C[i_0 * 4 + ax0] = C_local[ax0]
    """,
    returns="many",
    tvm=False,
    compose=_compose,
)
