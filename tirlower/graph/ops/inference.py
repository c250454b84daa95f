"""The types of results, and the loops of operations: inferred once for each operation, operand types and attributes.

What was inferred is kept with the dims (:class:`~tirlower.graph.core.dims.DimEnv`); extents that had to be taken for equal
are noted again when it is used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from tirlower.graph.core.dims import DimEnv, Extent
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.opaque import Opaque
from tirlower.graph.ops.registry import Definition, Groups
from tirlower.ir import Expr
from tirlower.ir.structural import expr_digest

__all__ = ["inferred", "loops", "opaque"]

T = TypeVar("T")


def loops(
    found: Definition, types: Sequence[TensorType], groups: Groups, attrs: Mapping[str, object], env: DimEnv
) -> Generic:
    """The loops of an operation, which is no macro. Raises :class:`GraphError` for operands that it does not take."""

    def make() -> Generic:
        with env.inferring():
            return found.generic(types, groups, attrs)

    return _once("loops", make, found, types, groups, attrs, env)


def opaque(
    found: Definition, types: Sequence[TensorType], groups: Groups, attrs: Mapping[str, object], env: DimEnv
) -> Opaque:
    """An operation that is no loops. Raises :class:`GraphError` for operands that it does not take."""

    def make() -> Opaque:
        with env.inferring():
            return found.opaque(types, groups, attrs)

    return _once("opaque", make, found, types, groups, attrs, env)


def inferred(
    found: Definition,
    types: Sequence[TensorType],
    groups: Groups,
    attrs: Mapping[str, object],
    env: DimEnv,
    expanded: Callable[[], Sequence[TensorType]],
) -> tuple[TensorType, ...]:
    """The types of the results of an operation; ``expanded`` makes those of a macro. Raises :class:`GraphError`.

    >>> from tirlower.graph.ops.registry import definition
    >>> from tirlower.ir import DataType
    >>> x = TensorType((4, 8), DataType("float32"))
    >>> [str(t) for t in inferred(definition("exp"), [x], (-1,), {}, DimEnv(), list)]
    ['float32[4, 8]']
    """

    def make() -> tuple[TensorType, ...]:
        made: Sequence[TensorType]
        if found.is_macro:
            with env.inferring():
                made = expanded()
        elif found.is_opaque:
            made = opaque(found, types, groups, attrs, env).results
        else:
            made = [TensorType(r.shape, r.dtype) for r in loops(found, types, groups, attrs, env).results]
        return tuple(TensorType(tuple(env.simplify(e) for e in t.shape), t.dtype) for t in made)

    return _once("types", make, found, types, groups, attrs, env)


def _once(
    what: str,
    make: Callable[[], T],
    found: Definition,
    types: Sequence[TensorType],
    groups: Groups,
    attrs: Mapping[str, object],
    env: DimEnv,
) -> T:
    key = (what, found.name, tuple((t.dtype, *map(_extent_key, t.shape)) for t in types), groups, _attrs_key(attrs))
    known = env.remembered.get(key)
    if known is None:
        with env.noting() as noted:
            made = make()
        # The types are kept too: the key names variables by their identity.
        known = env.remembered[key] = (made, noted, tuple(types), dict(attrs))
    else:
        for a, b in cast("list[tuple[Expr, Expr]]", known[1]):
            env.assume(a, b)
    return cast(T, known[0])


def _extent_key(extent: Extent) -> object:
    return expr_digest(extent) if isinstance(extent, Expr) else extent


def _attrs_key(value: object) -> object:
    if isinstance(value, Expr):
        return expr_digest(value)
    if isinstance(value, (tuple, list)):
        return tuple(_attrs_key(v) for v in value)
    if isinstance(value, Mapping):
        return tuple((k, _attrs_key(v)) for k, v in value.items())
    return (type(value).__name__, repr(value))  # 1, 1.0 and True are equal, and not the same
