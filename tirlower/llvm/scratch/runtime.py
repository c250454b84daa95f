"""The process's blocks: made at the first use, with a limit on what is kept."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from typing import Final

from tirlower.diagnostics import ArgumentValueError
from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import Linked, engine
from tirlower.llvm.scratch.blocks import EXPORTS, FREE, GIVE, LIMIT, TAKE, blocks_module
from tirlower.machine import cpu as host
from tirlower.support.memory import process_memory

__all__ = ["LIMIT_VARIABLE", "free_scratch", "kept_bytes", "scratch_symbols"]

#: The environment's word on how many bytes are kept at most; 0 keeps nothing.
LIMIT_VARIABLE: Final = "TIRLOWER_SCRATCH_BYTES"
#: Without it: so much of the memory that the process may have, and no more than a gigabyte.
_PART: Final = 16
_MOST: Final = 1 << 30


@functools.cache
def _linked() -> Linked:
    text = blocks_module(host.triple(), host.data_layout()).text()
    code = engine().compile_object(text, CompileOptions.for_host(opt_level=0, pipeline="none"))
    linked = engine().link(code.object, EXPORTS)
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linked[LIMIT])(kept_bytes())
    # Never unloaded: machine code that has its addresses may run to the end of the process.
    for owner in (linked, engine()):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    return linked


def scratch_symbols() -> Mapping[str, int]:
    """The addresses of what kernels import."""
    linked = _linked()
    return {name: linked[name] for name in (TAKE, GIVE)}


def free_scratch() -> int:
    """Free the scratch memory that kernels have left for later calls; gives its bytes.

    What a running kernel uses stays. The next call that needs some takes it from the system again.

    >>> import numpy as np
    >>> import tirlower as tl
    >>> from tirlower.script import tir as T
    >>> @T.prim_func
    ... def reverse_twice(A: T.Buffer((1 << 20,), "float32"), B: T.Buffer((1 << 20,), "float32")):
    ...     C = T.alloc_buffer((1 << 20,), "float32")
    ...     for i in range(1 << 20):
    ...         C[(1 << 20) - 1 - i] = A[i]
    ...     for i in range(1 << 20):
    ...         B[i] = C[(1 << 20) - 1 - i]
    >>> kernel = tl.build(reverse_twice, outputs=["B"])
    >>> a = np.arange(1 << 20, dtype="float32")
    >>> bool((kernel(a) == a).all())
    True
    >>> tl.free_scratch() >= 1 << 22
    True
    >>> tl.free_scratch()
    0
    """
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(_linked()[FREE])())


def kept_bytes() -> int:
    """The most that is kept for later calls: ``TIRLOWER_SCRATCH_BYTES``, else a sixteenth of the process's memory.

    Raises:
        ArgumentValueError: the environment variable is no number of bytes.
    """
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return min(process_memory() // _PART, _MOST)
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 62:
        raise ArgumentValueError(
            f"{LIMIT_VARIABLE} is {text!r}", origin="environment", help="give a number of bytes; 0 keeps nothing"
        )
    return int(text)
