"""The kernels to call are those of the native entry's tests: each check runs through machine code and in Python."""

from __future__ import annotations

from tests.llvm.entry.conftest import fast_probe, native, probe, text_kernel

__all__ = ["fast_probe", "native", "probe", "text_kernel"]
