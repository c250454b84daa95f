"""The code generator of the host: lowered functions in, LLVM IR out.

``generate(module, target)`` takes functions without blocks or thread axes, whose vectorized loops have become vector
expressions, and gives a :class:`GeneratedModule`: an LLVM module and, for each exported function, what the entry needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tirlower.emit.machine import Machine
from tirlower.llvm.codegen.machine import compile_options, machine_of
from tirlower.llvm.codegen.symbols import register_symbol, resolve_imports, unregister_symbol

if TYPE_CHECKING:
    from tirlower.llvm.codegen.module import GeneratedModule, KernelInfo, generate, kernel_symbol

__all__ = [
    "GeneratedModule",
    "KernelInfo",
    "Machine",
    "compile_options",
    "generate",
    "kernel_symbol",
    "machine_of",
    "register_symbol",
    "resolve_imports",
    "unregister_symbol",
]


def __getattr__(name: str) -> object:
    # The generator itself: a kernel from the disk cache does without it.
    if name in ("GeneratedModule", "KernelInfo", "generate", "kernel_symbol"):
        return getattr(importlib.import_module("tirlower.llvm.codegen.module"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
