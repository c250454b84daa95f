"""Every data type: loaded, stored, converted, computed with, reinterpreted."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.kernels.base import Ulps, kernel, numpy_type, put
from tests.kernels.corpus_integer import wrap
from tirlower.script import tir as T

FLOATS = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
MORE_FLOATS = ("float8_e4m3", "float8_e3m4", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz")
INTEGERS = tuple(f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64))
SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-3,
    1e-5,
    -1e-7,
    6e-8,
    240.0,
    448.0,
    449.0,
    65504.0,
    65519.0,
    65520.0,
    1e30,
    -1e38,
)


def special_floats(g, n, dtype):
    """Floats of every magnitude that the type has, and its special values."""
    wide = g.rng.standard_normal(n) * np.exp2(g.rng.integers(-30, 18, n))
    wide[: len(SPECIAL)] = SPECIAL[:n]
    if n > len(SPECIAL) + 2:
        wide[len(SPECIAL)], wide[len(SPECIAL) + 1], wide[len(SPECIAL) + 2] = np.inf, -np.inf, np.nan
    with np.errstate(all="ignore"):
        return wide.astype(numpy_type(dtype))


def _copies(dtype):
    @kernel(
        lambda g, n: [
            g.bools(n)
            if dtype == "bool"
            else g.ints(n, dtype=dtype)
            if "int" in dtype
            else special_floats(g, n, dtype),
            g.blank(2, n, dtype=dtype),
        ],
        lambda a, b: (put(b[0], a), put(b[1], a[::-1])),
        sizes=[{"n": 0}, {"n": 1}, {"n": 29}],
        large=[{"n": 1000}],
        dynamic=True,
        name=f"load_store_{dtype}",
    )
    def copy(dtype=dtype):
        @T.prim_func
        def copy(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (2, n), dtype)
            kept = T.alloc_buffer((n,), dtype)
            for i in range(n):
                kept[i] = A[i]
                B[0, i] = kept[i]
            for i in range(n):
                B[1, i] = kept[n - 1 - i]

        return copy


for _dtype in ("bool", *INTEGERS, *FLOATS, *MORE_FLOATS):
    _copies(_dtype)


def narrowed(value, dtype):
    """Rounded once, as a conversion from float64 to the type is defined."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(numpy_type(dtype))


def _float_casts(source):
    def convert(a, f16, bf16, f32, f64, e4, e5):
        # ml_dtypes converts between its types by way of float32, and float16 of them likewise: exact for these sources.
        for out in (f16, bf16, f32, f64, e4, e5):
            if source == "float64" and out.dtype.itemsize < 4:
                put(out, round_to_odd(a).astype(out.dtype))
            else:
                put(out, a.astype(np.float32).astype(out.dtype) if source != "float64" else a)

    @kernel(
        lambda g, n: [special_floats(g, n, source), *[g.blank(n, dtype=t) for t in FLOATS]],
        convert,
        sizes=[{"n": 40}],
        large=[{"n": 900}],
        dynamic=True,
        name=f"casts_from_{source}",
    )
    def casts(source=source):
        @T.prim_func
        def casts(a: T.handle, f16: T.handle, bf16: T.handle, f32: T.handle, f64: T.handle, e4: T.handle, e5: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), source)
            F16 = T.match_buffer(f16, (n,), "float16")
            BF16 = T.match_buffer(bf16, (n,), "bfloat16")
            F32 = T.match_buffer(f32, (n,), "float32")
            F64 = T.match_buffer(f64, (n,), "float64")
            E4 = T.match_buffer(e4, (n,), "float8_e4m3fn")
            E5 = T.match_buffer(e5, (n,), "float8_e5m2")
            for i in range(n):
                F16[i] = T.Cast("float16", A[i])
                BF16[i] = T.Cast("bfloat16", A[i])
                F32[i] = T.Cast("float32", A[i])
                F64[i] = T.Cast("float64", A[i])
                E4[i] = T.Cast("float8_e4m3fn", A[i])
                E5[i] = T.Cast("float8_e5m2", A[i])

        return casts


def round_to_odd(a):
    """float64 as float32, inexact values with an odd last bit: rounding again to less is rounding once."""
    with np.errstate(all="ignore"):
        near = a.astype(np.float32)
        bits = near.view(np.uint32).copy()
        inexact = np.isfinite(near) & (near.astype(np.float64) != a) & (bits & 1 == 0)
        up = np.abs(near.astype(np.float64)) < np.abs(a)
        bits = np.where(inexact, np.where(up, bits + 1, np.where(near == 0, bits, bits - 1)), bits).astype(np.uint32)
    return bits.view(np.float32)


for _dtype in FLOATS:
    _float_casts(_dtype)


def _convert_integers(a, *outs):
    for out in outs:
        dtype = out.dtype.name
        if out.dtype == np.bool_:
            put(out, a != 0)
        elif out.dtype.kind in "iu":
            put(out, np.array([wrap(int(x), dtype) for x in a], dtype=out.dtype))
        elif out.dtype.itemsize >= 4:
            put(out, a.astype(out.dtype))
        else:  # Python ints round once, through float64 rounded to odd
            wide = np.array([_odd(int(x)) for x in a], dtype=np.float64)
            put(out, round_to_odd(wide).astype(out.dtype))


def _odd(value):
    """An integer as a float64 that rounds further as the integer does."""
    near = float(value)
    if int(near) == value:
        return near
    toward = np.inf if int(near) < value else -np.inf
    other = float(np.nextafter(near, toward))
    odd = int(np.float64(near).view(np.uint64)) & 1
    return near if odd else other


def _integer_casts(source):
    targets = ("bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64")

    @kernel(
        lambda g, n: [g.ints(n, dtype=source), *[g.blank(n, dtype=t) for t in targets]],
        _convert_integers,
        sizes=[{"n": 40}],
        large=[{"n": 400}],
        dynamic=True,
        name=f"casts_from_{source}",
    )
    def casts(source=source):
        @T.prim_func
        def casts(
            a: T.handle, t: T.handle, i8: T.handle, u16: T.handle, i32: T.handle, u64: T.handle, f16: T.handle,
            bf16: T.handle, f32: T.handle, f64: T.handle,
        ):  # fmt: skip
            n = T.int32()
            A = T.match_buffer(a, (n,), source)
            B = T.match_buffer(t, (n,), "bool")
            I8 = T.match_buffer(i8, (n,), "int8")
            U16 = T.match_buffer(u16, (n,), "uint16")
            I32 = T.match_buffer(i32, (n,), "int32")
            U64 = T.match_buffer(u64, (n,), "uint64")
            F16 = T.match_buffer(f16, (n,), "float16")
            BF16 = T.match_buffer(bf16, (n,), "bfloat16")
            F32 = T.match_buffer(f32, (n,), "float32")
            F64 = T.match_buffer(f64, (n,), "float64")
            for i in range(n):
                B[i] = T.Cast("bool", A[i])
                I8[i] = T.Cast("int8", A[i])
                U16[i] = T.Cast("uint16", A[i])
                I32[i] = T.Cast("int32", A[i])
                U64[i] = T.Cast("uint64", A[i])
                F16[i] = T.Cast("float16", A[i])
                BF16[i] = T.Cast("bfloat16", A[i])
                F32[i] = T.Cast("float32", A[i])
                F64[i] = T.Cast("float64", A[i])

        return casts


for _dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
    _integer_casts(_dtype)


def _to_integers(a, *outs):
    for out in outs:
        put(out, np.trunc(a.astype(np.float64)))


def _float_to_integer(source):
    @kernel(
        lambda g, n: [
            g.floats(n, dtype=source, low=0, high=120), g.blank(n, dtype="int8"), g.blank(n, dtype="uint8"),
            g.blank(n, dtype="int32"), g.blank(n, dtype="uint64"), g.blank(n, dtype="bool"),
        ],
        lambda a, *outs: (_to_integers(a, *outs[:4]), put(outs[4], a.astype(np.float32) != 0)),
        sizes=[{"n": 31}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"truncation_of_{source}",
    )  # fmt: skip
    def truncation(source=source):
        @T.prim_func
        def truncation(a: T.handle, i8: T.handle, u8: T.handle, i32: T.handle, u64: T.handle, t: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), source)
            I8 = T.match_buffer(i8, (n,), "int8")
            U8 = T.match_buffer(u8, (n,), "uint8")
            I32 = T.match_buffer(i32, (n,), "int32")
            U64 = T.match_buffer(u64, (n,), "uint64")
            B = T.match_buffer(t, (n,), "bool")
            for i in range(n):
                I8[i] = T.Cast("int8", T.Cast("float32", A[i]) * T.float32(-1))
                I8[i] = T.Cast("int8", A[i])
                U8[i] = T.Cast("uint8", A[i])
                I32[i] = T.Cast("int32", A[i])
                U64[i] = T.Cast("uint64", A[i])
                B[i] = T.Cast("bool", A[i])

        return truncation


for _dtype in FLOATS:
    _float_to_integer(_dtype)


def _narrow_arithmetic(dtype):
    def compute(a, b, c):
        # NumPy and ml_dtypes round each operation to the type, as the language does.
        with np.errstate(all="ignore"):
            c[0], c[1], c[2] = a + b, a - b, a * b
            c[3] = a / b
            c[4] = a * b + a
            c[5] = np.where(a < b, a, b)
            c[6] = -a

    @kernel(
        lambda g, n: [
            g.floats(n, dtype=dtype, low=-8, high=8), g.floats(n, dtype=dtype, low=0.5, high=4), g.blank(7, n, dtype=dtype)
        ],
        compute,
        sizes=[{"n": 33}],
        large=[],
        dynamic=True,
        # Products fused with sums by default: NumPy's two roundings are checked by the exact build.
        name=f"arithmetic_{dtype}",
        within=Ulps(1, scale=32) if dtype in ("float16", "float32", "float64") else None,
    )  # fmt: skip
    def arithmetic(dtype=dtype):
        @T.prim_func
        def arithmetic(a: T.handle, b: T.handle, c: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (n,), dtype)
            C = T.match_buffer(c, (7, n), dtype)
            for i in range(n):
                C[0, i] = A[i] + B[i]
                C[1, i] = A[i] - B[i]
                C[2, i] = A[i] * B[i]
                C[3, i] = A[i] / B[i]
                C[4, i] = A[i] * B[i] + A[i]
                C[5, i] = T.min(A[i], B[i])
                C[6, i] = T.cast(0, dtype) - A[i]

        return arithmetic


for _dtype in FLOATS:
    _narrow_arithmetic(_dtype)


@kernel(
    lambda g, n: [special_floats(g, n, "float32"), g.blank(n, dtype="uint32"), g.blank(n)],
    lambda a, b, c: (put(b, a.view(np.uint32)), put(c, (a.view(np.uint32) & np.uint32(0x7FFFFFFF)).view(np.float32))),
    sizes=[{"n": 40}],
    large=[{"n": 500}],
    dynamic=True,
)
def reinterpretation_of_floats():
    @T.prim_func
    def bits(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "uint32")
        C = T.match_buffer(c, (n,), "float32")
        for i in range(n):
            B[i] = T.reinterpret("uint32", A[i])
            C[i] = T.reinterpret("float32", T.reinterpret("uint32", A[i]) & T.uint32(0x7FFFFFFF))

    return bits


@kernel(
    lambda g, n: [g.ints(n, dtype="uint16"), g.blank(2, n, dtype="float16"), g.blank(n, dtype="uint8")],
    lambda a, b, c: (
        put(b[0], a.view(np.float16)),
        put(b[1], a.view(ml_dtypes.bfloat16)),
        put(c, (a & 0xFF).astype(np.uint8).view(ml_dtypes.float8_e5m2).astype(np.float16) >= 0),
    ),
    sizes=[{"n": 60}],
    large=[{"n": 5000}],
    dynamic=True,
)
def bits_as_narrow_floats():
    @T.prim_func
    def narrow(a: T.handle, b: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint16")
        B = T.match_buffer(b, (2, n), "float16")
        C = T.match_buffer(c, (n,), "uint8")
        for i in range(n):
            B[0, i] = T.reinterpret("float16", A[i])
            B[1, i] = T.Cast("float16", T.reinterpret("bfloat16", A[i]))
            C[i] = T.Cast("uint8", T.reinterpret("float8_e5m2", T.Cast("uint8", A[i])) >= T.float8_e5m2(0))

    return narrow


def _nibbles(a, out):
    low = ((a.astype(np.int16) & 15) ^ 8) - 8
    high = a.astype(np.int16) >> 4
    put(out, low * high)


@kernel(
    lambda g, n: [g.ints(n, dtype="int8"), g.blank(n, dtype="int8")],
    _nibbles,
    sizes=[{"n": 20}],
    large=[{"n": 300}],
    dynamic=True,
)
def nibbles_in_int4_buffers():
    @T.prim_func
    def nibbles(a: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int8")
        O = T.match_buffer(o, (n,), "int8")
        low = T.alloc_buffer((n,), "int4")
        high = T.alloc_buffer((n,), "int4")
        for i in range(n):
            low[i] = T.Cast("int4", A[i])
            high[i] = T.Cast("int4", T.shift_right(A[i], T.int8(4)))
        for i in range(n):
            O[i] = T.Cast("int8", low[i]) * T.Cast("int8", high[i])

    return nibbles


def _odd_widths(a, out):
    for i, x in enumerate(a.tolist()):
        out[i] = wrap(wrap(x, "int5") + 1, "int5") + wrap(x, "uint12") * 3 % 4096 - wrap(x * x, "int33") // 7


@kernel(
    lambda g, n: [g.ints(n, dtype="int64", low=-(10**6), high=10**6), g.blank(n, dtype="int64")],
    _odd_widths,
    sizes=[{"n": 25}],
    large=[{"n": 200}],
    dynamic=True,
)
def buffers_of_odd_widths():
    @T.prim_func
    def odd(a: T.handle, o: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int64")
        O = T.match_buffer(o, (n,), "int64")
        five = T.alloc_buffer((n,), "int5")
        twelve = T.alloc_buffer((n,), "uint12")
        more = T.alloc_buffer((1,), "int33", scope="local")
        for i in range(n):
            five[i] = T.Cast("int5", A[i]) + T.int5(1)
            twelve[i] = T.Cast("uint12", A[i]) * T.uint12(3)
        for i in range(n):
            more[0] = T.Cast("int33", A[i] * A[i])
            O[i] = T.Cast("int64", five[i]) + T.Cast("int64", twelve[i]) - T.Cast("int64", more[0] // T.int33(7))

    return odd


@kernel(
    lambda g, n: [g.bools(n), g.bools(n), g.blank(6, n, dtype="bool"), g.blank(n, dtype="int32")],
    lambda a, b, c, s: (
        put(c[0], a & b), put(c[1], a | b), put(c[2], ~a), put(c[3], a == b), put(c[4], a ^ b), put(c[5], a < b),
        put(s, np.cumsum(a)),
    ),
    sizes=[{"n": 0}, {"n": 19}],
    large=[{"n": 300}],
    dynamic=True,
)  # fmt: skip
def boolean_logic():
    @T.prim_func
    def logic(a: T.handle, b: T.handle, c: T.handle, s: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "bool")
        B = T.match_buffer(b, (n,), "bool")
        C = T.match_buffer(c, (6, n), "bool")
        S = T.match_buffer(s, (n,), "int32")
        for i in range(n):
            C[0, i] = A[i] and B[i]
            C[1, i] = A[i] or B[i]
            C[2, i] = not A[i]
            C[3, i] = A[i] == B[i]
            C[4, i] = A[i] != B[i]
            C[5, i] = (not A[i]) and B[i]
            S[i] = T.Cast("int32", A[i]) + T.if_then_else(i > 0, S[T.max(i - 1, 0)], 0)

    return logic


def _sub_byte(dtype, storage):
    def doubled(a, b):
        put(b, np.array([wrap(3 * wrap(x, dtype), dtype) for x in a.tolist()], dtype=storage))

    @kernel(
        # Bits beyond the type's in its container mean nothing.
        lambda g, n: [g.ints(n, dtype=storage), g.blank(n, dtype=storage)],
        doubled,
        sizes=[{"n": 0}, {"n": 21}],
        large=[{"n": 300}],
        dynamic=True,
        name=f"parameters_of_{dtype}",
    )
    def triple(dtype=dtype):
        @T.prim_func
        def triple(a: T.handle, b: T.handle):
            n = T.int32()
            A = T.match_buffer(a, (n,), dtype)
            B = T.match_buffer(b, (n,), dtype)
            for i in range(n):
                B[i] = A[i] * T.cast(3, dtype)

        return triple


for _dtype, _storage in (
    ("int4", "int8"),
    ("uint4", "uint8"),
    ("int5", "int8"),
    ("uint12", "uint16"),
    ("int33", "int64"),
):
    _sub_byte(_dtype, _storage)
