from __future__ import annotations

import itertools

import numpy as np

from tirlower import ir
from tirlower.ir import (
    BufferLoad,
    BufferRegion,
    IntImm,
    Range,
    Var,
    build,
    const,
    decl_buffer,
)  # fmt: skip
from tirlower.ir.regions import block_access_regions, relax_region
from tirlower.script import parse


def evaluate(expr, values):
    kind = type(expr).__name__
    if kind == "IntImm":
        return expr.value
    if kind == "Var":
        return values[expr]
    a, b = evaluate(expr.a, values), evaluate(expr.b, values)
    return {
        "Add": lambda: a + b, "Sub": lambda: a - b, "Mul": lambda: a * b, "FloorDiv": lambda: a // b,
        "FloorMod": lambda: a % b, "Min": lambda: min(a, b), "Max": lambda: max(a, b),
    }[kind]()  # fmt: skip


def test_random_indices_lie_in_the_region_and_affine_ones_fill_its_ends():
    rng = np.random.default_rng(7)
    buffer = decl_buffer((1000,), "int32", "A")
    for _ in range(150):
        loops = [Var("i"), Var("j")]
        free = Var("n")
        affine = True

        def term(depth, loops=loops, free=free):
            nonlocal affine
            kind = int(rng.integers(0, 9)) if depth else int(rng.integers(0, 3))
            if kind == 0:
                return const(int(rng.integers(-5, 6)), "int32")
            if kind == 1:
                return loops[int(rng.integers(0, 2))]
            if kind == 2:
                return free
            a, b = term(depth - 1), term(depth - 1)
            if kind >= 5:
                affine = False
            positive = int(rng.integers(1, 5))
            return {
                3: lambda: a + b, 4: lambda: a - b, 5: lambda: a * int(rng.integers(-3, 4)), 6: lambda: a // positive,
                7: lambda: a % positive, 8: lambda: build.min_(a, b),
            }[kind]()  # fmt: skip

        index = term(3)
        extents = [int(rng.integers(1, 5)) for _ in loops]
        region = BufferRegion(buffer, (Range(index, const(1, "int32")),))
        relaxed = relax_region(region, [(v, Range.from_extent(e)) for v, e in zip(loops, extents, strict=True)])
        part = relaxed.region[0]
        n = int(rng.integers(-5, 6))
        low = evaluate(part.min, {free: n})
        high = low + evaluate(part.extent, {free: n}) - 1
        reached = [
            evaluate(index, {loops[0]: i, loops[1]: j, free: n})
            for i, j in itertools.product(range(extents[0]), range(extents[1]))
        ]
        if isinstance(part.extent, IntImm) and part.extent.value == 1000:
            continue  # no simple bound: the whole dimension
        assert low <= min(reached) and max(reached) <= high, index
        used = [v for v in loops if _mentions(index, v)]
        if affine and all(_count(index, v) == 1 for v in used) and _count(index, free) <= 1:
            assert (low, high) == (min(reached), max(reached)), index


def test_products_by_a_size_that_is_not_negative():
    buffer, i, j = decl_buffer((1000,), "int32", "A"), Var("i"), Var("j")
    size, other = Var("n", nonneg=True), Var("m")
    for index in (i * size, size * (i - 2) + 5):
        region = BufferRegion(buffer, (Range(index, const(1, "int32")),))
        (part,) = relax_region(region, [(i, Range.from_extent(7)), (j, Range.from_extent(4))]).region
        for n in range(4):
            reached = [evaluate(index, {i: x, size: n}) for x in range(7)]
            low, extent = (evaluate(end, {size: n}) for end in (part.min, part.extent))
            assert (low, low + extent - 1) == (min(reached), max(reached))
    # Of others no end is known: they may be negative.
    for index in (i * other, (i + size) * j):
        (part,) = relax_region(
            BufferRegion(buffer, (Range(index, const(1, "int32")),)),
            [(i, Range.from_extent(7)), (j, Range.from_extent(4))],
        ).region
        assert evaluate(part.min, {}) == 0 and evaluate(part.extent, {}) == 1000


def _count(expr, var):
    if expr is var:
        return 1
    return sum(_count(c, var) for c in expr.children())


def _mentions(expr, var):
    return _count(expr, var) > 0


def test_a_view_through_a_pointer_bound_in_the_block_is_one_of_its_buffer():
    A, p, q = ir.Buffer("A", (8,), "int32"), *[ir.Var(name, ir.PointerType("int32")) for name in "pq"]
    V = ir.decl_buffer((8,), "int32", "V", data=q)
    body = ir.Seq((ir.Bind(p, A.data), ir.Bind(q, p), ir.DeclBuffer(V), ir.BufferStore(V, V[2], (3,))))
    block = ir.Block("b", (), True, (), (), None, (), {}, body)
    # As the script knows them: a buffer declared over a pointer is what that pointer belongs to.
    for known in ({A.data: A, q: V}, {A.data: A}):
        found = block_access_regions(block, known)
        assert [r.buffer for r in found.reads] == [A] == [r.buffer for r in found.writes] and not found.opaque


def test_buffers_used_through_pointers_are_named():
    func = parse("""
def f(A: T.Buffer((4,), "float32")):
    with T.block("b"):
        T.reads()
        T.writes()
        T.evaluate(T.call_extern("int32", "f", A.data))
""")
    found = block_access_regions(func.body, {func.buffers[0].data: func.buffers[0]})
    assert [b.name for b in found.opaque] == ["A"] and not found.reads and not found.writes


def test_views_declared_inside_count_as_their_whole_buffer():
    func = parse("""
def f(A: T.Buffer((4, 4), "float32"), B: T.Buffer((16,), "float32")):
    with T.block("b"):
        flat = T.decl_buffer((16,), "float32", data=A.data)
        for i in range(3):
            B[i] = flat[i]
""")
    region = func.body.reads[0]
    assert region.buffer is func.buffers[0] and [r.extent.value for r in region.region] == [4, 4]


def test_vector_indices_cover_their_lanes():
    func = parse("""
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            for k in range(2):
                B[vi * 16 + k * 8 : vi * 16 + k * 8 + 8] = A[T.Ramp(63 - k, -2, 8)]
""")
    block = func.body.body.body
    write, read = block.writes[0].region[0], block.reads[0].region[0]
    assert write.extent.value == 16 and read.extent.value == 16 and read.min.value == 48
    assert isinstance(block.body.body.value, BufferLoad)
