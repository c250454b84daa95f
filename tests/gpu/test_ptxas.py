from __future__ import annotations

import pytest

from tests.gpu.codegen.building import build, kernel, needs_ptxas
from tirlower.diagnostics import CodegenError, DeviceError
from tirlower.gpu import ptxas
from tirlower.gpu.ptxas import assemble, find_ptxas
from tirlower.script import parse

AB = 'A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")'


@needs_ptxas
def test_what_a_kernel_needs():
    body = 's = T.alloc_buffer((256,), "float32", scope="shared")\ns[tx] = A[tx]\nT.tvm_storage_sync("shared")\nB[tx] = s[255 - tx]'
    ((name, found),) = assemble(build(kernel(AB, body, threads=256)).ptx, "sm_80").items()
    assert (found.kernel, found.shared, found.barriers) == (name, 1024, 1)
    assert (found.spill_stores, found.spill_loads, found.stack, found.remarks) == (0, 0, 0, ())
    assert 4 <= found.registers <= 32


@needs_ptxas
def test_local_memory_is_counted():
    body = """
    r = T.alloc_buffer((64,), "float32", scope="local")
    for i in range(64):
        r[T.cast(A[i], "int32") % 64] = A[tx + i]
    B[tx] = r[T.cast(A[tx], "int32") % 64]
    """
    (found,) = assemble(build(kernel(AB, body)).ptx, "sm_80").values()
    assert found.stack >= 256


@needs_ptxas
def test_every_kernel_of_a_module():
    func = parse("""
@T.prim_func
def two(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        B[tx] = A[tx]
    for ty in T.thread_binding(32, thread="threadIdx.x"):
        A[ty] = B[31 - ty]
""")
    module = build(func)
    assert len(module.kernels) == 2
    assert set(assemble(module.ptx, "sm_80")) == set(module.kernels)


@needs_ptxas
def test_ptx_that_is_refused():
    module = build(kernel(AB, "B[tx] = A[tx]"))
    with pytest.raises(CodegenError, match="ptxas refuses the PTX for sm_80") as caught:
        assemble(module.ptx.replace("ld.global.nc.b32", "ld.globule.b32"), "sm_80")
    assert "module.ptx" in str(caught.value)


@needs_ptxas
def test_remarks_are_handed_on():
    """A warpgroup's sums that are used ahead of the wait make ptxas wait for them, and say so."""
    body = """
    s = T.alloc_buffer((16384,), "bfloat16", scope="shared.dyn")
    acc = T.alloc_buffer((32,), "float32", scope="local")
    s[tx] = T.bfloat16(0)
    T.tvm_storage_sync("shared.dyn")
    for i in T.unroll(32):
        acc[i] = T.float32(0)
    T.ptx_wgmma_fence()
    T.ptx_wgmma("float32", "m64n64k16", "bf16", "bf16", acc.data, 0, s.data, 0, s.data, 4096, 128, True, False, False)
    for i in T.unroll(32):
        acc[i] = acc[i] * A[tx]
    T.ptx_wgmma("float32", "m64n64k16", "bf16", "bf16", acc.data, 0, s.data, 0, s.data, 4096, 128, True, False, False)
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)
    for i in T.unroll(32):
        B[tx + i] = acc[i]
    """
    (found,) = assemble(build(kernel(AB, body, threads=128), "sm_90a").ptx, "sm_90a").values()
    assert any("injected" in remark for remark in found.remarks)


def test_without_an_assembler(monkeypatch):
    monkeypatch.setattr(ptxas, "_candidates", lambda tool, variable: iter(()))
    assert find_ptxas() is None
    with pytest.raises(DeviceError, match="no ptxas") as caught:
        assemble(".version 8.0", "sm_80")
    assert "TIRLOWER_PTXAS" in str(caught.value)


def test_the_assembler_that_is_named_comes_first(monkeypatch, tmp_path):
    tool = tmp_path / "ptxas"
    tool.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setenv("TIRLOWER_PTXAS", str(tool))
    assert find_ptxas() != tool  # it cannot be executed
    tool.chmod(0o755)
    assert find_ptxas() == tool
    assert assemble("", "sm_80") == {}
