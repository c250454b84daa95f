"""verify_gpu_code: each limit at its edge, on both sides."""

from __future__ import annotations

import pytest

from tirlower import ir
from tirlower.analysis import gpu_code_errors, verify_gpu_code
from tirlower.diagnostics import ArgumentValueError

ev = ir.Evaluate(0)


def bind(tag, extent, body):
    return ir.For(ir.Var(tag[-1]), 0, extent, "thread_binding", tag, {}, body)


def alloc(shape, scope, dtype="float32"):
    return ir.AllocBuffer(ir.Buffer("b", shape, dtype, scope=scope))


def func(*stmts):
    return ir.PrimFunc((), {}, "void", {}, ir.seq(*stmts))


def edge(f, name, value):
    """The constraint holds at the value and fails one below."""
    assert verify_gpu_code(f, {name: value}) and not verify_gpu_code(f, {name: value - 1}), (
        gpu_code_errors(f, {name: value}),
        gpu_code_errors(f, {name: value - 1}),
    )


def test_threads():
    f = func(bind("blockIdx.x", 4096, bind("threadIdx.z", 2, bind("threadIdx.y", 8, bind("threadIdx.x", 32, ev)))))
    edge(f, "max_threads_per_block", 512)
    edge(f, "max_thread_x", 32)
    edge(f, "max_thread_y", 8)
    edge(f, "max_thread_z", 2)
    assert verify_gpu_code(f, {})


def test_memory_is_summed_over_a_kernel():
    body = ir.Seq((alloc((64,), "shared"), alloc((32,), "shared", "int8"), alloc((16,), "local", "float16"), ev))
    f = func(bind("blockIdx.x", 8, bind("threadIdx.x", 32, body)))
    edge(f, "max_shared_memory_per_block", 288)
    edge(f, "max_local_memory_per_block", 32)
    two = func(bind("threadIdx.x", 32, body), bind("threadIdx.x", 32, body))
    edge(two, "max_shared_memory_per_block", 288)
    branches = bind(
        "threadIdx.x", 32, ir.Seq((ir.Seq((alloc((4,), "shared"), ev)), ir.Seq((alloc((4,), "shared"), ev))))
    )
    edge(func(branches), "max_shared_memory_per_block", 32)


def test_memory_allocated_outside_counts_where_it_is_used():
    shared = alloc((100,), "shared", "int8")
    use = ir.BufferStore(shared.buffer, ir.IntImm("int8", 0), (0,))
    f = ir.PrimFunc((), {}, "void", {}, ir.Seq((shared, bind("threadIdx.x", 4, ir.Seq((use, use))))))
    edge(f, "max_shared_memory_per_block", 100)
    idle = ir.PrimFunc((), {}, "void", {}, ir.Seq((shared, bind("threadIdx.x", 4, ev))))
    assert verify_gpu_code(idle, {"max_shared_memory_per_block": 0})


def test_dynamic_shared_memory_and_symbolic_sizes():
    n = ir.Var("n")
    f = ir.PrimFunc(
        (n,),
        {},
        "void",
        {},
        bind("threadIdx.x", 4, ir.Seq((alloc((8,), "shared.dyn"), alloc((n,), "shared"), ev))),
    )
    edge(f, "max_shared_memory_per_block", 32)


def test_virtual_threads():
    f = func(bind("blockIdx.x", 2, bind("vthread.x", 8, bind("threadIdx.x", 4, ev))))
    edge(f, "max_vthread", 8)
    edge(f, "max_threads_per_block", 4)


def test_vectors():
    A = ir.Buffer("A", (64,))
    wide = ir.BufferStore(A, ir.BufferLoad(A, (ir.Ramp(0, 1, 4),)), (ir.Ramp(4, 1, 4),))
    edge(func(bind("threadIdx.x", 4, wide)), "max_vector_bytes", 16)
    wide_value = ir.Cast("float64x4", ir.BufferLoad(A, (ir.Ramp(0, 1, 4),)))
    computed = ir.BufferStore(A, ir.Cast("float32", ir.Shuffle((wide_value,), (0,))), (0,))
    edge(func(bind("threadIdx.x", 4, computed)), "max_vector_bytes", 32)
    # On the host it is no matter of the device.
    assert verify_gpu_code(func(wide), {"max_vector_bytes": 4})


def test_kernels():
    one = ir.PrimFunc(
        (), {}, "void", {}, ir.Seq(tuple(bind("threadIdx.x", 4, ir.Evaluate(ir.Var("q"))) for _ in range(3)))
    )
    edge(one, "max_kernels", 3)
    loop = ir.For(ir.Var("i"), 0, 7, "serial", None, {}, bind("blockIdx.x", 2, bind("threadIdx.x", 4, ev)))
    edge(func(loop), "max_kernels", 1)


def test_an_axis_has_one_extent_in_a_kernel():
    body = ir.Seq((bind("threadIdx.x", 4, ir.Evaluate(ir.Var("a"))), bind("threadIdx.x", 8, ir.Evaluate(ir.Var("b")))))
    f = func(bind("blockIdx.x", 2, body))
    assert gpu_code_errors(f, {}) == ["the extent of threadIdx.x is 4 and 8 in one kernel"]
    assert verify_gpu_code(func(*body.stmts), {})


def test_a_thread_extent_that_is_not_constant():
    n = ir.Var("n")
    f = ir.PrimFunc((n,), {}, "void", {}, bind("threadIdx.x", n, ev))
    assert verify_gpu_code(f, {"max_kernels": 1})
    assert gpu_code_errors(f, {"max_threads_per_block": 8}) == [
        "the number of threads in a block is not constant, so max_threads_per_block=8 cannot be checked"
    ]
    grid = ir.PrimFunc((n,), {}, "void", {}, bind("blockIdx.x", n, bind("threadIdx.x", 4, ev)))
    assert verify_gpu_code(grid, {"max_threads_per_block": 8, "max_thread_x": 8})


def test_constraints_are_checked():
    with pytest.raises(ArgumentValueError, match="max_thread_w"):
        verify_gpu_code(func(ev), {"max_thread_w": 4})
    with pytest.raises(ArgumentValueError, match="whole number"):
        verify_gpu_code(func(ev), {"max_thread_x": 4.0})
    assert verify_gpu_code(func(ev), {"max_thread_x": ir.IntImm("int32", 4)})
