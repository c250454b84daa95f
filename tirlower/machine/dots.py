"""Instructions that add up the products of groups of short elements: which a processor has, and how wide."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

__all__ = ["Dots"]

_BYTES: Final = frozenset(["int8", "uint8"])
_BFLOATS: Final = frozenset(["bfloat16"])


@dataclass(frozen=True)
class Dots:
    """The bits of the widest vectors for fours of bytes (``vpdpbusd``), for pairs of 16 bits (``vpdpwssd``, or ``vpmaddwd``
    and an addition) and for pairs of bfloat16 (``vdpbf16ps``); 0 where there is none. ``byte_tiles`` and ``bfloat_tiles``: whether
    tile registers multiply these (``tdpbssd``, ``tdpbf16ps``).

    Instructions for bfloat16 round otherwise than products and sums of float32, and take subnormal numbers for zeros: they count
    as missing where that is not permitted.

    >>> Dots.of({"avx2"}), Dots.of({"avx512bw", "avx512vl", "avx2", "avx512vnni"}).group("int8", "uint8")
    (Dots(fours=0, pairs=256, bfloats=0, byte_tiles=False, bfloat_tiles=False), 4)
    """

    fours: int = 0
    pairs: int = 0
    bfloats: int = 0
    byte_tiles: bool = False
    bfloat_tiles: bool = False

    @classmethod
    def of(cls, features: Set[str], widest: int = 512, *, rounding: bool = False) -> Dots:
        """Those of a processor with some features, in vectors of at most ``widest`` bits; with ``rounding`` those of bfloat16."""
        wide = {"avx512bw", "avx512vl"} <= features
        fours = 512 if wide and "avx512vnni" in features else 256 if "avxvnni" in features else 0
        pairs = 512 if wide else 256 if "avx2" in features else 0
        bfloats = 512 if rounding and wide and "avx512bf16" in features else 0
        tiles = "amx-tile" in features
        return cls(
            min(fours, widest),
            min(pairs, widest),
            min(bfloats, widest),
            tiles and "amx-int8" in features,
            tiles and rounding and "amx-bf16" in features,
        )

    def group(self, *dtypes: str) -> int:
        """How many products of operands of some types an instruction adds up; 1 where there is none for them."""
        kinds = set(dtypes)
        if kinds == _BFLOATS:
            return 2 if self.bfloats or self.bfloat_tiles else 1
        if self.fours and kinds <= _BYTES:
            return 4
        return 2 if self.pairs and kinds <= _BYTES | {"int16"} else 1

    def tiles(self, *dtypes: str) -> bool:
        """Whether tile registers multiply operands of some types.

        >>> Dots(byte_tiles=True).tiles("int8", "uint8"), Dots(byte_tiles=True).tiles("bfloat16", "bfloat16")
        (True, False)
        """
        kinds = set(dtypes)
        return (self.byte_tiles and kinds <= _BYTES) or (self.bfloat_tiles and kinds == _BFLOATS)
