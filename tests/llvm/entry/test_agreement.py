"""Machine code and Python decide alike: random calls through both entries give the same error or the same arguments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.call.compounds import compound_of
from tirlower.call.gil import GilPolicy
from tirlower.call.signature import BufferParam, ScalarParam, Signature, Sym
from tirlower.diagnostics import ArgumentError
from tirlower.ir import build
from tirlower.ir.dtype import INT64
from tirlower.llvm.entry import NATIVE_CALLS

from .conftest import Probe

N, M, S = Sym("n", "int32"), Sym("m"), Sym("s")
PLUS = compound_of(lambda n, m: build.cast(INT64, n) + m, n="int32", m="int64")

SIGNATURES = [
    Signature(
        "dense",
        (
            BufferParam("A", "float32", (N, 3), alignment=16, noalias=True),
            BufferParam("B", "float32", (PLUS,), written=True, noalias=True),
            BufferParam("C", "float32", (M,)),
        ),
    ),
    Signature(
        "strided",
        (
            BufferParam("A", "float32", (N, M), (S, 1), elem_offset=2),
            ScalarParam("x", "int8"),
            BufferParam("B", "float32", (M,), (S,), written=True, noalias=True),
            ScalarParam("y", "float32"),
        ),
    ),
    Signature(
        "apart",
        (
            BufferParam("A", "float32", (N,)),
            BufferParam("B", "float32", (N,), written=True),
            BufferParam("C", "float32", (3,), written=True),
            BufferParam("D", "float32", (3,)),
        ),
        apart=True,
        in_place=frozenset({("A", "B"), ("D", "C")}),
    ),
]


def random_array(rng: np.random.Generator, ndim: int, pool: np.ndarray) -> np.ndarray:
    """An array like those that fit, and one time in three with something wrong: a slice of a common pool."""
    start = int(rng.integers(0, 24)) * 4 + (int(rng.integers(0, 4)) if rng.random() < 0.05 else 0)
    base = pool[start : start + 160 * 4].view(np.float32)
    shape = [int(rng.choice([0, 1, 2, 3, 3, 3, 5])) for _ in range(ndim)]
    array = base[: max(1, int(np.prod(shape)))]
    array = array[: int(np.prod(shape))].reshape(shape)
    kind = rng.integers(0, 12)
    if kind == 0:
        array = array.astype(rng.choice(["float64", "int32", ">f4"]))
    elif kind == 1:
        array = array[None]
    elif kind == 2:
        array = array.T
    elif kind == 3:
        array = base[: int(np.prod(shape)) * 2 : 2].reshape(shape) if ndim == 1 else array[::-1]
    elif kind == 4:
        array = array.copy()
        array.flags.writeable = False
    return array


def outcome(probe: Probe, args: list[object]) -> object:
    runs = probe.runs
    try:
        assert probe(*args) is None
    except ArgumentError as error:
        assert probe.runs == runs
        return type(error), str(error)
    assert probe.runs == runs + 1
    return probe.given


@pytest.mark.skipif(not NATIVE_CALLS, reason="no native entry on this Python")
@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_random_calls_have_one_outcome(signature):
    native, python = Probe(signature, True, GilPolicy()), Probe(signature, False, GilPolicy())
    rng = np.random.default_rng(7)
    raw = np.zeros(4096, np.uint8)
    pool = raw[-raw.ctypes.data % 64 :]
    accepted = 0
    for _ in range(3000):
        args: list[object] = []
        for param in signature.params:
            if isinstance(param, BufferParam):
                args.append(random_array(rng, param.ndim, pool if rng.random() < 0.5 else np.zeros(1024, np.uint8)))
            else:
                args.append(rng.choice(np.array([1, -3, 127, 128, 0.5, 1e39, None], object)))
        one, other = outcome(native, args), outcome(python, args)
        assert one == other, args
        accepted += isinstance(one, list)
    assert 30 < accepted < 2900, accepted
