"""Bytes allocated, against sums done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower import ir
from tirlower.analysis import calculate_allocated_bytes, calculate_constant_bytes, calculate_workspace_bytes
from tirlower.diagnostics import ArgumentValueError
from tirlower.script import tir as T

ev = ir.Evaluate(0)


def alloc(name, shape, dtype="float32", scope="global"):
    return ir.AllocBuffer(ir.Buffer(name, shape, dtype, scope=scope))


def func(*stmts, params=()):
    return ir.PrimFunc(params, {}, "void", {}, ir.Seq(stmts))


def loop(body, extent=4):
    return ir.For(ir.Var("i"), 0, extent, "serial", None, {}, body)


def test_scopes_are_counted_apart():
    f = func(alloc("a", (4, 8)), alloc("b", (16,), "float16", "shared"), alloc("c", (3,), "int8", "shared"), ev)
    assert calculate_allocated_bytes(f) == {"main": {"global": 128, "shared": 35}}


def test_sequential_scopes_share_and_nested_ones_add_up():
    f = func(
        alloc("a", (10,), "int8"),
        loop(ir.Seq((alloc("b", (20,), "int8"), ev))),
        loop(ir.Seq((alloc("c", (7,), "int8"), loop(ir.Seq((alloc("d", (30,), "int8"), ev))), ev))),
    )
    assert calculate_allocated_bytes(f) == {"main": {"global": 47}}
    assert calculate_workspace_bytes(f, 1) == 47
    # 10 -> 16, 7 -> 16, 30 -> 32
    assert calculate_workspace_bytes(f, 16) == 64


def test_both_branches():
    x = ir.Var("x", "bool")
    f = func(
        ir.IfThenElse(x, ir.Seq((alloc("a", (5,), "int8"), ev)), ir.Seq((alloc("b", (9,), "int8"), ev))), params=(x,)
    )
    assert calculate_allocated_bytes(f) == {"main": {"global": 9}}


def test_a_symbolic_size_counts_as_nothing():
    n = ir.Var("n")
    f = func(alloc("a", (n, 4)), alloc("b", (8,), "int8"), ev, params=(n,))
    assert calculate_allocated_bytes(f) == {"main": {"global": 8}}
    assert calculate_workspace_bytes(f, 4) == 8


def test_element_sizes():
    for dtype, size in (("bool", 1), ("int4", 1), ("float8_e4m3fn", 1), ("bfloat16", 2), ("float64", 8)):
        assert calculate_allocated_bytes(func(alloc("a", (3,), dtype), ev)) == {"main": {"global": 3 * size}}, dtype
    assert calculate_workspace_bytes(func(alloc("a", (0, 4)), ev), 8) == 0


def test_strides_widen_an_allocation():
    padded = ir.AllocBuffer(ir.Buffer("p", (4, 3), "int8", strides=(8, 1)))
    assert calculate_allocated_bytes(func(padded, ev)) == {"main": {"global": 32}}


def test_constants():
    const = ir.AllocConst(ir.Buffer("k", (5,), "int32"), np.arange(5, dtype=np.int32))
    f = func(const, alloc("a", (2,), "int32"), ev)
    assert calculate_allocated_bytes(f) == {"main": {"global": 28}}
    assert calculate_workspace_bytes(f, 1) == 8
    assert calculate_constant_bytes(f, 1) == 20
    assert calculate_constant_bytes(f, 16) == 32


def test_a_module_lists_its_functions():
    mod = ir.IRModule({"f": func(alloc("a", (4,), "int8"), ev), "g": func(ev)})
    assert calculate_allocated_bytes(mod) == {"f": {"global": 4}, "g": {}}


def test_buffers_of_blocks_and_views():
    @T.prim_func
    def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        C = T.alloc_buffer((16,), "float32")
        for i in range(16):
            with T.block("c"):
                v = T.axis.spatial(16, i)
                C[v] = A[v]
        for i in range(16):
            with T.block("b"):
                v = T.axis.spatial(16, i)
                B[v] = C[v]

    assert calculate_allocated_bytes(f) == {"main": {"global": 64}}
    data = ir.Buffer("a", (8,), "int8")
    view = ir.DeclBuffer(ir.Buffer("v", (2,), "int32", data.data))
    assert calculate_workspace_bytes(func(ir.AllocBuffer(data), view, ev), 1) == 8


@pytest.mark.parametrize("bad", [0, -4, 1.5, True])
def test_an_alignment_is_positive(bad):
    with pytest.raises(ArgumentValueError, match="workspace_byte_alignment"):
        calculate_workspace_bytes(func(ev), bad)
