"""What threads do together in several of the examples: fold a value over a warp, over a block, and scan it.

They are macros: their statements stand in the kernel that calls them.
"""

from __future__ import annotations

from tirlower.script import tir as T

WARP = 32
EVERY_LANE = 0xFFFFFFFF
"""The mask of a shuffle in which all lanes of the warp take part."""


@T.macro
def warp_fold(value, combine):
    """Every lane's ``value[0]`` becomes the fold of all lanes' by ``combine``.

    A butterfly: five exchanges between registers, no shared memory and no barrier.
    """
    for step in T.unroll(5):
        value[0] = combine(
            value[0], T.tvm_warp_shuffle_xor(T.uint32(EVERY_LANE), value[0], T.shift_right(16, step), WARP, WARP)
        )


@T.macro
def block_fold(value, parts, combine, tx, threads):
    """Every thread's ``value[0]`` becomes the fold of the whole block's; ``parts`` has an element for each warp.

    One barrier: each thread then reads the few results of the warps itself. All lanes read the same word at a time,
    which shared memory broadcasts, so a second round of shuffles would not be faster.
    """
    warp_fold(value, combine)
    if tx % WARP == 0:
        parts[tx // WARP] = value[0]
    T.tvm_storage_sync("shared")
    value[0] = parts[0]
    for w in T.unroll(1, threads // WARP):
        value[0] = combine(value[0], parts[w])


@T.macro
def block_scan(value, total, parts, tx, threads):
    """``value[0]`` becomes the sum of those of this thread and all before it, ``total[0]`` the sum of the block's."""
    up = T.alloc_buffer((1,), value.dtype, scope="local")
    before = T.alloc_buffer((1,), value.dtype, scope="local")
    for step in T.unroll(5):
        # The exchange stands outside of the condition: all lanes must take part in it.
        up[0] = T.tvm_warp_shuffle_up(T.uint32(EVERY_LANE), value[0], T.shift_left(1, step), WARP, WARP)
        if tx % WARP >= T.shift_left(1, step):
            value[0] = value[0] + up[0]
    if tx % WARP == WARP - 1:
        parts[tx // WARP] = value[0]
    T.tvm_storage_sync("shared")
    before[0] = T.Cast(value.dtype, 0)
    total[0] = T.Cast(value.dtype, 0)
    for w in T.unroll(threads // WARP):
        if w < tx // WARP:
            before[0] = before[0] + parts[w]
        total[0] = total[0] + parts[w]
    value[0] = value[0] + before[0]
