"""Random expressions as nodes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tirlower import ir
from tirlower.ir import IntImm, Var

__all__ = ["Nodes", "nest"]


class Nodes:
    """Random expressions over variables of one integer type, in the shapes that index arithmetic has."""

    def __init__(self, rng: random.Random, variables: list[Var], calls: bool = True) -> None:
        self.rng = rng
        self.variables = variables
        self.dtype = variables[0].dtype
        self.calls = calls

    def constant(self) -> Any:
        rng = self.rng
        value = rng.choice((0, 1, 1, 2, 2, 3, 4, 4, 5, 7, 8, 12, 16, -1, -1, -2, -3, -4, -8, rng.randint(-40, 40)))
        return IntImm(self.dtype, ir.wrap_int(value, self.dtype))

    def divisor(self) -> Any:
        rng = self.rng
        if rng.random() < 0.08:
            return self.integer(1)
        value = rng.choice((1, 2, 2, 3, 4, 4, 5, 8, 12, 16, -2, -3))
        return IntImm(self.dtype, abs(value) if self.dtype.is_uint else value)

    def integer(self, depth: int) -> Any:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return rng.choice(self.variables) if rng.random() < 0.75 else self.constant()
        roll = rng.random()
        if roll < 0.4:
            kind = ir.Add if roll < 0.26 else ir.Sub
            return kind(self.integer(depth - 1), self.constant() if rng.random() < 0.3 else self.integer(depth - 1))
        if roll < 0.55:
            other = self.constant() if rng.random() < 0.85 else self.integer(depth - 2)
            return (
                ir.Mul(self.integer(depth - 1), other) if rng.random() < 0.8 else ir.Mul(other, self.integer(depth - 1))
            )
        if roll < 0.8:
            kind = rng.choice((ir.FloorDiv, ir.FloorMod, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))
            return kind(self.integer(depth - 1), self.divisor())
        if roll < 0.92:
            return rng.choice((ir.Min, ir.Max))(self.integer(depth - 1), self.integer(depth - 1))
        if roll < 0.97 or not self.calls:
            return ir.Select(self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1))
        return ir.build.if_then_else(self.condition(depth - 1), self.integer(depth - 1), self.integer(depth - 1))

    def condition(self, depth: int) -> Any:
        rng = self.rng
        roll = rng.random()
        if depth <= 0 or roll < 0.6:
            kind = rng.choice((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE, ir.LT, ir.LE))
            return kind(self.integer(depth - 1), self.integer(depth - 1))
        if roll < 0.75:
            return ir.And(self.condition(depth - 1), self.condition(depth - 1))
        if roll < 0.9:
            return ir.Or(self.condition(depth - 1), self.condition(depth - 1))
        return ir.Not(self.condition(depth - 1))

    def affine(self, low: int, high: int, factors: Sequence[int]) -> Any:
        """A multiple of each variable, by one of some factors, and a constant of a range."""
        total: Any = IntImm(self.dtype, self.rng.randint(low, high))
        for var in self.variables:
            total = ir.Add(total, ir.Mul(var, self.rng.choice(factors)))
        return total

    def digit(self, value: Any) -> Any:
        """A value, or a remainder or quotient of it by a small number."""
        rng = self.rng
        return rng.choice((value, value, ir.FloorMod(value, rng.randint(2, 9)), ir.FloorDiv(value, rng.randint(2, 3))))

    def compared(self, value: Any, low: int, high: int) -> Any:
        """A value compared with a constant of a range."""
        kind = self.rng.choice((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE))
        return kind(value, IntImm(self.dtype, self.rng.randint(low, high)))


def nest(loops: Sequence[tuple[Var, int, int]], body: ir.Stmt) -> ir.Stmt:
    """Loops, outermost first, each with its first value and its extent, around a statement."""
    for var, low, extent in reversed(loops):
        body = ir.For(var, low, extent, "serial", None, {}, body)
    return body
