"""The shape of the corpus: a kernel, how to make its arguments, what it means in NumPy, and how near it must come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tirlower.ir import IRModule, PrimFunc

__all__ = ["CORPUS", "Draw", "Kernel", "Ulps", "differences", "kernel", "put", "same_bits"]

Program = PrimFunc | IRModule
Size = Mapping[str, int]


@dataclass(frozen=True)
class Ulps:
    """A bound on the error of a float result: ``count`` units in the last place of ``max(|expected|, scale)``.

    A sum of n products of numbers up to 1 is within ``Ulps(n, scale=n)`` whatever the order of its terms and whether
    products are fused (Higham, "Accuracy and Stability of Numerical Algorithms", 3.1). ``extra`` is absolute.
    """

    count: float
    scale: float = 0.0
    extra: float = 0.0

    def bound(self, want: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The largest error allowed of each element."""
        info = ml_dtypes.finfo(dtype)
        size = np.maximum(np.maximum(np.abs(want), self.scale), float(info.smallest_normal))
        # The reference itself was rounded to the type when it was stored.
        return (self.count + 0.5) * float(info.eps) * size + self.extra


class Draw:
    """Random arguments, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape: int, dtype: Any = "float32", low: float = -1.0, high: float = 1.0) -> np.ndarray:
        """Uniform floats."""
        return self.rng.uniform(low, high, shape).astype(numpy_type(dtype))

    def ints(self, *shape: int, dtype: str = "int32", low: int | None = None, high: int | None = None) -> np.ndarray:
        """Uniform integers from ``low`` to ``high`` inclusive: over the whole type, extremes likely, without them."""
        info = np.iinfo(dtype)
        least, most = info.min if low is None else low, info.max if high is None else high
        made = self.rng.integers(least, most, shape, dtype=dtype, endpoint=True)
        if low is None and high is None and made.size:
            flat = made.reshape(-1)
            special = np.array([least, most, 0, 1, most - 1, least + 1], dtype=dtype)
            where = self.rng.integers(0, 3, flat.size) == 0
            flat[where] = special[self.rng.integers(0, special.size, int(where.sum()))]
        return made

    def bools(self, *shape: int) -> np.ndarray:
        """Random truth values."""
        return self.rng.integers(0, 2, shape).astype(bool)

    def permutation(self, n: int, dtype: str = "int32") -> np.ndarray:
        """The numbers below n in a random order."""
        return self.rng.permutation(n).astype(dtype)

    @staticmethod
    def blank(*shape: int, dtype: Any = "float32") -> np.ndarray:
        """An array to be written: full of a number that no kernel computes."""
        kind = numpy_type(dtype)
        return np.full(shape, True if kind == np.bool_ else 77, dtype=kind)


def numpy_type(dtype: Any) -> np.dtype:
    """A NumPy dtype by its name, those of ml_dtypes included."""
    if isinstance(dtype, str) and (dtype.startswith(("bfloat", "float8"))):
        return np.dtype(getattr(ml_dtypes, dtype))
    return np.dtype(dtype)


def put(target: np.ndarray, value: Any) -> None:
    """Store into an array in place, rounded to its type."""
    value = np.asarray(value)
    with np.errstate(all="ignore"):
        target[...] = value.astype(target.dtype)


@dataclass(frozen=True)
class Kernel:
    """A kernel of the corpus.

    ``factory(**size)`` makes the program (``factory()`` when its shapes are symbolic, ``dynamic``), and
    ``arguments(draw, **size)`` what to call it with; ``reference(*args)`` does the same in NumPy: it changes its
    arrays in place and returns what the kernel returns. ``sizes`` are run in the interpreter and natively, ``large``
    natively only. ``within`` is the bound for floats (a function of the size, or None: exact), and ``differs`` says
    why native code may differ from the interpreter in the last bits even without contraction (empty: it may not).
    """

    name: str
    family: str
    factory: Callable[..., Program]
    arguments: Callable[..., list[Any]]
    reference: Callable[..., Any]
    sizes: tuple[Size, ...]
    large: tuple[Size, ...]
    within: Ulps | Callable[..., Ulps] | None
    differs: str
    dynamic: bool
    entry: str | None

    def program(self, size: Size) -> Program:
        """The program at a size."""
        return self.factory() if self.dynamic else self.factory(**size)

    def make(self, size: Size) -> list[Any]:
        """Arguments at a size."""
        return self.arguments(Draw(sum(ord(c) * i for i, c in enumerate(self.name, 1))), **size)

    def expected(self, size: Size) -> tuple[list[Any], Any]:
        """What the arguments hold after the call, and what it returns, by the reference."""
        args = self.make(size)
        with np.errstate(all="ignore"):
            result = self.reference(*args)
        # A lambda that fills several arrays returns a tuple of Nones.
        return args, None if isinstance(result, tuple) else result

    def tolerance(self, size: Size) -> Ulps | None:
        """The bound for floats at a size."""
        return self.within(**size) if callable(self.within) else self.within

    @property
    def builds(self) -> dict[tuple[tuple[str, int], ...], list[Size]]:
        """The sizes by the program that they need: one for all of a dynamic kernel."""
        found: dict[tuple[tuple[str, int], ...], list[Size]] = {}
        for size in (*self.sizes, *self.large):
            found.setdefault(() if self.dynamic else tuple(sorted(size.items())), []).append(size)
        return found


CORPUS: dict[str, Kernel] = {}


def kernel(
    arguments: Callable[..., list[Any]],
    reference: Callable[..., Any],
    *,
    sizes: Sequence[Size] = ({},),
    large: Sequence[Size] = (),
    within: Ulps | Callable[..., Ulps] | None = None,
    differs: str = "",
    dynamic: bool = False,
    name: str = "",
    entry: str | None = None,
) -> Callable[[Callable[..., Program]], Callable[..., Program]]:
    """Decorator of a factory: add its kernel to the corpus. ``entry`` names the function of a module to call."""

    def add(factory: Callable[..., Program]) -> Callable[..., Program]:
        full = name or factory.__name__
        if full in CORPUS:
            raise ValueError(f"two kernels are called {full}")
        family = factory.__module__.rpartition("corpus_")[2]
        CORPUS[full] = Kernel(
            full, family, factory, arguments, reference, tuple(sizes), tuple(large), within, differs, dynamic, entry
        )
        return factory

    return add


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or "float" in dtype.name


def differences(got: Sequence[Any], want: Sequence[Any], tolerance: Ulps | None) -> list[str]:
    """What of the arguments (or results) is not as expected, in words."""
    found = []
    for position, (x, y) in enumerate(zip(got, want, strict=True)):
        if not isinstance(y, np.ndarray):
            if y is not None:
                y = np.asarray(y)
                x = np.asarray(x, dtype=y.dtype) if x is not None else np.full_like(y, 0)
            elif x is None:
                continue
            else:
                found.append(f"{position}: returned {x}, expected nothing")
                continue
        if x.shape != y.shape or x.dtype != y.dtype:
            found.append(f"{position}: {x.dtype} {x.shape}, expected {y.dtype} {y.shape}")
            continue
        wrong = _wrong(x, y, tolerance)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            found.append(f"{position}: {int(wrong.sum())} of {x.size} wrong, first at {at}: {x[at]}, expected {y[at]}")
    return found


def _wrong(x: np.ndarray, y: np.ndarray, tolerance: Ulps | None) -> np.ndarray:
    if not _is_float(x.dtype):
        return np.asarray(x != y)
    a, b = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if tolerance is None:
            return np.asarray(~same)
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= tolerance.bound(b, x.dtype))
    return np.asarray(~(same | near))


def same_bits(got: Sequence[Any], want: Sequence[Any]) -> list[str]:
    """What of two runs differs in a bit, in words; NaNs are alike, zeros of different sign are not."""
    found = []
    for position, (x, y) in enumerate(zip(got, want, strict=True)):
        if not isinstance(y, np.ndarray):
            if x != y and not (x != x and y != y):
                found.append(f"{position}: returned {x!r}, expected {y!r}")
            continue
        if _is_float(x.dtype):
            a, b = x.astype(np.float64), y.astype(np.float64)
            wrong = ~(((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b)))
        else:
            wrong = np.asarray(x != y)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            found.append(f"{position}: {int(wrong.sum())} of {x.size} differ, first at {at}: {x[at]!r}, not {y[at]!r}")
    return found
