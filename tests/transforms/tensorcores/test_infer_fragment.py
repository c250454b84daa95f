from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import AttrStmt, PrimFunc, pre_order_visit
from tirlower.script import parse
from tirlower.transforms import InferFragment

PASS = InferFragment()


def product(dtype: str = "float16", out: str = "float32", m: int = 16, n: int = 16, k: int = 16, right: str = "row_major") -> PrimFunc:  # fmt: skip
    stride = n if right == "row_major" else k
    return parse(f"""
@T.prim_func
def f(A: T.Buffer(({m * k},), "{dtype}"), B: T.Buffer(({k * n},), "{dtype}"), C: T.Buffer(({m * n},), "{out}")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        a = T.alloc_buffer(({m * k},), "{dtype}", scope="wmma.matrix_a")
        b = T.alloc_buffer(({k * n},), "{dtype}", scope="wmma.matrix_b")
        c = T.alloc_buffer(({m * n},), "{out}", scope="wmma.accumulator")
        T.tvm_fill_fragment(c.data, {m}, {n}, {k}, 0, T.{out}(0))
        T.tvm_load_matrix_sync(a.data, {m}, {n}, {k}, 0, A.access_ptr("r"), {k}, "row_major")
        T.tvm_load_matrix_sync(b.data, {m}, {n}, {k}, 0, B.access_ptr("r"), {stride}, "{right}")
        T.tvm_mma_sync(c.data, 0, a.data, 0, b.data, 0, c.data, 0)
        T.tvm_store_matrix_sync(c.data, {m}, {n}, {k}, 0, C.access_ptr("w"), {n}, "row_major")
""")


def marks(func: PrimFunc) -> set[tuple[str, str, str]]:
    found: set[tuple[str, str, str]] = set()

    def look(op: object) -> None:
        if isinstance(op, AttrStmt) and op.key.startswith("fragment"):
            found.add((op.node.name, op.key, op.value.value))

    pre_order_visit(func.body, look)
    return found


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (8, 32, 16), (32, 8, 16)])
@pytest.mark.parametrize("right", ["row_major", "col_major"])
@pytest.mark.by_day
def test_shapes_and_layouts(m: int, n: int, k: int, right: str) -> None:
    before = product(m=m, n=n, k=k, right=right)
    after = check(PASS, before)
    shape = f"{m}, {n}, {k}"
    assert marks(after) == {
        ("a", "fragment_shape", shape), ("b", "fragment_shape", shape), ("c", "fragment_shape", shape),
        ("a", "fragment_layout", "row_major"), ("b", "fragment_layout", right),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, m * k).astype(np.float16), rng.integers(-4, 5, k * n).astype(np.float16)
    c = np.zeros(m * n, np.float32)
    interpret(after, a, b, c, seed=1)
    left = a.reshape(m, k).astype(np.float32)
    matrix = b.reshape(k, n) if right == "row_major" else b.reshape(n, k).T
    np.testing.assert_array_equal(c.reshape(m, n), left @ matrix.astype(np.float32))


@pytest.mark.parametrize(("dtype", "out"), [("int8", "int32"), ("bfloat16", "float32"), ("float16", "float16")])
def test_types(dtype: str, out: str) -> None:
    assert len(marks(check(PASS, product(dtype, out)))) == 5


def test_allocations_in_inner_scopes() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((512,), "float16"), B: T.Buffer((512,), "float16"), n: T.int32):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            for i in range(n):
                r = T.alloc_buffer((1,), "float16", scope="local")
                a = T.alloc_buffer((256,), "float16", scope="wmma.matrix_b")
                r[0] = A[0]
                if n > 1:
                    T.tvm_fill_fragment(a.data, 16, 16, 16, 0, r[0])
                else:
                    T.tvm_load_matrix_sync(
                        a.data, 16, 16, 16, 0, A.access_ptr("r", offset=ty * 256, extent=256), 16, "col_major")
                T.tvm_store_matrix_sync(
                    a.data, 16, 16, 16, 0, B.access_ptr("w", offset=ty * 256, extent=256), 16, "col_major")
""")
    after = check(PASS, before)
    assert marks(after) == {("a", "fragment_shape", "16, 16, 16"), ("a", "fragment_layout", "col_major")}


def test_several_fragments_of_a_buffer() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        c = T.alloc_buffer((1024,), "float32", scope="wmma.accumulator")
        for i in range(4):
            T.tvm_load_matrix_sync(c.data, 16, 16, 16, i, A.access_ptr("r", offset=i * 256, extent=256), 16, "row_major")
        for i in range(4):
            T.tvm_store_matrix_sync(
                c.data, 16, 16, 16, 3 - i, B.access_ptr("w", offset=i * 256, extent=256), 16, "col_major")
""")
    assert marks(check(PASS, before)) == {("c", "fragment_shape", "16, 16, 16")}


def test_without_fragments_nothing_changes() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        s = T.alloc_buffer((32,), "float32", scope="shared")
        s[tx] = A[tx]
        A[tx] = s[tx] * T.float32(2)
""")
    check(PASS, func, func)


def test_an_unused_fragment_has_no_attribute() -> None:
    text = (
        product()
        .script()
        .replace(
            "    c = T.alloc", '    d = T.alloc_buffer((256,), "float16", scope="wmma.matrix_a")\n        c = T.alloc'
        )
    )
    assert not any(mark[0] == "d" for mark in marks(check(PASS, parse(text))))


def test_attributes_that_are_there_stay() -> None:
    once = PASS(product())
    assert PASS(once) is once
    assert PASS(parse(once.script())).script().count("fragment_shape") == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(a.data, 16, 16, 16, 0", "(a.data, 8, 32, 16, 0", "'c' of shape 16, 16, 16 are multiplied with 'a' of shape 8, 32, 16"),
        ("T.tvm_store_matrix_sync(c.data, 16, 16, 16", "T.tvm_store_matrix_sync(c.data, 32, 8, 16", "'c' have different shapes: 16, 16, 16 and 32, 8, 16"),
        ("(c.data, 16, 16, 16, 0, T.float32", "(c.data, tx, 16, 16, 0, T.float32", "'c' have a shape that is no constant"),
        ('16, "row_major")', '16, "diagonal")', "'a' have the layout diagonal"),
        ("T.tvm_mma_sync", 'T.tvm_load_matrix_sync(a.data, 16, 16, 16, 0, A.access_ptr("r"), 16, "col_major")\n        T.tvm_mma_sync', "'a' are loaded with different layouts: row_major and col_major"),
    ],
)  # fmt: skip
def test_errors_by_name(old: str, new: str, message: str) -> None:
    text = product().script()
    assert old in text
    with pytest.raises(TransformError, match=message):
        PASS(parse(text.replace(old, new, 1)))
