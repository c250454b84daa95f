"""Reductions over axes, and the places of extremes."""

from __future__ import annotations

from collections.abc import Callable

from tirlower.graph.core.nodes import Value
from tirlower.graph.frontend.onnx_ops.table import Call, Made, row

__all__ = ["axes_of_call"]

_REDUCE: dict[str, tuple[str, int]] = {
    "ReduceL1": ("l1", 18),
    "ReduceL2": ("l2", 18),
    "ReduceLogSum": ("log_sum", 18),
    "ReduceLogSumExp": ("logsumexp", 18),
    "ReduceMax": ("max", 18),
    "ReduceMean": ("mean", 18),
    "ReduceMin": ("min", 18),
    "ReduceProd": ("prod", 18),
    "ReduceSum": ("sum", 13),
    "ReduceSumSquare": ("sum_square", 18),
}
"""The operation, and the opset from which on the axes are an operand."""
_OF_ONE = ("l1", "l2", "log_sum", "sum_square")
"""Those that change a single element too: without axes they still do, where the others do nothing."""


def axes_of_call(c: Call, since: int) -> tuple[int, ...] | None:
    """The axes of a node: an attribute, from an opset on its second operand; None where they are left out."""
    if c.opset < since:
        return c.ints("axes")
    return tuple(c.numbers(1, "the axes")) if c.has(1) else None


def _reduce(name: str, since: int) -> Callable[[Call], Made]:
    def make(c: Call) -> Made:
        x = c.value(0)
        axes = axes_of_call(c, since)
        if not axes and c.flag("noop_with_empty_axes"):
            if name not in _OF_ONE:
                return c.item(0)
            axes = ()
        elif not axes:
            axes = None
        more = {"dtype": str(x.dtype)} if name in ("sum", "prod") else {}
        found = c.op(name, x, axis=axes, keepdims=c.flag("keepdims", True), **more)
        return c.cast(found, x.dtype)

    return make


for _onnx, (_name, _since) in _REDUCE.items():
    row(_onnx, "axes keepdims noop_with_empty_axes")(_reduce(_name, _since))


def _extreme(name: str) -> Callable[[Call], Value]:
    def make(c: Call) -> Value:
        last = c.flag("select_last_index")
        return c.op(name, c.value(0), axis=c.integer("axis", 0), keepdims=c.flag("keepdims", True), last=last)

    return make


row("ArgMax", "axis keepdims select_last_index")(_extreme("argmax"))
row("ArgMin", "axis keepdims select_last_index")(_extreme("argmin"))
