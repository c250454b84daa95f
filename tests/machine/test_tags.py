"""Machines by name."""

from __future__ import annotations

import pytest

from tirlower.machine.tags import TAGS
from tirlower.machine.target import KINDS, OPTIONS, Target


@pytest.mark.parametrize("name", sorted(TAGS))
def test_every_machine_is_a_target(name: str) -> None:
    target = Target(name)
    assert target.tag == name and target.kind in KINDS and Target(target.export()) == target
    assert Target(str(target), host=target.host) == target
    stated = {key for key in TAGS[name] if key not in ("kind", "host")}
    assert stated <= OPTIONS.keys()


def test_what_machines_have() -> None:
    ti = Target("nvidia/geforce-rtx-3090-ti")
    assert (ti.kind, ti.arch, ti.max_threads_per_block, ti.thread_warp_size) == ("cuda", "sm_86", 1024, 32)
    m1, less = Target("apple/m1-gpu"), Target("apple/m1-gpu-restricted")
    assert (m1.kind, m1.max_threads_per_block, m1.max_shared_memory_per_block, m1.thread_warp_size) == (
        "metal", 1024, 32768, 32,
    )  # fmt: skip
    assert less.max_threads_per_block == 256
    # Every model of the family, with the limits of Metal and a processor of its own generation.
    for generation in (1, 2, 3, 4):
        for model in ("", "-pro", "-max", "-ultra"):
            gpu = Target(f"apple/m{generation}{model}-gpu")
            assert (gpu.kind, gpu.max_threads_per_block, gpu.thread_warp_size) == ("metal", 1024, 32)
            assert gpu.host is not None and gpu.host.mcpu == f"apple-m{generation}"
    assert m1.host == Target("llvm -mtriple=arm64-apple-macos -mcpu=apple-m1")
    board = Target("nvidia/jetson-agx-xavier")
    assert board.arch == "sm_72" and board.host is not None and board.host.mcpu == "carmel"
    assert Target("nvidia/jetson-agx-xavier", host="llvm").host == Target("llvm")
    instance = Target("aws/cpu/c5.9xlarge")
    assert instance.keys == ("x86", "cpu") and instance.get("num-cores") == 18
    assert Target("raspberry-pi/4b-aarch64").mattr == ("+neon",)
    # Options given beside a name win.
    assert Target("nvidia/geforce-rtx-3090-ti -max_threads_per_block=512").max_threads_per_block == 512
