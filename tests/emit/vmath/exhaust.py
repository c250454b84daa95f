"""Every float32: the largest error of each function of one argument, and where it falls though it should rise.

``python -m tests.emit.vmath.exhaust [NAME ...] [--target NAME] [--sums FILE]`` prints a line for each function and target,
and ends with 1 where one is beyond its bound. The exact values are those of our own float64 functions, which
``test_float64.py`` compares with wider numbers, and of each block of arguments some are compared with NumPy's here.
Targets with FMA give the same bits as each other, so that those without are what else is to be run. ``--sums`` names what
:mod:`tests.emit.vmath.on_device` wrote on a GPU: targets with FMA are then compared with its sums, and of the others only what
differs from those is measured.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.emit.vmath.measure import LANES, Array, Loop, exact, runnable, ulps
from tirlower.emit import vmath

BLOCK = 1 << 16
UNARY = sorted(name for name in vmath.SUPPORTED if vmath.ARITY[name] == 1)
KINDS = ("avx512", "avx2", "sse2")
#: those that never fall
RISING = frozenset({"expm1", "tanh", "erf"})


@dataclass
class Found:
    """What a target's code was seen to do: the largest error, its argument, and how often the function fell, first where."""

    error: float = 0.0
    at: float = 0.0
    falls: int = 0
    fell_at: float = 0.0

    def see(self, x: Array, got: Array, want: Array) -> None:
        """Note the errors of a block."""
        rounded = want.astype(np.float32)
        suspects = np.flatnonzero((got.view(np.int32) != rounded.view(np.int32)) & ~(np.isnan(got) & np.isnan(rounded)))
        if not suspects.size:
            return
        errors = ulps(got[suspects], want[suspects])
        worst = int(np.argmax(errors))
        if errors[worst] > self.error:
            self.error, self.at = float(errors[worst]), float(x[suspects[worst]])

    def rise(self, x: Array, got: Array) -> None:
        """Note where results fall, of arguments in rising order."""
        falls = np.flatnonzero(got[1:] < got[:-1])
        if falls.size and not self.falls:
            self.fell_at = float(x[1:][falls[0]])
        self.falls += falls.size


def blocks() -> list[tuple[int, int]]:
    """The first and the last but one bit pattern of each block, of either sign."""
    return [(start, start + BLOCK) for start in range(0, 1 << 32, BLOCK)]


def sweep(name: str, targets: Sequence[str], every: int = 1) -> dict[str, Found]:
    """What each target's code does for every float32, or for those of one block in so many.

    Raises:
        AssertionError: our float64 function, which is compared with, is not NumPy's.
    """
    loops = {target: Loop(name, "f32", LANES[target], target, False) for target in targets}
    wide = Loop(name, "f64", 4, "avx2" if runnable("avx2") else "host", False)
    found = {target: Found() for target in targets}
    with np.errstate(all="ignore"):
        for start, stop in blocks()[::every]:
            x = (
                np.arange(start, stop + (1 if stop & 0x7FFFFFFF else 0), dtype=np.uint64)
                .astype(np.uint32)
                .view(np.float32)
            )
            x64 = x.astype(np.float64)
            want = wide(x64)
            some = slice(start // BLOCK % 997, None, 40_009)
            np.testing.assert_allclose(want[some], exact(name, x64[some]), rtol=1e-14, atol=0)
            for target, loop in loops.items():
                got = loop(x)
                found[target].see(x, got, want)
                if name in RISING:
                    found[target].rise(*((x[::-1], got[::-1]) if start >> 31 else (x, got)))
    return found


SUMS_BLOCK = 1 << 26
"""The arguments of a block of a GPU's sums; the first one is that of -0.0."""
STRIDE = 2654435761
"""The multiplier of a place in the second sum."""


def sums(got: Array, first: int) -> tuple[int, int]:
    """The sum of results' bits, and that of the bits times an odd number for each place; all NaNs are one."""
    bits = np.where(np.isnan(got), np.int32(0x7FC00000), got.view(np.int32)).astype(np.int64)
    places = np.arange(first, first + bits.size, dtype=np.int64) * STRIDE | 1
    return int(bits.sum()), int((bits * places).sum())


def compared(name: str, told: Sequence[Sequence[int]], targets: Sequence[str], every: int = 1) -> dict[str, Found]:
    """What targets do for every float32, where a GPU's results are known to be within bounds.

    Of targets with FMA, one of which is always run, an error is infinite where the sums differ; those without are measured
    where their results are others than its.
    """
    fused = [target for target in KINDS if runnable(target) and target != "sse2"][0]
    loops = {target: Loop(name, "f32", LANES[target], target, False) for target in {fused, *targets}}
    wide = Loop(name, "f64", 4, "avx2", False)
    found = {target: Found() for target in dict.fromkeys((fused, *targets))}
    with np.errstate(all="ignore"):
        for number, wanted in list(enumerate(told))[::every]:
            seen = {target: (0, 0) for target in loops if target != "sse2"}
            for first in range(0, SUMS_BLOCK, BLOCK):
                start = ((1 << 31) + number * SUMS_BLOCK + first) % (1 << 32)
                x = np.arange(start, start + BLOCK, dtype=np.uint64).astype(np.uint32).view(np.float32)
                got = {target: loop(x) for target, loop in loops.items()}
                for target, so_far in seen.items():
                    more = sums(got[target], first)
                    seen[target] = so_far[0] + more[0], so_far[1] + more[1]
                if "sse2" in found:
                    other = np.flatnonzero(got["sse2"].view(np.int32) != got[fused].view(np.int32))
                    found["sse2"].see(x[other], got["sse2"][other], wide(x[other].astype(np.float64)))
                    if name in RISING:
                        found["sse2"].rise(*((x[::-1], got["sse2"][::-1]) if start >> 31 else (x, got["sse2"])))
            for target, so_far in seen.items():
                if target in found and any((a - b) % (1 << 64) for a, b in zip(so_far, wanted, strict=True)):
                    found[target].error = math.inf
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(UNARY)} where none is named")
    parser.add_argument(
        "--target", action="append", choices=KINDS, help="may be repeated; those that run here by default"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the blocks of arguments take each N-th")
    parser.add_argument("--sums", metavar="FILE", help="the sums of a GPU's results")
    options = parser.parse_args(arguments)
    told = json.loads(Path(options.sums).read_text())["sums"] if options.sums else {}
    unknown = [name for name in options.names if name not in UNARY]
    if unknown:
        parser.error(f"no function of one argument is {unknown[0]!r}; there are {', '.join(UNARY)}")
    failed = False
    for name in options.names or UNARY:
        start = time.monotonic()
        targets = options.target or [target for target in KINDS if runnable(target)]
        by_sums = name in told
        found = compared(name, told[name], targets, options.every) if by_sums else sweep(name, targets, options.every)
        for target, seen in found.items():
            bad = seen.error > vmath.ERRORS[name] or seen.falls > 0
            failed |= bad
            falls = f", falls {seen.falls} times, first at {seen.fell_at!r}" if seen.falls else ""
            print(
                f"{name:<8}{target:<8}{seen.error:.4f} of {vmath.ERRORS[name]} ulp at {seen.at!r}{falls}"
                f" ({time.monotonic() - start:.0f} s){'  FAILED' if bad else ''}",
                flush=True,
            )
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
