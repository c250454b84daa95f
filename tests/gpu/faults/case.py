"""A kernel with the mistake that is seeded into it, and with what has to be said about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tirlower.ir import PrimFunc
from tirlower.script import parse

__all__ = ["Case", "floats", "ints"]

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    """``source`` is right; with ``fault[0]`` replaced by ``fault[1]`` it is wrong, and ``found`` is in the error.

    ``arguments`` makes the arrays, ``expect`` the contents afterwards of the last of them, from their contents before.
    ``seed`` is one of an order of threads in which the mistake shows, where it does not in lockstep.
    """

    name: str
    source: str
    fault: tuple[str, str]
    found: str
    arguments: Callable[[np.random.Generator], Arrays]
    expect: Callable[..., np.ndarray]
    seed: int | None = None
    rtol: float = 0.0

    def right(self) -> PrimFunc:
        """The kernel as it should be."""
        return _parse(self.source)

    def wrong(self) -> PrimFunc:
        """The kernel with the mistake."""
        before, after = self.fault
        if self.source.count(before) != 1:
            raise ValueError(f"{self.name}: {before!r} occurs {self.source.count(before)} times")
        return _parse(self.source.replace(before, after))


def _parse(source: str) -> PrimFunc:
    func = parse(source)
    assert isinstance(func, PrimFunc)
    return func


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small whole numbers as float32, whose sums are exact in any order."""
    return rng.integers(-8, 9, shape).astype(np.float32)


def ints(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers from 0 to 99."""
    return rng.integers(0, 100, shape).astype(np.int32)
