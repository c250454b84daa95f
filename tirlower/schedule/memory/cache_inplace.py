"""``cache_inplace``: a block that reads and writes a buffer does both in another scope."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.schedule.draft import Made
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.cache_write import cache_of_writes
from tirlower.schedule.memory.caches import cache_name
from tirlower.schedule.memory.staging import Candidates
from tirlower.schedule.step import Step

__all__ = ["CACHE_INPLACE"]


def _make(step: Step) -> list[Callable[[], Made]]:
    stage = step.stage("block")
    buffer, scope = step.buffer("buffer"), str(step["storage_scope"])
    if buffer not in stage.reads or buffer not in stage.writes:
        step.refuse(f"{buffer.name} is not both read and written there", stage.stmt)
    return [
        cache_of_writes(
            step,
            stage.site.func,
            stage.site.steps,
            buffer,
            scope,
            (),
            copy_in=True,
            copy_name=cache_name(buffer, scope),
        )
    ]


_STEP = Candidates(_make)
CACHE_INPLACE = Kind(
    "CacheInplace",
    "cache_inplace",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="read_buffer_index", side="read"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
    ),
    _STEP.rewrite,
    """Let a block that reads and writes a buffer do both in another scope: it is copied in before, and out after it.
    Returns the two blocks.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in range(7):
    ...         with T.block("A"):
    ...             v = T.axis.opaque(7, i)
    ...             A[v + 1] = A[v] + A[v + 1]
    ... '''))
    >>> len(sch.cache_inplace("A", 0, "local"))
    2
    """,
    check=_STEP.check,
    returns="many",
)
