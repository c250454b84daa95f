"""The arguments of arith's functions: refused with words where they are of another kind, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar, cast

from tirlower.diagnostics import TirError
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, ExprLike, Var, as_expr
from tirlower.ir.node import Node

__all__ = ["domains_of", "expressions_of", "list_of", "need"]

T = TypeVar("T")

_DOMAINS: Final = "give a mapping of variables to ranges, Range(min, extent): {i: Range(0, 8)}"


def need(value: object, kind: type[T], function: str, name: str, help: str) -> T:
    """A value of a kind. Raises :class:`TirError` for another one, with ``help`` as the remedy.

    >>> need(3, int, "f", "n", "give a number")
    3
    """
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TirError(f"{function}: {name} is {value!r}, which is no {kind.__name__}", origin="arith", help=help)
    return value


def list_of(values: object, kind: type[T], function: str, name: str, help: str) -> list[T]:
    """Values of a kind, as a list. Raises :class:`TirError` for what is no list of them.

    >>> list_of((1, 2), int, "f", "sizes", "give numbers")
    [1, 2]
    """
    if isinstance(values, (str, bytes, Node, Mapping)) or not isinstance(values, Iterable):
        raise TirError(f"{function}: {name} is {values!r}, which is no list", origin="arith", help=help)
    found = list(values)
    for one in found:
        if not isinstance(one, kind):
            raise TirError(f"{function}: {name} has {one!r} in it", origin="arith", help=help)
    return found


def expressions_of(values: object, function: str, name: str) -> list[Expr]:
    """Expressions, or what is one, as a list. Raises :class:`TirError` for what is no list of them.

    >>> [str(one) for one in expressions_of([Var("i") * 4, 3], "f", "indices")]
    ['i * 4', '3']
    """
    given = list_of(values, object, function, name, "give a list of expressions: [i * 4 + j]")
    return [as_expr(one) for one in cast("list[ExprLike]", given)]


def domains_of(
    domains: object, function: str, name: str, kinds: type | tuple[type, ...] = Range
) -> Mapping[Var, Range]:
    """A mapping of variables to ranges (or what else is named). Raises :class:`TirError` for another one.

    >>> i = Var("i")
    >>> list(domains_of({i: Range(0, 8)}, "f", "domains").values())
    [Range(0, 8)]
    """
    if not isinstance(domains, Mapping):
        raise TirError(f"{function}: {name} is {domains!r}, which is no mapping", origin="arith", help=_DOMAINS)
    for var, domain in domains.items():
        if not isinstance(var, Var) or not isinstance(domain, kinds):
            raise TirError(f"{function}: {name} maps {var!r} to {domain!r}", origin="arith", help=_DOMAINS)
    return cast("Mapping[Var, Range]", domains)
