"""What a function's memory is known for: arrays that only callees read may be read-only, and may be one array."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import ir as I
from tirlower.script import tir as T

pytestmark = pytest.mark.by_day

TARGETS = ["llvm", "c"]


@I.ir_module
class Sums:
    @T.prim_func(private=True)
    def add(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            C[i] = A[i] + B[i]

    @T.prim_func(private=True)
    def twice(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        Sums.add(A.data, A.data, C.data)

    @T.prim_func
    def main(X: T.Buffer((4,), "int32"), Y: T.Buffer((8,), "int32"), Z: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        Sums.twice(X.data, Z.data)
        Sums.add(Z.data, T.address_of(Y[4]), Z.data)


@pytest.mark.parametrize("target", TARGETS)
def test_what_callees_only_read_may_be_read_only_and_one_array(target: str) -> None:
    main = tl.build(Sums, target, schedule="none")["main"]
    y = np.arange(8, dtype="int32")
    y.flags.writeable = False
    z = np.zeros(4, "int32")
    main(y[:4], y, z)  # X is a part of Y: nobody writes either
    assert z.tolist() == [4, 7, 10, 13]
    with pytest.raises(tl.ArgumentValueError, match=r"argument `Z`.*writeable"):
        main(y[:4], y, y[:4])


@I.ir_module
class Fills:
    @T.prim_func(private=True)
    def even(A: T.Buffer((4,), "int32"), n: T.int32):
        if n > 0:
            Fills.odd(A.data, n - 1)

    @T.prim_func(private=True)
    def odd(A: T.Buffer((4,), "int32"), n: T.int32):
        A[n % 4] = n
        Fills.even(A.data, n)

    @T.prim_func
    def main(X: T.Buffer((4,), "int32")):
        Fills.even(X.data, 4)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_circle_of_calls_writes_counts_as_written(target: str) -> None:
    main = tl.build(Fills, target, schedule="none")["main"]
    x = np.full(4, -1, "int32")
    main(x)
    assert x.tolist() == [0, 1, 2, 3]
    x.flags.writeable = False
    with pytest.raises(tl.ArgumentValueError, match="writeable"):
        main(x)


@I.ir_module
class Names:
    @T.prim_func(private=True)
    def clear(A: T.Buffer((4,), "int32")):
        p = T.bind(A.data)
        B = T.decl_buffer((4,), "int32", data=p)
        for i in range(4):
            B[i] = 0

    @T.prim_func
    def main(X: T.Buffer((4,), "int32")):
        Names.clear(X.data)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_callee_writes_through_another_name_counts_as_written(target: str) -> None:
    x = np.ones(4, "int32")
    x.flags.writeable = False
    with pytest.raises(tl.ArgumentValueError, match="writeable"):
        tl.build(Names, target, schedule="none")["main"](x)
