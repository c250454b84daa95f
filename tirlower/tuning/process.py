"""What a process does that measures a job: build its plans, compare what they compute, and call each in turns with the base.

Another process starts it, for what is measured may crash or hang: that costs this process, and one plan.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Final

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.driver.build import build_module
from tirlower.driver.kernel import Kernel
from tirlower.ir.dtype import Array
from tirlower.rewrite.context import PassContext
from tirlower.tuning.job import Job, Outcome, Plan, made_from

__all__ = ["measured", "serve"]

HOPELESS: Final = 3.0
"""A plan whose first turn takes so many times the base's is not worth all of them."""
MOST_CALLS: Final = 100_000


def serve() -> None:
    """Read a job from the standard input, and write an outcome for each of its plans to the standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    job: Job = pickle.load(sys.stdin.buffer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for outcome in measured(job):
            pickle.dump(outcome, answers)
            answers.flush()


def measured(job: Job) -> Iterator[Outcome]:
    """Measure the plans of a job in this process."""
    try:
        call = _Call(job)
    except Exception as error:
        for _ in job.plans:
            yield _failed(error)
        return
    for plan in job.plans:
        try:
            yield call.measured(plan)
        except Exception as error:
            yield _failed(error)


def _failed(error: Exception) -> Outcome:
    said = error.message if isinstance(error, TirError) else str(error)
    return Outcome(error=f"{type(error).__name__}: {said}")


class _Call:
    """A call of a job, whose arrays are as they were at the beginning of each turn; and the base, which is called beside each plan."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.args, self.kwargs = made_from(job.given)
        self.arrays = [one for one in (*self.args, *self.kwargs.values()) if isinstance(one, np.ndarray)]
        self.before = [one.copy() for one in self.arrays]
        self.base = self._built(job.base)
        self.told = _digests(self._results(self.base))
        quick = min(self._turn(self.base, 1) for _ in range(3))
        self.calls = max(1, min(MOST_CALLS, int(job.least / max(quick, 1e-9))))

    def measured(self, plan: Plan) -> Outcome:
        """Compare what a plan computes, and time it: each turn takes the base first and the plan first by turns."""
        kernel = self._built(plan)
        found = self._results(kernel)
        if plan.exact and self.job.base.exact and _digests(found) != self.told:
            copies = [one.copy() for one in found]
            if not all(map(_same_bits, self._results(self.base), copies)):
                return Outcome(error="it computes other bits than the untuned plan")
        mine: list[float] = []
        base: list[float] = []
        for number in range(self.job.rounds):
            pair = [(kernel, mine), (self.base, base)]
            for one, times in pair if number % 2 else pair[::-1]:
                times.append(self._turn(one, self.calls))
            if number == 0 and mine[0] > HOPELESS * base[0]:
                break
        return Outcome(statistics.median(mine), statistics.median(base))

    def _built(self, plan: Plan) -> Kernel:
        job = self.job
        ctx = PassContext(**job.choices)
        _, kernels = build_module(job.program.unpacked(), job.target, ctx, job.outputs or None, schedule=plan.trace)
        return next(iter(kernels.values()))

    def _restore(self) -> None:
        for array, before in zip(self.arrays, self.before, strict=True):
            np.copyto(array, before)

    def _results(self, kernel: Kernel) -> list[Array]:
        """What a call leaves in its arrays, and returns."""
        self._restore()
        returned: object = kernel(*self.args, **self.kwargs)
        given = returned if isinstance(returned, tuple) else (returned,)
        return [one for one in (*self.arrays, *given) if isinstance(one, np.ndarray)]

    def _turn(self, kernel: Kernel, calls: int) -> float:
        """Seconds of a call, of some one after another."""
        self._restore()
        args, kwargs = self.args, self.kwargs
        start = time.perf_counter()
        for _ in range(calls):
            kernel(*args, **kwargs)
        return (time.perf_counter() - start) / calls


def _digests(arrays: list[Array]) -> list[bytes]:
    """What tells the bits of arrays from others: they may be as large as memory lets one copy be."""
    return [hashlib.blake2b(np.ascontiguousarray(one).view(np.uint8).data).digest() for one in arrays]


def _same_bits(one: Array, other: Array) -> bool:
    """Whether two arrays have the same bits, but for those of NaNs, which stand at the same places."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind in "iub":
        return False
    bits = f"u{one.dtype.itemsize}"
    with contextlib.suppress(TypeError):
        both = np.isnan(one) & np.isnan(other)
        return bool((both | (one.view(bits) == other.view(bits))).all())
    return False
