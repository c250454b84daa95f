from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import RuntimeAssertError, TransformError
from tirlower.interp import interpret
from tirlower.ir.dtype import DataType
from tirlower.ir.struct_field import ArgumentCode, StructField, dlpack_code
from tirlower.ir.verify import verify_well_formed
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, MakePackedAPI


@T.prim_func
def scale(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m", "n"), "int8"), k: T.int32, x: T.float32):
    for i, j in T.grid(n, m):
        A[i, j] = A[i, j] * x + T.Cast("float32", B[j, i]) + T.Cast("float32", k)


def refused(func, *args) -> str:
    """The message of the assert that a call fails."""
    with pytest.raises(RuntimeAssertError) as error:
        interpret(func, *args)
    return error.value.message


def test_the_fields_and_codes_have_their_numbers() -> None:
    kinds = [
        "address",
        "data",
        "shape",
        "strides",
        "ndim",
        "type_code",
        "type_bits",
        "type_lanes",
        "byte_offset",
        "device_id",
        "device_type",
    ]
    assert {f.name.lower(): f.value for f in StructField} == {**{n: i for i, n in enumerate(kinds)}, "value": 12}
    codes = {"INT": 0, "FLOAT": 2, "HANDLE": 3, "NULL": 4, "TENSOR": 7, "ARG_BOOL": 15}
    assert {f.name: f.value for f in ArgumentCode} == codes
    listed = {"int8": 0, "uint64": 1, "float16": 2, "float64": 2, "handle": 3, "bfloat16": 4, "bool": 6}
    small = "e3m4 e4m3 e4m3b11fnuz e4m3fn e4m3fnuz e5m2 e5m2fnuz e8m0fnu"
    listed |= {f"float8_{name}": 7 + n for n, name in enumerate(small.split())}
    listed |= {"float6_e2m3fn": 15, "float6_e3m2fn": 16, "float4_e2m1fn": 17}
    for name, code in listed.items():
        assert dlpack_code(DataType(name)) == code, name


def test_the_parameters_and_attributes() -> None:
    after = check(MakePackedAPI(), scale)
    names = ["args", "arg_type_ids", "num_args", "out_ret_value", "out_ret_tcode", "resource_handle"]
    assert [p.name for p in after.params] == names and after.ret_type == "int32" and not after.buffer_map
    assert after.attrs["calling_conv"] == 1 and after.attrs["global_symbol"] == "scale"
    assert after.attrs["target"] == Target("llvm")


def test_the_number_and_the_kinds_of_arguments() -> None:
    packed = MakePackedAPI()(scale)
    a, b = np.zeros((2, 3), "float32"), np.zeros((3, 2), "int8")
    interpret(packed, a, b, 1, 2.0)
    interpret(packed, a, b, 1, 2)  # an int is a float too
    interpret(packed, a, b, True, 2.0)  # a bool is an int
    assert refused(packed, a, b, 1) == "scale: num_args should be 4"
    assert refused(packed, 1, b, 1, 2.0) == "scale: Expect arg[0] to be pointer"
    assert refused(packed, a, b, 1.5, 2.0) == "scale: Expect arg[2] to be int"
    assert refused(packed, a, b, a, 2.0) == "scale: Expect arg[2] to be int"
    assert refused(packed, a, b, 1, a) == "scale: Expect arg[3] to be float"
    assert refused(packed, None, b, 1, 2.0) == "scale.A is expected to have non-NULL DLTensor* pointer"
    assert refused(packed, a, b, 1 << 40, 2.0) == "Argument scale.k does not fit in int32"


def test_the_fields_of_arrays() -> None:
    packed = MakePackedAPI()(scale)
    a, b = np.zeros((2, 3), "float32"), np.zeros((3, 2), "int8")
    assert refused(packed, a[0], b, 1, 2.0) == "scale.A.ndim is expected to equal 2"
    assert refused(packed, a.astype("float64"), b, 1, 2.0) == "scale.A.dtype is expected to be float32"
    assert refused(packed, a, b.view("uint8"), 1, 2.0) == "scale.B.dtype is expected to be int8"
    assert refused(packed, a, np.zeros((3, 3), "int8"), 1, 2.0).startswith(
        "Argument scale.B.shape[1] has an unsatisfied"
    )
    assert refused(packed, a, np.zeros((4, 2), "int8"), 1, 2.0).startswith(
        "Argument scale.B.shape[0] has an unsatisfied"
    )
    assert refused(packed, a[:, ::-1], b, 1, 2.0) == "scale.A.strides: expected to be compact array"
    assert refused(packed, np.zeros((2, 6), "float32")[:, :3], b, 1, 2.0).endswith("expected to be compact array")


def test_static_extents_and_every_dtype() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((4,), "bool"),
        B: T.Buffer((4,), "bfloat16"),
        C: T.Buffer((4,), "uint8"),
        D: T.Buffer((4,), "float16"),
        b: T.bool,
        y: T.float64,
        u: T.uint8,
        z: T.int64,
    ):
        for i in range(4):
            A[i] = b and not A[i]
            B[i] = B[i] + T.Cast("bfloat16", y)
            C[i] = C[i] + u
            D[i] = T.Cast("float16", z) + D[i]

    packed = check(MakePackedAPI(), func)
    arrays = [np.zeros(4, DataType(d).numpy) for d in ("bool", "bfloat16", "uint8", "float16")]
    assert refused(packed, *arrays[:3], np.zeros(5, "float16"), True, 1.0, 1, 1).startswith("Argument func.D.shape[0]")
    assert refused(packed, arrays[2], *arrays[1:], True, 1.0, 1, 1) == "func.A.dtype is expected to be bool"


def test_strides_and_compound_extents() -> None:
    @T.prim_func
    def func(A: T.Buffer(("n",), "int32", strides=("s",)), b: T.handle):
        B = T.match_buffer(b, (n * 2, 3), "int32", strides=(4, 1))
        for i in range(n):
            A[i] = A[i] + B[i * 2, 1] + s

    packed = MakePackedAPI()(func)
    base, table = np.arange(10, dtype="int32"), np.arange(40, dtype="int32").reshape(10, 4)[:, :3]
    for view in (base[:5], base[::2], base[4::-1]):
        count = len(view)
        first, second = base.copy(), base.copy()
        offset = (view.ctypes.data - base.ctypes.data) // 4
        step = view.strides[0] // 4
        pick = slice(offset, None if offset + step * count < 0 else offset + step * count, step)
        interpret(func, first[pick], table[: count * 2])
        interpret(packed, second[pick], table[: count * 2])
        np.testing.assert_array_equal(first, second)
    assert refused(packed, base[:4], table).startswith(
        "Argument func.B.shape[0] has an unsatisfied constraint: expected n * 2"
    )
    assert refused(packed, base[:5], table.copy()).startswith("Argument func.B.strides[0]")


def test_vectors_are_arrays_with_one_more_dimension() -> None:
    @T.prim_func
    def func(A: T.Buffer((3,), "float32x4")):
        for i in range(3):
            A[i] = A[i] + T.Broadcast(T.float32(1), 4)

    packed = check(MakePackedAPI(), func)
    assert refused(packed, np.zeros((3, 2), "float32")).startswith("Argument func.A.shape[1]")
    assert refused(packed, np.zeros(12, "float32")) == "func.A.ndim is expected to equal 2"


def test_returned_values() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), n: T.int32):
        for i in range(4):
            if A[i] == n:
                T.evaluate(T.ret(i))
        while A[0] < 10:
            A[0] = A[0] * A[0] + 1
        T.evaluate(T.ret(A[0] + 100))

    packed = check(MakePackedAPI(), func)
    assert interpret(packed, np.array([5, 6, 7, 8], "int32"), 7) == 2

    @T.prim_func
    def real(x: T.float32):
        T.evaluate(T.ret(x * T.float32(0.5)))

    assert interpret(check(MakePackedAPI(), real), 3.0) == 1.5

    @T.prim_func
    def choice(x: T.float32):
        if x > T.float32(2):
            T.evaluate(T.ret(x > T.float32(3)))
        if x > T.float32(1):
            T.evaluate(T.ret(T.Cast("float64", x) / T.float64(3)))
        T.evaluate(T.ret(T.int64(-9)))

    packed = check(MakePackedAPI(), choice)
    assert [interpret(packed, x) for x in (4.0, 2.5, 2.0, 0.0)] == [1, 0, 2 / 3, -9]
    # A result is 8 bytes, an integer or a float64, with its type code behind the other pointer.
    text = packed.script()
    assert 'out_ret_value: T.handle("void")' in text and "tvm_struct_set" not in text
    assert all(f"out_ret_tcode_1[0] = {code}" in text for code in (15, 2, 0))


def test_bools_have_a_code_of_their_own_and_serve_as_integers() -> None:
    @T.prim_func
    def func(A: T.Buffer((2,), "int32"), b: T.bool, n: T.int32):
        A[0] = T.Cast("int32", b)
        A[1] = n

    packed = check(MakePackedAPI(), func)
    for b, n in ((True, 3), (0, False), (5, True)):
        out = np.zeros(2, "int32")
        interpret(packed, out, b, n)
        assert out.tolist() == [int(bool(b)), int(n)]
    assert refused(packed, np.zeros(2, "int32"), 1.0, 3) == "func: Expect arg[1] to be boolean"
    assert refused(packed, np.zeros(2, "int32"), True, 1.0) == "func: Expect arg[2] to be int"


def test_the_device_context_is_the_resource_handle() -> None:
    @T.prim_func
    def func(A: T.Buffer((2,), "int32"), device_api_context: T.handle, n: T.int32):
        A[0] = T.if_then_else(T.isnullptr(device_api_context), n, 0)

    packed = MakePackedAPI()(func)
    verify_well_formed(packed)
    assert packed.params[-1] is func.params[1] and "num_args == 2" in packed.script()
    out = np.zeros(2, "int32")
    interpret(packed, out, 7)
    assert out[0] == 7


def test_empty_arrays_and_no_arguments() -> None:
    @T.prim_func
    def nothing():
        T.evaluate(0)

    packed = check(MakePackedAPI(), nothing)
    assert interpret(packed) is None and "isnullptr" not in packed.script() and "arg_type_ids_1" not in packed.script()
    assert refused(packed, 1) == "nothing: num_args should be 0"
    interpret(MakePackedAPI()(scale), np.zeros((0, 3), "float32"), np.zeros((3, 0), "int8"), 1, 2.0)


def test_flattened_bodies() -> None:
    check(MakePackedAPI(), FlattenBuffer()(scale))


def test_private_and_converted_functions_stay() -> None:
    private = scale.without_attr("global_symbol")
    assert MakePackedAPI()(private) is private
    packed = MakePackedAPI()(scale)
    assert MakePackedAPI()(packed) is packed
    hosted = scale.with_attr("target", Target("llvm"))
    assert MakePackedAPI()(hosted) is hosted
    device = MakePackedAPI()(scale.with_attr("target", Target("nvptx", host="llvm -mcpu=native")))
    assert device.attrs["target"] == Target("llvm -mcpu=native") and "__tvm_set_device" in device.script()


@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4, 4), "int32")):
        for i in range(4):
            Module.row(A.data, i)

    @T.prim_func
    def row(a: T.handle("int32"), i: T.int32):
        A = T.Buffer((4, 4), "int32", data=a)
        B = T.alloc_buffer((1,), "int32")
        for j in range(4):
            B[0] = i * 4 + j
            A[i, j] = A[i, j] + B[0]


def test_calls_inside_the_module_go_to_a_private_copy() -> None:
    after = check(MakePackedAPI(), Module)
    assert list(after) == ["main", "row", "row_internal"]
    assert "global_symbol" not in after["row_internal"].attrs and len(after["row_internal"].params) == 2
    assert "row_internal" in after["main"].script()


def test_what_is_refused() -> None:
    @T.prim_func
    def parallel(A: T.Buffer((4,), "int32")):
        for i in T.parallel(4):
            if A[i] > 2:
                T.evaluate(T.ret(i))

    with pytest.raises(TransformError, match="a return inside parallel loop 'i'"):
        MakePackedAPI()(parallel)

    @T.prim_func(check_well_formed=False)
    def unbound(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n * 2,), "int32")
        A[0] = 1

    with pytest.raises(TransformError, match="is bound by no argument"):
        MakePackedAPI()(unbound)

    @T.prim_func
    def vector(x: T.int32x4):
        T.evaluate(0)

    with pytest.raises(TransformError, match="which no packed argument has"):
        MakePackedAPI()(vector)
