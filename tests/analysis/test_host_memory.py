"""verify_memory: who may touch a device's memory."""

from __future__ import annotations

import pytest

from tirlower import ir
from tirlower.analysis import memory_errors, verify_memory
from tirlower.machine.target import Target

A, B = ir.Buffer("A", (8,)), ir.Buffer("B", (8,))
a, b = ir.Var("a", "handle"), ir.Var("b", "handle")
i = ir.Var("i")


def func(body, target="cuda"):
    attrs = {} if target is None else {"target": Target(target)}
    return ir.PrimFunc((a, b), {a: A, b: B}, "void", attrs, body)


def loop(body, tag=None):
    return ir.For(i, 0, 8, "thread_binding" if tag else "serial", tag, {}, body)


COPY = ir.BufferStore(B, ir.BufferLoad(A, (i,)), (i,))


def test_a_loop_on_the_host():
    assert memory_errors(func(loop(COPY))) == [
        "the host writes the buffer 'B' directly, outside any loop over threads",
        "the host reads the buffer 'A' directly, outside any loop over threads",
    ]


@pytest.mark.parametrize("target", ["cuda", "nvptx", "vulkan", "opencl", "metal", "rocm"])
def test_devices(target):
    assert not verify_memory(func(loop(COPY), target))
    assert verify_memory(func(loop(COPY, "threadIdx.x"), target))
    assert verify_memory(func(loop(COPY, "blockIdx.x"), target))


@pytest.mark.parametrize("target", [None, "llvm", "c"])
def test_hosts(target):
    assert verify_memory(func(loop(COPY), target))


def test_one_access_outside_is_enough():
    inside = loop(COPY, "threadIdx.x")
    outside = ir.BufferStore(B, 0.0, (0,))
    assert not verify_memory(func(ir.Seq((inside, outside))))


def test_the_extent_of_a_thread_loop_is_evaluated_on_the_host():
    N = ir.Buffer("N", (1,), "int32")
    n = ir.Var("n", "handle")
    body = ir.For(i, 0, ir.BufferLoad(N, (0,)), "thread_binding", "threadIdx.x", {}, ir.Evaluate(0))
    f = ir.PrimFunc((n,), {n: N}, "void", {"target": Target("cuda")}, body)
    assert memory_errors(f) == ["the host reads the buffer 'N' directly, outside any loop over threads"]


def test_own_memory_is_the_hosts():
    C = ir.Buffer("C", (8,))
    f = ir.PrimFunc(
        (), {}, "void", {"target": Target("cuda")}, ir.Seq((ir.AllocBuffer(C), ir.BufferStore(C, 0.0, (0,))))
    )
    assert verify_memory(f)


def test_views_and_copied_pointers():
    p = ir.Var("p", A.data.type)
    V = ir.Buffer("V", (8,), "float32", p)
    body = ir.Seq((ir.Bind(p, A.data), ir.DeclBuffer(V), ir.BufferStore(V, 0.0, (0,))))
    assert memory_errors(func(body)) == ["the host writes the buffer 'A' directly, outside any loop over threads"]


def test_regions_of_another_target():
    body = ir.AttrStmt(Target("cuda"), "target", 0, COPY)
    assert verify_memory(func(loop(body)))
