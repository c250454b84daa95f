"""Steps of contractions on tile registers and on instructions for bfloat16: the plans for stated machines, values, and who permits it."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from bench.rows.naive import product
from tests.autoschedule.scheduled import planned, replays
from tirlower.machine.cpu import host_cpu

TILES = "llvm -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16 -mcache=48K,2M,100M -num_threads=1"
DOTS = "llvm -mcpu=znver4 -mcache=32K,1M,32M -num_threads=1 -fast-math-dots=1"
ROUNDED = "rounded as instructions for dot products of bfloat16 do"
HERE = host_cpu().has("amx-tile", "amx-int8", "amx-bf16")


@pytest.mark.parametrize(
    ("sizes", "dtype", "target", "group", "deep"),
    [
        ((64, 96, 128), "int8", TILES, 4, 16),
        ((64, 96, 40), "int8", TILES, 4, 10),  # as many groups as divide the sum
        ((64, 96, 44), "int8", TILES, 4, 11),
        ((64, 96, 4 * 17), "int8", TILES, 4, 0),  # one at a time would leave tiles nearly empty
        ((8, 96, 128), "int8", TILES, 4, 16),
        ((64, 7, 128), "int8", TILES, 4, 0),
        ((64, 96, 130), "int8", TILES, 1, 0),
        ((64, 96, 128), "bfloat16", TILES, 1, 0),  # nobody permits another rounding
        ((64, 96, 128), "bfloat16", TILES + " -fast-math-dots=1", 2, 16),
        ((64, 96, 128), "bfloat16", TILES + " -fast-math=1", 2, 16),
        ((64, 96, 128), "bfloat16", DOTS, 2, 0),
        ((64, 96, 127), "bfloat16", DOTS, 1, 0),
        ((64, 96, 128), "bfloat16", "llvm -mcpu=haswell -num_threads=1 -fast-math-dots=1", 1, 0),
        ((64, 96, 128), "float32", TILES, 1, 0),
    ],
)  # fmt: skip
def test_plans_for_stated_machines(sizes: tuple[int, int, int], dtype: str, target: str, group: int, deep: int):
    result = "int32" if dtype == "int8" else "float32"
    nest = planned(product("block", *sizes, dtype, result), target).nests[0]
    assert nest.recipe == "contraction" and (nest.parameters["group"], nest.parameters["deep"]) == (group, deep)
    assert nest.exactness == (ROUNDED if dtype == "bfloat16" and group == 2 else "bitwise equal")
    assert ("tile registers" in nest.rule) is (deep > 0)


@pytest.mark.parametrize("form", ["block", "plain", "local"])
@pytest.mark.parametrize(
    ("dtype", "sizes"), [("int8", (40, 50, 128)), ("bfloat16", (35, 33, 64)), ("int8", (33, 8, 24))]
)
@pytest.mark.by_day
def test_every_form_on_tiles_computes_the_same(form: str, dtype: str, sizes: tuple[int, int, int]):
    result = "int32" if dtype == "int8" else "float32"
    func = product(form, *sizes, dtype, result)
    found = planned(func, TILES + " -fast-math-dots=1")
    replays(found)
    lowered = tl.lower(found.function, TILES + " -fast-math-dots=1", schedule="none")
    text = lowered.script()
    assert "tdpb" in text and "ldtilecfg" in text and text.count("tir.tile_product") == 0
    args = arguments(sizes, dtype)
    wanted = args[0].astype(np.float64) @ args[1].astype(np.float64)
    tl.interpret(lowered, *args)
    np.testing.assert_array_equal(args[2], wanted)


def arguments(sizes: tuple[int, int, int], dtype: str) -> list[np.ndarray]:
    """Operands whose sums are exact in any order."""
    M, N, K = sizes
    rng = np.random.default_rng(0)
    if dtype == "int8":
        a, b = (rng.choice([-128, 127, 1, -3], shape).astype(np.int8) for shape in ((M, K), (K, N)))
        return [a, b, np.full((M, N), 7, np.int32)]
    a, b = (rng.integers(-9, 10, shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (K, N)))
    return [a, b, np.full((M, N), 7, np.float32)]


@pytest.mark.skipif(not host_cpu().has("avx512bf16") and not HERE, reason="a processor without such instructions")
@pytest.mark.parametrize(
    "sizes", [*itertools.product((9, 65), (33, 100), (24, 64)), (32, 32, 250), (1, 64, 64), (300, 1, 8)]
)
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
@pytest.mark.by_day
def test_machine_code_of_this_processor(sizes: tuple[int, int, int], dtype: str):
    result = "int32" if dtype == "int8" else "float32"
    kernel = tl.build(product("plain", *sizes, dtype, result), "llvm -fast-math-dots=1")
    args = arguments(sizes, dtype)
    wanted = args[0].astype(np.float64) @ args[1].astype(np.float64)
    kernel(*args)
    np.testing.assert_array_equal(args[2], wanted)
    # What is meant for tiles is computed by tiles: as loops it would be slow.
    asm = kernel.source("asm")
    assert ("tdpb" in asm) is ("tir.tile_product" in kernel.source("scheduled"))


def test_sums_within_the_bound_of_their_order():
    K = 256
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((40, K), (K, 48)))
    c = np.zeros((40, 48), np.float32)
    tl.build(product("block", 40, 48, K, "bfloat16", "float32"), "llvm -fast-math-dots=1")(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    assert (np.abs(c - x @ y) <= K * 2.0**-24 * (np.abs(x) @ np.abs(y))).all()
