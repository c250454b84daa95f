"""The values of forms at a point."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.poly.forms import Choice, Computed, Dim, Div, Extremum, Form, Product, SymbolicDiv, single

__all__ = ["evaluate"]


def evaluate(lin: Form, values: Mapping[Dim, int]) -> int | None:
    """The value of a form at a point that gives values to variables; None where it has one without.

    >>> from tirlower.ir import Var
    >>> i = Var("i")
    >>> evaluate(single(i).scaled(3).shifted(1), {i: 2})
    7
    """
    total = lin.const
    for dim, c in lin.terms.items():
        value = values.get(dim)
        if value is None:
            value = _evaluate_atom(dim, values)
            if value is None:
                return None
        total += c * value
    return total


def _evaluate_atom(dim: Dim, values: Mapping[Dim, int]) -> int | None:
    if isinstance(dim, Div):
        of = evaluate(dim.of, values)
        return None if of is None else of // dim.divisor
    if isinstance(dim, SymbolicDiv):
        of, by = evaluate(dim.of, values), evaluate(dim.divisor, values)
        if of is None or not by:
            return None
        return of % by if dim.remainder else of // by
    if isinstance(dim, Extremum):
        options = [evaluate(option, values) for option in dim.options]
        known = [o for o in options if o is not None]
        if len(known) < len(options):
            return None
        return max(known) if dim.is_max else min(known)
    if isinstance(dim, Choice):
        holds = dim.condition.holds(lambda lin: evaluate(lin, values))
        return None if holds is None else evaluate(dim.options[0 if holds else 1], values)
    if isinstance(dim, Computed):
        operands = [evaluate(lin, values) for lin in dim.operands]
        result = None if None in operands else dim.compute(*operands)
        return None if result is None else int(result)
    if isinstance(dim, Product):
        total = 1
        for factor in dim.factors:
            value = evaluate(single(factor), values)
            if value is None:
                return None
            total *= value
        return total
    return None
