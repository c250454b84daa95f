"""What is emitted is called through the host's code generator: its tests' random numbers are these tests' too."""

from __future__ import annotations

from tests.llvm.codegen.conftest import rng

__all__ = ["rng"]
