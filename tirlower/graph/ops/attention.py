"""Attention: what queries find among keys, as a mean of values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.registry import macro

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["masked_softmax"]


def masked_softmax(
    b: GraphBuilder, scores: Value, masks: Sequence[Value | None], earlier: Value | None = None
) -> Value:
    """The softmax along the last axis of scores under masks: bools say what counts, numbers are added.

    Where masks (and ``earlier``, which leaves some scores of each row by itself) let nothing of a row count, its weights
    are zero.
    """
    counted: Value | None = None
    given = [mask for mask in masks if mask is not None]
    for mask in (*given, *([] if earlier is None else [earlier])):
        if mask.dtype.is_bool:
            scores, some = b.op("where", mask, scores, -math.inf), mask
        else:
            scores, some = b.op("add", scores, mask), b.op("not_equal", mask, -math.inf)
        counted = some if counted is None else b.op("logical_and", counted, some)
    weights = b.op("softmax", scores, axis=-1)
    if counted is None or not given:
        return weights
    alive = b.op("any", counted, axis=-1, keepdims=True) if counted.shape else counted
    return b.op("where", alive, weights, 0.0)


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
    A query for which no key counts finds zeros.
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
    earlier: Value | None = None
    if causal:
        at = b.op("expand_dims", b.op("arange", stop=q.shape[-2]), axis=1)
        earlier = b.op("less_equal", b.op("arange", stop=k.shape[-2]), at)
    return b.op("matmul", masked_softmax(b, scores, [mask], earlier), v)
