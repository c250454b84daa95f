"""What comes back: return values, allocated outputs, and the exceptions of the error table."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import pytest

from tests.call.compounds import compound_of
from tirlower.call.errors import ErrorSite
from tirlower.call.signature import BufferParam, Compound, ScalarParam, Signature, Sym
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, BoundsError

N = Sym("n")

# C[i] = A[i] + B[i]
VADD = """
define i32 @k(ptr %A, ptr %B, ptr %C, i64 %n, ptr %err) {
entry:
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %a = getelementptr float, ptr %A, i64 %i
  %b = getelementptr float, ptr %B, i64 %i
  %c = getelementptr float, ptr %C, i64 %i
  %x = load float, ptr %a
  %y = load float, ptr %b
  %z = fadd float %x, %y
  store float %z, ptr %c
  %next = add i64 %i, 1
  br label %test
done:
  ret i32 0
}
"""


def vadd(outputs: tuple[str, ...] = ()) -> Signature:
    return Signature(
        "vadd", tuple(BufferParam(x, "float32", (N,), written=x == "C", noalias=True) for x in "ABC"), outputs
    )


@pytest.mark.parametrize("n", [0, 1, 7, 100_000])
def test_results_are_written_in_place(text_kernel, n):
    f = text_kernel(vadd(), VADD)
    a, b = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    c = np.zeros(n, np.float32)
    assert f(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("n", [0, 1, 7, 100_000])
@pytest.mark.by_day
def test_an_output_is_allocated_and_returned(text_kernel, n):
    f = text_kernel(vadd(("C",)), VADD)
    a, b = np.arange(n, dtype=np.float32), np.full(n, 0.5, np.float32)
    c = f(a, b)
    assert type(c) is np.ndarray and c.dtype == np.float32 and c.shape == (n,)
    assert c.flags.c_contiguous and c.flags.writeable and c.flags.aligned and (n == 0 or c.ctypes.data % 64 == 0)
    np.testing.assert_array_equal(c, a + b)
    first = c.copy()
    del a, b
    f(np.ones(n, np.float32), np.ones(n, np.float32))
    gc.collect()
    np.testing.assert_array_equal(c, first)


def test_an_output_cannot_be_passed(text_kernel):
    f = text_kernel(vadd(("C",)), VADD)
    a = np.zeros(4, np.float32)
    with pytest.raises(ArgumentTypeError, match="expected 2 arguments, got 3") as caught:
        f(a, a, a)
    assert "C would be allocated" in str(caught.value)
    with pytest.raises(ArgumentTypeError, match="unknown argument `C`") as caught:
        f(a, B=a, C=a)
    assert "leave it out" in str(caught.value)


def shifted(by: int) -> Compound:
    return compound_of(lambda n: n + by, n="int64")


STORE_TWO = """
define i32 @k(ptr %A, ptr %B, ptr %C, i64 %n, ptr %err) {
  store float 1.0, ptr %B
  store i16 16256, ptr %C
  ret i32 0
}
"""


def test_several_outputs_come_as_a_tuple_in_the_order_asked(text_kernel):
    params = (
        BufferParam("A", "float32", (N,)),
        BufferParam("B", "float32", (N, shifted(1)), alignment=256, written=True),
        BufferParam("C", "bfloat16", (), written=True),
    )
    f = text_kernel(Signature("f", params, ("C", "B")), STORE_TWO)
    c, b = f(np.zeros(3, np.float32))
    assert b.shape == (3, 4) and b.dtype == np.float32 and b.ctypes.data % 256 == 0 and b[0, 0] == 1
    assert c.shape == () and c.dtype == ml_dtypes.bfloat16 and float(c[()]) == 1.0


def test_an_output_of_negative_or_gigantic_size_is_refused(text_kernel):
    base = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1 << 40,), (0,))
    params = (BufferParam("A", "float32", (N,), (Sym("s"),)), BufferParam("B", "float32", (shifted(-5),), written=True))
    text = STORE_TWO.replace("ptr %C, i64 %n", "i64 %n, i64 %s").replace("store i16 16256, ptr %C", "")
    f = text_kernel(Signature("f", params, ("B",)), text)
    assert f(np.zeros(9, np.float32)).shape == (4,)
    with pytest.raises(
        ArgumentValueError, match=r"argument `B` of `f`: expected shape\[0\] of at least 0.*n \+ T.int64\(-5\) = -2"
    ):
        f(np.zeros(3, np.float32))
    squared = (params[0], BufferParam("B", "float32", (N, N, N), written=True))
    f = text_kernel(Signature("f", squared, ("B",)), text)
    with pytest.raises(ArgumentValueError, match="argument `B` of `f`: expected an output that memory can hold"):
        f(base)
    product_is_zero = (params[0], BufferParam("B", "float32", (shifted(-3), shifted(-9)), written=True))
    f = text_kernel(Signature("f", product_is_zero, ("B",)), "define i32 @k(ptr, ptr, i64, i64, ptr) {\n  ret i32 0\n}")
    with pytest.raises(ArgumentValueError, match=r"shape\[1\] of at least 0"):
        f(np.zeros(3, np.float32))


RETURNS = {
    "int32": ("i32", "-5", -5),
    "uint32": ("i32", "-5", 2**32 - 5),
    "int64": ("i64", "-5000000000", -5000000000),
    "uint64": ("i64", "-1", 2**64 - 1),
    "int8": ("i8", "-1", -1),
    "bool": ("i8", "1", True),
    "float32": ("float", "0.5", 0.5),
    "float64": ("double", "-0.1", -0.1),
    "float16": ("half", "-1.5", -1.5),
    "bfloat16": ("bfloat", "2.0", 2.0),
    "float8_e4m3fn": ("i8", "56", 1.0),
    "handle": ("ptr", "null", 0),
}


@pytest.mark.parametrize("dtype", RETURNS)
def test_return_values(text_kernel, dtype):
    type, constant, expected = RETURNS[dtype]
    text = f"define i32 @k(ptr %err, ptr %ret) {{\n  store {type} {constant}, ptr %ret\n  ret i32 0\n}}"
    answer = text_kernel(Signature("f", (), returns=dtype), text)()
    assert answer == expected and isinstance(answer, type_of(expected))


def type_of(value: object) -> type:
    return value.__class__


def test_outputs_and_a_return_value_come_together(text_kernel):
    text = STORE_TWO.replace("ptr %err)", "ptr %err, ptr %ret)").replace("  ret", "  store i32 7, ptr %ret\n  ret")
    params = (
        BufferParam("A", "float32", (N,)),
        BufferParam("B", "float32", (N,), written=True),
        BufferParam("C", "uint16", (), written=True),
    )
    b, c, answer = text_kernel(Signature("f", params, ("B", "C"), returns="int32"), text)(np.zeros(2, np.float32))
    assert b[0] == 1 and c[()] == 16256 and answer == 7


FAILING = """
define i32 @k(ptr %A, i32 %code, i64 %value, i64 %n, ptr %err) {
  %fails = icmp sge i32 %code, 0
  br i1 %fails, label %fail, label %good
good:
  ret i32 0
fail:
  store i32 %code, ptr %err
  %count = getelementptr i32, ptr %err, i64 1
  store i32 2, ptr %count
  %first = getelementptr i64, ptr %err, i64 1
  store i64 %value, ptr %first
  %second = getelementptr i64, ptr %err, i64 2
  store i64 %n, ptr %second
  ret i32 1
}
"""
SITES = (
    ErrorSite(BoundsError, "A[{0}] is outside A[0:{1}]"),
    ErrorSite(ZeroDivisionError, "{0} divided by zero", ("uint64",)),
    ErrorSite(AssertionError, "{0:.2f} of {1}", ("float64", "bool")),
)


def failing() -> Signature:
    params = (BufferParam("A", "float32", (N,)), ScalarParam("code", "int32"), ScalarParam("value", "int64"))
    return Signature("f", params)


def test_a_failing_kernel_raises_from_its_error_table(text_kernel):
    f = text_kernel(failing(), FAILING, SITES)
    a = np.zeros(3, np.float32)
    assert f(a, -1, 0) is None
    with pytest.raises(BoundsError, match=r"A\[12\] is outside A\[0:3\]") as caught:
        f(a, 0, 12)
    assert isinstance(caught.value, IndexError)
    with pytest.raises(ZeroDivisionError, match=r"^18446744073709551615 divided by zero$"):
        f(a, 1, -1)
    with pytest.raises(AssertionError, match=r"^0.50 of True$"):
        f(a, 2, int(np.array(0.5).view(np.int64)))
    assert f(a, -1, 0) is None


def test_a_code_without_an_entry_in_the_table_is_reported(text_kernel):
    f = text_kernel(failing(), FAILING, SITES[:1])
    with pytest.raises(RuntimeError, match="unknown error code 7"):
        f(np.zeros(3, np.float32), 7, 0)


def test_outputs_of_a_failing_kernel_are_dropped(text_kernel):
    params = (*failing().params, BufferParam("B", "float32", (N,), written=True))
    text = FAILING.replace("i64 %value, i64 %n", "i64 %value, ptr %B, i64 %n")
    f = text_kernel(Signature("f", params, ("B",)), text, SITES)
    a = np.zeros(3, np.float32)
    with pytest.raises(BoundsError):
        f(a, 0, 12)
    assert f(a, -1, 0).shape == (3,)
