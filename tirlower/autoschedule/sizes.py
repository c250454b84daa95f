"""Sizes that the caller alone knows, as numbers that plans are made for.

Each symbol stands for a prime near 500, another one for another name: so that sums and products of sizes which are not the
same ones are not equal either, and none is a multiple of a tile. Nothing is proved of such numbers. They say which loop is
contiguous, which loops run over one piece of memory, and what a candidate is predicted to take; each step is proved for all sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tirlower.arith import Analyzer
from tirlower.ir.expr import Expr, IntImm, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import nodes

__all__ = ["taken_as", "typical"]

_PRIMES: Final = tuple(n for n in range(401, 800) if all(n % d for d in range(2, 29)))
"""Tiles divide none of them. There are 61, so that names of one letter have each another one."""


_TAKEN: ContextVar[Mapping[Var, int] | None] = ContextVar("tirlower_taken", default=None)
"""What variables of loops around the nests at hand are taken to be."""


@contextmanager
def taken_as(var: Var, trips: int) -> Iterator[None]:
    """Inside, the variable of a loop that runs so often is taken to be in the middle of it.

    >>> i = Var("i", "int32")
    >>> with taken_as(i, 100):
    ...     print(typical(i + 1))
    51
    """
    token = _TAKEN.set({**(_TAKEN.get() or {}), var: trips // 2})
    try:
        yield
    finally:
        _TAKEN.reset(token)


def typical(expr: Expr, values: Mapping[Var, int] | None = None) -> int | None:
    """What an expression of sizes is taken to be, some variables being what they are; None where no number comes out.

    >>> n, m = Var("n", "int32"), Var("m", "int32")
    >>> typical(const(7, "int32")), typical(n), typical(m), typical(n + m)
    (7, 719, 709, 1428)
    """
    if isinstance(expr, IntImm):
        return expr.value
    found: dict[Var, Expr] = {}
    known = {**(_TAKEN.get() or {}), **(values or {})}
    for op in nodes(expr):
        if isinstance(op, Var) and op.dtype.is_integral:
            found[op] = const(known.get(op, _prime(op)), op.dtype)
    made = Analyzer().simplify(substitute(expr, found))
    return made.value if isinstance(made, IntImm) else None


def _prime(var: Var) -> int:
    number = functools.reduce(lambda sum_, char: 31 * sum_ + ord(char), var.name, 0)
    return _PRIMES[number % len(_PRIMES)]
