"""Loads and stores of every form against NumPy's indexing, with guard elements around what may be touched."""

from __future__ import annotations

import textwrap
from functools import partial

import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import build, count, llvm_text
from tirlower.diagnostics import (
    AllocationError,
    BoundsError,
    CodegenError,
    DivisionByZeroError,
    InterpreterError,
    LegalityError,
)
from tirlower.ir.build import gt
from tirlower.ir.dtype import DataType
from tirlower.script import parse
from tirlower.transforms import FlattenBuffer

pytestmark = pytest.mark.by_day

DTYPES = [
    "bool",
    "int5",
    "int8",
    "int16",
    "uint32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
]


def data(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    kind = DataType(name)
    if kind.is_bool:
        return rng.integers(0, 2, n).astype(bool)
    if kind.is_integral:
        return rng.integers(int(max(kind.min_value, -1000)), int(min(kind.max_value, 1000)), n).astype(kind.numpy)
    return rng.integers(-8, 8, n).astype(kind.numpy)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 7, 8, 16, 17, 64])
@pytest.mark.parametrize("name", DTYPES)
def test_contiguous_vectors_of_any_length(name: str, lanes: int, rng: np.random.Generator) -> None:
    n = lanes * 3
    f = build(
        f"""
        @T.prim_func
        def kernel(A: T.Buffer(({n},), "{name}"), B: T.Buffer(({n + 2},), "{name}")):
            for i in range(3):
                B[i * {lanes} + 1:i * {lanes} + {lanes + 1}] = A[i * {lanes}:i * {lanes} + {lanes}]
    """
        if lanes > 1
        else f"""
        @T.prim_func
        def kernel(A: T.Buffer(({n},), "{name}"), B: T.Buffer(({n + 2},), "{name}")):
            for i in range(3):
                B[i + 1] = A[i]
    """
    )
    a = data(name, n, rng)
    b = data(name, n + 2, rng)
    first, last = b[0], b[-1]
    f(a, b)
    assert (b[1:-1] == a).all() and b[0] == first and b[-1] == last


@pytest.mark.parametrize("stride", [-3, -2, -1, 0, 1, 2, 3, 5])
@pytest.mark.parametrize("lanes", [2, 3, 8, 16])
@pytest.mark.parametrize("name", ["float32", "int8", "bool", "float64", "int5"])
def test_strided_loads_and_stores(name: str, lanes: int, stride: int, rng: np.random.Generator) -> None:
    span = abs(stride) * (lanes - 1) + 1
    start = span - 1 if stride < 0 else 0
    f = build(f"""
        @T.prim_func
        def kernel(A: T.Buffer(({span},), "{name}"), B: T.Buffer(({lanes},), "{name}"), C: T.Buffer(({span},), "{name}")):
            B[T.Ramp(0, 1, {lanes})] = A[T.Ramp({start}, {stride}, {lanes})]
            C[T.Ramp({start}, {stride}, {lanes})] = B[T.Ramp(0, 1, {lanes})]
    """)
    a = data(name, span, rng)
    b, c = np.zeros(lanes, a.dtype), data(name, span, rng)
    index = start + stride * np.arange(lanes)
    want = c.copy()
    for k in range(lanes):
        want[index[k]] = a[index[k]]
    f(a, b, c)
    assert (b == a[index]).all() and (c == want).all()


def test_stride_two_reads_nothing_outside_of_the_lanes() -> None:
    """The two vectors overlap within the first and the last lane: the array ends there, at a page that is not mapped."""
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0) == 0
    try:
        a = np.ctypeslib.as_array((ctypes.c_float * 15).from_address(base + page - 60))
        a[:] = np.arange(15)
        f = build("""
            @T.prim_func
            def kernel(A: T.Buffer((15,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
                B[0:8] = A[T.Ramp(0, 2, 8)]
                C[0:8] = A[T.Ramp(14, -2, 8)]
        """)
        b, c = np.zeros(8, "float32"), np.zeros(8, "float32")
        f(a, b, c)
        assert b.tolist() == list(range(0, 15, 2)) and c.tolist() == list(range(14, -1, -2))
    finally:
        libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 3)


@pytest.mark.parametrize("name", ["float32", "int64", "bool", "float16", "int8"])
@pytest.mark.parametrize("lanes", [3, 8, 16])
def test_gather_and_scatter(name: str, lanes: int, rng: np.random.Generator) -> None:
    f = build(f"""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "{name}"), I: T.Buffer(({lanes},), "int32"), B: T.Buffer((64,), "{name}")):
            B[I[T.Ramp(0, 1, {lanes})]] = A[I[T.Ramp(0, 1, {lanes})] * 2 + 1]
    """)
    a, b = data(name, 64, rng), data(name, 64, rng)
    index = rng.permutation(31)[:lanes].astype("int32")
    want = b.copy()
    want[index] = a[index * 2 + 1]
    f(a, index, b)
    assert (b == want).all()


def test_of_lanes_that_meet_the_last_one_stays() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((4,), "int32"), I: T.Buffer((8,), "int32"), V: T.Buffer((8,), "int32")):
            A[I[T.Ramp(0, 1, 8)]] = V[0:8]
            A[T.Broadcast(3, 8)] = V[0:8]
    """)
    a = np.zeros(4, "int32")
    f(a, np.array([0, 1, 0, 2, 1, 0, 2, 2], "int32"), np.arange(8, dtype="int32"))
    assert a.tolist() == [5, 4, 7, 7]


@pytest.mark.parametrize("stride", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("name", ["float32", "int8", "bool", "float64", "bfloat16"])
def test_predicates_mask_loads_and_stores(name: str, stride: int, rng: np.random.Generator) -> None:
    lanes = 8
    span = abs(stride) * (lanes - 1) + 1
    start = span - 1 if stride < 0 else 0
    f = build(f"""
        @T.prim_func
        def kernel(A: T.Buffer(({span},), "{name}"), M: T.Buffer(({lanes},), "bool"), B: T.Buffer(({lanes},), "{name}"),
                   C: T.Buffer(({span},), "{name}")):
            B.vstore([T.Ramp(0, 1, {lanes})], A.vload([T.Ramp({start}, {stride}, {lanes})], predicate=M[T.Ramp(0, 1, {lanes})]),
                     predicate=M[T.Ramp(0, 1, {lanes})])
            C.vstore([T.Ramp({start}, {stride}, {lanes})], B[T.Ramp(0, 1, {lanes})], predicate=M[T.Ramp(0, 1, {lanes})])
    """)
    a, b, c = data(name, span, rng), data(name, lanes, rng), data(name, span, rng)
    index = start + stride * np.arange(lanes)
    for mask in (np.array([1, 0, 1, 1, 0, 0, 1, 0], bool), np.zeros(8, bool), np.ones(8, bool)):
        want_b, want_c = b.copy(), c.copy()
        want_b[mask] = a[index][mask]
        for k in range(lanes):
            if mask[k]:
                want_c[index[k]] = want_b[k]
        f(a, mask, b, c)
        assert (b == want_b).all() and (c == want_c).all()


def test_masked_lanes_touch_no_memory() -> None:
    import ctypes
    import mmap

    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 2 * page)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 0) == 0
    try:
        for name, size in (("float32", 4), ("int8", 1), ("float64", 8), ("int16", 2)):
            kind = np.dtype(name)
            a = np.frombuffer((ctypes.c_char * (5 * size)).from_address(base + page - 5 * size), kind)
            a[:] = np.arange(5)
            f = build(f"""
                @T.prim_func
                def kernel(A: T.Buffer((5,), "{name}"), B: T.Buffer((8,), "{name}")):
                    B[0:8] = A.vload([T.Ramp(0, 1, 8)], predicate=T.get_active_lane_mask("boolx8", 0, 5))
                    A.vstore([T.Ramp(0, 1, 8)], B[T.Ramp(0, 1, 8)] + B[T.Ramp(0, 1, 8)], predicate=T.get_active_lane_mask("boolx8", 0, 5))
            """)
            b = np.ones(8, kind)
            f(a, b)
            assert b[:5].tolist() == [0, 1, 2, 3, 4] and a.tolist() == [0, 2, 4, 6, 8]
    finally:
        libc.mprotect(ctypes.c_void_p(base + page), ctypes.c_size_t(page), 3)


def test_dimensions_strides_and_offsets(rng: np.random.Generator) -> None:
    f = build("""
        @T.prim_func
        def kernel(a: T.handle, b: T.handle):
            n = T.int32()
            s = T.int32()
            A = T.match_buffer(a, (n, 4, 6), "float32")
            B = T.match_buffer(b, (n, 4, 6), "float32", strides=(s, 8, 1))
            for i, j in T.grid(n, 4):
                for k in range(6):
                    B[i, j, k] = A[i, j, 5 - k] * 2.0
                B[i, j, T.Ramp(0, 3, 2)] = A[i, j, 0:2]
    """)
    a = rng.normal(size=(3, 4, 6)).astype("float32")
    whole = np.zeros((3, 5, 8), "float32")
    view = whole[:, :4, :6]
    f(a, view)
    want = a[:, :, ::-1] * 2
    want[:, :, 0], want[:, :, 3] = a[:, :, 0], a[:, :, 1]
    assert (view == want).all() and (whole[:, 4] == 0).all() and (whole[:, :, 6:] == 0).all()


def test_strided_last_dimension_of_vectors(rng: np.random.Generator) -> None:
    f = build("""
        @T.prim_func
        def kernel(a: T.handle, b: T.handle):
            s = T.int64()
            A = T.match_buffer(a, (16,), "int32", strides=(s,))
            B = T.match_buffer(b, (16,), "int32")
            B[0:16] = A[0:16]
            A[0:8] = B[8:16]
    """)
    whole = np.arange(48, dtype="int32")
    a, b = whole[::3], np.zeros(16, "int32")
    f(a, b)
    assert b.tolist() == list(range(0, 48, 3)) and a[:8].tolist() == b[8:].tolist()


def test_buffers_of_vectors(rng: np.random.Generator) -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "float32x4"), B: T.Buffer((8,), "float32x4"), C: T.Buffer((8,), "float32x3")):
            for i in range(8):
                B[i] = A[7 - i] + A[i]
            C[0] = T.Broadcast(T.float32(1), 3)
            A[T.Ramp(0, 1, 2)] = B[T.Ramp(6, 1, 2)]
            A[T.Ramp(3, -1, 2)] = B[T.Ramp(0, 3, 2)]
            C[T.Ramp(2, 2, 2)] = C[T.Broadcast(0, 2)]
    """)
    a = rng.normal(size=(8, 4)).astype("float32")
    before, b, c = a.copy(), np.zeros((8, 4), "float32"), np.zeros((8, 3), "float32")
    f(a, b, c)
    assert (b == before[::-1] + before).all()
    assert (a[0:2] == b[6:8]).all() and (a[3] == b[0]).all() and (a[2] == b[3]).all() and (a[4:] == before[4:]).all()
    assert c.sum() == 9 and (c[[0, 2, 4]] == 1).all()


def test_scalar_buffers_without_dimensions() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((), "int32"), B: T.Buffer((4,), "int32")):
            for i in range(4):
                A[()] = A[()] + B[i]
    """)
    a = np.array(5, "int32")
    f(a, np.arange(4, dtype="int32"))
    assert a == 11


def test_views_share_memory() -> None:
    f = (
        build("""
        @T.prim_func
        def kernel(A: T.Buffer((4, 4), "float32")):
            B = T.decl_buffer((16,), "float32", data=A.data)
            C = T.Buffer((16,), "int32", data=T.reinterpret("handle", T.reinterpret("uint64", A.data)))
            for i in range(16):
                B[i] = B[i] + 1.0
    """)
        if False
        else build("""
        @T.prim_func
        def kernel(A: T.Buffer((4, 4), "float32")):
            B = T.decl_buffer((16,), "float32", data=A.data)
            for i in range(16):
                B[i] = B[i] + A[i // 4, i % 4]
    """)
    )
    a = np.arange(16, dtype="float32").reshape(4, 4)
    f(a)
    assert (a.ravel() == 2 * np.arange(16)).all()


def test_bool_is_a_byte_of_zero_or_one() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "bool"), C: T.Buffer((8,), "bool")):
            B[0:8] = A[0:8] > T.Broadcast(3, 8)
            for i in range(8):
                C[i] = T.Not(B[i])
    """)
    b, c = np.zeros(8, bool), np.zeros(8, bool)
    f(np.arange(8, dtype="int32"), b, c)
    assert b.view("uint8").tolist() == [0] * 4 + [1] * 4 and (c == ~b).all()


def test_contiguous_lanes_are_one_access_and_indices_are_affine() -> None:
    text = llvm_text("""
        @T.prim_func
        def kernel(A: T.Buffer((64, 64), "float32", align=128), B: T.Buffer((64, 64), "float32")):
            for i, j in T.grid(64, 4):
                B[i, j * 16:j * 16 + 16] = A[i, j * 16:j * 16 + 16] + A[i, T.Broadcast(j * 16, 16) + T.Ramp(0, 1, 16)]
    """)
    assert count("load <16 x float>", text) == 2 and count("store <16 x float>", text) == 1
    assert "gather" not in text and "sext" not in text
    assert count("load <16 x float>.* align 64", text) == 2  # 128 bytes of the array, 64 of the index


def test_distinct_buffers_have_alias_scopes() -> None:
    program = """
        @T.prim_func
        def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            {attr}for i in range(64):
                B[i] = A[i]
    """
    apart = llvm_text(program.format(attr='T.func_attr({"tir.noalias": True})\n            '))
    assert "ptr noalias readonly" in apart and "!alias.scope" in apart
    together = llvm_text(program.format(attr=""))
    assert "noalias readonly" not in together and "!alias.scope" not in together


def test_overlapping_arrays_are_right_where_the_function_allows_them() -> None:
    f = build("""
        @T.prim_func
        def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
            for i in range(64):
                B[i] = A[i] + 1.0
    """, opt_level=3)  # fmt: skip
    whole = np.zeros(65, "float32")
    f(whole[:64], whole[1:])
    assert whole.tolist() == list(range(65))


def test_stores_to_constants_are_refused() -> None:
    with pytest.raises(CodegenError, match="constant"):
        llvm_text("""
            @T.prim_func
            def kernel(B: T.Buffer((4,), "int32")):
                a = T.allocate_const([1, 2, 3, 4], "int32", [4])
                A = T.decl_buffer((4,), "int32", data=a)
                A[0] = B[0]
        """)


def test_memory_that_is_not_needed_has_no_size():
    """A false condition: extents that no allocation could have are not looked at."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((2,), "int32"), n: T.int32):
    for k in range(2):
        B = T.alloc_buffer((n + k, 70000), "int32")
        if n > 0:
            B[n - 1, 69999] = A[k]
            A[k] = B[n - 1, 69999] + k
""")
    loop = func.body
    head = loop.body.stmts[0]
    conditional = head.with_(condition=gt(func.params[1], 0))
    func = func.with_body(loop.with_(body=loop.body.with_(stmts=(conditional, *loop.body.stmts[1:]))))
    fn = tl.build(func, schedule="none")
    for n, want in ((3, [10, 21]), (0, [10, 20]), (-5, [10, 20])):
        a = np.array([10, 20], "int32")
        fn(a, n)
        assert a.tolist() == want
    # Without the condition the extents are looked at.
    with pytest.raises(AllocationError):
        build(FlattenBuffer()(func.with_body(loop)))(np.zeros(2, "int32"), -5)
    a = np.array([10, 20], "int32")
    build(FlattenBuffer()(func))(a, -5)
    assert a.tolist() == [10, 20]


def test_prefetched_elements_need_not_exist_but_what_their_index_reads_must() -> None:
    text = """
        @T.prim_func
        def kernel(A: T.Buffer((16,), "float32"), I: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
            for i in range(16):
                T.prefetch(T.address_of(A[INDEX]), 0, 3, 1)
                B[i] = A[i]
    """
    a, b = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    a.flags.writeable = False
    extremes = np.array([2**31 - 1, -(2**31), 0, 5] * 4, "int32")
    for index in ("i + 8", "i - 100", "I[i]", "i * 2147483647", "T.Cast('int64', I[i]) * 4611686018427387904"):
        func = parse(textwrap.dedent(text).replace("INDEX", index))
        for run in (tl.build(func, schedule="none"), partial(tl.interpret, func)):
            b[:] = 0
            run(a, extremes, b)
            assert b.tolist() == a.tolist()
    func = parse(textwrap.dedent(text).replace("INDEX", "i // I[i]"))
    for run in (tl.build(func, schedule="none"), tl.build(func, "c"), partial(tl.interpret, func)):
        with pytest.raises((DivisionByZeroError, InterpreterError), match="division by zero"):
            run(a, extremes, b)
    func = parse(textwrap.dedent(text).replace("INDEX", "I[i + 1]"))
    with pytest.raises(LegalityError, match=r"reads I\[16\]"):
        tl.build(func, schedule="none")
    with pytest.raises(BoundsError):
        tl.interpret(func, a, extremes, b)


@pytest.mark.parametrize(
    ("dtype", "index", "past"),
    [
        ("float32x8", "i", True),
        ("float32", "T.Ramp(i * 8, 1, 8)", True),
        ("float32", "T.Ramp(i, 32, 8)", False),
        ("float32", "T.Ramp(i * 8 + 7, -1, 8)", False),
        ("float32x3", "i", False),
    ],
)
def test_whole_registers_in_a_row_are_stored_past_the_caches(dtype: str, index: str, past: bool) -> None:
    n, value = (32, "A[i]") if "x" in dtype else (256, "A[i * 8:i * 8 + 8]")
    text = llvm_text(f"""
def kernel(A: T.Buffer(({n},), "{dtype}"), B: T.Buffer(({n},), "{dtype}")):
    with T.attr(B.data, "tir.nontemporal", T.bool(True)):
        for i in range(32):
            B[{index}] = {value}
""", "llvm -mcpu=haswell")  # fmt: skip
    assert ("!nontemporal" in text) is past


@pytest.mark.parametrize(
    ("align", "step", "stores"),
    [
        ("", 16, ["align 64, !nontemporal", "align 16, !nontemporal", "align 4"]),  # pieces of a line follow each other
        ("", 32, ["align 64, !nontemporal", "align 4"]),
        (", align=64", 32, ["align 64, !nontemporal"]),
    ],
)
def test_lines_are_stored_past_the_caches_as_the_address_allows(align: str, step: int, stores: list[str]) -> None:
    text = llvm_text(f"""
def kernel(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"{align})):
    with T.attr(B.data, "tir.nontemporal", T.bool(True)):
        for i in range(32):
            B[i * {step}:i * {step} + 16] = A[i * 16:i * 16 + 16]
""", "llvm -mcpu=x86-64-v4")  # fmt: skip
    found = [line.split(", ", 2)[2] for line in text.splitlines() if "store <16 x float>" in line]
    for line, wanted in zip(found, stores, strict=True):
        assert wanted.split(",")[0] in line and ("!nontemporal" in line) is ("!nontemporal" in wanted)


@pytest.mark.parametrize("offset", [0, 4, 16, 20])
@pytest.mark.parametrize("rows", [1, 2])
def test_stores_past_the_caches_at_any_address(offset: int, rows: int) -> None:
    func = parse(f"""
def kernel(A: T.Buffer((2048,), "float32"), B: T.Buffer((2048,), "float32")):
    for i in T.serial(8, annotations={{"tir.nontemporal": True}}):
        for j in range(4):
            for r in T.unroll({rows}):
                for l in T.vectorized(16):
                    B[(i * {rows} + r) * 64 + j * 16 + l] = A[(i * {rows} + r) * 64 + j * 16 + l] + T.float32(1)
""")
    memory = tl.aligned_empty((2048 * 4 + 64,), "uint8")
    memory[:] = 0
    b = memory[offset : offset + 2048 * 4].view("float32")
    a = np.arange(2048, dtype="float32")
    build(func)(a, b)
    written = 8 * rows * 64
    assert (b[:written] == a[:written] + 1).all() and not b[written:].any()


@pytest.mark.parametrize("group", [1, 2, 3, 4])
def test_of_lanes_that_meet_in_one_element_the_last_stays(group: int) -> None:
    dtype = "float32" if group == 1 else f"float32x{group}"
    func = parse(f"""
def kernel(A: T.Buffer(({4 * group},), "float32"), B: T.Buffer((3,), "{dtype}"), k: T.int32):
    B[T.Ramp(k, 0, 4)] = A[0:{4 * group}]
""")
    a, b = np.arange(4 * group, dtype="float32"), np.full((3, group) if group > 1 else 3, -1, "float32")
    build(func)(a, b, 1)
    wanted = np.full((3, group), -1.0)
    wanted[1] = a[-group:]
    assert b.reshape(3, group).tolist() == wanted.tolist()
