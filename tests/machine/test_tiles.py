"""Tile registers: a feature of this machine where the system lets the process use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from tirlower.machine import cpu, tiles
from tirlower.machine.dots import Dots
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target


def flagged() -> bool:
    """Whether the system lists the processor's tiles."""
    info = Path("/proc/cpuinfo")
    return info.exists() and " amx_tile" in info.read_text()


def test_the_permission_is_asked_once_and_is_what_the_system_says():
    tiles.permitted.cache_clear()
    assert cpu.host_cpu().has("amx-tile") == (flagged() and tiles.permitted())
    tiles.permitted.cache_clear()
    assert tiles.permitted() is tiles.permitted()


@pytest.mark.parametrize("permitted", [False, True])
def test_without_permission_there_are_no_tiles(permitted: bool, monkeypatch: pytest.MonkeyPatch):
    told = {"amx-tile": True, "amx-int8": True, "amx-bf16": False, "avx2": True, "sse2": True}
    monkeypatch.setattr(cpu, "permitted", lambda: permitted)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: dict(told))
    found = cpu.host_cpu.__wrapped__()
    assert found.has("amx-tile", "amx-int8") is permitted
    assert not found.has("amx-bf16") and found.has("avx2")
    assert ("+amx-int8" in found.features) is permitted
    assert ("-amx-int8" in found.features) is not permitted


def test_who_has_no_tiles_does_not_ask(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "permitted", lambda: pytest.fail("asked"))
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: {"avx2": True, "amx-tile": False})
    assert not cpu.host_cpu.__wrapped__().has("amx-tile")


def test_a_fresh_process_runs_what_it_builds_and_so_do_its_forks():
    program = (
        "import os, numpy as np, tirlower as tl\n"
        "from tirlower.script import tir as T\n"
        "from bench.rows.naive import product\n"
        "k = tl.build(product('block', 64, 64, 64, 'int8', 'int32'), 'llvm -num_threads=1')\n"
        "def run():\n"
        "    A = np.ones((64, 64), np.int8); C = np.zeros((64, 64), np.int32)\n"
        "    k(A, A, C)\n"
        "    assert (C == 64).all()\n"
        "child = os.fork()\n"
        "run()\n"
        "if child:\n"
        "    assert os.waitpid(child, 0)[1] == 0\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("llvm -mcpu=sapphirerapids", Dots(512, 512)),
        ("llvm -mcpu=sapphirerapids -fast-math-dots=1", Dots(512, 512, 512)),
        ("llvm -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16", Dots(512, 512, 0, True)),
        (
            "llvm -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16 -fast-math-dots=1",
            Dots(512, 512, 512, True, True),
        ),
        ("llvm -mcpu=znver4 -fast-math=1", Dots(512, 512, 512)),
        ("llvm -mcpu=haswell -fast-math-dots=1", Dots(0, 256)),
    ],
)
def test_what_targets_have(target: str, expected: Dots):
    assert Processor.of(target).dots == expected


def test_groups_and_tiles_by_the_types_of_operands():
    both = Dots(512, 512, 512, True, True)
    assert both.group("bfloat16", "bfloat16") == 2 and both.group("bfloat16", "int8") == 1
    assert Dots(512, 512).group("bfloat16", "bfloat16") == 1
    assert both.tiles("int8", "uint8") and both.tiles("bfloat16", "bfloat16") and not both.tiles("int16", "int8")
    assert not Dots(512, 512, 512).tiles("int8", "int8")
    assert Target("llvm -fast-math-dots=1").get("fast-math-dots")
