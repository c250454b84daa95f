"""Access regions of blocks against boxes written by hand, and against enumeration of random guarded loops."""

from __future__ import annotations

import random

import pytest

from tests.generate.nodes import Nodes, nest
from tirlower import ir
from tirlower.analysis import get_block_access_region, get_block_read_write_region
from tirlower.arith import Analyzer
from tirlower.diagnostics import WellFormedError
from tirlower.ir import build
from tirlower.ir.evaluator import Evaluator
from tirlower.script import tir as T

pytestmark = pytest.mark.by_day

A = ir.Buffer("A", (16, 16))
B = ir.Buffer("B", (16, 16))


def block(body, init=None, match=()):
    return ir.Block("b", (), True, None, None, init, match, {}, body)


def extern(*args):
    return build.call("tir.call_extern", ir.StringImm("f"), *args, dtype="int32")


def boxes(regions):
    simplify = Analyzer().simplify
    return {
        r.buffer.name: [(str(simplify(part.min)), str(simplify(part.extent))) for part in r.region] for r in regions
    }


def first_block(func, name):
    found = []
    ir.post_order_visit(
        func.body, lambda op: found.append(op) if isinstance(op, ir.Block) and op.name == name else None
    )
    return found[0]


def test_a_matmul_block():
    @T.prim_func
    def matmul(A: T.Buffer((16, 8), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j, k in T.grid(16, 16, 8):
            with T.block("update"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    update = first_block(matmul, "update")
    reads, writes, opaque = get_block_access_region(update)
    assert boxes(reads) == {"A": [("vi", "1"), ("vk", "1")], "B": [("vk", "1"), ("vj", "1")]}
    assert boxes(writes) == {"C": [("vi", "1"), ("vj", "1")]}
    assert opaque == []
    reads, _, _ = get_block_access_region(update.with_(init=None))
    assert boxes(reads)["C"] == [("vi", "1"), ("vj", "1")]


def test_loops_inside_are_relaxed_and_nested_blocks_count_by_their_regions():
    @T.prim_func
    def tiled(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
        for io in range(4):
            with T.block("outer"):
                vio = T.axis.spatial(4, io)
                for ii, j in T.grid(4, 16):
                    with T.block("inner"):
                        vi = T.axis.spatial(16, vio * 4 + ii)
                        vj = T.axis.spatial(16, j)
                        T.reads(A[vi, 0:16])
                        B[vi, vj] = A[vi, vj]

    reads, writes, _ = get_block_access_region(first_block(tiled, "outer"))
    assert boxes(reads) == {"A": [("vio * 4", "4"), ("0", "16")]}
    assert boxes(writes) == {"B": [("vio * 4", "4"), ("0", "16")]}


def test_what_is_opaque():
    body = ir.Seq(
        (
            ir.Evaluate(extern(build.call("tir.address_of", ir.BufferLoad(A, (0, 0))))),
            ir.BufferStore(B, ir.BufferLoad(A, (1, 2)), (3, 4)),
        )
    )
    one = block(body)
    reads, writes, opaque = get_block_access_region(one, {A.data: A, B.data: B})
    assert boxes(writes) == {"B": [("3", "1"), ("4", "1")]}
    body = ir.Seq((ir.Evaluate(extern(A.data)), body.stmts[1]))
    reads, writes, opaque = get_block_access_region(block(body), {A.data: A, B.data: B})
    assert boxes(reads) == {"A": [("1", "1"), ("2", "1")]}
    assert boxes(opaque) == {"A": [("0", "16"), ("0", "16")]}
    reads, writes = get_block_read_write_region(block(body), {A.data: A, B.data: B})
    assert boxes(reads) == {"A": [("0", "16"), ("0", "16")]}
    assert boxes(writes) == {"B": [("3", "1"), ("4", "1")], "A": [("0", "16"), ("0", "16")]}


def test_access_pointers_say_what_they_do():
    pointer = A.access_ptr("r")
    body = ir.Evaluate(extern(pointer, B.access_ptr("w")))
    reads, writes, opaque = get_block_access_region(block(body), {A.data: A, B.data: B})
    assert boxes(reads) == {"A": [("0", "16"), ("0", "16")]}
    assert boxes(writes) == {"B": [("0", "16"), ("0", "16")]}
    assert opaque == []


def test_a_matched_region_counts_for_its_source():
    M = ir.Buffer("M", (4, 4))
    base = ir.Var("v")
    match = ir.MatchBufferRegion(M, ir.BufferRegion(A, (ir.Range(base, 4), ir.Range(2, 4))))
    _, writes, _ = get_block_access_region(block(ir.BufferStore(M, 1.0, (1, 3)), match=(match,)), {A.data: A})
    assert boxes(writes) == {"A": [("v + 1", "1"), ("5", "1")]}


def test_a_guard_narrows_the_loops_inside():
    i = ir.Var("i")
    inner = ir.BufferStore(B, ir.BufferLoad(A, (i - 1, 0)), (i, 0))
    loop = ir.For(i, 0, 16, "serial", None, {}, ir.IfThenElse(ir.And(i >= 1, i < 9), inner, None))
    reads, writes, _ = get_block_access_region(block(loop))
    assert boxes(reads) == {"A": [("0", "8"), ("0", "1")]}
    assert boxes(writes) == {"B": [("1", "8"), ("0", "1")]}
    padded = build.if_then_else(ir.And(i >= 1, i < 9), ir.BufferLoad(A, (i - 1, 0)), ir.FloatImm("float32", 0.0))
    loop = ir.For(i, 0, 10, "serial", None, {}, ir.BufferStore(B, padded, (i, 0)))
    reads, writes, _ = get_block_access_region(block(loop))
    assert boxes(reads) == {"A": [("0", "8"), ("0", "1")]}
    assert boxes(writes) == {"B": [("0", "10"), ("0", "1")]}


def test_a_branch_that_never_runs_accesses_nothing():
    i = ir.Var("i")
    loop = ir.For(
        i,
        0,
        4,
        "serial",
        None,
        {},
        ir.IfThenElse(i >= 4, ir.BufferStore(B, 0.0, (i, 0)), ir.BufferStore(A, 0.0, (i, 0))),
    )
    _, writes, _ = get_block_access_region(block(loop))
    assert boxes(writes) == {"A": [("0", "4"), ("0", "1")]}


def test_what_is_no_block():
    with pytest.raises(WellFormedError, match="takes a block, got Evaluate"):
        get_block_access_region(ir.Evaluate(0))


def _random_block(rng):
    """Loops with constant ranges, guards, and affine accesses; the accesses by enumeration."""
    variables = [ir.Var(name) for name in "ijk"[: rng.randint(1, 3)]]
    ranges = [(rng.randint(0, 3), rng.randint(1, 5)) for _ in variables]

    nodes = Nodes(rng, variables)

    def affine():
        return nodes.affine(20, 30, (0, 1, 1, 2, 3, -1))

    def guard():
        return nodes.compared(ir.Mul(rng.choice(variables), rng.choice((1, 1, 2, -1))), -3, 6)

    C, D = ir.Buffer("C", (100,), "int32"), ir.Buffer("D", (100,), "int32")
    load, other = ir.BufferLoad(C, (affine(),)), ir.BufferLoad(C, (affine(),))
    value = rng.choice((load, build.if_then_else(guard(), load, other), ir.Select(guard(), load, other) + other))
    body = ir.BufferStore(D, value, (affine(),))
    for _ in range(rng.randint(0, 2)):
        body = ir.IfThenElse(guard(), body, None if rng.random() < 0.5 else ir.BufferStore(D, other, (affine(),)))
    return block(nest([(var, *span) for var, span in zip(variables, ranges, strict=True)], body))


def _accesses(stmt, env, found):
    def expr(op):
        if isinstance(op, ir.BufferLoad):
            found["reads"].add(Evaluator(op.indices[0]).at(env))
        elif isinstance(op, ir.Select) or (isinstance(op, ir.Call) and op.op.name == "tir.if_then_else"):
            condition, then_value, else_value = op.children()
            expr(then_value if Evaluator(condition).at(env) else else_value)
        else:
            for child in op.children():
                expr(child)

    if isinstance(stmt, ir.For):
        for value in range(stmt.min.value, stmt.min.value + stmt.extent.value):
            _accesses(stmt.body, {**env, stmt.loop_var: value}, found)
    elif isinstance(stmt, ir.IfThenElse):
        taken = stmt.then_case if Evaluator(stmt.condition).at(env) else stmt.else_case
        if taken is not None:
            _accesses(taken, env, found)
    else:
        found["writes"].add(Evaluator(stmt.indices[0]).at(env))
        expr(stmt.value)


@pytest.mark.parametrize("seed", range(300))
def test_random_blocks(seed):
    rng = random.Random(seed)
    one = _random_block(rng)
    found = {"reads": set(), "writes": set()}
    _accesses(one.body, {}, found)
    reads, writes, _ = get_block_access_region(one)
    simplify = Analyzer().simplify
    for regions, touched in ((reads, found["reads"]), (writes, found["writes"])):
        if not touched:
            continue
        part = regions[0].region[0]
        low, extent = simplify(part.min).value, simplify(part.extent).value
        assert low <= min(touched) and max(touched) < low + extent, (seed, low, extent, sorted(touched))


def test_the_statement_is_not_changed():
    one = _random_block(random.Random(5))
    before = ir.structural_hash(one)
    get_block_access_region(one)
    assert ir.structural_hash(one) == before


def test_the_pointer_of_a_matched_region_is_that_of_its_source():
    M = ir.Buffer("M", (4, 4))
    N = ir.Buffer("N", (2, 2))
    match = ir.MatchBufferRegion(M, ir.BufferRegion(A, (ir.Range(2, 4), ir.Range(2, 4))))
    inner = ir.MatchBufferRegion(N, ir.BufferRegion(M, (ir.Range(0, 2), ir.Range(1, 2))))
    for pointer in (M.data, N.data):
        body = ir.Evaluate(extern(pointer, B.access_ptr("w")))
        _, _, opaque = get_block_access_region(block(body, match=(match, inner)), {A.data: A, B.data: B})
        assert [region.buffer for region in opaque] == [A]
