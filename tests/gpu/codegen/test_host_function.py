"""What host code may do, and what its parameters become."""

from __future__ import annotations

import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import device_module, split
from tirlower.diagnostics import LoweringError
from tirlower.gpu.codegen.host_function import (
    SCRATCH,
    STREAM,
    TABLE,
    check_host,
    device_memory,
    with_plain_parameters,
)
from tirlower.gpu.launch.signature import device_signature
from tirlower.ir.data import data_parameters
from tirlower.script import parse
from tirlower.script import tir as T

REFUSED = [
    ("    A[0] = n", r"accesses 'A', which is in device memory"),
    ("    if A[0] > 2:\n        T.tvm_call_packed(\"k\", A.data)", r"accesses 'A', which is in device memory"),
    ("    T.tvm_call_packed(\"vector_add_kernel\", A.data, A.data, A.data, A[0], 1, 1)", r"accesses 'A', which is in device"),
    ("    T.tvm_call_packed(\"vector_add_kernel\", A.data, A.data, A.data, n, A[n], 1)", r"accesses 'A', which is in device"),
    ("    T.tvm_call_packed(\"vector_add_kernel\", T.address_of(A[A[0]]), A.data, A.data, n, 1, 1)", r"accesses 'A', which is in device"),
    ("    p: T.handle(\"int32\") = A.data\n    B = T.decl_buffer((8,), \"int32\", data=p)\n    B[0] = n", r"accesses 'B', which is in"),
    ("    c = T.alloc_buffer((8,), \"int32\")\n    T.tvm_call_packed(\"vector_add_kernel\", c.data, A.data, A.data, n, c[n], 1)", r"accesses 'c'"),
    ('    T.tvm_call_packed("k", A.data)', r"host code calls .k., which is no kernel of the module"),
    ('    T.tvm_call_packed("vector_add_kernel", A.data)', r"the launch of 'vector_add_kernel' has 1 arguments"),
    ('    T.evaluate(T.call_extern("int32", "puts", n))', r"host code calls"),
    ('    for tx in T.thread_binding(8, thread="threadIdx.x"):\n        A[tx] = 0', r"loop 'tx' over threadIdx.x stands in host code"),
    ('    s = T.alloc_buffer((8,), "int32", scope="shared")\n    T.tvm_call_packed("vector_add_kernel", s.data, A.data, A.data, n, 1, 1)', r"in scope 'shared' and gives it to a kernel"),
]  # fmt: skip


@pytest.mark.parametrize("body, text", REFUSED)
def test_what_host_code_cannot_do(body: str, text: str) -> None:
    func = parse(f"""
@T.prim_func
def host(A: T.Buffer((8,), "int32"), n: T.int32):
    T.func_attr({{"global_symbol": "f"}})
{body}
""")
    module = device_module(split(programs.vector_add))
    with pytest.raises(LoweringError, match=f"the host code of `f`: .*{text}"):
        check_host(func, module)


@T.prim_func
def views(A: T.Buffer((8,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "f"})
    c = T.alloc_buffer((8,), "int32")
    W = T.alloc_buffer((8,), "int32")
    V = T.alloc_buffer((8,), "int32")
    c[n] = 4
    p: T.handle("int32") = V.data
    T.tvm_call_packed("vector_add_kernel", T.address_of(W[c[n]]), A.data, p, n, c[n], 1)


def test_memory_that_kernels_are_given_is_the_devices() -> None:
    check_host(views, device_module(split(programs.vector_add)))
    assert sorted(var.name for var in device_memory(views)) == ["A", "V", "W", "p"]


@T.prim_func
def mixed(
    k: T.int32,
    A: T.Buffer(("n", 4), "int32"),
    m: T.int64,
    B: T.Buffer(("m", "n"), "int32"),
    C: T.Buffer(("s",), "int32"),
):
    T.func_attr({"global_symbol": "mixed", "tir.outputs": ["B"], "tir.noalias": True})
    B[k, 0] = A[0, 0] + C[0]


def test_parameters_become_pointers_and_numbers() -> None:
    _, symbols = device_signature(mixed)
    plain = with_plain_parameters(mixed, symbols)
    a, b, c = (buffer.data for buffer in mixed.buffers)
    assert plain.params == (mixed.params[0], a, mixed.params[2], b, c, TABLE, STREAM, SCRATCH, *symbols)
    assert [var.name for var in symbols] == ["n", "s"] and not plain.buffer_map
    assert data_parameters(plain) == data_parameters(mixed) == {mixed.params[0]}
