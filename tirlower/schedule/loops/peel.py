"""``peel``: the first or last iterations of a loop as loops of their own."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, const
from tirlower.ir.stmt import For, ForKind, Seq
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.copies import names_of_blocks, part_of, twinned
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["PEEL"]


def _counts(step: Step) -> tuple[int, int]:
    counts = step.number(step["front"]), step.number(step["back"])
    for count in counts:
        if not isinstance(count, int) or not 0 <= count < 1 << 31:
            raise BadArgument(f"a number of iterations is peeled, 0 or more, got {count!r}")
    if counts == (0, 0):
        raise BadArgument("nothing is peeled", help="say how many iterations: front=1 or back=1")
    return counts  # type: ignore[return-value]


def _check(step: Step) -> Verdict:
    loop = step.loop(step.handle("loop"))
    _counts(step)
    if loop.kind in (ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        what = f"bound to {loop.thread_tag}" if loop.kind is ForKind.THREAD_BINDING else "vectorized"
        step.refuse(f"the loop is {what}: its iterations run in step", loop, "peel it before")
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early, which would leave one part alone", loop)
    return PROVED


def _rewrite(step: Step) -> Change:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    dtype, analyzer = loop.loop_var.dtype, step.analyzer(site)
    front, back = (const(count, dtype) for count in _counts(step))
    zero: Expr = const(0, dtype)
    extent = loop.extent
    if not analyzer.can_prove(build.ge(extent, build.add(front, back))):
        # A loop that is shorter is peeled from the front as far as it goes.
        extent = build.max_(extent, zero)
        front = build.min_(front, extent)
        back = build.min_(back, build.sub(extent, front))
    rest = analyzer.simplify(build.sub(build.sub(extent, front), back))
    begin = analyzer.simplify(build.add(loop.min, front))
    name, taken = loop.loop_var.name, names_of_blocks(step, site.func)
    parts: list[For] = []
    if _counts(step)[0]:
        parts.append(part_of(loop, loop.min, analyzer.simplify(front), f"{name}_front", ("front", taken)))
    kept = part_of(loop, begin, rest, name)
    parts.append(kept)
    if _counts(step)[1]:
        end = analyzer.simplify(build.add(begin, rest))
        parts.append(part_of(loop, end, analyzer.simplify(back), f"{name}_back", ("back", taken)))
    forward = Forward()
    copies = [part for part in parts if part is not kept]
    twinned(forward, loop.body, kept.body, [part.body for part in copies])
    forward.keep(loop, kept, *copies)
    return Change(Edit(site, Seq(tuple(parts))), forward, tuple(parts))


PEEL = Kind(
    "Peel",
    "peel",
    (
        Slot("loop", Takes.LOOP),
        Slot("front", Takes.INTEGER, default=0),
        Slot("back", Takes.INTEGER, default=0),
    ),
    _rewrite,
    """Give the first and last iterations of a loop loops of their own; always legal.

    The loop keeps its handle and what is left; a shorter loop is peeled as far as it goes. Blocks in the new loops have
    names that end in ``_front`` and ``_back``. Returns the loops in their order.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((9,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ... '''))
    >>> sch.peel("i", front=1)
    [LoopRV('i_front'), LoopRV('i')]
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((9,), "int32")):
        for i_front in range(1):
            A[i_front] = i_front
        for i in range(1, 8):
            A[i] = i
    """,
    check=_check,
    returns="many",
    tvm=False,
)
