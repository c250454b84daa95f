"""The operations of the language on the host, a file for each family. Importing the package registers them all."""

from tirlower.llvm.codegen.intrinsics import atomics, bits, calls, control, llvm_calls, math, packed, profile

__all__ = ["atomics", "bits", "calls", "control", "llvm_calls", "math", "packed", "profile"]
