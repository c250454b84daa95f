from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check
from tirlower.diagnostics import BoundsError, TransformError
from tirlower.interp import interpret
from tirlower.ir import AllocBuffer, PrimFunc, pre_order_visit
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, LowerTVMBuiltin, LowerVtcmAlloc, PassContext, VerifyVTCMLimit


def allocations(func: PrimFunc) -> list[str]:
    found: list[str] = []
    pre_order_visit(func.body, lambda op: found.append(op.buffer.scope) if isinstance(op, AllocBuffer) else None)
    return found


def staged(shape: str = "(6, 4)", dtype: str = "float32", scope: str = "global.vtcm") -> PrimFunc:
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((6, 4), "{dtype}"), B: T.Buffer((6, 4), "{dtype}")):
    S = T.alloc_buffer({shape}, "{dtype}", scope="{scope}")
    L = T.alloc_buffer((4,), "{dtype}")
    for i in range(1, 6):
        for j in range(4):
            S[i, j] = A[i, j]
        for j in range(4):
            L[j] = S[i, 3 - j]
            B[i, j] = L[j]
""")


def test_before_and_after() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int8")):
        S = T.alloc_buffer((8,), "int8", scope="global.vtcm")
        for i in range(8):
            S[i] = A[i]
        for i in range(8):
            B[i] = S[7 - i]

    @T.prim_func
    def expected(A: T.Buffer((8,), "int8"), B: T.Buffer((8,), "int8")):
        p: T.handle("int8", "global.vtcm") = T.nd_mem_alloc_with_scope(
            "global.vtcm", T.int64(1), T.tvm_stack_make_shape(8), dtype="handle"
        )
        S = T.decl_buffer((8,), "int8", data=p, scope="global.vtcm")
        for i in range(8):
            S[i] = A[i]
        for i in range(8):
            B[i] = S[7 - i]

    check(LowerVtcmAlloc(), before, expected)


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "bool", "bfloat16"])
def test_several_dimensions_and_dtypes(dtype: str) -> None:
    after = check(LowerVtcmAlloc(), staged(dtype=dtype))
    assert allocations(after) == ["global"]
    check(LowerVtcmAlloc(), FlattenBuffer()(staged(dtype=dtype)))


def test_other_scopes_stay() -> None:
    func = staged(scope="global")
    check(LowerVtcmAlloc(), func, func)


def test_symbolic_sizes_and_empty_ones() -> None:
    @T.prim_func
    def func(A: T.Buffer(("n", "m"), "float16"), B: T.Buffer(("n", "m"), "float16")):
        S = T.alloc_buffer((n, m), "float16", scope="global.vtcm")
        for i, j in T.grid(n, m):
            S[n - 1 - i, j] = A[i, j]
        for i, j in T.grid(n, m):
            B[i, j] = S[i, j]

    after = check(LowerVtcmAlloc(), func, sizes=(0, 1, 2, 7))
    assert not allocations(after)


def test_vectors_and_strides_get_enough_memory() -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
        S = T.alloc_buffer((8,), "float32x32", scope="global.vtcm")
        W = T.alloc_buffer((8, 3), "float32", strides=(40, 9), scope="global.vtcm")
        for i in range(8):
            S[i] = A[i, 0:32]
            for j in range(3):
                W[i, j] = A[i, j]
        for i in range(8):
            B[i, 0:32] = S[7 - i]
            for j in range(3):
                B[i, j] = B[i, j] + W[i, 2 - j]

    after = check(LowerVtcmAlloc(), func)
    assert "T.tvm_stack_make_shape(8, T.int64(32))" in after.script()
    assert "T.int64(299)" in after.script()  # 7 * 40 + 2 * 9 + 1


def test_allocations_in_loops_branches_and_nested_scopes() -> None:
    @T.prim_func
    def func(A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32"), n: T.int32):
        for i in range(6):
            if i < n:
                S = T.alloc_buffer((2,), "int32", scope="global.vtcm")
                S[0] = A[i]
                Q = T.alloc_buffer((1,), "int32", scope="local.vtcm")
                Q[0] = S[0] * 2
                B[i] = Q[0]
            else:
                k = T.alloc_buffer((1,), "int32", scope="global.vtcm")
                k[0] = 0
                while k[0] < 3:
                    k[0] = k[0] + 1
                B[i] = k[0]

    after = check(
        LowerVtcmAlloc(), func, inputs=[[np.arange(6, dtype="int32"), np.zeros(6, "int32"), n] for n in (0, 3, 9)]
    )
    assert not allocations(after)


def test_views_and_pointers_of_it() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        S = T.alloc_buffer((8,), "int32", scope="global.vtcm")
        half = T.decl_buffer((4,), "int32", data=S.data, elem_offset=4, scope="global.vtcm")
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(S[0]), T.address_of(A[0]), 32))
        for i in range(4):
            half[i] = half[i] + 1
        T.evaluate(
            T.call_extern(
                "handle",
                "memcpy",
                T.address_of(B[0]),
                T.tvm_access_ptr(T.type_annotation("int32"), S.data, 0, 8, 1),
                32,
            )
        )

    check(LowerVtcmAlloc(), func)


def test_an_access_outside_is_still_found() -> None:
    after = LowerVtcmAlloc()(
        parse("""
@T.prim_func
def f(A: T.Buffer((1,), "int32"), k: T.int32):
    S = T.alloc_buffer((4,), "int32", scope="global.vtcm")
    S[k] = A[0]
""")
    )
    interpret(after, np.zeros(1, "int32"), 3)
    with pytest.raises(BoundsError):
        interpret(after, np.zeros(1, "int32"), 4)


def test_a_condition_is_refused() -> None:
    func = staged()
    stmts = func.body.stmts
    conditional = stmts[0].with_(condition=stmts[0].condition.with_(value=0))
    with pytest.raises(TransformError, match="has a condition"):
        LowerVtcmAlloc()(func.with_body(func.body.with_(stmts=(conditional, *stmts[1:]))))


def test_for_hexagon_the_device_allocates() -> None:
    """With LowerTVMBuiltin after it: packed calls of the device, and a release for each allocation."""
    device = '    T.attr("default", "device_id", 0)\n    T.attr("default", "device_type", 12)\n'
    func = parse(staged().script().replace("    S = ", f"{device}    S = ", 1))
    lowered = LowerTVMBuiltin()(LowerVtcmAlloc()(func))
    text = lowered.script()
    assert text.count("device_api.hexagon.alloc_nd") == text.count("device_api.hexagon.free_nd") == 1
    assert "nd_mem_alloc_with_scope" not in text
    a = np.random.default_rng(0).standard_normal((6, 4)).astype("float32")
    b, c = np.zeros_like(a), np.zeros_like(a)
    interpret(func, a, b)
    interpret(lowered, a, c)
    np.testing.assert_array_equal(b, c)


# -- the limit ---------------------------------------------------------------------------------------------------------


def two(first: int, second: int, nested: bool) -> PrimFunc:
    """Two allocations: side by side in two loops, or one while the other lives."""
    inner = "" if nested else "    for k in range(1):\n"
    pad = "    " if nested else "        "
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((1,), "int8")):
    for i in range(1):
        S = T.alloc_buffer(({first},), "int8", scope="global.vtcm")
        S[0] = A[0]
{inner}{pad}{"    " if nested else ""}Q = T.alloc_buffer(({second},), "int8", scope="global.vtcm")
{pad}{"    " if nested else ""}Q[0] = A[0]
""")


def accepted(one: VerifyVTCMLimit, func: PrimFunc) -> bool:
    try:
        assert one(func) is func
    except TransformError as error:
        assert "bytes of VTCM allocated at once" in error.message
        return False
    return True


@pytest.mark.parametrize(("first", "second"), [(100, 28), (7, 93), (64, 64)])
def test_the_peak_counts(first: int, second: int) -> None:
    nested, apart = two(first, second, True), two(first, second, False)
    for limit in (1, first, max(first, second) - 1, max(first, second), first + second - 1, first + second):
        assert accepted(VerifyVTCMLimit(limit), nested) == (first + second <= limit)
        assert accepted(VerifyVTCMLimit(limit), apart) == (max(first, second) <= limit)


def test_the_target_states_the_limit() -> None:
    func = staged()  # 6 * 4 * 4 bytes
    assert accepted(VerifyVTCMLimit(), func)
    for capacity, good in ((96, True), (95, False), (0, True)):
        bound = func.with_attr("target", Target("hexagon", **{"vtcm-capacity": capacity}))
        assert accepted(VerifyVTCMLimit(), bound) == good
        with Target("hexagon", **{"vtcm-capacity": capacity}):
            assert accepted(VerifyVTCMLimit(), func) == good
        assert accepted(VerifyVTCMLimit(limit=200), bound) and not accepted(VerifyVTCMLimit(limit=10), bound)
    with PassContext(config={"tir.VerifyVTCMLimit": {"limit": 95}}):
        assert not accepted(VerifyVTCMLimit(), func)


def test_vectors_count_all_lanes_and_other_scopes_nothing() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((1,), "float32")):
    S = T.alloc_buffer((2,), "float32x8", scope="global.vtcm")
    L = T.alloc_buffer((1000,), "float32")
    L[0] = A[0]
""")
    assert accepted(VerifyVTCMLimit(64), func) and not accepted(VerifyVTCMLimit(63), func)


def test_an_unknown_size_cannot_be_verified() -> None:
    func: Any = parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int8")):
    S = T.alloc_buffer((n,), "int8", scope="global.vtcm")
    S[0] = A[0]
""")
    assert VerifyVTCMLimit()(func) is func
    with pytest.raises(TransformError, match="not constant"):
        VerifyVTCMLimit(1 << 20)(func)
    with pytest.raises(TransformError, match="an integer of at least 0, got 'many'"):
        VerifyVTCMLimit("many")
