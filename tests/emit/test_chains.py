"""Which additions are kept out of fused multiply-adds: those that a loop's few sums wait for, where adding alone is faster."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.emit.chains import adds_faster_than_it_fuses
from tirlower.llvm.codegen.machine import machine_of
from tirlower.script import parse

A, B = "A: T.Buffer((512,), 'float64')", "B: T.Buffer((512,), 'float64')"
OUT = "O: T.Buffer((8,), 'float64'), C: T.Buffer(('n',), 'float64')"

#: a body, and whether its products are kept apart from its sums
BODIES: dict[str, tuple[str, bool]] = {
    "a sum of products": ("O[0] = 0.0\nfor k in range(512): O[0] += A[k] * B[k]", True),
    "a local sum": ("s = 0.0\nfor k in range(512): s += A[k] * B[k]\nO[0] = s", True),
    "a difference": ("O[0] = 0.0\nfor k in range(512): O[0] -= A[k] * B[k]", True),
    "the product stands first": ("O[0] = 0.0\nfor k in range(512): O[0] = A[k] * B[k] + O[0]", True),
    "two products in one sum": ("O[0] = 0.0\nfor k in range(512): O[0] = O[0] + A[k] * B[k] + A[k] * A[k]", True),
    "four sums": (
        "a = 0.0\nb = 0.0\nc = 0.0\nd = 0.0\nfor k in range(512):\n a += A[k] * B[k]\n b += A[k] * A[k]\n"
        " c += B[k] * B[k]\n d += A[511 - k] * B[k]\nO[0] = a\nO[1] = b\nO[2] = c\nO[3] = d",
        True,
    ),
    "under a condition": ("s = 0.0\nfor k in range(512):\n if A[k] > 0.5:\n  s += A[k] * B[k]\nO[0] = s", True),
    "in a while loop": ("s = 0.0\nk = 0\nwhile k < 512:\n s += A[k] * B[k]\n k += 1\nO[0] = s", True),
    "an outer loop's row": ("for i in range(8):\n O[i] = 0.0\n for k in range(64): O[i] += A[i * 64 + k] * B[k]", True),
    "five sums": (
        "a = 0.0\nb = 0.0\nc = 0.0\nd = 0.0\ne = 0.0\nfor k in range(512):\n a += A[k] * B[k]\n b += A[k] * A[k]\n"
        " c += B[k] * B[k]\n d += A[511 - k] * B[k]\n e += A[511 - k] * A[k]\n"
        "O[0] = a\nO[1] = b\nO[2] = c\nO[3] = d\nO[4] = e",
        False,
    ),
    "four sums in a register": (
        "S = T.alloc_buffer((4,), 'float64', scope='local')\nfor l in T.vectorized(4): S[l] = 0.0\nfor k in range(512):\n"
        " for l in T.vectorized(4): S[l] += A[k] * B[l]\nfor l in T.vectorized(4): O[l] = S[l]",
        True,
    ),
    "sums in more registers": (
        "S = T.alloc_buffer((64,), 'float64', scope='local')\nfor l in T.vectorized(64): S[l] = 0.0\nfor k in range(512):\n"
        " for l in T.vectorized(64): S[l] += A[k] * B[l]\nfor l in T.vectorized(64): C[l] = S[l]",
        False,
    ),
    "a short loop": ("O[0] = 0.0\nfor k in range(8): O[0] += A[k] * B[k]", False),
    "a polynomial": ("s = 0.0\nfor k in range(512): s = s * A[0] + B[k]\nO[0] = s", False),
    "no sum over the loop": ("for k in range(8): O[k] = A[k] * B[k] + A[k + 8]", False),
    "an element that moves": ("for k in range(512): O[k % 8] += A[k] * B[k]", False),
    "an element that another one names": (
        "for k in range(512): O[T.cast(B[k], 'int32')] = O[T.cast(B[k], 'int32')] + A[k] * A[k]",
        False,
    ),
    "outside of loops": ("O[0] = O[0] + A[0] * B[0]", False),
    "as long as memory says": (
        "for i in range(8):\n O[i] = 0.0\n for k in range(T.cast(A[i], 'int32')): O[i] += A[k] * B[k]",
        False,
    ),
    "between ends that memory says": (
        "for i in range(8):\n O[i] = 0.0\n first = T.cast(A[i], 'int32')\n last = T.min(first + 9, 99)\n"
        " for k in range(first, last): O[i] += A[k] * B[k]",
        False,
    ),
    "as long as its array": ("O[0] = 0.0\nfor k in range(n): O[0] += A[k] * C[k]", True),
}


def _contracts(llvm: str) -> bool:
    return any(op in line and "contract" in line for line in llvm.splitlines() for op in ("= fadd", "= fsub"))


def _source(body: str, target: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    func = parse(f"@T.prim_func\ndef f({A}, {B}, {OUT}):\n{lines}\n")
    return tl.build(func, tl.Target(target, num_threads=1)).source("llvm")


@pytest.mark.parametrize("name", BODIES)
def test_where_sums_are_kept_apart(name: str) -> None:
    body, apart = BODIES[name]
    assert _contracts(_source(body, "llvm -mcpu=znver4")) is not apart
    assert _contracts(_source(body, "llvm -mcpu=skylake"))


@pytest.mark.parametrize("option", ["-fast-math=1", "-fast-math-reassoc=1"])
def test_sums_that_may_be_reordered_are_not_chains(option: str) -> None:
    text = _source(BODIES["a sum of products"][0], f"llvm -mcpu=znver4 {option}")
    assert any("= fadd" in line and ("contract" in line or "fast" in line) for line in text.splitlines())


def test_a_chain_is_rounded_as_the_interpreter_rounds_it() -> None:
    if not adds_faster_than_it_fuses(machine_of(tl.Target("llvm"))):
        pytest.skip("this processor's sums are fused")
    rng = np.random.default_rng(3)
    a, b, out = rng.random(512), rng.random(512), np.zeros(8)
    func = parse(f"@T.prim_func\ndef f({A}, {B}, {OUT}):\n    for k in range(512):\n        O[0] += A[k] * B[k]\n")
    tl.build(func, tl.Target("llvm", num_threads=1))(a, b, out, a)
    expected = 0.0
    for x, y in zip(a, b, strict=True):
        expected += float(x) * float(y)
    assert out[0] == expected


MARK = 'T.serial(512, annotations={"tir.reduction": True})'


@pytest.mark.parametrize("operation", ["+=", "-=", "*="])
def test_a_serial_loop_may_permit_another_order_of_its_sums(operation: str) -> None:
    body = f"C[0] = 1.0\nfor k in {MARK}:\n O[0] {operation} A[k]\n C[k] {operation} B[k]"
    text = _source(body, "llvm -mcpu=znver4").splitlines()
    allowed = [line for line in text if "= f" in line and "reassoc" in line]
    assert len(allowed) == 1, "the sum that the loop carries, and not that of another element in each iteration"
    assert not [line for line in _source(body.replace("True", "False"), "llvm").splitlines() if "reassoc" in line]


def test_an_ordered_reduction_of_lanes_is_reordered_where_the_loop_permits_it() -> None:
    call = 'T.call_llvm_pure_intrin("float64", "llvm.vector.reduce.fadd", T.float64(-0.0), A[i * 8:i * 8 + 8])'
    for head, allowed in (("range(8)", False), (MARK.replace("512", "8"), True)):
        calls = [line for line in _source(f"for i in {head}: O[i] = {call}", "llvm").splitlines() if "reduce" in line]
        assert [("reassoc" in line) for line in calls if "call" in line] == [allowed]
