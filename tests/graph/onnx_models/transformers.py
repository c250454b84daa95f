"""Blocks of three transformers, as an exporter of torch writes them; each at any number of layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx

from tests.graph.onnx_models.writer import Dim, Writer, pick

__all__ = ["bert_layer", "gpt2_block", "vit_block"]

Size = Literal["full", "small"]
Shapes = Literal["literal", "computed"]
"""How the extents of `Reshape` are written: as numbers (0 and -1 for dynamic ones), or computed by `Shape`."""

LOWEST = float(np.finfo(np.float32).min)
BRANCH = 0.5
"""How much smaller the weights at the end of a residual branch are: the sum's variance stays near one."""


@dataclass
class Block:
    """What the layers of one model share."""

    w: Writer
    batch: Dim
    length: Dim
    hidden: int
    heads: int
    shapes: Shapes

    def self_attention(self, at: str, q: str, k: str, v: str, mask: Callable[[str, str], str] | None) -> str:
        """Scores of all heads, masked, and the sum of the values that they weigh."""
        w, width = self.w, self.hidden // self.heads
        q = w.op("Transpose", self.split_heads(q, at), at=at, attributes={"perm": [0, 2, 1, 3]})
        k = w.op("Transpose", self.split_heads(k, at), at=at, attributes={"perm": [0, 2, 3, 1]})
        v = w.op("Transpose", self.split_heads(v, at), at=at, attributes={"perm": [0, 2, 1, 3]})
        scores = w.op("Div", w.op("MatMul", q, k, at=at), w.number(math.sqrt(width)), at=at)
        if mask is not None:
            scores = mask(scores, at)
        # Before opset 13 the softmax is over all axes from this one on: for the last it is the same.
        weights = w.op("Softmax", scores, at=at, attributes={"axis": len("bhqk") - 1 if w.opset < 13 else -1})
        mixed = w.op("Transpose", w.op("MatMul", weights, v, at=at), at=at, attributes={"perm": [0, 2, 1, 3]})
        return w.op("Reshape", mixed, self.shape(mixed, at, self.hidden), at=at)

    def split_heads(self, x: str, at: str) -> str:
        return self.w.op("Reshape", x, self.shape(x, at, self.heads, self.hidden // self.heads), at=at)

    def shape(self, x: str, at: str, *rest: int) -> str:
        """The operand of a `Reshape` that keeps batch and length, the first two axes of ``x``."""
        w = self.w
        dynamic = [isinstance(dim, str) for dim in (self.batch, self.length)]
        if self.shapes == "computed":
            return w.concat(w.extent(x, 0, at), w.extent(x, 1, at), w.ints(*rest), at=at)
        if all(dynamic):
            return w.ints(0, 0, *rest)
        batch, length = (-1 if isinstance(dim, str) else dim for dim in (self.batch, self.length))
        return w.ints(batch, length, *rest)

    def feed_forward(self, x: str, at: str, names: tuple[str, str, str], tanh: bool = False) -> str:
        """Four times as wide inside."""
        first, activation, second = (f"{at}.{name}" for name in names)
        x = self.w.projection(x, first, (self.hidden, 4 * self.hidden), gain=math.sqrt(2.0))
        x = self.w.gelu(x, activation, tanh)
        return self.w.projection(x, second, (4 * self.hidden, self.hidden), gain=BRANCH)

    def separate(self, x: str, at: str) -> tuple[str, str, str]:
        """Queries, keys and values by a layer for each."""
        size = (self.hidden, self.hidden)
        q, k, v = (self.w.projection(x, f"{at}.{name}", size) for name in ("query", "key", "value"))
        return q, k, v


def bert_layer(
    size: Size = "full",
    *,
    batch: Dim = 1,
    sequence: Dim | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
    mask: Literal["added", "ones"] = "added",
    shapes: Shapes = "literal",
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layers of an encoder that normalizes after each sum; 30 nodes a layer.

    The mask is an operand: 0 or the lowest float, added to the scores as it is (``mask="added"``), or ones and zeros
    of int64 for each token, from which the model computes the former (``"ones"``, 5 nodes more).
    """
    small = size == "small"
    sequence, hidden, heads = (
        pick(sequence, 16 if small else 128),
        pick(hidden, 64 if small else 768),
        pick(heads, 4 if small else 12),
    )
    w = Writer("bert_layer", opset, seed)
    block = Block(w, batch, sequence, hidden, heads, shapes)
    x = w.input("x", (batch, sequence, hidden))
    if mask == "added":
        bias = w.input("attention_mask", (batch, 1, 1, sequence))
    else:
        bias = _bias_of_ones(w, w.input("attention_mask", (batch, sequence), onnx.TensorProto.INT64))
    for layer in range(pick(layers, 2 if small else 1)):
        at = f"encoder.layer.{layer}"
        own = f"{at}.attention.self"
        q, k, v = block.separate(x, own)
        y = block.self_attention(own, q, k, v, lambda scores, here: w.op("Add", scores, bias, at=here))
        y = w.projection(y, f"{at}.attention.output.dense", (hidden, hidden), gain=BRANCH)
        x = w.layer_norm(w.op("Add", y, x, at=f"{at}.attention.output"), f"{at}.attention.output.LayerNorm", hidden)
        y = block.feed_forward(x, at, ("intermediate.dense", "intermediate.intermediate_act_fn", "output.dense"))
        x = w.layer_norm(w.op("Add", y, x, at=f"{at}.output"), f"{at}.output.LayerNorm", hidden)
    return w.finish(x, (batch, sequence, hidden))


def gpt2_block(
    size: Size = "full",
    *,
    batch: Dim = 1,
    sequence: Dim | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
    positions: int | None = None,
    shapes: Shapes = "literal",
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layers of a decoder that normalizes first: joint queries, keys and values, and a causal mask; 27 nodes a layer.

    The mask is a constant that `Where` takes; with a dynamic sequence it is cut from one for all ``positions``.
    """
    small = size == "small"
    sequence, hidden, heads = (
        pick(sequence, 16 if small else 128),
        pick(hidden, 64 if small else 768),
        pick(heads, 4 if small else 12),
    )
    w = Writer("gpt2_block", opset, seed)
    block = Block(w, batch, sequence, hidden, heads, shapes)
    x = w.input("x", (batch, sequence, hidden))
    extent = pick(positions, 64 if small else 1024) if isinstance(sequence, str) else sequence
    bias = w.constant("attn.bias", np.tril(np.ones((1, 1, extent, extent), np.bool_)))
    if isinstance(sequence, str):
        bias = _corner(w, bias, w.extent(x, 1, "attn"))

    def causal(scores: str, here: str) -> str:
        return w.op("Where", bias, scores, w.number(LOWEST), at=here)

    for layer in range(pick(layers, 2 if small else 1)):
        at = f"h.{layer}"
        joint = w.projection(w.layer_norm(x, f"{at}.ln_1", hidden), f"{at}.attn.c_attn", (hidden, 3 * hidden))
        q, k, v = w.split(joint, f"{at}.attn", [hidden] * 3)
        y = block.self_attention(f"{at}.attn", q, k, v, causal)
        y = w.projection(y, f"{at}.attn.c_proj", (hidden, hidden), gain=BRANCH)
        x = w.op("Add", y, x, at=at)
        y = w.layer_norm(x, f"{at}.ln_2", hidden)
        y = block.feed_forward(y, f"{at}.mlp", ("c_fc", "act", "c_proj"), tanh=True)
        x = w.op("Add", x, y, at=at)
    return w.finish(x, (batch, sequence, hidden))


def vit_block(
    size: Size = "full",
    *,
    batch: Dim = 1,
    sequence: Dim | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    layers: int | None = None,
    shapes: Shapes = "literal",
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layers of an image encoder that normalizes first, without a mask: 197 tokens of 192; 29 nodes a layer."""
    small = size == "small"
    sequence, hidden, heads = pick(sequence, 17 if small else 197), pick(hidden, 48 if small else 192), pick(heads, 3)
    w = Writer("vit_block", opset, seed)
    block = Block(w, batch, sequence, hidden, heads, shapes)
    x = w.input("x", (batch, sequence, hidden))
    for layer in range(pick(layers, 2 if small else 1)):
        at = f"encoder.layer.{layer}"
        own = f"{at}.attention.attention"
        q, k, v = block.separate(w.layer_norm(x, f"{at}.layernorm_before", hidden, 1e-12), own)
        y = block.self_attention(own, q, k, v, None)
        x = w.op("Add", w.projection(y, f"{at}.attention.output.dense", (hidden, hidden), gain=BRANCH), x, at=at)
        y = w.layer_norm(x, f"{at}.layernorm_after", hidden, 1e-12)
        y = block.feed_forward(y, at, ("intermediate.dense", "intermediate.intermediate_act_fn", "output.dense"))
        x = w.op("Add", y, x, at=f"{at}.output")
    return w.finish(x, (batch, sequence, hidden))


def _bias_of_ones(w: Writer, ones: str) -> str:
    """What is added to the scores: the lowest float where the mask is 0."""
    at = "mask"
    if w.opset >= 13:
        wide = w.op("Unsqueeze", ones, w.ints(1, 2), at=at)
    else:
        wide = w.op("Unsqueeze", ones, at=at, attributes={"axes": [1, 2]})
    floats = w.op("Cast", wide, at=at, attributes={"to": onnx.TensorProto.FLOAT})
    return w.op("Mul", w.op("Sub", w.number(1.0), floats, at=at), w.number(LOWEST), at=at)


def _corner(w: Writer, bias: str, extent: str) -> str:
    """The first rows and columns of the causal mask."""
    if w.opset < 10:
        raise ValueError(f"gpt2_block with a dynamic sequence needs opset 10, whose Slice has operands, not {w.opset}")
    return w.op("Slice", bias, w.ints(0, 0), w.concat(extent, extent, at="attn"), w.ints(2, 3), at="attn")
