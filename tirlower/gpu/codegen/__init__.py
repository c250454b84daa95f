"""The code generator of NVIDIA GPUs: a module whose kernels were split from the host in, LLVM IR and PTX out."""

from __future__ import annotations

from tirlower.gpu.codegen.machine import compile_options
from tirlower.gpu.codegen.module import GeneratedKernels, compile_module, generate, is_kernel

__all__ = ["GeneratedKernels", "compile_module", "compile_options", "generate", "is_kernel"]
