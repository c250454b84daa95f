"""``python -m bench textbook``: the algorithms of :mod:`bench.textbook_kernels` as prim funcs, as written and scheduled, beside Numba.

Signatures alone are stated; sizes come with the call. Results are compared with plain Python's, on small arrays, and with those of
the loops as written, on large ones, before anything is timed: in turns, on one thread, in its processor time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final, NamedTuple

import numpy as np

import tirlower as tl
from bench.from_numba import copies, differing, plain_python, prim_func
from bench.measure import Candidate, human, interleave
from tirlower.ir import PrimFunc

__all__ = ["ALGORITHMS", "KERNELS", "arguments", "in_python", "of_any_size", "report"]

KERNELS: Final = Path(__file__).with_name("textbook_kernels.py")
TARGET: Final = "llvm -num_threads=1"
ROUNDS: Final = 9
SLICE: Final = 0.02


def _array(*shape: str, dtype: str = "float64") -> str:
    return f"T.Buffer(({', '.join(map(repr, shape))},), '{dtype}')"


class Algorithm(NamedTuple):
    """The types of its parameters by name, and how long its side is, of a size for Python and of one for timing."""

    types: dict[str, str]
    small: int = 13
    large: int = 240


SQUARE, LINE, STEPS = _array("n", "n"), _array("n"), "T.int32"
INTS, FEW = _array("n", dtype="int32"), _array("n", "d")

ALGORITHMS: Final[dict[str, Algorithm]] = {
    "eliminate": Algorithm({"a": SQUARE}),
    "crout": Algorithm({"a": SQUARE}),
    "cholesky": Algorithm({"a": SQUARE}),
    "forward_substitution": Algorithm({"lower": SQUARE, "rhs": LINE, "x": LINE}, large=600),
    "orthonormal": Algorithm({"a": _array("m", "n"), "q": _array("m", "n"), "r": SQUARE}),
    "covariance": Algorithm({"samples": _array("m", "n"), "mean": LINE, "cov": SQUARE}),
    "gram": Algorithm({"x": _array("m", "n"), "g": _array("m", "m")}),
    "triangular_product": Algorithm({"lower": SQUARE, "b": _array("n", "m"), "c": _array("n", "m")}),
    "shortest_paths": Algorithm({"length": _array("n", "n", dtype="int32")}),
    "reachable": Algorithm({"edge": _array("n", "n", dtype="uint8")}),
    "common_subsequence": Algorithm(
        {"s": INTS, "t": INTS, "length": _array("n + 1", "n + 1", dtype="int32")}, large=600
    ),
    "knapsack": Algorithm({"weight": INTS, "worth": INTS, "best": _array("c", dtype="int32")}),
    "parenthesize": Algorithm(
        {"size": _array("n + 1", dtype="int32"), "cost": _array("n", "n", dtype="int32")}, large=160
    ),
    "diffuse": Algorithm({"steps": STEPS, "u": _array("m", "n"), "v": _array("m", "n")}),
    "relax_in_place": Algorithm({"steps": STEPS, "u": SQUARE}),
    "power_iteration": Algorithm({"steps": STEPS, "a": SQUARE, "x": LINE, "y": LINE}),
    "standardize": Algorithm({"x": _array("m", "n"), "scale": LINE, "y": _array("m", "n")}),
    "attend": Algorithm({**dict.fromkeys(("query", "key", "value"), FEW), "weight": SQUARE, "out": FEW}),
    "attract": Algorithm(dict.fromkeys(("px", "py", "fx", "fy"), LINE)),
    "nearest": Algorithm({"points": _array("m", "d"), "centres": FEW, "label": _array("m", dtype="int32")}),
    "fourier": Algorithm(dict.fromkeys(("re", "im", "out_re", "out_im"), LINE)),
    "smooth": Algorithm({"image": SQUARE, "taps": _array("d"), "middle": SQUARE, "out": SQUARE}),
    "autocorrelate": Algorithm({"x": LINE, "r": _array("d")}, large=4000),
    "dilate": Algorithm({"image": _array("m", "n", dtype="uint8"), "out": _array("m", "n", dtype="uint8")}),
    "quantize": Algorithm({"x": _array("m", "n"), "scale": _array("m"), "codes": _array("m", "n", dtype="int8")}),
}
"""The algorithms, by the names of their functions."""


TABLES: Final = frozenset({("common_subsequence", "length"), ("knapsack", "best"), ("parenthesize", "cost")})
"""The arrays of dynamic programs, which begin at 0."""


def of_any_size(name: str) -> PrimFunc:
    """An algorithm as a prim func."""
    return prim_func(name, KERNELS, {name: one.types for name, one in ALGORITHMS.items()})


def in_python(name: str) -> Callable[..., Any]:
    """An algorithm as Python runs it."""
    return plain_python(name, KERNELS)


def arguments(name: str, side: int) -> list[Any]:
    """Arguments of a size: matrices that can be factored, numbers that stay in their types."""
    rng, made = np.random.default_rng(side), []
    extents = {
        "n": side,
        "m": side - 1 if name == "triangular_product" else side + 5,
        "n + 1": side + 1,
        "c": 20 * side,
        "d": 9,
    }
    for parameter, kind in ALGORITHMS[name].types.items():
        if kind == STEPS:
            made.append(4)
            continue
        names, dtype = kind.removeprefix("T.Buffer((").split(",), ")
        shape = tuple(extents[one.strip("' ")] for one in names.split(","))
        if dtype.startswith("'float"):
            value = rng.random(shape) + 0.1
            if len(shape) == 2 and shape[0] == shape[1]:
                value = value + value.T + 3 * side * np.eye(len(value))
        elif (name, parameter) in TABLES:
            value = np.zeros(shape)
        else:
            value = rng.integers(1, 20, shape)
            if "uint8" in dtype:
                value = value < 2
        made.append(np.ascontiguousarray(value, dtype.strip("')")))
    return made


class _Restored:
    """A call that works in place, on arrays that are what they were before each."""

    def __init__(self, fn: Callable[..., Any], start: Sequence[Any]) -> None:
        self.fn, self.start, self.values = fn, start, copies(start)

    def __call__(self) -> None:
        for mine, first in zip(self.values, self.start, strict=True):
            if isinstance(mine, np.ndarray):
                mine[...] = first
        self.fn(*self.values)


def _check(name: str, kernels: dict[str, Callable[..., Any]]) -> None:
    """Raise where a kernel computes something else than plain Python, or on large arrays than the first one."""
    for side in (1, 2, ALGORITHMS[name].small, ALGORITHMS[name].large):
        start = arguments(name, side)
        expected = copies(start)
        (in_python(name) if side <= ALGORITHMS[name].small else next(iter(kernels.values())))(*expected)
        for label, kernel in kernels.items():
            mine = copies(start)
            kernel(*mine)
            wrong = differing(mine, expected, None, None)
            assert not wrong, f"{name}, {label}: {wrong} elements differ at side {side}"


def _lines(only: list[str]) -> Iterator[str]:
    try:
        from numba import njit
    except ImportError:
        yield "Numba is not installed: there is nothing to compare with"
        return
    yield "| algorithm | as written | scheduled | Numba | Numba / scheduled | recipes |"
    yield "| --- | --- | --- | --- | --- | --- |"
    ratios: list[float] = []
    for name, one in ALGORITHMS.items():
        if only and not any(word in name for word in only):
            continue
        func = of_any_size(name)
        scheduled = tl.build(func, TARGET)
        kernels: dict[str, Callable[..., Any]] = {
            "as written": tl.build(func, TARGET, schedule="none"), "scheduled": scheduled, "numba": njit(in_python(name)),
        }  # fmt: skip
        _check(name, kernels)
        start = arguments(name, one.large)
        calls: dict[str, Candidate] = {label: _Restored(kernel, start) for label, kernel in kernels.items()}
        interleave(calls, rounds=2, slice_seconds=SLICE, clock=time.thread_time)
        timed = interleave(calls, rounds=ROUNDS, slice_seconds=SLICE, clock=time.thread_time)
        ratios.append(timed["numba"].ratio(timed["scheduled"]))
        recipes = ", ".join(dict.fromkeys(nest.recipe for nest in scheduled.report().nests if nest.recipe))
        times = " | ".join(human(timed[label].median) for label in kernels)
        yield f"| {name} | {times} | {ratios[-1]:.2f}x | {recipes or '-'} |"
    if ratios:
        yield f"\ngeometric mean of Numba / scheduled: {geometric_mean(ratios):.2f}; the least {min(ratios):.2f}"


def report(only: list[str]) -> str:
    """The table: the time as written, scheduled, and Numba's, with what the schedule is."""
    return "\n".join(["textbook algorithms of any size, one thread", "", *_lines(only)])
