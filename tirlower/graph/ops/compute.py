"""The language in which operations are defined: loops over elements, and reductions inside them.

>>> a, b = formal("a", (4, 8), "float32"), formal("b", (8, 2), "float32")
>>> product = compute((4, 2), lambda i, j: sum_over(8, lambda k: a[i, k] * b[k, j]))
>>> [it.var.name for it in product.parallel], [it.var.name for it in product.reduction]
(['i', 'j'], ['k'])
>>> print(product.results[0].value)
a[i, k] * b[k, j]
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeAlias, TypeVar, Unpack, cast

from tirlower.graph.core.dims import Extent, Shape, as_shape, extent_expr, same_extent
from tirlower.graph.core.extents import shown
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.generic import Generic, Iter, Result
from tirlower.ir import Buffer, BufferLoad, CommReducer, Expr, FloatImm, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64, DataType
from tirlower.ir.expr import ExprLike, as_exprs
from tirlower.ir.query import each

__all__ = [
    "Formal",
    "Reduction",
    "accumulator",
    "broadcast",
    "compute",
    "formal",
    "greater",
    "greatest",
    "lead",
    "least",
    "lesser",
    "max_over",
    "min_over",
    "prod_over",
    "reduce_over",
    "sum_over",
]


class Formal:
    """An operand inside a definition: its shape and dtype, and its elements as expressions (``a[i, j]``)."""

    __slots__ = ("buffer", "dtype", "name", "shape")

    def __init__(self, name: str, shape: Shape, dtype: DataType) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.buffer = Buffer(name, tuple(extent_expr(e) for e in shape), dtype)

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        """An element: as many indices as axes."""
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != self.ndim:
            raise GraphError(f"{self.name} has {self.ndim} axes, got {len(given)} indices")
        at = tuple(build.cast(INT64, i) for i in as_exprs(given))
        return BufferLoad(self.buffer, at)

    def at(self, *indices: ExprLike) -> Expr:
        """The element where the last axes are so indexed, broadcast: an axis of extent 1 is read at 0.

        >>> print(formal("b", (1, 8), "float32").at(Var("i", "int64"), Var("j", "int64"), Var("k", "int64")))
        b[T.int64(0), k]
        """
        last = indices[len(indices) - self.ndim :]
        return self[tuple(0 if isinstance(e, int) and e == 1 else i for e, i in zip(self.shape, last, strict=True))]

    def __repr__(self) -> str:
        return f"Formal({self.name!r}, {self.shape}, {self.dtype!s})"


def formal(name: str, shape: Sequence[Extent], dtype: DataType | str) -> Formal:
    """An operand of a definition."""
    return Formal(name, as_shape(tuple(shape)), DataType(dtype))


@dataclass(frozen=True)
class Reduction:
    """Values that are combined over iterators; several at once (a maximum and where it stands) combine as a tuple."""

    iters: tuple[Iter, ...]
    values: tuple[Expr, ...]
    reducer: CommReducer


P = ParamSpec("P")
Element: TypeAlias = "Expr | tuple[Expr, ...]"
"""The value of one result, or those of several."""
T = TypeVar("T")
Combine: TypeAlias = "Callable[[tuple[Var, ...], tuple[Var, ...]], Sequence[Expr]]"


def compute(
    shape: object, body: Callable[P, Element | Reduction], dtype: DataType | str | None = None, name: str = "compute"
) -> Generic:
    """The operation whose element at the indices that ``body`` is called with is what it returns.

    ``body`` returns an expression, a reduction, or a tuple of expressions for as many results of one shape. ``dtype`` is
    that of the (first) result where it is not the value's own. Raises :class:`GraphError` for other values.
    """
    extents = as_shape(shape)
    loop = tuple(Iter(Var(n, INT64), e) for n, e in zip(_names(body, len(extents)), extents, strict=True))
    made = _called(body, loop)
    reduction = made if isinstance(made, Reduction) else None
    values = reduction.values if reduction is not None else as_exprs(made if isinstance(made, tuple) else (made,))
    kinds = [v.dtype for v in values]
    if dtype is not None:
        kinds[0] = DataType(dtype)
    indices = tuple(it.var for it in loop)
    results = tuple(Result(extents, kind, indices, value) for kind, value in zip(kinds, values, strict=True))
    iters = (*loop, *reduction.iters) if reduction is not None else loop
    return Generic(name, iters, _operands(values), results, reduction.reducer if reduction is not None else None)


def _names(body: Callable[P, object], count: int) -> list[str]:
    """The names of a function's parameters; ``i0, i1, …`` for what ``*i`` takes."""
    named: list[str] = []
    for parameter in inspect.signature(body).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            named += [f"{parameter.name}{n}" for n in range(count - len(named))]
        else:
            named.append(parameter.name)
    if len(named) != count:
        raise GraphError(f"the body takes {len(named)} indices, the shape has {count} axes")
    return named


def _called(body: Callable[P, T], loop: Sequence[Iter]) -> T:
    """A function of as many indices as there are iterators, called with theirs."""
    return cast("Callable[[Unpack[tuple[Var, ...]]], T]", body)(*[it.var for it in loop])


def _operands(values: Sequence[Expr]) -> tuple[Buffer, ...]:
    return tuple({load.buffer: None for load in each(BufferLoad, *values)})


def reduce_over(
    extents: object, body: Callable[P, Element], combine: Combine, identity: Callable[[DataType], Expr] | Sequence[Expr]
) -> Reduction:
    """The values of ``body``, called with an index for each extent, combined.

    ``combine`` takes the variables of two tuples of values and returns the tuple for both; ``identity`` is what changes
    nothing: a function of the dtype, or an expression for each value.
    """
    sizes = as_shape(extents)
    loop = tuple(Iter(Var(n, INT64), e, True) for n, e in zip(_names(body, len(sizes)), sizes, strict=True))
    made = _called(body, loop)
    if isinstance(made, Reduction):
        raise GraphError("a reduction stands inside another one", help="give the extents of both to one reduction")
    values = as_exprs(made if isinstance(made, tuple) else (made,))
    left = tuple(Var(f"x{n}", v.dtype) for n, v in enumerate(values))
    right = tuple(Var(f"y{n}", v.dtype) for n, v in enumerate(values))
    neutral = tuple(identity(v.dtype) for v in values) if callable(identity) else as_exprs(identity)
    return Reduction(loop, values, CommReducer(left, right, tuple(combine(left, right)), neutral))


def accumulator(dtype: DataType) -> DataType:
    """The dtype in which values of a dtype are added up: float32 for narrower floats."""
    return DataType("float32") if dtype.is_float and dtype.bits < 32 else dtype


def sum_over(extents: object, body: Callable[P, Element]) -> Reduction:
    """The sum over all indices below the extents; 0 where there are none.

    Floats narrower than float32 are added in float32, each term converted (a product before it is rounded).
    """
    return reduce_over(extents, body, lambda x, y: [x[0] + y[0]], lambda kind: const(0, kind))


def prod_over(extents: object, body: Callable[P, Element]) -> Reduction:
    """The product over all indices; 1 where there are none."""
    return reduce_over(extents, body, lambda x, y: [x[0] * y[0]], lambda kind: const(1, kind))


def least(dtype: DataType) -> Expr:
    """The value below all others of a dtype: minus infinity of floats."""
    return const(-math.inf, dtype) if dtype.is_float else build.min_value(dtype)


def greatest(dtype: DataType) -> Expr:
    """The value above all others of a dtype: infinity of floats."""
    return const(math.inf, dtype) if dtype.is_float else build.max_value(dtype)


def greater(a: Expr, b: Expr) -> Expr:
    """The greater one of two values of one dtype; NaN if one is NaN (``T.max`` takes the number then)."""
    return _extremum(a, b, build.gt, build.le, build.max_, build.logical_or)


def lesser(a: Expr, b: Expr) -> Expr:
    """The lesser one of two values of one dtype; NaN if one is NaN (``T.min`` takes the number then)."""
    return _extremum(a, b, build.lt, build.ge, build.min_, build.logical_and)


_Binary: TypeAlias = "Callable[[Expr, Expr], Expr]"


def _extremum(a: Expr, b: Expr, better: _Binary, worse: _Binary, exact: _Binary, logical: _Binary) -> Expr:
    if a.dtype.is_bool:
        return logical(a, b)
    if a.dtype.is_integral:
        return exact(a, b)
    if isinstance(a, FloatImm):
        a, b = b, a
    if isinstance(b, FloatImm):  # of numbers alone only the other one may be NaN
        return build.select(build.logical_not(worse(a, b)), a, b)
    return build.select(build.logical_or(better(a, b), build.call("tir.isnan", a)), a, b)


def max_over(extents: object, body: Callable[P, Element]) -> Reduction:
    """The greatest value over all indices; NaN if there is one."""
    return reduce_over(extents, body, lambda x, y: [greater(x[0], y[0])], least)


def min_over(extents: object, body: Callable[P, Element]) -> Reduction:
    """The least value over all indices; NaN if there is one."""
    return reduce_over(extents, body, lambda x, y: [lesser(x[0], y[0])], greatest)


def broadcast(*shapes: Shape) -> Shape:
    """The shape to which shapes are broadcast, as NumPy has it. Raises :class:`GraphError` where there is none.

    >>> broadcast((4, 1, 3), (5, 1))
    (4, 5, 3)
    """
    rank = max((len(s) for s in shapes), default=0)
    out: list[Extent] = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            if isinstance(extent, int) and extent == 1:
                continue
            now = out[axis]
            if isinstance(now, int) and now == 1:
                out[axis] = extent
            else:
                both = " and ".join(shown(s) for s in shapes)
                out[axis] = same_extent(
                    now,
                    extent,
                    f"shapes {both} cannot be broadcast: axis {axis - rank} has extents",
                    "extents are equal or 1; expand_dims says where an axis is missing",
                )
    return tuple(out)


def lead(operand: Formal, indices: tuple[Var, ...], batch: int) -> tuple[ExprLike, ...]:
    """Of the first ``batch`` axes of an operand the indices, broadcast: 0 where the extent is 1.

    ``indices`` are those of the result's leading axes, of which the operand may lack some.
    """
    last = indices[len(indices) - batch :] if batch else ()
    return tuple(0 if isinstance(e, int) and e == 1 else i for e, i in zip(operand.shape[:batch], last, strict=True))
