"""A perceptron and three networks of convolutions: topologies and channels are the true ones, at any width."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import onnx

from tests.graph.onnx_models.writer import Dim, Writer, pick

__all__ = ["mlp", "mobilenet_v2", "resnet18", "small_cnn"]

Size = Literal["full", "small"]
Image = Dim | tuple[Dim, Dim]
"""The extents of an image: of its rows and columns, or one for both."""


def mlp(
    size: Size = "full",
    *,
    batch: Dim | None = None,
    widths: tuple[int, ...] | None = None,
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layers of 784, 512, 256 and 10 with relu between them, and softmax: `Gemm` for each, 6 nodes."""
    batch = pick(batch, 64 if size == "full" else 4)
    widths = pick(widths, (784, 512, 256, 10) if size == "full" else (48, 32, 16, 10))
    w = Writer("mlp", opset, seed)
    x = w.input("x", (batch, widths[0]))
    layers = list(itertools.pairwise(widths))
    for index, layer in enumerate(layers):
        last = index == len(layers) - 1
        x = w.linear(x, f"layers.{2 * index}", layer, gain=1.0 if last else math.sqrt(2.0))
        if not last:
            x = w.op("Relu", x, at=f"layers.{2 * index + 1}")
    x = w.op("Softmax", x, at="softmax", attributes={"axis": -1})
    return w.finish(x, (batch, widths[-1]))


def small_cnn(
    size: Size = "full",
    *,
    batch: Dim = 1,
    image: Image | None = None,
    width: int | None = None,
    classes: int = 10,
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Convolution, batch norm, relu, max pool; the same without the pool beside a residual; the mean, and a layer."""
    image = pick(image, 64 if size == "full" else 32)
    width = pick(width, 32 if size == "full" else 8)
    w = Writer("small_cnn", opset, seed)
    x = w.input("x", (batch, 3, *_extents(image)))
    x = w.conv(x, "conv1", (3, width), 3, bias=False, gain=1.0)
    x = w.op("Relu", w.batch_norm(x, "bn1", width), at="relu1")
    x = _max_pool(w, x, "pool", kernel=2, pad=0)
    y = w.batch_norm(w.conv(x, "conv2", (width, width), 3, bias=False, gain=0.5), "bn2", width)
    x = w.op("Relu", w.op("Add", y, x, at="add"), at="relu2")
    return _head(w, x, "fc", width, classes, batch)


def resnet18(
    size: Size = "full",
    *,
    batch: Dim = 1,
    image: Image | None = None,
    width: float | None = None,
    classes: int = 1000,
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Four stages of two residual blocks, batch norm folded into the convolutions; ``width`` multiplies channels."""
    image = pick(image, 224 if size == "full" else 64)
    width = pick(width, 1.0 if size == "full" else 0.125)
    classes = classes if size == "full" else min(classes, 10)
    stages = [max(1, round(channels * width)) for channels in (64, 128, 256, 512)]
    w = Writer("resnet18", opset, seed)
    x = w.input("x", (batch, 3, *_extents(image)))
    channels = stages[0]
    x = w.op("Relu", w.conv(x, "conv1", (3, channels), 7, stride=2), at="relu")
    x = _max_pool(w, x, "maxpool", kernel=3, pad=1)
    for stage, outputs in enumerate(stages):
        for block in range(2):
            at = f"layer{stage + 1}.{block}"
            stride = 2 if stage > 0 and block == 0 else 1
            y = w.op("Relu", w.conv(x, f"{at}.conv1", (channels, outputs), 3, stride=stride), at=f"{at}.relu")
            y = w.conv(y, f"{at}.conv2", (outputs, outputs), 3, gain=0.5)
            if stride != 1:
                x = w.conv(x, f"{at}.downsample.0", (channels, outputs), 1, stride=stride, gain=1.0)
            x = w.op("Relu", w.op("Add", y, x, at=at), at=f"{at}.relu")
            channels = outputs
    return _head(w, x, "fc", channels, classes, batch)


def mobilenet_v2(
    size: Size = "full",
    *,
    batch: Dim = 1,
    image: Image | None = None,
    width: float | None = None,
    classes: int = 1000,
    opset: int = 20,
    seed: int = 0,
) -> onnx.ModelProto:
    """Seventeen inverted residuals (expansion, depthwise, projection), batch norm folded, relu6 as `Clip`."""
    image = pick(image, 224 if size == "full" else 64)
    width = pick(width, 1.0 if size == "full" else 0.25)
    classes = classes if size == "full" else min(classes, 10)
    w = Writer("mobilenet_v2", opset, seed)
    x = w.input("x", (batch, 3, *_extents(image)))

    def clipped(y: str, at: str, sizes: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1) -> str:
        y = w.conv(y, f"{at}.0", sizes, kernel, stride=stride, groups=groups)
        return w.clip(y, f"{at}.2", 0.0, 6.0)

    channels = _by_eight(32 * width)
    x = clipped(x, "features.0", (3, channels), 3, stride=2)
    index = 1
    #  expansion, channels, repeats, stride of the first
    for expansion, base, repeats, first in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        outputs = _by_eight(base * width)
        for repeat in range(repeats):
            at = f"features.{index}"
            stride = first if repeat == 0 else 1
            hidden = channels * expansion
            y = x if expansion == 1 else clipped(x, f"{at}.conv.0", (channels, hidden), 1)
            y = clipped(y, f"{at}.conv.{min(expansion, 2) - 1}", (hidden, hidden), 3, stride=stride, groups=hidden)
            residual = stride == 1 and channels == outputs
            y = w.conv(y, f"{at}.conv.{min(expansion, 2)}", (hidden, outputs), 1, gain=0.5 if residual else 1.0)
            x = w.op("Add", x, y, at=at) if residual else y
            channels = outputs
            index += 1
    # The true network never narrows its last layer; at small sizes it would be most of the work.
    last = max(1280, _by_eight(1280 * width)) if size == "full" else _by_eight(1280 * width)
    x = clipped(x, f"features.{index}", (channels, last), 1)
    x = w.mean(x, "mean", [2, 3], keep=False)
    return w.finish(w.linear(x, "classifier.1", (last, classes)), (batch, classes))


def _extents(image: Image) -> tuple[Dim, Dim]:
    return image if isinstance(image, tuple) else (image, image)


def _by_eight(channels: float) -> int:
    """The nearest multiple of eight that is at least nine tenths: the network's own rule."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def _max_pool(w: Writer, x: str, at: str, kernel: int, pad: int) -> str:
    attributes: dict[str, Any] = {"kernel_shape": [kernel, kernel], "pads": [pad] * 4, "strides": [2, 2]}
    if w.opset >= 10:
        attributes |= {"ceil_mode": 0, "dilations": [1, 1]}
    return w.op("MaxPool", x, at=at, attributes=attributes)


def _head(w: Writer, x: str, at: str, channels: int, classes: int, batch: Dim) -> onnx.ModelProto:
    """The mean of each channel, and a layer."""
    x = w.op("Flatten", w.op("GlobalAveragePool", x, at="avgpool"), attributes={"axis": 1})
    return w.finish(w.linear(x, at, (channels, classes)), (batch, classes))
