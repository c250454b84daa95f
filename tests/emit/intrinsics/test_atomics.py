"""Atomic operations on the host, with orders and scopes, beside the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError
from tirlower.script import parse
from tirlower.script import tir as T

pytestmark = pytest.mark.by_day


@T.prim_func
def operations(
    A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), F: T.Buffer((2,), "float32"), C: T.Buffer((2,), "int16")
):
    B[0] = T.atomic_and(T.address_of(A[0]), 6, "acq_rel", "block")
    B[1] = T.atomic_or(T.address_of(A[1]), 9)
    B[2] = T.atomic_xor(T.address_of(A[2]), 5, "release")
    B[3] = T.atomic_exchange(T.address_of(A[3]), 77)
    B[4] = T.atomic_cas(T.address_of(A[4]), 4, 99, "acquire", "system")
    B[5] = T.atomic_cas(T.address_of(A[5]), 4, 99)
    F[1] = T.atomic_exchange(T.address_of(F[0]), T.float32(3))
    C[1] = T.atomic_cas(T.address_of(C[0]), T.int16(0), T.int16(-7))


def arrays() -> list[np.ndarray]:
    return [np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.array([1.5, 0], "float32"), np.zeros(2, "int16")]


def test_every_operation_gives_the_old_value_and_stores_the_new_one() -> None:
    native, expected = arrays(), arrays()
    tl.build(operations, schedule="none")(*native)
    tl.interpret(operations, *expected)
    for a, b in zip(native, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert native[0].tolist() == [0, 9, 7, 77, 99, 5, 6, 7] and native[1].tolist()[:6] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('T.atomic_add(T.address_of(A[0]), 1, "strong")', "order 'strong'"),
        ('T.atomic_add(T.address_of(A[0]), 1, "relaxed", "galaxy")', "scope 'galaxy'"),
        ("T.atomic_or(T.address_of(F[0]), T.float32(1))", "bitwise operations are of integers"),
    ],
)
def test_what_no_machine_has_is_named(call: str, message: str) -> None:
    func = parse(
        f'@T.prim_func\ndef f(A: T.Buffer((4,), "int32"), F: T.Buffer((4,), "float32")):\n    T.evaluate({call})\n'
    )
    with pytest.raises(CodegenError, match=message):
        tl.build(func, schedule="none")
