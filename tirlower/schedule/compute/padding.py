"""``decompose_padding``: the constant of a padding is filled in front of a loop, and the rest computed only where it is."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Var, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op
from tirlower.ir.query import has
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, Stmt
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import loops_at
from tirlower.schedule.regions import with_regions
from tirlower.schedule.step import Step

__all__ = ["DECOMPOSE_PADDING"]

_IF = Op.get("tir.if_then_else")


def _make(step: Step) -> Made:
    handle, around = step.handle("block"), step.handle("loop")
    site, place = step.site(handle), step.site(around)
    block, loop = step.stmt(handle), step.loop(around)
    if not isinstance(block, Block) or block.init is not None or not isinstance(block.body, BufferStore):
        step.refuse("a block of one store is meant", block if isinstance(block, Stmt) else None)
    if site.func != place.func or site.steps[: len(place.steps)] != place.steps:
        step.refuse(f"the loop `{loop.loop_var.name}` is not around the block `{block.name}`", loop)
    store = block.body
    value = store.value
    if not isinstance(value, Call) or value.op is not _IF or not isinstance(value.args[2], (IntImm, FloatImm)):
        step.refuse("what is stored is no if_then_else(…, …, constant)", store)
    condition, inner, filler = value.args
    if has(BufferLoad, condition):
        step.refuse(f"the condition {condition} reads memory", store)
    func = step.func(site)
    loops = [one for way, one in loops_at(func, site.steps) if len(way) >= len(place.steps)]
    draft = Draft(step, site.func)
    names: dict[Var, Expr] = {one.loop_var: copy_var(one.loop_var) for one in loops}
    own = {it.var: copy_var(it.var) for it in block.iters}
    iters = tuple(
        it.with_(var=own[it.var], value=None if it.value is None else substitute(it.value, names)) for it in block.iters
    )
    fill = BufferStore(store.buffer, filler, tuple(substitute(index, dict(own)) for index in store.indices))
    predicate = substitute(block.predicate, names)
    made = with_regions(Block(f"{block.name}_pad_const", iters, predicate, (), (), None, (), {}, fill))
    nest: Stmt = made
    for one in reversed(loops):
        bounds = Range(substitute(one.min, names), substitute(one.extent, names))
        var = names[one.loop_var]
        assert isinstance(var, Var)
        nest = For(var, bounds.min, bounds.extent, ForKind.SERIAL, None, {}, nest)
    draft.before(place.steps, nest)
    # The constant is the value of the old store where the condition does not hold; elsewhere it is overwritten.
    bound = substitute(condition, {it.var: it.value for it in block.iters if it.value is not None})
    draft.stores(fill, store, names)
    draft.where[fill] = build.logical_not(substitute(bound, names))
    kept = store.with_(value=inner)
    both = bound if is_const_int(block.predicate, 1) else build.logical_and(block.predicate, bound)
    rest = with_regions(block.with_(body=kept, predicate=both, reads=(), writes=()))
    draft.replace(site.steps, rest)
    draft.same(kept, store)
    draft.same(rest, block)
    draft.forward.keep(block, rest)
    draft.forward.keep(store, kept)
    return Made(draft, (made,))


_STEP = ValueStep(_make)
DECOMPOSE_PADDING = Kind(
    "DecomposePadding",
    "decompose_padding",
    (Slot("block", Takes.BLOCK), Slot("loop", Takes.LOOP)),
    _STEP.rewrite,
    """Fill the constant of a padding in front of a loop, in a block ``<b>_pad_const``, which is returned; the block itself then
    stores only where its condition holds.

    Legal where nothing in between sees or changes what is filled.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((10,), "int32")):
    ...     for i in range(10):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(10, i)
    ...             B[v] = T.if_then_else(1 <= v and v < 9, A[v - 1], 0)
    ... '''))
    >>> sch.decompose_padding("B", sch.get_loops("B")[0])
    BlockRV('B_pad_const')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((10,), "int32")):
        for i in range(10):
            with T.block("B_pad_const"):
                v = T.axis.spatial(10, i)
                T.reads()
                T.writes(B[v])
                B[v] = 0
        for i in range(10):
            with T.block("B"):
                v = T.axis.spatial(10, i)
                T.where(1 <= i and i < 9)
                T.reads(A[v - 1])
                T.writes(B[v])
                B[v] = A[v - 1]
    """,
    check=_STEP.check,
    returns="one",
)
