"""Products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row

__all__ = ["CONV", "convolution", "same_pads", "with_bias"]

CONV = "auto_pad dilations group kernel_shape pads strides"


@row("MatMul")
def _matmul(c: Call) -> Value:
    return c.op("matmul", c.value(0), c.value(1))


@row("Gemm", "alpha beta transA transB")
def _gemm(c: Call) -> Value:
    return c.op(
        "gemm",
        c.value(0),
        c.value(1),
        c.maybe(2),
        alpha=c.number("alpha", 1.0),
        beta=c.number("beta", 1.0),
        trans_a=c.flag("transA"),
        trans_b=c.flag("transB"),
    )


@row("Einsum", "equation")
def _einsum(c: Call) -> Value:
    return c.op("einsum", *c.values(), equation=c.text("equation"))


def same_pads(
    c: Call,
    extents: Sequence[Extent],
    kernel: Sequence[Extent],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
) -> tuple[int, ...] | None:
    """What is added before each axis, then behind each one: as stated, or as ``auto_pad`` wants it."""
    auto = c.text("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        return c.ints("pads")
    if auto == "VALID":
        return None
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise c.unsupported(f"with auto_pad {auto!r}")
    before, behind = [], []
    for n, (extent, size) in enumerate(zip(extents, kernel, strict=True)):
        step = strides[n] if strides else 1
        if not isinstance(size, int):
            raise c.unsupported(f"with auto_pad and the kernel's extent {size}")
        reach = (size - 1) * (dilations[n] if dilations else 1) + 1
        if step == 1:
            total = reach - 1
        elif isinstance(extent, int):
            total = max((-(-extent // step) - 1) * step + reach - extent, 0)
        else:
            raise c.unsupported(
                f"with auto_pad and strides over the dynamic extent {extent}", 'bind the dim: dims={"name": 224}'
            )
        more = total // 2
        before.append(total - more if auto == "SAME_LOWER" else more)
        behind.append(more if auto == "SAME_LOWER" else total - more)
    return (*before, *behind)


def convolution(c: Call, x: Value, w: Value) -> Value:
    """The convolution of two values with the node's attributes."""
    strides, dilations, kernel = c.ints("strides"), c.ints("dilations"), c.ints("kernel_shape")
    sizes = w.shape[2:]
    if len(x.shape) < 3 or len(w.shape) != len(x.shape):
        raise GraphError(f"{c.node.op} takes (batch, channels, …) and weights of as many axes, got {x.type}, {w.type}")
    if kernel is not None and all(isinstance(s, int) for s in sizes) and kernel != sizes:
        raise GraphError(f"{c.node.op}: the kernel_shape is {kernel}, the weights {w.name} have {sizes}")
    pads = same_pads(c, x.shape[2:], sizes, strides, dilations)
    return c.op("conv", x, w, strides=strides, pads=pads, dilations=dilations, groups=c.integer("group", 1))


def with_bias(c: Call, x: Value, bias: Value | None) -> Value:
    """A number for each channel added."""
    if bias is None:
        return x
    return c.op("add", x, c.op("expand_dims", bias, axis=tuple(range(1, len(x.shape) - 1))))


@row("Conv", CONV)
def _conv(c: Call) -> Value:
    return with_bias(c, convolution(c, c.value(0), c.value(1)), c.maybe(2))


@row("ConvTranspose", f"{CONV} output_padding output_shape")
def _conv_transpose(c: Call) -> Value:
    x, w = c.value(0), c.value(1)
    rank = len(x.shape) - 2
    strides, dilations = c.ints("strides") or (1,) * rank, c.ints("dilations") or (1,) * rank
    more = list(c.ints("output_padding") or (0,) * rank)
    auto = c.text("auto_pad", "NOTSET")
    pads = c.ints("pads") or (0,) * (2 * rank)
    wanted = c.ints("output_shape")
    if wanted is not None or auto in ("SAME_UPPER", "SAME_LOWER"):
        before, behind = [], []
        for n in range(rank):
            extent, size = x.shape[n + 2], w.shape[n + 2]
            if not isinstance(size, int) or (wanted is not None and not isinstance(extent, int)):
                raise c.unsupported("with output_shape over dynamic extents")
            reach = (size - 1) * dilations[n] + 1
            if wanted is not None:
                assert isinstance(extent, int)
                total = strides[n] * (extent - 1) + more[n] + reach - wanted[n - rank]
            else:
                total = more[n] + reach - strides[n]
            if wanted is not None and total < 0:  # it is asked for more than there is: zeros behind
                more[n] -= total
            total = max(total, 0)
            small = total // 2
            lower = auto != "SAME_UPPER"
            before.append(total - small if lower else small)
            behind.append(small if lower else total - small)
        pads = (*before, *behind)
    found = c.op(
        "conv_transpose",
        x,
        w,
        strides=strides,
        pads=pads,
        dilations=dilations,
        output_padding=tuple(more),
        groups=c.integer("group", 1),
    )
    return with_bias(c, found, c.maybe(2))
