"""Dot products of pairs and fours of lanes, as x86's instructions compute them.

``llvm.x86.avx512.vpdpbusd.*`` adds to each 32-bit lane four products of unsigned and signed bytes, ``vpdpwssd`` two of 16-bit
integers; with an ``s`` at the end the sum stops at the ends of int32. ``pmadd.wd`` gives the sum of two such products, added
to nothing. ``dpbf16ps`` adds two products of bfloat16, the upper one first, each sum rounded to float32; subnormal numbers
count as zeros. Operands are their bits, whatever type they are written in.
"""

from __future__ import annotations

import functools
import re
from typing import Final, TypeAlias

import numpy as np

from tirlower.interp.values import UNDEF, Datum, Function
from tirlower.ir.dtype import DataType

__all__ = ["dot_product", "flushed"]

Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"
Floats: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"

_INTEGER: Final = re.compile(
    r"x86\.(?:avx512|avx2|avx10)\.vpdp(?:b(?P<bytes>us|ss|su|uu)|w(?P<words>ss|us|su|uu))d(?P<stops>s?)"
)
_PAIRS: Final = re.compile(r"x86\.(?:(?:sse2|avx2)\.pmadd\.wd|avx512\.pmaddw\.d)")
_BFLOAT: Final = re.compile(r"x86\.avx512bf16\.dpbf16ps")
_TINY: Final = np.float32(2.0**-126)


def dot_product(name: str, result: DataType, operands: list[DataType]) -> Function | None:
    """What an intrinsic (without ``llvm.``) computes from whole vectors; None if it is no dot product of vectors that fit."""
    found = _INTEGER.match(name)
    floats, pairs = _BFLOAT.match(name) is not None, _PAIRS.match(name) is not None
    if pairs:
        operands = [result, *operands]
    if (found is None and not floats and not pairs) or len(operands) != 3:
        return None
    size = result.bits * result.lanes
    if any(kind.bits * kind.lanes != size for kind in operands):
        return None
    if result.element != ("float32" if floats else "int32") or operands[0] != result:
        return None

    def run(acc: tuple[Datum, ...], a: tuple[Datum, ...], b: tuple[Datum, ...]) -> Datum:
        if any(lane is UNDEF for lane in (*acc, *a, *b)):
            return (UNDEF,) * result.lanes
        if floats:
            return _bfloats(acc, _bytes(a, operands[1]), _bytes(b, operands[2]))
        signs, width = ("ss", 16) if found is None else (found["bytes"], 8) if found["bytes"] else (found["words"], 16)
        x, y = (
            _bytes(value, kind).view(f"{'int' if sign == 's' else 'uint'}{width}").astype(np.int64)
            for value, kind, sign in zip((a, b), operands[1:], signs, strict=True)
        )
        sums = np.array(acc, np.int64) + (x * y).reshape(result.lanes, -1).sum(axis=1)
        limits = np.iinfo(np.int32)
        kept = np.clip(sums, limits.min, limits.max) if found and found["stops"] else sums
        return tuple(kept.astype(np.int32).tolist())

    return functools.partial(run, (0,) * result.lanes) if pairs else run


def _bytes(value: tuple[Datum, ...], kind: DataType) -> Bytes:
    """The bits of a vector, byte by byte from the lowest lane."""
    return np.array(value, kind.element.numpy).view(np.uint8)


def _bfloats(acc: tuple[Datum, ...], a: Bytes, b: Bytes) -> Datum:
    x, y = (flushed((bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)) for bits in (a, b))
    total = flushed(np.array(acc, np.float32))
    with np.errstate(all="ignore"):
        # A product of two bfloat16 is exact in float64, and so is rounding the sum once more than it would need.
        products = x.astype(np.float64) * y.astype(np.float64)
        for half in (1, 0):
            total = flushed((total.astype(np.float64) + products[half::2]).astype(np.float32))
    return tuple(total.tolist())


def flushed(values: Floats) -> Floats:
    """Numbers with subnormal ones as zeros of their sign."""
    return np.where(np.abs(values) < _TINY, np.copysign(np.float32(0), values), values)
