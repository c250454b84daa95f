"""Operations element by element, operands broadcast as NumPy has it."""

from __future__ import annotations

from tirlower.graph.core.nodes import TensorType
from tirlower.graph.ops.compute import Formal, broadcast, compute
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.registry import common_dtype, op
from tirlower.ir import build

__all__ = ["add", "maximum", "multiply"]


def _binary(a: Formal, b: Formal, body) -> Generic:
    dtype = common_dtype(TensorType(a.shape, a.dtype), TensorType(b.shape, b.dtype))
    return compute(broadcast(a.shape, b.shape), lambda *i: body(a.at(*i).astype(dtype), b.at(*i).astype(dtype)))


@op("add", commutative=True)
def add(a: Formal, b: Formal) -> Generic:
    """Sum."""
    return _binary(a, b, build.add)


@op("multiply", commutative=True)
def multiply(a: Formal, b: Formal) -> Generic:
    """Product."""
    return _binary(a, b, build.mul)


@op("maximum", commutative=True)
def maximum(a: Formal, b: Formal) -> Generic:
    """The greater one; NaN if one is NaN."""
    return _binary(a, b, build.max_)
