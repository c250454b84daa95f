"""Instructions that add the products of groups of short integers to 32-bit lanes: which a processor has, and how wide."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

__all__ = ["Dots"]


@dataclass(frozen=True)
class Dots:
    """The bits of the widest vectors for fours of bytes (``vpdpbusd``) and for pairs of 16 bits (``vpdpwssd``, or ``vpmaddwd``
    and an addition); 0 where there is none.

    >>> Dots.of({"avx2"}), Dots.of({"avx512bw", "avx512vl", "avx2", "avx512vnni"}).group("int8", "uint8")
    (Dots(fours=0, pairs=256), 4)
    """

    fours: int = 0
    pairs: int = 0

    @classmethod
    def of(cls, features: Set[str], widest: int = 512) -> Dots:
        """Those of a processor with some features, in vectors of at most ``widest`` bits."""
        wide = {"avx512bw", "avx512vl"} <= features
        fours = 512 if wide and "avx512vnni" in features else 256 if "avxvnni" in features else 0
        pairs = 512 if wide else 256 if "avx2" in features else 0
        return cls(min(fours, widest), min(pairs, widest))

    def group(self, *dtypes: str) -> int:
        """How many products of operands of some types an instruction adds up; 1 where there is none for them."""
        if self.fours and set(dtypes) <= {"int8", "uint8"}:
            return 4
        return 2 if self.pairs and set(dtypes) <= {"int8", "uint8", "int16"} else 1
