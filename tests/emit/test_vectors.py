"""Vectors moved by some lanes with zeros behind them: masked permutations with AVX-512, and what they compute."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
from tests.llvm.codegen.conftest import compile_options, engine, generate, resolve_imports
from tirlower.llvm.entry import add_entry, entry_imports, make_entry
from tirlower.machine.target import Target
from tirlower.script import parse

pytestmark = pytest.mark.by_day


def scan(dtype: str, lanes: int, pieces: int = 4) -> str:
    """Running sums in pieces of a vector."""
    steps, last = [], "x"
    for step in range(lanes.bit_length() - 1):
        by = 1 << step
        indices = [0] * by + [1 + at for at in range(lanes - by)]
        steps.append(f"y{step}: T.{dtype}x{lanes} = {last} + T.Shuffle([T.{dtype}(0), {last}], {indices})")
        last = f"y{step}"
    body = "\n        ".join(steps)
    piece = f"i * {lanes}:i * {lanes} + {lanes}"
    return f"""
@T.prim_func
def scan(A: T.Buffer(({pieces * lanes},), "{dtype}"), B: T.Buffer(({pieces * lanes},), "{dtype}")):
    for i in range({pieces}):
        x: T.{dtype}x{lanes} = A[{piece}]
        {body}
        B[{piece}] = {last}
"""


def moved(dtype: str, lanes: int, indices: list[int]) -> str:
    """A shuffle of a vector of zeros and another one."""
    return f"""
@T.prim_func
def move(A: T.Buffer(({lanes},), "{dtype}"), B: T.Buffer(({lanes},), "{dtype}")):
    B[0:{lanes}] = T.Shuffle([T.Broadcast(T.{dtype}(0), {lanes}), A[0:{lanes}]], {indices})
"""


def run_as_made_for(cpu: str, text: str, *arrays: np.ndarray) -> None:
    """Run the LLVM IR that is made for a processor, compiled for this one."""
    made = generate(parse(text), Target(f"llvm -mcpu={cpu}"))
    (info,) = made.kernels.values()
    exports = add_entry(made.module, info.signature, info.ref, name=info.symbol)
    code = engine().compile_object(made.text, compile_options(Target("llvm")).with_(opt_level=2))
    linked = engine().link(code.object, exports, {**entry_imports(), **resolve_imports(made.imports)})
    make_entry(info.signature, linked, info.errors, name=info.symbol)(*arrays)


KINDS = [("float32", 16), ("float32", 8), ("int32", 16), ("float64", 8), ("int64", 4), ("uint32", 8)]


@pytest.mark.parametrize("dtype, lanes", KINDS)
def test_scans_are_made_of_masked_permutations(dtype: str, lanes: int) -> None:
    (loop,) = tl.build(parse(scan(dtype, lanes, 1000)), "llvm -mcpu=znver4", schedule="none").report().inner_loops
    permutes = [line for line in loop.lines if re.match("vperm|valign|vshuf", line)]
    # Each is under a mask, or its sum is: integers are added where the mask says.
    masked = [line for line in loop.lines if re.match(r"(?:vperm|valign|vshuf|vpadd).*\{%k\d\}", line)]
    assert permutes and len(masked) >= len(permutes), loop.lines
    # No expansion, and the masks stand in registers before the loop.
    assert not [line for line in loop.lines if re.match("vp?expand|kmov", line)], loop.lines


@pytest.mark.parametrize("dtype, lanes", KINDS)
def test_scans_compute_running_sums(dtype: str, lanes: int) -> None:
    values = np.random.default_rng(4).integers(0, 1000, 4 * lanes).astype(dtype)
    for cpu in ("znver4", "x86-64-v3"):
        out = np.zeros(4 * lanes, dtype)
        run_as_made_for(cpu, scan(dtype, lanes), values, out)
        np.testing.assert_array_equal(out, values.reshape(4, lanes).cumsum(axis=1).ravel().astype(dtype))


@pytest.mark.parametrize("dtype, lanes", KINDS)
def test_lanes_move_by_every_distance_either_way(dtype: str, lanes: int) -> None:
    values = np.random.default_rng(5).integers(1, 1000, lanes).astype(dtype)
    for by in range(-lanes + 1, lanes):
        indices = [lanes + at - by if 0 <= at - by < lanes else at for at in range(lanes)]
        out = np.full(lanes, 7, dtype)
        run_as_made_for("znver4", moved(dtype, lanes, indices), values, out)
        wanted = [values[at - by] if 0 <= at - by < lanes else 0 for at in range(lanes)]
        assert out.tolist() == wanted, by


def test_other_shuffles_are_left_to_llvm() -> None:
    for indices in ([16 + at // 2 for at in range(16)], [0, *range(17, 32)], [16, 0, *range(18, 32)], list(range(16))):
        for zero in ("0", "-0.0", "1"):
            text = moved("float32", 16, indices).replace("T.float32(0)", f"T.float32({zero})")
            made = generate(parse(text), Target("llvm -mcpu=znver4")).text
            moves = zero == "0" and indices == [0, *range(17, 32)]
            assert ("asm" in made.partition("define")[2]) is False or moves, (indices, zero)
            values, out = np.arange(1, 17, dtype="float32"), np.zeros(16, "float32")
            run_as_made_for("znver4", text, values, out)
            both = np.concatenate([np.full(16, float(zero), "float32"), values])
            assert out.tobytes() == both[indices].tobytes()
