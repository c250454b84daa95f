"""Attention against its formula."""

from __future__ import annotations

import numpy as np

from tests.graph.ops.checking import check, floats, integers, refused

Q, K, V = floats(2, 3, 4, 8), floats(2, 3, 5, 8, seed=1), floats(2, 3, 5, 6, seed=2)


def attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | float = 0, scale: float | None = None
) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2) * np.float32(scale or q.shape[-1] ** -0.5) + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).astype(q.dtype)


def test_attention() -> None:
    check("attention", attended(Q, K, V), Q, K, V, fixed={8})
    check("attention", attended(Q, K, V, scale=0.3), Q, K, V, scale=0.3)
    check("attention", attended(Q[0, 0], K[0, 0], V[0, 0]), Q[0, 0], K[0, 0], V[0, 0], fixed={8})


def test_masks() -> None:
    added = floats(4, 5, seed=3)
    check("attention", attended(Q, K, V, added), Q, K, V, added, fixed={8})
    chosen = integers(4, 5, low=0, high=2).astype(bool)
    chosen[:, 0] = True
    hidden = np.where(chosen, 0, -np.inf).astype(np.float32)
    check("attention", attended(Q, K, V, hidden), Q, K, V, chosen, fixed={8})
    later = np.where(np.tri(4, 5, dtype=bool), 0, -np.inf).astype(np.float32)
    check("attention", attended(Q, K, V, later), Q, K, V, causal=True, fixed={8})
    check("attention", attended(Q, K, V, later + hidden), Q, K, V, chosen, causal=True, fixed={8})


def test_refusals() -> None:
    refused("attention takes floats", "attention", integers(4, 8), K, V)
    refused("attention takes floats", "attention", floats(8), K, V)
    refused("the axes that are added up differ", "attention", floats(4, 7), K, V)
