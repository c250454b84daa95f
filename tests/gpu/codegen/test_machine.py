from __future__ import annotations

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tirlower.diagnostics import CodegenError
from tirlower.emit.llvm_text import FastMath
from tirlower.gpu.codegen.machine import (
    ARCHITECTURES,
    LLVM_PTX,
    arch_number,
    architecture,
    compile_options,
    machine_of,
    ptx_version,
)
from tirlower.machine.target import Target

COPY = 'A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")'


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_architecture_is_written_and_assembled(arch):
    module = build(kernel(COPY, "B[tx] = A[tx] + T.float32(1)"), arch)
    assert f".target {arch}" in module.ptx
    version = ptx_version(arch)
    assert f".version {version // 10}.{version % 10}" in module.ptx
    check(module)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_first_version_of_an_architecture_has_it(arch):
    needed = ARCHITECTURES[arch]
    module = build(kernel(COPY, "B[tx] = A[tx] + T.float32(1)"), arch, f"-ptx={needed}")
    assert f".version {needed // 10}.{needed % 10}" in module.ptx
    check(module)
    with pytest.raises(CodegenError, match=f"PTX {(needed - 1) / 10} cannot be written for {arch}"):
        build(kernel(COPY, "B[tx] = A[tx]"), arch, f"-ptx={needed - 1}")


def test_the_lesser_of_the_drivers_version_and_llvms():
    assert ptx_version("sm_80", driver=75) == 75
    assert ptx_version("sm_80", driver=LLVM_PTX + 5) == LLVM_PTX
    assert ptx_version("sm_80", wanted=80, driver=75) == 80
    assert ptx_version("sm_100") == 86
    with pytest.raises(CodegenError, match=r"from 8.6 \(the first with sm_100\)"):
        ptx_version("sm_100", driver=80)
    with pytest.raises(CodegenError, match=r"PTX 9\.1"):
        ptx_version("sm_80", wanted=LLVM_PTX + 1)


def test_architectures_are_named_exactly():
    assert architecture(Target("nvptx")) == "sm_75"
    assert architecture(Target("nvptx -arch=sm_90a")) == "sm_90a"
    assert [arch_number(arch) for arch in ("sm_75", "sm_90a", "sm_120")] == [75, 90, 120]
    with pytest.raises(CodegenError, match="'sm_81'") as caught:
        architecture(Target("nvptx -arch=sm_81"))
    assert "did you mean 'sm_8" in str(caught.value)


def test_other_kinds_of_targets_are_refused():
    with pytest.raises(CodegenError, match="does not make code for target"):
        machine_of(Target("llvm"))


def test_floating_point_rules_follow_the_target():
    assert machine_of(Target("nvptx -arch=sm_80")).fast_math == FastMath.CONTRACT
    assert machine_of(Target("nvptx -arch=sm_80 -fast-math=1")).fast_math == FastMath.FAST
    assert machine_of(Target("nvptx -arch=sm_80 -fast-math=1")).fast_vector_math
    assert not machine_of(Target("nvptx -arch=sm_80")).fast_vector_math
    assert machine_of(Target("nvptx -arch=sm_80 -fast-vector-math=1")).fast_vector_math


def test_products_and_sums_contract_unless_told_not_to():
    body = "B[tx] = A[tx] * A[tx] + B[tx]"
    assert "fma.rn.f32" in build(kernel(COPY, body)).ptx
    apart = build(kernel(COPY, body), options="-fast-math-contract=0").ptx
    assert "fma.rn.f32" not in apart
    assert "mul.rn.f32" in apart  # .rn: ptxas must not contract it either


def test_loops_are_left_to_the_threads():
    options = compile_options(Target("nvptx -arch=sm_80 -opt-level=2"))
    assert (options.loop_vectorize, options.slp_vectorize, options.opt_level) == (False, False, 2)
    assert (options.cpu, options.features, options.triple) == ("sm_80", "+ptx84", "nvptx64-nvidia-cuda")
