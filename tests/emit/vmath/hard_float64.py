"""Hard float64 arguments: the largest error of each function, on this processor's targets and on a GPU.

``python -m tests.emit.vmath.hard_float64 [NAME ...] [--count N] [--target NAME] [--device] [--workers N]`` prints a line
for each function and target, and ends with 1 where one is beyond its bound. Hard are arguments next to multiples of pi / 2,
next to 1, next to where results overflow, become subnormal or constant, and those of any exponent; of two arguments, powers
within the range, bases next to 1, and numbers of like and of unlike size. The exact values are those of the C library in
long double, which has 11 bits more.
"""

from __future__ import annotations

import argparse
import functools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tests.emit.vmath.measure import LANES, Array, Loop, exact, runnable
from tests.emit.vmath.test_float64 import EXTENDED, RANGES, SPECIALS, ulps64
from tirlower.emit import vmath
from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import engine
from tirlower.script import tir as T

BLOCK = 1 << 18
NAMES = sorted(vmath.SUPPORTED)
KINDS = ("avx512", "avx2", "sse2")

#: glibc's erf of long double, which NumPy does not have
_ERFL = """
declare x86_fp80 @erfl(x86_fp80)
define void @loop(ptr %x, ptr %y, i64 %n) {
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %after, %next ]
  %from = getelementptr i128, ptr %x, i64 %i
  %to = getelementptr i128, ptr %y, i64 %i
  %a = load x86_fp80, ptr %from, align 16
  %b = call x86_fp80 @erfl(x86_fp80 %a)
  store x86_fp80 %b, ptr %to, align 16
  %after = add i64 %i, 1
  %more = icmp ult i64 %after, %n
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


@functools.cache
def _erfl() -> Callable[[Array], Array]:
    import ctypes

    linked = engine().link(engine().compile_object(_ERFL, CompileOptions.for_host()).object, ["loop"])
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(linked["loop"])

    def apply(x: Array, held: object = linked) -> Array:
        out = np.empty_like(x)
        call(x.ctypes.data, out.ctypes.data, x.size)
        return out

    return apply


def wanted(name: str, *arrays: Array) -> Array:
    """The exact values, in long double."""
    wide = [x.astype(np.longdouble) for x in arrays]
    return _erfl()(wide[0]) if name == "erf" else exact(name, *wide)


def pairs(name: str, seed: int, count: int) -> tuple[Array, Array]:
    """Hard arguments of a function of two; some overflow."""
    with np.errstate(all="ignore"):
        return _pairs(name, seed, count)


def _pairs(name: str, seed: int, count: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    some = count // 2
    if name == "pow":
        x = np.concatenate([np.exp2(rng.uniform(-1074, 1024, some)), 1 + rng.uniform(-0.06, 0.06, some) ** 3])
        return x, rng.uniform(-1080, 1026, 2 * some) / np.log2(x)
    x = rng.choice([-1.0, 1.0], 2 * some) * np.exp2(rng.uniform(-1074, 1000, 2 * some))
    far = np.concatenate([rng.uniform(-60, 60, some), rng.uniform(-2, 2, some)])
    return x, x * np.exp2(far) * rng.choice([-1.0, 1.0], 2 * some)


def arguments(name: str, seed: int, count: int) -> tuple[Array, ...]:
    """Hard arguments of a function: of one, a sixth of each kind."""
    if vmath.ARITY[name] == 2:
        return pairs(name, seed, count)
    rng = np.random.default_rng(seed)
    some = count // 6
    low, high = RANGES.get(name, (-6, 6) if name == "erf" else (-1, 1))
    sign = rng.choice([-1.0, 1.0], some)
    quarter = np.longdouble(math.pi / 2) + np.longdouble(6.123233995736766e-17)
    turns = np.floor(np.exp2(rng.uniform(0, 62, some))).astype(np.longdouble)
    edges = rng.choice(np.concatenate([SPECIALS[np.isfinite(SPECIALS)], [low, high]]), some)
    spread = rng.integers(-2000, 2001, some)
    near_edges = (edges.view(np.int64) + spread).view(np.float64)
    parts = [
        rng.uniform(low, high, some),
        sign * np.exp2(rng.uniform(-1074, 1024, some)),
        sign * np.exp2(rng.uniform(-40, math.log2(max(abs(low), abs(high), 2)), some)),
        sign * (1 + rng.uniform(-1, 1, some) * 2.0 ** rng.uniform(-53, 0, some)),
        (sign * turns * quarter).astype(np.float64),
        near_edges,
    ]
    return (np.concatenate(parts),)


def _on_device(name: str, size: int) -> Callable[..., Array]:
    from tests.gpu.on_device.device import built, called

    function = getattr(T, name)

    @T.prim_func
    def of_one(A: T.Buffer((size,), "float64"), C: T.Buffer((size,), "float64")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(size):
            C[i] = function(A[i])

    @T.prim_func
    def of_two(A: T.Buffer((size,), "float64"), B: T.Buffer((size,), "float64"), C: T.Buffer((size,), "float64")):
        T.func_attr({"tir.noalias": True})
        for i in T.parallel(size):
            C[i] = function(A[i], B[i])

    kernel = built(of_one if vmath.ARITY[name] == 1 else of_two)

    def run(*arrays: Array) -> Array:
        out = np.full(size, np.nan)
        called(kernel, [*arrays, out])
        return out

    return run


Worst = tuple[float, tuple[float, ...]]


def sweep(name: str, targets: Sequence[str], count: int, device: bool) -> dict[str, Worst]:
    """The largest error on each target, and its arguments."""
    size = arguments(name, 0, BLOCK)[0].size
    runs: dict[str, Callable[..., Array]] = {t: Loop(name, "f64", LANES[t] // 2, t, False) for t in targets}
    if device:
        runs["device"] = _on_device(name, size)
    found: dict[str, Worst] = dict.fromkeys(runs, (0.0, ()))
    with np.errstate(all="ignore"):
        for seed in range(-(-count // size)):
            given = arguments(name, seed, BLOCK)
            want = wanted(name, *given)
            for target, run in runs.items():
                errors = ulps64(run(*given), want)
                worst = int(np.argmax(errors))
                if errors[worst] > found[target][0]:
                    found[target] = float(errors[worst]), tuple(float(x[worst]) for x in given)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of {', '.join(NAMES)} where none is named")
    parser.add_argument("--count", type=int, default=10_000_000, metavar="N", help="arguments of each function")
    parser.add_argument("--target", action="append", choices=KINDS, help="those that run here by default")
    parser.add_argument("--device", action="store_true", help="on the first GPU, too")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes")
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no function is {unknown[0]!r}; there are {', '.join(NAMES)}")
    if not EXTENDED:
        parser.error("long double is no wider than double here")
    targets = options.target or [target for target in KINDS if runnable(target)]
    names = options.names or NAMES
    failed = False
    with ProcessPoolExecutor(options.workers) as pool:
        made: Any = pool.map(
            functools.partial(_swept, targets=targets, count=options.count, device=options.device), names
        )
        for name, seen in zip(names, made, strict=True):
            for target, (error, at) in seen.items():
                bad = error > vmath.ERRORS_F64[name]
                failed |= bad
                print(
                    f"{name:<8}{target:<8}{error:.4f} of {vmath.ERRORS_F64[name]} ulp at {', '.join(map(repr, at))}{'  FAILED' if bad else ''}",
                    flush=True,
                )
    return int(failed)


def _swept(name: str, *, targets: Sequence[str], count: int, device: bool) -> dict[str, Worst]:
    return sweep(name, targets, count, device)


if __name__ == "__main__":
    raise SystemExit(main())
