"""StorageRewrite with its plan checked: what tests of shared memory need."""

from __future__ import annotations

from tests.checking import check
from tirlower.ir import AllocBuffer, PrimFunc, pre_order_visit
from tirlower.rewrite.storage.check import verify_storage
from tirlower.transforms.memory.storage_rewrite import StorageRewrite

REWRITE = StorageRewrite()


def allocations(func: PrimFunc) -> list[tuple]:
    """The allocated buffers: name, extents, dtype."""
    found = []

    def look(op) -> None:
        if isinstance(op, AllocBuffer):
            shape = tuple(getattr(e, "value", str(e)) for e in op.buffer.shape)
            found.append((op.buffer.name, *shape, str(op.buffer.dtype)))

    pre_order_visit(func.body, look)
    return found


def rewritten(func: PrimFunc, **options) -> list[tuple]:
    """Check the pass and its plan on a function, and give what is allocated in the end."""
    after = check(REWRITE, func, **options)
    verify_storage(func, after)
    return allocations(after)
