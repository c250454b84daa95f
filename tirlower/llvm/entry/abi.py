"""The contract between a compiled kernel and the entry that Python calls.

A kernel named ``f`` is an LLVM function::

    i32 @f(<one value a parameter>, <one value a symbol>, ptr %err [, ptr %ret])

- a buffer parameter is a ``ptr`` such that element ``i`` of a flat access is ``data[i]``: where the signature declares
  no ``elem_offset`` (or a symbolic one, which is then bound to 0) it points at the array's first element, and otherwise
  ``elem_offset`` elements before it;
- a scalar parameter is the LLVM value of its dtype: ``i1`` for bool, ``iN`` for intN and uintN, ``half``, ``float``,
  ``double``, the bits of bfloat16 (``i16``) and of the float8 kinds (``i8``), ``ptr`` for handle;
- a symbol (``Signature.symbols``, in that order) is an ``i32`` or ``i64`` by its dtype;
- ``%err`` points to an :class:`~tirlower.call.errors.ErrorRecord` of the caller's. The kernel returns 0, or fills the record and returns
  anything else; ``code`` is an index into the table of :class:`~tirlower.call.errors.ErrorSite` given to ``make_entry``, and the first
  ``nvals`` of ``vals`` are what the site's template formats;
- ``%ret`` is there when the signature has ``returns``: storage of 8 bytes, aligned to 8, for the value in its type in
  memory (bool as ``i8`` 0 or 1).

In memory bool elements are bytes 0 or 1. The kernel must not touch Python: the GIL may be released around it.
Beside ``@f`` the module gets two more functions (see :mod:`tirlower.llvm.entry.native`): ``@f.packed``, which takes the
same values as 64-bit slots in an array (the road of the pure-Python binder), and ``@f.entry``, the vectorcall function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = [
    "ABI_VERSION",
    "entry_symbol",
    "packed_symbol",
    "without_entries",
]

#: raise it when anything that a cached object file relies on changes: the contract above, or a slot of the table
ABI_VERSION = 1


def entry_symbol(kernel: str) -> str:
    """The name of the vectorcall function of a kernel."""
    return f"{kernel}.entry"


def packed_symbol(kernel: str) -> str:
    """The name of the function that takes a kernel's arguments from an array of 64-bit slots."""
    return f"{kernel}.packed"


def without_entries(text: str, kernels: Iterable[str]) -> str:
    """LLVM IR or assembly (ELF) without the functions that Python calls, those that the kernels of these symbols have."""
    for kernel in kernels:
        for name in (entry_symbol(kernel), packed_symbol(kernel)):
            symbol = re.escape(name)
            for pattern in (
                rf'^(?:; Function Attrs:[^\n]*\n)?define [^@\n]*@"?{symbol}"?\(.*?^}}\n',
                rf'^\s*\.globl\s+"?{symbol}"?\s.*?^\s*\.size\s+"?{symbol}"?,[^\n]*\n',
            ):
                text = re.sub(pattern, "", text, flags=re.DOTALL | re.MULTILINE)
    return text
