"""What an operation is: loops over iterators, and for each result an expression of loads of the operands.

A :class:`Generic` is made by :func:`tirlower.graph.ops.compute.compute`. Its body is an expression of the language of
prim funcs: reads, guards of padding (``if_then_else``), gathers and conversions are loads, calls and casts, and there is
no second language of expressions.
"""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.graph.core.dims import Extent, Shape
from tirlower.graph.ops.maps import kind_of
from tirlower.ir import Buffer, BufferLoad, CommReducer, Expr, IndexMap, Var
from tirlower.ir.dtype import DataType
from tirlower.ir.query import each

__all__ = ["Generic", "Iter", "Result"]


@dataclass(frozen=True, eq=False)
class Iter:
    """An iterator from 0 to below its extent."""

    var: Var
    extent: Extent
    reduction: bool = False


@dataclass(frozen=True, eq=False)
class Result:
    """One result: the element that an iteration of the parallel iterators makes, and its value.

    ``value`` has the dtype in which it is computed, and accumulated where there is a reduction; it is converted to
    ``dtype`` when it is stored.
    """

    shape: Shape
    dtype: DataType
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, eq=False)
class Generic:
    """Iterators (parallel ones first), formal operands, results, and how the values of a reduction are combined."""

    name: str
    iters: tuple[Iter, ...]
    operands: tuple[Buffer, ...]
    results: tuple[Result, ...]
    reducer: CommReducer | None = None

    @property
    def parallel(self) -> tuple[Iter, ...]:
        """The iterators whose iterations make different elements."""
        return tuple(it for it in self.iters if not it.reduction)

    @property
    def reduction(self) -> tuple[Iter, ...]:
        """The iterators whose iterations are combined into one element."""
        return tuple(it for it in self.iters if it.reduction)

    def loads(self) -> list[BufferLoad]:
        """The distinct loads of its operands."""
        return list(each(BufferLoad, *(result.value for result in self.results)))

    def read_maps(self, operand: int) -> list[IndexMap]:
        """The maps from iterations to the elements of an operand, one for each load of it."""
        buffer = self.operands[operand]
        loop = tuple(it.var for it in self.iters)
        return [IndexMap(loop, load.indices) for load in self.loads() if load.buffer is buffer]

    def write_map(self, result: int = 0) -> IndexMap:
        """The map from parallel iterations to the elements of a result."""
        return IndexMap(tuple(it.var for it in self.parallel), self.results[result].indices)

    def classify(self) -> str:
        """Its kind: ``elementwise``, ``broadcast``, ``injective``, ``reduction`` or ``contraction``.

        An elementwise operation reads each operand where it writes; in a broadcast some operand lacks axes or has them
        with extent 1; an injective operation moves elements; a contraction is a sum of products.

        >>> from tirlower.graph.ops.compute import compute, formal, sum_over
        >>> a, b = formal("a", (4, 8), "float32"), formal("b", (8, 2), "float32")
        >>> compute((4, 2), lambda i, j: sum_over(8, lambda k: a[i, k] * b[k, j])).classify()
        'contraction'
        >>> compute((8, 4), lambda i, j: a[j, i]).classify()
        'injective'
        """
        return kind_of(self)
