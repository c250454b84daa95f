"""Loops that permit another order of the sums that they carry."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.ir.query import statements
from tirlower.ir.stmt import For
from tirlower.llvm.codegen.machine import machine_of
from tirlower.rewrite.reductions.chains import carried_by_all_loops, reassociable
from tirlower.script import parse

A, B = "A: T.Buffer((512,), 'float64')", "B: T.Buffer((512,), 'float64')"
OUT = "O: T.Buffer((8,), 'float64'), C: T.Buffer(('n',), 'float64')"


def _func(body: str) -> tl.PrimFunc:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return parse(f"@T.prim_func\ndef f({A}, {B}, {OUT}):\n{lines}\n")


def _source(body: str, target: str, kind: str = "llvm") -> str:
    return tl.build(_func(body), tl.Target(target, num_threads=1), schedule="none").source(kind)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("O[0] = O[0] + A[i] * B[i]", 1),
        ("O[0] = A[i] - (B[i] - O[0])", 2),
        ("O[0] = O[0] * A[i]", 1),
        ("O[0] = O[1] + A[i]", 0),
        ("O[i % 8] = O[i % 8] + A[i]", 0),
        ("p = T.bind(i % 8)\n  O[p] = O[p] + A[i]", 0),
        ("for j in range(8):\n   O[j] = O[j] + A[i]", 1),
        ("with T.block('b'):\n   v = T.axis.spatial(512, i)\n   C[v] = C[v] + A[v]", 0),
        ("with T.block('b'):\n   v = T.axis.spatial(8, 3)\n   w = T.axis.reduce(512, i)\n   O[v] = O[v] + A[w]", 1),
    ],
)
def test_the_operations_of_what_a_loop_carries(body: str, count: int) -> None:
    func = _func(f"for i in range(512):\n  {body}")
    loop = next(stmt for stmt in statements(func.body) if isinstance(stmt, For))
    assert len(reassociable(loop)) == count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("for i in range(512):\n  O[0] = O[0] + A[i] * B[i]", 1),
        ("for i, j in T.grid(16, 32):\n  O[3] = A[i] * B[j] + O[3]", 1),
        ("for i, j in T.grid(8, 32):\n  O[i] = O[i] + A[i] * B[j]", 0),
        ("for j, i in T.grid(32, 8):\n  O[i] = O[i] + A[i] * B[j]", 0),
        ("acc = 0.0\nfor i in range(512):\n  acc += A[i] * B[i]\nO[0] = acc", 1),
        ("for j in range(8):\n  acc = 0.0\n  for i in range(512):\n    acc += A[i] * B[j]\n  O[j] = acc", 0),
        ("for i in range(512):\n  p = T.bind(i % 8)\n  O[p] = O[p] + A[i] * B[i]", 0),
        ("O[0] = O[0] + A[0] * B[0]", 0),
        ("for i in range(512):\n  O[0] = O[0] + A[i] * B[i]\n  O[1] = O[1] + A[i] * A[i]", 2),
        ("for i in range(512):\n  O[0] = O[0] + A[i]\n  O[1] = O[1] + B[i]\n  O[2] = O[2] + A[i] * A[i]", 0),
        ("for i in range(512):\n  O[0] = O[0] + A[i] * B[i]\nfor i in range(512):\n  O[1] = O[1] + A[i] * A[i]", 2),
        ("i = 0\nwhile i < 512:\n  O[0] = O[0] + A[i] * B[i]\n  i = i + 1", 1),
        ("for i in range(9):\n  with T.block('b'):\n    v = T.axis.reduce(9, i)\n    O[0] = O[0] + A[v] * B[v]", 1),
        ("for i in range(8):\n  with T.block('b'):\n    v = T.axis.spatial(8, i)\n    O[v] = O[v] + A[v] * B[v]", 0),
    ],
)
def test_sums_that_all_loops_wait_for(body: str, count: int) -> None:
    assert len(carried_by_all_loops(_func(body).body)) == count


MARK = 'T.serial(512, annotations={"tir.reduction": True})'


@pytest.mark.parametrize("operation", ["+=", "-=", "*="])
def test_a_serial_loop_may_permit_another_order_of_its_sums(operation: str) -> None:
    body = f"C[0] = 1.0\nfor k in {MARK}:\n O[0] {operation} A[k]\n C[k] {operation} B[k]"
    text = _source(body, "llvm -mcpu=znver4").splitlines()
    allowed = [line for line in text if "= f" in line and "reassoc" in line]
    assert len(allowed) == 1, "the sum that the loop carries, and not that of another element in each iteration"
    assert not [line for line in _source(body.replace("True", "False"), "llvm").splitlines() if "reassoc" in line]


def test_an_ordered_reduction_of_lanes_is_reordered_where_the_loop_permits_it() -> None:
    call = 'T.call_llvm_pure_intrin("float64", "llvm.vector.reduce.fadd", T.float64(-0.0), A[i * 8:i * 8 + 8])'
    for head, allowed in (("range(8)", False), (MARK.replace("512", "8"), True)):
        calls = [line for line in _source(f"for i in {head}: O[i] = {call}", "llvm").splitlines() if "reduce" in line]
        assert [("reassoc" in line) for line in calls if "call" in line] == [allowed]


def test_what_llvm_adds_in_another_order_it_may_fuse() -> None:
    if not machine_of(tl.Target("llvm -mcpu=haswell")).fuses:
        pytest.skip("not an x86")
    body = f"for k in {MARK}: O[0] += A[k] * B[k]"
    assert "vfmadd" in _source(body, "llvm -mcpu=haswell", "asm")
    exact = _source(body, "llvm -mcpu=haswell -fast-math-contract=0", "asm")
    assert "vaddpd" in exact and "vfma" not in exact
    inside = _source("for j in range(8):\n  for k in range(512): O[j] += A[k] * B[k]", "llvm -mcpu=haswell")
    assert "llvm.fma" in inside and "contract" not in inside
