from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, roundtrips, same_function
from tirlower.interp import interpret
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms.memory.pointer_type import PointerValueTypeRewrite, rewrite_pointer_types

REWRITE = PointerValueTypeRewrite()


def runs_alike(before, after, *args, lanes: int = 4) -> None:
    """Run both; arrays whose parameter became one of vectors are given a last dimension of lanes."""
    verify_well_formed(after)
    roundtrips(after)
    first = [a.copy() for a in args]
    second = [
        a.copy().reshape(*a.shape[:-1], -1, lanes) if after.buffer_map[p].dtype.lanes > 1 else a.copy()
        for p, a in zip(after.params, args, strict=True)
    ]
    interpret(before, *first)
    interpret(after, *second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.ravel(), b.ravel())
    assert REWRITE(after) is after


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1


def test_parameters_and_allocations_get_vectors() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        B = T.alloc_buffer((16,), "float32")
        for i in range(4):
            B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)] * T.Broadcast(T.float32(2), 4)
        for i in range(4):
            C[T.Ramp(i * 4, 1, 4)] = B[T.Ramp(12 - i * 4, 1, 4)]

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32x4"), C: T.Buffer((4,), "float32x4")):
        B = T.alloc_buffer((4,), "float32x4")
        for i in range(4):
            B[T.Div(i * 4, 4)] = A[T.Div(i * 4, 4)] * T.Broadcast(T.float32(2), 4)
        for i in range(4):
            C[T.Div(i * 4, 4)] = B[T.Div(12 - i * 4, 4)]

    after = REWRITE(before)
    same_function(after, expected)
    runs_alike(before, after, floats(16), floats(16))


def test_loads_of_single_elements_become_lanes() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
        L = T.alloc_buffer((16,), "float32", scope="local")
        for i in range(4):
            L[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
        for i in range(4):
            B[i] = L[i * 4] + L[i * 4 + 1] + L[i * 4 + 2] + L[i * 4 + 3] + L[5]

    @T.prim_func
    def expected(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32")):
        L = T.alloc_buffer((4,), "float32x4", scope="local")
        for i in range(4):
            L[T.Div(i * 4, 4)] = A[T.Div(i * 4, 4)]
        for i in range(4):
            B[i] = (
                T.Shuffle([L[T.Div(i * 4, 4)]], [0])
                + T.Shuffle([L[T.Div(i * 4 + 1, 4)]], [1])
                + T.Shuffle([L[T.Div(i * 4 + 2, 4)]], [2])
                + T.Shuffle([L[T.Div(i * 4 + 3, 4)]], [3])
                + T.Shuffle([L[1]], [1])
            )

    after = REWRITE(before)
    same_function(after, expected)
    runs_alike(before, after, floats(16), floats(4))


def test_a_load_of_unknown_lane_keeps_the_scalar_type() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        L = T.alloc_buffer((16,), "float32")
        for i in range(4):
            L[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
        for i in range(16):
            B[i] = L[i]

    after = REWRITE(before)
    assert [str(after.buffer_map[p].dtype) for p in after.params] == ["float32x4", "float32"]
    assert str(after.body.stmts[0].buffer.dtype) == "float32"
    runs_alike(before, after, floats(16), floats(16))


def test_scalar_stores_misaligned_and_mixed_widths_keep_the_scalar_type() -> None:
    @T.prim_func
    def before(
        A: T.Buffer((16,), "float32"),
        B: T.Buffer((16,), "float32"),
        C: T.Buffer((16,), "float32"),
        D: T.Buffer((18,), "float32"),
        E: T.Buffer((16,), "float32"),
    ):
        A[T.Ramp(0, 1, 4)] = A[T.Ramp(4, 1, 4)]
        A[9] = T.float32(1)
        B[T.Ramp(2, 1, 4)] = B[T.Ramp(8, 1, 4)]
        C[T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(0), 4)
        C[T.Ramp(8, 1, 8)] = T.Broadcast(T.float32(0), 8)
        D[T.Ramp(0, 1, 4)] = T.Broadcast(T.float32(0), 4)
        E[T.Ramp(0, 2, 4)] = T.Broadcast(T.float32(0), 4)

    check(REWRITE, before, before)


def test_symbolic_extents_are_divided_where_they_divide() -> None:
    @T.prim_func
    def before(n: T.int32, a: T.handle, b: T.handle):
        A = T.match_buffer(a, (n * 4,), "int32")
        B = T.match_buffer(b, (n,), "int32")
        for i in range(n):
            A[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)] + T.Broadcast(i, 4)
        B[T.Ramp(0, 1, 4)] = T.Broadcast(7, 4)

    after = REWRITE(before)
    shapes = [(str(after.buffer_map[p].shape[0]), str(after.buffer_map[p].dtype)) for p in after.params[1:]]
    assert shapes == [("n", "int32x4"), ("n", "int32")]
    a, b = np.arange(20, dtype="int32"), np.zeros(5, "int32")
    c, d = a.reshape(5, 4).copy(), b.copy()
    interpret(before, 5, a, b)
    interpret(after, 5, c, d)
    np.testing.assert_array_equal(a, c.ravel())


def test_pointers_views_strides_and_masks() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), O: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((16,), "int32")
        V = T.decl_buffer((4, 4), "int32", data=B.data)
        C = T.alloc_buffer((16,), "int32")
        D = T.alloc_buffer((16,), "int32")
        W = T.decl_buffer((32,), "int16", data=D.data)
        E = T.alloc_buffer((16,), "int32")
        for i in range(4):
            B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
            C[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
            D[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
            E.vstore([T.Ramp(i * 4, 1, 4)], T.Broadcast(1, 4), predicate=T.Ramp(0, 1, 4) < T.Broadcast(9, 4))
        T.evaluate(T.call_extern("handle", "memset", C.access_ptr("w"), 0, 4))
        O[T.Ramp(0, 1, 4)] = V[2, T.Ramp(0, 1, 4)] + C[T.Ramp(0, 1, 4)]
        O[T.Ramp(4, 1, 4)] = T.Cast("int32x4", W[T.Ramp(0, 1, 4)]) + E[T.Ramp(8, 1, 4)]

    after = REWRITE(before)
    kinds = {
        s.buffer.name: str(s.buffer.dtype)
        for s in after.body.stmts
        if hasattr(s, "buffer") and hasattr(s, "annotations")
    }
    assert kinds == {"B": "int32x4", "C": "int32", "D": "int32", "E": "int32"}
    runs_alike(before, after, np.arange(16, dtype="int32"), np.zeros(16, "int32"))


def test_constants_stay_arrays_of_scalars() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        data = T.allocate_const([1, 2, 3, 4, 5, 6, 7, 8], "int32", (8,))
        K = T.decl_buffer((8,), "int32", data=data)
        for i in range(2):
            A[T.Ramp(i * 4, 1, 4)] = K[T.Ramp(4 - i * 4, 1, 4)]

    check(rewritten_inside, before, before)
    after = REWRITE(before)
    assert str(after.buffers[0].dtype) == "int32x4" and 'T.Buffer((8,), "int32"' in after.script()
    runs_alike(before, after, np.zeros(8, "int32"))


def rewritten_inside(func):
    """As StorageRewrite uses it: the signature stays."""
    return rewrite_pointer_types(func, params=False, shuffles=False)


def test_matrices_and_nested_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
        B = T.alloc_buffer((4, 8), "float32")
        for i, j in T.grid(4, 2):
            B[i, T.Ramp(j * 4, 1, 4)] = A[i, T.Ramp(j * 4, 1, 4)]
        for i in T.serial(0, 4):
            for j in T.serial(0, 2):
                C[i, T.Ramp(j * 4, 1, 4)] = B[3 - i, T.Ramp(4 - j * 4, 1, 4)]

    inside = check(rewritten_inside, before)
    assert str(inside.body.stmts[0].buffer.dtype) == "float32x4"
    runs_alike(before, REWRITE(before), floats(4, 8), floats(4, 8))


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_pointer_bound_to_a_name(first: int) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((20,), "float32"), C: T.Buffer((16,), "float32")):
    p: T.handle("float32") = T.address_of(A[{first}])
    q: T.handle("float32") = p
    P = T.decl_buffer((16,), "float32", data=p)
    Q = T.Buffer((16,), "float32", data=q)
    for i in range(4):
        P[i * 4:i * 4 + 4] = P[i * 4:i * 4 + 4] + T.Broadcast(T.float32(1), 4)
    for i in range(4):
        C[i] = Q[i * 4 + 2]
        C[i + 4] = Q[i]
""")
    after = check(PointerValueTypeRewrite(), func)
    text = after.script()
    assert 'p: T.handle("float32x4")' in text and 'q: T.handle("float32")' in text
    # What a pointer is aligned to is not known: machine code takes any.
    a, c = np.arange(20, dtype="float32"), np.zeros(16, "float32")
    b, d = a.copy(), c.copy()
    interpret(func, a, c)
    tl.build(after, schedule="none")(b, d)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(c, d)


def test_a_bound_pointer_that_is_accessed_by_elements_keeps_its_type() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "float32")):
    p: T.handle("float32") = T.address_of(A[0])
    P = T.decl_buffer((16,), "float32", data=p)
    for i in range(4):
        P[i * 4:i * 4 + 4] = P[i * 4:i * 4 + 4] + T.Broadcast(T.float32(1), 4)
    P[3] = T.float32(0)
""")
    check(PointerValueTypeRewrite(), func, func)


def test_memory_whose_pointer_is_given_to_a_call_keeps_its_type() -> None:
    """The callee's offset counts elements: of vectors it would be another place."""

    @T.prim_func
    def tile(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float16")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((256,), "float16", scope="shared")
            r = T.alloc_buffer((2,), "float16", scope="local")
            s[T.Ramp(tx * 8, 1, 8)] = A[T.Ramp(tx * 8, 1, 8)]
            T.tvm_storage_sync("shared")
            T.ptx_ldmatrix("float16", False, 1, ".b16", r.data, 0, s.data, 64 + tx % 8 * 8)
            B[T.Ramp(tx * 2, 1, 2)] = r[T.Ramp(0, 1, 2)]

    after = rewrite_pointer_types(tile, params=False)
    assert '"float16x' not in after.script()
    a, b = np.arange(256).astype("float16"), np.zeros(256, "float16")
    tl.simulate(tl.lower(tile, "nvptx -arch=sm_80"), a, b)
    np.testing.assert_array_equal(b[:64], a[64:128])
