"""``fuse_epilogue``: what is done with a sum, done to each element once, where its last update stands."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.expr import Expr, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import mentions
from tirlower.schedule.compute.reverse_compute_at import behind
from tirlower.schedule.draft import Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.places import loops_at
from tirlower.schedule.producers import producer_of
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["FUSE_EPILOGUE"]


def _make(step: Step) -> Made:
    producer, consumer = step.stage("producer"), step.stage("consumer")
    func, site = step.func(producer.site), producer.site
    if consumer.site.func != site.func:
        step.refuse("the two are in different functions")
    stores = [way for way, store in producer.stores() if store.buffer in consumer.reads]
    if not stores:
        step.refuse("the consumer reads nothing that the producer writes", consumer.stmt)
    update = producer_of(step, func, (*site.steps, *stores[-1]))
    theirs = {loop.loop_var for _, loop in loops_at(func, consumer.site.steps)}
    around = [(way, loop) for way, loop in loops_at(func, update.store_path) if loop.loop_var not in theirs]
    loops = [one for one in around if len(one[0]) < len(update.path)]
    if not loops:
        step.refuse("no loop is around the update that is not around its consumer too", update.stmt)
    indices = [substitute(index, update.bindings) for index in update.store.indices]
    reduced = [
        at for at, (_, loop) in enumerate(loops) if not any(mentions(index, {loop.loop_var}) for index in indices)
    ]
    if not reduced:
        step.refuse(
            "no loop of the producer sums up: each element is written once", update.stmt, "use reverse_compute_at"
        )
    # Behind the innermost loop that sums up, in the loop around it; or where that is the outermost one, in the innermost loop.
    place = loops[reduced[-1] - 1] if reduced[-1] > 0 else loops[-1]
    kept = {loop.loop_var for way, loop in loops if len(way) <= len(place[0])}
    only: list[Expr] = []
    for at in reduced:
        loop = loops[at][1]
        if loop.loop_var in kept:
            last = build.add(loop.min, build.sub(loop.extent, const(1, loop.extent.dtype)))
            only.append(build.eq(loop.loop_var, build.cast(loop.loop_var.dtype, last)))
    return behind(step, consumer, Site(site.func, place[0]), only)


_STEP = ValueStep(_make)
FUSE_EPILOGUE = Kind(
    "FuseEpilogue",
    "fuse_epilogue",
    (Slot("producer", Takes.STAGE), Slot("consumer", Takes.STAGE)),
    _STEP.rewrite,
    """Run a consumer of a sum on each element as soon as it is summed up: behind the innermost loop of the reduction, in the last iteration
    of those further out.

    Legal where each element that it reads has then got its last update, and all else that it reads is there what it was. The sum itself
    stays, for whoever else reads it.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 8), "int32"), D: T.Buffer((4,), "int32")):
    ...     C = T.alloc_buffer((4,), "int32")
    ...     for k_0, i, k_1 in T.grid(2, 4, 4):
    ...         with T.block("C"):
    ...             vi = T.axis.spatial(4, i)
    ...             vk = T.axis.reduce(8, k_0 * 4 + k_1)
    ...             with T.init():
    ...                 C[vi] = 0
    ...             C[vi] += A[vi, vk]
    ...     for i in range(4):
    ...         with T.block("D"):
    ...             vi = T.axis.spatial(4, i)
    ...             D[vi] = T.max(C[vi], 0)
    ... '''))
    >>> sch.fuse_epilogue("C", "D")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((4, 8), "int32"), D: T.Buffer((4,), "int32")):
        C = T.alloc_buffer((4,), "int32")
        for k_0, i in T.grid(2, 4):
            for k_1 in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(4, i)
                    vk = T.axis.reduce(8, k_0 * 4 + k_1)
                    T.reads(A[vi, vk])
                    T.writes(C[vi])
                    with T.init():
                        C[vi] = 0
                    C[vi] = C[vi] + A[vi, vk]
            with T.block("D"):
                vi = T.axis.spatial(4, i)
                T.where(k_0 == 1)
                T.reads(C[vi])
                T.writes(D[vi])
                D[vi] = T.max(C[vi], 0)
    """,
    check=_STEP.check,
    tvm=False,
)
