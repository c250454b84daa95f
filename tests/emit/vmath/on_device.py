"""Every float32 on a GPU: the largest error of each function of one argument there, and where it falls though it should rise.

``python -m tests.emit.vmath.on_device [NAME ...] [--fast] [--sums FILE]`` prints a line for each function, and ends
with 1 where one is beyond its bound. The exact values are PyTorch's, in float64, on the same device; both libraries are
needed. ``--fast`` takes the hardware's approximations, whose errors are told and not judged. ``--sums`` writes two sums
of the results' bits for each block of arguments: code for a CPU that gives the same sums gives the same results,
and has their errors.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import tirlower as tl
from tests.emit.vmath.exhaust import RISING, STRIDE, UNARY
from tests.emit.vmath.exhaust import SUMS_BLOCK as BLOCK
from tests.gpu.on_device.device import built
from tirlower.emit import vmath
from tirlower.script import tir as T

#: what the device's own instructions are held to
HARDWARE = {"exp2": 2.1}


def loop(name: str) -> tl.ir.PrimFunc:
    """A block's arguments through a function."""
    function = getattr(T, name)

    @T.prim_func
    def apply(A: T.Buffer((BLOCK,), "float32"), B: T.Buffer((BLOCK,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(BLOCK):
            B[i] = function(A[i])

    return apply


def exact(torch: Any, name: str, x: Any) -> Any:
    """A function of float64 numbers."""
    if name == "exp10":
        return torch.pow(torch.tensor(10.0, dtype=x.dtype, device=x.device), x)
    special: dict[str, Callable[[Any], Any]] = {"erf": torch.special.erf, "expm1": torch.special.expm1}
    return special.get(name, getattr(torch, name, None))(x)


def errors(torch: Any, got: Any, want: Any) -> Any:
    """The errors of float32 results in units of their last place, by the rules of ``measure.ulps``."""
    exponent = torch.clamp(torch.frexp(want)[1] - 24, min=-149)
    have = got.double()
    scale = (1023 - exponent.long() << 52).view(torch.float64)
    error = (have - want).abs() * scale
    top = 3.4028234663852886e38
    both = torch.isnan(have) & torch.isnan(want)
    over = (want.abs() >= top) & (have.abs() >= top) & (torch.sign(have) == torch.sign(want))
    error[both | (have == want) | over] = 0.0
    strange = ~(torch.isfinite(have) & torch.isfinite(want)) & ~(both | (have == want) | over)
    error[strange] = float("inf")
    error[(torch.signbit(have) != torch.signbit(want)) & ~both] = float("inf")
    return error


def sums(torch: Any, got: Any) -> list[int]:
    """The sum of the results' bits, and that of the bits times an odd number for each place; all NaNs are one."""
    bits = torch.where(
        torch.isnan(got), torch.tensor(0x7FC00000, dtype=torch.int32, device=got.device), got.view(torch.int32)
    )
    wide = bits.long()
    places = torch.arange(wide.numel(), device=got.device) * STRIDE | 1
    return [int(wide.sum()), int((wide * places).sum())]


def sweep(name: str, fast: bool) -> tuple[float, float, int, list[list[int]]]:
    """The largest error, its argument, how often the function falls, and the sums of each block."""
    import torch

    kernel: Any = built(loop(name), *(["-fast-vector-math"] if fast else []))
    worst, at, falls, told = -1.0, 0.0, 0, []
    got = torch.empty(BLOCK, dtype=torch.float32, device="cuda")
    for start in range(-(1 << 31), 1 << 31, BLOCK):
        x = torch.arange(start, start + BLOCK, dtype=torch.int64, device="cuda").to(torch.int32).view(torch.float32)
        got.fill_(77.0)
        kernel(x, got)
        error = errors(torch, got, exact(torch, name, x.double()))
        most, where = error.max(0)
        if float(most) > worst:
            worst, at = float(most), float(x[where])
        if name in RISING:
            # Bit patterns of positive numbers rise with them, of negative ones fall.
            falls += int(((got[1:] < got[:-1]) if start >= 0 else (got[1:] > got[:-1])).sum())
        told.append(sums(torch, got))
    return worst, at, falls, told


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(UNARY)} where none is named")
    parser.add_argument("--fast", action="store_true", help="the hardware's approximations")
    parser.add_argument("--sums", metavar="FILE", help="where the sums of the results' bits are written")
    options = parser.parse_args(arguments)
    failed, told = False, {}
    for name in options.names or UNARY:
        start = time.monotonic()
        worst, at, falls, told[name] = sweep(name, options.fast)
        bound = HARDWARE.get(name, vmath.ERRORS[name])
        bad = not options.fast and (worst > bound or falls > 0)
        failed |= bad
        fell = f", falls {falls} times" if falls else ""
        print(
            f"{name:<8} {worst:.4f} of {bound} ulp at {at!r}{fell} ({time.monotonic() - start:.1f} s)"
            f"{'  FAILED' if bad else ''}",
            flush=True,
        )
    if options.sums:
        with open(options.sums, "w") as file:
            json.dump({"block": BLOCK, "stride": STRIDE, "sums": told}, file)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
