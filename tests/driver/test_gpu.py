"""Builds for a GPU: what they resolve, what they know of themselves, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError, LegalityError, TirError
from tirlower.driver.gpu import resolved_target
from tirlower.gpu.installed import Installed
from tirlower.machine.target import Target
from tirlower.script import ir as I
from tirlower.script import tir as T

SM_80 = "nvptx -arch=sm_80"


@T.prim_func
def scale(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), k: T.float32):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding((n + 127) // 128, thread="blockIdx.x"):
        for tx in T.thread_binding(128, thread="threadIdx.x"):
            if bx * 128 + tx < n:
                B[bx * 128 + tx] = A[bx * 128 + tx] * k


def test_a_build_knows_itself(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tl.build(scale, target=SM_80)
    assert ".target sm_80" in kernel.source("ptx") and "define ptx_kernel" in kernel.source("llvm")
    assert "T.tvm_call_packed" in kernel.source("tir") and "ptx_kernel" in kernel.source("llvm-opt")
    report = kernel.report()
    assert [note.loop for note in report.loops] == ["bx", "tx"] and not report.guarded
    assert {"legality", "passes", "generate", "llvm", "whole"} <= set(report.timings)
    assert "FlattenBuffer" in report.passes and "scale: loop bx" in str(report)
    assert "tir.SplitHostDevice" in kernel.ir_after or "SplitHostDevice" in kernel.ir_after
    assert kernel.__doc__ == "scale(A, B, k)" and "scale" in repr(kernel)
    assert "define i32 @scale.kernel(" in kernel.source("host") and "disk cache" in kernel.explain_miss()
    with pytest.raises(TirError, match="did you mean 'ptx'"):
        kernel.source("ptxx")
    with pytest.raises(TirError, match="no source of kind 'asm' for the target nvptx") as caught:
        kernel.source("asm")
    assert "target='llvm'" in str(caught.value.help)
    kernel.show("ptx")
    kernel.show()
    shown = capsys.readouterr().out
    assert ".entry" in shown and "T.tvm_call_packed" in shown


def test_ptx_comes_from_the_disk_cache_the_second_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TIRLOWER_CACHE", "on")
    tl.build(scale, target="nvptx -arch=sm_86")
    first = tl.build(scale, target="nvptx -arch=sm_89")
    second = tl.build(scale, target="nvptx -arch=sm_89")
    assert second.source("ptx") == first.source("ptx")
    assert second.report().cached


def test_arrays_are_apart_only_where_the_function_says_so() -> None:
    together = scale.without_attr("tir.noalias")
    assert "ld.global.nc" in tl.build(scale, target=SM_80).source("ptx")
    assert "ld.global.nc" not in tl.build(together, target=SM_80).source("ptx")


def test_a_module_of_kernels() -> None:
    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((64,), "int32")):
            T.func_attr({"global_symbol": "double"})
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                A[tx] = A[tx] * 2

        @T.prim_func
        def clear(A: T.Buffer((64,), "int32")):
            T.func_attr({"global_symbol": "clear"})
            for tx in T.thread_binding(64, thread="threadIdx.x"):
                A[tx] = 0

    made = tl.build(Module, target=SM_80)
    assert set(made) == {"double", "clear"} and made.source("ptx").count(".entry") == 2
    assert made["clear"].name == "clear" and made.report().loops


def test_a_function_without_threads_is_scheduled() -> None:
    @T.prim_func
    def add(A: T.Buffer((1000,), "float32"), B: T.Buffer((1000,), "float32")):
        for i in range(1000):
            with T.block("B"):
                vi = T.axis.spatial(1000, i)
                B[vi] = A[vi] + T.float32(1)

    lowered = tl.lower(add, SM_80)
    a, b = np.arange(1000, dtype="float32"), np.zeros(1000, "float32")
    tl.simulate(lowered, a, b)
    np.testing.assert_array_equal(b, a + 1)
    assert ".entry" in tl.build(add, target=SM_80).source("ptx")


def test_a_race_is_refused_before_anything_is_built() -> None:
    @T.prim_func
    def race(A: T.Buffer((64,), "int32")):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            A[tx // 2] = tx

    with pytest.raises(LegalityError, match="tx"):
        tl.build(race, target=SM_80)


def test_jit_compiles_at_the_first_use() -> None:
    lazy = tl.jit(target=SM_80)(scale)
    assert "not compiled yet" in repr(lazy) and lazy.script() == scale.script()
    assert ".entry" in lazy.source("ptx") and lazy.compile() is lazy.compile()
    assert "not compiled yet" not in repr(lazy) and lazy.report().kernels and "define i32" in lazy.source("host")
    assert lazy.signature.name == "scale" and lazy.target.get("arch") == "sm_80"


def test_architectures_that_there_are_not() -> None:
    with pytest.raises(CodegenError, match=r"did you mean 'sm_90a'|use one of"):
        tl.build(scale, target="nvptx -arch=sm_91a")
    with pytest.raises(CodegenError, match=r"PTX 6\.0 cannot be written for sm_80"):
        tl.build(scale, target="nvptx -arch=sm_80 -ptx=60")


def test_a_driver_says_what_ptx_it_takes() -> None:
    here = Installed(("sm_80",), 12010)
    assert resolved_target(Target(SM_80), here).get("ptx") == 81
    assert resolved_target(Target("nvptx -arch=sm_80 -ptx=75"), here).get("ptx") == 75
    assert resolved_target(Target(SM_80), Installed(("sm_80",), 99000)).get("ptx") == 90
    assert resolved_target(Target(SM_80), None) == Target(SM_80)
    with pytest.raises(CodegenError, match="sm_100"):
        resolved_target(Target("nvptx -arch=sm_100"), here)


@pytest.mark.parametrize(
    ("archs", "cuda", "arch", "ptx"),
    [
        (("sm_90",), 12040, "sm_90a", 84),  # an H100, with what it alone has
        (("sm_90", "sm_90"), 12040, "sm_90a", 84),
        (("sm_90", "sm_100"), 13000, "sm_90", 90),  # one text for both
        (("sm_90",), 11080, "sm_90", 78),  # a driver older than sm_90a
        (("sm_86",), 12040, "sm_86", 84),
        (("sm_100",), 13000, "sm_100a", 90),
        (("sm_100",), 12040, "sm_90", 84),  # a driver that does not know the device
        (("sm_70",), 12040, "sm_75", 84),  # older than what is supported: the driver will say so
    ],
)
def test_a_device_says_its_architecture(archs, cuda, arch, ptx) -> None:
    found = resolved_target(Target("nvptx"), Installed(archs, cuda))
    assert (found.get("arch"), found.get("ptx")) == (arch, ptx)
    named = resolved_target(Target("nvptx -arch=sm_75"), Installed(archs, cuda))
    assert (named.get("arch"), named.get("ptx")) == ("sm_75", ptx)


def test_a_limit_on_registers_reaches_the_kernel() -> None:
    limited = scale.with_attr("tir.min_blocks_per_sm", 4)
    assert ".minnctapersm 4" in tl.build(limited, target=SM_80).source("ptx")
    assert ".minnctapersm" not in tl.build(scale, target=SM_80).source("ptx")
