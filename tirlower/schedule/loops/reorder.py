"""``reorder`` and ``interchange``: nested loops in another order, where no dependence is turned round."""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.ir.expr import IntImm
from tirlower.ir.stmt import For, ForKind
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.nest import Made, Nest, nest_of
from tirlower.schedule.positions import order_verdict, still_concurrent
from tirlower.schedule.sites import Change, Edit
from tirlower.schedule.step import Step

__all__ = ["INTERCHANGE", "REORDER"]


def _programs(step: Step, nest: Nest) -> Iterator[Made]:
    """The programs that may come of a nest that is not perfect, the better ones first."""
    scop = step.facts.part(step.func(nest.site), nest.site.steps)
    if nest.perfect:
        yield nest.alone(scop)
        return
    yield nest.distributed(scop)
    sunk = nest.sunk(scop, step.analyzer(nest.site))
    if sunk is not None:
        yield sunk


def _check(step: Step, nest: Nest) -> Verdict:
    if nest.loops == nest.order:
        return PROVED
    func = step.func(nest.site)
    first: Verdict | None = None
    for made in _programs(step, nest):
        for old, new in zip(nest.order, made.loops, strict=True):
            if new.kind is ForKind.UNROLLED and isinstance(old.extent, IntImm) and not isinstance(new.extent, IntImm):
                step.refuse(f"the loop `{new.loop_var.name}`, which is unrolled, would run {new.extent} times", old)
        if nest.plain:
            found, exactness = step.facts.order_kept(func, nest.site.steps, nest.order, step.policy.reassociate)
        else:
            found = order_verdict(step, nest.site, made.positions, nest.site)
            exactness = step.exactness
        if found.proved:
            found = still_concurrent(step, nest.site, made.stmt, _settled(nest, made))
        if found.proved or first is None:
            step.plan, step.exactness = made, exactness
            first = found
        if found.proved:
            return found
    assert first is not None
    return first


def _settled(nest: Nest, made: Made) -> set[For]:
    """The parallel loops that have no loop inside that was not there before: they need not be asked about again."""
    if not nest.plain:
        return set()
    return {
        new
        for old, new in zip(nest.order, made.loops, strict=True)
        if old.kind is ForKind.PARALLEL
        and not set(nest.order[nest.order.index(old) :]) - set(nest.loops[nest.loops.index(old) :])
    }


def _rewrite(step: Step, nest: Nest) -> Change:
    if nest.loops == nest.order:
        return Change()
    made = step.plan if isinstance(step.plan, Made) else next(_programs(step, nest))
    return Change(Edit(nest.site, made.stmt), made.forward, relabel={})


REORDER = Kind(
    "Reorder",
    "reorder",
    (Slot("ordered_loops", Takes.LOOP, rest=True, keyword=""),),
    lambda step: _rewrite(step, nest_of(step, "ordered_loops")),
    """Put nested loops in the given order, the outermost first; loops between them keep their place.

    Legal where no dependence is turned round. The updates of one reduction may change their order where that cannot be
    told from the result, or where a block says that it is a reduction. Bounds that depend on a loop that will be inside
    are found anew. What stands beside the loops goes into loops of its own in front and behind; where that is not legal,
    inside, into the first or last iteration of loops that run at least once.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 6), "int32")):
    ...     for i, j in T.grid(3, 5):
    ...         A[i + 1, j] = A[i, j + 1]
    ... '''))
    >>> try:
    ...     sch.reorder(sch.loop("j"), sch.loop("i"))
    ... except tl.ScheduleError as error:
    ...     print(error.witness)
    iteration (i = 0, j = 1) writes A[1, 1] and iteration (i = 1, j = 0) reads A[1, 1]
    >>> triangle = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 8), "int32")):
    ...     for i in range(8):
    ...         for j in range(i + 1):
    ...             A[i, j] = i - j
    ... '''))
    >>> triangle.reorder("j", "i")
    >>> print(triangle.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32")):
        for j in range(8):
            for i in range(j, 8):
                A[i, j] = i - j
    """,
    check=lambda step: _check(step, nest_of(step, "ordered_loops")),
)


def _pair(step: Step) -> Nest:
    step.values["loops"] = [step.handle("a"), step.handle("b")]
    return nest_of(step, "loops", swap=True)


INTERCHANGE = Kind(
    "Interchange",
    "interchange",
    (Slot("a", Takes.LOOP), Slot("b", Takes.LOOP)),
    lambda step: _rewrite(step, _pair(step)),
    """Let two nested loops change places, as :meth:`reorder` does.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4, 5, 6), "int32")):
    ...     for i, j, k in T.grid(4, 5, 6):
    ...         A[i, j, k] = i
    ... '''))
    >>> sch.interchange("i", "k")
    >>> [str(loop.var) for loop in sch.loops("A")]
    ['k', 'j', 'i']
    """,
    check=lambda step: _check(step, _pair(step)),
    tvm=False,
)
