from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from tirlower.emit.llvm_text import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    FP128,
    HALF,
    I1,
    I8,
    I16,
    I32,
    I64,
    I128,
    PTR,
    array,
    int_type,
    ptr,
    struct,
    vector,
)

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize(
    "type",
    [
        I1,
        I8,
        I16,
        I32,
        I64,
        I128,
        int_type(7),
        HALF,
        BFLOAT,
        FLOAT,
        DOUBLE,
        FP128,
        PTR,
        ptr(3),
        vector(FLOAT, 16),
        vector(I1, 3),
        vector(PTR, 8),
        vector(ptr(1), 2),
        vector(FLOAT, 4, scalable=True),
        array(0, I8),
        array(3, array(2, DOUBLE)),
        struct(),
        struct(I8, PTR, array(2, I32)),
        struct(I8, I32, packed=True),
    ],
    ids=str,
)
def test_llvm_reads_what_we_print(type):
    module = llvm.parse_assembly(f"declare {type} @f()")
    assert str(module.get_function("f").global_value_type).removesuffix("*") == f"{type} ()"


@pytest.mark.parametrize(
    "type",
    [I32, HALF, BFLOAT, FLOAT, DOUBLE, vector(FLOAT, 16), vector(I8, 3), vector(FLOAT, 4, scalable=True)],
    ids=str,
)
def test_suffixes_are_those_of_overloaded_intrinsics(type):
    stem = "llvm.fabs" if type.is_float else "llvm.ctpop"
    module = llvm.parse_assembly(
        f"define {type} @g({type} %x) {{\n %y = call {type} @{stem}.{type.mangled}({type} %x)\n ret {type} %y }}"
    )
    module.verify()


def test_types_compare_by_what_they_are():
    assert vector(FLOAT, 4) == vector(FLOAT, 4)
    assert hash(vector(FLOAT, 4)) == hash(vector(FLOAT, 4))
    assert vector(FLOAT, 4) != vector(FLOAT, 4, scalable=True)
    assert struct(I8, I32) != struct(I8, I32, packed=True)
    assert PTR == ptr(0) != ptr(1)
    assert len({I8, int_type(8), I16}) == 2


def test_properties():
    v = vector(HALF, 8)
    assert (v.bits, v.scalar, v.is_vector, v.is_float, v.is_int) == (128, HALF, True, True, False)
    assert v.mask == vector(I1, 8) and v.mask is v.mask
    assert FLOAT.mask is I1
    assert v.with_scalar(I16) == vector(I16, 8)
    assert FLOAT.with_scalar(I32) is I32
    assert vector(PTR, 2).is_ptr and not array(2, PTR).is_ptr


def test_mistakes():
    with pytest.raises(ValueError, match="0 bits"):
        int_type(0)
    with pytest.raises(ValueError, match="at least one lane"):
        vector(FLOAT, 0)
    with pytest.raises(ValueError, match="no LLVM vector"):
        vector(struct(I8), 4)
    with pytest.raises(ValueError, match="-1 elements"):
        array(-1, I8)
