"""Processors as plans see them: asked of the system, or stated by a target."""

from __future__ import annotations

from pathlib import Path

import pytest

from tirlower.diagnostics import TirError
from tirlower.machine import processor
from tirlower.machine.cpu import host_cpu
from tirlower.machine.processor import SHARED, Processor, _caches_of


def test_what_a_target_states():
    found = Processor.of("llvm -mcpu=x86-64-v3 -mcache=48K,1M,32M -num_threads=8")
    assert (found.l1, found.l2, found.l3, found.threads) == (48 << 10, 1 << 20, 32 << 20, 8)
    assert (found.lanes(), found.lanes("float64"), found.lanes("int8"), found.registers, found.fused) == (
        8,
        4,
        32,
        16,
        True,
    )
    assert str(found) == "x86-64-v3, 256 bits x 16, caches 48K,1M,32M, 8 threads"
    assert Processor.of("llvm -mcpu=x86-64-v2 -mcache=65536").l1 == 1 << 16
    assert not Processor.of("llvm -mcpu=x86-64-v2").fused


def test_attributes_add_and_take_instructions():
    assert Processor.of("llvm -mcpu=x86-64-v3 -mattr=+avx512f").registers == 32
    assert Processor.of("llvm -mcpu=x86-64-v4 -mattr=-avx512f").registers == 16


def test_this_machine():
    found = Processor.of("llvm")
    assert found.cpu == host_cpu() and found.threads >= 1 and 0 < found.l1 <= found.l2


@pytest.mark.parametrize("stated", ["1X", "0", "big", "32K,1M,2M,4M", "-3"])
def test_sizes_that_are_none(stated: str):
    with pytest.raises(TirError, match="mcache"):
        Processor.of(f"llvm -mcache={stated}")


def test_the_systems_list(tmp_path: Path):
    for number, (kind, level, size) in enumerate(
        [("Data", "1", "48K"), ("Instruction", "1", "64K"), ("Unified", "2", "2M"), ("Unified", "3", "what")]
    ):
        place = tmp_path / f"index{number}"
        place.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (place / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    assert _caches_of(tmp_path) == (48 << 10, 2 << 20, 0)
    assert _caches_of(tmp_path / "nowhere") == (0, 0, 0)


def test_of_a_last_cache_of_many_cores_a_part_counts(monkeypatch: pytest.MonkeyPatch):
    for size, counts in ((300 << 20, SHARED), (16 << 20, 16 << 20), (0, Processor.l3)):
        monkeypatch.setattr(processor, "_caches_of", lambda _, size=size: (48 << 10, 2 << 20, size))
        assert Processor.host().l3 == counts
    # What a target states is taken as it is.
    assert Processor.of("llvm -mcache=48K,2M,300M").l3 == 300 << 20


def test_some_lanes_of_a_vector():
    """``vmaskmov`` has no bytes; SSE and NEON have no masks."""
    found = {
        name: [Processor.named(name).masks(dtype) for dtype in ("int8", "float16", "float32", "int64")]
        for name in ("x86-64-v4", "x86-64-v3", "x86-64-v2", "skylake-avx512", "znver3")
    }
    some = [False, False, True, True]
    assert found["x86-64-v4"] == found["skylake-avx512"] == [True] * 4
    assert found["x86-64-v3"] == found["znver3"] == some and found["x86-64-v2"] == [False] * 4
