from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike
from tirlower.diagnostics import TransformError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import FlattenBuffer, LowerAutoCopy, LowerOpaqueBlock, Simplify, VectorizeLoop

PASS = LowerAutoCopy()


def test_vectors_and_a_rest() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
        with T.block("copy"):
            T.reads(A[0:8, 0:18])
            T.writes(B[0:8, 0:18])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16, "local_stage": 1})
            for i, j in T.grid(8, 18):
                B[i, j] = A[i, j]

    @T.prim_func
    def expected(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
        with T.block("copy"):
            T.reads(A[0:8, 0:18])
            T.writes(B[0:8, 0:18])
            for i in range(8):
                for j_0 in range(4):
                    for j_1 in T.vectorized(4):
                        B[i, j_0 * 4 + j_1] = A[i, j_0 * 4 + j_1]
                for j in range(2):
                    B[i, 16 + j] = A[i, 16 + j]

    check(PASS, before, expected)


@pytest.mark.parametrize("extent", [0, 1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("dtype", ["int8", "float64", "bool"])
def test_extents_minimums_and_types(extent: int, dtype: str) -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), dtype), B: T.Buffer((32,), dtype)):
        with T.block("copy"):
            T.reads(A[3:32])
            T.writes(B[0:32])
            T.block_attr({"auto_copy": 1, "vector_bytes": 4})
            for i in range(2, 2 + extent):
                B[i + 1] = A[i + 3]

    after = check(PASS, before)
    assert ("vectorized" in after.script()) == (dtype in ("int8", "bool") and extent >= 4)


def test_symbolic_extents() -> None:
    @T.prim_func
    def before(A: T.Buffer(("m", "n"), "int16"), B: T.Buffer(("m", "n"), "int32")):
        for p in range(m):
            with T.block("copy"):
                T.reads(A[p, 0:n])
                T.writes(B[p, 0:n])
                T.block_attr({"auto_copy": 1, "vector_bytes": 8})
                for j in range(n):
                    B[p, j] = T.Cast("int32", A[p, j])

    after = check(PASS, before, sizes=(0, 1, 3, 4, 9))
    assert "T.vectorized(4)" in after.script()


def test_neighbouring_elements_come_innermost() -> None:
    @T.prim_func
    def before(A: T.Buffer((16, 6), "float32"), B: T.Buffer((6, 16), "float32")):
        with T.block("transpose"):
            T.reads(A[0:16, 0:6])
            T.writes(B[0:6, 0:16])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(16, 6):
                B[j, 15 - i] = A[i, j]
        with T.block("copy"):
            T.reads(A[0:16, 0:6])
            T.writes(B[0:6, 0:16])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(16, 6):
                B[j, i] = A[i, j]

    text = check(PASS, before).script()
    assert "for i, j_0 in" not in text.split("transpose")[0]
    assert "for i_1 in T.vectorized(4)" in text.split('"copy"')[1]


def test_the_order_is_kept_where_loops_depend_on_each_other() -> None:
    @T.prim_func
    def before(A: T.Buffer((8, 8), "int32"), B: T.Buffer((64,), "int32")):
        with T.block("triangle"):
            T.reads(A[0:8, 0:8])
            T.writes(B[0:64])
            T.block_attr({"auto_copy": 1, "vector_bytes": 8})
            for i in range(8):
                for j in range(i + 1):
                    B[j * 8 + i] = A[i, j]
        with T.block("overwrite"):
            T.reads(A[0:8, 0:8])
            T.writes(B[0:8])
            T.block_attr({"auto_copy": 1, "vector_bytes": 8})
            for j, i in T.grid(8, 8):
                B[j] = A[i, j]

    text = check(PASS, before).script()
    assert "vectorized" in text.split("overwrite")[0] and "vectorized" not in text.split("overwrite")[1]


def test_conditions_and_inner_blocks() -> None:
    @T.prim_func
    def before(A: T.Buffer((20,), "int32"), B: T.Buffer((24,), "int32"), n: T.int32):
        with T.block("outer"):
            T.reads(A[0:20])
            T.writes(B[0:24])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i in range(24):
                with T.block("inner"):
                    T.where(i < 20)
                    T.reads(A[i])
                    T.writes(B[i])
                    if i % 3 != n:
                        B[i] = A[i]

    check(PASS, before)


def test_what_each_thread_has_of_its_own_and_blocks_that_say_no() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            with T.block("copy"):
                T.reads(A[tx * 8 : tx * 8 + 8])
                T.writes(B[tx * 8 : tx * 8 + 8])
                T.block_attr({"auto_copy": 1, "vector_bytes": 16})
                for i in range(8):
                    B[tx * 8 + i] = A[tx * 8 + i]
        with T.block("no"):
            T.reads(A[0:32])
            T.writes(B[0:32])
            T.block_attr({"auto_copy": 0, "vector_bytes": 16})
            for i in range(32):
                B[i] = A[i]

    text = check(PASS, before).script()
    assert "B[tx * 8 + (i_0 * 4 + i_1)]" in text or "B[tx * 8 + i_0 * 4 + i_1]" in text
    assert text.count("T.vectorized(4)") == 1 and '"auto_copy": 0' in text


def test_without_vector_bytes_the_loops_stay() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        with T.block("copy"):
            T.reads(A[0:32])
            T.writes(B[0:32])
            T.block_attr({"auto_copy": 1, "kept": 3})
            for i in range(32):
                B[i] = A[i]

    after = check(PASS, before)
    assert "auto_copy" not in after.script() and "kept" in after.script() and "vectorized" not in after.script()


def test_reversed_and_spaced_arrays() -> None:
    @T.prim_func
    def before(a: T.handle, B: T.Buffer((6, 8), "int32")):
        s, t = T.int32(), T.int32()
        A = T.match_buffer(a, (6, 8), "int32", strides=(s, t))
        with T.block("copy"):
            T.reads(A[0:6, 0:8])
            T.writes(B[0:6, 0:8])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16})
            for i, j in T.grid(6, 8):
                B[i, 7 - j] = A[i, j]

    check(PASS, before)


@pytest.mark.parametrize(
    ("body", "reads", "why"),
    [
        ("B[i] = A[i] + A[i + 1]", "A[0:9]", "not computed from one element of 'A'"),
        ("B[i] = C[0] + 1", "A[0:9], C[0]", "not computed from one element of 'A'"),
        ("B[i] = i", "A[0:9]", "not computed from one element of 'A'"),
        ("B[i] = B[i + 1]", "B[0:9]", "it copies within the buffer 'B'"),
        ("while A[i] > 3:\n                B[i] = A[i]", "A[0:8]", "a While"),
        ("B[i] = A[i]", "A[0:8], C[0:1]", "reads 2 and writes 1 regions"),
    ],
)
def test_what_is_no_copy_is_refused(body: str, reads: str, why: str) -> None:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32"), C: T.Buffer((1,), "int32")):
    with T.block("copy"):
        T.reads({reads})
        T.writes(B[0:8])
        T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
        for i in range(8):
            {body}
""")
    with pytest.raises(TransformError, match=why) as error:
        PASS(func)
    assert error.value.origin == "tir.LowerAutoCopy"


def test_a_wrong_number_of_bytes_is_refused() -> None:
    @T.prim_func
    def before(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        with T.block("copy"):
            T.reads(A[0:32])
            T.writes(B[0:32])
            T.block_attr({"auto_copy": 1, "vector_bytes": -4})
            for i in range(32):
                B[i] = A[i]

    with pytest.raises(TransformError, match="vector_bytes is a positive number, got -4"):
        PASS(before)


@pytest.mark.parametrize("seed", range(12))
def test_random_copies(seed: int) -> None:
    rng = random.Random(seed)
    extents = [rng.choice([1, 2, 3, 5, 8]) for _ in range(rng.randint(1, 3))]
    names = ["i", "j", "k"][: len(extents)]
    order = rng.sample(range(len(extents)), len(extents))
    low = rng.choice([0, 2])
    dims = ", ".join(str(e + 3) for e in extents)
    other = ", ".join(str(extents[at] + 3) for at in order)
    lines = ["@T.prim_func", f"def f(A: T.Buffer(({dims},), 'int16'), B: T.Buffer(({other},), 'int16'), n: T.int32):"]
    lines += ["    with T.block('copy'):"]
    lines += [f"        T.reads(A[{', '.join(f'0:{e + 3}' for e in extents)}])"]
    lines += [f"        T.writes(B[{', '.join(f'0:{extents[at] + 3}' for at in order)}])"]
    lines += [f"        T.block_attr({{'auto_copy': 1, 'vector_bytes': {rng.choice([2, 4, 8, 6])}}})"]
    pad = "        "
    for name, extent in zip(names, extents, strict=True):
        lines.append(f"{pad}for {name} in range({low}, {low + extent}):")
        pad += "    "
    if rng.random() < 0.5:
        lines.append(f"{pad}if {rng.choice(names)} < n:")
        pad += "    "
    mirrored = rng.random() < 0.3
    places = [f"{2 * low + extents[at] - 1} - {names[at]}" if mirrored else names[at] for at in order]
    lines.append(f"{pad}B[{', '.join(places)}] = A[{', '.join(names)}]")
    func = parse("\n".join(lines))
    after = check(PASS, func, samples=2, seed=seed)
    flat = FlattenBuffer()(Simplify()(LowerOpaqueBlock()(after)))
    executes_alike(func, flat, samples=1, seed=seed)
    executes_alike(func, VectorizeLoop()(flat), samples=1, seed=seed)


def test_native_code() -> None:
    @T.prim_func
    def before(A: T.Buffer(("m", "n"), "float32"), B: T.Buffer(("m", "n"), "float32")):
        with T.block("copy"):
            T.reads(A[0:m, 0:n])
            T.writes(B[0:m, 0:n])
            T.block_attr({"auto_copy": 1, "vector_bytes": 32})
            for j, i in T.grid(n, m):
                B[i, j] = A[i, j]

    kernel = tl.build(PASS(before), schedule="none")
    for shape in ((1, 1), (3, 8), (5, 21)):
        a = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        b = np.zeros_like(a)
        kernel(a, b)
        np.testing.assert_array_equal(b, a)


@pytest.mark.parametrize("value", ["A[i, j] * T.float32(2) + c[j]", "c[j] - A[i, j]", "T.if_then_else(c[j] > T.float32(0), A[i, j], c[7])"])  # fmt: skip
def test_a_second_operand_is_computed_along(value: str) -> None:
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32"), c: T.Buffer((18,), "float32")):
    with T.block("copy"):
        T.reads(A[0:8, 0:18], c[0:18])
        T.writes(B[0:8, 0:18])
        T.block_attr({{"auto_copy": 1, "vector_bytes": 16}})
        for j, i in T.grid(18, 8):
            B[i, j] = {value}
""")
    after = check(PASS, before)
    assert after.script().count("vectorized(4)") == 1
    lowered = Simplify()(VectorizeLoop()(FlattenBuffer()(LowerOpaqueBlock()(after))))
    executes_alike(before, lowered)


@pytest.mark.parametrize("scope", ["global", "local"])
def test_threads_share_a_copy_whose_operands_they_share(scope: str) -> None:
    before = parse(f"""
@T.prim_func
def f(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), c: T.Buffer((16,), "float32")):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((8, 16), "float32", scope="shared")
        own = T.alloc_buffer((16,), "float32", scope="local")
        for j in range(16):
            own[j] = c[j]
        with T.block("copy"):
            T.reads(A[0:8, 0:16], {"c" if scope == "global" else "own"}[0:16])
            T.writes(s[0:8, 0:16])
            T.block_attr({{"auto_copy": 1, "vector_bytes": 8}})
            for i, j in T.grid(8, 16):
                s[i, j] = A[i, j] + {"c" if scope == "global" else "own"}[j]
        T.tvm_storage_sync("shared")
        for i in range(8):
            B[i, tx] = s[i, tx]
""")
    after = check(PASS, before)
    assert ("turn" in after.script()) == (scope == "global")


def test_a_warp_has_lanes_where_no_loop_over_them_stands() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8, 32), "float32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        s = T.alloc_buffer((8, 32), "float32", scope="shared")
        with T.block("copy"):
            T.reads(A[0:8, 0:32])
            T.writes(s[0:8, 0:32])
            T.block_attr({"auto_copy": 1, "vector_bytes": 16, "warp_execution": 1})
            for i, j in T.grid(8, 32):
                s[i, j] = A[i, j]
        T.tvm_storage_sync("shared")
        for i, j in T.grid(4, 32):
            B[ty * 4 + i, j] = s[ty * 4 + i, j]
""")
    after = check(PASS, before)
    text = after.script()
    assert text.count('T.thread_binding(32, thread="threadIdx.x")') == 1 and "warp_execution" not in text
    # Neighbouring lanes copy neighbouring vectors.
    assert "ty * 4 + threadIdx_x // 8, threadIdx_x % 8 * 4 + lane" in text
    assert "thread_binding(32" not in PASS(parse(before.script().replace(', "warp_execution": 1', ""))).script()
