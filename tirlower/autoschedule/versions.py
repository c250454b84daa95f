"""Versions of a nest between which a call chooses by sizes that it alone knows: threads where there is enough for them to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tirlower.autoschedule.classify import Nest, extent_of, same_for_all
from tirlower.autoschedule.model import PARALLEL_SECONDS, trips
from tirlower.autoschedule.verbs import Verbs
from tirlower.ir.expr import Expr
from tirlower.ir.stmt import For
from tirlower.poly import Loop
from tirlower.poly.affine import Space
from tirlower.schedule.handles import LoopRV

__all__ = ["enough_work", "in_parallel", "said", "where_some", "where_wide"]


def enough_work(nests: Iterable[Nest], seconds: float, least: float = PARALLEL_SECONDS) -> str:
    """The condition, in the language of the script, that nests take some time at least, where ``seconds`` is what they take of
    the sizes that unknown ones are taken to be; empty where all are known, or the bounds of loops move with others.

    >>> from tirlower.autoschedule.classify import nests_of
    >>> from tirlower.script import parse
    >>> enough_work(nests_of(parse('''
    ... def f(n: T.int32, A: T.Buffer((n, 8), "float32")):
    ...     for i, j in T.grid(n, 8):
    ...         A[i, j] = T.float32(0)
    ... ''')), 1e-6, 4e-6)
    'T.Cast("float64", n) >= T.float64(2876)'
    """
    loops = max((one.loops for nest in nests for one in nest.statements), key=_points, default=())
    sizes: list[Expr] = []
    typical = 1.0
    for loop in loops:
        if extent_of(loop) is None:
            if not isinstance(loop.node, For) or not same_for_all(loop):
                return ""
            sizes.append(loop.node.extent)
            typical *= trips(loop)
    if not sizes:
        return ""
    product = " * ".join(f'T.Cast("float64", {size})' for size in sizes)  # which does not overflow
    return f"{product} >= T.float64({max(1, round(typical * least / max(seconds, 1e-12)))})"


def in_parallel(
    sch: Verbs,
    loop: LoopRV,
    nests: Sequence[Nest],
    seconds: float,
    least: float = PARALLEL_SECONDS,
    *,
    reduction: bool = False,
) -> None:
    """Run a loop in parallel; where sizes are known to the caller alone, in a version for calls with enough to do, beside the
    serial one. ``seconds`` is the time of the nests in parallel, ``least`` the one from which on that pays; with a
    ``reduction`` threads have partial results."""
    condition = enough_work(nests, seconds, least)
    if condition:
        sch.specialize(loop, condition)
    sch.parallel(loop, reduction=reduction)


def where_wide(sch: Verbs, where: LoopRV, loop: Loop, size: int) -> None:
    """Go on with what stands in a loop where another one, of the nest as it was written, runs so often at least: where the
    caller alone knows that, what is written stays beside it for fewer iterations."""
    if extent_of(loop) is None and isinstance(loop.node, For) and same_for_all(loop):
        sch.specialize(where, f"{loop.node.extent} >= {size}")


def where_some(sch: Verbs, where: LoopRV, space: Space, loops: Iterable[Loop]) -> None:
    """Go on with what stands in a loop where each of some loops, of the nest as it was written, runs at all: of a size that may
    be below zero, as that of a view of flat memory, each proof has to tell the cases apart. What is written stays for the rest."""
    sizes = [
        str(loop.node.extent)
        for loop in loops
        if isinstance(loop.node, For) and loop.extent is not None and space.interval(loop.extent)[0] < 0
    ]
    if sizes:
        sch.specialize(where, " and ".join(f"{size} >= 1" for size in dict.fromkeys(sizes)))


def said(nests: Sequence[Nest], seconds: float, least: float = PARALLEL_SECONDS) -> str:
    """What the report says of the versions of :func:`in_parallel`; nothing where there is one."""
    condition = enough_work(nests, seconds, least)
    short = condition.replace('T.Cast("float64", ', "").replace("T.float64(", "").replace(")", "")
    return f"two versions: parallel where {short}" if condition else ""


def _points(loops: Sequence[Loop]) -> float:
    total = 1.0
    for loop in loops:
        total *= trips(loop)
    return total
