"""What the conditions at one access say: the questions that extraction itself asks."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.poly.conditions import AtLeast, Condition, at_least, conjuncts
from tirlower.poly.constraint_system import BOTH, System
from tirlower.poly.forms import Form
from tirlower.poly.scop import Access, Scop

__all__ = ["implied", "infeasible_at"]


def infeasible_at(scop: Scop, access: Access, violation: Form) -> bool:
    """Whether ``violation >= 0`` certainly holds in no instance of an access."""
    if scop.space.interval(violation)[1] < 0:
        return True
    here = [*access.conditions, *(condition for loop in access.loops for condition in loop.conditions)]
    if implied(here, (-violation).shifted(-1)):
        return True
    system = System(scop.space, frozenset(scop.space.iterated))
    for condition in (*scop.context, *here):
        system.add(condition, BOTH)
    system.add(at_least(violation), BOTH)
    return system.is_empty()


def implied(conditions: Sequence[Condition], wanted: Form) -> bool:
    """Whether one of the conditions says at once that ``wanted >= 0``: ``j < n`` for ``n - j - 1``."""
    for condition in conjuncts(conditions):
        if isinstance(condition, AtLeast):
            lin = condition.lin
            if lin.const <= wanted.const and lin.terms == wanted.terms:
                return True
    return False
