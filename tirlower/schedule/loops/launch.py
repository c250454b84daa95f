"""``launch``: loops become the blocks and threads of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Do, Kind, Slot, Takes
from tirlower.schedule.loops.kinds import BIND
from tirlower.schedule.loops.tile import no_change
from tirlower.schedule.step import Step

__all__ = ["LAUNCH"]


def _compose(step: Step, do: Do) -> Sequence[Handle]:
    for name, grid in (("blocks", "blockIdx"), ("threads", "threadIdx")):
        loops = step.handles(name)
        if len(loops) > 3:
            raise BadArgument(f"{name}= has an x, y and z at most, got {len(loops)} loops")
        for loop, axis in zip(loops, "xyz", strict=False):
            do(BIND, loop=loop, thread_axis=f"{grid}.{axis}")
    return []


LAUNCH = Kind(
    "Launch",
    "launch",
    (
        Slot("blocks", Takes.LOOPS, default=(), attr=False),
        Slot("threads", Takes.LOOPS, default=(), attr=False),
    ),
    no_change,
    """Bind loops to the blocks and the threads of a kernel, in the order x, y, z. Each is asked as ``bind`` asks.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 32), "int32")):
    ...     for i, j in T.grid(8, 32):
    ...         A[i, j] = i
    ... '''))
    >>> i, j = sch.loops("A")
    >>> sch.launch(blocks=[i], threads=[j])
    >>> sch.get(i).thread_tag, sch.get(j).thread_tag
    ('blockIdx.x', 'threadIdx.x')
    """,
    tvm=False,
    compose=_compose,
)
