"""``launch``: loops become the blocks and threads of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import IntImm
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Do, Kind, Slot, Takes
from tirlower.schedule.loops.kinds import BIND
from tirlower.schedule.loops.split import SPLIT
from tirlower.schedule.loops.tile import no_change
from tirlower.schedule.step import Step

__all__ = ["LAUNCH"]


MOST_BLOCKS = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}
MOST_THREADS = {"x": 1024, "y": 1024, "z": 64}
"""Of a grid and a block of NVIDIA GPUs of any generation, and (by the axis x) of a block in all."""


def _compose(step: Step, do: Do) -> Sequence[Handle]:
    made: list[Handle] = []
    for name, grid in (("blocks", "blockIdx"), ("threads", "threadIdx")):
        loops = step.handles(name)
        if len(loops) > 3:
            raise BadArgument(f"{name}= has an x, y and z at most, got {len(loops)} loops")
        left = MOST_THREADS["x"]
        for loop, axis in zip(loops, "xyz", strict=False):
            extent = step.loop(loop).extent
            most = MOST_BLOCKS[axis] if grid == "blockIdx" else min(MOST_THREADS[axis], left)
            count = extent.value if isinstance(extent, IntImm) else 1
            if count > most:
                threads = grid == "threadIdx"
                parts = do(SPLIT, loop=loop, factors=[None, _fitting(count, most) if threads else -(-count // most)])
                loop, rest = (parts[1], parts[0]) if threads else (parts[0], parts[1])
                made += (loop, rest)
                extent = step.loop(loop).extent
                count = extent.value if isinstance(extent, IntImm) else 1
            left //= max(count, 1)
            do(BIND, loop=loop, thread_axis=f"{grid}.{axis}")
    return made


def _fitting(count: int, most: int) -> int:
    """Into how many threads a loop goes: a part of it without a rest, where one fills half of them at least."""
    return next((size for size in range(most, most // 2, -1) if count % size == 0), most)


LAUNCH = Kind(
    "Launch",
    "launch",
    (
        Slot("blocks", Takes.LOOPS, default=(), attr=False),
        Slot("threads", Takes.LOOPS, default=(), attr=False),
    ),
    no_change,
    """Bind loops to the blocks and the threads of a kernel, in the order x, y, z. Each is asked as ``bind`` asks.

    A loop of more iterations than an axis has (1024 threads in all axes together, 64 of them in z; 65535 blocks in y and z) is
    split: of threads the inner part is bound, of blocks the outer one, and each thread or block runs the other part. Returns the
    loops of each split, that which was bound first.

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
    returns="many",
    result=lambda handles: list(handles) or None,
)
