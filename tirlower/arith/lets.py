"""Lets of one variable with several values, kept apart.

An analyzer remembers what it knows of a variable. A copy of an expression has the variables of its lets, and may give
them other values: what is known of one must not be taken for the other.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from tirlower.ir import Expr, Let, Var, substitute
from tirlower.ir.refresh import copy_var

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["Lets"]


class Lets:
    """The variables that lets bind, as one analyzer has met them.

    A variable that a let binds is taken to stand nowhere outside it, as everywhere in the IR.
    """

    __slots__ = ("_analyzer", "_renamed", "_values")

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._values: dict[Var, Expr] = {}
        self._renamed: dict[Let, Let] = {}

    def own(self, op: Let, taken: Container[Var] = ()) -> Let:
        """The let itself; one of a new variable where its variable means something else already, there or in ``taken``."""
        found = self._renamed.get(op)
        if found is not None:
            return found
        value = self._analyzer.interner.representative(op.value)
        known = self._values.get(op.var)
        if op.var not in taken and (known is value or (known is None and not self._means_other(op))):
            self._values[op.var] = value
            return op
        var = copy_var(op.var)
        made = Let(var, op.value, substitute(op.body, {op.var: var}), span=op.span)
        self._values[var] = value
        self._renamed[op] = self._renamed[made] = made
        return made

    def _means_other(self, op: Let) -> bool:
        """Whether a range, a bound or another value has been stated of a variable that no let has bound so far."""
        analyzer = self._analyzer
        value = analyzer.rewriter.substitution.get(op.var)
        if value is not None:
            return not analyzer.interner.same(value, analyzer.rewriter.simplify(op.value))
        return op.var in analyzer.ranges or op.var in analyzer.facts.bounds or op.var in analyzer.facts.moduli

    def forget(self, var: Var) -> None:
        """Another meaning is about to be stated of a variable."""
        self._values.pop(var, None)
