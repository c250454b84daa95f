from __future__ import annotations

import math

import numpy as np
import pytest

from tirlower.diagnostics import InterpreterError
from tirlower.interp import register_extern
from tirlower.ir import Call, DataType, Op, Shuffle, StringImm, Var, const


@pytest.fixture
def extern():
    names = []

    def register(name, fn):
        names.append(name)
        register_extern(name, fn)

    yield register
    for name in names:
        register_extern(name, None)


def call_extern(dtype, name, *args):
    return Call(Op.get("tir.call_extern"), (StringImm(name), *args), dtype)


def llvm(dtype, name, *args):
    return Call(Op.get("tir.call_llvm_pure_intrin"), (StringImm(name), *args), dtype)


def test_registered_functions_come_first(extern, evaluate):
    extern("expf", lambda x: x + 200)
    assert evaluate(call_extern("int8", "expf", const(100, "int32"))) == 44
    extern("lanes", lambda v: [x * 2 for x in v])
    vector = Shuffle((const(1.0, "float32"), const(2.0, "float32")), (0, 1))
    assert evaluate(Call(Op.get("tir.call_extern"), (StringImm("lanes"), vector), "float32x2")) == (2.0, 4.0)


def test_libm_by_name(evaluate):
    assert evaluate(call_extern("float32", "expf", const(1.0, "float32"))) == float(np.float32(math.e))
    assert evaluate(call_extern("float64", "pow", const(2.0, "float64"), const(0.5, "float64"))) == math.sqrt(2)
    assert evaluate(call_extern("float32", "fmaxf", const(2.0, "float32"), const(3.0, "float32"))) == 3.0
    vector = Shuffle((const(1.0, "float32"), const(4.0, "float32")), (0, 1))
    assert evaluate(call_extern("float32x2", "sqrtf", vector)) == (1.0, 2.0)


def test_unknown_and_misbehaving_functions(extern, evaluate):
    extern("my_kernel", lambda: "text")
    with pytest.raises(InterpreterError, match="did you mean 'my_kernel'"):
        evaluate(call_extern("int32", "my_kernal"))
    with pytest.raises(InterpreterError, match="returned 'text', which is no int32"):
        evaluate(call_extern("int32", "my_kernel"))


def test_llvm_float_intrinsics(evaluate):
    x = const(2.5, "float32")
    for name, want in (
        ("llvm.sqrt", float(np.sqrt(np.float32(2.5)))),
        ("llvm.sqrt.f32", float(np.sqrt(np.float32(2.5)))),
        ("llvm.round", 3.0),
        ("llvm.roundeven", 2.0),
        ("llvm.rint.f32", 2.0),
        ("llvm.exp2", float(np.float32(2.0**2.5))),
    ):
        assert evaluate(llvm("float32", name, x)) == want
    assert evaluate(llvm("float32", "llvm.fma.f32", x, x, const(1.0, "float32"))) == 7.25
    # the older form states the number of arguments
    assert evaluate(llvm("float32", "llvm.fma", const(3, "uint32"), x, x, x)) == 8.75
    assert math.isnan(evaluate(llvm("float32", "llvm.minimum", x, const(math.nan, "float32"))))
    assert evaluate(llvm("float32", "llvm.minnum", x, const(math.nan, "float32"))) == 2.5


def test_llvm_integer_intrinsics_by_enumeration(evaluate):
    kind = DataType("uint8")
    for value in (0, 1, 0x80, 0xA5, 0xFF):
        p = Var("x", kind)
        bits = format(value, "08b")
        for name, want in (
            ("llvm.ctpop", bits.count("1")),
            ("llvm.ctlz.i8", 8 - len(bits.lstrip("0"))),
            ("llvm.cttz.i8", 8 - len(bits.rstrip("0"))),
            ("llvm.bitreverse", int(bits[::-1], 2)),
        ):
            extra = (const(False, "bool"),) if "tz" in name or "lz" in name else ()
            assert evaluate(llvm(kind, name, p, *extra), {p: value}) == want, (name, value)
    assert evaluate(llvm("int16", "llvm.bswap.i16", const(0x1234, "int16"))) == 0x3412
    assert evaluate(llvm("int8", "llvm.sadd.sat", const(100, "int8"), const(100, "int8"))) == 127
    assert evaluate(llvm("uint8", "llvm.usub.sat", const(3, "uint8"), const(5, "uint8"))) == 0
    assert evaluate(llvm("uint8", "llvm.smax", const(200, "uint8"), const(5, "uint8"))) == 5
    assert evaluate(llvm("uint8", "llvm.fshl", const(0x12, "uint8"), const(0xF0, "uint8"), const(4, "uint8"))) == 0x2F


def test_llvm_vector_reductions(evaluate):
    vector = Shuffle(tuple(const(v, "int32") for v in (4, -1, 7)), (0, 1, 2))
    assert evaluate(llvm("int32", "llvm.vector.reduce.add", vector)) == 10
    assert evaluate(llvm("int32", "llvm.vector.reduce.smin.v3i32", vector)) == -1
    assert evaluate(llvm("int32", "llvm.vector.reduce.xor", vector)) == 4 ^ -1 ^ 7
    floats = Shuffle(tuple(const(v, "float32") for v in (0.5, 2.0)), (0, 1))
    assert evaluate(llvm("float32", "llvm.vector.reduce.fadd", const(1.0, "float32"), floats)) == 3.5


def test_unknown_llvm_intrinsic(extern, evaluate):
    with pytest.raises(InterpreterError, match=r"llvm\.x86\.made\.up"):
        evaluate(llvm("int32", "llvm.x86.made.up", const(1, "int32")))
    extern("llvm.x86.made.up", lambda x: x + 1)
    assert evaluate(llvm("int32", "llvm.x86.made.up", const(1, "int32"))) == 2
