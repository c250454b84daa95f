"""The corpus of kernels as written and scheduled automatically, in turns: none may be slower, and together they are to gain."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist

import numpy as np

import tirlower as tl
from bench.measure import human, interleave
from tests.kernels.base import Kernel
from tests.kernels.corpus import CORPUS
from tirlower.ir import PrimFunc

__all__ = ["probability_of_no_difference", "ratios", "report"]

TARGET = "llvm -num_threads=1"
SURE = 0.01
"""The probability of a chance below which a difference is taken for one."""


def probability_of_no_difference(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How probable it is that samples as much larger than others come from one distribution: Mann and Whitney's test, with the
    normal distribution for its sum of ranks.

    >>> round(probability_of_no_difference([2.0] * 7, [1.0] * 7), 3), probability_of_no_difference([1.0, 2.0], [1.0, 2.0])
    (0.001, 0.5)
    """
    above = sum((a > b) + (a == b) / 2 for a in slow for b in fast)
    pairs = len(slow) * len(fast)
    deviation = math.sqrt(pairs * (len(slow) + len(fast) + 1) / 12)
    return 1 - NormalDist().cdf((above - pairs / 2) / deviation)


def ratios(
    only: list[str], rounds: int = 7, slice_seconds: float = 0.004
) -> Iterator[tuple[str, str, float, float, float]]:
    """Of each kernel that becomes another program: its name, its classes, the medians of both in the processor's time, and the
    probability that the scheduled one is slower by chance alone."""
    for name, one in sorted(CORPUS.items()):
        if only and not any(word in name for word in only):
            continue
        size = (*one.sizes, *one.large)[-1]
        program = one.program(size)
        if not isinstance(program, PrimFunc):
            continue
        auto = tl.build(program, TARGET, schedule="auto")
        if not auto.schedule.insts:
            continue
        yield _measured(name, one, size, program, auto, rounds, slice_seconds)


def _measured(
    name: str,
    one: Kernel,
    size: Mapping[str, int],
    program: PrimFunc,
    auto: tl.Kernel,
    rounds: int,
    slice_seconds: float,
) -> tuple[str, str, float, float, float]:
    written = tl.build(program, TARGET, schedule="none")
    args, others = one.make(size), one.make(size)
    timings = interleave(
        {"auto": lambda: auto(*args), "none": lambda: written(*others)}, rounds, slice_seconds, 0.0, time.thread_time
    )
    classes = ", ".join(dict.fromkeys(nest.recipe for nest in auto.report().nests if nest.recipe))
    chance = probability_of_no_difference(timings["auto"].rounds, timings["none"].rounds)
    return name, classes, timings["none"].median, timings["auto"].median, chance


def report(only: list[str] | None = None, rounds: int = 7) -> str:
    """The table: kernels that change, those that lose first, and the geometric mean of all."""
    rows = sorted(ratios(only or [], rounds), key=lambda row: row[2] / row[3])
    lines = [
        "| kernel | class | as written | auto | auto / written | by chance |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, classes, none, auto, chance in rows:
        lines.append(f"| {name} | {classes} | {human(none)} | {human(auto)} | {auto / none:.2f} | {chance:.3f} |")
    slower = [row[0] for row in rows if row[3] > row[2] and row[4] < SURE]
    mean = math.exp(float(np.mean([math.log(row[2] / row[3]) for row in rows]))) if rows else 1.0
    lines.append(f"\n{len(rows)} of {len(CORPUS)} kernels change; none / auto in the geometric mean: {mean:.2f}")
    lines.append(f"slower with a probability of chance below {SURE}: {', '.join(slower) or 'none'}")
    return "\n".join(lines)
