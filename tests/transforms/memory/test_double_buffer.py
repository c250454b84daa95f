from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tirlower.diagnostics import TransformError
from tirlower.ir import AllocBuffer, PrimFunc, post_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    ConvertBlocksToOpaque,
    FlattenBuffer,
    InjectDoubleBuffer,
    LowerInitBlock,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    PassContext,
    PlanAndUpdateBufferAllocationLocation,
    Simplify,
)

SPLITS = (0, 1, 2, 4)


def sizes(func: PrimFunc) -> list[int]:
    """The elements of the allocations, in order."""
    found: list[int] = []
    post_order_visit(
        func.body, lambda op: found.append(op.buffer.shape[0].value) if isinstance(op, AllocBuffer) else None
    )
    return found


def test_the_last_iteration_stands_behind_the_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((80,), "float32"), C: T.Buffer((80,), "float32")):
        for i in range(10):
            B = T.alloc_buffer((8,), "float32")
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(8):
                    B[j] = A[i * 8 + j]
            for j in range(8):
                C[i * 8 + j] = B[j] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((80,), "float32"), C: T.Buffer((80,), "float32")):
        B = T.alloc_buffer((16,), "float32")
        for j in range(8):
            B[j] = A[j]
        for i in range(9):
            with T.attr(B.data, "double_buffer_write", 1):
                for j in range(8):
                    B[(i + 1) % 2 * 8 + j] = A[(i + 1) * 8 + j]
            for j in range(8):
                C[i * 8 + j] = B[i % 2 * 8 + j] + T.float32(1)
        for j in range(8):
            C[72 + j] = B[8 + j] + T.float32(1)

    check(InjectDoubleBuffer(), before, expected)


def test_a_whole_loop_guards_its_producer() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32"), C: T.Buffer(("n",), "int32")):
        for i in range(n):
            B = T.alloc_buffer((1,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = A[i] * 3
            C[i] = B[0]

    @T.prim_func
    def expected(A: T.Buffer(("n",), "int32"), C: T.Buffer(("n",), "int32")):
        B = T.alloc_buffer((2,), "int32")
        if n > 0:
            B[0] = A[0] * 3
            for i in range(n):
                if T.likely(i + 1 < n):
                    with T.attr(B.data, "double_buffer_write", 1):
                        B[(i + 1) % 2] = A[i + 1] * 3
                C[i] = B[i % 2]

    check(InjectDoubleBuffer(split_loop=0), before, expected, sizes=(0, 1, 2, 7))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("extent", [0, 1, 2, 3, 4, 5, 7, 8, 13])
def test_constant_extents(split: int, extent: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int16"), C: T.Buffer((64,), "int16")):
        for i in range(extent):
            B = T.alloc_buffer((4,), "int16")
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(4):
                    B[j] = A[i * 4 + j]
            for j in range(4):
                C[i * 4 + j] = B[3 - j] + T.int16(1)

    after = check(InjectDoubleBuffer(split_loop=split), before)
    assert sizes(after) == [8]
    check(Simplify(), after)


@pytest.mark.parametrize("split", SPLITS)
def test_symbolic_extents_and_minimums(split: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
        for k in range(2):
            for i in T.serial(k + 3 - n, k + 3):
                B = T.alloc_buffer((1,), "int32")
                with T.attr(B.data, "double_buffer_scope", 1):
                    B[0] = A[i + 13] - i
                C[i + 20] = C[i + 20] + B[0]

    check(InjectDoubleBuffer(split_loop=split), before, sizes=(0, 1, 2, 3, 5, 8))


@pytest.mark.parametrize("split", SPLITS)
def test_several_buffers_of_several_types_that_feed_each_other(split: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((99,), "float32"), C: T.Buffer((99,), "float64"), n: T.int32):
        for i in range(n):
            P = T.alloc_buffer((3,), "float32")
            Q = T.alloc_buffer((3,), "float64", scope="local")
            with T.attr(P.data, "double_buffer_scope", 1):
                for j in range(3):
                    P[j] = A[i * 3 + j]
            with T.attr(Q.data, "double_buffer_scope", 1):
                for j in range(3):
                    Q[j] = T.Cast("float64", P[2 - j]) * T.float64(2)
            for j in range(3):
                C[i * 3 + j] = Q[j] + T.Cast("float64", P[j])

    after = check(InjectDoubleBuffer(split_loop=split), before)
    assert sizes(after) == [6, 6]


def test_a_producer_that_initialises_and_updates_uses_the_copy_it_writes() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((16,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        for i in range(16):
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = 0
                for k in range(4):
                    B[0] = B[0] + A[i * 4 + k]
            C[i] = B[0]

    after = check(InjectDoubleBuffer(), before)
    assert sizes(after) == [2]


@pytest.mark.parametrize("split", SPLITS)
def test_nested_loops_with_a_buffer_each(split: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((60,), "int32"), C: T.Buffer((60,), "int32")):
        for i in range(5):
            B = T.alloc_buffer((12,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(12):
                    B[j] = A[i * 12 + j]
            for k in range(4):
                D = T.alloc_buffer((3,), "int32")
                with T.attr(D.data, "double_buffer_scope", 1):
                    for j in range(3):
                        D[j] = B[k * 3 + j] * 2
                for j in range(3):
                    C[i * 12 + k * 3 + j] = D[j] - 1
        for i in range(3):
            E = T.alloc_buffer((1,), "int32")
            with T.attr(E.data, "double_buffer_scope", 1):
                E[0] = A[i] + 4
            C[i] = C[i] + E[0]

    after = check(InjectDoubleBuffer(split_loop=split), before)
    assert sorted(sizes(after)) == sorted([24, *([6] * sizes(after).count(6)), 2])


def test_bindings_views_and_pointers() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for i in range(8):
            B = T.alloc_buffer((8,), "int32")
            base: T.int32 = i * 8
            V = T.decl_buffer((4,), "int32", data=B.data, elem_offset=4)
            W = T.decl_buffer((8,), "int32", data=A.data, elem_offset=i * 8)
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(4):
                    B[j] = A[base + j]
                for j in range(4):
                    V[j] = W[7 - j]
            T.evaluate(T.call_extern("handle", "memcpy", T.address_of(C[base]), T.address_of(B[4]), 16))
            T.evaluate(T.call_extern("handle", "memcpy", C.access_ptr("w", offset=base + 4), B.access_ptr("r"), 16))

    for split in SPLITS:
        check(InjectDoubleBuffer(split_loop=split), before)


def test_a_producer_that_copies_by_pointers() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for i in range(8):
            B = T.alloc_buffer((8,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                T.evaluate(
                    T.call_extern("handle", "memcpy", B.access_ptr("w"), A.access_ptr("r", offset=i * 8), T.int64(32))
                )
            for j in range(8):
                C[i * 8 + j] = B[j]

    check(InjectDoubleBuffer(), before)


def test_vectors_and_predicates() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(16):
            B = T.alloc_buffer((4,), "float32")
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0:4] = A[i * 4 : i * 4 + 4]
            C.vstore([T.Ramp(i * 4, 1, 4)], B[T.Ramp(3, -1, 4)], predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))

    after = check(InjectDoubleBuffer(), before, sizes=(0, 1, 3, 8))
    check(InjectDoubleBuffer(split_loop=2), before, sizes=(0, 1, 3, 8))
    assert sizes(after) == [8]


def test_conditions_and_while_loops_in_and_around() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
        K = T.alloc_buffer((1,), "int32")
        K[0] = 0
        while K[0] < 3:
            if n > 2:
                for i in range(n):
                    B = T.alloc_buffer((2,), "int32")
                    with T.attr(B.data, "double_buffer_scope", 1):
                        if i % 3 != 1:
                            B[0] = A[i]
                        else:
                            B[0] = 7 - i
                        B[1] = A[i + 1]
                    if B[0] > 0:
                        C[i] = B[0] + B[1]
                    else:
                        C[i] = C[i] + B[1]
            K[0] = K[0] + 1

    check(InjectDoubleBuffer(), before)
    check(InjectDoubleBuffer(split_loop=4), before)


def test_reversed_arrays() -> None:
    @T.prim_func
    def before(a: T.handle, C: T.Buffer((32,), "int32")):
        s = T.int32()
        A = T.match_buffer(a, (8, 4), "int32", strides=(s, 1))
        for i in range(8):
            B = T.alloc_buffer((4,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(4):
                    B[j] = A[i, j]
            for j in range(4):
                C[i * 4 + j] = B[j]

    data = np.arange(64, dtype=np.int32).reshape(16, 4)
    args = [[view, np.zeros(32, np.int32)] for view in (data[7::-1], data[::2], data[:8])]
    flat = FlattenBuffer()(before)
    check(InjectDoubleBuffer(), flat, inputs=args)


def test_the_annotation_of_a_block_becomes_the_mark() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
        B = T.alloc_buffer((8, 16), "float32")
        for i in range(8):
            for j in range(16):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.block_attr({"double_buffer_scope": 0})
                    B[vi, vj] = A[vi, vj] * T.float32(2)
            for j in range(16):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] + T.float32(1)

    func: Any = before
    for one in (
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        LowerMatchBuffer(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
    ):
        func = one(func)
    assert 'T.attr(B.data, "double_buffer_scope", 1)' in func.script()
    # The mark is on one element; the loop around it is the one that fills the row.
    with pytest.raises(TransformError, match="it is used outside the loop around its producer"):
        InjectDoubleBuffer()(func)


def test_a_block_around_the_filling_loop() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 16), "float32")):
        for i in range(8):
            with T.block():
                T.reads(A[i, 0:16])
                T.writes(C[i, 0:16])
                B = T.alloc_buffer((16,), "float32")
                with T.block("fill"):
                    T.where(i >= 0)
                    T.reads(A[i, 0:16])
                    T.writes(B[0:16])
                    T.block_attr({"double_buffer_scope": 0})
                    for j in range(16):
                        B[j] = A[i, j] * T.float32(2)
                with T.block("use"):
                    T.reads(B[0:16])
                    T.writes(C[i, 0:16])
                    for j in range(16):
                        C[i, j] = B[j] + T.float32(1)

    flat = FlattenBuffer()(LowerOpaqueBlock()(before))
    after = check(InjectDoubleBuffer(), flat)
    assert sizes(after) == [32]
    executes_alike(before, after)
    with pytest.raises(TransformError, match="names written buffer 3, it writes 1"):
        LowerOpaqueBlock()(parse(before.script().replace('scope": 0', 'scope": 3')))


def test_marks_that_have_no_loop_are_left_with_a_warning() -> None:
    @T.prim_func
    def outside(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[0]
        A[1] = B[0]

    @T.prim_func
    def in_parallel(A: T.Buffer((8,), "int32")):
        for i in T.parallel(8):
            B = T.alloc_buffer((1,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = A[i]
            A[i] = B[0] + 1

    @T.prim_func
    def in_while(A: T.Buffer((8,), "int32")):
        B = T.alloc_buffer((1,), "int32")
        A[0] = 0
        while A[0] < 5:
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = A[0]
            A[0] = B[0] + 1

    @T.prim_func
    def of_a_parameter(A: T.Buffer((8,), "int32"), C: T.Buffer((1,), "int32")):
        for i in range(8):
            with T.attr(C.data, "double_buffer_scope", 1):
                C[0] = A[i]
            A[i] = C[0] + 1

    for func, why in (
        (outside, "stands in no for loop"),
        (in_parallel, "run in no order"),
        (in_while, "stands in no for loop"),
        (of_a_parameter, "does not allocate it"),
    ):
        with pytest.warns(UserWarning, match=why):
            assert InjectDoubleBuffer()(func) is func


@T.prim_func
def reads_what_is_written(A: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
        A[i + 1] = B[0] + 1


@T.prim_func
def writes_what_is_read(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
            C[0] = i
        A[i] = B[0] + C[0]


@T.prim_func
def uses_it_before(A: T.Buffer((9,), "int32")):
    B = T.alloc_buffer((1,), "int32")
    for i in range(8):
        if i > 0:
            A[i] = B[0]
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = i


@T.prim_func
def carries_a_part(A: T.Buffer((9,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        with T.attr(B.data, "double_buffer_scope", 1):
            B[i] = i
        A[i] = B[0]


@T.prim_func
def in_a_condition(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1,), "int32")
        B[0] = 0
        if i < 5:
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = A[i]
        C[i] = B[0]


@T.prim_func
def left_early(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
        if B[0] > 5:
            T.evaluate(T.break_loop())
        C[i] = B[0]


@T.prim_func
def two_producers(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((2,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
        with T.attr(B.data, "double_buffer_scope", 1):
            B[1] = A[i]
        C[i] = B[0] + B[1]


@T.prim_func
def not_flat(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1, 1), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0, 0] = A[i]
        C[i] = B[0, 0]


@T.prim_func
def used_behind(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    B = T.alloc_buffer((1,), "int32")
    for i in range(8):
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
        C[i] = B[0]
    C[8] = B[0]


@T.prim_func
def pointer_passed(A: T.Buffer((9,), "int32"), C: T.Buffer((9,), "int32")):
    for i in range(8):
        B = T.alloc_buffer((1,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            B[0] = A[i]
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(C[i]), B.data, T.int64(4)))


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (reads_what_is_written, "both access 'A'"),
        (writes_what_is_read, "both access 'C'"),
        (uses_it_before, "is used before its producer"),
        (carries_a_part, "may be read where this iteration did not write it"),
        (in_a_condition, "its producer stands in a condition"),
        (left_early, "may be left early"),
        (two_producers, "has several producers"),
        (not_flat, "run FlattenBuffer first"),
        (used_behind, "is used outside the loop"),
        (pointer_passed, "its pointer is passed on"),
    ],
)
def test_what_cannot_run_early_is_refused(func: PrimFunc, why: str) -> None:
    with pytest.raises(TransformError, match=why) as error:
        InjectDoubleBuffer()(func)
    assert error.value.origin == "tir.InjectDoubleBuffer"


def test_what_this_iteration_writes_elsewhere_is_allowed() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32")):
        for i in range(8):
            B = T.alloc_buffer((1,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = A[i + 1]
            A[i] = B[0] + 1

    check(InjectDoubleBuffer(), before)


def test_options() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for i in range(8):
            B = T.alloc_buffer((1,), "int32")
            with T.attr(B.data, "double_buffer_scope", 1):
                B[0] = i
            A[i] = B[0]

    for wrong in (3, -2, "2", True):
        with pytest.raises(TransformError, match="'split_loop' of InjectDoubleBuffer is 0, 1 or an even number"):
            InjectDoubleBuffer(split_loop=wrong)
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 4}}):
        assert "i_outer" in InjectDoubleBuffer()(before).script()
    assert InjectDoubleBuffer()(parse("@T.prim_func\ndef f(A: T.Buffer((1,), 'int32')):\n    A[0] = 1")) is not None


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.by_day
def test_random_loops(seed: int) -> None:
    func = parse(program(random.Random(seed)))
    for split in SPLITS:
        after = check(InjectDoubleBuffer(split_loop=split), func, samples=2, seed=seed)
        executes_alike(func, Simplify()(after), samples=1, seed=seed)


def program(rng: random.Random) -> str:
    """A loop that fills and uses one to three buffers, inside others or not."""
    lines = ["@T.prim_func", "def f(A: T.Buffer((160,), 'int32'), C: T.Buffer((160,), 'int32'), n: T.int32):"]
    depth = 1

    def emit(text: str) -> None:
        lines.append("    " * depth + text)

    if rng.random() < 0.5:
        emit(f"for o in range({rng.randint(1, 3)}):")
        depth += 1
    low = rng.choice(["0", "0", "2", "-3", "n"])
    extent = rng.choice(["n", "1", "2", "5", "6", "7"])
    emit(f"for i in T.serial({low}, {low} + {extent}):")
    depth += 1
    live: list[tuple[str, int]] = []
    for number in range(rng.randint(1, 3)):
        size = rng.choice([1, 3, 4])
        name = f"B{number}"
        emit(f"{name} = T.alloc_buffer(({size},), 'int32')")
        if rng.random() < 0.3:
            emit(f"x{number}: T.int32 = i * {number + 1}")
        bound = f"x{number}" if lines[-1].strip().startswith("x") else "i"
        emit(f"with T.attr({name}.data, 'double_buffer_scope', 1):")
        depth += 1
        emit(f"for j in range({size}):")
        value = f"A[({bound} * 3 + j * 5) % 160] - i"
        if live:
            other, length = rng.choice(live)
            value += f" + {other}[j % {length}]"
        emit(f"    {name}[j] = {value}")
        if rng.random() < 0.4:
            emit("for k in range(3):")
            emit(f"    {name}[0] = {name}[0] + A[(k + i) % 160]")
        depth -= 1
        live.append((name, size))
        if rng.random() < 0.5:
            emit(f"for j in range({size}):")
            emit(f"    C[(i * 7 + j) % 160] = C[(i * 7 + j) % 160] * 2 + {name}[j]")
    name, size = rng.choice(live)
    emit(f"C[(i * 11) % 160] = {name}[{size - 1}] - i")
    return "\n".join(lines)


@pytest.mark.parametrize("split", SPLITS)
def test_native_code(split: int) -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", 16), "float32"), C: T.Buffer(("n", 16), "float32")):
        for i in range(n):
            B = T.alloc_buffer((16,), "float32")
            with T.attr(B.data, "double_buffer_scope", 1):
                for j in range(16):
                    B[j] = A[i, j] * T.float32(2)
            for j in range(16):
                C[i, j] = B[15 - j] + T.float32(1)

    after = InjectDoubleBuffer(split_loop=split)(FlattenBuffer()(before))
    kernel = tl.build(after, schedule="none")
    for rows in (1, 2, 7):
        a = np.random.default_rng(rows).uniform(-1, 1, (rows, 16)).astype(np.float32)
        c = np.zeros_like(a)
        kernel(a, c)
        np.testing.assert_array_equal(c, a[:, ::-1] * np.float32(2) + np.float32(1))


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("bounds", ["N[0]", "N[1], N[0]", "N[1], N[1] + 4"])
@pytest.mark.parametrize("store", ["N[0] = 3", "N[1] = N[1] + 1", "N[0] = N[0] - 1"])
def test_a_loop_takes_its_bounds_once(bounds: str, store: str, split: int) -> None:
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), N: T.Buffer((2,), "int32")):
    for i in range({bounds}):
        B = T.alloc_buffer((8,), "int32")
        with T.attr(B.data, "double_buffer_scope", 1):
            for j in range(8):
                B[j] = A[i * 8 + j]
        for j in range(8):
            C[i * 8 + j] = B[j] + 1
        {store}
""")
    inputs = [
        [np.arange(64, dtype=np.int32), np.zeros(64, np.int32), np.array([count, 1], np.int32)] for count in (2, 5, 6)
    ]
    check(InjectDoubleBuffer(split_loop=split), before, inputs=inputs)
