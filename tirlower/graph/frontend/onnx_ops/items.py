"""Tensors while a model is imported: values of the graph, arrays, and small integers known as numbers and expressions.

What exporters compute of shapes (``Shape``, ``Gather``, ``Concat``) is known contents: it becomes the shapes of
operations, and a value of the graph only where an operation reads it as a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tirlower.graph.core.dims import Shape
from tirlower.graph.core.nodes import Value
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr, IntImm
from tirlower.ir.dtype import BOOL, INT64, Array, DataType

__all__ = ["MOST_KNOWN", "Item", "objects"]

MOST_KNOWN = 1024
"""Of tensors of more elements no contents are followed."""


class Item:
    """A tensor: a value, an array, or an array of numbers and expressions; it becomes a value when one is asked for."""

    __slots__ = ("array", "dtype", "exprs", "name", "shape", "value")

    def __init__(
        self,
        dtype: DataType,
        shape: Shape,
        *,
        value: Value | None = None,
        array: Array | None = None,
        exprs: Array | None = None,
        name: str = "c",
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.value = value
        self.array = array
        self.exprs = exprs
        self.name = name

    @classmethod
    def of_value(cls, value: Value) -> Item:
        """A value of the graph."""
        return cls(value.dtype, value.shape, value=value)

    @classmethod
    def of_array(cls, array: Array, name: str = "c") -> Item:
        """A constant."""
        return cls(DataType(array.dtype.name), array.shape, array=array, name=name)

    @classmethod
    def of_contents(cls, contents: Array, dtype: DataType | str = INT64) -> Item:
        """Numbers and expressions in an array of objects: a constant where they all are numbers."""
        flat = [e.value if isinstance(e, IntImm) else e for e in contents.reshape(-1).tolist()]
        kind = DataType(dtype)
        if any(isinstance(e, Expr) for e in flat):
            return cls(kind, contents.shape, exprs=objects(flat).reshape(contents.shape))
        return cls.of_array(np.array(flat, kind.numpy).reshape(contents.shape))

    @property
    def contents(self) -> Array | None:
        """The elements as objects, where they are known and few."""
        if self.exprs is not None:
            return self.exprs
        if self.array is None or self.array.size > MOST_KNOWN:
            return None
        return objects(self.array.reshape(-1).tolist()).reshape(self.array.shape)

    def as_value(self, builder: GraphBuilder) -> Value:
        """The value, made at the first time."""
        if self.value is None:
            if self.array is not None:
                self.value = builder.const(self.array, self.name)
            else:
                assert self.exprs is not None
                self.value = _stacked(builder, self.exprs, self.dtype)
        return self.value


def objects(values: Sequence[object]) -> Array:
    """An array of objects with one axis."""
    made = np.empty(len(values), object)
    for n, value in enumerate(values):
        made[n] = value
    return made


def _stacked(b: GraphBuilder, exprs: Array, dtype: DataType) -> Value:
    kind = INT64 if dtype is BOOL else dtype
    parts: list[Value] = []
    for each in exprs.reshape(-1).tolist():
        parts.append(b.op("dim_value", value=each, dtype=str(kind)))
    if not exprs.ndim:
        return parts[0]
    return b.op("reshape", b.op("stack", *parts, axis=0), shape=exprs.shape)
