"""Counters of loops: wide ones, and narrow ones of a GPU's loops that count more than addresses and fit 32 bits."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.codegen.building import OnHost, array, build, check, kernel
from tirlower.interp import interpret

pytestmark = pytest.mark.by_day

MOST = 2**31 - 1
#: what is added to an accumulator: uses of the variable beside subscripts, so that it counts
BODY = "C[tx] = C[tx] * 5 + T.cast(i % 7, 'int32') + T.cast(i // 3 % 11, 'int32')"
LOOPS = {
    "from zero": ("range(5)", 32),
    "from below zero": ("range(-3, 3)", 32),
    "to the greatest index": (f"range({MOST - 6}, {MOST})", 32),
    "from the least": (f"range({-MOST - 1}, {-MOST + 2})", 32),
    "of a size": ("range(n)", 32),
    "from a size": ("range(n, n + 4)", 64),  # which may be past the greatest
    "up to a size": ("range(m, n)", 64),
    "of 64 bits": ("range(T.int64(5))", 32),
    "of 64 bits, far": ("range(T.int64(3000000000), T.int64(3000000004))", 64),
    "one past what fits": (f"range(T.int64({MOST - 2}), T.int64({MOST + 1}))", 64),
}


def counting(name: str, body: str = BODY):
    return kernel('C: T.Buffer((32,), "int32"), m: T.int32, n: T.int32', f"for i in {LOOPS[name][0]}:\n    {body}")


@pytest.mark.parametrize("name", LOOPS)
def test_a_counter_is_as_wide_as_it_must_be(name):
    run = OnHost(counting(name))
    assert re.findall(r"%i\S* = phi i(\d+)", run.text) == [str(LOOPS[name][1])]
    for m, n in [(0, 0), (0, 1), (-5, 4), (3, -2), (2, 13), (7, 7), (-1, 0), (4, -9), (MOST - 3, MOST)]:
        if name in ("of a size", "from a size") and n > 1000:
            continue
        mine, theirs = array(np.arange(32, dtype=np.int32)), array(np.arange(32, dtype=np.int32))
        interpret(counting(name), theirs, m, n)
        run(
            1,
            32,
            C=mine,
            **{param.name: {"m": m, "n": n}[param.name] for param in run.image.params if not param.pointer},
        )
        assert (mine == theirs).all(), (m, n)


def test_what_counts_addresses_alone_is_wide():
    """It becomes one with the address; narrow it would be a register and a conversion more."""
    arrays = 'A: T.Buffer((4096,), "float32"), C: T.Buffer((32,), "float32")'
    for body in ("C[tx] = C[tx] + A[i * 32 + tx]", "j: T.int32 = i * 32 + tx\n    C[tx] = C[tx] + A[j]"):
        made = build(kernel(arrays, f"for i in range(100):\n    {body}"))
        assert re.findall(r"%i\S* = phi i(\d+)", made.llvm) == ["64"]
    made = build(kernel(arrays, "for i in range(100):\n    if i > 5:\n        C[tx] = C[tx] + A[i * 32 + tx]"))
    assert re.findall(r"%i\S* = phi i(\d+)", made.llvm) == ["32"]


def test_a_narrow_counter_stays_one():
    """LLVM does not widen it: the sum and the comparison have 32 bits in the PTX."""
    arrays = 'A: T.Buffer((4096,), "float32"), C: T.Buffer((32,), "float32")'
    body = "s = T.alloc_buffer((128,), 'float32', scope='shared')\nfor i in range(100):\n    s[i % 4 * 32 + tx] = A[i * 32 + tx]"
    module = build(kernel(arrays, f"{body}\n    C[tx] = C[tx] + s[(i + 1) % 4 * 32 + tx]"), "sm_90a")
    assert "setp.ne.b64" not in module.ptx and "setp.lt.s64" not in module.ptx
    check(module)


def test_counters_of_cpus_are_wide():
    source = tl.build(
        tl.script.parse("""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    for i in range(64):
        A[i] = i % 7
"""),
        schedule="none",
    ).source("llvm")
    assert re.findall(r"%i\S* = phi i(\d+)", source) == ["64"]
