"""``peel``: the first or last iterations of a loop, or those beyond a multiple of a number, as loops of their own."""

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


def _counts(step: Step) -> tuple[int, int, int]:
    """How many iterations are peeled in front and behind, and of which number a multiple is left (0: of none)."""
    counts = step.number(step["front"]), step.number(step["back"]), step.number(step["beyond"])
    for count in counts:
        if not isinstance(count, int) or not 0 <= count < 1 << 31:
            raise BadArgument(f"a number of iterations is peeled, 0 or more, got {count!r}")
    if counts == (0, 0, 0):
        raise BadArgument("nothing is peeled", help="say how many iterations: front=1, back=1 or beyond=8")
    if counts[1] and counts[2]:
        raise BadArgument("what is peeled behind is a number, or what is beyond a multiple: back= or beyond=")
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
    counts = _counts(step)
    front, back = const(counts[0], dtype), const(counts[1], dtype)
    zero: Expr = const(0, dtype)
    extent = loop.extent
    if not analyzer.can_prove(build.ge(extent, build.add(front, back))):
        # A loop that is shorter is peeled from the front as far as it goes.
        extent = build.max_(extent, zero)
        front = build.min_(front, extent)
        back = build.min_(back, build.sub(extent, front))
    left = build.sub(extent, front)
    rest = analyzer.simplify(build.sub(left, back))
    if counts[2]:
        size = const(counts[2], dtype)
        rest = build.mul(analyzer.simplify(build.floordiv(left, size)), size)  # which shows that it is a multiple
        back = build.floormod(left, size)
    begin = analyzer.simplify(build.add(loop.min, front))
    name, taken = loop.loop_var.name, names_of_blocks(step, site.func)
    parts: list[For] = []
    if counts[0]:
        parts.append(part_of(loop, loop.min, analyzer.simplify(front), f"{name}_front", ("front", taken)))
    kept = part_of(loop, begin, rest, name)
    parts.append(kept)
    if counts[1] or counts[2]:
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
        Slot("beyond", Takes.INTEGER, default=0, attr=True),
    ),
    _rewrite,
    """Give the first and last iterations of a loop loops of their own; always legal.

    The loop keeps its handle and what is left; a shorter loop is peeled as far as it goes. With ``beyond`` what is left is a
    multiple of it, known or not, and the iterations beyond are peeled behind. Blocks in the new loops have
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

    >>> again = tl.Schedule(parse('''
    ... def f(n: T.int32, A: T.Buffer((n,), "int32")):
    ...     for i in range(n):
    ...         A[i] = i
    ... '''))
    >>> whole, rest = again.peel("i", beyond=4)
    >>> str(again.get(whole).extent), str(again.get(rest).extent)
    ('n // 4 * 4', 'n % 4')
    """,
    check=_check,
    returns="many",
    tvm=False,
)
