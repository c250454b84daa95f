"""Pools against a loop over places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tests.graph.ops.checking import built, check, floats, integers, refused
from tirlower.graph.api import compile
from tirlower.graph.core.dims import dim

pytestmark = pytest.mark.by_day


def pooled(
    x: np.ndarray,
    combine: Callable[[np.ndarray, int], float],
    kernel: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: bool = False,
    include: bool = False,
) -> np.ndarray:
    """``combine`` of the elements under each place and their number, counting what is added around where that is said."""
    rank = len(kernel)
    strides, dilations = strides or (1,) * rank, dilations or (1,) * rank
    before, after = (pads or (0,) * 2 * rank)[:rank], (pads or (0,) * 2 * rank)[rank:]
    places = []
    for n in range(rank):
        extent = x.shape[2 + n]
        starts = range(0, extent + before[n] + after[n], strides[n])
        reach = (kernel[n] - 1) * dilations[n] + 1
        # Rounded up, a place counts that starts before the end of the axis, whatever is added behind it.
        fits = [s for s in starts if s + reach <= extent + before[n] + after[n]]
        beyond = [s for s in starts if s not in fits and s < extent + before[n]][:1] if ceil_mode else []
        places.append([s - before[n] for s in (*fits, *beyond)])
    found = np.zeros((*x.shape[:2], *map(len, places)), np.float64)
    for at in itertools.product(*map(enumerate, places)):
        rows = [range(s, s + kernel[n] * dilations[n], dilations[n]) for n, (_, s) in enumerate(at)]
        inside = [[r for r in row if 0 <= r < e] for row, e in zip(rows, x.shape[2:], strict=True)]
        wide = [[r for r in row if r < e + a] for row, e, a in zip(rows, x.shape[2:], after, strict=True)]
        count = math.prod(map(len, wide if include else inside))
        for n, c in np.ndindex(*x.shape[:2]):
            window = x[n, c][np.ix_(*inside)]
            found[(n, c, *[m for m, _ in at])] = combine(window.astype(np.float64), count)
    return found


X = floats(2, 3, 9, 10)
FORMS: list[dict[str, object]] = [
    {"kernel": (3, 2)},
    {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 1)},
    {"kernel": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1), "ceil_mode": True},
    {"kernel": (3, 2), "strides": (2, 2), "dilations": (2, 1)},
    {"kernel": (3, 2), "strides": (3, 3), "ceil_mode": True},
    {"kernel": (2, 2), "strides": (4, 4), "pads": (0, 0, 1, 1), "ceil_mode": True},
    {"kernel": (1, 1)},
    {"kernel": (9, 10)},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_windows(form: dict[str, object]) -> None:
    fixed = set(form["kernel"])  # type: ignore[call-overload]
    largest = pooled(X, lambda w, n: w.max(), **form).astype(np.float32)
    check("max_pool", largest, X, dynamic=9 not in fixed, **form)
    for include in (False, True):
        mean = pooled(X, lambda w, n: w.sum() / n, include=include, **form).astype(np.float32)
        check("average_pool", mean, X, dynamic=9 not in fixed, count_include_pad=include, **form)
    for p in (1, 2, 3):
        norm = pooled(X, lambda w, n, p=p: (np.abs(w) ** p).sum() ** (1 / p), **form).astype(np.float32)
        check("lp_pool", norm, X, dynamic=9 not in fixed, p=p, **form)


def test_one_and_three_axes() -> None:
    for x, form in (
        (floats(2, 3, 7), {"kernel": (3,)}),
        (floats(1, 2, 5, 4, 3), {"kernel": (2, 2, 2), "strides": (1, 2, 1)}),
    ):
        check("max_pool", pooled(x, lambda w, n: w.max(), **form).astype(np.float32), x, dynamic=False, **form)
        check("average_pool", pooled(x, lambda w, n: w.mean(), **form).astype(np.float32), x, dynamic=False, **form)


def test_what_is_added_around_is_never_the_greatest() -> None:
    x = -np.abs(X) - 1
    form = {"kernel": (3, 3), "pads": (1, 1, 1, 1)}
    check("max_pool", pooled(x, lambda w, n: w.max(), **form).astype(np.float32), x, **form)
    i = integers(1, 2, 5, 5, low=-9, high=-1, dtype="int8")
    check("max_pool", pooled(i, lambda w, n: w.max(), **form).astype(np.int8), i, **form)


def test_narrow_floats_are_added_in_float32() -> None:
    x = X.astype(np.float16)
    check("average_pool", pooled(x, lambda w, n: w.mean(), (3, 3)).astype(np.float16), x, kernel=(3, 3))
    assert pooled(x, lambda w, n: w.mean(), (3, 3)).shape == (2, 3, 7, 8)


def test_a_nan_is_the_greatest() -> None:
    x = X.copy()
    x[0, 0, 4, 4] = np.nan
    check("max_pool", pooled(x, lambda w, n: w.max(), (3, 3)).astype(np.float32), x, kernel=(3, 3))


def test_whole_channels() -> None:
    check("global_max_pool", X.max((2, 3), keepdims=True), X)
    check("global_average_pool", X.mean((2, 3), keepdims=True), X)
    for p in (1, 2, 3):
        norm = (np.abs(X) ** p).sum((2, 3), keepdims=True) ** np.float32(1 / p)
        check("global_lp_pool", norm, X, p=p)


def test_refusals() -> None:
    refused(r"max_pool takes \(batch, channels, …\), got x of shape \(2, 3\)", "max_pool", floats(2, 3), kernel=())
    refused("max_pool over 2 axes takes 2 sizes", "max_pool", X, kernel=(3,))
    refused("a window of 20 elements does not fit 9", "max_pool", X, kernel=(20, 1))
    refused("takes floats", "average_pool", integers(1, 2, 5), kernel=(2,))
    refused("takes .batch, channels", "global_max_pool", floats(2, 3))


def places_by_hand(
    x: np.ndarray, kernel: int, stride: int, pad: int, columns_first: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Window by window; the first greatest element, NaN before all."""
    n, c, h, w = x.shape
    rows, columns = ((e + 2 * pad - kernel) // stride + 1 for e in (h, w))
    values, places = np.zeros((n, c, rows, columns), x.dtype), np.zeros((n, c, rows, columns), np.int64)
    for at in np.ndindex(values.shape):
        best: tuple[object, int] | None = None
        for i, j in np.ndindex(kernel, kernel):
            row, column = at[2] * stride + i - pad, at[3] * stride + j - pad
            if 0 <= row < h and 0 <= column < w:
                value = x[at[0], at[1], row, column]
                number = (at[0] * c + at[1]) * h * w + (column * h + row if columns_first else row * w + column)
                nan = value != value
                if (
                    best is None
                    or (nan and best[0] == best[0])
                    or value > best[0]
                    or ((value == best[0] or (nan and best[0] != best[0])) and number < best[1])
                ):
                    best = (value, number)
        assert best is not None
        values[at], places[at] = best
    return values, places


WINDOWS = [(3, 1, 1, False), (3, 2, 1, True)]
BY_NIGHT = [
    (2, 2, 0, False), (3, 2, 1, False), (1, 1, 0, False), (2, 2, 0, True), (3, 1, 1, True), (1, 1, 0, True),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "columns_first"),
    [*WINDOWS, *(pytest.param(*one, marks=pytest.mark.nightly) for one in BY_NIGHT)],
)
@pytest.mark.parametrize("dtype", ["float32", "int8", "float16"])
@pytest.mark.by_day
def test_the_greatest_element_and_its_place(
    dtype: str, kernel: int, stride: int, pad: int, columns_first: bool
) -> None:
    x = np.random.default_rng(3).integers(-3, 3, (2, 3, 5, 7)).astype(dtype)
    if dtype != "int8":
        x[0, 0, 1, 2], x[1, 2, 3], x[1, 1] = np.nan, -np.inf, -np.inf
    want = places_by_hand(x, kernel, stride, pad, columns_first)
    attrs: dict[str, object] = {"kernel": (kernel,) * 2, "strides": (stride,) * 2, "pads": (pad,) * 4}
    check("max_pool_with_index", want, x, **attrs, columns_first=columns_first)
    made = compile(
        built("max_pool_with_index", [x], {2: dim("N"), 7: dim("W", 3)}, {**attrs, "columns_first": columns_first})
    )(x)
    for got, expected in zip(made, want, strict=True):
        np.testing.assert_array_equal(got, expected)
