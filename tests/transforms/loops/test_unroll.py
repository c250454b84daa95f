from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerOpaqueBlock, PassContext, UnrollLoop


def test_a_marked_loop_becomes_one_copy_for_each_iteration() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            for j in T.unroll(2):
                A[i, j + 1] = A[i, j] * T.float32(2)

    @T.prim_func
    def expected(A: T.Buffer((4, 4), "float32")):
        for i in range(4):
            A[i, 1] = A[i, 0] * T.float32(2)
            A[i, 2] = A[i, 1] * T.float32(2)

    check(UnrollLoop(), before, expected)


def test_a_loop_that_says_so_stays_whatever_the_options_say() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "float32")):
        for i in T.serial(4, annotations={"tir.no_unroll": True}):
            A[i] = T.float32(1)

    check(UnrollLoop(auto_max_step=100), before, before)


@pytest.mark.parametrize("extent", [0, 1, 5])
def test_extents_and_minimums(extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int16"), n: T.int32):
        A[7] = T.int16(1)
        for i in T.unroll(2, 2 + extent):
            A[i] = T.Cast("int16", i * n)
        for k in range(n - n, 1):
            for i in T.unroll(k - 3, k - 3 + extent):
                A[i + 3] = A[i + 3] + T.Cast("int16", i)

    after = check(UnrollLoop(), before)
    assert "unroll" not in after.script()


def test_nested_loops_inner_ones_first() -> None:
    @T.prim_func
    def before(A: T.Buffer((6,), "int32")):
        for i in T.unroll(2):
            for j in T.unroll(3):
                A[i * 3 + j] = i * 10 + j

    after = check(UnrollLoop(), before)
    assert len(after.body.stmts) == 6


def test_what_a_copy_defines_is_its_own() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), C: T.Buffer((4,), "int32")):
        for i in T.unroll(3):
            B = T.alloc_buffer((4,), "int32")
            V = T.decl_buffer((2, 2), "int32", data=B.data)
            W = T.decl_buffer((16,), "int32", data=A.data)
            x: T.int32 = C[i]
            for k in range(4):
                B[k] = W[i * 4 + k] + x
            y = T.int32()
            C[i + 1] = V[1, 0] + T.Let(y + y, where={y: B[0]})

    check(UnrollLoop(), before)


def test_a_declaration_alone_does_not_reach_other_copies() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.unroll(2):
            _x: T.int32 = A[i]
        A[0] = 7

    check(UnrollLoop(), before)


def test_steps_depth_and_extent_choose_serial_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(4):
            A[i] = i
        for i in range(16):
            A[i] = A[i] + 1
        for i in range(n):
            A[i] = A[i] + 2

    assert check(UnrollLoop(auto_max_step=4), before).script().count("for ") == 2
    assert check(UnrollLoop(auto_max_step=16), before).script().count("for ") == 1
    assert check(UnrollLoop(auto_max_extent=4), before).script().count("for ") == 2
    assert check(UnrollLoop(), before, before) is before
    with PassContext(config={"tir.UnrollLoop": {"auto_max_step": 16}}):
        assert UnrollLoop()(before).script().count("for ") == 1


def test_loops_around_loops_are_not_chosen() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), n: T.int32):
        for i in range(2):
            for j in range(n):
                A[i * n + j] = 1
        for i in range(2):
            for j in range(2):
                A[i * 2 + j] = A[i * 2 + j] + 1

    after = check(UnrollLoop(auto_max_step=64), before)
    assert after.script().count("for ") == 1 and "T.grid(2, n)" in after.script()
    # The inner loop counts as an unrolled level: a depth of 0 allows one.
    shallow = check(UnrollLoop(auto_max_step=64, auto_max_depth=0), before, idempotent=False)
    assert "for i in range(2)" in shallow.script()


def test_without_copying_loops_are_marked() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in T.unroll(2):
            A[i] = i
        for i in range(4):
            A[i] = A[i] + 1

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        for i in T.unroll(2):
            A[i] = i
        for i in T.unroll(4):
            A[i] = A[i] + 1

    check(UnrollLoop(auto_max_step=8, explicit_unroll=False), before, expected)


def test_pragmas_of_loops_and_regions() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in T.serial(4, annotations={"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": 1}):
            A[i] = i
        with T.attr(0, "pragma_auto_unroll_max_step", 2):
            for i in range(2):
                A[i] = A[i] + 1
            for i in range(3):
                A[i] = A[i] + 2
        with T.attr(0, "pragma_unroll_explicit", 0):
            for i in T.unroll(2):
                A[i] = A[i] + 3

    @T.prim_func
    def expected(A: T.Buffer((8,), "int32")):
        A[0] = 0
        A[1] = 1
        A[2] = 2
        A[3] = 3
        A[0] = A[0] + 1
        A[1] = A[1] + 1
        for i in range(3):
            A[i] = A[i] + 2
        for i in T.unroll(2):
            A[i] = A[i] + 3

    check(UnrollLoop(), before, expected, idempotent=False)


def test_loops_that_index_local_memory() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32", scope="local")
        for i in range(8):
            B[i] = A[i]
        for i in range(8):
            A[i] = A[i] + T.float32(1)
        A[0] = B[7]

    after = check(UnrollLoop(unroll_local_access=True), before)
    assert after.script().count("for ") == 1


def test_views_calls_predicates_and_while_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "float32"), n: T.int32):
        for i in T.unroll(4):
            V = T.decl_buffer((4,), "float32", data=A.data, elem_offset=i * 4)
            V.vstore([T.Ramp(0, 1, 4)], T.Broadcast(T.float32(i), 4), predicate=T.Ramp(i, 1, 4) < T.Broadcast(n, 4))
            while V[0] < T.float32(2):
                V[0] = V[0] + T.float32(1)
            if i != 2:
                T.evaluate(T.call_extern("handle", "memset", T.address_of(A[i, 3]), 0, 4))

    check(UnrollLoop(), before)


def test_loops_that_are_left_early_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in T.unroll(4):
            if A[i] > 3:
                T.evaluate(T.break_loop())
            A[i] = i

    after = check(UnrollLoop(), before, before)
    assert after is before


def test_an_extent_that_is_not_constant_is_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32")):
        for i in T.unroll(n):
            A[i] = i

    with pytest.raises(TransformError, match="cannot unroll loop 'i': its extent n is not a constant") as error:
        UnrollLoop()(before)
    assert error.value.origin == "tir.UnrollLoop"


def test_too_many_copies_are_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((4000,), "int32")):
        for i in T.unroll(4000):
            for j in T.unroll(4000):
                A[i] = j

    with pytest.raises(TransformError, match="would make more than 1000000 statements"):
        UnrollLoop()(before)


def test_short_serial_loops_that_are_left_early_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            if A[i] > 20:
                break
            B[i] = A[i]
        for i in range(8):
            if A[i] < 0:
                continue
            B[i] = B[i] + 1

    check(UnrollLoop(auto_max_extent=16, auto_max_step=100), before, before)


def test_values_beyond_int32() -> None:
    @T.prim_func
    def before(A: T.Buffer((2,), "int64")):
        for i in T.unroll(T.int64(4294967296), T.int64(4294967298)):
            A[i - T.int64(4294967296)] = i

    @T.prim_func
    def expected(A: T.Buffer((2,), "int64")):
        A[T.int64(0)] = T.int64(4294967296)
        A[T.int64(1)] = T.int64(4294967297)

    check(UnrollLoop(), before, expected)


@pytest.mark.parametrize("count", [2049, 2080, 10007, 100000])
@pytest.mark.parametrize("start", [0, -3, 1000])
def test_a_very_long_loop_is_copied_in_groups(count: int, start: int) -> None:
    func = parse(
        f"@T.prim_func\ndef f(A: T.Buffer(({count},), 'int32')):\n"
        f"    for i in T.unroll({start}, {start + count}):\n        A[i - {start}] = A[i - {start}] * 3 + i\n"
    )
    grouped = UnrollLoop(grouped=True)(func)
    assert 32 <= grouped.script().count("A[") // 2 < 100
    args = [np.arange(count, dtype="int32") % 11 for _ in range(2)]
    tl.build(func, schedule="none")(args[0])
    np.testing.assert_array_equal(args[0], args[1] * 3 + np.arange(start, start + count))


def test_nested_long_loops_are_copied_in_groups() -> None:
    func = parse(
        "@T.prim_func\ndef f(A: T.Buffer((300, 300), 'int32')):\n"
        "    for i in T.unroll(300):\n        for j in T.unroll(300):\n            A[i, j] = A[i, j] * 2 + i - j\n"
    )
    grouped = UnrollLoop(grouped=True)(func)
    assert grouped.script().count("\n") < 10000
    a = np.arange(90000, dtype="int32").reshape(300, 300)
    want = a * 2 + np.arange(300)[:, None] - np.arange(300)
    tl.build(func, schedule="none")(a)
    np.testing.assert_array_equal(a, want)


TILE = """
@T.prim_func
def tile(A: T.Buffer((16, 4), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((4, 16), "float32")):
    acc = T.alloc_buffer((4, 16), "float32", scope="local")
    for i in T.unroll(4):
        for j in T.unroll(2):
            acc[i, j * 8:j * 8 + 8] = T.Broadcast(T.float32(0), 8)
    for k in range(16):
        for i in T.unroll(4):
            for j in T.unroll(2):
                UPDATE
    for i in T.unroll(4):
        for j in T.unroll(2):
            C[i, j * 8:j * 8 + 8] = acc[i, j * 8:j * 8 + 8]
"""
ELEMENT = "acc[i, j * 8:j * 8 + 8]"
PRODUCT = f"{ELEMENT} = {ELEMENT} + T.Broadcast(A[k, i], 8) * B[k, j * 8:j * 8 + 8]"

#: updates in a nest of eight copies, and how many marked loops are left to LLVM
UPDATES = {
    "a product": (PRODUCT, 2),
    "a fused product": (f"{ELEMENT} = T.fma(T.Broadcast(A[k, i], 8), B[k, j * 8:j * 8 + 8], {ELEMENT})", 2),
    "two updates": (f"{PRODUCT}\n                {PRODUCT}", 2),
    "a condition": (f"if i + j < k:\n                    {PRODUCT}", 0),
    "a choice": (f"{ELEMENT} = {ELEMENT} + T.Broadcast(T.if_then_else(i < 2, A[k, i], 1.0), 8)", 0),
    "no update": (f"{ELEMENT} = {ELEMENT.replace('j *', '(1 - j) *')} + B[k, j * 8:j * 8 + 8]", 0),
    "elements": ("acc[i, j] = acc[i, j] + A[k, i] * B[k, j]", 0),
    "a long sum": (PRODUCT + " + B[k, j * 8:j * 8 + 8]" * 20, 0),
    "a constant divided by": (PRODUCT.replace("A[k, i]", "A[T.truncdiv(k * 4 + i, 4), i]"), 2),
    "something divided by": (PRODUCT.replace("A[k, i]", "A[k, T.truncdiv(i, k + 1)]"), 0),
}


@pytest.mark.parametrize("name", UPDATES)
def test_nests_that_update_vectors_in_place_are_left_to_llvm(name: str) -> None:
    update, left = UPDATES[name]
    before = parse(TILE.replace("UPDATE", update))
    rng = np.random.default_rng(0)
    inputs = [(rng.random((16, 4), np.float32), rng.random((16, 16), np.float32), np.zeros((4, 16), np.float32))]
    after = check(UnrollLoop(by_llvm=True), before, inputs=inputs)
    assert after.script().count("T.unroll(") == left
    assert "T.unroll" not in check(UnrollLoop(), before, inputs=inputs).script()


@pytest.mark.parametrize("rows, left", [(3, False), (4, True), (128, True), (129, False)])
def test_few_copies_and_thousands_are_our_own(rows: int, left: bool) -> None:
    text = TILE.replace("UPDATE", PRODUCT).replace("(4, 16)", f"({rows}, 16)").replace("(16, 4)", f"(16, {rows})")
    func = parse(text.replace("T.unroll(4)", f"T.unroll({rows})"))
    assert ("T.unroll" in UnrollLoop(by_llvm=True)(func).script()) == left


def test_pragmas_of_loops_that_are_unrolled() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in T.serial(2, annotations={"pragma_note": 1}):
            for j in T.unroll(4, annotations={"pragma_note": 2}):
                A[i * 4 + j] = j

    after = check(UnrollLoop(), check(LowerOpaqueBlock(), before))
    assert after.script().count("for ") == 1
