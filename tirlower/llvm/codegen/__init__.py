"""The code generator of the host: lowered functions in, LLVM IR out.

``generate(module, target)`` takes functions without blocks or thread axes, whose vectorized loops have become vector
expressions, and gives a :class:`GeneratedModule`: an LLVM module and, for each exported function, what the entry needs.
"""

from __future__ import annotations

from tirlower.emit.machine import Machine
from tirlower.llvm.codegen.kernel import signature_of
from tirlower.llvm.codegen.machine import compile_options, machine_of
from tirlower.llvm.codegen.module import GeneratedModule, KernelInfo, generate, kernel_symbol
from tirlower.llvm.codegen.symbols import register_symbol, resolve_imports, unregister_symbol

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
    "signature_of",
    "unregister_symbol",
]
