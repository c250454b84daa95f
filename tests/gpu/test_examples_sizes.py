"""Matrix products of any number of rows: what the blocks do is proved, though the last group of tiles has fewer rows."""

from __future__ import annotations

import pytest

from examples.gpu.matmul_bf16 import tensor_core_matmul
from examples.gpu.matmul_hopper import hopper_matmul
from tirlower.poly import check_bounds, extract, races

ROWS = [1025, 1031, 1280, 1664, 2049, 2176, 3001, 4093, 8191, *range(1152, 4097, 223)]
"""Primes, multiples of a tile of 128 rows, and one more than a power of two: groups of eight tiles leave 1 to 7 over."""


@pytest.mark.parametrize("make", [hopper_matmul, tensor_core_matmul])
@pytest.mark.parametrize("rows", ROWS)
def test_blocks_have_tiles_of_their_own(make, rows):
    scop = extract(make(rows, 1024 + rows % 5 * 40, 512))
    assert [race.verdict.reason for race in races(scop)] == []
    assert [str(found.access.text) for found in check_bounds(scop) if not found.verdict.proved] == []
