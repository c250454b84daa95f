"""Views of memory: accesses inside the shape that a view states, but outside the memory behind it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse
from tirlower.script import tir as T


def test_views_that_lie_in_their_memory_are_proved():
    @T.prim_func
    def f(A: T.Buffer(("n", 4), "float32")):
        V = T.decl_buffer((n * 4,), "float32", data=A.data)
        for i in range(n * 4):
            V[i] = T.float32(1)

    report = tl.build(f).report()
    assert report.proved == {"f": 1} and not report.guarded


def test_a_view_larger_than_its_memory_is_guarded():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), k: T.int32):
        V = T.decl_buffer((4, 4), "int32", data=A.data)
        for i in range(k):
            for j in range(4):
                if i < 4:
                    V[i, j] = i + 1

    kernel, a = tl.build(f), np.zeros(8, "int32")
    (note,) = kernel.report().guarded
    assert "may reach outside the memory of A" in note.reason
    kernel(a, 2)
    np.testing.assert_array_equal(a, [1] * 4 + [2] * 4)
    with pytest.raises(
        IndexError, match=r"V\[2, 0\] is outside the memory of A: element 8 of 8 elements, at i = 2, j = 0"
    ):
        kernel(a, 3)
    with pytest.raises(IndexError):
        tl.interpret(f, a, 3)


def test_views_of_another_element_size():
    @T.prim_func
    def f(A: T.Buffer((6,), "int32"), k: T.int32):
        V = T.decl_buffer((16,), "int16", data=A.data)
        if k >= 0 and k < 16:
            V[k] = T.int16(7)

    kernel, a = tl.build(f), np.zeros(6, "int32")
    kernel(a, 11)
    assert a.view("int16")[11] == 7
    with pytest.raises(IndexError, match=r"element 12 of 12 elements"):
        kernel(a, 12)


def test_matched_regions():
    @T.prim_func
    def f(A: T.Buffer(("n", 8), "int32"), X: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                T.reads([])
                T.writes(A[X[vi], 0:8])
                R = T.match_buffer(A[X[vi], 0:8], (8,), "int32", elem_offset=T.int32(), offset_factor=1)
                for j in range(8):
                    R[j] = j + vi

    kernel, a = tl.build(f), np.zeros((5, 8), "int32")
    kernel(a, np.array([4, 0, 2, 1], "int32"))
    np.testing.assert_array_equal(a[4], range(8))
    np.testing.assert_array_equal(a[1], range(3, 11))
    with pytest.raises(
        IndexError, match=r"R\[0\], which is of a region of A, is out of bounds: index 5 of dimension 0"
    ):
        kernel(a, np.array([4, 5, 2, 1], "int32"))


def test_matched_regions_inside_are_proved():
    @T.prim_func
    def f(A: T.Buffer((8, 8), "int32")):
        for i, j in T.grid(2, 2):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads([])
                T.writes(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                R = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4],
                    (4, 4),
                    "int32",
                    strides=[T.int32(), 1],
                    offset_factor=1,
                )
                for p, q in T.grid(4, 4):
                    R[p, q] = p + q

    report = tl.build(f).report()
    assert not report.guarded and report.proved == {"f": 1}


def test_memory_behind_a_pointer_is_trusted_and_listed():
    @T.prim_func
    def f(p: T.handle("float32"), n: T.int32):
        V = T.decl_buffer((n,), "float32", data=p)
        for i in range(n):
            V[i] = T.float32(0)

    low = tl.lower(f)
    assert "Assert" not in low.script()
    notes = tl.build(f).report().trusted
    assert any("pointer p" in note.reason for note in notes)


def built(view: str, body: str = "V[k] = 7") -> Any:
    """A function of ``A`` (16 words), ``H`` (16 bytes) and ``k`` in 0..31 that sees memory through a view."""
    text = f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), H: T.Buffer((16,), "int8"), k: T.int32, s: T.int32):
    {view}
    if 0 <= k and k < 32:
        {body}
"""
    func: Any = parse(text)
    return tl.build(func)


# The view, the last k that is inside the memory, and the least.
REACHES = {
    "T.Buffer": ('V = T.Buffer((32,), "int32", data=A.data)', 15, 0),
    "T.decl_buffer": ('V = T.decl_buffer((32,), "int32", data=A.data)', 15, 0),
    "a name": ('q = T.bind(A.data)\n    V = T.Buffer((32,), "int32", data=q)', 15, 0),
    "a name of a name": ('p = T.bind(A.data)\n    q = T.bind(p)\n    V = T.Buffer((32,), "int32", data=q)', 15, 0),
    "an address": ('q: T.handle("int32") = T.address_of(A[5])\n    V = T.Buffer((32,), "int32", data=q)', 10, 0),
    "an address beyond": ('q: T.handle("int32") = T.address_of(A[15])\n    V = T.Buffer((32,), "int32", data=q)', 0, 0),
    "an access pointer": (
        'q: T.handle("int32") = T.tvm_access_ptr(T.type_annotation("int32"), A.data, 4, 4, 3)\n'
        '    V = T.Buffer((32,), "int32", data=q)', 11, 0,
    ),
    "bytes as words": ('V = T.Buffer((32,), "int32", data=H.data)', 3, 0),
    "bytes as words, not aligned": ('q: T.handle("int32") = T.address_of(H[2])\n    V = T.Buffer((32,), "int32", data=q)', 2, 0),
    "words as bytes": ('V = T.Buffer((32,), "int8", data=H.data)', 15, 0),
    "an offset": ('V = T.Buffer((32,), "int32", data=A.data, elem_offset=6)', 9, 0),
    "an offset before the start": ('V = T.Buffer((32,), "int32", data=A.data, elem_offset=-6)', 21, 6),
    "a stride": ('V = T.Buffer((32,), "int32", data=A.data, strides=(3,))', 5, 0),
    "a stride backwards": ('V = T.Buffer((32,), "int32", data=A.data, strides=(-1,), elem_offset=9)', 9, 0),
    "an allocation": ('t = T.alloc_buffer((16,), "int32")\n    V = T.Buffer((32,), "int32", data=t.data)', 15, 0),
}  # fmt: skip


@pytest.mark.parametrize(("view", "last", "first"), REACHES.values(), ids=REACHES)
def test_a_view_that_reaches_outside_its_memory_is_guarded(view: str, last: int, first: int) -> None:
    kernel = built(view)
    assert len(kernel.report().guarded) == 1
    for k in (first, last):
        kernel(np.zeros(16, "int32"), np.zeros(16, "int8"), k, 0)
    for k in {first - 1, last + 1} - {-1, 32}:
        with pytest.raises(IndexError, match=r"V\[-?\d+\] is outside the memory of"):
            kernel(np.zeros(16, "int32"), np.zeros(16, "int8"), k, 0)


def test_the_start_of_a_view_is_compared_too():
    kernel = built(
        'V = T.Buffer((8,), "int32", data=A.data, elem_offset=s)', "if s + 8 <= 16 and k < 8:\n            V[k] = 7"
    )
    a, h = np.zeros(16, "int32"), np.zeros(16, "int8")
    kernel(a, h, 3, 8)
    assert a[11] == 7
    for k, s in ((0, -1), (3, -4), (7, -(2**31) + 1)):
        with pytest.raises(IndexError, match="is outside the memory of A"):
            kernel(a, h, k, s)
    kernel(a, h, 3, -3)
    assert a[0] == 7


INSIDE = {
    "tiles that move": ('V = T.Buffer((4,), "int32", data=A.data, elem_offset=i * 4)', "V[j] = i"),
    "pointers that move": (
        'q: T.handle("int32") = T.address_of(A[i * 4])\n        V = T.Buffer((4,), "int32", data=q)',
        "V[j] = i",
    ),
    "bytes of words": (
        'q: T.handle("int8") = T.address_of(A[i])\n        V = T.Buffer((4,), "int8", data=q)',
        "V[j] = T.int8(1)",
    ),
    "backwards": ('V = T.Buffer((4,), "int32", data=A.data, elem_offset=15 - i, strides=(-1,))', "V[j] = i"),
}


@pytest.mark.parametrize(("view", "body"), INSIDE.values(), ids=INSIDE)
def test_views_that_move_inside_their_memory_are_proved(view: str, body: str) -> None:
    def reported(extent: int) -> Any:
        func: Any = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in range({extent}):
        {view}
        for j in range(4):
            {body}
""")
        return tl.build(func).report()

    assert not reported(4).guarded and not reported(4).trusted
    assert len(reported(17).guarded) == 1


def test_the_start_of_a_matched_region_counts():
    func: Any = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), k: T.int32):
    with T.block("root"):
        T.reads()
        T.writes(A[0:16])
        R = T.match_buffer(A[8:16], (8,), "int32", elem_offset=T.int32(), offset_factor=1)
        q: T.handle("int32") = T.address_of(R[1])
        V = T.Buffer((8,), "int32", data=q)
        if 0 <= k and k < 8:
            V[k] = 7
""")
    report = tl.build(func).report()
    assert report.guarded or any("V" in note.access for note in report.trusted)


@pytest.mark.parametrize(
    "bound", ["q = T.bind(A.data)", 'q: T.handle("int32") = T.address_of(A[0])', "q = T.bind(R.data)"]
)
def test_pointers_bound_in_blocks(bound: str) -> None:
    func: Any = parse(f"""
@T.prim_func
def f(A: T.Buffer((16,), "int32")):
    for i in range(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            T.reads()
            T.writes(A[0:16])
            R = T.match_buffer(A[0:16], (16,), "int32")
            {bound}
            V = T.Buffer((16,), "int32", data=q)
            V[vi] = vi * 3 + 1
""")
    a = np.zeros(16, "int32")
    tl.build(func)(a)
    np.testing.assert_array_equal(a, np.arange(16) * 3 + 1)


def test_a_view_of_a_matched_region_without_a_stated_offset_is_checked() -> None:
    func: Any = parse("""
@T.prim_func
def f(n: T.int32, A: T.Buffer((64, 4), "float32"), B: T.Buffer((8,), "float32")):
    with T.block("b"):
        T.reads(A[0:64, 0:4])
        T.writes(B[0:8])
        R = T.match_buffer(A[n : n + 2, 0:4], (2, 4))
        V = T.decl_buffer((8,), "float32", data=R.data)
        for i in range(8):
            B[i] = V[i]
""")
    kernel = tl.build(func)
    assert not kernel.report().trusted
    source, found = np.arange(256, dtype="float32").reshape(64, 4), np.zeros(8, "float32")
    for n in (0, 7, 62):
        kernel(n, source, found)
        assert found.tolist() == source.reshape(-1)[n * 4 : n * 4 + 8].tolist()
    # 2**30 rows of 4 elements are 2**32 elements, which wrap to none.
    for n in (-1, 63, 2000000, 2**30, 2**31 - 1, -(2**31)):
        with pytest.raises(IndexError, match="is outside the memory of A"):
            kernel(n, source, found)


def test_an_address_that_reads_memory_is_checked_as_it_was_when_it_was_bound() -> None:
    func: Any = parse("""
@T.prim_func
def f(X: T.Buffer((1,), "int32"), A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
    q: T.handle("float32") = T.address_of(A[X[0]])
    V = T.Buffer((8,), "float32", data=q)
    X[0] = X[0] - 50
    for i in range(8):
        B[i] = V[i]
""")
    kernel = tl.build(func)
    assert not kernel.report().trusted
    source, found = np.arange(64, dtype="float32"), np.zeros(8, "float32")
    for at in (0, 5, 56):
        kernel(np.array([at], "int32"), source, found)
        assert found.tolist() == source[at : at + 8].tolist()
    for at in (-1, 57, 2000000, 2**31 - 1, -(2**31)):
        with pytest.raises(IndexError, match="outside"):
            kernel(np.array([at], "int32"), source, found)


def test_an_access_pointer_that_reads_memory_is_checked() -> None:
    func: Any = parse("""
@T.prim_func
def f(X: T.Buffer((1,), "int64"), A: T.Buffer((64,), "float32"), B: T.Buffer((8,), "float32")):
    q: T.handle("float32") = T.tvm_access_ptr(T.type_annotation("float32"), A.data, X[0], 8, 1)
    V = T.Buffer((8,), "float32", data=q)
    for i in range(8):
        B[i] = V[i]
""")
    kernel = tl.build(func)
    assert not kernel.report().trusted
    source, found = np.arange(64, dtype="float32"), np.zeros(8, "float32")
    for at in (0, 5, 56):
        kernel(np.array([at]), source, found)
        assert found.tolist() == source[at : at + 8].tolist()
    for at in (-1, 57, 2000000, 2**62, 2**63 - 1, -(2**63)):
        with pytest.raises(IndexError, match="outside the memory of A"):
            kernel(np.array([at]), source, found)


@pytest.mark.parametrize(
    ("extent", "shape", "proved"),
    [
        ("m * n", "m, n", True),
        ("n * m", "m, n", True),
        ("m * n + m", "m, n + 1", True),
        ("m * (n + 1)", "m, n", False),  # m may be below zero
        ("m * n - 1", "m, n", False),
        ("m * n // 2 * 2", "m, n", False),
        ("n", "m, n", False),
    ],
)
@pytest.mark.by_day
def test_a_view_of_as_many_elements_as_a_parameter(extent: str, shape: str, proved: bool) -> None:
    m, n = 3, 4
    text = f"""
    @T.prim_func
    def f(m: T.int32, n: T.int32, A: T.Buffer(({extent},), "float32")):
        V = T.decl_buffer(({shape}), "float32", data=A.data)
        for i, j in T.grid(m, n):
            V[i, j] = T.float32(1)
    """
    kernel = tl.build(parse(dedent(text)))
    assert bool(kernel.report().guarded) != proved, kernel.report()
    size = eval(extent, {"m": m, "n": n})
    given = np.zeros(size, "float32")
    if size < m * n:
        with pytest.raises(IndexError, match="outside the memory of A"):
            kernel(m, n, given)
    else:
        kernel(m, n, given)
        assert given.sum() == m * n
    for sizes in ((1 << 16, 1 << 16), (1 << 16, 1 << 15)):
        with pytest.raises(tl.ArgumentError):
            kernel(*sizes, np.zeros(0, "float32"))


def test_what_is_allocated_may_have_wrapped() -> None:
    @T.prim_func
    def f(m: T.int32, n: T.int32, A: T.Buffer((1,), "float32")):
        B = T.alloc_buffer((m * n,), "float32")
        V = T.decl_buffer((m, n), "float32", data=B.data)
        for i, j in T.grid(m, n):
            V[i, j] = T.float32(1)
        A[0] = V[0, 0]

    assert tl.build(f).report().guarded
