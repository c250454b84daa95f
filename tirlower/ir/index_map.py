"""Index maps: functions from indices to indices, such as the layout ``lambda i, j: [i // 4, j, i % 4]``."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, ParamSpec, TypeAlias

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterVar, Range
from tirlower.ir.cancel import linear_difference
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.evaluator import Evaluator, NoValue
from tirlower.ir.expr import (
    Call,
    Cast,
    Expr,
    ExprLike,
    IntImm,
    Var,
    as_expr,
    const,
    is_const_int,
)
from tirlower.ir.functor import Mutator, Substituter
from tirlower.ir.index_inverse import NotInvertible, invert, ranges_of
from tirlower.ir.integers import Value, kept
from tirlower.ir.node import Node, binds, child, hint, node
from tirlower.ir.regions import relax_region
from tirlower.ir.structural import structural_equal

__all__ = ["IndexMap"]

P = ParamSpec("P")
Q = ParamSpec("Q")
Dims: TypeAlias = "Sequence[ExprLike | Range]"
"""Extents (numbers or expressions) or ranges, one for each index."""


class _AxisSeparator:
    """The mark between groups of output indices that are flattened separately."""

    def __repr__(self) -> str:
        return "IndexMap.AXIS_SEPARATOR"


def _exprs(values: Iterable[ExprLike]) -> tuple[Expr, ...]:
    return tuple(as_expr(v) for v in values)


@node
class IndexMap(Node):
    """``final_indices`` as a function of ``initial_indices``.

    ``inverse_index_map`` may state the inverse where it is known and cannot be derived.

    >>> tiles = IndexMap.from_func(lambda i, j: [i // 4, j, i % 4])
    >>> [int(e.value) for e in tiles.map_indices([6, 5])]
    [1, 5, 2]
    >>> [e.value for e in tiles.map_shape((16, 8))]
    [4, 8, 4]
    >>> [e.value for e in tiles.inverse((16, 8)).map_indices([1, 5, 2])]
    [6, 5]
    """

    initial_indices: tuple[Var, ...] = binds(convert=tuple)
    final_indices: tuple[Expr, ...] = child(convert=_exprs)
    inverse_index_map: IndexMap | None = hint(default=None)

    AXIS_SEPARATOR: ClassVar[_AxisSeparator] = _AxisSeparator()
    """Returned among the indices of ``from_func_with_separators``."""

    @classmethod
    def from_func(
        cls,
        mapping_function: Callable[P, object],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[Q, object] | None = None,
        *,
        index_dtype: str = "int32",
    ) -> IndexMap:
        """The map that a Python function of index variables computes.

        The function takes one variable of ``index_dtype`` for each input dimension, named as its parameters, and
        returns an expression or a list of them; ``ndim`` says how many a ``*args`` parameter takes. Raises
        :class:`TirError` where that is not known, and for a function that returns axis separators.
        """
        made, separators = cls.from_func_with_separators(
            mapping_function, ndim, inverse_index_map, index_dtype=index_dtype
        )
        if separators:
            raise TirError(
                "the mapping function returns axis separators", help="use IndexMap.from_func_with_separators"
            )
        return made

    @classmethod
    def from_func_with_separators(
        cls,
        mapping_function: Callable[P, object],
        ndim: int | None = None,
        inverse_index_map: IndexMap | Callable[Q, object] | None = None,
        *,
        index_dtype: str = "int32",
    ) -> tuple[IndexMap, list[int]]:
        """The map of a function, and the places of ``IndexMap.AXIS_SEPARATOR`` among its results.

        >>> made = IndexMap.from_func_with_separators(lambda i, j: [i, IndexMap.AXIS_SEPARATOR, j])
        >>> len(made[0].final_indices), made[1]
        (2, [1])
        """
        variables, by_name = _parameters(mapping_function, ndim, index_dtype)
        result = mapping_function(*variables, **by_name)  # type: ignore[arg-type]  # what its signature asks for
        finals: list[Expr] = []
        separators: list[int] = []
        for item in result if isinstance(result, (list, tuple)) else [result]:
            if item is cls.AXIS_SEPARATOR:
                separators.append(len(finals))
            elif isinstance(item, (int, np.integer)) and not isinstance(item, bool):
                finals.append(const(int(item), DataType(index_dtype)))
            else:
                try:
                    finals.append(as_expr(item))
                except (TirError, TypeError):
                    raise TirError(
                        f"a mapping function returns indices or IndexMap.AXIS_SEPARATOR, got {item!r}"
                    ) from None
        for index in finals:
            if not index.dtype.is_integral:
                raise TirError(f"a mapping function returns integers, got {index.dtype!s}: {index}")
        if inverse_index_map is not None and not isinstance(inverse_index_map, IndexMap):
            inverse_index_map = cls.from_func(inverse_index_map, len(finals), index_dtype=index_dtype)
        return cls((*variables, *by_name.values()), tuple(finals), inverse_index_map), separators

    def _check_count(self, given: Sequence[object], what: str) -> None:
        if len(given) != len(self.initial_indices):
            raise TirError(f"the map {self} takes {len(self.initial_indices)} {what}, got {len(given)}")

    def map_indices(self, indices: Sequence[ExprLike]) -> list[Expr]:
        """The final indices for given ones, folded. Raises :class:`TirError` for a wrong number of them.

        Where an index is wider than the map's variables (int64), all are widened, and the map with them.

        >>> tiles = IndexMap.from_func(lambda i, j: [i // 4, j])
        >>> [e.dtype for e in tiles.map_indices([Var("i", "int64"), 3])]
        ['int64', 'int64']
        """
        self._check_count(indices, "indices")
        given = [int(value) if isinstance(value, (int, np.integer)) else as_expr(value) for value in indices]
        bits = max((e.dtype.bits for e in given if isinstance(e, Expr) and e.dtype.is_int), default=0)
        wider = any(var.dtype.is_int and var.dtype.bits < bits for var in self.initial_indices)
        owner = _widened(self, bits) if wider else self
        values: dict[Var, Expr | IterVar | float] = {}
        for var, value in zip(owner.initial_indices, given, strict=True):
            if not isinstance(value, Expr):
                values[var] = const(value, var.dtype)
            else:
                narrow = value.dtype.is_int and var.dtype.is_int and value.dtype.bits < var.dtype.bits
                values[var] = build.cast(var.dtype, value) if narrow else value
        worker = _Indices(values)
        return [worker.visit(final) for final in owner.final_indices]

    def _ranges(self, dims: Dims) -> list[tuple[Var, Range]]:
        self._check_count(dims, "extents")
        found = []
        for var, dim in zip(self.initial_indices, dims, strict=True):
            if isinstance(dim, (int, np.integer)):
                dim = const(int(dim), var.dtype)
            part = dim if isinstance(dim, Range) else Range.from_extent(build.cast(var.dtype, as_expr(dim)))
            found.append((var, part))
        return found

    def map_ranges(self, ranges: Dims) -> list[Range]:
        """The range that each final index takes over ranges (or extents) of the initial ones.

        Exact where each final index is a sum of pieces of the initial ones; otherwise a range that covers it.
        Raises :class:`TirError` where there is no bound of a simple form.
        """
        inputs = self._ranges(ranges)
        try:
            return ranges_of(inputs, self.final_indices)
        except NotInvertible:
            pass  # bounds then, one index at a time
        unknown = Var("unknown", self.final_indices[0].dtype)
        box = Buffer("indices", (unknown,) * len(self.final_indices))
        points = box.region([Range(final, const(1, final.dtype)) for final in self.final_indices])
        found = []
        for final, part in zip(self.final_indices, relax_region(points, inputs).region, strict=True):
            if part.extent is unknown:
                raise TirError(f"the index {final} of the map {self} has no bounds of a simple form")
            found.append(part)
        return found

    def map_shape(self, shape: Dims) -> list[Expr]:
        """The shape of a buffer that holds every final index, for a buffer of the given shape.

        Raises :class:`TirError` where a final index can be negative.
        """
        found = []
        for final, part in zip(self.final_indices, self.map_ranges(shape), strict=True):
            if isinstance(part.min, IntImm) and part.min.value < 0:
                raise TirError(f"the index {final} of the map {self} starts at {part.min}, below 0")
            found.append(build.add(part.min, part.extent))
        return found

    def inverse(self, shape: Dims) -> IndexMap:
        """The inverse map over a shape (or ranges).

        Raises :class:`TirError` where the map is not a bijection onto ``map_shape(shape)``, or is not made of
        splits, fusions, permutations, shifts and reversals.
        """
        if self.inverse_index_map is not None:
            return self.inverse_index_map
        made, padding = self.non_surjective_inverse(shape)
        if not is_const_int(padding, 0):
            raise TirError(
                f"the map {self} is not surjective over this shape: no index gives the places where {padding}",
                help="use non_surjective_inverse, which returns this predicate",
            )
        return made

    def non_surjective_inverse(self, shape: Dims) -> tuple[IndexMap, Expr]:
        """The inverse over a shape (or ranges), and the predicate of the padding.

        The predicate is in terms of the inverse's variables; it holds exactly where no index of the shape maps to.
        Raises :class:`TirError` where the map has no inverse.

        >>> back, padding = IndexMap.from_func(lambda i: [i // 4, i % 4]).non_surjective_inverse([14])
        >>> [e.value for e in back.map_indices([2, 1])]
        [9]
        >>> from tirlower.ir import substitute
        >>> value = lambda *at: substitute(padding, dict(zip(back.initial_indices, at))).value
        >>> value(3, 1), value(3, 2)
        (0, 1)
        """
        inputs = self._ranges(shape)
        targets = [Var(f"axis{k}", final.dtype) for k, final in enumerate(self.final_indices)]
        try:
            found, padding = invert(inputs, self.final_indices, targets)
        except NotInvertible as reason:
            raise TirError(f"the map {self} has no inverse that can be derived: {reason}") from None
        return IndexMap(tuple(targets), tuple(found)), padding

    def is_equivalent_to(self, other: IndexMap) -> bool:
        """Whether two maps are proved to take all indices to the same places, whatever their variables are called.

        >>> IndexMap.from_func(lambda i: i // 4 * 4 + i % 4).is_equivalent_to(IndexMap.from_func(lambda a: a))
        True
        """
        if len(self.initial_indices) != len(other.initial_indices):
            return False
        if len(self.final_indices) != len(other.final_indices):
            return False
        if any(a.dtype is not b.dtype for a, b in zip(self.initial_indices, other.initial_indices, strict=True)):
            return False
        theirs = other.map_indices(self.initial_indices)
        prove = None
        for a, b in zip(self.map_indices(self.initial_indices), theirs, strict=True):
            if not _same(a, b):
                prove = prove or importlib.import_module("tirlower.arith").Analyzer().can_prove_equal
                if not prove(a, b):
                    return False
        return True

    def map_ndarray(self, array: Array) -> Array:
        """The elements of an array at their final indices; places without an element are zero.

        Raises :class:`TirError` where two elements would meet.
        """
        source = np.asarray(array)
        self._check_count(source.shape, "dimensions")
        shape = tuple(int(extent.value) for extent in self.map_shape(source.shape) if isinstance(extent, IntImm))
        if len(shape) != len(self.final_indices):
            raise TirError(f"the shape of the result of {self} is not constant")
        grids = dict(zip(self.initial_indices, np.indices(source.shape, dtype=np.int64), strict=True))
        at = tuple(np.broadcast_to(_evaluate(final, grids), source.shape) for final in self.final_indices)
        flat = np.ravel_multi_index(at, shape) if at else np.zeros(source.shape, dtype=np.int64)
        if len(np.unique(flat)) != source.size:
            raise TirError(f"the map {self} takes two elements of shape {source.shape} to one place")
        result = np.zeros(shape, dtype=source.dtype)
        result.reshape(-1)[flat.reshape(-1)] = source.reshape(-1)
        return result

    def __str__(self) -> str:
        names = ", ".join(var.name for var in self.initial_indices)
        return f"lambda {names}: [{', '.join(map(str, self.final_indices))}]"

    def __repr__(self) -> str:
        return f"IndexMap({self})"


def _widened(index_map: IndexMap, bits: int) -> IndexMap:
    """The map with all integers of as many bits."""
    worker = _Wider(index_map.initial_indices, bits)
    return IndexMap(tuple(worker.variables.values()), tuple(worker.visit(final) for final in index_map.final_indices))


class _Wider(Mutator):
    """Widens variables and constants, and with them what is computed of them."""

    def __init__(self, variables: Sequence[Var], bits: int) -> None:
        self.bits = bits
        self.variables = {var: Var(var.name, var.dtype.with_bits(bits), var.nonneg) for var in variables}

    def visit_Var(self, op: Var) -> Expr:
        """Its wider variable; another one converted."""
        known = self.variables.get(op)
        if known is not None:
            return known
        return build.cast(op.dtype.with_bits(self.bits), op) if op.dtype.is_int else op

    def visit_IntImm(self, op: IntImm) -> Expr:
        """The same number."""
        return IntImm(op.dtype.with_bits(self.bits), op.value) if op.dtype.is_int else op

    def visit_Cast(self, op: Cast) -> Expr:
        """A conversion to a narrower index is none any more."""
        if op.dtype.is_int and op.dtype.bits < self.bits and op.value.dtype.is_int:
            return build.cast(op.dtype.with_bits(self.bits), op.value)
        return op

    def visit_Call(self, op: Call) -> Expr:
        """An operation on wider operands."""
        widened = op.dtype.is_int and op.dtype.bits < self.bits and all(arg.dtype.is_integral for arg in op.args)
        return op.with_(dtype=op.dtype.with_bits(self.bits)) if widened else op


class _Indices(Substituter):
    """Substitution that folds bit operations on constants too: swizzled layouts are made of them."""

    def visit_Call(self, op: Call) -> Expr:
        fn = _BIT_OPERATIONS.get(getattr(op.op, "name", ""))
        if fn is None or not all(isinstance(arg, IntImm) for arg in op.args):
            return op
        return fn(*op.args)


def _parameters(fn: Callable[P, object], ndim: int | None, index_dtype: str) -> tuple[list[Var], dict[str, Var]]:
    """The variables for the parameters of a mapping function: positional ones, and keyword-only ones by name."""
    kinds = inspect.Parameter
    kind = DataType(index_dtype)
    names: list[str] = []
    by_name: dict[str, Var] = {}
    rest: str | None = None
    for name, param in inspect.signature(fn).parameters.items():
        if param.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD):
            names.append(name)
        elif param.kind is kinds.VAR_POSITIONAL:
            rest = name
        elif param.kind is kinds.KEYWORD_ONLY:
            by_name[name] = Var(name, kind)
        else:
            raise TirError("a mapping function takes no ** parameter")
    if rest is not None:
        if ndim is None:
            raise TirError("a mapping function with a * parameter needs its number of dimensions", help="give ndim=")
        names += [f"{rest}_{k}" for k in range(ndim - len(names) - len(by_name))]
    if ndim is not None and len(names) + len(by_name) != ndim:
        raise TirError(f"the mapping function takes {len(names) + len(by_name)} indices, ndim is {ndim}")
    return [Var(name, kind) for name in names], by_name


def _same(a: Expr, b: Expr) -> bool:
    if structural_equal(a, b):
        return True
    return a.dtype is b.dtype and a.dtype.is_integral and is_const_int(linear_difference(a, b), 0)


_BIT_OPERATIONS: dict[str, Callable[[ExprLike], Expr] | Callable[[ExprLike, ExprLike], Expr]] = {
    "tir.bitwise_and": build.bitwise_and,
    "tir.bitwise_or": build.bitwise_or,
    "tir.bitwise_xor": build.bitwise_xor,
    "tir.bitwise_not": build.bitwise_not,
    "tir.shift_left": build.shift_left,
    "tir.shift_right": build.shift_right,
}


def _evaluate(root: Expr, values: Mapping[Var, Value]) -> Value:
    """An index expression on arrays of indices (int64)."""
    try:
        return Evaluator(root).at(values, kept)
    except ArithmeticError as error:
        reason = error.op if isinstance(error, NoValue) else error
        raise TirError(f"the index {root} is not computed from constants and the indices alone: {reason}") from None
