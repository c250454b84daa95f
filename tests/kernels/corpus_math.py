"""Mathematical functions of every float type, special values, and small numeric programs."""

from __future__ import annotations

import math

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tests.kernels.corpus_nn import EXP, wide
from tirlower.script import tir as T

LIBM = "the C library and NumPy differ in the last bits"

with np.errstate(all="ignore"):
    UNARY = {
        "exp": (np.exp, -20, 20), "exp2": (np.exp2, -20, 20), "exp10": (lambda x: np.power(10.0, x), -8, 8),
        "log": (np.log, 0.01, 50), "log2": (np.log2, 0.01, 50), "log10": (np.log10, 0.01, 50),
        "log1p": (np.log1p, -0.9, 9), "sqrt": (np.sqrt, 0, 99), "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 99),
        "sin": (np.sin, -20, 20), "cos": (np.cos, -20, 20), "tan": (np.tan, -1.4, 1.4), "asin": (np.arcsin, -1, 1),
        "acos": (np.arccos, -1, 1), "atan": (np.arctan, -9, 9), "sinh": (np.sinh, -9, 9), "cosh": (np.cosh, -9, 9),
        "tanh": (np.tanh, -5, 5), "asinh": (np.arcsinh, -9, 9), "acosh": (np.arccosh, 1.1, 9),
        "atanh": (np.arctanh, -0.95, 0.95), "erf": (np.vectorize(math.erf, otypes=[float]), -4, 4),
        "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -9, 9), "expm1": (np.expm1, -5, 5),
    }  # fmt: skip
# Near zeros of the function its result is a rounding error of the argument: the bound is relative to 1 there.
SCALE = {"sin": 1.0, "cos": 1.0, "log": 1.0, "log2": 1.0, "log10": 1.0, "acos": 1.0, "tan": 1.0}


def _unary(name, dtype):
    fn, low, high = UNARY[name]
    ulps = {"float16": 1, "bfloat16": 1, "float32": 4, "float64": 4}[dtype]

    @kernel(
        lambda g, n: [g.floats(n, dtype=dtype, low=low, high=high), g.blank(n, dtype=dtype)],
        lambda a, b: put(b, fn(wide(a))),
        sizes=[{"n": 0}, {"n": 23}],
        large=[{"n": 700}],
        within=Ulps(ulps, scale=SCALE.get(name, 0.0)),
        differs="" if name == "sqrt" else EXP,
        dynamic=True,
        name=f"{name}_{dtype}",
    )
    def unary(name=name, dtype=dtype):
        function = getattr(T, name)

        @T.prim_func
        def elementwise(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (n,), dtype)
            for i in range(n):
                B[i] = function(A[i])

        return elementwise


for _name in UNARY:
    _unary(_name, "float32")
for _name in ("exp", "log", "tanh", "sin", "erf", "rsqrt", "sqrt", "sigmoid"):
    for _dtype in ("float64", "float16", "bfloat16"):
        _unary(_name, _dtype)


def _vectorized(name):
    fn, low, high = UNARY[name]

    @kernel(
        lambda g: [g.floats(13, low=low, high=high), g.blank(13)],
        lambda a, b: put(b, fn(wide(a))),
        within=Ulps(3, scale=SCALE.get(name, 0.0)),
        differs=EXP,
        name=f"vectorized_{name}",
    )
    def unary(name=name):
        function = getattr(T, name)

        @T.prim_func
        def elementwise(A: T.Buffer((13,), "float32"), B: T.Buffer((13,), "float32")):
            for i in T.vectorized(13):
                B[i] = function(A[i])

        return elementwise


for _name in ("exp", "exp2", "log", "tanh", "erf", "sigmoid", "sin", "cos", "rsqrt"):
    _vectorized(_name)

LIMITS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 3.4e38, -3.4e38, 88.8, -104.0, 0.5, 2.5, -0.5, 1e9)


def _limits(a, b):
    with np.errstate(all="ignore"):
        x = wide(a)
        for row, fn in enumerate((np.exp, np.log, np.sqrt, np.tanh, np.sin, lambda v: 1 / np.sqrt(v))):
            put(b[row], fn(x))
        b[6], b[7] = np.isnan(a), np.isinf(a)
        put(b[8], np.where(np.isnan(a), 1, np.minimum(a, 1)))


@kernel(
    lambda g: [np.array(LIMITS, np.float32), g.blank(9, len(LIMITS))],
    _limits,
    within=Ulps(3, scale=1e-30),  # sin(1e9) is 0.55: an error of the reduction would be absolute
    differs=EXP,
)
def functions_at_their_limits():
    @T.prim_func
    def limits(A: T.Buffer((16,), "float32"), B: T.Buffer((9, 16), "float32")):
        for i in range(16):
            B[0, i] = T.exp(A[i])
            B[1, i] = T.log(A[i])
            B[2, i] = T.sqrt(A[i])
            B[3, i] = T.tanh(A[i])
            B[4, i] = T.sin(A[i])
            B[5, i] = T.rsqrt(A[i])
            B[6, i] = T.Cast("float32", T.isnan(A[i]))
            B[7, i] = T.Cast("float32", T.isinf(A[i]))
            B[8, i] = T.min(A[i], T.float32(1))

    return limits


def _rounding(dtype):
    @kernel(
        lambda g, n: [np.concatenate([g.floats(n, dtype=dtype, low=-9, high=9),
                                      (np.arange(-12, 13) / 2).astype(dtype)]), g.blank(6, n + 25, dtype=dtype)],
        lambda *args: _round(*args),
        sizes=[{"n": 0}, {"n": 20}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"rounding_{dtype}",
    )  # fmt: skip
    def rounding(dtype=dtype):
        @T.prim_func
        def rounding(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (6, n), dtype)
            for i in range(n):
                B[0, i] = T.floor(A[i])
                B[1, i] = T.ceil(A[i])
                B[2, i] = T.trunc(A[i])
                B[3, i] = T.nearbyint(A[i])
                B[4, i] = T.abs(A[i])
                B[5, i] = T.round(A[i])

        return rounding


def _round(a, b):
    x = a.astype(np.float64)
    for row, fn in enumerate((np.floor, np.ceil, np.trunc, np.rint, np.abs)):
        put(b[row], fn(x))
    put(b[5], np.copysign(np.floor(np.abs(x) + 0.5), x))


for _dtype in ("float16", "float32", "float64"):
    _rounding(_dtype)


def _binary(a, b, c):
    x, y = wide(a), wide(b)
    fns = (np.power, np.arctan2, np.fmod, np.copysign, np.hypot)
    for row, fn in enumerate(fns):
        put(c[row], fn(x, y) if row else np.power(np.abs(x), y))
    c[5] = np.nextafter(a, b)
    put(c[6], np.ldexp(x, np.trunc(b).astype(int)))
    put(c[7], x * y + 2)


@kernel(
    lambda g, n: [g.floats(n, low=-5, high=5), g.floats(n, low=-5, high=5), g.blank(8, n)],
    _binary,
    sizes=[{"n": 17}],
    large=[{"n": 400}],
    within=Ulps(4),
    differs=LIBM,
    dynamic=True,
)
def functions_of_two_arguments():
    @T.prim_func
    def binary(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        C = T.match_buffer(c, (8, n), "float32")
        for i in range(n):
            C[0, i] = T.pow(T.abs(A[i]), B[i])
            C[1, i] = T.atan2(A[i], B[i])
            C[2, i] = T.fmod(A[i], B[i])
            C[3, i] = T.copysign(A[i], B[i])
            C[4, i] = T.hypot(A[i], B[i])
            C[5, i] = T.nextafter(A[i], B[i])
            C[6, i] = T.ldexp(A[i], T.Cast("int32", B[i]))
            C[7, i] = T.fma(A[i], B[i], T.float32(2))

    return binary


def _float_division(a, b, c):
    c[0] = a / b
    c[1] = np.floor_divide(a, b)
    c[2] = np.remainder(a, b)
    c[3] = np.fmod(a, b)
    c[4], c[5] = np.minimum(a, b), np.maximum(a, b)


@kernel(
    lambda g, n: [g.floats(n, low=-50, high=50, dtype="float64"), g.floats(n, low=0.5, high=5, dtype="float64"),
                  g.blank(6, n, dtype="float64")],
    _float_division,
    sizes=[{"n": 33}],
    large=[{"n": 500}],
    within=Ulps(1, scale=50),  # the remainder's product and difference may be fused
    dynamic=True,
)  # fmt: skip
def division_of_floats():
    @T.prim_func
    def division(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float64")
        B = T.match_buffer(b, (n,), "float64")
        C = T.match_buffer(c, (6, n), "float64")
        for i in range(n):
            C[0, i] = A[i] / B[i]
            C[1, i] = A[i] // B[i]
            C[2, i] = A[i] % B[i]
            C[3, i] = T.truncmod(A[i], B[i])
            C[4, i] = T.min(A[i], B[i])
            C[5, i] = T.max(A[i], B[i])

    return division


def _mandelbrot(out, limit):
    h, w = out.shape
    for i in range(h):
        for j in range(w):
            c = complex(j * 0.0625 - 2.0, i * 0.0625 - 1.0)
            z, k = 0j, 0
            while z.real * z.real + z.imag * z.imag <= 4.0 and k < limit:
                z = complex(z.real * z.real - z.imag * z.imag + c.real, 2.0 * z.real * z.imag + c.imag)
                k += 1
            out[i, j] = k


@kernel(
    lambda g, h, w: [g.blank(h, w, dtype="int32"), 12],
    _mandelbrot,
    sizes=[{"h": 2, "w": 8}],
    large=[{"h": 4, "w": 48}],  # few steps: an orbit that a fused product changes by an ulp stays on its side
    dynamic=True,
)
def mandelbrot():
    @T.prim_func
    def escape(o: T.handle, limit: T.int32):
        h, w = T.int32(), T.int32()
        O = T.match_buffer(o, (h, w), "int32")
        for i in T.parallel(h):
            for j in range(w):
                z = T.alloc_buffer((2,), "float64", scope="local")
                z[0] = T.float64(0)
                z[1] = T.float64(0)
                O[i, j] = 0
                while z[0] * z[0] + z[1] * z[1] <= T.float64(4) and O[i, j] < limit:
                    re = T.bind(z[0] * z[0] - z[1] * z[1] + T.Cast("float64", j) * T.float64(0.0625) - T.float64(2))
                    z[1] = T.float64(2) * z[0] * z[1] + T.Cast("float64", i) * T.float64(0.0625) - T.float64(1)
                    z[0] = re
                    O[i, j] = O[i, j] + 1

    return escape


def _nbody(p, v, steps):
    for _ in range(steps):
        delta = p[None, :, :] - p[:, None, :]
        inverse = ((delta**2).sum(2) + 0.25) ** -1.5
        v += 0.125 * (delta * inverse[:, :, None]).sum(1)
        p += 0.125 * v


@kernel(
    lambda g, n, steps: [g.floats(n, 3, dtype="float64"), g.floats(n, 3, dtype="float64"), steps],
    _nbody,
    sizes=[{"n": 3, "steps": 2}],
    large=[{"n": 20, "steps": 4}],
    within=lambda n, steps: Ulps(64 * n * steps, scale=8),  # softened: no close encounters
    dynamic=True,
)
def n_body():
    @T.prim_func
    def nbody(p: T.handle, v: T.handle, steps: T.int32):
        n = T.int32()
        P = T.match_buffer(p, (n, 3), "float64")
        V = T.match_buffer(v, (n, 3), "float64")
        for _t in range(steps):
            for i, j in T.grid(n, n):
                dx = T.bind(P[j, 0] - P[i, 0])
                dy = T.bind(P[j, 1] - P[i, 1])
                dz = T.bind(P[j, 2] - P[i, 2])
                r2 = T.bind(dx * dx + dy * dy + dz * dz + T.float64(0.25))
                weight = T.bind(T.float64(0.125) / (r2 * T.sqrt(r2)))
                V[i, 0] += dx * weight
                V[i, 1] += dy * weight
                V[i, 2] += dz * weight
            for i, c in T.grid(n, 3):
                P[i, c] += T.float64(0.125) * V[i, c]

    return nbody


def _black_scholes(s, k, t, out):
    s, k, t = wide(s), wide(k), wide(t)
    cdf = np.vectorize(lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2))), otypes=[float])
    d1 = (np.log(s / k) + (0.02 + 0.045) * t) / (0.3 * np.sqrt(t))
    d2 = d1 - 0.3 * np.sqrt(t)
    put(out, s * cdf(d1) - k * np.exp(-0.02 * t) * cdf(d2))


@kernel(
    lambda g, n: [g.floats(n, low=5, high=30), g.floats(n, low=5, high=30), g.floats(n, low=0.25, high=5), g.blank(n)],
    _black_scholes,
    sizes=[{"n": 7}],
    large=[{"n": 500}],
    within=Ulps(64, scale=30),
    differs=EXP,
    dynamic=True,
)
def black_scholes():
    def cdf(x):
        return T.float32(0.5) * (T.float32(1) + T.erf(x * T.float32(0.70710678)))

    @T.prim_func
    def price(s: T.handle, k: T.handle, t: T.handle, o: T.handle):
        n = T.int32()
        S = T.match_buffer(s, (n,), "float32")
        K = T.match_buffer(k, (n,), "float32")
        M = T.match_buffer(t, (n,), "float32")
        O = T.match_buffer(o, (n,), "float32")
        for i in range(n):
            root = T.bind(T.float32(0.3) * T.sqrt(M[i]))
            d1 = T.bind((T.log(S[i] / K[i]) + T.float32(0.065) * M[i]) / root)
            O[i] = S[i] * cdf(d1) - K[i] * T.exp(T.float32(-0.02) * M[i]) * cdf(d1 - root)

    return price


@kernel(
    lambda g, n: [g.floats(n, low=0.1, high=9), g.floats(n, low=0.1, high=9, dtype="float64"),
                  g.blank(n), g.blank(3, n, dtype="float64")],
    lambda a, b, c, d: (put(c, np.cbrt(wide(a))), put(d, [np.sqrt(b), np.vectorize(math.erfc)(b), np.sin(b)])),
    sizes=[{"n": 9}],
    large=[{"n": 100}],
    within=Ulps(4, scale=2),
    differs=LIBM,
    dynamic=True,
)  # fmt: skip
def functions_of_the_c_library():
    @T.prim_func
    def extern(a: T.handle, b: T.handle, c: T.handle, d: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float64")
        C = T.match_buffer(c, (n,), "float32")
        D = T.match_buffer(d, (3, n), "float64")
        for i in range(n):
            C[i] = T.call_pure_extern("float32", "cbrtf", A[i])
            D[0, i] = T.call_llvm_pure_intrin("float64", "llvm.sqrt", B[i])
            D[1, i] = T.call_extern("float64", "erfc", B[i])
            D[2, i] = T.call_pure_extern("float64", "sin", B[i])

    return extern


def _intrinsics(a, out):
    for i, x in enumerate(a.tolist()):
        out[0, i] = int.from_bytes(x.to_bytes(4, "little"), "big")
        out[1, i] = int(format(x, "032b")[::-1], 2)
        out[2, i] = 32 if x == 0 else (x & -x).bit_length() - 1
        out[3, i] = (x << 7 | x >> 25) & 0xFFFFFFFF
        out[4, i] = min(x + 0x80000000, 0xFFFFFFFF)


@kernel(
    lambda g, n: [g.ints(n, dtype="uint32"), g.blank(5, n, dtype="uint32")],
    _intrinsics,
    sizes=[{"n": 15}],
    large=[{"n": 100}],
    dynamic=True,
)
def llvm_intrinsics_on_integers():
    @T.prim_func
    def intrinsics(a: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint32")
        O = T.match_buffer(o, (5, n), "uint32")
        for i in range(n):
            O[0, i] = T.call_llvm_pure_intrin("uint32", "llvm.bswap", A[i])
            O[1, i] = T.call_llvm_pure_intrin("uint32", "llvm.bitreverse", A[i])
            O[2, i] = T.call_llvm_pure_intrin("uint32", "llvm.cttz", A[i], T.bool(False))
            O[3, i] = T.call_llvm_pure_intrin("uint32", "llvm.fshl", A[i], A[i], T.uint32(7))
            O[4, i] = T.call_llvm_pure_intrin("uint32", "llvm.uadd.sat", A[i], T.uint32(0x80000000))

    return intrinsics
