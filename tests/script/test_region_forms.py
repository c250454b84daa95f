"""``T.realize`` and ``T.prefetch`` of regions, and other forms of TIR: what they become, what that computes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ScriptError
from tirlower.ir import AttrStmt, Call, structural_equal
from tirlower.ir.query import each
from tirlower.script import parse
from tirlower.script import tir as T


def test_a_realized_buffer_has_memory_in_its_scope():
    @T.prim_func
    def doubled(A: T.Buffer((16,), "int32")):
        B = T.Buffer((16,), "int32")
        with T.realize(B[4:12], "local", True):
            for i in range(4, 12):
                B[i] = A[i] * 2
            for i in range(4, 12):
                A[i] = B[i]
        A[0] = -1

    @T.prim_func
    def plain(A: T.Buffer((16,), "int32")):
        with T.Seq():
            B = T.alloc_buffer((16,), "int32", scope="local")
            for i in range(4, 12):
                B[i] = A[i] * 2
            for i in range(4, 12):
                A[i] = B[i]
        A[0] = -1

    tl.ir.assert_structural_equal(doubled.body, plain.body, map_free_vars=True)
    assert structural_equal(parse(doubled.script()), doubled)
    data = np.arange(16, dtype="int32")
    expected = data.copy()
    expected[4:12] *= 2
    expected[0] = -1
    tl.build(doubled)(data)
    np.testing.assert_array_equal(data, expected)


def test_realize_without_with_holds_for_the_rest():
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        B = T.buffer((8,), "int32", scope="shared")
        T.realize(B[0:8], "shared")
        B[0] = A[0] + 1
        A[0] = B[0]

    allocation = f.body.stmts[0]
    assert type(allocation).__name__ == "AllocBuffer" and allocation.buffer.scope == "shared"


def test_a_buffer_with_memory_is_not_realized():
    with pytest.raises(ScriptError, match="memory, which it has already"):
        parse("""
def f(A: T.Buffer((8,), "int32")):
    T.realize(A[0:4], "shared")
    A[0] = 1
""")
    with pytest.raises(ScriptError, match="memory, which it has already"):
        parse("""
def f(A: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    T.realize(B[0:4])
    B[0] = 1
""")


def fetched(func):
    """The elements whose lines a function fetches, as the loops around say."""
    found = []

    def walk(op, env):
        kind = type(op).__name__
        if kind == "Seq":
            for stmt in op.stmts:
                walk(stmt, env)
        elif kind == "For":
            for value in range(op.extent.value):
                walk(op.body, {**env, op.loop_var: value})
        elif kind == "Evaluate":
            load = op.value.args[0].args[0]
            assert [arg.value for arg in op.value.args[1:]] == [0, 3, 1]
            found.append(tuple(tl.ir.substitute(index, env).value for index in load.indices))

    walk(func.body, {})
    return found


def test_each_line_of_a_region_is_fetched_once():
    @T.prim_func
    def f(A: T.Buffer((8, 64), "float32")):
        T.prefetch(A, [T.Range(2, 4), T.Range(16, 56)])

    # 16 floats are a line: of 40 from 16 on three lines
    assert fetched(f) == [(row, column) for row in (2, 3) for column in (16, 32, 48)]
    assert structural_equal(parse(f.script()), f)
    tl.build(f)(np.zeros((8, 64), "float32"))


def test_regions_and_whole_buffers_are_fetched():
    @T.prim_func
    def f(A: T.Buffer((4,), "float64"), B: T.Buffer((2, 16), "float64")):
        T.prefetch(A)
        T.prefetch(B[1:2, 0:16])
        T.prefetch(T.address_of(A[3]), 0, 3, 1)

    assert fetched(f) == [(0,), (1, 0), (1, 8), (3,)]


@pytest.mark.parametrize(
    ("call", "message"),
    [("T.prefetch(A, [T.Range(0, 4)])", "2 ranges, got 1"), ("T.prefetch(A, [1, 2])", "are ranges, got")],
)
def test_wrong_bounds(call, message):
    with pytest.raises(ScriptError, match=message):
        parse(f"""
def f(A: T.Buffer((8, 8), "int32")):
    {call}
""")


def test_an_attribute_of_two_buffers_binds_one_to_a_part_of_the_other():
    func = parse("""
def f(A: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((4, 8), "float32")
    with T.attr([B, A], "buffer_bind_scope", T.tvm_tuple(4, 4, 8, 8)):
        B[0, 0] = 1.0
""")
    [attr] = each(AttrStmt, func.body)
    bound, source = attr.node
    assert (attr.key, bound.name, source.name) == ("buffer_bind_scope", "B", "A")
    assert [int(bound_of) for bound_of in map(str, attr.value.args)] == [4, 4, 8, 8]
    assert structural_equal(parse(func.script()), func)


def test_calls_without_a_type_give_nothing_and_intrinsics_of_llvm_are_their_names():
    func = parse("""
def f(A: T.Buffer((4,), "int32")):
    nothing = T.call_extern("f", A.data, dtype="")
    A[0] = T.call_llvm_pure_intrin("int32", T.llvm_lookup_intrinsic_id("llvm.ctpop"), A[1])
""")
    [call] = [one for one in each(Call, func.body) if one.op.name == "tir.call_extern"]
    assert str(call.dtype) == "void"
    assert structural_equal(parse(func.script()), func)
    assert str(T.llvm_lookup_intrinsic_id("llvm.ctpop")) == '"llvm.ctpop"'
