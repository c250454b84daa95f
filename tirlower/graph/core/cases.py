"""Whether two extents are equal, case by case: which operand a minimum, a maximum or a choice is, under what is known then.

Slices of slices of dims have extents of several such, which no rule brings into one form.

>>> from tirlower.ir import Var, build
>>> C = Var("C", "int64", nonneg=True)
>>> low = build.max_(C - 3, 0)
>>> a = build.max_(build.max_(build.min_(C, 3) - low, 0) - 1, 0)
>>> b = build.max_(build.max_(build.min_(C, 3), C - 3) - low - 1, 0)
>>> analyzer = Analyzer()
>>> analyzer.can_prove_equal(a, b), equal_by_cases(analyzer, a, b)
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tirlower.arith import Analyzer
from tirlower.ir import Expr, Max, Min, Select, build
from tirlower.ir.functor import Mutator
from tirlower.ir.query import each
from tirlower.ir.structural import expr_deep_equal

__all__ = ["equal_by_cases", "has_cases"]

_CASES: Final = 64
"""How many cases are looked at: more is not known."""

_Choice: TypeAlias = "Min | Max | Select"


def has_cases(*several: Expr) -> bool:
    """Whether there is a choice in expressions."""
    return any(True for _ in _choices(*several))


def equal_by_cases(analyzer: Analyzer, a: Expr, b: Expr) -> bool:
    """Whether two expressions are proved equal in all cases; False also where that is not known."""
    return _Cases(analyzer).equal(a, b)


class _Cases:
    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.left = _CASES

    def equal(self, a: Expr, b: Expr) -> bool:
        choice = _innermost(a, b)
        if choice is None:
            return self.analyzer.can_prove_equal(a, b)
        condition, first, second = _arms(choice)
        for holds, arm in ((condition, first), (build.logical_not(condition), second)):
            if self.analyzer.can_prove(build.logical_not(holds)):
                continue
            self.left -= 1
            if self.left < 0:
                return False
            with self.analyzer.constraint_scope(holds):
                x, y = (self.analyzer.simplify(_Chosen(choice, arm).visit(e)) for e in (a, b))
                if not (expr_deep_equal(x, y) or self.equal(x, y)):
                    return False
        return True


def _innermost(*several: Expr) -> _Choice | None:
    """A choice whose operands have none."""
    for one in _choices(*several):
        if all(inner is one for inner in _choices(one)):
            return one
    return None


def _choices(*several: Expr) -> Iterator[_Choice]:
    yield from each(Min, *several)
    yield from each(Max, *several)
    yield from each(Select, *several)


def _arms(choice: _Choice) -> tuple[Expr, Expr, Expr]:
    """The condition under which a choice is its first operand, that one, and the other."""
    if isinstance(choice, Select):
        return choice.condition, choice.true_value, choice.false_value
    below = build.le(choice.a, choice.b)
    return below, *((choice.a, choice.b) if isinstance(choice, Min) else (choice.b, choice.a))


class _Chosen(Mutator):
    """Puts an operand in the place of a choice."""

    def __init__(self, choice: _Choice, arm: Expr) -> None:
        super().__init__()
        self.choice = choice
        self.arm = arm

    def visit_Min(self, op: Min) -> Expr:
        return self._one(op)

    def visit_Max(self, op: Max) -> Expr:
        return self._one(op)

    def visit_Select(self, op: Select) -> Expr:
        return self._one(op)

    def _one(self, op: Expr) -> Expr:
        return self.arm if op is self.choice or expr_deep_equal(op, self.choice) else op
