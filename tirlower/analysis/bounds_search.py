"""Search for an iteration in which a condition on integers holds: the loops around a place, run on paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tirlower.ir.evaluator import Evaluator
from tirlower.ir.expr import Expr, Var
from tirlower.ir.query import each

__all__ = ["Loop", "Test", "Undecided", "Value", "search", "used_by"]


class Undecided(Exception):
    """A value that is not known: it is loaded, or depends on an argument; or the search took too long."""


class Loop:
    """``var`` runs from ``start``, ``extent`` times."""

    __slots__ = ("extent", "start", "var")

    def __init__(self, var: Var, start: Expr, extent: Expr) -> None:
        self.var, self.start, self.extent = var, start, extent


class Value:
    """``var`` is ``value``."""

    __slots__ = ("value", "var")

    def __init__(self, var: Var, value: Expr) -> None:
        self.var, self.value = var, value


class Test:
    """What follows is reached only where the condition holds."""

    __slots__ = ("condition",)

    def __init__(self, condition: Expr) -> None:
        self.condition = condition


Step = Loop | Value | Test


def used_by(exprs: Sequence[Expr]) -> set[Var]:
    """The variables that expressions mention."""
    return set(each(Var, *exprs))


def search(steps: Sequence[Step], wanted: Expr, budget: int) -> dict[Var, int] | None:
    """The first iteration that reaches the end of ``steps`` and makes ``wanted`` true; None where there is none.

    Loops whose variables matter to nothing after them are run once. Raises :class:`Undecided` where some value is not
    known, or after ``budget`` iterations without an answer.
    """
    needed = used_by([wanted])
    plan: list[tuple[Step, bool]] = []
    for step in reversed(steps):
        if isinstance(step, Test):
            needed |= used_by([step.condition])
            plan.append((step, True))
        elif isinstance(step, Value):
            if step.var in needed:
                needed |= used_by([step.value])
                plan.append((step, True))
        else:
            plan.append((step, step.var in needed))
            needed |= used_by([step.start, step.extent])
    plan.reverse()
    env: dict[Var, int] = {}
    left = budget
    ready: dict[Expr, Evaluator] = {}

    def value_of(expr: Expr) -> int:
        """Its value by exact arithmetic: a value that wraps is no index."""
        if expr not in ready:
            ready[expr] = Evaluator(expr)
        try:
            return int(ready[expr].at(env))
        except ArithmeticError:
            raise Undecided from None

    def values(loop: Loop, all_of_them: bool) -> Iterator[int]:
        start, extent = value_of(loop.start), value_of(loop.extent)
        return iter(range(start, start + (extent if all_of_them else min(extent, 1))))

    def reach(position: int) -> bool:
        nonlocal left
        while position < len(plan):
            step, matters = plan[position]
            if isinstance(step, Value):
                env[step.var] = value_of(step.value)
            elif isinstance(step, Test):
                if not value_of(step.condition):
                    return False
            else:
                for value in values(step, matters):
                    left -= 1
                    if left < 0:
                        raise Undecided
                    env[step.var] = value
                    if reach(position + 1):
                        return True
                return False
            position += 1
        return bool(value_of(wanted))

    return dict(env) if reach(0) else None
