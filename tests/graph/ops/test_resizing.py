"""Resized images against a loop over elements, an axis at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused

pytestmark = pytest.mark.by_day

X = floats(1, 2, 4, 5)
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
    "tf_half_pixel_for_nn",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def place(i: int, have: int, want: int, scale: float, coordinates: str) -> float:
    if coordinates == "align_corners":
        return i * (have - 1) / (want - 1) if want > 1 else 0
    if coordinates == "asymmetric":
        return i / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if coordinates == "pytorch_half_pixel" and want == 1:
        return 0
    shift = have / 2 * (1 - want / (scale * have)) if coordinates == "half_pixel_symmetric" else 0
    return shift + (i + 0.5) / scale - 0.5


def weights(at: float, have: int, mode: str, rounding: str, a: float, exclude: bool) -> dict[int, float]:
    """The weight of each element of an axis."""
    found: dict[int, float] = {}
    if mode == "nearest":
        near = {
            "round_prefer_floor": math.ceil(at - 0.5), "round_prefer_ceil": math.floor(at + 0.5),
            "floor": math.floor(at), "ceil": math.ceil(at),
        }[rounding]  # fmt: skip
        return {min(max(near, 0), have - 1): 1.0}
    first = math.floor(at)
    for k in range(first - 1, first + 3):
        t = abs(at - k)
        if mode == "linear":
            w = max(0.0, 1 - t)
        elif t <= 1:
            w = (a + 2) * t**3 - (a + 3) * t**2 + 1
        else:
            w = a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0
        if exclude and not 0 <= k < have:
            continue
        there = min(max(k, 0), have - 1)
        found[there] = found.get(there, 0.0) + w
    total = sum(found.values()) if exclude else 1.0
    return {k: w / total for k, w in found.items()}


def resized(
    x: np.ndarray, shape: tuple[int, ...], scales: tuple[float, ...] | None = None, mode: str = "nearest",
    coordinates: str = "half_pixel", rounding: str = "round_prefer_floor", cubic: float = -0.75,
    exclude_outside: bool = False,
) -> np.ndarray:  # fmt: skip
    for n, (have, want) in enumerate(zip(x.shape, shape, strict=True)):
        scale = want / have if scales is None else scales[n]
        matrix = np.zeros((want, have))
        for i in range(want):
            at = place(i, have, want, scale, coordinates)
            for k, w in weights(at, have, mode, rounding, cubic, exclude_outside).items():
                matrix[i, k] = w
        if have != want or scale != 1:
            x = np.moveaxis(np.tensordot(matrix, x, (1, n)), 0, n)
    return x


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_modes(mode: str, coordinates: str) -> None:
    for shape in ((1, 2, 8, 10), (1, 2, 7, 3), (1, 2, 3, 2), (1, 2, 1, 1), (1, 2, 4, 5)):
        want = resized(X, shape, mode=mode, coordinates=coordinates).astype(np.float32)
        check("resize", want, X, dynamic=False, shape=shape, mode=mode, coordinates=coordinates)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_rounding(rounding: str) -> None:
    form = {"shape": (1, 2, 6, 10), "rounding": rounding, "coordinates": "asymmetric"}
    check("resize", resized(X, **form).astype(np.float32), X, dynamic=False, **form)
    i = integers(1, 2, 4, 5, dtype="int8")
    check("resize", resized(i, **form).astype(np.int8), i, dynamic=False, **form)


def test_scales_that_are_not_those_of_the_shapes() -> None:
    for mode in ("nearest", "linear", "cubic"):
        form = {"shape": (1, 2, 2, 3), "scales": (1.0, 1.0, 0.6, 0.7), "mode": mode}
        check("resize", resized(X, **form).astype(np.float32), X, dynamic=False, **form)


def test_cubic_forms() -> None:
    for form in ({"cubic": -0.5}, {"exclude_outside": True}):
        want = resized(X, (1, 2, 7, 9), mode="cubic", **form).astype(np.float32)
        check("resize", want, X, dynamic=False, shape=(1, 2, 7, 9), mode="cubic", **form)


def test_reversed_sequences() -> None:
    x, lengths = floats(4, 3, 2), np.array([4, 1, 3])
    want = x.copy()
    for b, n in enumerate(lengths):
        want[:n, b] = x[:n, b][::-1]
    check("reverse_sequence", want, x, lengths)
    check("reverse_sequence", want.swapaxes(0, 1), x.swapaxes(0, 1), lengths, time_axis=1, batch_axis=0)
    refused("two axes and a vector", "reverse_sequence", x, lengths, time_axis=1)


def test_refusals() -> None:
    refused("has the modes nearest, linear, cubic, got 'area'", "resize", X, shape=X.shape, mode="area")
    refused("has the coordinates", "resize", X, shape=X.shape, coordinates="tf_crop_and_resize")
    refused("takes 4 extents", "resize", X, shape=(4, 4))
