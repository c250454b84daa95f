"""``rolling_buffer``: what an iteration needs of a buffer and the one before has computed is kept, in a ring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterKind
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, Block, For, IfThenElse, Stmt
from tirlower.poly.left_out import is_quiet
from tirlower.poly.same_values import Twin, same_values
from tirlower.poly.scop import Access
from tirlower.poly.verdict import Verdict
from tirlower.schedule.draft import AFTERWARDS, Draft, mapped
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import box_of, no_pointers, redirect, touched_under
from tirlower.schedule.places import allocation_of, common_place, loops_at, reading, statements_at, writing
from tirlower.schedule.producers import Producer, producer_of
from tirlower.schedule.sites import Change, Steps
from tirlower.schedule.step import Step

__all__ = ["ROLLING_BUFFER"]


@dataclass(frozen=True)
class _Rolled:
    """A dimension of which neighbouring iterations of a loop compute some elements both: the loop, from where on in an
    iteration, with what stride, how many elements, by which loop of the producer."""

    dim: int
    outer: For
    inner: For
    base: Expr
    stride: int
    extent: int

    @property
    def overlap(self) -> int:
        """How many elements the iteration before has computed too."""
        return self.extent - self.stride

    @property
    def anew(self) -> Expr:
        """Whether an iteration computes an element first."""
        first = build.lt(self.outer.loop_var, build.add(self.outer.min, 1))
        return build.logical_or(first, build.le(self.overlap, self.inner.loop_var))

    def origin(self) -> dict[Var, Expr]:
        """The iteration that computes an element first, for the one of any that does."""
        index = build.add(build.add(build.mul(self.outer.loop_var, self.stride), self.base), self.inner.loop_var)
        past = build.sub(build.sub(index, self.base), self.extent)
        least = build.add(build.floordiv(past, self.stride), 1)
        outer = build.max_(self.outer.min, least)
        inner = build.sub(index, build.add(build.mul(outer, self.stride), self.base))
        return {self.outer.loop_var: outer, self.inner.loop_var: inner}


@dataclass(frozen=True)
class _Rolling:
    """A drafted step: the edits, the dimensions, the producer, and the ring."""

    draft: Draft
    rolled: tuple[_Rolled, ...]
    producer: Producer
    old: Buffer
    ring: Buffer


def _rolling(step: Step) -> _Rolling:
    if isinstance(step.plan, _Rolling):
        return step.plan
    stage = step.stage("block")
    func, site = step.func(stage.site), stage.site
    buffer = step.buffer("write_buffer_index")
    home = allocation_of(step.facts, func, buffer)
    if home is None:
        step.refuse(f"{buffer.name} is a parameter: all of it is seen outside", stage.stmt)
    no_pointers(step, func, buffer, ("body",))
    writers = writing(step.facts, func, buffer)
    if any(way[: len(site.steps)] != site.steps for way, _ in writers):
        step.refuse(f"{buffer.name} has other writers", stage.stmt)
    producer = producer_of(step, func, writers[-1][0])
    mine = producer.path
    if any(way[: len(mine)] != mine for way, _ in writers) or not all(is_quiet(store) for _, store in writers):
        step.refuse(f"what is written to {buffer.name} is no computation of one block", stage.stmt)
    uses = [way for way, _ in writers] + [way for way, _ in reading(step.facts, func, buffer)]
    readers = [way for way in uses if way[: len(mine)] != mine]
    if not readers:
        step.refuse(f"nobody reads {buffer.name}", stage.stmt)
    around = [loop for _, loop in loops_at(func, (*common_place(uses), "body"))]
    common = [loop for loop in around if loop in producer.loops]
    if not common:
        step.refuse(
            f"no loop is around all uses of {buffer.name}", stage.stmt, "compute it at a loop of its reader first"
        )
    body = next((*way, "body") for way, one in statements_at(func, mine) if one is common[-1])
    rolled = _dimensions(step, func, producer, buffer, body, common)
    if not rolled:
        step.refuse(f"no iteration computes of {buffer.name} what the one before has computed", stage.stmt)
    return _drafted(step, func, producer, buffer, home[0], rolled)


def _dimensions(
    step: Step, func: PrimFunc, producer: Producer, buffer: Buffer, body: Steps, common: list[For]
) -> list[_Rolled]:
    """The dimensions in which iterations overlap, that of the outermost loop first."""
    accesses = [one for one in touched_under(step, func, buffer, body) if one.is_write]
    box = box_of(step, func, buffer, body, accesses)
    found: list[_Rolled] = []
    for dim, (low, size) in enumerate(zip(box.mins, box.shape, strict=True)):
        loops = [loop for loop in common if mentions(low, {loop.loop_var})]
        if len(loops) != 1 or not isinstance(size, IntImm) or box.widths[dim] is not None:
            continue
        [outer] = loops
        known = Analyzer()
        stride = known.simplify(build.sub(substitute(low, {outer.loop_var: build.add(outer.loop_var, 1)}), low))
        base = known.simplify(build.sub(low, build.mul(outer.loop_var, stride)))
        index = substitute(producer.store.indices[dim], producer.bindings)
        local = known.simplify(build.sub(index, low))
        inner = next((loop for loop in producer.loops if loop.loop_var is local), None)
        if not isinstance(stride, IntImm) or inner is None or mentions(base, {outer.loop_var}):
            continue
        whole = is_const_int(inner.min, 0) and is_const_int(inner.extent, size.value)
        if whole and 0 < stride.value < size.value and not is_const_int(outer.extent, 1):
            found.append(_Rolled(dim, outer, inner, base, stride.value, size.value))
    return sorted(found, key=lambda one: common.index(one.outer))


def _drafted(
    step: Step, func: PrimFunc, producer: Producer, buffer: Buffer, home: Steps, rolled: list[_Rolled]
) -> _Rolling:
    draft, first = Draft(step, step.stage("block").site.func), rolled[0]
    shape = tuple(
        const(first.extent, extent.dtype) if dim == first.dim else extent for dim, extent in enumerate(buffer.shape)
    )
    ring = Buffer(buffer.name, shape, buffer.dtype, scope=buffer.scope)
    known = Analyzer()

    def turned(indices: Sequence[Expr]) -> list[Expr]:
        made = list(indices)
        made[first.dim] = known.simplify(build.floormod(made[first.dim], const(first.extent, made[first.dim].dtype)))
        return made

    alone = producer.store if producer.block is None else None
    redirect(draft, buffer, ring, ("body",), turned, only=lambda stmt: stmt is not alone)
    draft.replace(home, AllocBuffer(ring))
    anew = reduce(build.logical_and, [one.anew for one in rolled])
    if alone is not None:

        def moved(_: BufferLoad, load: BufferLoad) -> Expr:
            return load.with_(buffer=ring, indices=tuple(turned(load.indices))) if load.buffer is buffer else load

        store = alone.with_(buffer=ring, indices=tuple(turned(alone.indices)), value=mapped(alone.value, moved))
        draft.replace(producer.path, IfThenElse(anew, store))
        draft.forward.keep(alone, store)
    else:
        carried = {one.outer.loop_var for one in rolled}

        def predicated(block: Stmt) -> Stmt:
            assert isinstance(block, Block)
            where = anew if is_const_int(block.predicate, 1) else build.logical_and(block.predicate, anew)
            # An iteration hands on what it computes: the order of these iterators is no longer free.
            iters = tuple(
                it.with_(kind=IterKind.OPAQUE) if it.value is not None and mentions(it.value, carried) else it
                for it in block.iters
            )
            return block.with_(predicate=where, iters=iters)

        draft.header(producer.path, predicated, then=True)
    draft.func()
    step.plan = _Rolling(draft, tuple(rolled), producer, buffer, ring)
    return step.plan


def _check(step: Step) -> Verdict:
    """Whether the program before computes what the one after does: each element that it computes again is one that the other
    one has computed, in the iteration that did so first."""
    plan = _rolling(step)
    draft = plan.draft
    old, new = step.facts.scop(draft.old), step.facts.scop(draft.func())
    origin: dict[Var, Expr] = {}
    for one in plan.rolled:
        origin |= one.origin()
    inside = {stmt for _, stmt in step.facts.inside(plan.producer.stmt)}
    by_node: dict[Stmt, list[Access]] = {}
    for access in new.accesses:
        by_node.setdefault(access.statement.node, []).append(access)
    twins: dict[Access, Twin] = {}
    for statement in old.statements:
        other = draft.forward.after(statement.node)
        if other is statement.node:
            continue
        values: Mapping[Var, Expr] = origin if statement.node in inside else {}
        theirs = by_node.get(other, [])
        if [a.is_write for a in theirs] != [a.is_write for a in statement.accesses]:
            return Verdict("unknown", f"the accesses of {statement.node} are not told apart")
        twins.update({mine: Twin(its, values) for mine, its in zip(statement.accesses, theirs, strict=True)})
    found = same_values(new, old, twins)
    witness = found.witness
    if found.refuted and witness is not None:
        # The two programs are asked about the other way round: what is shown happens in the one after.
        if witness.source.buffer == plan.old.name:
            reason = f"an element of {plan.old.name} would be read in the ring where another one has overwritten it"
        else:
            reason = (
                f"an element of {plan.old.name} would be kept in the ring, which is computed again where "
                f"{witness.source.buffer} has changed"
            )
        return Verdict("refuted", f"{AFTERWARDS}{reason}", witness)
    if not found.proved:
        return Verdict(
            "unknown",
            f"an element of {plan.old.name} is not known to be in the ring as long as it is read: {found.reason}",
        )
    return draft.concurrent()


def _rewrite(step: Step) -> Change:
    plan = _rolling(step)
    made = plan.draft.change(())
    return Change(
        made.edits, made.forward, made.outputs, made.exactness, buffers={plan.old: plan.ring}, rebuilt=made.rebuilt
    )


ROLLING_BUFFER = Kind(
    "RollingBuffer",
    "rolling_buffer",
    (
        Slot("block", Takes.STAGE),
        Slot("write_buffer_index", Takes.BUFFER, attr=True, side="write"),
    ),
    _rewrite,
    """Keep of a buffer what the next iteration of a loop needs too, in a ring, instead of computing it again.

    The buffer is computed in an iteration of a loop for what is read there, and neighbouring iterations overlap. The dimension along the
    outermost such loop becomes a ring as long as what an iteration needs; the block computes only what no iteration before has.
    Legal where each element is still in the ring when it is read last; the loop then hands values on, and is not parallel any more.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((10,), "int32")
    ...     for i in range(4):
    ...         for j in range(4):
    ...             with T.block("B"):
    ...                 v = T.axis.spatial(10, i * 2 + j)
    ...                 B[v] = A[v] * A[v]
    ...         for j in range(2):
    ...             with T.block("C"):
    ...                 v = T.axis.spatial(8, i * 2 + j)
    ...                 C[v] = B[v] + B[v + 1] + B[v + 2]
    ... '''))
    >>> sch.rolling_buffer("B", 0)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((4,), "int32")
        for i in range(4):
            for j in range(4):
                with T.block("B"):
                    v = T.axis.opaque(10, i * 2 + j)
                    T.where(i < 1 or 2 <= j)
                    T.reads(A[v])
                    T.writes(B[v % 4])
                    B[v % 4] = A[v] * A[v]
            for j in range(2):
                with T.block("C"):
                    v = T.axis.spatial(8, i * 2 + j)
                    T.reads(B[T.min(T.min(v % 4, (v + 1) % 4), (v + 2) % 4):T.max(T.max(v % 4, (v + 1) % 4), (v + 2) % 4) + 1])
                    T.writes(C[v])
                    C[v] = B[v % 4] + B[(v + 1) % 4] + B[(v + 2) % 4]
    """,
    check=_check,
)
