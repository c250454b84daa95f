from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.analysis.vthread_dependence import uses_of
from tirlower.diagnostics import TransformError
from tirlower.ir import AllocBuffer, PrimFunc, post_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, InjectDoubleBuffer, InjectVirtualThread, Simplify

PASS = InjectVirtualThread()


def sizes(func: PrimFunc) -> list[int]:
    """The elements of the allocations, in order."""
    found: list[int] = []
    post_order_visit(
        func.body, lambda op: found.append(op.buffer.shape[0].value) if isinstance(op, AllocBuffer) else None
    )
    return found


def test_what_an_access_pointer_uses() -> None:
    for mask in (1, 2, 3):
        func = parse(f"""
def f(A: T.Buffer((8,), "int32"), k: T.int32, m: T.int32):
    T.evaluate(T.call_extern("int32", "g", T.tvm_access_ptr(T.type_annotation("int32"), A.data, k, m, {mask})))
""")
        a, found = func.buffers[0].data, uses_of(func.body)
        assert {a, *func.params[1:]} <= found.names
        assert (a in found.loaded) is (mask == 1)


def test_statements_are_interleaved_and_buffers_multiplied() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((32,), "float32")):
        for v in T.thread_binding(2, thread="vthread.x"):
            B = T.alloc_buffer((16,), "float32")
            for i in range(16):
                B[i] = A[v * 16 + i]
            for i in range(16):
                C[v * 16 + i] = B[15 - i] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), C: T.Buffer((32,), "float32")):
        B = T.alloc_buffer((32,), "float32")
        for i in range(16):
            B[i] = A[i]
            B[16 + i] = A[16 + i]
        for i in range(16):
            C[i] = B[15 - i] + T.float32(1)
            C[16 + i] = B[16 + (15 - i)] + T.float32(1)

    check(PASS, before, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 15, 16, 17])
def test_many_threads_are_looped_over(count: int) -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int16"), C: T.Buffer((64,), "int16")):
        C[0] = T.int16(5)
        for v in T.thread_binding(count, thread="vthread"):
            B = T.alloc_buffer((2,), "int16")
            B[0] = A[v]
            B[1] = A[v + 1] * B[0]
            C[v] = C[v] + B[1]

    after = check(PASS, before)
    assert ("for v_s in range" in after.script()) == (count >= 16)
    assert sizes(after) == ([2 * count] if count else [])


def test_what_no_thread_changes_is_shared() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32):
        for v in T.thread_binding(4, thread="vthread"):
            S = T.alloc_buffer((8,), "int32")
            R = T.alloc_buffer((1,), "int32")
            R[0] = 0
            for i in range(8):
                S[i] = A[i] * n
                R[0] = R[0] + S[i]
            C[v] = S[v] + R[0]

    after = check(PASS, before)
    assert sizes(after) == [8, 1]
    assert after.script().count("S[i] = ") == 1


def test_stores_under_conditions_on_the_thread_make_a_buffer_its_own() -> None:
    @T.prim_func
    def before(C: T.Buffer((8,), "int32"), n: T.int32):
        for v in T.thread_binding(4, thread="vthread"):
            B = T.alloc_buffer((1,), "int32")
            D = T.alloc_buffer((1,), "int32")
            E = T.alloc_buffer((1,), "int32")
            D[0] = 3
            if v < n:
                B[0] = 1
            else:
                B[0] = 2
            E[0] = 0
            for _k in range(v):
                E[0] = E[0] + D[0]
            C[v] = B[0] * 100 + E[0]

    after = check(PASS, before)
    assert sizes(after) == [4, 1, 4]


def test_loops_and_conditions_of_all_threads_stay_around() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n",), "int32"), C: T.Buffer((8,), "int32"), m: T.int32):
        for v in T.thread_binding(2, thread="vthread"):
            B = T.alloc_buffer((1,), "int32")
            B[0] = v
            for i in range(n):
                if A[i] > m:
                    B[0] = B[0] * 2 + A[i]
                else:
                    for j in range(i + 1):
                        B[0] = B[0] - A[j]
            C[v] = B[0]

    after = check(PASS, before, sizes=(0, 1, 2, 3, 5))
    assert after.script().count("for ") == 2


def test_bindings_lets_and_views() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), F: T.Buffer((8,), "float32"), C: T.Buffer((64,), "int32")):
        for v in T.thread_binding(3, thread="vthread"):
            at: T.int32 = v * 16
            first: T.int32 = A[at]
            flag: T.bool = A[at + 1] > first
            shared: T.int32 = A[5] + 2
            V = T.decl_buffer((16,), "int32", data=C.data, elem_offset=at)
            W = T.decl_buffer((32,), "int32", data=A.data)
            B = T.alloc_buffer((4,), "float32")
            H = T.decl_buffer((2,), "float32", data=B.data, elem_offset=2)
            for j in range(4):
                B[j] = F[j + v]
            H[0] = H[1] + T.float32(v)
            A[at] = 77
            y = T.int32()
            for j in range(8):
                V[j] = W[j + v] + first + shared + T.Let(y * y, where={y: v + j})
            if flag:
                F[v] = B[2] + H[1]

    check(PASS, before)


def test_opaque_calls_and_pointers_run_for_each_thread() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for v in T.thread_binding(2, thread="vthread"):
            B = T.alloc_buffer((4,), "int32")
            D = T.alloc_buffer((4,), "int32")
            T.evaluate(T.call_extern("handle", "memcpy", B.access_ptr("w"), A.access_ptr("r"), T.int64(16)))
            T.evaluate(T.call_extern("handle", "memcpy", T.address_of(D[0]), T.address_of(A[v * 4 + 8]), T.int64(16)))
            for j in range(4):
                C[v * 4 + j] = B[j] * 3 + D[3 - j]
            T.evaluate(
                T.call_extern("handle", "memcpy", C.access_ptr("w", offset=16 + v * 2), D.access_ptr("r", offset=2), 8)
            )

    after = check(PASS, before)
    assert sizes(after) == [8, 8]


def test_calls_that_may_count_are_made_by_each_thread() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32")):
        for _v in T.thread_binding(3, thread="vthread"):
            B = T.alloc_buffer((1,), "int32")
            T.evaluate(T.call_extern("int32", "tick"))
            T.evaluate(T.call_pure_extern("int32", "tock"))
            B[0] = T.call_extern("int32", "next")
            A[0] = B[0]

    text = check(PASS, before, execute=False).script()
    assert [text.count(name) for name in ("tick", "tock", "next", "A[0]")] == [3, 1, 3, 3]


def test_what_all_threads_do_alike_is_done_once() -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for v in T.thread_binding(3, thread="vthread"):
            B = T.alloc_buffer((1,), "int32")
            A[0] = A[0] + 1
            A[1] = 7
            B[0] = A[0]
            B[0] = B[0] * 2
            C[v] = B[0]

    after = check(PASS, before)
    assert sizes(after) == [1]
    assert after.script().count("A[0] + 1") == 1 and after.script().count("A[1] = 7") == 1


def test_barriers_and_threads_inside() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "int32"), C: T.Buffer((32,), "int32")):
        for _bx in T.thread_binding(1, thread="blockIdx.x"):
            S = T.alloc_buffer((32,), "int32", scope="shared")
            for v in T.thread_binding(4, thread="vthread"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    M = T.alloc_buffer((1,), "int32", scope="local")
                    M[0] = A[v * 8 + tx]
                    S[v * 8 + tx] = M[0] * 2
                    T.evaluate(T.tvm_storage_sync("shared"))
                    C[v * 8 + tx] = S[31 - v * 8 - tx] + M[0]

    after = check(PASS, before)
    assert after.script().count("tvm_storage_sync") == 1


@pytest.mark.parametrize("tags", [("vthread.x", "vthread.y"), ("vthread", "vthread"), ("vthread", "cthread")])
def test_nested_virtual_threads(tags: tuple[str, str]) -> None:
    outer, inner = tags

    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
        for v in T.thread_binding(2, thread=outer):
            B = T.alloc_buffer((4,), "int32")
            for j in range(4):
                B[j] = A[v * 4 + j]
            for w in T.thread_binding(3, thread=inner):
                D = T.alloc_buffer((2,), "int32")
                for j in range(2):
                    D[j] = B[j + w % 2] + w
                for j in range(2):
                    C[v * 16 + w * 4 + j] = D[1 - j] + v * 100

    after = check(PASS, before)
    assert sizes(after) == [8, 12]


def test_threads_that_share_nothing() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((8,), "int32")):
        for v in T.thread_binding(2, thread="cthread"):
            S = T.alloc_buffer((4,), "int32")
            for i in range(4):
                S[i] = A[i]
            C[v] = S[v]

    after = check(PASS, before)
    assert sizes(after) == [8]
    assert after.script().count("] = A[i]") == 2


def test_vectors_predicates_and_asserts() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32"), n: T.int32):
        for v in T.thread_binding(2, thread="vthread"):
            B = T.alloc_buffer((8,), "float32")
            B[0:4] = A[v * 8 : v * 8 + 4]
            B[4:8] = A[v * 8 + 4 : v * 8 + 8] * T.Broadcast(T.float32(2), 4)
            assert n + v > 0, "positive"
            C.vstore([T.Ramp(v * 8, 1, 8)], B[T.Ramp(7, -1, 8)], predicate=T.Ramp(v, 1, 8) < T.Broadcast(n, 8))

    check(PASS, before, sizes=(1, 3, 8))


def test_no_virtual_thread_no_change() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in T.parallel(64):
            A[i] = T.float32(1)

    check(PASS, before, before)


def test_with_a_double_buffer_inside() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "int32"), C: T.Buffer((16,), "int32")):
        for v in T.thread_binding(2, thread="vthread"):
            for i in range(8):
                B = T.alloc_buffer((4,), "int32")
                with T.attr(B.data, "double_buffer_scope", 1):
                    for j in range(4):
                        B[j] = A[i * 8 + v * 4 + j]
                for j in range(4):
                    C[v * 4 + j] = C[v * 4 + j] * 3 + B[j]

    after = check(PASS, before)
    both = check(InjectDoubleBuffer(), after)
    check(Simplify(), both)
    assert sizes(both) == [16]


@T.prim_func
def while_inside(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        while A[v] < 5:
            A[v] = A[v] + 1


@T.prim_func
def not_flat(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        B = T.alloc_buffer((1, 1), "int32")
        B[0, 0] = v
        A[v] = B[0, 0]


@T.prim_func
def minimum(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        for i in range(1, 3):
            A[v * 4 + i] = i


@T.prim_func
def symbolic(A: T.Buffer((8,), "int32"), n: T.int32):
    for v in T.thread_binding(n, thread="vthread"):
        A[v] = v


@T.prim_func
def divergent_barrier(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        if v == 0:
            T.evaluate(T.tvm_storage_sync("shared"))
        A[v] = v


@T.prim_func
def divergent_break(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        for i in range(4):
            if i > v:
                T.evaluate(T.break_loop())
            A[v * 4 + i] = i


@T.prim_func
def own_size(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        B = T.alloc_buffer((v + 1,), "int32")
        B[0] = v
        A[v] = B[0]


@T.prim_func
def pointer(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        B = T.alloc_buffer((1,), "int32")
        B[0] = v
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(A[v]), B.data, T.int64(4)))


@T.prim_func
def in_a_block(A: T.Buffer((8,), "int32")):
    for v in T.thread_binding(2, thread="vthread"):
        with T.block():
            T.reads()
            T.writes(A[v])
            A[v] = v


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (while_inside, "a while loop stands inside"),
        (not_flat, "the buffer 'B' is not flat"),
        (minimum, "the loop 'i' starts at 1, not at 0"),
        (symbolic, "their number n is not a constant"),
        (divergent_barrier, "stands in a condition or loop that depends on the thread"),
        (divergent_break, "a jump stands in a condition"),
        (own_size, "the size of the buffer 'B' depends"),
        (pointer, "its pointer is passed on"),
        (in_a_block, "run LowerOpaqueBlock and FlattenBuffer first"),
    ],
)
def test_what_cannot_be_interleaved_is_refused(func: PrimFunc, why: str) -> None:
    with pytest.raises(TransformError, match=why) as error:
        PASS(func)
    assert error.value.origin == "tir.InjectVirtualThread"


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    func = parse(program(random.Random(seed)))
    after = check(PASS, func, samples=2, seed=seed, sizes=(1, 2, 5))
    check(Simplify(), after, samples=1, seed=seed, sizes=(1, 2, 5))


def program(rng: random.Random) -> str:
    """Virtual threads around loops, conditions, bindings and private buffers. Each thread writes its own part of C, so
    that no value depends on the order of threads within a statement.
    """
    count = rng.choice([1, 2, 3, 5, 16])
    lines = [
        "@T.prim_func",
        "def f(A: T.Buffer((64,), 'int32'), C: T.Buffer((128,), 'int32'), n: T.int32):",
        f"    for v in T.thread_binding({count}, thread='{rng.choice(['vthread', 'vthread.y', 'cthread'])}'):",
    ]
    live: list[tuple[str, int]] = []
    names = ["v", "n", "1"]
    counter = 0

    def index() -> str:
        return rng.choice(names) + rng.choice(["", " * 3", " + 2", f" + {rng.choice(names)}"])

    def value() -> str:
        parts = [rng.choice([f"A[({index()}) % 64]", f"C[v * 8 + ({index()}) % 8]", index(), str(rng.randint(-4, 9))])]
        if live and rng.random() < 0.7:
            name, size = rng.choice(live)
            parts.append(f"{name}[({index()}) % {size}]")
        return " - ".join(parts)

    def store(depth: int) -> None:
        pad = "    " * depth
        if live and rng.random() < 0.7:
            name, size = rng.choice(live)
            lines.append(f"{pad}{name}[({index()}) % {size}] = {value()}")
        else:
            lines.append(f"{pad}C[v * 8 + ({index()}) % 8] = {value()}")

    def body(depth: int) -> None:
        nonlocal counter
        mark, known = len(live), len(names)
        pad = "    " * depth
        for _ in range(rng.randint(2, 4)):
            counter += 1
            kind = rng.random()
            if kind < 0.25:
                size = rng.choice([1, 2, 4])
                lines.append(f"{pad}B{counter} = T.alloc_buffer(({size},), 'int32')")
                lines.append(f"{pad}for p{counter} in range({size}):")
                lines.append(f"{pad}    B{counter}[p{counter}] = {rng.choice(['p' + str(counter), '3', value()])}")
                live.append((f"B{counter}", size))
            elif kind < 0.4:
                lines.append(f"{pad}x{counter}: T.int32 = {rng.choice([index(), value()])}")
                names.append(f"x{counter}")
            elif kind < 0.55 and depth < 5:
                loop = f"i{counter}"
                lines.append(f"{pad}for {loop} in range({rng.choice(['2', '3', 'n', 'v % 3', 'v'])}):")
                names.append(loop)
                body(depth + 1)
                names.remove(loop)
            elif kind < 0.7 and depth < 5:
                lines.append(f"{pad}if {rng.choice(['v % 2 == 0', 'n > 1', 'A[n] > 0', f'{index()} < 4'])}:")
                body(depth + 1)
                if rng.random() < 0.5:
                    lines.append(f"{pad}else:")
                    body(depth + 1)
            else:
                store(depth)
        store(depth)
        del live[mark:]
        del names[known:]

    body(2)
    return "\n".join(lines)


def test_native_code() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 32), "float32"), C: T.Buffer((32,), "float32")):
        for v in T.thread_binding(4, thread="vthread"):
            B = T.alloc_buffer((8,), "float32")
            for j in range(8):
                B[j] = T.float32(0)
            for k in range(16):
                for j in range(8):
                    B[j] = B[j] + A[k, v * 8 + j]
            for j in range(8):
                C[v * 8 + j] = B[j]

    kernel = tl.build(PASS(FlattenBuffer()(before)), schedule="none")
    a = np.random.default_rng(0).uniform(-1, 1, (16, 32)).astype(np.float32)
    c = np.zeros(32, np.float32)
    kernel(a, c)
    total = np.zeros(32, np.float32)
    for row in a:
        total += row
    np.testing.assert_array_equal(c, total)
