"""ThreadSync puts exactly the fewest barriers into kernels for which these are known."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.checking import roundtrips
from tests.gpu.sync_kernels import KERNELS, TRIPS, SyncKernel
from tirlower.diagnostics import InterpreterError
from tirlower.interp import Interpreter
from tirlower.ir import PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.transforms import ThreadSync

SEEDS = (1, 2, 3)
SYNC = "T.tvm_storage_sync("


@functools.cache
def synchronized(name: str) -> PrimFunc:
    func = parse(KERNELS[name].text)
    for scope in KERNELS[name].scopes:
        func = ThreadSync(scope)(func)
    return func


def run(
    func: PrimFunc, kernel: SyncKernel, *, seed: int | None = None, races: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """What a kernel leaves in B, and what it should, from random inputs."""
    shape = (2, kernel.threads)
    a = np.random.default_rng(7).integers(-50, 50, shape).astype(np.int32)
    b, w = np.zeros_like(a), np.zeros_like(a)
    Interpreter(func, seed=seed, races=races).call(None, a.copy(), b, w, TRIPS)
    return b, kernel.expected(a)


def test_there_are_forty() -> None:
    assert len(KERNELS) >= 40
    assert {scope for kernel in KERNELS.values() for scope in kernel.scopes} == {
        "shared",
        "shared.dyn",
        "warp",
        "global",
    }
    assert not any(SYNC in kernel.text for kernel in KERNELS.values())


@pytest.mark.parametrize("name", KERNELS)
def test_exactly_the_fewest_barriers(name: str) -> None:
    after = synchronized(name)
    assert after.script().count(SYNC) == KERNELS[name].barriers, f"{KERNELS[name].why}\n{after.script()}"
    verify_well_formed(after)
    roundtrips(after)
    for scope in KERNELS[name].scopes:
        assert ThreadSync(scope)(after) is after


@pytest.mark.parametrize("name", KERNELS)
def test_no_races_and_one_meaning_in_any_order(name: str) -> None:
    kernel = KERNELS[name]
    np.testing.assert_array_equal(*run(parse(kernel.text), kernel))  # statement by statement, which needs no barriers
    np.testing.assert_array_equal(*run(synchronized(name), kernel, races=True))
    for seed in () if kernel.crosses_blocks else SEEDS:
        np.testing.assert_array_equal(*run(synchronized(name), kernel, seed=seed))


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.barriers])
def test_every_barrier_is_needed(name: str) -> None:
    lines = synchronized(name).script().splitlines()
    for at, line in enumerate(lines):
        if SYNC in line:
            less = parse("\n".join(lines[:at] + lines[at + 1 :]))
            with pytest.raises(InterpreterError, match="data race"):
                run(less, KERNELS[name], races=True)
