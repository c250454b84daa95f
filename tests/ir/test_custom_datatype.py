from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.ir import custom_datatype as datatype
from tirlower.ir.dtype import DataType, DataTypeError


@pytest.fixture(autouse=True)
def wrapping() -> Iterator[None]:
    datatype.register("wrap")
    yield
    datatype.unregister("wrap")


def test_registration_is_checked() -> None:
    with pytest.raises(ArgumentValueError, match="identifier"):
        datatype.register("8bit")
    with pytest.raises(ArgumentValueError, match="identifier"):
        datatype.register("float")
    with pytest.raises(ArgumentValueError, match="did you mean 'Add'"):
        datatype.register_op(max, "add", "llvm", "wrap")
    with pytest.raises(ArgumentValueError, match="no custom type 'other'"):
        datatype.register_op(max, "Add", "llvm", "other")
    with pytest.raises(ArgumentValueError, match="with dest_type_name"):
        datatype.register_op(float, "Cast", "llvm", "wrap")
    with pytest.raises(ArgumentValueError, match="with intrinsic_name"):
        datatype.register_op(float, "Call", "llvm", "wrap")
    with pytest.raises(ArgumentValueError, match="without"):
        datatype.register_op(float, "Add", "llvm", "wrap", "float")
    with pytest.raises(ArgumentTypeError, match="a Python function"):
        datatype.register_op("symbol", "Add", "llvm", "wrap")  # type: ignore[arg-type]


def test_every_key_survives_its_symbol() -> None:
    byte, real = DataType("uint8"), DataType("float32")
    add, into, back, root, order = (lambda *args, i=i: i for i in range(5))
    datatype.register("other")
    datatype.register_op(add, "Add", "llvm", "wrap")
    datatype.register_op(into, "Cast", "llvm", "float", "wrap")
    datatype.register_op(back, "Cast", "llvm", "wrap", "float")
    datatype.register_op(root, "Call", "llvm", "wrap", intrinsic_name="sqrt")
    datatype.register_op(order, "Cast", "llvm", "other", "wrap")
    cases = [
        (("Add", "wrap", None, None), byte, (byte, byte), add),
        (("Cast", "float", "wrap", None), byte, (real,), into),
        (("Cast", "wrap", "float", None), real, (byte,), back),
        (("Call", "wrap", None, "tir.sqrt"), byte, (byte,), root),
        (("Cast", "other", "wrap", None), byte, (byte,), order),
    ]
    for (op_name, source, target, intrinsic), result, args, fn in cases:
        found = datatype.find_op(op_name, "llvm", source, target, intrinsic)
        assert found is not None
        got = datatype.resolve(datatype.python_symbol(found.key, result, args))
        assert got is not None and got.function is fn and got.result is result and got.arguments == args
    datatype.unregister("other")
    assert datatype.find_op("Cast", "llvm", "other", "wrap") is not None, "the type that is made owns the cast"
    assert datatype.resolve("sqrtf") is None and datatype.resolve("custom.gone.Add.llvm.uint8.uint8.uint8") is None


def test_functions_by_width_and_targets() -> None:
    datatype.register_op({8: min, 16: max}, "Add", "llvm", "wrap")
    datatype.register_op(divmod, "Add", "nvptx", "wrap")
    found = datatype.find_op("Add", "llvm", "wrap")
    assert found is not None and found.meaning(8) is min and found.meaning(16) is max and found.meaning(4) is None
    other = datatype.find_op("Add", "nvptx", "wrap")
    assert other is not None and other.meaning(4) is divmod
    assert datatype.find_op("Sub", None, "wrap") is None and datatype.find_op("Add", "c", "wrap") is None


def test_external_functions() -> None:
    fns = datatype.ExternFunction({(32, 8): "f32_to_8", (64, 16): "f64_to_16"}, python={8: int, 16: round})
    datatype.register_op(fns, "Cast", "llvm", "float", "wrap")
    assert fns.symbol(32, 8) == "f32_to_8" and fns.symbol(32, 16) is None
    assert datatype.extern_meaning("f32_to_8") is int and datatype.extern_meaning("f64_to_16") is round
    by_operand = datatype.ExternFunction({8: "neg8", 16: "neg16"}, python=abs, llvm="; text")
    datatype.register_op(by_operand, "Call", "llvm", "wrap", intrinsic_name="tir.fabs")
    assert by_operand.symbol(16, 16) == "neg16" and datatype.extern_meaning("neg8") is abs
    assert datatype.llvm_definition("neg8") == "; text" and datatype.llvm_definition("f32_to_8") is None
    datatype.register("wrap")
    assert datatype.extern_meaning("neg8") is None, "a type registered again has lost its operations"


def test_storage() -> None:
    assert datatype.storage_dtype(DataType("custom[wrap]16x4")) == "uint16x4"
    assert datatype.storage_dtype(DataType("float32")) == "float32"
    assert datatype.element_numpy(DataType("custom[wrap]5x2")) == np.uint8
    with pytest.raises(DataTypeError, match="2 to 64 bits"):
        datatype.storage_dtype(DataType("custom[wrap]128"))
