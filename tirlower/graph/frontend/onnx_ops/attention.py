"""Attention, and the rotation of queries and keys by their places."""

from __future__ import annotations

import math

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.attention import masked_softmax
from tirlower.graph.ops.shaping import product_of

__all__ = []


def _headed(c: Call, x: Value, heads: int) -> Value:
    """(batch, length, heads * depth) as (batch, heads, length, depth)."""
    if len(x.shape) == 4:
        return x
    if len(x.shape) != 3 or heads < 1:
        raise GraphError(f"{c.node.op} takes 4 axes, or 3 and numbers of heads, got {x.name}: {x.type}, {heads} heads")
    apart = c.op("reshape", x, shape=(x.shape[0], x.shape[1], heads, -1))
    return c.op("transpose", apart, axes=(0, 2, 1, 3))


def _together(c: Call, x: Value) -> Value:
    """The reverse."""
    turned = c.op("transpose", x, axes=(0, 2, 1, 3))
    return c.op("reshape", turned, shape=(*turned.shape[:2], product_of(turned.shape[2:])))


def _repeated(c: Call, x: Value, heads: Extent) -> Value:
    """Each head of the keys for as many heads of the queries."""
    own = x.shape[1]
    if not isinstance(own, int) or not isinstance(heads, int):
        return x
    if not own or heads % own:
        raise GraphError(f"Attention: {heads} heads of queries are not divided by {own} heads of keys")
    return x if heads == own else c.op("repeat", x, repeats=heads // own, axis=1)


def _earlier(c: Call, scores: Value, past: Extent) -> Value:
    """Which keys are not behind the place of a query."""
    rows, columns = scores.shape[-2:]
    last = c.op("expand_dims", c.op("arange", start=past, stop=past + rows), axis=1)
    return c.op("less_equal", c.op("arange", stop=columns), last)


@row(
    "Attention",
    "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap "
    "softmax_precision",
)
def _attention(c: Call) -> list[Value | None]:
    flat = c.rank(0) == 3
    q = _headed(c, c.value(0), c.integer("q_num_heads", 0))
    k, v = (_headed(c, c.value(n), c.integer("kv_num_heads", 0)) for n in (1, 2))
    past: Extent = 0
    if c.has(4) or c.has(5):
        past = c.shape(4)[2]
        k, v = (c.op("concat", c.value(n), x, axis=2) for n, x in ((4, k), (5, v)))
    if any(c.integer(name, -1) != -1 for name in ("left_window_size", "right_window_size")):
        raise c.unsupported("with a window")
    keys, values = (_repeated(c, x, q.shape[1]) for x in (k, v))
    depth = q.shape[-1]
    if not isinstance(depth, int):
        raise c.unsupported(f"of a dynamic depth {depth}")
    scale = c.number("scale", 0.0) or 1 / math.sqrt(depth)
    causal, cap, mask = c.flag("is_causal"), c.number("softcap", 0.0), c.maybe(3)
    if not cap and not c.has(6) and not c.wants(3) and not (causal and c.has(4)):
        found = c.op("attention", q, keys, values, mask, scale=scale, causal=causal)
        return [_together(c, found) if flat else found, k, v]
    scores = c.op("multiply", c.op("matmul", q, c.op("transpose", keys, axes=(0, 1, 3, 2))), scale)
    raw = scores
    if cap:
        scores = c.op("multiply", c.op("tanh", c.op("divide", scores, cap)), cap)
    if causal and c.has(6):
        raise c.unsupported("that is causal with lengths of keys")
    held: Value | None = None
    if c.has(6):
        held = c.op("less", c.op("arange", stop=k.shape[2]), c.op("reshape", c.value(6), shape=(-1, 1, 1, 1)))
    weights = masked_softmax(c.b, scores, [mask, held], _earlier(c, scores, past) if causal else None)
    found = c.op("matmul", weights, values)
    more: Value | None = None
    if c.wants(3):
        mode = c.integer("qk_matmul_output_mode", 0)
        if mode not in (0, 3):
            raise c.unsupported(f"with qk_matmul_output_mode {mode}")
        more = raw if mode == 0 else weights
    return [_together(c, found) if flat else found, k, v, more]


@row("RotaryEmbedding", "interleaved num_heads rotary_embedding_dim")
def _rotary_embedding(c: Call) -> Value:
    flat = c.rank(0) == 3
    x = _headed(c, c.value(0), c.integer("num_heads", 0))
    cosines, sines = c.value(1), c.value(2)
    if c.has(3):
        cosines, sines = (c.op("gather", table, c.value(3), axis=0) for table in (cosines, sines))
    cosines, sines = (c.op("expand_dims", table, axis=1) for table in (cosines, sines))
    depth = x.shape[-1]
    if not isinstance(depth, int):
        raise c.unsupported(f"of a dynamic depth {depth}")
    turned = c.integer("rotary_embedding_dim", 0) or depth
    half = turned // 2

    def part(start: int, stop: int, step: int = 1) -> Value:
        return c.op("slice", x, starts=(start,), ends=(stop,), axes=(3,), steps=(step,))

    joint = c.flag("interleaved")
    a, b = (part(0, turned, 2), part(1, turned, 2)) if joint else (part(0, half), part(half, turned))
    real = c.op("subtract", c.op("multiply", cosines, a), c.op("multiply", sines, b))
    other = c.op("add", c.op("multiply", sines, a), c.op("multiply", cosines, b))
    if joint:
        pairs = c.op("stack", real, other, axis=4)
        parts = [c.op("reshape", pairs, shape=(*real.shape[:3], turned))]
    else:
        parts = [real, other]
    if turned < depth:
        parts.append(part(turned, depth))
    found = parts[0] if len(parts) == 1 else c.op("concat", *parts, axis=3)
    return _together(c, found) if flat else found
