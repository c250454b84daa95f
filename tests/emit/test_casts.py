"""Conversions: every pair of types, bit for bit against NumPy and ml_dtypes."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import build, elementwise
from tirlower.interp import interpret
from tirlower.ir.dtype import MINIFLOATS, DataType
from tirlower.script import parse

pytestmark = pytest.mark.by_day

NARROW = ["bfloat16", "float16", *MINIFLOATS]


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"uint{array.dtype.itemsize * 8}")


def rounded(x: np.ndarray, name: str) -> np.ndarray:
    """As ml_dtypes rounds; what is no number is the greatest value of a kind that has no NaN."""
    kind = DataType(name)
    with np.errstate(all="ignore"):
        made = x.astype(kind.numpy)
    if kind.is_float4 or kind.is_float6:
        made[np.isnan(x)] = kind.max_value
    return made


def float32_sample(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random bit patterns, all the neighbourhoods of the narrow kinds' values and ties, and the specials."""
    parts = [rng.integers(0, 2**32, n, dtype=np.uint32).view("float32")]
    for name in NARROW:
        kind = DataType(name).numpy
        codes = np.arange(2 ** (8 * kind.itemsize), dtype=f"uint{8 * kind.itemsize}")[
            :: max(1, 2 ** (8 * kind.itemsize) // 512)
        ]
        with np.errstate(all="ignore"):
            values = codes.view(kind).astype("float32")
            values = values[np.isfinite(values)]
            middle = ((values[:-1].astype("float64") + values[1:]) / 2).astype("float32")
        for v in (values, middle):
            parts += [v, np.nextafter(v, np.float32(np.inf)), np.nextafter(v, np.float32(-np.inf))]
    parts.append(
        np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 448, 464, 465, 57344, 61440], "float32")
    )
    out = np.concatenate(parts).astype("float32")
    return out[: len(out) // 16 * 16]


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", NARROW)
def test_float32_to_the_narrow_kinds_as_ml_dtypes(name: str, lanes: int, rng: np.random.Generator) -> None:
    kind = DataType(name).numpy
    x = float32_sample(rng, 4096)
    f = build(
        elementwise(f'T.Cast("{name}{"" if lanes == 1 else f"x{lanes}"}", a)', [("a", "float32")], name, len(x), lanes)
    )
    out = np.zeros(len(x), kind)
    f(x, out)
    expected = rounded(x, name)
    nan = np.isnan(expected.astype("float32"))
    assert (np.isnan(out.astype("float32")) == nan).all()
    same = (bits(out) == bits(expected)) | nan
    assert same.all(), (name, x[~same][:5], out[~same][:5], expected[~same][:5])


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", NARROW)
def test_the_narrow_kinds_to_float32_exactly(name: str, lanes: int) -> None:
    kind = DataType(name).numpy
    codes = np.arange(2 ** DataType(name).bits, dtype=f"uint{8 * kind.itemsize}")
    x = codes.view(kind)
    f = build(
        elementwise(f'T.Cast("float32{"" if lanes == 1 else f"x{lanes}"}", a)', [("a", name)], "float32", len(x), lanes)
    )
    out = np.zeros(len(x), "float32")
    f(x, out)
    expected = x.astype("float32")
    nan = np.isnan(expected)
    assert (np.isnan(out) == nan).all() and (bits(out)[~nan] == bits(expected)[~nan]).all()


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"]
)
def test_float64_is_rounded_once(name: str, rng: np.random.Generator) -> None:
    """Values next to ties, which a way through float32 would round twice."""
    kind = DataType(name).numpy
    width = DataType(name).bits
    codes = np.arange(0, 2 ** (width - 1) - 1, max(1, 2**width // 2048), dtype=f"uint{8 * kind.itemsize}")
    with np.errstate(all="ignore"):
        low = codes.view(kind).astype("float64")
        high = (codes + 1).astype(codes.dtype).view(kind).astype("float64")
    good = np.isfinite(low) & np.isfinite(high)
    low, high = low[good], high[good]
    tie = (low + high) / 2
    above, below = np.nextafter(tie, np.inf), np.nextafter(tie, -np.inf)
    for sign in (1, -1):
        for x, want in ((above, high), (below, low)):
            x = (sign * x)[: len(x) // 8 * 8 or len(x)]
            f = build(elementwise(f'T.Cast("{name}", a)', [("a", "float64")], name, len(x)))
            out = np.zeros(len(x), kind)
            f(x.copy(), out)
            assert (out.astype("float64") == sign * want[: len(x)]).all()


INTS = ["bool", "int5", "int8", "uint8", "int16", "int32", "uint32", "int33", "int64", "uint64"]


@pytest.mark.parametrize(("source", "target"), list(itertools.permutations(INTS, 2)))
def test_integers_wrap(source: str, target: str, rng: np.random.Generator) -> None:
    s, t = DataType(source), DataType(target)
    n = 32
    values = rng.integers(
        int(s.min_value), int(s.max_value), n, endpoint=True, dtype="uint64" if s.is_uint else "int64"
    )
    values[:2] = s.min_value, s.max_value
    x = values.astype(s.numpy)
    out = np.zeros(n, t.numpy)
    for lanes in (1, 8):
        name = target if lanes == 1 else f"{target}x{lanes}"
        build(elementwise(f'T.Cast("{name}", a)', [("a", source)], target, n, lanes))(x, out)
        for v, got in zip(x.tolist(), out.tolist(), strict=True):
            want = int(v) & ((1 << t.bits) - 1)
            if t.is_int and want >> (t.bits - 1):
                want -= 1 << t.bits
            assert got == (bool(v) if t.is_bool else want)


@pytest.mark.parametrize(
    "target",
    ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float6_e3m2fn", "float4_e2m1fn"],
)
@pytest.mark.parametrize("source", INTS)
def test_integers_to_floats(source: str, target: str, rng: np.random.Generator) -> None:
    s, t = DataType(source), DataType(target)
    n = 64
    values = rng.integers(
        int(s.min_value), int(s.max_value), n, endpoint=True, dtype="uint64" if s.is_uint else "int64"
    )
    values[:2] = s.min_value, s.max_value
    values[2:10] = np.clip(np.arange(-4, 4), int(s.min_value), int(s.max_value)).astype(values.dtype)
    x = values.astype(s.numpy)
    out = np.zeros(n, t.numpy)
    build(elementwise(f'T.Cast("{target}", a)', [("a", source)], target, n))(x, out)
    from fractions import Fraction

    for v, got in zip(x.tolist(), out.tolist(), strict=True):
        exact = Fraction(int(v))
        got = float(got)
        if abs(got) != np.inf and got == got:
            code = np.array([got]).astype(t.numpy)
            step = bits(code)[0]
            gaps = []
            for other in (int(step) - 1, int(step) + 1):
                near = float(np.array([other & (2 ** (8 * t.numpy.itemsize) - 1)], bits(code).dtype).view(t.numpy)[0])
                if near == near and abs(near) != np.inf:
                    gaps.append(abs(exact - Fraction(near)))
            assert all(abs(exact - Fraction(got)) <= gap for gap in gaps), (v, got)
        else:
            assert abs(exact) > float(t.max_value)
        if abs(exact) > float(t.max_value) and t.is_minifloat and t.bits < 8:
            assert abs(got) == t.max_value and (got > 0) == (exact > 0)


def test_wide_integers_to_bfloat16_are_rounded_once() -> None:
    # 2**62 + 2**54 is a tie of bfloat16; one more in the last place decides it, and float64 does not see it.
    x = np.array([2**62 + 2**54 + 1, 2**62 + 2**54, 2**62 + 2**54 - 1, -(2**62 + 2**54) - 1], "int64")
    out = np.zeros(4, ml_dtypes.bfloat16)
    build(elementwise('T.Cast("bfloat16", a)', [("a", "int64")], "bfloat16", 4))(x, out)
    assert out.astype("float64").tolist() == [2.0**62 + 2.0**55, 2.0**62, 2.0**62, -(2.0**62) - 2.0**55]


@pytest.mark.parametrize("target", ["int5", "int8", "uint8", "int32", "uint32", "int64", "uint64", "bool"])
@pytest.mark.parametrize(
    "source", ["float16", "float32", "float64", "bfloat16", "float8_e5m2", "float6_e2m3fn", "float4_e2m1fn"]
)
def test_floats_to_integers_truncate_and_saturate(source: str, target: str) -> None:
    s, t = DataType(source), DataType(target)
    x = np.array(
        [0.0, -0.0, 0.5, 0.99, 1.5, 2.5, -0.5, 3.0, 100.0, 7.9, np.inf, -np.inf, np.nan, 1e4, -1e4, -1.5], "float64"
    )
    with np.errstate(all="ignore"):
        x = x.astype(s.numpy)
    out = np.zeros(len(x), t.numpy)
    for lanes in (1, 8):
        name = target if lanes == 1 else f"{target}x{lanes}"
        build(elementwise(f'T.Cast("{name}", a)', [("a", source)], target, len(x), lanes))(x, out)
        for v, got in zip(x.astype("float64").tolist(), out.tolist(), strict=True):
            if t.is_bool:
                assert got == (v != 0)
            elif v != v:
                assert got == 0
            else:
                whole = max(min(v, 2.0**70), -(2.0**70))
                assert got == min(max(int(whole), int(t.min_value)), int(t.max_value)), (v, got)


INTEGERS = ["int5", "int8", "uint8", "int16", "uint16", "int24", "int32", "uint32", "int64", "uint64"]


def around_the_ends(kind: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """The powers of two, halves beside them, their neighbours, random bit patterns, and the specials."""
    powers = [2.0**k for k in range(67)]
    near = [one + by for one in powers for by in (-1, -0.5, 0, 0.5, 1)]
    with np.errstate(all="ignore"):
        found = np.array([*near, *[-one for one in near], 0.0, -0.0, np.inf, -np.inf, np.nan], "float64").astype(kind)
        up, down = np.nextafter(found, kind.type(np.inf)), np.nextafter(found, kind.type(-np.inf))
    random = rng.integers(0, 256, (2048, kind.itemsize), dtype=np.uint8).view(kind).ravel()
    every = np.concatenate([found, up, down, random])
    return every[: len(every) // 16 * 16]


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_at_the_ends_of_integers(source: str, cpu: str, rng: np.random.Generator) -> None:
    x = around_the_ends(np.dtype(source), rng)
    with np.errstate(invalid="ignore"):
        wide = x.astype("float64").tolist()
    whole = [0 if v != v else int(max(min(v, 2.0**70), -(2.0**70))) for v in wide]
    flags = "" if cpu == "host" else f" -mcpu={cpu}"
    for name, lanes in itertools.product(INTEGERS, (1, 16)):
        kind = DataType(name)
        made = name if lanes == 1 else f"{name}x{lanes}"
        func = parse(elementwise(f'T.Cast("{made}", a)', [("a", source)], name, len(x), lanes))
        out = np.zeros(len(x), kind.numpy)
        tl.build(func, f"llvm{flags} -num_threads=1")(x, out)
        expected = [min(max(one, int(kind.min_value)), int(kind.max_value)) for one in whole]
        wrong = [(v, got) for v, got, want in zip(x.tolist(), out.tolist(), expected, strict=True) if got != want]
        assert not wrong, (name, lanes, wrong[:5])


@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("int32", "float32"), ("float64", "uint64"), ("float16", "int16"), ("bfloat16", "uint16"),
     ("float8_e4m3fn", "int8"), ("int8", "uint8")],
)  # fmt: skip
def test_reinterpret_keeps_the_bits(source: str, target: str, rng: np.random.Generator) -> None:
    s, t = DataType(source), DataType(target)
    x = rng.integers(0, 256, 64 * s.numpy.itemsize, dtype=np.uint8).view(s.numpy)
    out = np.zeros(64, t.numpy)
    for lanes in (1, 8):
        name = target if lanes == 1 else f"{target}x{lanes}"
        build(elementwise(f'T.reinterpret("{name}", a)', [("a", source)], target, 64, lanes))(x, out)
        assert (bits(out) == bits(x)).all()


@pytest.mark.parametrize(("name", "bits"), [("float4_e2m1fn", 4), ("float6_e2m3fn", 6), ("float6_e3m2fn", 6)])
def test_bits_beside_a_value_in_its_byte_are_not_looked_at(name: str, bits: int) -> None:
    codes = np.arange(256, dtype=np.uint8)
    out, back, sums = np.zeros(256, np.uint8), np.zeros(256, DataType(name).numpy), np.zeros(256, np.float32)
    build(elementwise(f'T.Cast("uint8", T.reinterpret("uint{bits}", a))', [("a", name)], "uint8", 256))(
        codes.view(back.dtype), out
    )
    assert (out == codes % 2**bits).all()
    build(elementwise(f'T.reinterpret("{name}", T.Cast("uint{bits}", a))', [("a", "uint8")], name, 256))(codes, back)
    assert (back.view("uint8") == codes % 2**bits).all()
    build(elementwise('T.Cast("float32", a) + T.float32(0)', [("a", name)], "float32", 256))(
        codes.view(back.dtype), sums
    )
    assert (sums == back.astype("float32")).all()


def test_two_floats_of_four_bits_in_a_byte() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((16,), "uint8"), B: T.Buffer((32,), "float32"), C: T.Buffer((16,), "uint8")):
            for i in range(16):
                B[i * 2:i * 2 + 2] = T.Cast("float32x2", T.reinterpret("float4_e2m1fnx2", A[i]))
                C[i] = T.reinterpret("uint8", T.Cast("float4_e2m1fnx2", B[i * 2:i * 2 + 2]))
    """)
    a = np.random.default_rng(3).integers(0, 256, 16, dtype=np.uint8)
    b, c = np.zeros(32, "float32"), np.zeros(16, "uint8")
    f(a, b, c)
    nibbles = np.stack([a & 15, a >> 4], axis=1).ravel()
    assert (b == nibbles.view(ml_dtypes.float4_e2m1fn).astype("float32")).all() and (c == a).all()


def test_reinterpret_across_lanes() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((16,), "int8"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                B[i] = T.reinterpret("int32", A[i * 4:i * 4 + 4])
    """)
    a = np.arange(16, dtype="int8")
    out = np.zeros(4, "int32")
    f(a, out)
    assert (out == a.view("int32")).all()


@pytest.mark.parametrize("opt_level", [0, 3])
def test_integers_beyond_half_overflow_also_on_the_way_back(opt_level: int) -> None:
    text = elementwise(
        'T.Cast("float32", T.Cast("float16", a << 21)) * b', [("a", "int32"), ("b", "float32")], "float32", 8
    )
    a, b = np.arange(8, dtype="int32") - 3, np.arange(8, dtype="float32") - 4
    out = np.zeros(8, "float32")
    build(text, opt_level=opt_level)(a, b, out)
    with np.errstate(all="ignore"):
        want = (a << 21).astype("float16").astype("float32") * b
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("name", ["float4_e2m1fn", "float6_e3m2fn", "float8_e5m2"])
@pytest.mark.parametrize(
    "expression", ["a + b", "a / b", "T.nextafter(a, b)", "T.copysign(a, b)", "T.Select(a < b, a, b)"]
)
def test_pairs_of_minifloats_as_the_interpreter_computes_them(name: str, expression: str) -> None:
    kind = DataType(name)
    codes = np.arange(2**kind.bits, dtype=np.uint8)
    a, b = (codes[at].view(kind.numpy) for at in np.random.default_rng(5).integers(0, len(codes), (2, 512)))
    for lanes in (1, 16):
        text = elementwise(expression, [("a", name), ("b", name)], name, 512, lanes)
        native, ours = np.zeros(512, kind.numpy), np.zeros(512, kind.numpy)
        build(text)(a, b, native)
        interpret(parse(text), a, b, ours)
        nan = np.isnan(ours.astype("float32"))
        assert (np.isnan(native.astype("float32")) == nan).all() and (bits(native)[~nan] == bits(ours)[~nan]).all()
