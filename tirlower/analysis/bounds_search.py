"""Search for an iteration in which a condition on integers holds: the loops around a place, run on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tirlower.ir import expr as e
from tirlower.ir.expr import Expr, Var
from tirlower.ir.op import Op
from tirlower.ir.query import each

__all__ = ["Loop", "Test", "Undecided", "Value", "integer_value", "search", "used_by"]


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


def _truncdiv(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


_BINARY: dict[type, Callable[[Any, Any], int]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.FloorDiv: lambda a, b: a // b,
    e.FloorMod: lambda a, b: a % b,
    e.Div: _truncdiv,
    e.Mod: lambda a, b: a - _truncdiv(a, b) * b,
    e.Min: min,
    e.Max: max,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
}


def integer_value(op: Any, env: Mapping[Var, int]) -> int:
    """The value of an integer or boolean expression, as exact arithmetic. Raises :class:`Undecided`."""
    kind = op.__class__
    if kind is e.IntImm:
        return int(op.value)
    if kind is Var:
        if op not in env:
            raise Undecided
        return env[op]
    rule = _BINARY.get(kind)
    if rule is not None and op.a.dtype.is_integral and op.dtype.is_scalar:
        a, b = integer_value(op.a, env), integer_value(op.b, env)
        if b == 0 and kind in (e.FloorDiv, e.FloorMod, e.Div, e.Mod):
            raise Undecided
        value = rule(a, b)
        if not op.dtype.min_value <= value <= op.dtype.max_value:
            raise Undecided  # it wraps; no index does
        return int(value)
    if kind is e.And:
        return integer_value(op.a, env) and integer_value(op.b, env)
    if kind is e.Or:
        return integer_value(op.a, env) or integer_value(op.b, env)
    if kind is e.Not:
        return int(not integer_value(op.a, env))
    if kind is e.Select or (kind is e.Call and op.op is Op.get("tir.if_then_else")):
        condition, then_value, else_value = op.children()
        return integer_value(then_value if integer_value(condition, env) else else_value, env)
    if kind is e.Call and op.op is Op.get("tir.likely"):
        return integer_value(op.args[0], env)
    if kind is e.Cast and op.dtype.is_integral and op.value.dtype.is_integral and op.dtype.is_scalar:
        value = integer_value(op.value, env)
        if op.dtype.min_value <= value <= op.dtype.max_value:
            return int(value)
    raise Undecided


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

    def values(loop: Loop, all_of_them: bool) -> Iterator[int]:
        start, extent = integer_value(loop.start, env), integer_value(loop.extent, env)
        return iter(range(start, start + (extent if all_of_them else min(extent, 1))))

    def reach(position: int) -> bool:
        nonlocal left
        while position < len(plan):
            step, matters = plan[position]
            if isinstance(step, Value):
                env[step.var] = integer_value(step.value, env)
            elif isinstance(step, Test):
                if not integer_value(step.condition, env):
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
        return bool(integer_value(wanted, env))

    return dict(env) if reach(0) else None
