"""Each wrong argument, through both entries: raised before the kernel runs, naming argument, expected and got."""

from __future__ import annotations

import numpy as np
import pytest

from tests.call.compounds import compound_of
from tirlower.call.bind import aligned_empty
from tirlower.call.dtypes import numpy_dtype
from tirlower.call.signature import BufferParam, Compound, ScalarParam, Signature, Sym
from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError
from tirlower.ir import build

N, M = Sym("n", "int32"), Sym("m")
F32 = np.float32


def three(**flags: bool) -> Signature:
    shape = (16,)
    return Signature("vadd", tuple(BufferParam(n, "float32", shape, written=n == "C", **flags) for n in "ABC"))


def arrays(*shapes: tuple[int, ...], dtype: object = F32) -> list[np.ndarray]:
    return [np.zeros(shape, dtype) for shape in shapes]


def readonly(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def misaligned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    raw = np.zeros(int(np.prod(shape)) * np.dtype(dtype).itemsize + 1, np.uint8)
    return raw[1:].view(dtype).reshape(shape)


WRONG_IN_PLACE_OF_B = [
    (np.zeros(16), ArgumentTypeError, "dtype float32", "dtype float64"),
    (np.zeros(16, np.int32), ArgumentTypeError, "dtype float32", "dtype int32"),
    (np.zeros(16, ">f4"), ArgumentTypeError, "dtype float32", "float32 in swapped byte order"),
    (np.zeros(16, object), ArgumentTypeError, "dtype float32", "object"),
    (np.zeros((4, 4), F32), ArgumentValueError, "1 dimension (16,)", "2 with shape (4, 4)"),
    (np.zeros((), F32), ArgumentValueError, "1 dimension (16,)", "0 with shape ()"),
    (np.zeros(17, F32), ArgumentValueError, "shape[0] to be 16", "17 (shape (17,))"),
    (np.zeros(0, F32), ArgumentValueError, "shape[0] to be 16", "0 (shape (0,))"),
    (np.zeros(32, F32)[::2], ArgumentValueError, "a C-contiguous array", "strides (8,) bytes"),
    (np.zeros(16, F32)[::-1], ArgumentValueError, "a C-contiguous array", "strides (-4,) bytes"),
    (misaligned((16,), F32), ArgumentValueError, "data aligned to 4 bytes", "1 bytes off"),
    ([0.0] * 16, ArgumentTypeError, "a float32 array of shape (16,)", "list"),
    (None, ArgumentTypeError, "a float32 array of shape (16,)", "None"),
    (1.0, ArgumentTypeError, "a float32 array of shape (16,)", "float 1.0"),
    (object(), ArgumentTypeError, "a float32 array of shape (16,)", "object"),
]


@pytest.mark.parametrize(("value", "error", "expected", "got"), WRONG_IN_PLACE_OF_B)
def test_a_wrong_array_is_refused(probe, value, error, expected, got):
    call = probe(three())
    a, c = arrays((16,), (16,))
    with pytest.raises(error) as caught:
        call(a, value, c)
    text = str(caught.value)
    assert "argument `B` of `vadd`" in text and f"expected {expected}" in text and got in text
    assert caught.value.help
    assert call.runs == 0
    call(a, c, c)
    assert call.runs == 1


def test_argument_errors_are_type_or_value_errors_too():
    assert issubclass(ArgumentTypeError, TypeError) and issubclass(ArgumentValueError, ValueError)
    assert issubclass(ArgumentTypeError, ArgumentError) and issubclass(ArgumentValueError, ArgumentError)


def test_a_read_only_array_is_refused_only_where_it_is_written(probe):
    call = probe(three())
    a, b, c = arrays((16,), (16,), (16,))
    call(readonly(a), b, c)
    with pytest.raises(
        ArgumentValueError, match=r"argument `C` of `vadd`: expected a writeable array.* got a read-only"
    ):
        call(a, b, readonly(c))
    assert call.runs == 1


def test_an_equal_dtype_that_is_another_object_is_taken(probe):
    sig = Signature("f", (BufferParam("A", "int64", (4,)), BufferParam("B", "float32", (4,))))
    call = probe(sig)
    a = np.zeros(4, np.longlong)
    b = np.zeros(4, np.dtype("float32", metadata={"unit": "m"}))
    call(a, b)
    assert call.given == [a.ctypes.data, b.ctypes.data]


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ("AB", "", "missing argument `C`: expected 3 (A, B, C), got 2"),
        ("", "", "missing arguments `A`, `B`, `C`: expected 3 (A, B, C), got 0"),
        ("A", "C", "missing argument `B`"),
        ("ABCA", "", "expected 3 arguments, got 4"),
        ("ABC", "A", "argument `A` of `vadd`: expected once, got twice"),
        ("AB", "D", "got unknown argument `D`"),
        ("ABC", "D", "got unknown argument `D`"),
    ],
)
def test_a_wrong_set_of_arguments_is_refused(probe, args, kwargs, words):
    call = probe(three())
    (a,) = arrays((16,))
    with pytest.raises(ArgumentTypeError) as caught:
        call(*[a for _ in args], **dict.fromkeys(kwargs, a))
    assert words in str(caught.value)
    assert call.runs == 0


def test_a_misspelt_keyword_is_answered_with_the_right_name(probe):
    sig = Signature("f", (BufferParam("weights", "float32", (4,)),))
    with pytest.raises(ArgumentTypeError, match="did you mean `weights`"):
        probe(sig)(weight=np.zeros(4, F32))


def test_arguments_by_keyword_go_to_their_parameters(probe):
    call = probe(three())
    a, b, c = arrays((16,), (16,), (16,))
    call(C=c, A=a, B=b)
    assert call.given == [x.ctypes.data for x in (a, b, c)]
    call(b, C=c, B=a)
    assert call.given == [x.ctypes.data for x in (b, a, c)]


def test_the_kernel_gets_pointers_and_symbols_in_binding_order(probe):
    sig = Signature("f", (BufferParam("A", "float64", (N, 3)), BufferParam("B", "float64", (M, N), written=True)))
    call = probe(sig)
    a, b = np.zeros((5, 3)), np.zeros((7, 5))
    assert call(a, b) is None
    assert call.given == [a.ctypes.data, b.ctypes.data, 5, 7]


def test_inconsistent_symbolic_extents_are_refused(probe):
    sig = Signature("f", (BufferParam("A", "float32", (N,)), BufferParam("B", "float32", (4, N), written=True)))
    call = probe(sig)
    a, b = arrays((16,), (4, 17))
    with pytest.raises(ArgumentValueError) as caught:
        call(a, b)
    text = str(caught.value)
    assert "argument `B` of `f`: expected shape[1] to be n = 16 (`n` is 16 by shape[0] of `A`), got 17" in text
    assert call.runs == 0


def doubled() -> Compound:
    return compound_of(lambda n: n * 2, n="int32")


def test_a_compound_extent_is_checked_even_before_its_symbol_is_bound(probe):
    sig = Signature("f", (BufferParam("A", "float32", (doubled(),)), BufferParam("B", "float32", (N,))))
    call = probe(sig)
    a, b = arrays((12,), (6,))
    call(a, b)
    assert call.given[2] == 6
    with pytest.raises(ArgumentValueError, match=r"argument `A` of `f`: expected shape\[0\] to be n \* 2 = 14"):
        call(a, np.zeros(7, F32))
    assert call.runs == 1


@pytest.mark.parametrize("size", [0, 3, 4])
def test_a_compound_extent_without_a_value_is_refused(probe, size):
    ratio = compound_of(lambda m, n: m // n, m="int64", n="int64")
    sig = Signature("f", (ScalarParam("m", "int64"), ScalarParam("n", "int64"), BufferParam("A", "float32", (ratio,))))
    call = probe(sig)
    with pytest.raises(ArgumentValueError, match="division by zero"):
        call(3, 0, np.zeros(size, F32))
    assert call.runs == 0


def test_a_division_by_zero_counts_where_it_is_chosen(probe):
    ratio = compound_of(lambda m, n: build.if_then_else(n > 0, m // n, 1), m="int64", n="int64")
    sig = Signature("f", (ScalarParam("m", "int64"), ScalarParam("n", "int64"), BufferParam("A", "float32", (ratio,))))
    call = probe(sig)
    call(6, 2, np.zeros(3, F32))
    call(6, 0, np.zeros(1, F32))
    assert call.runs == 2
    with pytest.raises(ArgumentValueError, match=r"expected shape\[0\] to be"):
        call(6, 0, np.zeros(6, F32))


def test_what_a_condition_does_not_ask_for_needs_no_value(probe):
    ratio = compound_of(
        lambda m, n: build.if_then_else(build.logical_and(n > 0, m // n > 1), ~n & 7, 2), m="int64", n="int64"
    )
    sig = Signature("f", (ScalarParam("m", "int64"), ScalarParam("n", "int64"), BufferParam("A", "float32", (ratio,))))
    call = probe(sig)
    call(6, 0, np.zeros(2, F32))
    call(6, 1, np.zeros(6, F32))
    assert call.runs == 2


@pytest.mark.parametrize("amount", [-1, 32, 64, 1 << 30])
def test_a_compound_extent_that_shifts_too_far_is_refused(probe, amount):
    shifted = compound_of(lambda n, m: n << m, n="int32", m="int32")
    sig = Signature(
        "f", (ScalarParam("n", "int32"), ScalarParam("m", "int32"), BufferParam("A", "float32", (shifted,)))
    )
    call = probe(sig)
    call(0, 31, np.zeros(0, F32))
    with pytest.raises(ArgumentValueError, match=f"a shift is by 0 to 31 bits, got {amount}"):
        call(0, amount, np.zeros(0, F32))
    assert call.runs == 1


def test_a_scalar_parameter_may_be_an_extent(probe):
    sig = Signature("f", (BufferParam("A", "float32", (N,)), ScalarParam("n", "int32")))
    call = probe(sig)
    (a,) = arrays((6,))
    call(a, 6)
    assert call.given == [a.ctypes.data, 6]
    with pytest.raises(ArgumentValueError, match=r"argument `A` of `f`: expected shape\[0\] to be n = 5 .*got 6"):
        call(a, 5)
    assert call.runs == 1


def strided() -> Signature:
    strides = (Sym("s0", "int32"), Sym("s1", "int32"))
    return Signature("f", (BufferParam("A", "float32", (N, M), strides, written=True),))


def test_symbolic_strides_bind_in_elements(probe):
    call = probe(strided())
    base = np.zeros((8, 10), F32)
    for view in (base, base[::2, ::3], base.T, base[::-1], base[:, 4:5], np.zeros((0, 3), F32)):
        call(view)
        n, m, s0, s1 = call.given[1:]
        assert call.given[0] == view.__array_interface__["data"][0]
        assert (n, m) == view.shape
        assert [np.int32(np.uint32(s)) for s in (s0, s1)] == [s // 4 for s in view.strides]


def test_strides_that_are_no_whole_elements_are_refused(probe):
    call = probe(strided())
    packed = np.zeros(6, np.dtype([("x", F32), ("flag", np.uint8)]))["x"].reshape(6, 1)
    with pytest.raises(ArgumentValueError, match=r"argument `A`.*(multiples of the 4 bytes|aligned to 4 bytes)"):
        call(packed)
    assert call.runs == 0


def test_declared_strides_are_compared(probe):
    sig = Signature("f", (BufferParam("A", "float32", (4, 4), (8, 1)),))
    call = probe(sig)
    call(np.zeros((4, 8), F32)[:, :4])
    with pytest.raises(ArgumentValueError, match=r"expected strides\[0\] to be 8 elements, got 4"):
        call(np.zeros((4, 4), F32))
    assert call.runs == 1


def test_the_stride_of_a_single_element_does_not_matter(probe):
    sig = Signature("f", (BufferParam("A", "float32", (1, 4), (8, 1)),))
    call = probe(sig)
    call(np.zeros((1, 4), F32))
    assert call.runs == 1


def test_a_repeated_symbolic_stride_is_checked(probe):
    s = Sym("s")
    sig = Signature("f", (BufferParam("A", "float32", (4, 4), (s, 1)), BufferParam("B", "float32", (4, 4), (s, 1))))
    call = probe(sig)
    wide = np.zeros((4, 8), F32)[:, :4]
    call(wide, wide)
    assert call.given[2] == 8
    with pytest.raises(ArgumentValueError, match=r"argument `B` of `f`: expected strides\[0\] to be s = 8 .*got 4"):
        call(wide, np.zeros((4, 4), F32))
    assert call.runs == 1


def test_alignment_beyond_the_dtype_is_checked(probe):
    sig = Signature("f", (BufferParam("A", "float32", (8,), alignment=64),))
    call = probe(sig)
    raw = np.zeros(48, F32)
    start = (-raw.ctypes.data % 64) // 4
    call(raw[start : start + 8])
    with pytest.raises(
        ArgumentValueError, match=r"`A` of `f`: expected data aligned to 64 bytes, got address 0x\w+, 16 bytes off"
    ) as told:
        call(raw[start + 4 : start + 12])
    assert "pass a copy (NumPy's in `tl.aligned_empty(x.shape, x.dtype, 64)`)" in str(told.value)
    copy = aligned_empty((8,), "float32", 64)
    copy[:] = raw[start + 4 : start + 12]
    call(copy)
    assert call.runs == 2


def test_elem_offset_moves_the_pointer_back(probe):
    e = Sym("e", "int32")
    sig = Signature("f", (BufferParam("A", "float32", (4,), None, 3), BufferParam("B", "float32", (4,), None, e)))
    call = probe(sig)
    a, b = arrays((4,), (4,))
    call(a, b)
    assert call.given == [a.ctypes.data - 12, b.ctypes.data, 0]


@pytest.mark.parametrize("shift", [0, 1, 15, -1, -15])
def test_overlapping_noalias_arrays_are_refused(probe, shift):
    call = probe(three(noalias=True))
    base = np.zeros(64, F32)
    a, b, c = base[16:32], np.zeros(16, F32), base[16 + shift : 32 + shift]
    with pytest.raises(ArgumentValueError) as caught:
        call(a, b, c)
    text = str(caught.value)
    assert (
        "argument `C` of `vadd`: expected memory that does not overlap `A` (noalias; the function writes `C`)" in text
    )
    assert f"an overlap of up to {4 * (16 - abs(shift))} bytes" in text
    assert call.runs == 0


def test_neighbours_and_two_readers_are_no_overlap(probe):
    call = probe(three(noalias=True))
    base = np.zeros(48, F32)
    call(base[0:16], base[0:16], base[16:32])
    call(base[32:48], base[16:32], base[0:16])
    assert call.runs == 2


def test_overlap_is_allowed_without_noalias(probe):
    call = probe(three())
    (a,) = arrays((16,))
    call(a, a, a)
    assert call.runs == 1


def test_interleaved_views_do_not_overlap(probe):
    s, t = Sym("s"), Sym("t")
    sig = Signature(
        "f",
        (
            BufferParam("A", "float32", (8,), (s,), noalias=True),
            BufferParam("B", "float32", (8,), (t,), written=True, noalias=True),
        ),
    )
    call = probe(sig)
    base = np.zeros(16, F32)
    call(base[0::2], base[1::2])
    call(base[:8][::-1], base[8:][::-1])
    assert call.runs == 2
    with pytest.raises(ArgumentValueError, match="does not overlap `A`"):
        call(base[0::2], base[14::-2])
    with pytest.raises(ArgumentValueError, match="does not overlap `A`"):
        call(base[7::-1], base[7:15])
    assert call.runs == 2


def test_empty_arrays_pass_whatever_their_address(probe):
    sig = Signature(
        "f",
        (
            BufferParam("A", "float32", (N, 3), noalias=True),
            BufferParam("B", "float32", (N, 3), written=True, noalias=True),
        ),
    )
    call = probe(sig)
    base = np.zeros((4, 3), F32)
    call(base[:0], base[:0])
    call(misaligned((0, 3), F32), base[2:2])
    assert call.runs == 2 and call.given[2] == 0


def test_0d_arrays(probe):
    call = probe(Signature("f", (BufferParam("A", "float64", ()), BufferParam("B", "float64", (), written=True))))
    a, b = np.array(1.0), np.array(2.0)
    call(a, b)
    assert call.given == [a.ctypes.data, b.ctypes.data]
    with pytest.raises(ArgumentValueError, match=r"0 dimensions \(\), got 1"):
        call(a, np.zeros(1))
    with pytest.raises(ArgumentValueError, match="read-only"):
        call(a, np.float64(1.0))


def test_no_arguments_at_all(probe):
    call = probe(Signature("f", ()))
    assert call() is None
    with pytest.raises(ArgumentTypeError, match="expected 0 arguments, got 1"):
        call(1)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
    + ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"],
)
def test_every_element_type(probe, dtype):
    call = probe(Signature("f", (BufferParam("A", dtype, (3, N), written=True),)))
    a = np.zeros((3, 5), numpy_dtype(dtype))
    call(a)
    assert call.given == [a.__array_interface__["data"][0], 5]
    other = np.zeros((3, 5), np.int16 if dtype != "int16" else np.uint16)
    with pytest.raises(ArgumentTypeError, match=f"expected dtype {dtype}, got dtype u?int16"):
        call(other)


def test_bool_memory_is_not_guessed_from_bytes(probe):
    call = probe(Signature("f", (BufferParam("A", "bool", (4,)),)))
    with pytest.raises(ArgumentTypeError, match="expected dtype bool, got dtype uint8") as caught:
        call(np.full(4, 2, np.uint8))
    assert "view(np.bool_)" in str(caught.value)


def test_an_extent_that_does_not_fit_its_symbol_is_refused(probe):
    call = probe(Signature("f", (BufferParam("A", "int8", (N,), (Sym("s"),)),)))
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (1 << 31,), (0,))
    with pytest.raises(ArgumentValueError, match=r"shape\[0\] that fits int32 \(symbol `n`\), got 2147483648"):
        call(huge)
    assert call.runs == 0


def test_usual_calls_never_leave_the_machine_code(fast_probe):
    a, b, c = arrays((16,), (16,), (16,))
    fast_probe(three(noalias=True))(a, b, c)
    fast_probe(strided())(np.zeros((8, 10), F32)[::2, ::-3])
    call = fast_probe(Signature("f", (BufferParam("A", "float32", (doubled(),)), BufferParam("B", "float32", (N,)))))
    call(np.zeros(12, F32), np.zeros(6, F32))
    assert call.given[2] == 6
    with pytest.raises(AssertionError):
        call(np.zeros(13, F32), np.zeros(6, F32))
