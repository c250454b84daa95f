"""Every example of a GPU kernel, built for each architecture that has what it uses, and assembled."""

from __future__ import annotations

import functools
import itertools
import re

import pytest

from examples.gpu import (
    copy,
    flash_attention,
    histogram,
    layer_norm,
    matmul_bf16,
    matmul_f32,
    matmul_hopper,
    prefix_sum,
    reduction,
    softmax,
    stencil,
    transpose,
    vector_add,
)
from tests.gpu.codegen.building import ARCHITECTURES, build, check, has, instructions, lowered, needs_ptxas
from tirlower.diagnostics import CodegenError
from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.codegen import compile_module
from tirlower.gpu.codegen.machine import ARCHITECTURES as FIRST_PTX
from tirlower.gpu.codegen.machine import LLVM_PTX, ptx_version
from tirlower.gpu.installed import installed
from tirlower.ir import IRModule
from tirlower.machine.target import Target

SIMT = {
    "vector_add": lambda: vector_add.vector_add(1 << 20),
    "vector_add_blocks": lambda: vector_add.vector_add_blocks(1 << 20),
    "copy": lambda: copy.copy(1 << 20),
    "transpose": lambda: transpose.transpose(4096, 4096),
    "matmul_f32": lambda: matmul_f32.matmul(1024, 1024, 1024),
    "softmax": lambda: softmax.softmax(4096, 4096),
    "softmax_blocks": lambda: softmax.softmax_blocks(4096, 4096),
    "layer_norm": lambda: layer_norm.layer_norm(4096, 4096),
    "reduction": lambda: reduction.reduction(1 << 20),
    "prefix_sum": lambda: prefix_sum.prefix_sum(1 << 20),
    "histogram": lambda: histogram.histogram(1 << 20),
    "stencil": lambda: stencil.jacobi(4096, 4096),
}
TENSOR = {
    "matmul_bf16": lambda: matmul_bf16.tensor_core_matmul(4096, 4096, 4096),
    "flash_attention": lambda: flash_attention.flash_attention(8, 4096),
    "flash_attention_causal": lambda: flash_attention.flash_attention(8, 4096, causal=True),
    "matmul_hopper": lambda: matmul_hopper.hopper_matmul(4096, 4096, 4096),
}
# The passes and LLVM take most of the time: the long kernels are built for the ends of what supports them, and by day
# the others are too, but for two.
OFTEN = ("sm_75", "sm_90a", "sm_120")
CASES = [
    *[
        pytest.param(
            name, arch, marks=() if arch in OFTEN or name in ("vector_add", "softmax") else pytest.mark.nightly
        )
        for name in SIMT
        for arch in ARCHITECTURES
    ],
    *[("matmul_bf16", arch) for arch in ("sm_80", "sm_90", "sm_120")],
    *[("flash_attention", arch) for arch in ("sm_80", "sm_100a")],
    *[("flash_attention_causal", arch) for arch in ("sm_89", "sm_90a")],
    ("matmul_hopper", "sm_90a"),
]


@functools.cache
def after_passes(name: str, arch: str) -> IRModule:
    return lowered((SIMT | TENSOR)[name](), Target(f"nvptx -arch={arch}"))


@functools.cache
def built(name: str, arch: str, ptx: int = 0) -> DeviceModule:
    return compile_module(after_passes(name, arch), Target(f"nvptx -arch={arch} -ptx={ptx}"))


def versions(arch: str) -> set[int]:
    """Other PTX versions than the default: LLVM's newest, the oldest for the architecture, and that of the driver here."""
    here = installed()
    asked = {LLVM_PTX, max(FIRST_PTX[arch], OLDEST), *([min(here.ptx, LLVM_PTX)] if here is not None else [])}
    return {version for version in asked if version >= FIRST_PTX[arch]} - {ptx_version(arch)}


OLDEST = 78
"""That of CUDA 11.8, the oldest driver which launches clusters."""

VERSIONS = [
    (name, arch, version)
    for name, arch in [
        *zip(SIMT, itertools.cycle(["sm_80", "sm_90a", "sm_120"])),
        ("matmul_bf16", "sm_80"), ("flash_attention", "sm_100a"), ("flash_attention_causal", "sm_90a"), ("matmul_hopper", "sm_90a"),
    ]
    for version in sorted(versions(arch))
]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize(("name", "arch", "version"), VERSIONS)
def test_every_ptx_version_is_assembled(name, arch, version):
    """What LLVM writes of a version is assembled as that version: as a driver does that has no newer one."""
    module = built(name, arch, version)
    assert f".version {version // 10}.{version % 10}\n" in module.ptx and f".target {arch}" in module.ptx
    for each in check(module).values():
        assert (each.spill_stores, each.spill_loads, each.stack, each.remarks) == (0, 0, 0, ())


def test_the_newest_version_and_the_oldest_are_among_them():
    assert {version for _, _, version in VERSIONS} >= {LLVM_PTX, OLDEST}


@needs_ptxas
@pytest.mark.parametrize(("name", "arch"), CASES)
def test_assembled_without_spills_or_local_memory(name, arch):
    module = built(name, arch)
    assert f".target {arch}" in module.ptx
    kernels = check(module)
    assert set(kernels) == set(module.kernels) and kernels
    for each in kernels.values():
        assert (each.spill_stores, each.spill_loads, each.stack) == (0, 0, 0)
        assert each.remarks == ()
    assert ".local" not in module.ptx
    assert "call" not in " ".join(instructions(module))


@pytest.mark.parametrize(
    ("name", "arch", "expected"),
    [
        ("vector_add", "sm_75", ["ld.global.nc.v4.b32", "st.global.v4.b32"]),
        ("vector_add_blocks", "sm_75", ["ld.global.nc.v4.b32", "st.global.v4.b32"]),
        ("copy", "sm_75", ["ld.global.nc.v4.b32", "st.global.v4.b32"]),
        ("transpose", "sm_75", ["ld.global.nc.v4.b32", "st.shared.b32", "bar.sync", "ld.shared.b32", "st.global.v4.b32"]),
        ("matmul_f32", "sm_90a", ["ld.global.nc.v4.b32", "ld.shared.v4.b32", "fma.rn.f32", "st.global.v4.b32"]),
        ("softmax", "sm_90", ["ld.global.nc.v4.b32", "shfl.sync", "st.global.v4.b32"]),
        ("layer_norm", "sm_90", ["ld.global.nc.v4.b32", "shfl.sync", "st.global.v4.b32"]),
        ("reduction", "sm_80", ["ld.global.nc.v4.b32", "shfl.sync"]),
        ("prefix_sum", "sm_80", ["ld.global.nc.v4.b32", "shfl.sync.up"]),
        ("histogram", "sm_80", ["atom.shared.add", "atom.global.add"]),
        ("stencil", "sm_80", ["ld.shared.b32"]),
        ("matmul_bf16", "sm_80", [
            "cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        ]),
        ("flash_attention", "sm_80", [
            "cp.async.cg.shared.global", "ldmatrix.sync.aligned", "mma.sync.aligned.m16n8k16", "ex2.approx", "shfl.sync.bfly",
        ]),
        ("matmul_hopper", "sm_90a", [
            "mbarrier.init.shared.b64", "fence.mbarrier_init", "mbarrier.arrive.expect_tx.shared.b64",
            "mbarrier.try_wait.parity.shared.b64", "cp.async.bulk.tensor.2d.shared::cluster.global.tile",
            "wgmma.fence.sync.aligned", "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
            "wgmma.commit_group.sync.aligned", "wgmma.wait_group.sync.aligned",
        ]),
    ],
)  # fmt: skip
def test_the_instructions_that_the_example_is_about(name, arch, expected):
    module = built(name, arch)
    missing = [start for start in expected if not has(module, start)]
    assert not missing, sorted({line.split()[0] for line in instructions(module)})


@pytest.mark.parametrize(
    ("name", "arch", "need"),
    [("matmul_bf16", "sm_75", "sm_80"), ("flash_attention", "sm_75", "sm_80"), ("matmul_hopper", "sm_89", "sm_90")],
)
def test_what_an_older_architecture_lacks_is_named(name, arch, need):
    with pytest.raises(CodegenError, match=rf"needs {need} or newer, and the target is {arch}"):
        build(TENSOR[name](), arch)


def test_wgmma_is_hoppers_alone():
    with pytest.raises(CodegenError, match="needs sm_90a, and the target is sm_100a"):
        build(TENSOR["matmul_hopper"](), "sm_100a")


@pytest.mark.parametrize("name", ["matmul_f32", "softmax_blocks", "stencil"])  # the others have no loops
def test_no_long_multiplications_in_loops(name):
    """Addresses advance by additions: a 64-bit product (several instructions) stands ahead of loops only."""
    text = built(name, "sm_80" if name != "matmul_f32" else "sm_90a").ptx
    loops = loops_of(text)
    assert loops
    for loop in loops:
        assert not re.search(r"\b(mul|mad)\.(lo|wide|hi)\.[su]64", loop), loop


def loops_of(ptx: str) -> list[str]:
    """The text of each innermost loop: from a label to a branch back to it."""
    lines = ptx.splitlines()
    labels = {line.split(":")[0]: number for number, line in enumerate(lines) if line.startswith("$L")}
    ends = [(number, re.search(r"\bbra(?:\.uni)?\s+(\$L\w+);", line)) for number, line in enumerate(lines)]
    spans = [(labels[found[1]], number) for number, found in ends if found and labels[found[1]] <= number]
    inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return ["\n".join(lines[start : end + 1]) for start, end in inner]


def test_loops_are_found():
    assert any("fma.rn.f32" in loop and "ld.shared.v4" in loop for loop in loops_of(built("matmul_f32", "sm_90a").ptx))
