"""What plans by hand take from a machine."""

from __future__ import annotations

from tirlower.machine.processor import Processor as Machine

__all__ = ["Machine"]
