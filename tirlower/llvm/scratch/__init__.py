"""Scratch memory: large buffers of kernels, kept from call to call.

Memory of some megabytes that a call allocates and frees is mapped anew by the system each time, and each of its pages is
filled with zeros when it is touched first: that takes longer than many a kernel computes. So blocks of :data:`LARGE`
bytes and more are kept when they are given back, up to a limit, and serve the next call, of any kernel, that asks for
about as much. While nobody uses them the system may take their pages back (``MADV_FREE``), and where an allocation fails
they are freed and it is tried again. :func:`free_scratch` frees them at once.

**A kernel** imports two functions, whose addresses are :func:`scratch_symbols`::

    ptr @tirlower_scratch_take(i64 align, i64 bytes)     ; as aligned_alloc: null where there is no memory
    void @tirlower_scratch_give(ptr)                     ; null is nothing

Any thread may call them at any time; a block belongs to whoever took it.
"""

from __future__ import annotations

from tirlower.llvm.scratch.blocks import GIVE, LARGE, TAKE
from tirlower.llvm.scratch.runtime import free_scratch, scratch_symbols

__all__ = ["GIVE", "LARGE", "TAKE", "free_scratch", "scratch_symbols"]
