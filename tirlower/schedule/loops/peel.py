"""``peel``: the first or last iterations of a loop, or those beyond a multiple of a number, as loops of their own; with ``tail="shift"``
the last part is as long as the others, and begins earlier."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.query import each
from tirlower.ir.stmt import For, ForKind, Seq
from tirlower.poly.repeatable import is_repeatable
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.draft import Draft, Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.bounds import bounds_stay
from tirlower.schedule.loops.copies import names_of_blocks, part_of, twinned
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["PEEL"]

TAILS = ("rest", "shift")


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


def _shifts(step: Step) -> bool:
    """Whether the last part repeats iterations."""
    tail = step["tail"]
    if tail not in TAILS:
        raise BadArgument(f"tail= is one of {', '.join(map(repr, TAILS))}, got {tail!r}")
    if tail == "shift" and (_counts(step)[:2] != (0, 0)):
        raise BadArgument('with tail="shift" what is peeled is beyond a multiple: beyond=8, without front= or back=')
    return tail == "shift"


def _check(step: Step) -> Verdict:
    loop = step.loop(step.handle("loop"))
    _counts(step)
    if loop.kind in (ForKind.THREAD_BINDING, ForKind.VECTORIZED):
        what = f"bound to {loop.thread_tag}" if loop.kind is ForKind.THREAD_BINDING else "vectorized"
        step.refuse(f"the loop is {what}: its iterations run in step", loop, "peel it before")
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early, which would leave one part alone", loop)
    bounds_stay(step, [loop])
    return _SHIFTED.check(step) if _shifts(step) else PROVED


def _shifted(step: Step) -> Made:
    """The draft in which the last part is a whole one, whose first iterations run again."""
    handle = step.handle("loop")
    loop, site, known = step.loop(handle), step.site(handle), step.analyzer(step.site(handle))
    name, taken = loop.loop_var.name, names_of_blocks(step, site.func)
    size = const(_counts(step)[2], loop.loop_var.dtype)
    bounds_stay(step, [loop])
    if not known.can_prove(build.ge(loop.extent, size)):
        text = f"{loop.extent} >= {size}"
        step.refuse(
            f"the extent {loop.extent} is not known to be {size} at least",
            loop,
            f'sch.specialize(loop, "{text}") first',
        )
    rest = build.mul(known.simplify(build.floordiv(build.sub(loop.extent, const(1, size.dtype)), size)), size)
    kept = part_of(loop, loop.min, rest, name)
    start = known.simplify(build.sub(build.add(loop.min, loop.extent), size))
    last = part_of(loop, start, size, f"{name}_back", ("back", taken))
    draft = Draft(step, site.func)
    for part in (kept, last):
        loops = zip(each(For, loop.body), each(For, part.body), strict=True)
        values: dict[Var, Expr] = {old.loop_var: new.loop_var for old, new in loops}
        draft.same(part.body, loop.body, values | {loop.loop_var: part.loop_var})
    twinned(draft.forward, loop.body, kept.body, [last.body])
    draft.forward.keep(loop, kept, last)
    draft.replace(site.steps, kept, last)
    return Made(draft, (kept, last))


class _Shifted(ValueStep):
    """A part that repeats iterations. Where they may be repeated whatever stands around, no flow of values is asked for."""

    def check(self, step: Step) -> Verdict:
        """Whether the program after computes the same values."""
        draft = self.made(step).draft
        handle = step.handle("loop")
        func, site, loop = step.func(step.site(handle)), step.site(handle), step.loop(handle)
        uses = step.facts.uses(loop)
        quiet = not (uses.effects or uses.pointers or uses.returns) and not step.policy.proves_again
        if quiet and is_repeatable(step.facts.part(func, site.steps), loop):
            return draft.concurrent()
        return draft.verdict()


_SHIFTED = _Shifted(_shifted)


def _rewrite(step: Step) -> Change:
    if _shifts(step):
        return _SHIFTED.rewrite(step)
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
        Slot("tail", Takes.STRING, default="rest", attr=True, extra=True),
    ),
    _rewrite,
    """Give the first and last iterations of a loop loops of their own; legal wherever no iteration is repeated.

    The loop keeps its handle and what is left; a shorter loop is peeled as far as it goes. With ``beyond`` what is left is a
    multiple of it, known or not, and the iterations beyond are peeled behind. Blocks in the new loops have
    names that end in ``_front`` and ``_back``. Returns the loops in their order.

    With ``tail="shift"`` the last part has ``beyond`` iterations whatever the extent is, which must be known to be that at least: it begins
    earlier, and repeats iterations where the extent is no multiple (Halide's ``ShiftInwards``). Legal where that changes nothing.

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
    >>> again.undo()
    >>> again.specialize(again.loop("i"), "n >= 4")
    >>> whole, last = again.peel("i#0", beyond=4, tail="shift")
    >>> str(again.get(whole).extent), str(again.get(last).min), str(again.get(last).extent)
    ('(n - 1) // 4 * 4', 'n - 4', '4')
    """,
    check=_check,
    returns="many",
    tvm=False,
)
