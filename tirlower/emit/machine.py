"""A processor with the target's options, as code generation sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tirlower.emit.llvm_text import FastMath
from tirlower.machine.dots import Dots
from tirlower.machine.target import Target

__all__ = ["FMA_FEATURES", "Machine", "fast_math_of"]

FMA_FEATURES: Final = frozenset({"fma", "avx512f", "neon", "sve", "fp-armv8", "v"})
"""Features that promise a fused multiply-add instruction for vectors (x86, ARM; RISC-V's V implies it)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor with the target's options: ``features`` are those that code may use without asking."""

    triple: str
    cpu: str
    feature_text: str
    features: frozenset[str]
    fast_math: FastMath
    rounds_dots: bool
    fast_vector_math: bool
    vector_width: int
    num_threads: int
    opt_level: int

    @property
    def is_x86(self) -> bool:
        """Whether it is a 64-bit x86."""
        return self.triple.startswith(("x86_64", "amd64"))

    @property
    def is_windows(self) -> bool:
        """Whether the C library is Windows' own."""
        return "windows" in self.triple

    @property
    def has_library(self) -> bool:
        """Whether there is a C library to call: a GPU has none."""
        return not self.triple.startswith("nvptx")

    @property
    def guesses_branches(self) -> bool:
        """Whether it goes on behind a branch before it knows which way to go: the lanes of a GPU wait for each other."""
        return not self.triple.startswith("nvptx")

    @property
    def unrolls_nests(self) -> bool:
        """Whether LLVM may unroll loops around loops: registers of a GPU have no addresses, which such loops may count."""
        return self.triple.startswith("nvptx")

    @property
    def wide_indices(self) -> bool:
        """Whether 64-bit products cost what 32-bit ones do: on a GPU they are several instructions."""
        return not self.triple.startswith("nvptx")

    @property
    def native_bfloat(self) -> bool:
        """Whether an instruction rounds float32 to bfloat16 as we do (subnormals kept); its NaN may have another payload."""
        return "bf16" in self.features

    @property
    def computes_bfloat(self) -> bool:
        """Whether sums, products, minima and maxima of bfloat16 are instructions, of pairs too, with subnormals: a GPU's are."""
        return self.native_bfloat and not self.has_library

    @property
    def native_half(self) -> bool:
        """Whether arithmetic on half floats is native (scalars and vectors)."""
        return "avx512fp16" in self.features or "fullfp16" in self.features

    @property
    def lets_llvm_fuse(self) -> bool:
        """Whether LLVM chooses the products that it fuses: of sums that it may add in any order, and on a GPU."""
        return bool(self.fast_math & FastMath.REASSOC) or not self.has_library

    @property
    def fuses(self) -> bool:
        """Whether products are fused with sums as they are written: FuseMultiplyAdd does it, and nothing behind it."""
        has_fma = self.triple.startswith(("aarch64", "arm64")) or not FMA_FEATURES.isdisjoint(self.features)
        return has_fma and bool(self.fast_math & FastMath.CONTRACT) and not self.lets_llvm_fuse

    @property
    def dots(self) -> Dots | None:
        """The instructions for dot products of short elements; None without any."""
        found = Dots.of(self.features, self.vector_width, rounding=self.rounds_dots) if self.is_x86 else Dots()
        return None if found == Dots() else found

    @property
    def operation_flags(self) -> FastMath:
        """What every operation permits."""
        return self.fast_math if self.lets_llvm_fuse else self.fast_math & ~FastMath.CONTRACT


def fast_math_of(target: Target) -> FastMath:
    """The floating-point rules of a target: contraction unless it says no, others where it says so."""
    if target.get("fast-math"):
        return FastMath.FAST
    flags = FastMath.NONE
    for name, flag in (
        ("fast-math-nnan", FastMath.NNAN),
        ("fast-math-ninf", FastMath.NINF),
        ("fast-math-nsz", FastMath.NSZ),
        ("fast-math-arcp", FastMath.ARCP),
        ("fast-math-reassoc", FastMath.REASSOC),
    ):
        if target.get(name):
            flags |= flag
    return flags | FastMath.CONTRACT if target.get("fast-math-contract", True) else flags
