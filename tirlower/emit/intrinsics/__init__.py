"""The operations of the language that every machine has, a file for each family. Importing the package registers them."""

from tirlower.emit.intrinsics import atomics, bits, control, llvm_calls, math

__all__ = ["atomics", "bits", "control", "llvm_calls", "math"]
