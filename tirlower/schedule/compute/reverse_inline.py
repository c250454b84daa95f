"""``reverse_compute_inline``: a consumer is folded into the one producer of what it reads."""

from __future__ import annotations

from functools import reduce

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import BufferLoad, Expr, Var, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore, IfThenElse, Stmt
from tirlower.schedule.compute.inline import is_product, named_product, sum_terms
from tirlower.schedule.compute.moved import lone, sees_all
from tirlower.schedule.draft import Draft, Made, ValueStep, mapped, with_headers
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import allocation_of, loads_in, reading, writing
from tirlower.schedule.producers import Producer, producer_at, producer_of
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["REVERSE_COMPUTE_INLINE"]


def _make(step: Step) -> Made:
    handle = step.handle("block")
    site = step.site(handle)
    func, consumer = step.func(site), producer_at(step, handle)
    buffer, writer = _only_producer(step, site, consumer)
    hidden = f"what `{consumer.name}` uses is declared where what computes {buffer.name} does not see it"
    sees_all(step, func, consumer.path, writer.path, consumer.store, hidden)
    load = loads_in(consumer.store, buffer)[0]
    common = [a.loop_var for a, b in zip(consumer.loops, writer.loops, strict=False) if a is b]
    values = _solved(step, consumer, load, writer, common)
    # The loops of the consumer, and of the producer, in terms of each other.
    mine = {loop.loop_var: loop.loop_var for loop in consumer.loops if loop.loop_var in common}
    loops = {**mine, **_loops(step, consumer, values)}
    draft = Draft(step, site.func)
    draft.handed(consumer.store, load, writer.store, writer.solve(load.indices, common)[0])

    # A product was rounded when it was stored: beside a sum it keeps a name of its own.
    bare = step.policy.accept == "tvm"
    terms = set() if bare else {id(load) for load in sum_terms(consumer.store.value)}

    def value(old: BufferLoad, new: BufferLoad) -> Expr:
        if old.buffer is buffer:
            folded = mapped(writer.store.value, lambda a, b: draft.load(b, writer.store, a))
            return named_product(folded, buffer.name) if id(old) in terms and is_product(folded) else folded
        return draft.load(new, consumer.store, old, loops)

    everything = {**loops, **values}
    made: Stmt = with_headers(consumer.store, lambda expr: mapped(expr, value, everything))
    assert isinstance(made, BufferStore)
    draft.stores(made, consumer.store, loops)
    condition = _inside(consumer, writer, load, everything)
    if writer.block is None:
        draft.replace(writer.store_path, made if condition is None else IfThenElse(condition, made))
        draft.forward.keep(writer.store, made)
    else:
        block = writer.block
        draft.replace(writer.store_path, made)
        draft.forward.keep(writer.store, made)

        def finished(old: Stmt) -> Stmt:
            new = old.with_(reads=(), writes=())
            if condition is not None:
                bound = substitute(condition, writer.bindings)
                both = bound if is_const_int(block.predicate, 1) else build.logical_and(block.predicate, bound)
                new = new.with_(predicate=both)
            return with_regions(new)  # type: ignore[arg-type]

        draft.header(writer.path, finished)
    draft.replace(consumer.path)
    draft.forward.end(consumer.stmt, writer.stmt)
    home = allocation_of(step.facts, func, buffer)
    others = [stmt for _, stmt in reading(step.facts, func, buffer) if stmt is not consumer.store]
    stores = [stmt for _, stmt in writing(step.facts, func, buffer) if stmt is not writer.store]
    if home is not None and not others and not stores:
        draft.replace(home[0])
    return Made(draft)


def _only_producer(step: Step, site: Site, consumer: Producer) -> tuple[Buffer, Producer]:
    """The one buffer that the consumer reads and one store alone writes, and this store."""
    func = step.func(site)
    seen: dict[Buffer, BufferLoad] = {}
    for load in _loads(consumer.store):
        seen.setdefault(load.buffer, load)
    found: list[tuple[Buffer, Producer]] = []
    for buffer, load in seen.items():
        stores = writing(step.facts, func, load.buffer)
        if len(stores) == 1 and allocation_of(step.facts, func, load.buffer) is not None:
            producer = producer_of(step, func, stores[0][0])
            if producer.block is None or producer.block.init is None:
                found.append((buffer, producer))
    if len(found) != 1:
        step.refuse(
            f"{len(found)} of what `{consumer.name}` reads have one store for their producer, and one is meant",
            consumer.stmt,
        )
    buffer, producer = found[0]
    elements = {", ".join(map(str, load.indices)) for load in _loads(consumer.store) if load.buffer is buffer}
    if len(elements) > 1:
        step.refuse(f"`{consumer.name}` reads several elements of {seen[buffer].buffer.name}", consumer.stmt)
    if producer.store.buffer is consumer.store.buffer:
        step.refuse(f"`{consumer.name}` writes what it reads", consumer.stmt)
    return buffer, producer


def _loads(store: BufferStore) -> list[BufferLoad]:
    return [load for root in (store.value, *store.indices) for load in each(BufferLoad, root)]


def _solved(step: Step, consumer: Producer, load: BufferLoad, writer: Producer, common: list[Var]) -> dict[Var, Expr]:
    """The iterators of the consumer in which it reads what an iteration of the producer writes."""
    found: dict[Var, Expr] = {}
    for index, written in zip(load.indices, writer.store.indices, strict=True):
        one = lone(index)
        if one is not None and one[0] not in found and one[0] not in common:
            found[one[0]] = build.sub(written, one[1]) if not is_const_int(one[1], 0) else written
    names = [*consumer.bindings] if consumer.block is not None else [x.loop_var for x in consumer.loops]
    for var in names:
        if var in found or var in common:
            continue
        domain = _domain(consumer, var)
        if not is_const_int(domain.extent, 1):
            step.refuse(f"`{var.name}` of `{consumer.name}` is not told by what it reads", consumer.stmt)
        found[var] = domain.min
    return found


def _domain(consumer: Producer, var: Var) -> Range:
    if consumer.block is not None:
        return next(it.domain for it in consumer.block.iters if it.var is var)
    return consumer.ranges[var]


def _loops(step: Step, consumer: Producer, values: dict[Var, Expr]) -> dict[Var, Expr]:
    """The loops of the consumer where its iterators have values."""
    if consumer.block is None:
        return values
    found: dict[Var, Expr] = {}
    for var, value in consumer.bindings.items():
        if isinstance(value, Var):
            found[value] = values[var]
    missing = [x for x in consumer.loops if x.loop_var not in found]
    if any(not is_const_int(x.extent, 1) for x in missing):
        step.refuse(f"the iterators of `{consumer.name}` are not its loops", consumer.stmt)
    return {**found, **{x.loop_var: x.min for x in missing}}


def _inside(consumer: Producer, writer: Producer, load: BufferLoad, values: dict[Var, Expr]) -> Expr | None:
    """Whether an iteration of the producer writes what one of the consumer reads: its domain, its predicate, and the indices
    that do not tell an iterator."""
    known = Analyzer()
    for loop in writer.loops:
        known.bind(loop.loop_var, Range(loop.min, loop.extent))
    if writer.block is not None:
        for it in writer.block.iters:
            known.bind(it.var, it.domain)
    parts: list[Expr] = []
    names = [*consumer.bindings] if consumer.block is not None else [x.loop_var for x in consumer.loops]
    for var in names:
        if var not in values:
            continue
        domain = _domain(consumer, var)
        end = build.add(domain.min, domain.extent)
        for condition in (build.ge(values[var], domain.min), build.lt(values[var], end)):
            if not known.can_prove(condition):
                parts.append(known.simplify(condition))
    for index, written in zip(load.indices, writer.store.indices, strict=True):
        same = build.eq(substitute(index, values), written)
        if not known.can_prove(same):
            parts.append(known.simplify(same))
    if consumer.block is not None and not is_const_int(consumer.block.predicate, 1):
        parts.append(substitute(consumer.block.predicate, values))
    return reduce(build.logical_and, parts) if parts else None


_STEP = ValueStep(_make)
REVERSE_COMPUTE_INLINE = Kind(
    "ReverseComputeInline",
    "reverse_compute_inline",
    (Slot("block", Takes.STAGE),),
    _STEP.rewrite,
    """Fold a block into the only producer of what it reads, which then writes what the block wrote; the block is no more.

    Legal where each iteration of the block reads what one iteration of the producer writes, which nobody else reads, and all
    else that it reads is at that place what it was at its own.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((8,), "int32")
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             v = T.axis.spatial(8, i)
    ...             B[v] = A[v] * 2
    ...     for j in range(8):
    ...         with T.block("C"):
    ...             v = T.axis.spatial(8, j)
    ...             C[v] = B[v] + 1
    ... '''))
    >>> sch.reverse_compute_inline("C")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                T.reads(A[v])
                T.writes(C[v])
                C[v] = A[v] * 2 + 1
    """,
    check=_STEP.check,
)
