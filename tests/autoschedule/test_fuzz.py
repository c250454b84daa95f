"""Random programs, and random contractions, scheduled whatever that gains: none crashes, all compute what they did."""

from __future__ import annotations

import random

import pytest

from tests.autoschedule.recipes.test_contraction import FORMS, product
from tests.autoschedule.scheduled import planned, same_bits
from tests.checking import executes_alike
from tests.generate.programs import Writer
from tirlower.autoschedule import choose
from tirlower.diagnostics import TirError
from tirlower.script import parse

MACHINES = (
    "llvm -mcpu=x86-64-v3 -mcache=1K,2K,4K -num_threads=4",
    "llvm -mcpu=x86-64-v4 -mcache=32K,1M,32M -num_threads=1",
)
SPECS = ["mk,kn->mn", "km,kn->mn", "mk,nk->mn", "km,nk->mn", "mk,kn->nm", "bmk,bkn->bmn", "bmk,kn->bmn"]


def programs(first: int, count: int) -> int:
    """Schedule and run random programs; how many became others."""
    made = 0
    for seed in range(first, first + count):
        try:
            func = parse(Writer(seed).program(seed).text)
        except TirError:
            continue
        found = planned(func, MACHINES[seed % 2])
        if found.function is func:
            continue
        made += 1
        bits = all(nest.exactness == "bitwise equal" for nest in found.nests)
        executes_alike(func, found.function, samples=1, tolerance=0.0 if bits else 1e-3)
    return made


def test_random_programs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choose, "WORTH", float("inf"))
    assert programs(0, 120) > 2


@pytest.mark.nightly
def test_many_random_programs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(choose, "WORTH", float("inf"))
    assert programs(100_000, 8_000) > 100


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(60))
def test_random_contractions(seed: int):
    rng = random.Random(seed)
    sizes = (rng.randrange(1, 70), rng.randrange(1, 90), rng.randrange(1, 300))
    func = product(rng.choice(list(FORMS)), sizes, rng.choice(SPECS), rng.choice(["float32", "float64", "int32"]))
    machine = MACHINES[seed % 2]
    found = planned(func, machine)
    same_bits(found, machine)
