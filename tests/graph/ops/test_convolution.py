"""Convolutions against loops over the places of the kernel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.graph.ops.checking import check, floats, integers, refused
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.convolution import windows

pytestmark = pytest.mark.by_day


def correlated(
    x: np.ndarray, w: np.ndarray, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], groups: int
) -> np.ndarray:
    """The cross-correlation, a place of the kernel at a time."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *[(pads[n], pads[n + rank]) for n in range(rank)]])
    out = [(padded.shape[2 + n] - (w.shape[2 + n] - 1) * dilations[n] - 1) // strides[n] + 1 for n in range(rank)]
    found = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    inner, features = w.shape[1], w.shape[0] // groups
    for offset in itertools.product(*[range(e) for e in w.shape[2:]]):
        cut = tuple(
            slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in zip(offset, dilations, out, strides, strict=True)
        )
        for g in range(groups):
            part = padded[(slice(None), slice(g * inner, (g + 1) * inner), *cut)]
            own = w[(slice(g * features, (g + 1) * features), slice(None), *offset)]
            found[:, g * features : (g + 1) * features] += np.einsum("nc...,fc->nf...", part, own)
    return found


def spread(
    x: np.ndarray, w: np.ndarray, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int],
    more: Sequence[int], groups: int,
) -> np.ndarray:  # fmt: skip
    """The transposed convolution: each element adds the kernel to the places around it."""
    rank = x.ndim - 2
    full = [(x.shape[2 + n] - 1) * strides[n] + (w.shape[2 + n] - 1) * dilations[n] + 1 + more[n] for n in range(rank)]
    found = np.zeros((x.shape[0], w.shape[1] * groups, *full), x.dtype)
    inner, features = x.shape[1] // groups, w.shape[1]
    for place in itertools.product(*[range(e) for e in x.shape[2:]]):
        for offset in itertools.product(*[range(e) for e in w.shape[2:]]):
            at = tuple(p * s + o * d for p, s, o, d in zip(place, strides, offset, dilations, strict=True))
            for g in range(groups):
                own = slice(g * inner, (g + 1) * inner)
                found[(slice(None), slice(g * features, (g + 1) * features), *at)] += (
                    x[(slice(None), own, *place)] @ w[(own, slice(None), *offset)]
                )
    return found[(..., *[slice(pads[n], full[n] - pads[n + rank]) for n in range(rank)])]


CONVOLUTIONS = [
    ((2, 3, 8, 9), (4, 3, 3, 3), {"pads": (1, 1, 1, 1)}),
    ((2, 3, 8, 9), (4, 3, 1, 1), {}),
    ((2, 4, 8, 9), (6, 2, 3, 2), {"pads": (1, 0, 2, 1), "strides": (2, 1), "dilations": (1, 2), "groups": 2}),
    ((1, 6, 7, 7), (6, 1, 3, 3), {"pads": (1, 1, 1, 1), "groups": 6, "strides": (2, 2)}),
    ((1, 3, 7, 7), (6, 1, 3, 3), {"pads": (1, 1, 1, 1), "groups": 3}),
    ((2, 3, 10), (4, 3, 3), {"pads": (2, 0)}),
    ((1, 2, 5, 6, 7), (3, 2, 2, 2, 2), {"strides": (2, 1, 2)}),
    ((0, 3, 5), (4, 3, 3), {}),
    ((1, 1, 1), (1, 1, 1), {}),
]


@pytest.mark.parametrize(("x", "w", "attrs"), CONVOLUTIONS, ids=str)
def test_conv(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, object]) -> None:
    rank = len(x) - 2
    whole = {"strides": (1,) * rank, "pads": (0,) * 2 * rank, "dilations": (1,) * rank, "groups": 1, **attrs}
    a, b = floats(*x), floats(*w, seed=1)
    # Channels that come in groups are numbers, so no extents are made dims there.
    check("conv", correlated(a, b, **whole), a, b, dynamic="groups" not in attrs, rtol=1e-4, **attrs)


def test_conv_of_other_dtypes() -> None:
    a, b = floats(1, 8, 6, 6), floats(4, 8, 3, 3, seed=1)
    want = correlated(a, b, (1, 1), (1, 1, 1, 1), (1, 1), 1)
    check("conv", want.astype(np.float16), a.astype(np.float16), b.astype(np.float16), pads=(1, 1, 1, 1), rtol=2e-2)
    c, d = integers(1, 2, 5, 5), integers(3, 2, 2, 2)
    check("conv", correlated(c, d, (1, 1), (0,) * 4, (1, 1), 1), c, d)


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((2, 3, 5, 6), (3, 4, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 2), "output_padding": (1, 0)}),
        ((2, 4, 5), (4, 3, 3), {"strides": (2,), "groups": 2}),
        ((1, 3, 5, 5), (3, 2, 2, 2), {"dilations": (2, 1)}),
        ((2, 3, 4), (3, 2, 3), {"strides": (3,), "pads": (0, 2)}),
    ],
    ids=str,
)
def test_conv_transpose(x: tuple[int, ...], w: tuple[int, ...], attrs: dict[str, object]) -> None:
    rank = len(x) - 2
    whole = {"strides": (1,) * rank, "pads": (0,) * 2 * rank, "dilations": (1,) * rank, "groups": 1, **attrs}
    more = whole.pop("output_padding", (0,) * rank)
    a, b = floats(*x), floats(*w, seed=1)
    want = spread(a, b, more=more, **whole)  # type: ignore[arg-type]
    check("conv_transpose", want, a, b, dynamic="groups" not in attrs, rtol=1e-4, **attrs)


def test_refusals() -> None:
    x = floats(1, 4, 5, 5)
    refused("x has 4 channels, 1 groups, and w takes: 3 and 4", "conv", x, floats(2, 3, 3, 3))
    refused("the channels of x, 4, are not divided by 3 groups", "conv", x, floats(3, 1, 3, 3), groups=3)
    refused("a window of 7 elements does not fit 5", "conv", x, floats(2, 4, 7, 7))
    refused("takes 2 strides", "conv", x, floats(2, 4, 3, 3), strides=(1,))
    refused("strides are at least 1", "conv", x, floats(2, 4, 3, 3), strides=(0, 1))
    refused("pads are at least 0", "conv", x, floats(2, 4, 3, 3), pads=(-1, 0, 0, 0))
    refused("weights of as many axes", "conv", x, floats(2, 4, 3))
    refused("takes as many|as many output_padding", "conv_transpose", x, floats(4, 2, 3, 3), output_padding=(1,))


def test_windows() -> None:
    (window,) = windows("pool", (7,), (3,), (2,), (1, 1), None)
    assert window.places() == 4
    (window,) = windows("pool", (6,), (2,), (3,), None, None)
    assert (window.places(), window.places(ceil_mode=True)) == (2, 2)
    with pytest.raises(GraphError, match="takes 4 pads"):
        windows("pool", (7, 7), (3, 3), None, (1, 1), None)
