"""The numbers that contractions are cut by: tiles that fit the registers, depths that divide, and what may be packed."""

from __future__ import annotations

import itertools

import pytest

from tirlower.autoschedule.recipes.contraction_facts import depth_of, pieces_of, tile_of


def test_tiles_fit_the_registers():
    for registers, lanes, extent in itertools.product((16, 32), (4, 8, 16), range(1, 400)):
        rows = tile_of(extent, registers)
        assert 1 <= rows <= extent and rows * 2 + 2 + 1 <= max(registers, 5)
        assert extent % rows == 0 or extent > rows
        assert pieces_of(extent, lanes) >= -(-extent // lanes)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_depths_divide_the_sum_in_whole_groups(group: int):
    for steps, wanted in itertools.product((7, 512, 1000, 1024, 1536, 4096, 5003), (256, 512)):
        found = depth_of(steps, wanted, group)
        if steps <= 2 * wanted:
            assert found == 0
        elif found:
            assert steps % found == 0 and found % group == 0 and wanted // 2 <= found <= 2 * wanted
        else:
            assert not any(steps % size == 0 and size % group == 0 for size in range(wanted // 2, 2 * wanted + 1))
