"""The code generator of the host: lowered functions in, LLVM IR out.

``generate(module, target)`` takes functions without blocks or thread axes, whose vectorized loops have become vector
expressions, and gives a :class:`GeneratedModule`: an LLVM module and, for each exported function, what the entry needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tirlower.emit.machine import Machine
from tirlower.llvm.codegen.machine import compile_options, machine_of
from tirlower.llvm.codegen.symbols import register_symbol, resolve_imports, unregister_symbol
from tirlower.support.lazy import imported_when_asked

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

# The generator itself: a kernel from the disk cache does without it.
__getattr__ = imported_when_asked(
    __name__, dict.fromkeys(("GeneratedModule", "KernelInfo", "generate", "kernel_symbol"), "module")
)
