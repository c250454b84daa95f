"""Operations that are no loops over elements of their own: sorting, running sums, what is found in a tensor.

An :class:`Opaque` states its results, a reference in NumPy, and the statements of its kernel. It never fuses: no map says
which elements of its operands an element of its results needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tirlower.graph.core.dims import DimEnv, Extent, Shape, extent_expr
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.evaluate import bind_dims, extent_value
from tirlower.ir import Buffer, Expr, IRBuilder, Var
from tirlower.ir.dtype import Array

__all__ = ["Kernel", "Opaque", "Reference", "lanes", "run_reference"]

Reference: TypeAlias = "Callable[[Sequence[Array], Sequence[tuple[int, ...]]], Sequence[Array]]"
"""The results from the operands, and from the shapes that the results have."""
Kernel: TypeAlias = "Callable[[IRBuilder, Sequence[Buffer], Sequence[Buffer], DimEnv], None]"
"""Writes the statements that make the results (the second buffers) from the operands (the first ones)."""


@dataclass(frozen=True, eq=False)
class Opaque:
    """Formal operands, the types of the results, the reference, and what writes the kernel."""

    name: str
    operands: tuple[Buffer, ...]
    results: tuple[TensorType, ...]
    reference: Reference
    kernel: Kernel

    def classify(self) -> str:
        """Its kind: ``opaque``."""
        return "opaque"


def run_reference(
    opaque: Opaque, arrays: Sequence[Array], dims: Mapping[Var, int] | None = None, precise: bool = False
) -> tuple[Array, ...]:
    """The results of an opaque operation on arrays; ``precise`` computes floats, and returns them, in float64.

    Raises :class:`GraphError` where an array does not have the operand's shape or dtype.

    >>> from tirlower.graph.ops.registry import definition
    >>> found = definition("argsort")
    >>> from tirlower.ir import DataType
    >>> made = found.opaque([TensorType((3,), DataType("float32"))], (-1,), found.completed({}))
    >>> run_reference(made, [np.array([2, 3, 1], "float32")])[0].tolist()
    [2, 0, 1]
    """
    values = dict(dims or {})
    given: list[Array] = []
    for buffer, array in zip(opaque.operands, arrays, strict=True):
        wide = precise and buffer.dtype.is_float
        if array.dtype != buffer.dtype.numpy and not (wide and array.dtype == np.float64):
            raise GraphError(f"{opaque.name} takes {buffer.name} of {buffer.dtype!s}, got {array.dtype}")
        bind_dims(f"{opaque.name}: {buffer.name}", tuple(buffer.shape), array.shape, values)
        given.append(array.astype(np.float64) if wide else array)
    shapes = [tuple(extent_value(e, values) for e in kind.shape) for kind in opaque.results]
    with np.errstate(all="ignore"):
        made = opaque.reference(given, shapes)
    kinds = [np.dtype(np.float64) if precise and r.dtype.is_float else r.dtype.numpy for r in opaque.results]
    return tuple(np.asarray(a).astype(kind) for a, kind in zip(made, kinds, strict=True))


@contextmanager
def lanes(ib: IRBuilder, shape: Shape, axis: int) -> Iterator[Callable[[Expr], tuple[Expr, ...]]]:
    """Loops over all axes but one; gives the function from an index of that axis to the indices of the element."""
    with ExitStack() as stack:
        outer: list[Var | None] = [None if n == axis else _loop(stack, ib, extent, n) for n, extent in enumerate(shape)]
        yield lambda i: tuple(i if var is None else var for var in outer)


def _loop(stack: ExitStack, ib: IRBuilder, extent: Extent, n: int) -> Var:
    return stack.enter_context(ib.for_range(0, extent_expr(extent), f"i{n}", "int64"))
