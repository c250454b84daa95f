"""Loops over arrays around vector functions, the targets they are compiled for, exact values, and errors in ulp."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from tirlower.emit import vmath
from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import BFLOAT, DOUBLE, FLOAT, HALF, I64, PTR, Builder, Module, i64, vector
from tirlower.llvm.jit import Linked, engine
from tirlower.machine.cpu import host_cpu, triple

Array = np.ndarray[Any, Any]

ELEMS = {"f16": HALF, "bf16": BFLOAT, "f32": FLOAT, "f64": DOUBLE}
AVX512 = frozenset({"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx2", "fma", "f16c"})
# what is emitted, and the processor it is compiled for; x86-64 has neither FMA nor AVX, and a GPU ("device") has FMA: what is
# emitted for it is run here
TARGETS = {
    "host": (host_cpu().enabled, host_cpu().name),
    "avx512": (AVX512, "x86-64-v4"),
    "avx2": (frozenset({"avx2", "fma", "f16c"}), "x86-64-v3"),
    "sse2": (frozenset(), "x86-64"),
    "device": (frozenset({"fma"}), "x86-64-v3"),
    # what AVX-512's vectors compute, in scalars, which other processors run
    "avx512 scalars": (AVX512, "x86-64-v3"),
}

#: as many lanes as a register holds float32
LANES = {"host": host_cpu().vector_bits // 32, "avx512": 16, "avx2": 8, "sse2": 4, "device": 1, "avx512 scalars": 1}
_NEEDS = {"x86-64": frozenset[str](), "x86-64-v3": frozenset({"avx2", "fma", "f16c"}), "x86-64-v4": AVX512}


def runnable(target: str) -> bool:
    """Whether this machine runs code for the target."""
    return target == "host" or (triple().startswith("x86_64") and _NEEDS[TARGETS[target][1]] <= host_cpu().enabled)


class Loop:
    """``loop(x, ...)`` applies a vector function to arrays, ``lanes`` elements at a time (the end is padded)."""

    def __init__(self, name: str, elem: str, lanes: int, target: str, fast: bool) -> None:
        features, cpu = TARGETS[target]
        scalar = ELEMS[elem]
        module = Module(name)
        callee = vmath.emit(module, name, elem, lanes, fast=fast, features=features)
        self.arity = len(callee.params)
        self.lanes = lanes
        params = [(PTR, "x")] * (self.arity + 1) + [(I64, "n")]
        f = module.function("loop", params=params, attrs=["nounwind", ("prefer-vector-width", "512")])
        b = Builder(f, f.block("entry"))
        t = scalar if lanes == 1 else vector(scalar, lanes)
        align = scalar.bits // 8
        with b.for_range(i64(0), f.args[-1], lanes) as i:
            values = [b.load(t, b.gep(scalar, p, i), align) for p in f.args[: self.arity]]
            b.store(b.call(callee, values), b.gep(scalar, f.args[self.arity], i), align)
        b.ret()
        options = CompileOptions.for_host() if target == "host" else CompileOptions(cpu=cpu, triple=triple())
        compiled = engine().compile_object(module.text(), options)
        self.assembly = compiled.assembly
        self._linked: Linked = engine().link(compiled.object, ["loop"])
        self._call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (self.arity + 1), ctypes.c_int64)(self._linked["loop"])

    def __call__(self, *arrays: Array) -> Array:
        size = arrays[0].size
        padded = -(-size // self.lanes) * self.lanes
        inputs = [np.ascontiguousarray(a if size == padded else np.resize(a, padded)) for a in arrays]
        out = np.empty_like(inputs[0])
        self._call(*[a.ctypes.data for a in inputs], out.ctypes.data, padded)
        return out[:size]


def ulps(got: Array, exact: Array) -> Array:
    """How far float32 (or narrower) results are from exact float64 values, in units of their last place.

    Infinite where one is NaN, infinite or of the wrong sign and the other is not. What rounds to infinity may be infinite.
    """
    info = np.finfo(got.dtype) if got.dtype.kind == "f" else None
    bits, low = (info.nmant + 1, info.minexp - info.nmant) if info else (8, -133)
    top = float(info.max) if info else 3.3895314e38
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(exact)[1] - bits, low)
        have = got.astype(np.float64)
        error = np.abs(have - exact) * np.ldexp(1.0, -np.maximum(exponent, -1000))
        overflow = np.abs(exact) >= top
        both_nan = np.isnan(have) & np.isnan(exact)
        same = both_nan | (have == exact) | (overflow & (np.abs(have) >= top) & (np.sign(have) == np.sign(exact)))
        strange = ~np.isfinite(have) | ~np.isfinite(exact)
        error = np.where(same, 0.0, np.where(strange, np.inf, error))
        return np.where((np.signbit(have) != np.signbit(exact)) & ~both_nan, np.inf, error)


_NUMPY = {name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh")}
_NUMPY["pow"] = "power"
_ERF = np.frompyfunc(math.erf, 1, 1)


def exact(name: str, *args: Array) -> Array:
    """A function in the type of its arguments, by NumPy and Python's math."""
    with np.errstate(all="ignore"):
        if name == "erf":
            return _ERF(args[0]).astype(np.float64)
        if name == "exp10":
            return np.power(args[0].dtype.type(10), args[0])
        if name == "sigmoid":
            z = np.exp(-np.abs(args[0]))
            return np.where(args[0] >= 0, 1 / (1 + z), z / (1 + z))
        if name == "rsqrt":
            return 1 / np.sqrt(args[0])
        return getattr(np, _NUMPY.get(name, name))(*args)
