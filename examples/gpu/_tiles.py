"""How tiles of 16-bit elements lie in shared memory for ``ldmatrix``, so that no two threads meet at one bank."""

from __future__ import annotations

from typing import Any

CHUNK = 8
"""Elements of a chunk: the 16 bytes that one ``cp.async`` moves and that one row of an 8 x 8 matrix has."""


def swizzled(row: Any, chunk: Any, columns: int) -> Any:
    """The element offset of a chunk in a tile of ``columns`` 16-bit elements a row, without bank conflicts.

    Shared memory has 32 banks of 4 bytes, so eight chunks fill one line of all banks. ``ldmatrix`` reads the same chunk
    of eight rows at once; were the tile plain row-major, these would fall into the same few banks. Here the chunk's
    number is XORed with the number of the line (modulo the chunks of a row, at most eight), so that any eight
    neighbouring rows have a given chunk in eight different places of a line. ``columns`` is 16, 32 or a multiple of 64;
    row and chunk may be ints or expressions.

    >>> [swizzled(row, 0, 64) % 64 // CHUNK for row in range(8)]
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    chunks = columns // CHUNK
    rows_per_line = max(1, 8 // chunks)
    return row * columns + (chunk ^ (row // rows_per_line % min(chunks, 8))) * CHUNK
