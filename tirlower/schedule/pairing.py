"""The ways to lay two expressions on each other: their operations are the same, what they load is to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.ir.expr import Add, BufferLoad, Expr, Max, Min, Mul
from tirlower.ir.query import has

__all__ = ["COMMUTATIVE", "ways"]

COMMUTATIVE = (Add, Mul, Min, Max)
"""The operations whose operands may be either way round."""


def ways(mine: Expr, described: Expr) -> Iterator[list[tuple[Expr, Expr]]]:
    """The ways to lay an expression on another one, as written first: each gives the loads that meet, and the expressions that
    stand where the other one loads nothing.

    >>> from tirlower.ir import Var, const
    >>> a, b = Var("a", "int32"), Var("b", "int32")
    >>> [len(way) for way in ways(a + b, a + b)]
    [1]
    """
    if not has(BufferLoad, described):
        yield [(mine, described)]
        return
    if mine.__class__ is not described.__class__ or mine.dtype is not described.dtype:
        return
    if isinstance(mine, BufferLoad):
        yield [(mine, described)]
        return
    own, theirs = ([x for x in one.children() if isinstance(x, Expr)] for one in (mine, described))
    if len(own) != len(theirs) or getattr(mine, "op", None) is not getattr(described, "op", None):
        return
    for order in [own, own[::-1]] if isinstance(mine, COMMUTATIVE) else [own]:
        yield from _all(order, theirs)


def _all(mine: Sequence[Expr], described: Sequence[Expr]) -> Iterator[list[tuple[Expr, Expr]]]:
    if not mine:
        yield []
        return
    for first in ways(mine[0], described[0]):
        for rest in _all(mine[1:], described[1:]):
            yield [*first, *rest]
