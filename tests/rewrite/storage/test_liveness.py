"""Where memory of symbolic size may be allocated."""

from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.script import parse
from tirlower.transforms import StorageRewrite

SOURCE = """
def f(n: T.int32, X: T.Buffer((10,), "float32")):
    for i in {outer}:
        for j in {inner}:
            A = T.alloc_buffer((n,), "float32")
            A[0] = X[j] + T.float32(1)
            X[j] = A[0] * T.float32(2)
"""


@pytest.mark.parametrize(
    ("outer", "inner", "line"),
    [
        ("range(10)", "range(10)", 1),  # both surely run, so the extent is evaluated in any case
        ("T.parallel(10)", "range(10)", 2),  # iterations that run side by side have memory of their own
        ("T.parallel(n)", "range(10)", 2),
        ("range(n)", "range(10)", 2),  # where n is negative there is no allocation
        ("range(10)", "range(n)", 3),
        ("range(n)", "range(0)", 2),  # in a loop of n iterations n is a size, whether the inner loop runs or not
    ],
)
def test_memory_of_symbolic_size_leaves_loops_that_surely_run(outer: str, inner: str, line: int) -> None:
    func = parse(SOURCE.format(outer=outer, inner=inner))
    after = check(StorageRewrite(), func, sizes=(10,), samples=1, idempotent=False)
    lines = [text.strip() for text in after.script().splitlines()]
    nest = sum(text.count(" in ") + text.count("T.grid") for text in lines[: lines.index("A = T.alloc_buffer((n,))")])
    assert nest == line - 1
    assert StorageRewrite()(after) is after


def test_memory_of_symbolic_size_is_shared_across_loops_that_surely_run() -> None:
    func = parse("""
def f(n: T.int32, X: T.Buffer((10,), "float32")):
    for i in range(10):
        A = T.alloc_buffer((n,), "float32")
        A[0] = X[i]
        X[i] = A[0] + T.float32(1)
    for i in range(10):
        B = T.alloc_buffer((n,), "float32")
        B[0] = X[i]
        X[i] = B[0] * T.float32(3)
""")
    after = check(StorageRewrite(), func, sizes=(4,), samples=1)
    assert after.script().count("alloc_buffer") == 1


def test_a_jump_keeps_memory_of_symbolic_size_where_it_is() -> None:
    func = parse("""
def f(n: T.int32, X: T.Buffer((10,), "float32")):
    for i in range(10):
        if X[i] > T.float32(0):
            break
        A = T.alloc_buffer((n,), "float32")
        A[0] = X[i]
        X[i] = A[0] + T.float32(1)
""")
    check(StorageRewrite(), func, func, sizes=(4,), samples=1)


def test_memory_leaves_the_region_of_a_pragma_but_of_no_other_attribute() -> None:
    source = """
def f(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.attr(0, "{key}", 1):
            B = T.alloc_buffer((8,), "float32")
            B[i] = A[i]
            A[i] = B[i] + T.float32(1)
"""
    after = check(StorageRewrite(), parse(source.format(key="pragma_unroll"))).script()
    assert after.index("alloc_buffer") < after.index("range(8)")
    inside = parse(source.format(key="async_scope"))
    check(StorageRewrite(), inside, inside)


def test_the_operand_that_is_read_first_gives_its_memory() -> None:
    func = parse("""
def f(A: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,), "float32")
    B = T.alloc_buffer((8,), "float32")
    D = T.alloc_buffer((8,), "float32")
    for i in range(8):
        C[i] = A[i]
    for i in range(8):
        B[i] = A[7 - i]
    for i in range(8):
        D[i] = B[i] * T.float32(2) + C[i]
    for i in range(8):
        A[i] = D[7 - i]
""")
    assert "D = T.decl_buffer((8,), data=B.data)" in check(StorageRewrite(), func).script()


def test_memory_of_a_size_that_is_bound_is_allocated_behind_the_binding() -> None:
    func = parse("""
def f(n: T.int32, X: T.Buffer((10,), "float32")):
    for i in range(10):
        m: T.int32 = T.max(n, i) % 7 - 1
        for j in range(10):
            A = T.alloc_buffer((T.max(m, 1),), "float32")
            A[0] = X[j] + T.float32(1)
            X[j] = A[0] * T.float32(2)
""")
    lines = [text.strip() for text in check(StorageRewrite(), func, sizes=(10,), samples=1).script().splitlines()]
    at = lines.index("A = T.alloc_buffer((T.max(m, 1),))")
    assert lines[at - 1].startswith("m: T.int32") and lines[at + 1].startswith("for j")
