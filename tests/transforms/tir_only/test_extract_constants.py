from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tirlower.ir import AllocConst, IRModule, PrimFunc, pre_order_visit
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.transforms import ExtractPrimFuncConstants, FlattenBuffer
from tirlower.transforms.tir_only.extract_constants import CONSTANTS, STORAGE_INDEX


def allocations(func: PrimFunc) -> list[AllocConst]:
    found: list[AllocConst] = []
    pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, AllocConst) else None)
    return found


def adder(name: str, values: list[Any], dtype: str = "int32") -> PrimFunc:
    n = len(values)
    return parse(f"""
@T.prim_func
def {name}(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}")):
    K_data = T.allocate_const({values}, "{dtype}", [{n}])
    K = T.Buffer(({n},), "{dtype}", data=K_data)
    for i in range({n}):
        B[i] = A[i] + K[i]
""")


def extracted(mod: IRModule) -> IRModule:
    """The module after the pass: well-formed, computing the same, with every index at its array."""
    after = ExtractPrimFuncConstants()(mod)
    verify_well_formed(after)
    assert ExtractPrimFuncConstants()(after) is after
    pool = after.attrs.get(CONSTANTS, ())
    for name, func in after.items():
        executes_alike(mod[name], func)
        for op in allocations(func):
            np.testing.assert_array_equal(op.data, pool[op.annotations[STORAGE_INDEX]])
            assert op.data is pool[op.annotations[STORAGE_INDEX]]
    return after


def test_equal_arrays_are_kept_once() -> None:
    mod = IRModule({"a": adder("a", [1] * 10), "b": adder("b", [2] * 10), "c": adder("c", [1] * 10)})
    after = extracted(mod)
    assert set(after.attrs) == {"constants"} and len(after.attrs["constants"]) == 2
    assert [allocations(f)[0].annotations[STORAGE_INDEX] for _, f in after.items()] == [0, 1, 0]


def test_equal_values_of_other_types_or_shapes_are_other_arrays() -> None:
    mod = IRModule({"a": adder("a", [1, 1]), "b": adder("b", [1, 1], "int64"), "c": adder("c", [1, 1, 1, 1])})
    assert len(extracted(mod).attrs[CONSTANTS]) == 3


def test_zeros_of_both_signs_and_nans_are_told_apart_by_their_bits() -> None:
    mod = IRModule({"a": adder("a", [0.0, 1.0], "float32"), "b": adder("b", [-0.0, 1.0], "float32"), "c": adder("c", [0.0, 1.0], "float32")})  # fmt: skip
    assert len(extracted(mod).attrs[CONSTANTS]) == 2


def test_two_constants_of_one_function() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((2, 2), "float32")):
    K_data = T.allocate_const([[1, 2], [3, 4]], "float32", [2, 2])
    K = T.Buffer((2, 2), "float32", data=K_data)
    for i in range(2):
        L_data = T.allocate_const([5, 6], "float32", [2])
        L = T.Buffer((2,), "float32", data=L_data)
        for j in range(2):
            A[i, j] = A[i, j] * K[i, j] + L[j]
""")
    after = extracted(IRModule({"f": func}))
    assert [a.shape for a in after.attrs[CONSTANTS]] == [(2, 2), (2,)]


def test_a_module_that_has_constants_keeps_their_positions() -> None:
    first = extracted(IRModule({"a": adder("a", [7, 8])}))
    more = first.with_func("b", adder("b", [9, 9])).with_func("c", adder("c", [7, 8]))
    after = extracted(more)
    assert [list(a) for a in after.attrs[CONSTANTS]] == [[7, 8], [9, 9]]
    assert after["a"] is first["a"]


def test_modules_without_constants_come_back_as_they_are() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((4,), 'int32')):\n    A[0] = 1\n")
    mod = IRModule({"f": func})
    assert ExtractPrimFuncConstants()(mod) is mod
    check(ExtractPrimFuncConstants(), func, func)


def test_a_single_function_is_annotated() -> None:
    after = check(ExtractPrimFuncConstants(), adder("a", [3, 4, 5]))
    assert allocations(after)[0].annotations == {STORAGE_INDEX: 0}


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "float8_e5m2"])
def test_every_dtype(dtype: str) -> None:
    func = parse(f"""
@T.prim_func
def f(B: T.Buffer((3,), "{dtype}")):
    K_data = T.allocate_const([0, 1, 1], "{dtype}", [3])
    K = T.Buffer((3,), "{dtype}", data=K_data)
    for i in range(3):
        B[i] = K[2 - i]
""")
    extracted(IRModule({"f": func}))


def test_later_passes_and_native_code() -> None:
    mod = extracted(IRModule({"a": adder("a", [4, 5, 6])}))
    flat = FlattenBuffer()(mod)
    assert allocations(flat["a"])[0].annotations == {STORAGE_INDEX: 0}
    out = np.zeros(3, "int32")
    tl.build(mod, schedule="none")["a"](np.array([1, 1, 1], "int32"), out)
    np.testing.assert_array_equal(out, [5, 6, 7])
