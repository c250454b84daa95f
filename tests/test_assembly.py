"""What the machine code looks like where speed rests on it: read from the assembly of the examples."""

from __future__ import annotations

import re

import pytest

import tirlower as tl
from examples.matmul import tiled
from examples.softmax import softmax
from tirlower.llvm import host
from tirlower.script import tir as T

needs_avx512 = pytest.mark.skipif(not host.host_cpu().has("avx512f"), reason="the tiles fill AVX-512 registers")


def innermost_loops(assembly: str) -> list[list[str]]:
    """The bodies of backward jumps that hold no other backward jump."""
    lines = [line.split("#")[0].rstrip() for line in assembly.splitlines()]
    place: dict[str, int] = {}
    spans = []
    for at, line in enumerate(lines):
        label = re.match(r"(\.L\w+):", line)
        if label:
            place[label[1]] = at
        jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
        if jump and jump[1] in place:
            spans.append((place[jump[1]], at))
    inner = [(a, b) for a, b in spans if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in spans)]
    return [lines[a : b + 1] for a, b in inner]


@needs_avx512
def test_the_tiled_matmul_keeps_its_accumulators_in_registers():
    loops = innermost_loops(tl.build(tiled(512, 512, 512)).source("asm"))
    kernel = max(loops, key=lambda body: sum("vfmadd" in line for line in body))
    fused = [line for line in kernel if "vfmadd" in line]
    # 8 rows of two registers: 16 multiply-adds for each step of k, every accumulator a register of its own.
    assert len(fused) % 16 == 0
    targets = {line.split(",")[-1].strip() for line in fused}
    assert len(targets) == 16
    assert all("zmm" in line for line in fused)
    assert not any("rsp" in line or "rbp" in line for line in kernel), "an accumulator is spilled"
    stores = [line for line in kernel if re.search(r"vmov\w+\s+%zmm\d+,\s*-?\w*\(", line)]
    assert not stores


@needs_avx512
def test_a_vectorized_exp_stays_vectorized():
    loops = innermost_loops(tl.build(softmax(64, 256)).source("asm"))
    exponential = [body for body in loops if sum("vfmadd" in line or "vfnmadd" in line for line in body) >= 5]
    assert exponential
    for body in exponential:
        assert not any("call" in line for line in body)
        assert any("zmm" in line for line in body)


def test_a_serial_loop_is_vectorized_by_llvm():
    @T.prim_func
    def add(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32")):
        T.func_attr({"tir.noalias": True})
        for i in range(4096):
            C[i] = A[i] + B[i]

    register = "zmm" if host.host_cpu().has("avx512f") else "ymm" if host.host_cpu().has("avx") else "xmm"
    loops = innermost_loops(tl.build(add).source("asm"))
    assert any(f"%{register}" in line and "addps" in line for body in loops for line in body)
