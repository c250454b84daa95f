"""Byte counts as sums of multiples of few terms: a plan adds and compares thousands of them, the simplifier is asked once each."""

from __future__ import annotations

from tirlower.arith.affine import Affine, affine_of
from tirlower.arith.interner import Interner
from tirlower.graph.core.dims import DimEnv, extent_expr
from tirlower.graph.core.nodes import Value
from tirlower.ir import ALLOC_ALIGNMENT, Expr, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64

__all__ = ["Bytes", "Sums"]

Bytes = Affine[Expr]
_MOST_TERMS = 1 << 16


class Sums:
    """Sums of byte counts under what is known of the dims of a graph. Equal sums have equal keys, and one expression.

    >>> from tirlower.graph.core.dims import dim
    >>> n = dim("N", 1)
    >>> sums = Sums(DimEnv([n]))
    >>> rows = sums.of(n.var * 64)
    >>> print(sums.expr(rows + rows.shifted(128)), sums.is_positive(rows.scaled(2) - rows), sums.is_positive(-rows))
    N * T.int64(128) + T.int64(128) True False
    """

    def __init__(self, env: DimEnv) -> None:
        self.env = env
        self.interner = Interner()
        self._exprs: dict[object, Expr] = {}
        self._sizes: dict[object, Bytes] = {}
        self._positive: dict[Expr, bool] = {}

    def of(self, count: Expr) -> Bytes:
        """The sum that an expression is; one of itself alone where that is not seen."""
        found = affine_of(self.interner, count, _MOST_TERMS)
        return Affine({self.interner.representative(count): 1}) if found is None else found

    def size(self, value: Value) -> Bytes:
        """The bytes of a value, rounded up to a cache line."""
        key = value.dtype, value.shape
        found = self._sizes.get(key)
        if found is None:
            total = extent_expr((value.dtype.bits + 7) // 8)
            for extent in value.extents:
                total = extent_expr(self.env.simplify(total * extent))
            line = const(ALLOC_ALIGNMENT, INT64)
            rounded = build.floordiv(total + (ALLOC_ALIGNMENT - 1), line) * line
            found = self._sizes[key] = self.of(extent_expr(self.env.simplify(rounded)))
        return found

    def expr(self, count: Bytes) -> Expr:
        """A sum as an expression."""
        found = self._exprs.get(count.key)
        if found is None:
            made: Expr | None = None
            for atom, factor in count.terms.items():
                term = atom if factor == 1 else atom * const(factor, INT64)
                made = term if made is None else made + term
            if made is None:
                made = const(count.const, INT64)
            elif count.const:
                made = made + const(count.const, INT64)
            found = self._exprs[count.key] = made
        return found

    def is_positive(self, count: Bytes) -> bool:
        """Whether a sum is surely not below 0."""
        if count.const >= 0 and all(factor > 0 and self._is_positive(atom) for atom, factor in count.terms.items()):
            return True
        return bool(count.terms) and self.env.analyzer.can_prove(self.expr(count) >= 0)

    def _is_positive(self, atom: Expr) -> bool:
        found = self._positive.get(atom)
        if found is None:
            found = self._positive[atom] = self.env.analyzer.can_prove(atom >= 0)
        return found
