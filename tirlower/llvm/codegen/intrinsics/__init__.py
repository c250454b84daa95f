"""The operations of the language that are the host's own, a file for each family. Importing the package registers them."""

from tirlower.llvm.codegen.intrinsics import calls, packed, profile

__all__ = ["calls", "packed", "profile"]
