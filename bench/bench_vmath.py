"""The vector functions on arrays, one thread, beside NumPy: 16M elements (memory) and 64K (second-level cache).

``python -m bench.bench_vmath`` prints a table with ratios, candidates interleaved; ``python -m pytest bench/bench_vmath.py
--benchmark-enable`` runs the same under pytest-benchmark. Ours is a loop of explicit vectors of the host's width, one a
round, without non-temporal stores. The last table has plain loops of whole programs beside vectorized ones.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from bench.measure import Timing, interleave, table
from tirlower.emit import vmath
from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import DOUBLE, FLOAT, I64, PTR, Builder, Module, i64, vector
from tirlower.llvm.jit import Linked, engine
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse

Array = np.ndarray[Any, Any]
SIZES = {"16M": 1 << 24, "64K": 1 << 16}
NUMPY = {name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")} | {
    "pow": "power"
}
FUNCTIONS = sorted(vmath.SUPPORTED)
POSITIVE = {"log", "log2", "log10", "log1p", "pow", "sqrt", "rsqrt"}


class Loop:
    """``loop(x, ..., out)`` over arrays of whole vectors."""

    def __init__(self, name: str, dtype: str) -> None:
        scalar = FLOAT if dtype == "float32" else DOUBLE
        lanes = host_cpu().vector_bits // scalar.bits
        module = Module(name)
        callee = vmath.emit(module, name, "f32" if scalar == FLOAT else "f64", lanes, features=host_cpu().enabled)
        arity = len(callee.params)
        attrs = ["nounwind", ("prefer-vector-width", str(host_cpu().vector_bits))]
        f = module.function("loop", params=[(PTR, "x")] * (arity + 1) + [(I64, "n")], attrs=attrs)
        b = Builder(f, f.block("entry"))
        t, align = vector(scalar, lanes), scalar.bits // 8
        with b.for_range(i64(0), f.args[-1], lanes) as i:
            values = [b.load(t, b.gep(scalar, p, i), align) for p in f.args[:arity]]
            b.store(b.call(callee, values), b.gep(scalar, f.args[arity], i), align)
        b.ret()
        code = engine().compile_object(module.text(), CompileOptions.for_host())
        self._linked: Linked = engine().link(code.object, ["loop"])
        self._native = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(self._linked["loop"])

    def bind(self, *arrays: Array) -> Callable[[], None]:
        """A call with these arrays, the result last."""
        pointers = [a.ctypes.data for a in arrays]

        def run(native: Any = self._native, size: int = arrays[0].size, keep: object = arrays) -> None:
            native(*pointers, size)

        return run


@cache
def loop(name: str, dtype: str) -> Loop:
    return Loop(name, dtype)


def arguments(name: str, dtype: str, size: int) -> list[Array]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-10, 10, size).astype(dtype)
    if name in POSITIVE:
        x = np.abs(x) + x.dtype.type(0.001)
    if name in ("asin", "acos", "atanh"):
        x /= 10
    if name == "acosh":
        x = np.abs(x) + 1
    return [x, rng.uniform(-3, 3, size).astype(dtype)][: vmath.ARITY[name]]


def candidates(name: str, dtype: str, size: int) -> dict[str, Callable[[], object]]:
    args = arguments(name, dtype, size)
    out = np.empty_like(args[0])
    found: dict[str, Callable[[], object]] = {"tirlower": loop(name, dtype).bind(*args, out)}
    peer = getattr(np, NUMPY.get(name, name), None)
    if peer is not None:
        found["numpy"] = lambda: peer(*args, out=out)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("who", ["tirlower", "numpy"])
def test_function(benchmark, request, who, name, dtype, size):
    found = candidates(name, dtype, SIZES[size])
    if who not in found:
        pytest.skip(f"NumPy has no {name}")
    benchmark.group = f"{name} {dtype} {size}"
    benchmark(found[who])


def measure(dtype: str, size: int, names: list[str]) -> dict[str, dict[str, Timing]]:
    """Timings of each function by candidate."""
    return {name: interleave(candidates(name, dtype, size), rounds=9) for name in names}


def plain_loops(name: str, dtype: str, size: int) -> dict[str, Callable[[], object]]:
    """The function in a plain loop of a program, and in a vectorized one."""
    args = arguments(name, dtype, size)
    arrays = ", ".join(f'{p}: T.Buffer(({size},), "{dtype}")' for p in "XYZ"[: len(args) + 1])
    call = f"{'XYZ'[len(args)]}[i] = T.{name}({', '.join(f'{p}[i]' for p in 'XYZ'[: len(args)])})"
    found: dict[str, Callable[[], object]] = {}
    for kind, loop in (("plain", "range"), ("vectorized", "T.vectorized")):
        kernel = tl.build(
            parse(f"@T.prim_func\ndef f({arrays}):\n    for i in {loop}({size}):\n        {call}\n"), schedule="none"
        )
        found[kind] = partial(kernel, *args, np.empty_like(args[0]))
    return found


def main(names: list[str]) -> int:
    """Print the tables, of all functions or of those named."""
    unknown = [n for n in names if n not in vmath.SUPPORTED]
    if unknown:
        print(f"no vector function {unknown[0]!r}; there are {', '.join(FUNCTIONS)}")
        return 2
    for dtype in ("float32", "float64"):
        for label, size in SIZES.items():
            print(table(f"{dtype}, {label} elements, one thread", measure(dtype, size, names or FUNCTIONS)), "\n")
        rows = {name: interleave(plain_loops(name, dtype, SIZES["64K"]), rounds=9) for name in names or FUNCTIONS}
        print(table(f"{dtype}, 64K elements, loops of programs", rows), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
