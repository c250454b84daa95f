from __future__ import annotations

import math
import struct

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirlower.emit.llvm_text import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I32,
    I64,
    PTR,
    Module,
    Type,
    Value,
    array,
    const,
    const_array,
    const_bits,
    const_bytes,
    const_ptr,
    const_struct,
    const_vector,
    float_bits,
    int_type,
    null,
    poison,
    quote,
    undef,
    vector,
    zero,
)
from tirlower.emit.llvm_text import (
    struct as struct_type,
)

pytestmark = pytest.mark.by_day

_NUMPY = {HALF: np.float16, BFLOAT: ml_dtypes.bfloat16, FLOAT: np.float32, DOUBLE: np.float64}


def llvm_bytes(value: Value) -> bytes:
    """The bytes that LLVM itself gives a constant, read from the assembly of a global."""
    module = Module("constants")
    module.global_variable("g", value.type, value)
    parsed = llvm.parse_assembly(module.text())
    parsed.verify()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(jit=True, reloc="pic", codemodel="small")
    library = llvm.JITLibraryBuilder().add_object_img(target.emit_object(parsed)).export_symbol("g")
    tracker = library.link(llvm.create_lljit_compiler(target), "constants")
    import ctypes

    size = 8 if value.type == PTR else max(1, -(-value.type.bits // 8))
    if value.type.kind == "array":
        size = value.type.lanes * value.type.elem.bits // 8
    return ctypes.string_at(tracker["g"], size)


_doubles = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.floats(width=16),
    st.integers(0, (1 << 64) - 1).map(lambda n: struct.unpack("<d", struct.pack("<Q", n))[0]),
    # Halfway cases of bfloat and half, where rounding to even (and rounding twice) shows.
    st.integers(0, (1 << 17) - 1).map(lambda n: struct.unpack("<f", struct.pack("<I", n << 15))[0]),
    st.tuples(st.integers(0, (1 << 12) - 1), st.integers(-30, 20)).map(lambda p: math.ldexp(p[0] + 0.5, p[1])),
)


@pytest.mark.parametrize("type", [HALF, FLOAT, DOUBLE], ids=str)
@settings(deadline=None)
@given(value=_doubles)
def test_rounding_is_that_of_numpy(type: Type, value: float):
    with np.errstate(all="ignore"):
        expected = np.float64(value).astype(_NUMPY[type])
    bits = int(expected.view(f"u{type.bits // 8}"))
    if math.isnan(value):
        assert np.isnan(np.uint64(float_bits(type, value)).astype(f"u{type.bits // 8}").view(_NUMPY[type]))
        assert float_bits(type, value) >> (type.bits - 1) == bits >> (type.bits - 1)
    else:
        assert float_bits(type, value) == bits


@settings(deadline=None)
@given(value=_doubles)
def test_bfloat_is_rounded_once(value: float):
    bits = float_bits(BFLOAT, value)
    got = np.uint16(bits).view(ml_dtypes.bfloat16)
    if math.isnan(value):
        assert np.isnan(np.float32(got))
        return
    # The nearest of the neighbours, ties to the even one: by exact arithmetic on Python's rationals.
    from fractions import Fraction

    if math.isinf(value) or abs(value) >= 3.3961775292304957e38:  # half a step above the largest bfloat
        assert float(got) == math.copysign(math.inf, value)
        return
    exact, error = Fraction(value), None
    error = abs(Fraction(float(got)) - exact)
    for other in (bits - 1, bits + 1):
        if 0 <= other & 0x7FFF < 0x7F80 and other >= 0 and other >> 15 == bits >> 15:
            neighbour = abs(Fraction(float(np.uint16(other).view(ml_dtypes.bfloat16))) - exact)
            assert error < neighbour or (error == neighbour and bits & 1 == 0)
    assert math.copysign(1, float(got)) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("type", "bits"),
    [
        (HALF, 0x3C01),
        (HALF, 0x8000),
        (HALF, 0x0001),
        (HALF, 0x7E01),
        (HALF, 0xFC00),
        (BFLOAT, 0x3FC0),
        (BFLOAT, 0x0001),
        (BFLOAT, 0xFFC5),
        (FLOAT, 0x00000001),
        (FLOAT, 0x80000000),
        (FLOAT, 0x3DCCCCCD),
        (FLOAT, 0x7F800000),
        (FLOAT, 0x7FC01234),
        (FLOAT, 0xFF801234),
        (FLOAT, 0x7F7FFFFF),
        (DOUBLE, 0x0000000000000001),
        (DOUBLE, 0x7FF8000000000001),
        (DOUBLE, 0x3FB999999999999A),
    ],
    ids=str,
)
def test_bits_reach_memory_exactly(type: Type, bits: int):
    assert int.from_bytes(llvm_bytes(const_bits(type, bits)), "little") == bits


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (const(I8, 255), b"\xff"),
        (const(I8, -128), b"\x80"),
        (const(I1, True), b"\x01"),
        (const(I64, (1 << 64) - 1), b"\xff" * 8),
        (const(int_type(128), 1 << 100), (1 << 100).to_bytes(16, "little")),
        (const(vector(I32, 2), 3), b"\3\0\0\0" * 2),
        (const(vector(FLOAT, 3), 0.1), np.full(3, 0.1, "float32").tobytes()),
        (const_vector([const(I8, 1), const(I8, 2)]), b"\1\2"),
        (const_array([const(I8, 1), const(I8, 2), undef(I8)]), b"\1\2\0"),
        (const_bytes(b'a"\\\n\xff\0'), b'a"\\\n\xff\0'),
        (zero(vector(DOUBLE, 2)), bytes(16)),
        (zero(DOUBLE), bytes(8)),
        (null(), bytes(8)),
        (const_ptr(0x1234), (0x1234).to_bytes(8, "little")),
        (const(PTR, 0x1234), (0x1234).to_bytes(8, "little")),
    ],
    ids=str,
)
def test_constants_reach_memory(value: Value, expected: bytes):
    assert llvm_bytes(value) == expected


def test_constants_of_aggregates_are_accepted():
    value = const_struct(const(I8, 1), const_array([const(I32, 2)]), poison(vector(I8, 4)), packed=True)
    assert value.type == struct_type(I8, array(1, I32), vector(I8, 4), packed=True)
    module = Module("m")
    module.global_constant("g", value)
    module.global_constant("h", zero(value.type))
    llvm.parse_assembly(module.text()).verify()


@pytest.mark.parametrize(("type", "value"), [(I8, 256), (I8, -129), (I1, 2), (I32, 0.5), (int_type(4), 16)])
def test_integers_that_do_not_fit_are_refused(type: Type, value: float):
    with pytest.raises(ValueError, match="does not fit"):
        const(type, value)


def test_other_mistakes_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        const_vector([])
    with pytest.raises(ValueError, match="element 1"):
        const_array([const(I8, 1), const(I32, 1)])
    with pytest.raises(ValueError, match="element 0"):
        const_vector([Value(I8, "%x")])
    with pytest.raises(ValueError, match="bit pattern"):
        const_bits(HALF, 1 << 16)
    with pytest.raises(ValueError, match="no constant"):
        const(array(2, I8), 1)


@pytest.mark.parametrize(
    "name", ["plain", "with space", "1digit", 'quo"te', "uni·code", "back\\slash", "", "a.b$c-d_e"]
)
def test_names_survive(name: str):
    if name:
        module = llvm.parse_assembly(f"@{quote(name)} = global i8 0")
        assert [g.name for g in module.global_variables] == [name]
    else:
        assert quote(name) == '""'
