"""``tile``: several loops split, the outer parts outside of all inner ones; judged by the final order alone."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import Var
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Do, Kind, Slot, Takes
from tirlower.schedule.loops.reorder import REORDER
from tirlower.schedule.loops.split import SPLIT
from tirlower.schedule.sites import Change
from tirlower.schedule.step import Step

__all__ = ["TILE", "halves"]

_TAILS = ("guard", "exact")


def _compose(step: Step, do: Do) -> Sequence[Handle]:
    loops, sizes, names = step.handles("loops"), step["sizes"], step["names"]
    assert isinstance(sizes, (list, tuple))
    assert names is None or isinstance(names, (list, tuple))
    if len(loops) != len(sizes) or not loops:
        raise BadArgument(f"{len(loops)} loops take as many sizes, got {len(sizes)}")
    if names is not None and len(names) != 2 * len(loops):
        raise BadArgument(f"{len(loops)} loops become {2 * len(loops)}, the outer ones first; got {len(names)} names")
    if step["tail"] not in _TAILS:
        raise BadArgument(f"tail= is one of {', '.join(map(repr, _TAILS))}, got {step['tail']!r}")
    outer: list[Handle] = []
    inner: list[Handle] = []
    for at, (loop, size) in enumerate(zip(loops, sizes, strict=True)):
        given = None if names is None else [names[at], names[at + len(loops)]]
        exact = step["tail"] == "exact"
        parts = do(SPLIT, loop=loop, factors=[None, size], disable_predication=exact, names=given)
        outer.append(parts[0])
        inner.append(parts[1])
    do(REORDER, ordered_loops=[*outer, *inner])
    return [*outer, *inner]


def halves(handles: Sequence[Handle | Var]) -> object:
    """The outer loops, and the inner ones."""
    middle = len(handles) // 2
    return list(handles[:middle]), list(handles[middle:])


def no_change(step: Step) -> Change:
    """The rewrite of a bigger step, whose parts have theirs."""
    raise AssertionError("a bigger step is taken part by part")


TILE = Kind(
    "Tile",
    "tile",
    (
        Slot("loops", Takes.LOOP, many=True),
        Slot("sizes", Takes.TILES, attr=True),
        Slot("tail", Takes.STRING, default="guard", attr=True, extra=True),
        Slot("names", Takes.NAMES, default=None, attr=True, extra=True),
    ),
    no_change,
    """Split nested loops by sizes, and put all outer parts outside of all inner ones. Returns the outer and the inner loops.

    Legal where the final order is. What a size does not divide is left out by a condition; with ``tail="exact"`` all sizes
    must divide. ``names``: of the outer loops, then of the inner ones.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32")):
    ...     for i, j in T.grid(16, 16):
    ...         B[j, i] = A[i, j]
    ... '''))
    >>> outer, inner = sch.tile(sch.loops("B"), [4, 8])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((16, 16), "int32"), B: T.Buffer((16, 16), "int32")):
        for i_0, j_0, i_1, j_1 in T.grid(4, 2, 4, 8):
            B[j_0 * 8 + j_1, i_0 * 4 + i_1] = A[i_0 * 4 + i_1, j_0 * 8 + j_1]
    """,
    returns="many",
    tvm=False,
    compose=_compose,
    result=halves,
)
