"""A kernel at one size, with its arguments, what they must become, and what its time is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from bench.by_hand.machine import Machine
from bench.measure import Candidate
from tirlower.ir import PrimFunc

__all__ = ["Array", "Case", "Maker"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True)
class Case:
    """What a file of a class makes for a machine.

    ``args`` are the kernel's, the output last; ``expected`` is NumPy's result. ``tolerance`` is relative to the largest
    expected element: what NumPy's other order of the same sums may change. Without contraction the interpreter's bits
    come out of ``ordered`` kernels; others reduce in lanes, which they permit.
    ``work`` counts operations, or bytes that must move, and ``limit`` names the one of :mod:`bench.by_hand.limits` that
    binds; ``reached`` is the part of that limit that schedules by hand were measured to reach on another machine.
    Peers write the same output array, or return their own.
    """

    func: PrimFunc
    args: tuple[Array, ...]
    expected: Callable[[], Array]
    work: float
    limit: str
    reached: float
    tolerance: float = 0.0
    ordered: bool = True
    peers: Mapping[str, Candidate] = field(default_factory=dict)
    target: str = ""
    """Options beyond the number of threads: permissions."""

    def check(self, found: object = None) -> None:
        """Compare a result (the output array's without one) with NumPy's."""
        ours = np.asarray(self.args[-1] if found is None else found).astype(np.float64)
        wanted = self.expected().astype(np.float64)
        np.testing.assert_allclose(ours, wanted, rtol=0, atol=self.tolerance * float(np.abs(wanted).max()))


Maker = Callable[[Machine], Case]
