"""``compute_inline``: what a block computes stands in the place of the loads of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tirlower.ir.expr import Add, BufferLoad, Call, Expr, FloatImm, Let, Mul, Sub, Var
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import For, Stmt
from tirlower.schedule.compute.moved import sees_all
from tirlower.schedule.draft import Draft, Made, ValueStep, mapped, with_headers
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import allocation_of, loops_at, reading, writing
from tirlower.schedule.producers import Producer, producer_at
from tirlower.schedule.sites import Steps
from tirlower.schedule.step import Step

__all__ = ["COMPUTE_INLINE", "is_product", "named_product", "sum_terms"]


def _make(step: Step) -> Made:
    handle = step.handle("block")
    site = step.site(handle)
    func, producer = step.func(site), producer_at(step, handle)
    buffer = producer.store.buffer
    draft = Draft(step, site.func)
    readers = reading(step.facts, func, buffer)
    if any(stmt is producer.store for _, stmt in readers):
        step.refuse(f"what computes {buffer.name} reads it", producer.store)
    if not readers:
        step.refuse(f"nothing reads {buffer.name}", producer.store)
    for path, reader in readers:
        hidden = f"what `{producer.name}` uses is declared where what reads {buffer.name} does not see it"
        sees_all(step, func, producer.path, path, producer.store, hidden)
        _inline(draft, producer, path, reader)
    draft.replace(producer.path)
    draft.forward.end(producer.stmt, *(stmt for _, stmt in readers))
    home = allocation_of(step.facts, func, buffer)
    if home is not None and all(stmt is producer.store for _, stmt in writing(step.facts, func, buffer)):
        draft.replace(home[0])
    return Made(draft)


def _inline(draft: Draft, producer: Producer, path: Steps, reader: Stmt) -> None:
    """Put the value in the place of the loads of one statement."""
    func = draft.old
    around = {loop.loop_var for _, loop in loops_at(func, path)}
    if isinstance(reader, For):
        around.discard(reader.loop_var)
    common = [loop.loop_var for loop in producer.loops if loop.loop_var in around]

    def replace(old: BufferLoad, new: BufferLoad) -> Expr:
        if old.buffer is not producer.store.buffer:
            return draft.load(new, reader, old)
        loops, iters = producer.solve(new.indices, common)
        draft.handed(reader, old, producer.store, producer.solve(old.indices, common)[0])
        value = _value(draft, producer, loops, iters)
        return named_product(value, old.buffer.name) if id(old) in terms and is_product(value) else value

    terms: set[int] = set()

    def inlined(expr: Expr) -> Expr:
        if draft.step.policy.accept != "tvm":  # whose results are told apart by their form
            terms.update(id(load) for load in sum_terms(expr))
        return mapped(expr, replace)

    def rewritten(stmt: Stmt) -> Stmt:
        return with_headers(stmt, inlined)

    draft.header(path, rewritten)


def sum_terms(expr: Expr) -> Iterator[BufferLoad]:
    """The loads that are operands of sums of floats, or that their negations are."""
    for total in each((Add, Sub), expr):
        for term in (total.a, total.b):
            while isinstance(term, Mul) and isinstance(term.b, FloatImm) and term.b.value == -1:
                term = term.a
            if isinstance(term, BufferLoad) and term.dtype.is_float:
                yield term


def is_product(value: Expr) -> bool:
    """Whether a value may be rounded once with a sum around it."""
    return isinstance(value, Mul) or (isinstance(value, Call) and value.op is _POW)


def named_product(value: Expr, name: str) -> Expr:
    """A product under a name: it was rounded when it was stored, and written in a sum it would be rounded with that once
    (:class:`~tirlower.transforms.FuseMultiplyAdd`)."""
    var = Var(name.lower(), value.dtype)
    return Let(var, value, var)


def _value(draft: Draft, producer: Producer, loops: Mapping[Var, Expr], iters: Mapping[Var, Expr]) -> Expr:
    """What is stored, in one iteration."""

    def replace(old: BufferLoad, new: BufferLoad) -> Expr:
        return draft.load(new, producer.store, old, loops)

    return mapped(producer.store.value, replace, {**loops, **iters})


_POW = Op.get("tir.pow")
_STEP = ValueStep(_make)
COMPUTE_INLINE = Kind(
    "ComputeInline",
    "compute_inline",
    (Slot("block", Takes.STAGE),),
    _STEP.rewrite,
    """Put what a block computes in the place of all loads of its result; the block and its buffer are no more.

    Legal where each load sees the block's value, and what goes into the value is at the load what it was in the block.
    A product of floats that a sum would then round with itself once stands under a name there, so that each bit is kept
    (not under ``accept="tvm"``, whose results have that form).

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
    >>> sch.compute_inline("B")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for j in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, j)
                T.reads(A[v])
                T.writes(C[v])
                C[v] = A[v] * 2 + 1
    """,
    check=_STEP.check,
)
