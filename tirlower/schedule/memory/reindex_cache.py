"""``reindex_cache_read`` and ``reindex_cache_write``: a copy in another scope, indexed by a map of a block's iterators."""

from __future__ import annotations

from tirlower.ir.index_map import IndexMap
from tirlower.schedule.draft import Made, ValueStep
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import cache_name
from tirlower.schedule.memory.reindex import reindexed
from tirlower.schedule.step import Step

__all__ = ["REINDEX_CACHE_READ", "REINDEX_CACHE_WRITE"]


def _make(step: Step, side: str) -> Made:
    buffer, scope, layout = step.buffer("buffer"), str(step["storage_scope"]), step["index_map"]
    assert isinstance(layout, IndexMap)
    return reindexed(step, buffer, side, cache_name(buffer, scope), scope, layout)


_READ = ValueStep(lambda step: _make(step, "read"))
_WRITE = ValueStep(lambda step: _make(step, "write"))
REINDEX_CACHE_READ = Kind(
    "ReindexCacheRead",
    "reindex_cache_read",
    (
        Slot("block", Takes.BLOCK),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="read_buffer_index", side="read"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
        Slot("index_map", Takes.INDEX_MAP),
    ),
    _READ.rewrite,
    """Let a block read a copy of a buffer in another scope, ``A_shared``, indexed by a map of the block's iterators. Returns
    the block of the copy.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((4, 8), "int32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vj, vi] * 2
    ... '''))
    >>> sch.reindex_cache_read("B", 0, "shared", lambda i, j: [i, j // 2, j % 2])
    BlockRV('A_shared')
    """,
    check=_READ.check,
    returns="one",
)
REINDEX_CACHE_WRITE = Kind(
    "ReindexCacheWrite",
    "reindex_cache_write",
    (
        Slot("block", Takes.BLOCK),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="write_buffer_index", side="write"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
        Slot("index_map", Takes.INDEX_MAP),
    ),
    _WRITE.rewrite,
    """Let a block write a buffer in another scope, ``B_local``, indexed by a map of the block's iterators; a copy brings the
    result out. Returns the block of the copy.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((4, 8), "int32")):
    ...     for i, j in T.grid(4, 8):
    ...         with T.block("B"):
    ...             vi, vj = T.axis.remap("SS", [i, j])
    ...             B[vi, vj] = A[vj, vi] * 2
    ... '''))
    >>> sch.reindex_cache_write("B", 0, "local", lambda i, j: [j, i])
    BlockRV('B_local')
    """,
    check=_WRITE.check,
    returns="one",
)
