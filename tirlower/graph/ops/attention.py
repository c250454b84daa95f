"""Attention: what queries find among keys, as a mean of values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.registry import macro

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = []


@macro("attention")
def attention(
    b: GraphBuilder,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    *,
    scale: float | None = None,
    causal: bool = False,
) -> Value:
    """softmax(q @ k.T * scale + mask) @ v over the last two axes; ``scale`` is 1 / sqrt(depth) where it is not given.

    A mask of bools says which keys count, one of numbers is added. ``causal``: no key behind the query's place counts.
    """
    for x in (q, k, v):
        if len(x.shape) < 2 or not x.dtype.is_float:
            raise GraphError(f"attention takes floats (…, length, depth), got {x.name}: {x.type}")
    depth = q.shape[-1]
    if scale is None:
        if not isinstance(depth, int):
            raise GraphError(f"attention: the depth of {q.name} is {depth}: its scale is to be given")
        scale = 1 / math.sqrt(depth)
    rank = len(k.shape)
    turned = b.op("transpose", k, axes=(*range(rank - 2), rank - 1, rank - 2))
    scores = b.op("multiply", b.op("matmul", q, turned), scale)
    if mask is not None:
        chosen = b.op("where", mask, scores, -math.inf) if mask.dtype.is_bool else b.op("add", scores, mask)
        scores = chosen
    if causal:
        rows, columns = q.shape[-2], k.shape[-2]
        at = b.op("expand_dims", b.op("arange", stop=rows), axis=1)
        earlier = b.op("less_equal", b.op("arange", stop=columns), at)
        scores = b.op("where", earlier, scores, -math.inf)
    return b.op("matmul", b.op("softmax", scores, axis=-1), v)
