"""What statements read and write, against a walk over every node."""

from __future__ import annotations

import pytest

from tests.generate.programs import generate
from tirlower.ir import AllocBuffer, Buffer, BufferLoad, BufferStore, For, IRModule, substitute
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, Stmt
from tirlower.schedule.uses import UsesOf
from tirlower.script import parse


@pytest.mark.parametrize("seed", range(25))
def test_all_accesses_of_random_programs(seed: int) -> None:
    parsed = parse(generate(seed).text)
    func = parsed["main"] if isinstance(parsed, IRModule) else parsed
    uses = UsesOf()
    for stmt in each(Stmt, func.body):  # type: ignore[type-abstract]
        if any(block.match_buffers for block in each(Block, stmt)):
            continue
        own = {one.buffer for one in each(AllocBuffer, stmt)} if not isinstance(stmt, AllocBuffer) else set()
        found = uses(stmt)
        inside = list(each(BufferStore, stmt))
        assert set(found.writes) == {one.buffer for one in inside} - own
        declared = {
            id(one)
            for block in each(Block, stmt)
            for part in (*block.reads, *block.writes)
            for one in each(BufferLoad, part)
        }
        reads = {one.buffer for one in each(BufferLoad, stmt) if id(one) not in declared}
        assert set(found.reads) == reads - own


@pytest.mark.parametrize("seed", range(25))
def test_what_is_not_named_in_a_statement_is_not_changed_by_a_substitution(seed: int) -> None:
    parsed = parse(generate(seed).text)
    func = parsed["main"] if isinstance(parsed, IRModule) else parsed
    uses, passed = UsesOf(), 0
    allocated = [one.buffer for one in each(AllocBuffer, func.body)]
    for buffer in (*func.buffers, *allocated):
        new = Buffer("other", buffer.shape, buffer.dtype, scope=buffer.scope)
        for stmt in each(Stmt, func.body):  # type: ignore[type-abstract]
            same = substitute(stmt, {buffer.data: new.data}, {buffer: new}) is stmt
            named = buffer.data in uses(stmt).named
            assert same is not named
            passed += same
    assert passed


def test_what_shapes_regions_and_annotations_name_is_named() -> None:
    func = parse("""
@T.prim_func
def f(N: T.Buffer((1,), "int32"), A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    for i in T.serial(4, annotations={"with": B[0]}):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            T.reads(A[0:4])
            T.writes()
            D = T.alloc_buffer((N[0],), "int32")
            D[vi] = 1
""")
    n, a, b = (buffer.data for buffer in func.buffers)
    loop = next(each(For, func.body))
    assert {n, a, b} <= UsesOf()(loop).named and {n, a} <= UsesOf()(loop.body).named


def test_a_block_counts_what_it_does_and_its_own_memory_does_not() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), p: T.handle):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            T.reads()
            T.writes(B[vi])
            t = T.alloc_buffer((1,), "int32")
            with T.init():
                t[0] = 0
            t[0] = A[vi] + A[0]
            B[vi] = t[0]
    T.evaluate(T.call_extern("int32", "g", A.data, T.address_of(B[0])))
    T.ret(0)
""")
    found = UsesOf()(func.body)
    assert {b.name: n for b, n in found.reads.items()} == {"A": 2, "B": 1} and [b.name for b in found.writes] == ["B"]
    assert {var.name for var in found.pointers} == {"A", "B"} and found.returns
    assert func.buffers[0].data in found.memory and func.params[2] not in found.memory
