"""Classes of tensors that native entries read themselves, through DLPack's C exchange API."""

from __future__ import annotations

import ctypes

from tirlower.call.dlpack import capsule_is, capsule_pointer
from tirlower.call.vectorcall import word
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.helpers import require_helper
from tirlower.llvm.entry.process_table import table

__all__ = ["register_exchange"]

_EXCHANGE_API_FUNCTION = 5  # version, prev, then dltensor_from_py_object_no_sync is the fourth function


def register_exchange(cls: type) -> None:
    """Let native entries read this class themselves, if it is one of PyTorch's with DLPack's C exchange API.

    Only PyTorch's: what that API fills has no flag for read-only memory, which other libraries' arrays may be.
    """
    if not layout.NATIVE or cls.__module__.partition(".")[0] != "torch" or table.knows_exchange(cls):
        return
    capsule = getattr(cls, "__dlpack_c_exchange_api__", None)
    if capsule is None or not capsule_is(capsule, b"dlpack_exchange_api"):
        return
    api = capsule_pointer(capsule, b"dlpack_exchange_api")
    function = word(api + 8 * _EXCHANGE_API_FUNCTION)
    if ctypes.c_uint32.from_address(api).value == 1 and function and table.register_exchange(cls, function):
        require_helper("helper:dlpack")
