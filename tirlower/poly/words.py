"""Forms whose values may need more than 64 bits: products of three sizes do, for arrays of a few megabytes.

Code computes indices in 64 bits, and what is proved of them holds for the numbers themselves. Where a form may leave the
64 bits, :class:`WordLimit` says how far its parts can reach, as an expression of the function's parameters and symbols; a
call beyond that is refused (:mod:`tirlower.legality.words`). Where no such expression is to be had, the form is taken as
a value that nothing is known of.
"""

from __future__ import annotations

import functools

from tirlower.arith.intervals import is_finite
from tirlower.ir import build
from tirlower.ir.dtype import FLOAT64
from tirlower.ir.expr import Expr, FloatImm, Var, const
from tirlower.poly.affine import Space
from tirlower.poly.forms import Dim, Div, Form, Opaque, Piecewise, Product, SymbolicDiv
from tirlower.poly.scop import Scop

__all__ = ["WORD_REACH", "WordLimit"]

WORD_REACH = 1 << 62
"""How far an index may be from 0, with everything that it is computed from."""

_SIZE = 1 << 31
"""How far a variable of 64 bits is taken to be from 0: two dimensions of one array in memory multiply to less than 2**62."""


class WordLimit:
    """Finds the forms of a function that may leave 64 bits.

    ``reaches`` collects how far they reach: expressions in float64, of which the half of a word leaves out what is small.
    """

    def __init__(self, scop: Scop) -> None:
        self.space: Space = scop.space
        self.scop = scop
        self.reaches: dict[str, Expr] = {}
        self._found: dict[Dim, Expr | None] = {}

    def admits(self, lin: Form) -> bool:
        """Whether a form may be followed as it is: it stays within 64 bits, or calls for which it does not are refused."""
        if not any(abs(c) >= _SIZE or dim.__class__ is Product for dim, c in lin.terms.items()):
            return True
        if self._number(lin) < WORD_REACH * 2:
            return True
        reach = self._reach(lin)
        if reach is None or isinstance(reach, FloatImm):
            return False
        self.reaches.setdefault(str(reach), reach)
        return True

    # -- as a number, from what is known without a call --------------------------------------------------------------

    def _number(self, lin: Form) -> int:
        return abs(lin.const) + sum(abs(c) * self._number_of(dim) for dim, c in lin.terms.items())

    def _number_of(self, dim: Dim) -> int:
        ends = self.space.interval_of_dim(dim)
        if is_finite(ends):
            return int(max(map(abs, ends)))
        if isinstance(dim, Var):
            return min(int(dim.dtype.max_value), _SIZE) if dim.dtype.is_integral else _SIZE
        if isinstance(dim, Product):
            reach = 1
            for factor in dim.factors:
                reach *= self._number_of(factor)
            return reach
        if isinstance(dim, Div):
            return self._number(dim.of) // abs(dim.divisor) + 1
        if isinstance(dim, SymbolicDiv):
            return max(self._number(dim.of), self._number(dim.divisor)) + 1
        if isinstance(dim, Piecewise):
            return max(map(self._number, dim.options))
        return _SIZE

    # -- as an expression ----------------------------------------------------------------------------------------------

    def _reach(self, lin: Form) -> Expr | None:
        total: Expr | None = None
        for dim, c in lin.terms.items():
            part = self._reach_of(dim)
            if part is None:
                return None
            if abs(c) != 1:
                part = build.mul(part, const(float(abs(c)), FLOAT64))
            total = part if total is None else build.add(total, part)
        if total is None or abs(lin.const) > 1 << 20:  # what is less is nothing to the reach of a word
            own = const(float(abs(lin.const)), FLOAT64)
            return own if total is None else build.add(total, own)
        return total

    def _reach_of(self, dim: Dim) -> Expr | None:
        if dim not in self._found:
            self._found[dim] = None  # a loop whose extent its own variable is in
            self._found[dim] = self._new_reach(dim)
        return self._found[dim]

    def _new_reach(self, dim: Dim) -> Expr | None:
        ends = self.space.interval_of_dim(dim)
        if is_finite(ends):
            return const(float(max(map(abs, ends))), FLOAT64)
        if isinstance(dim, Var):
            return self._reach_of_var(dim)
        if isinstance(dim, Product):
            parts = [self._reach_of(factor) for factor in dim.factors]
            known = [part for part in parts if part is not None]
            return functools.reduce(build.mul, known) if len(known) == len(parts) else None
        if isinstance(dim, Div):
            part = self._reach(dim.of)
            if part is None:
                return None
            return build.mul(part, const(1.0 / abs(dim.divisor), FLOAT64))
        if isinstance(dim, SymbolicDiv):
            return self._greatest(dim.of, dim.divisor)
        if isinstance(dim, Piecewise):
            return self._greatest(*dim.options)
        assert isinstance(dim, Opaque)
        return None

    def _reach_of_var(self, var: Var) -> Expr | None:
        if var not in self.space.iterated:
            if not var.dtype.is_integral:
                return None
            value = build.cast(FLOAT64, var)
            positive = self.space.interval_of_dim(var)[0] >= 0
            return value if positive else build.max_(value, build.sub(const(0.0, FLOAT64), value))
        ends: list[Form] = []
        for loop in self.scop.loops:
            if loop.var is var:
                if loop.extent is None:
                    return None
                ends += [loop.start] * (not loop.start.is_constant) + [loop.start + loop.extent]
        return self._greatest(*ends) if ends else None

    def _greatest(self, *forms: Form) -> Expr | None:
        made: Expr | None = None
        for form in forms:
            part = self._reach(form)
            if part is None:
                return None
            made = part if made is None else build.max_(made, part)
        return made
