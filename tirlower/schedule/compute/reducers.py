"""How reductions combine what they have with what comes: those that are known, those of users, and which one an update is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import EQ, NE, Add, And, BufferLoad, Expr, IntImm, Max, Min, Mul, Or, Var, const
from tirlower.ir.query import each
from tirlower.ir.structural import structural_equal

__all__ = ["Matched", "Reducer", "match_reducer", "register_reducer"]

Values = Sequence[Expr]


@dataclass(frozen=True)
class Reducer:
    """A way to combine tuples of values: associative, and commutative (but for which of equal ones it keeps)."""

    name: str
    count: int
    combine: Callable[[Values, Values], Values]
    identity: Callable[[Sequence[DataType]], Values]
    """What changes nothing that it is combined with, for data types; the finite bound of floats where it is one."""
    rounds: bool = False
    """Whether another order gives other values of floats."""
    ordered: bool = False
    """Whether another order may keep another one of equals."""


def _bound(kind: type[Expr], dtype: DataType) -> Expr:
    return build.max_value(dtype) if kind is Min else build.min_value(dtype)


def _single(
    name: str, combine: Callable[[Expr, Expr], Expr], unit: Callable[[DataType], Expr], rounds: bool
) -> Reducer:
    return Reducer(name, 1, lambda x, y: [combine(x[0], y[0])], lambda types: [unit(types[0])], rounds)


def _extreme(name: str, better: Callable[[Values, Values], Expr], bound: Callable[[DataType], Expr]) -> Reducer:
    """The extremum with its index; ``better`` says whether the first one stays."""

    def combine(x: Values, y: Values) -> Values:
        stays = better(x, y)
        return [build.select(stays, a, b) for a, b in zip(x, y, strict=True)]

    return Reducer(name, 2, combine, lambda types: [const(-1, types[0]), bound(types[1])], ordered=True)


def _tied(compare: Callable[[Expr, Expr], Expr]) -> Callable[[Values, Values], Expr]:
    def better(x: Values, y: Values) -> Expr:
        return build.logical_or(compare(x[1], y[1]), build.logical_and(build.eq(x[1], y[1]), build.lt(x[0], y[0])))

    return better


SINGLE = (
    _single("add", build.add, lambda dtype: const(0, dtype), rounds=True),
    _single("mul", build.mul, lambda dtype: const(1, dtype), rounds=True),
    _single("min", build.min_, build.max_value, rounds=False),
    _single("max", build.max_, build.min_value, rounds=False),
)
_EXTREMES = [
    _extreme(name, better, bound)
    for name, bound, comparisons in (
        ("argmax", build.min_value, (build.ge, build.gt)),
        ("argmin", build.max_value, (build.le, build.lt)),
    )
    for compare in comparisons
    for better in (lambda x, y, compare=compare: compare(x[1], y[1]), _tied(compare))
]
_of_users: dict[str, Reducer] = {}


def register_reducer(
    name: str,
    count: int,
    combine: Callable[[Values, Values], Values],
    identity: Callable[[Sequence[DataType]], Values],
) -> None:
    """Let ``rfactor`` know a reduction: how ``count`` values are combined with as many others, and what changes nothing.

    The user's word is taken that it is associative and commutative. Raises :class:`BadArgument` for a count that the two functions
    do not keep, and for a name that is taken.

    >>> from tirlower.ir import build, const
    >>> register_reducer("xor", 1, lambda x, y: [build.bitwise_xor(x[0], y[0])], lambda types: [const(0, types[0])])
    >>> register_reducer("xor", 1, lambda x, y: [], lambda types: [])
    Traceback (most recent call last):
        ...
    tirlower.diagnostics.BadArgument: error: there is a reducer 'xor' already
    """
    if name in _of_users or name in {one.name for one in (*SINGLE, *_EXTREMES)}:
        raise BadArgument(f"there is a reducer {name!r} already")
    types = [DataType("int32")] * count
    xs, ys = ([Var(f"{letter}{n}", one) for n, one in enumerate(types)] for letter in "xy")
    if count < 1 or len(combine(xs, ys)) != count or len(identity(types)) != count:
        raise BadArgument(f"the reducer {name!r} does not give {count} values for {count}")
    _of_users[name] = Reducer(name, count, combine, identity, rounds=True, ordered=True)


@dataclass(frozen=True)
class Matched:
    """Which reducer an update is (one for each value, where they are reduced apart), and what it combines the old values with."""

    parts: tuple[Reducer, ...]
    terms: tuple[Expr, ...]

    @property
    def name(self) -> str:
        """What it is called."""
        return "+".join(dict.fromkeys(one.name for one in self.parts))

    @property
    def idempotent(self) -> bool:
        """Whether it is an extremum with its place: one value combined twice is that value, and no number is neutral."""
        return any(one in _EXTREMES for one in self.parts)

    def combine(self, x: Values, y: Values) -> list[Expr]:
        """The values of two tuples together."""
        if len(self.parts) == len(x):
            return [one.combine([a], [b])[0] for one, a, b in zip(self.parts, x, y, strict=True)]
        return [*self.parts[0].combine(x, y)]

    def identity(self, types: Sequence[DataType], inits: Sequence[Expr | None]) -> list[Expr]:
        """What partial results begin with. Where the reduction itself begins with the least or greatest number of floats, so do they;
        else an extremum begins with an infinity. Places of extrema begin as those of the reduction."""
        if len(self.parts) == len(types):
            return [_unit(one, dtype, init) for one, dtype, init in zip(self.parts, types, inits, strict=True)]
        [reducer] = self.parts
        made = [*reducer.identity(types)]
        if reducer in _EXTREMES:
            made[0] = inits[0] if isinstance(inits[0], IntImm) else made[0]
            made[1] = _infinite(made[1], types[1], inits[1])
        return made


def _unit(reducer: Reducer, dtype: DataType, init: Expr | None) -> Expr:
    [unit] = reducer.identity([dtype])
    return _infinite(unit, dtype, init) if reducer.name in ("min", "max") else unit


def _infinite(bound: Expr, dtype: DataType, init: Expr | None) -> Expr:
    if not dtype.is_float or (init is not None and structural_equal(init, bound)):
        return bound
    least = structural_equal(bound, build.min_value(dtype))
    return const(-math.inf if least else math.inf, dtype)


def match_reducer(values: Values, olds: Sequence[BufferLoad]) -> Matched | None:
    """What updates of elements to values are: a reducer, and the terms that the old values are combined with. None for none.

    >>> from tirlower.ir import Buffer, build
    >>> C, A = Buffer("C", (8,), "int32"), Buffer("A", (8,), "int32")
    >>> found = match_reducer([build.max_(A[1], C[0])], [C[0]])
    >>> found.name, str(found.terms[0])
    ('max', 'A[1]')
    """
    xs = [Var(f"x{n}", old.dtype) for n, old in enumerate(olds)]
    ys = [Var(f"y{n}", old.dtype) for n, old in enumerate(olds)]
    apart: list[tuple[Reducer, Expr]] = []
    for value, old, x, y in zip(values, olds, xs, ys, strict=True):
        for one in (*SINGLE, *(one for one in _of_users.values() if one.count == 1)):
            bound = _unified(list(one.combine([x], [y])), [value], [x], [old], [y])
            if bound is not None:
                apart.append((one, bound[0]))
                break
    written = {old.buffer for old in olds}
    crossed = any(load.buffer in written for _, term in apart for load in each(BufferLoad, term))
    if len(apart) == len(values) and not crossed:
        return Matched(tuple(one for one, _ in apart), tuple(term for _, term in apart))
    if len(values) > 1:
        for one in (*_EXTREMES, *_of_users.values()):
            if one.count == len(values):
                bound = _unified(list(one.combine(xs, ys)), values, xs, olds, ys)
                if bound is not None:
                    return Matched((one,), tuple(bound))
    return None


def _unified(
    patterns: Values, values: Values, xs: Sequence[Var], olds: Sequence[BufferLoad], ys: Sequence[Var]
) -> list[Expr] | None:
    """What the variables ``ys`` of patterns are, in which ``xs`` are the old values; None where values have not their form."""
    known: dict[Var, Expr] = {}
    old = dict(zip(xs, olds, strict=True))
    buffers = {one.buffer for one in olds}

    def unify(pattern: Expr, value: Expr) -> bool:
        if isinstance(pattern, Var) and pattern in old:
            return structural_equal(old[pattern], value)
        if isinstance(pattern, Var):
            if pattern in known:
                return structural_equal(known[pattern], value)
            if any(load.buffer in buffers for load in each(BufferLoad, value)):
                return False
            known[pattern] = value
            return True
        if type(pattern) is not type(value) or pattern.dtype is not value.dtype:
            return False
        mine, theirs = ([one for one in op.children() if isinstance(one, Expr)] for op in (pattern, value))
        if len(mine) != len(theirs):
            return False
        if not mine:
            return structural_equal(pattern, value)
        before = dict(known)
        if all(unify(a, b) for a, b in zip(mine, theirs, strict=True)):
            return getattr(pattern, "op", None) is getattr(value, "op", None)
        known.clear()
        known.update(before)
        if isinstance(pattern, _COMMUTATIVE):
            return all(unify(a, b) for a, b in zip(mine, reversed(theirs), strict=True))
        return False

    if not all(unify(pattern, value) for pattern, value in zip(patterns, values, strict=True)):
        return None
    return [known[y] for y in ys] if all(y in known for y in ys) else None


_COMMUTATIVE = (Add, Mul, Min, Max, EQ, NE, And, Or)
