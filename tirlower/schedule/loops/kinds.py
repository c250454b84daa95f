"""``parallel``, ``vectorize``, ``unroll``, ``bind``: how the iterations of a loop run."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.annotations import REDUCTION, UNCHECKED
from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.query import each
from tirlower.ir.stmt import For, ForKind
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite import loop_nests
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.lanes import InVectors, exactness_of_partials, in_vectors
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["BIND", "PARALLEL", "UNROLL", "VECTORIZE"]

AXES = (
    *(f"{grid}.{axis}" for grid in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"),
    "vthread",
)


_REDUCES = (ForKind.PARALLEL, ForKind.VECTORIZED)
"""The kinds of loops that may have partial results of what their iterations add up."""


def _check(step: Step, kind: ForKind) -> Verdict:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag}", loop)
    reductions = kind in _REDUCES and bool(step["reduction"])
    found = step.facts.concurrent(step.func(site), site.steps, loop, kind, reductions=reductions)
    if found.proved and reductions:
        step.exactness = exactness_of_partials(step.facts.carried(step.func(site), site.steps, loop))
    return found


def _change(step: Step, kind: ForKind) -> Change:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    annotations = dict(loop.annotations)
    if kind in _REDUCES and step["reduction"] and step.facts.carried(step.func(site), site.steps, loop):
        annotations[REDUCTION] = True
    if kind is not ForKind.UNROLLED and step.word:
        annotations[UNCHECKED] = step.word
    new = loop.with_(kind=kind, annotations=annotations)
    forward = Forward()
    forward.keep(loop, new)
    return Change(Edit(site, new), forward, relabel={})


_LANES = InVectors(in_vectors)
PARALLEL = Kind(
    "Parallel",
    "parallel",
    (Slot("loop", Takes.LOOP), Slot("reduction", Takes.FLAG, default=False, extra=True)),
    lambda step: _change(step, ForKind.PARALLEL),
    """Run the iterations of a loop in parallel. Legal where no two of them touch one element that one of them writes.

    ``reduction=True``: the sums, products and extrema that the iterations have in common are computed with partial results.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         B[i] = A[i] + 1
    ... '''))
    >>> sch.parallel(sch.loop("i"))
    >>> sch.get(sch.loop("i")).kind.value
    'parallel'
    """,
    check=lambda step: _check(step, ForKind.PARALLEL),
)
VECTORIZE = Kind(
    "Vectorize",
    "vectorize",
    (
        Slot("loop", Takes.LOOP),
        Slot("lanes", Takes.INTEGER, default=None, attr=True, extra=True, placed=True),
        Slot("tail", Takes.STRING, default="exact", attr=True, extra=True),
        Slot("reduction", Takes.FLAG, default=False, extra=True),
    ),
    lambda step: _change(step, ForKind.VECTORIZED) if step["lanes"] is None else _LANES.rewrite(step),
    """Run the iterations of a loop as lanes of vectors, statement by statement.

    With ``lanes`` it becomes a loop of vectors of so many iterations; both loops are returned. ``tail`` says what becomes of
    those that fill no vector: "exact": there are none; "mask": a vector of its own, whose other lanes do nothing; "scalar":
    a serial loop; "predicate": all vectors under a condition; "shift": the last vector begins earlier, which repeats
    iterations.

    ``reduction=True``: the sums, products and extrema that the iterations have in common are computed with partial results,
    one for each lane.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9,), "int32")):
    ...     for i in range(8):
    ...         A[i] = A[i + 1]
    ... '''))
    >>> sch.vectorize(sch.loop("i"))
    >>> sch.get(sch.loop("i")).kind.value
    'vectorized'
    >>> again = tl.Schedule(parse('''
    ... def f(A: T.Buffer((11,), "int32")):
    ...     for i in range(10):
    ...         A[i] = A[i + 1]
    ... '''))
    >>> i_0, i_1 = again.vectorize(again.loop("i"), 4, tail="scalar")
    >>> print(again.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((11,), "int32")):
        for i_0 in range(2):
            for i_1 in T.vectorized(4):
                A[i_0 * 4 + i_1] = A[i_0 * 4 + i_1 + 1]
        for i_rest in range(2):
            A[i_rest + 8] = A[i_rest + 8 + 1]
    """,
    check=lambda step: _check(step, ForKind.VECTORIZED) if step["lanes"] is None else _LANES.check(step),
    returns="many",
    result=lambda handles: list(handles) or None,
)


def _check_unroll(step: Step) -> Verdict:
    loop = step.loop(step.handle("loop"))
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag}", loop)
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early", loop)
    if not isinstance(loop.extent, IntImm):
        step.refuse(
            f"the extent {loop.extent} is not a constant", loop, "split by a constant and unroll the inner loop"
        )
    return PROVED


UNROLL = Kind(
    "Unroll",
    "unroll",
    (Slot("loop", Takes.LOOP),),
    lambda step: _change(step, ForKind.UNROLLED),
    """Write one copy of the body for each iteration of a loop whose extent is a constant; always legal.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ... '''))
    >>> sch.unroll(sch.loop("i"))
    >>> sch.get(sch.loop("i")).kind.value
    'unroll'
    """,
    check=_check_unroll,
)


def _check_bind(step: Step) -> Verdict:
    handle, tag = step.handle("loop"), str(step["thread_axis"])
    loop, site = step.loop(handle), step.site(handle)
    if tag not in AXES:
        raise BadArgument(f"{tag!r} is no thread axis", help=f"the axes are: {', '.join(AXES)}")
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag} already", loop)
    if not tag.startswith("vthread"):
        around = [stmt for stmt in step.chain(site)[:-1] if isinstance(stmt, For)]
        inside = list(each(For, loop.body))
        for other in (*around, *inside):
            if other.thread_tag == tag:
                step.refuse(f"the loop `{other.loop_var.name}` {_where(other in around)} it is bound to {tag}", other)
        # One kernel launches one number of threads along an axis.
        kernel = next((one for one in around if one.kind is ForKind.THREAD_BINDING), loop)
        for other in each(For, kernel):
            numbers = other.extent, loop.extent
            if other.thread_tag == tag and all(isinstance(x, IntImm) for x in numbers):
                if numbers[0].value != numbers[1].value:  # type: ignore[attr-defined]
                    step.refuse(
                        f"{tag} has {numbers[0]} threads in this kernel, the loop runs {numbers[1]} times", loop
                    )
    return step.facts.concurrent(step.func(site), site.steps, loop, ForKind.THREAD_BINDING, tag)


def _where(around: bool) -> str:
    return "around" if around else "inside of"


def _axis_variable(step: Step, site: Site, loop: For, tag: str) -> Var | None:
    """The variable that the loops of an axis share."""
    if tag.startswith("vthread"):
        return None
    return step.facts.axis(step.func(site).body, tag, loop.loop_var.dtype)


def _rewrite_bind(step: Step) -> Change:
    handle = step.handle("loop")
    loop, tag, site = step.loop(handle), str(step["thread_axis"]), step.site(step.handle("loop"))
    new = loop_nests.bind(loop, tag, _axis_variable(step, site, loop, tag))
    if step.word:
        new = new.with_(annotations={**new.annotations, UNCHECKED: step.word})
    forward = Forward()
    forward.like(loop, new)
    own = new.loop_var is loop.loop_var
    relabel: dict[Var, Expr] = {} if own else {loop.loop_var: build.add(loop.min, new.loop_var)}
    return Change(Edit(step.site(handle), new), forward, relabel=relabel)


BIND = Kind(
    "Bind",
    "bind",
    (Slot("loop", Takes.LOOP), Slot("thread_axis", Takes.STRING, attr=True)),
    _rewrite_bind,
    """Bind a loop to a thread axis of a GPU: ``blockIdx.x``, ``threadIdx.y``, ``vthread.z`` ….

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         B[i] = A[i] + 1
    ... '''))
    >>> sch.bind(sch.loop("i"), "threadIdx.x")
    >>> sch.get(sch.loop("i")).thread_tag
    'threadIdx.x'
    """,
    check=_check_bind,
)
