"""Random typed expressions, as text, in which every operation has a meaning whatever the operands are.

Divisors and shift distances are constants, floats become integers only where they are known to be small, and every
index lies in its buffer. What is left (wrapping, rounding, which arm of a select runs) is for the passes to keep.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["FLOATS", "INTS", "NARROW", "Buf", "Index", "Values", "ring"]

INTS = ("int32", "int64", "int16", "int8", "uint8", "uint32")
FLOATS = ("float32", "float64", "float16")
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
"""Floats of which each result is computed in float32 and rounded where the program says so."""
BITS = {"int32": 32, "int64": 64, "int16": 16, "int8": 8, "uint8": 8, "uint32": 32}

Extent = int | str


@dataclass
class Buf:
    """A buffer of the program: what may be read of it, and whether its contents are small floats."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    small: bool = False
    """A parameter that nothing writes: its floats lie between -4 and 4."""
    local: bool = False
    """Allocated by the program, so that opaque code cannot see it."""


@dataclass
class Index:
    """An integer variable with its range: ``low <= name < high`` (``high`` may be a symbolic dimension, then low is 0)."""

    name: str
    low: int
    high: Extent


@dataclass
class Values:
    """Expressions over what is in scope; ``ints`` and ``bufs`` change as the program is written."""

    rng: random.Random
    index: str = "int32"
    """The type of index arithmetic."""
    ints: list[Index] = field(default_factory=list)
    scalars: list[tuple[str, str]] = field(default_factory=list)
    """Variables that are no indices, with their types."""
    bufs: list[Buf] = field(default_factory=list)
    inexact: bool = False
    """Whether functions may be used that libraries round differently."""

    # Indices

    def lit(self, value: int) -> str:
        """A constant of the index type."""
        return str(value) if self.index == "int32" else f"T.int64({value})"

    def integer(self, depth: int = 2) -> str:
        """Any expression of the index type."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            names = [index.name for index in self.ints]
            return rng.choice([*names, *names, self.lit(rng.randint(-3, 9))])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        return rng.choice(
            [
                f"({a} + {b})",
                f"({a} - {b})",
                f"({a} * {self.lit(rng.randint(-2, 5))})",
                f"({a} // {self.lit(rng.choice([2, 3, 4, 7, -3]))})",
                f"({a} % {self.lit(rng.choice([2, 3, 4, 8]))})",
                f"T.truncdiv({a}, {self.lit(rng.choice([2, 3, 4]))})",
                f"T.truncmod({a}, {self.lit(rng.choice([2, 5, 8]))})",
                f"T.min({a}, {b})",
                f"T.max({a}, {b})",
            ]
        )

    def inside(self, extent: Extent) -> str:
        """An index below an extent; a symbolic one must be known not to be 0 here (a loop over it encloses the place)."""
        rng = self.rng
        fitting = [
            one for one in self.ints if one.high == extent or (isinstance(one.high, int) and isinstance(extent, int))
        ]
        if fitting and rng.random() < 0.75:
            one = rng.choice(fitting)
            if one.high == extent and one.low >= 0 and rng.random() < 0.7:
                return one.name
            if isinstance(extent, str) or not isinstance(one.high, int):
                return f"({extent} - {self.lit(1)} - {one.name})" if one.low >= 0 else one.name
            room = extent - (one.high - one.low)
            if room >= 0:
                shift = rng.randint(0, room) - one.low
                if rng.random() < 0.2:
                    return f"({self.lit(one.high - 1 + one.low + shift)} - {one.name})"
                return f"({one.name} + {self.lit(shift)})" if shift else one.name
        bound = self.lit(extent) if isinstance(extent, int) else extent
        value = self.integer(2)
        kind = rng.random()
        if isinstance(extent, int) and kind < 0.2:
            return self.lit(rng.randrange(extent))
        if kind < 0.4:
            return f"T.min(T.max({value}, {self.lit(0)}), {bound} - {self.lit(1)})"
        return f"({value}) % {bound}"

    def condition(self, depth: int = 1) -> str:
        """A condition on indices, now and then on data."""
        rng = self.rng
        kind = rng.random()
        if depth and kind < 0.2:
            return f"({self.condition(depth - 1)} {rng.choice(['and', 'or'])} {self.condition(depth - 1)})"
        if depth and kind < 0.27:
            return f"(not ({self.condition(depth - 1)}))"
        if kind < 0.4:
            dtype = rng.choice(["int32", "float32"])
            return f"({self.value(dtype, 1)} {rng.choice(['<', '<=', '>'])} {self.value(dtype, 0)})"
        if kind < 0.45:
            return self.value("bool", 0)
        one = f"{self.integer(1)} {rng.choice(['<', '<=', '==', '!=', '>', '>='])} {self.integer(1)}"
        return f"T.likely({one})" if kind < 0.55 else one

    # Data

    def access(self, buf: Buf, at: Sequence[str] | None = None) -> str:
        """A load of (or a place in) a buffer, at a random element unless one is given."""
        if not buf.shape:
            return f"{buf.name}[()]"
        return f"{buf.name}[{', '.join(at if at is not None else [self.inside(extent) for extent in buf.shape])}]"

    def readable(self, buf: Buf) -> bool:
        """Whether an index into a buffer can be made here: its symbolic dimensions need their loop."""
        return all(isinstance(e, int) or any(one.high == e for one in self.ints) for e in buf.shape)

    def load(self, dtype: str) -> str | None:
        """A load of exactly this type, None when there is no such buffer."""
        fitting = [buf for buf in self.bufs if buf.dtype == dtype and self.readable(buf)]
        return self.access(self.rng.choice(fitting)) if fitting else None

    def const(self, dtype: str) -> str:
        rng = self.rng
        if dtype == "bool":
            return rng.choice(["T.bool(True)", "T.bool(False)"])
        if dtype in BITS:
            value = rng.choice([0, 1, 2, 3, 7, rng.randint(0, 100)])
            return f"T.{dtype}({value if dtype.startswith('u') else rng.choice([1, 1, -1]) * value})"
        return f"T.{dtype}({rng.choice([0.0, 1.0, -1.0, 0.5, 2.0, 3.25, -0.0, 0.1])})"

    def converted(self, dtype: str) -> str | None:
        """A load or an index converted to a type, where that has a meaning."""
        rng = self.rng
        if dtype == "bool":
            return None
        if rng.random() < 0.3:
            return f"T.Cast('{dtype}', {self.integer(1)})" if dtype != self.index else self.integer(1)
        sources = [buf for buf in self.bufs if buf.dtype != dtype and self.readable(buf)]
        if dtype in BITS:
            sources = [buf for buf in sources if buf.small or buf.dtype in BITS or buf.dtype == "bool"]
        if not sources:
            return None
        buf = rng.choice(sources)
        loaded = self.access(buf)
        if dtype.startswith("u") and buf.dtype not in BITS and buf.dtype != "bool":
            loaded = f"T.max({loaded}, T.{buf.dtype}(0))"
        return f"T.Cast('{dtype}', {loaded})"

    def leaf(self, dtype: str) -> str:
        rng = self.rng
        kind = rng.random()
        made: str | None = None
        if kind < 0.6:
            made = self.load(dtype)
        elif kind < 0.75:
            made = self.converted(dtype)
        elif kind < 0.85:
            names = [name for name, other in self.scalars if other == dtype]
            made = rng.choice(names) if names else None
        if made is None and rng.random() < 0.5:
            made = self.load(dtype) or self.converted(dtype)
        return made or self.const(dtype)

    def value(self, dtype: str, depth: int = 2) -> str:
        """An expression of a type."""
        rng = self.rng
        if dtype in NARROW:
            # Each rounding is written, so that computing in float32 is the same.
            return f"T.Cast('{dtype}', {self.value('float32', depth)})"
        if depth == 0 or rng.random() < 0.15:
            return self.leaf(dtype)
        if dtype == "bool":
            other = rng.choice(["int32", "float32", self.index])
            return rng.choice(
                [
                    self.leaf("bool"),
                    f"({self.value(other, depth - 1)} {rng.choice(['<', '>=', '==', '!='])} {self.value(other, depth - 1)})",
                    f"({self.value('bool', depth - 1)} {rng.choice(['and', 'or'])} {self.value('bool', depth - 1)})",
                    f"(not {self.value('bool', depth - 1)})",
                ]
            )
        if rng.random() < 0.2:
            a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
            return f"{rng.choice(['T.Select', 'T.if_then_else'])}({self.condition()}, {a}, {b})"
        a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        if dtype in BITS:
            small = f"T.{dtype}({rng.choice([2, 3, 4, 5, 8])})"
            shift = f"T.{dtype}({rng.randint(0, 7)})"
            return rng.choice(
                [
                    f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} * {small})", f"T.min({a}, {b})",
                    f"T.max({a}, {b})", f"({a} // {small})", f"({a} % {small})", f"T.truncdiv({a}, {small})",
                    f"T.truncmod({a}, {small})", f"T.bitwise_and({a}, {b})", f"T.bitwise_or({a}, {b})",
                    f"T.bitwise_xor({a}, {b})", f"T.bitwise_not({a})", f"T.shift_right({a}, {shift})",
                    f"T.shift_left({a}, {shift})",
                ]
            )  # fmt: skip
        if dtype == "float32" and rng.random() < 0.06:
            return f"T.call_extern('float32', '{rng.choice(['fabsf', 'floorf', 'truncf'])}', {a})"
        if self.inexact and dtype != "float16" and rng.random() < 0.25:
            return f"{rng.choice(['T.exp', 'T.tanh', 'T.sin'])}(T.min(T.max({a}, T.{dtype}(-4)), T.{dtype}(4)))"
        return rng.choice(
            [
                f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} * T.{dtype}(0.5))", f"T.min({a}, {b})",
                f"T.max({a}, {b})", f"({a} / T.{dtype}({rng.choice([2, 3, 0.7])}))", f"T.abs({a})", f"T.floor({a})",
            ]
        )  # fmt: skip


def ring(rng: random.Random, names: Sequence[str], depth: int) -> str:
    """An expression of names by sums, differences, products, squares and negations, in parentheses, and in Python's grammar."""
    if depth == 0 or rng.random() < 0.1:
        return rng.choice(names)
    a, b = ring(rng, names, depth - 1), ring(rng, names, depth - 1)
    return rng.choice([f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} * {b})", f"(-{a})", f"({a} ** 2)"])
