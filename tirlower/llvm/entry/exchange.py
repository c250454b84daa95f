"""Classes of tensors that native entries read themselves, through DLPack's C exchange API."""

from __future__ import annotations

from tirlower.call.dlpack import exchange_of
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.helpers import require_helper
from tirlower.llvm.entry.process_table import table

__all__ = ["register_exchange"]


def register_exchange(cls: type) -> None:
    """Let native entries read this class themselves, if it is one of PyTorch's with DLPack's C exchange API."""
    if not layout.NATIVE or table.knows_exchange(cls):
        return
    exchange = exchange_of(cls)
    if exchange is not None and table.register_exchange(cls, exchange.tensor):
        require_helper("helper:dlpack")
