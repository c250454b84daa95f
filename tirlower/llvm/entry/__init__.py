"""The call: from Python objects to a compiled kernel, with every check, in some tens of nanoseconds.

A :class:`~tirlower.call.signature.Signature` describes the parameters; :func:`add_entry` generates a vectorcall function into the kernel's own
LLVM module; :func:`make_entry` gives the object that Python calls. A call that the machine code does not take (other
kinds of objects, keywords, wrong arguments) is made in Python, which accepts it or says what is wrong; where the layout
of Python's objects is unknown all calls go that way. Nothing here knows the IR.
"""

from __future__ import annotations

from tirlower.llvm.entry.abi import without_entries
from tirlower.llvm.entry.callable import NATIVE_CALLS, EntryBase, NativeEntry
from tirlower.llvm.entry.make import (
    EntryParts,
    add_entry,
    entry_cache_key,
    entry_for_address,
    entry_imports,
    entry_parts,
    make_entry,
    packed_kernel,
)

__all__ = [
    "NATIVE_CALLS",
    "EntryBase",
    "EntryParts",
    "NativeEntry",
    "add_entry",
    "entry_cache_key",
    "entry_for_address",
    "entry_imports",
    "entry_parts",
    "make_entry",
    "packed_kernel",
    "without_entries",
]
