"""Tile registers, as x86's AMX instructions use them.

``ldtilecfg`` says of each of eight tiles how many rows it has, and how many bytes a row; ``tileloadd64`` and ``tilestored64``
move one between a register and rows in memory that are some bytes apart. ``tdpb**d`` adds to each int32 of a tile the
products of fours of bytes, ``tdpbf16ps`` to each float32 those of pairs of bfloat16: the sums of the first ones of all pairs and of the
second ones, each rounded at every step, then both together; subnormal numbers count as zeros.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.
"""

from __future__ import annotations

import functools
import re
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from tirlower.interp.dot_products import flushed
from tirlower.interp.memory import Array, Pointer
from tirlower.interp.values import Datum, Fault

__all__ = ["TILES", "Operation", "Tiles"]

Rows: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.uint8]]"
Operation: TypeAlias = Callable[[Sequence[Datum]], Datum]

COUNT: Final = 8
_ROWS, _ROW_BYTES = 16, 64
_PRODUCT: Final = re.compile(r"x86\.tdpb(?:(?P<signs>ss|su|us|uu)d|f16ps)")


class Tiles(threading.local):
    """The tile registers of a thread that runs programs: none is of use before it was configured."""

    def __init__(self) -> None:
        self.tiles: list[Rows | None] = [None] * COUNT
        """The rows of each configured tile."""

    def operation(self, name: str) -> Operation | None:
        """What an intrinsic (without ``llvm.``) does with its operands; None for those that are not on tiles."""
        found = {
            "x86.ldtilecfg": self._configure,
            "x86.tilerelease": self._release,
            "x86.tilezero": self._clear,
            "x86.tileloadd64": self._load,
            "x86.tileloaddt164": self._load,
            "x86.tilestored64": self._store,
        }.get(name)
        product = _PRODUCT.fullmatch(name)
        return found if product is None else functools.partial(self._multiply, product["signs"])

    def _tile(self, number: int) -> Rows:
        tile = self.tiles[number] if 0 <= number < COUNT else None
        if tile is None:
            raise Fault(f"tile {number} is not configured: ldtilecfg has to say its rows and their bytes before")
        return tile

    def _configure(self, args: Sequence[Datum]) -> Datum:
        given = bytes(_read(args[0], 64))
        palette, _, *rest = struct.unpack("<2B14x16H16B", given)
        sizes, rows = rest[:16], rest[16:]
        if palette == 0:
            return self._release(())
        if palette != 1 or any(given[2:16]) or any((*sizes[COUNT:], *rows[COUNT:])):
            raise Fault("a configuration of tiles is of palette 1 and of 8 tiles")
        for number, (size, count) in enumerate(zip(sizes[:COUNT], rows, strict=False)):
            if size > _ROW_BYTES or count > _ROWS or (size == 0) != (count == 0):
                raise Fault(f"tile {number} has at most 16 rows of 64 bytes, and was given {count} of {size}")
            self.tiles[number] = np.zeros((count, size), np.uint8) if size else None
        return 0

    def _release(self, args: Sequence[Datum]) -> Datum:
        self.tiles = [None] * COUNT
        return 0

    def _clear(self, args: Sequence[Datum]) -> Datum:
        self._tile(args[0])[...] = 0
        return 0

    def _load(self, args: Sequence[Datum]) -> Datum:
        number, address, apart = args
        for at, row in enumerate(self._tile(number)):
            row[:] = _read(address + at * apart, len(row))
        return 0

    def _store(self, args: Sequence[Datum]) -> Datum:
        number, address, apart = args
        for at, row in enumerate(self._tile(number)):
            (address + at * apart).array("uint8", len(row))[:] = row
        return 0

    def _multiply(self, signs: str | None, args: Sequence[Datum]) -> Datum:
        sums, a, b = (self._tile(number) for number in args)
        if len(set(args)) != 3:
            raise Fault("the tiles of a product are three different ones")
        if a.shape[0] != sums.shape[0] or b.shape[1] != sums.shape[1] or a.shape[1] != 4 * b.shape[0] or a.shape[1] % 4:
            raise Fault(f"tiles of {a.shape} and {b.shape} bytes have no product of {sums.shape}")
        left, right = (tile.reshape(tile.shape[0], -1, 4) for tile in (a, b))
        if signs is None:
            _add_bfloats(sums, left, right)
        else:
            x, y = (
                one.view("int8" if sign == "s" else "uint8").astype(np.int64)
                for one, sign in zip((left, right), signs, strict=True)
            )
            total = sums.view(np.int32).astype(np.int64) + np.einsum("rkg,kcg->rc", x, y)
            sums[...] = total.astype(np.int32).view(np.uint8)
        return 0


def _read(place: Pointer, size: int) -> Array:
    """Bytes in memory. Raises Fault for those outside of it, and those that nothing has written."""
    memory, stop = place.memory, place.offset + size
    if place.offset < 0 or stop > memory.size:
        raise Fault(
            f"a row of a tile (or what configures them), {size} bytes from byte {place.offset} of {memory!r} on, reaches outside it"
        )
    if memory.written is not None and not all(memory.written[place.offset : stop]):
        raise Fault(
            f"a row of a tile is read from {memory!r}, where byte {place.offset} and what follows was not written"
        )
    return memory.raw[place.offset : stop]


def _add_bfloats(sums: Rows, left: Array, right: Array) -> None:
    x, y = (flushed((one.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)) for one in (left, right))
    halves = np.zeros((2, *sums.view(np.float32).shape), np.float32)
    with np.errstate(all="ignore"):
        for k in range(x.shape[1]):
            for half in (0, 1):
                # A product of two bfloat16 is exact in float64, and so is rounding the sum once more than it would need.
                product = x[:, k, half, None].astype(np.float64) * y[None, k, :, half].astype(np.float64)
                halves[half] = flushed((halves[half].astype(np.float64) + product).astype(np.float32))
        both = flushed(halves[0] + halves[1])
        sums[...] = flushed(flushed(sums.view(np.float32)) + both).view(np.uint8)


TILES: Final = Tiles()
"""Those of whichever thread asks."""
