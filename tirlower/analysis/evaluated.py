"""Under which conditions parts of an expression are evaluated.

The second operand of ``and`` and ``or`` and the arms of a choice are evaluated or not. A rewrite that is right for the
value, as of ``max(a, b // c) < 8`` to ``a < 8 and b // c < 8``, may so lose the error of a division.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from tirlower.ir.expr import And, Call, Expr, Not, Or
from tirlower.ir.op import Op

__all__ = ["Conditions", "conditions_of", "evaluations"]

Conditions = frozenset[tuple[bool, Expr]]
"""What holds, or (False) does not, where something is evaluated: each a condition that is no ``and``, ``or``, ``not`` of
others as far as that can be told apart."""

Key = TypeVar("Key", bound=Hashable)
_ITE = Op.get("tir.if_then_else")


def evaluations(
    root: Expr, key_of: Callable[[Expr], Key | None], representative: Callable[[Expr], Expr]
) -> dict[Key, set[Conditions]]:
    """The conditions under which the parts of an expression that have a key are evaluated, by key."""
    found: dict[Key, set[Conditions]] = {}
    seen: set[tuple[int, Conditions]] = set()
    stack: list[tuple[Expr, Conditions]] = [(root, frozenset())]
    while stack:
        op, here = stack.pop()
        if (id(op), here) in seen:
            continue
        seen.add((id(op), here))
        key = key_of(op)
        if key is not None:
            found.setdefault(key, set()).add(here)
        if op.__class__ is And or op.__class__ is Or:
            stack += [(op.a, here), (op.b, here | conditions_of(op.a, op.__class__ is And, representative))]
        elif op.__class__ is Call and op.op is _ITE:
            condition, then, other = op.args
            stack.append((condition, here))
            stack.append((then, here | conditions_of(condition, True, representative)))
            stack.append((other, here | conditions_of(condition, False, representative)))
        else:
            stack += [(child, here) for child in op.children()]
    return found


def conditions_of(root: Expr, holds: bool, representative: Callable[[Expr], Expr]) -> Conditions:
    """What holds where a condition does, or does not."""
    found: set[tuple[bool, Expr]] = set()
    stack: list[tuple[Expr, bool]] = [(root, holds)]
    while stack:
        op, true = stack.pop()
        if isinstance(op, Not):
            stack.append((op.a, not true))
        elif isinstance(op, And if true else Or):
            stack += [(op.a, true), (op.b, true)]
        else:
            found.add((true, representative(op)))
    return frozenset(found)
