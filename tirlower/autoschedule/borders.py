"""Iterations at the ends of loops for which conditions of a nest are decided otherwise than for all others: padding, stencils that
leave out what is at the rim.

Loops over them stand apart, and what is left asks nothing as it runs, so that recipes know it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tirlower.autoschedule.classify import Nest, extent_of, perfect_loops, same_for_all, selectors
from tirlower.autoschedule.recipe import Handles
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import For, Seq
from tirlower.poly import Loop
from tirlower.poly.conditions import AnyOf, AtLeast, Condition, conjuncts, negate
from tirlower.poly.inside import reach
from tirlower.schedule.handles import LoopRV

__all__ = ["Border", "borders_of", "without_borders", "without_rims_of_sums"]

MOST: Final = 64
"""Iterations at one end of a loop that are taken for its border."""


@dataclass(frozen=True)
class Border:
    """How many iterations at both ends of a loop are decided otherwise than the others."""

    loop: Loop
    front: int
    back: int


def borders_of(nest: Nest) -> list[Border]:
    """The borders of the loops of a nest that stand directly in each other, outermost first; none where its conditions are
    of other kinds, or would be left.

    >>> from tirlower.autoschedule.classify import nests_of
    >>> from tirlower.script import parse
    >>> nest, = nests_of(parse('''
    ... def f(n: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    ...     for i in range(n):
    ...         if i >= 1 and i < n - 2:
    ...             B[i] = A[i - 1] + A[i + 2]
    ... '''))
    >>> borders_of(nest)
    [Border(loop=<loop i>, front=1, back=2)]
    """
    wanted = {id(one): (one, access.loops) for access in nest.accesses() for one in _wanted(access.guards)}
    if not wanted or any(not loop.regular for loop in nest.loops):
        return []
    loops = [loop for loop in perfect_loops(nest) if same_for_all(loop) and not loop.start.terms]
    ends = {loop: [0, 0] for loop in loops}
    for condition, inside in wanted.values():
        mine = [loop for loop in loops if isinstance(condition, AtLeast) and loop.var in condition.lin.terms]
        if len(mine) != 1 or not isinstance(condition, AtLeast):
            return []
        side = condition.lin.terms[mine[0].var] < 0
        count = reach(nest.scop, inside, mine[0], negate(condition), from_end=side)
        if count is None or count > MOST:
            return []
        ends[mine[0]][side] = max(ends[mine[0]][side], count)
    found = [Border(loop, *ends[loop]) for loop in loops if any(ends[loop])]
    return [] if any(one.front + one.back >= (extent_of(one.loop) or MOST * 4) for one in found) else found


def _wanted(guards: Sequence[Condition]) -> Iterator[Condition]:
    """What has to hold so that all guards are decided: conditions hold, and of choices between some none does."""
    for one in conjuncts(guards):
        if isinstance(one, AnyOf):
            for part in one.parts:
                yield from conjuncts([negate(part)])
        else:
            yield one


def without_borders(verbs: Verbs, nest: Nest, borders: Sequence[Border], handles: Handles) -> set[int]:
    """Give borders loops of their own, and each part a nest: the identities of outermost loops that stay as they were written,
    for sizes that are all border.

    Raises :class:`~tirlower.diagnostics.ScheduleError` where their order would change; nothing is changed then but by steps that
    were taken before.
    """
    deepest = max(nest.loops.index(one.loop) for one in borders)
    around = nest.loops[: deepest + 1]
    unknown = [one for one in borders if extent_of(one.loop) is None]
    if unknown:
        sizes = [f"{_extent(one.loop)} >= {one.front + one.back}" for one in unknown]
        verbs.specialize(handles[around[0]], " and ".join(sizes))
    written = {id(verbs.get(twin)) for twin in handles[around[0]].twins}
    of = {one.loop: one for one in borders}
    roots: list[LoopRV] = []
    for loop in reversed(around):
        parts = [handles[loop]]
        if loop in of:
            parts = verbs.peel(handles[loop], front=of[loop].front, back=of[loop].back)
        roots = [one for part in parts for one in ([part] if loop is around[-1] else _fissioned(verbs, part))]
    for root in roots:
        verbs.simplify(root)
    return written


def without_rims_of_sums(verbs: Verbs, func: PrimFunc, nests: Sequence[Nest]) -> bool:
    """Take the iterations of sums in which a condition on their loop alone leaves out what they add from the nests of a function, as
    at the borders of an image; whether there were any."""
    names = selectors(func)
    found = [(verbs.loop(names[id(loop.node)]), *ends) for nest in nests for loop, ends in _rims(nest).items()]
    for loop, front, back in found:
        for part in verbs.peel(loop, front=front, back=back):
            verbs.simplify(part)
    return bool(found)


def _rims(nest: Nest) -> dict[Loop, tuple[int, int]]:
    """The loops of the only update of a nest whose first and last iterations are left out, with how many of either."""
    update = nest.statements[-1]
    guards = list(conjuncts(update.conditions[nest.loops[0].given :]))
    if not guards or update.reduction is None:
        return {}
    ends: dict[Loop, tuple[int, int]] = {}
    known = [loop for loop in update.loops if extent_of(loop) is not None and not loop.start.terms]
    for guard in guards:
        mine = [loop for loop in known if isinstance(guard, AtLeast) and set(guard.lin.terms) == {loop.var}]
        if len(mine) != 1 or not isinstance(guard, AtLeast):
            return {}
        [loop], [step] = mine, guard.lin.terms.values()
        most = extent_of(loop) or 0
        values = range(loop.start.const, loop.start.const + most)
        left = sum(step * value + guard.lin.const < 0 for value in values)
        front, back = ends.get(loop, (0, 0))
        ends[loop] = (max(front, left), back) if step > 0 else (front, max(back, left))
        if sum(ends[loop]) >= most:
            return {}
    return {loop: counts for loop, counts in ends.items() if any(counts)}


def _fissioned(verbs: Verbs, loop: LoopRV) -> list[LoopRV]:
    node = verbs.get(loop)
    return verbs.fission(loop) if isinstance(node, For) and isinstance(node.body, Seq) else [loop]


def _extent(loop: Loop) -> str:
    assert isinstance(loop.node, For)
    return str(loop.node.extent)
