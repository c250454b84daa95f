"""From the arguments of a Python call to the operands and attributes of an operation, by its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from tirlower.graph.core.dims import Dim
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.registry import Definition
from tirlower.ir.dtype import DataType

__all__ = ["Function", "attribute", "bound", "dtype_name"]


class Function(Protocol):
    """A function of any arguments."""

    def __call__(self, /, *args: object, **kwargs: object) -> object: ...


def bound(
    found: Definition, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[list[object], dict[str, object]]:
    """Operands in order, and attributes, of a call ``found(*args, **kwargs)``.

    Arguments behind the operands are attributes in their order (``sum(x, 0)``), and operands may be given by name. The
    operands of a variadic parameter come one by one, or as one list in front of the attributes.
    Raises :class:`GraphError` where the call does not fit the signature.
    """
    given = list(args)
    operands: list[object] = []
    named: set[str] = set()
    for at, parameter in enumerate(found.parameters):
        if parameter.variadic:
            if given and isinstance(given[0], (list, tuple)):
                operands += given.pop(0)  # type: ignore[arg-type]  # a list or a tuple
            else:
                operands += given
                given = []
        elif given:
            operands.append(given.pop(0))
        elif any(p.name in kwargs for p in found.parameters[at:]):
            operands.append(kwargs.get(parameter.name))
            named.add(parameter.name)
    attrs: dict[str, object] = {}
    if len(given) > len(found.attributes):
        raise GraphError(f"{found.name} got too many arguments", help=f"it is {found.signature}")
    attrs.update(zip(found.attributes, given, strict=False))
    for name, value in kwargs.items():
        if name in named:
            continue
        if name in attrs or any(p.name == name for p in found.parameters):
            raise GraphError(f"{found.name} got {name!r} twice", help=f"it is {found.signature}")
        attrs[name] = value
    return operands, {name: attribute(f"{found.name}'s {name}", value) for name, value in attrs.items()}


def attribute(what: str, value: object) -> object:
    """The value of an attribute as a graph keeps it: numbers, strings, expressions of dims, names of dtypes, tuples.

    Raises :class:`GraphError`, beginning with ``what``, for other values: tensors above all.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Dim):
        return value.var
    if isinstance(value, (list, tuple)):
        return tuple(attribute(what, v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return attribute(what, value.tolist())
    if isinstance(value, (type, np.dtype)):
        return dtype_name(value)
    if hasattr(value, "__array_ufunc__"):
        raise GraphError(
            f"{what} is a tensor, whose values are known only when the graph runs",
            help="give numbers, or expressions of dims (x.shape[0] // 2)",
        )
    return value


def dtype_name(value: object) -> str:
    """The name of a dtype from what NumPy takes for one. Raises :class:`GraphError` for other values."""
    try:
        named = DataType.named(value)
    except (TypeError, ValueError):
        named = DataType("void")
    if named.lanes != 1 or not (named.is_bool or named.is_int or named.is_uint or named.is_float):
        raise GraphError(f"{value!r} is no dtype of a tensor", help='write "float32", np.float32, "int64", "bool", …')
    return str(named)
