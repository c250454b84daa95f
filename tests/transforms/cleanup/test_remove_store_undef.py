from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import pre_order_visit
from tirlower.script import tir as T
from tirlower.transforms.cleanup.remove_store_undef import RemoveStoreUndef

REMOVE = RemoveStoreUndef()


def computes(func, before, after, dtype: str = "int32") -> None:
    """Run a function of one array, and compare."""
    array = np.array(before, dtype)
    interpret(func, array)
    np.testing.assert_array_equal(array, np.array(after, dtype))


def test_a_store_of_undef_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((1,), "int32")):
        A[0] = T.undef(dtype="int32")

    @T.prim_func
    def expected(A: T.Buffer((1,), "int32")):
        T.evaluate(0)

    check(REMOVE, before, expected)


def test_what_is_computed_from_undef_goes_too() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        A[0] = T.float32(1) + T.undef(dtype="float32") * A[1]
        A[2] = T.exp(T.undef(dtype="float32"))
        A[3] = A[0] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32")):
        A[3] = A[0] + T.float32(1)

    # To compute with an undefined value is an error in the interpreter, so that only the result runs.
    check(REMOVE, before, expected, execute=False)
    computes(expected, [5, 6, 7, 8], [5, 6, 7, 6], "float32")


def test_other_calls_and_functions_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32"), n: T.int32):
        for i in range(4):
            if i < n:
                A[i] = T.exp(A[i])
        while A[0] < T.float32(0):
            A[0] = A[0] + T.float32(1)
        T.evaluate(T.call_extern("handle", "memset", T.address_of(A[1]), 0, 4))

    check(REMOVE, before, before)


def test_bindings_of_undef_go_with_their_uses() -> None:
    @T.prim_func
    def before(A: T.Buffer((3,), "int32")):
        x: T.int32 = T.undef(dtype="int32")
        y: T.int32 = x + 1
        z: T.int32 = 5
        A[0] = x
        A[1] = y * z
        A[2] = z

    @T.prim_func
    def expected(A: T.Buffer((3,), "int32")):
        z: T.int32 = 5
        A[2] = z

    computes(check(REMOVE, before, expected, execute=False), [1, 2, 3], [1, 2, 5])


def test_expression_lets() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        x, y, w = T.int32(), T.int32(), T.int32()
        A[0] = T.Let(x + 1, where={x: T.undef(dtype="int32")})
        A[1] = T.Let(y + 1, where={y: A[2]})
        A[3] = T.Let(T.if_then_else(w > 0, w, T.undef(dtype="int32")), where={w: A[2]})

    after = check(REMOVE, before, execute=False)
    assert "undef" not in after.script()
    computes(after, [1, 2, 3, 4], [1, 4, 3, 3])
    computes(after, [1, 2, -3, 4], [1, -2, -3, 4])


def test_the_defined_arm_of_a_choice_stays_under_its_condition() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), B: T.Buffer((14,), "int32")):
        for i, j in T.grid(4, 4):
            A[i, j] = T.if_then_else(i * 4 + j < 14, B[i * 4 + j], T.undef(dtype="int32"))

    @T.prim_func
    def expected(A: T.Buffer((4, 4), "int32"), B: T.Buffer((14,), "int32")):
        for i, j in T.grid(4, 4):
            if i * 4 + j < 14:
                A[i, j] = B[i * 4 + j]

    check(REMOVE, before, expected)


def test_choices_inside_choices_and_sums() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            A[i] = 2 * T.if_then_else(
                i % 4 < 1, T.undef(dtype="int32"), T.if_then_else(i < 8, T.undef(dtype="int32"), 7)
            )

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if not i % 4 < 1 and not i < 8:
                A[i] = 14

    computes(
        check(REMOVE, before, expected, execute=False),
        range(16),
        [14 if i % 4 and i >= 8 else i for i in range(16)],
    )


def test_a_select_takes_its_defined_value() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = T.Select(i < 2, B[i], T.undef(dtype="int32"))
        A[3] = T.Select(B[0] < 2, T.undef(dtype="int32"), T.undef(dtype="int32"))

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = B[i]

    check(REMOVE, before, expected, execute=False)


def test_an_undefined_arm_of_a_bound_value_is_any_value() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            x: T.int32 = T.if_then_else(i < 2, A[i], T.undef(dtype="int32"))
            if i < 2:
                A[i] = x + 1

    @T.prim_func
    def expected(A: T.Buffer((4,), "int32")):
        for i in range(4):
            x: T.int32 = T.if_then_else(i < 2, A[i], 0)
            if i < 2:
                A[i] = x + 1

    check(REMOVE, before, expected)


def test_blocks_init_and_padding() -> None:
    @T.prim_func
    def before(A: T.Buffer((14,), "int32"), B: T.Buffer((4, 4), "int32")):
        for i, j in T.grid(4, 4):
            with T.block("pad"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.where(i == 3 and j >= 2)
                B[vi, vj] = T.undef(dtype="int32")
        for i in range(14):
            with T.block("copy"):
                v = T.axis.spatial(14, i)
                B[v // 4, v % 4] = A[v]

    after = check(REMOVE, before)
    kinds = []
    pre_order_visit(after.body, lambda op: kinds.append(type(op).__name__))
    assert kinds.count("For") == 3 and kinds.count("BufferStore") == 1  # the loops of the empty block stay


def test_vectors_symbolic_extents_and_nested_sequences() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "float32"), C: T.Buffer((8,), "float32")):
        C[T.Ramp(0, 1, 4)] = T.Broadcast(T.undef(dtype="float32"), 4)
        C[T.Ramp(4, 1, 4)] = T.Broadcast(T.float32(2), 4)
        for i in range(n - 1):
            x: T.float32 = A[i]
            y: T.float32 = T.undef(dtype="float32")
            A[i] = y
            A[i + 1] = x

    @T.prim_func
    def expected(A: T.Buffer(("n",), "float32"), C: T.Buffer((8,), "float32")):
        C[T.Ramp(4, 1, 4)] = T.Broadcast(T.float32(2), 4)
        for i in range(n - 1):
            x: T.float32 = A[i]
            A[i + 1] = x

    check(REMOVE, before, expected, sizes=(0, 1, 5))


def test_undef_in_an_index_is_an_error() -> None:
    @T.prim_func
    def stored(A: T.Buffer((8,), "int32")):
        x: T.int32 = T.undef(dtype="int32")
        A[x] = 5

    @T.prim_func
    def loaded(A: T.Buffer((8,), "int32")):
        A[0] = A[T.undef(dtype="int32")]

    @T.prim_func
    def evaluated(A: T.Buffer((8,), "int32")):
        T.evaluate(A[T.undef(dtype="int32")])

    for func in (stored, loaded, evaluated):
        with pytest.raises(TransformError, match=r"T.undef\(\) is used in an index of buffer 'A'"):
            REMOVE(func)


def test_effects_and_left_overs_are_errors() -> None:
    @T.prim_func
    def effect(A: T.Buffer((8,), "int32")):
        A[0] = T.undef(dtype="int32") + T.call_extern("int32", "rand")

    @T.prim_func
    def condition(A: T.Buffer((8,), "int32")):
        if T.undef(dtype="int32") < 3:
            A[0] = 1

    @T.prim_func
    def bound(A: T.Buffer((8,), "int32")):
        for i in range(T.undef(dtype="int32")):
            A[i] = 1

    with pytest.raises(TransformError, match="has effects of its own"):
        REMOVE(effect)
    for func in (condition, bound):
        with pytest.raises(TransformError, match="left over"):
            REMOVE(func)


def test_what_is_left_empty_goes() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(16):
            for j in range(n):
                A[i] = T.undef(dtype="int32") + j
        if B[0] < n:
            A[1] = T.undef(dtype="int32")
        else:
            B[1] = n
        for i in range(16):
            if i < n:
                A[i] = T.undef(dtype="int32")
            B[i] = B[i] + 1

    @T.prim_func
    def expected(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
        if not B[0] < n:
            B[1] = n
        for i in range(16):
            B[i] = B[i] + 1

    check(REMOVE, before, expected, execute=False)
    arrays = [np.arange(16, dtype="int32"), np.arange(16, dtype="int32")]
    interpret(REMOVE(before), *arrays, 0)
    assert list(arrays[0]) == list(range(16)) and list(arrays[1]) == [1, 1, *range(3, 17)]


def test_without_undefined_values_what_is_empty_stays() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32")):
        for i in range(16):
            T.evaluate(0)
        A[0] = 1

    assert REMOVE(before) is before
