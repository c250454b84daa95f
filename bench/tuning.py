"""What ``tl.tune`` finds beyond the automatic schedule: naive programs, each searched for a while, and measured once more at the end."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator

import numpy as np

import tirlower as tl
from bench.measure import human
from bench.rows import naive
from tirlower.ir import IntImm, PrimFunc
from tirlower.script import tir as T
from tirlower.tuning import Tuned

__all__ = ["found", "report"]

TARGET = "llvm -num_threads=1"


def channels_first(size: int, channels: int, outputs: int) -> PrimFunc:
    """A 3 x 3 convolution whose rows of pixels are contiguous."""

    @T.prim_func
    def convolution(
        X: T.Buffer((channels, size + 2, size + 2), "float32"),
        W: T.Buffer((outputs, channels, 3, 3), "float32"),
        Y: T.Buffer((outputs, size, size), "float32"),
    ):
        for o, y, x in T.grid(outputs, size, size):
            Y[o, y, x] = T.float32(0)
            for c, r, s in T.grid(channels, 3, 3):
                Y[o, y, x] += X[c, y + r, x + s] * W[o, c, r, s]

    return convolution


def _programs(small: bool) -> dict[str, PrimFunc]:
    side = 64 if small else 512
    return {
        f"product {side}\u00b3": naive.product("plain", side, side, side),
        f"product {2 * side}\u00b3": naive.product("plain", 2 * side, 2 * side, 2 * side),
        f"matrix {side}\u00b2 by vector": naive.matvec("block", side, side),
        "convolution, channels last": naive.convolution("local", 8 if small else 56, 64, 64),
        "convolution, channels first": channels_first(8 if small else 56, 64, 64),
        f"softmax {2 * side}\u00b2": naive.softmax("block", 2 * side, 2 * side),
        f"layer norm {2 * side}\u00b2": naive.layer_norm("block", 2 * side, 2 * side),
        f"blur {4 * side}\u00b2": naive.blur("plain", 4 * side, 4 * side),
        f"transpose {4 * side}\u00b2": naive.transpose("plain", 4 * side),
    }


def found(
    only: list[str], budget: float = 60.0, trials: int | None = None, small: bool = False
) -> Iterator[tuple[str, Tuned, float]]:
    """Of each program what a search finds, and the seconds that it took."""
    for name, func in _programs(small).items():
        if only and not any(word in name for word in only):
            continue
        shapes = [[extent.value for extent in buffer.shape if isinstance(extent, IntImm)] for buffer in func.buffers]
        arrays = [np.zeros(shape, "float32") for shape in shapes[: len(func.params)]]
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            made = tl.tune(func, arrays, TARGET, budget=budget, trials=trials, database=f"{folder}/plans")
        yield name, made, time.perf_counter() - start


def report(only: list[str] | None = None, budget: float = 60.0, trials: int | None = None, small: bool = False) -> str:
    """The table: the automatic schedule, the plan that was kept, how many candidates ran, and what the best changes."""
    lines = [
        "| one thread, on the clock | automatic | tuned | gain | candidates | search | kept |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    gains = []
    for name, made, seconds in found(only or [], budget, trials, small):
        gains.append(made.speedup)
        kept = made.change or "the automatic schedule"
        times = f"{human(made.untuned)} | {human(made.seconds)} | {made.speedup:.2f}"
        lines.append(f"| {name} | {times} | {len(made.trials)} | {seconds:.0f} s | {kept} |")
    mean = math.exp(sum(map(math.log, gains)) / max(1, len(gains)))
    return "\n".join([*lines, "", f"geometric mean of the gains: {mean:.2f}"])
