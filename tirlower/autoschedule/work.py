"""How much there is to do in a function: of little, nothing is to be gained that building the schedule would not cost."""

from __future__ import annotations

from tirlower.ir.expr import IntImm
from tirlower.ir.stmt import For, Stmt, While

__all__ = ["instances"]


def instances(stmt: Stmt) -> int | None:
    """How often the statements inside run at most, together; None where that is not known before a call.

    >>> from tirlower.script import parse
    >>> instances(parse('''
    ... def f(A: T.Buffer((8, 4), "int32")):
    ...     for i in range(8):
    ...         A[i, 0] = 0
    ...         for j in range(4):
    ...             A[i, j] += 1
    ... ''').body)
    40
    """
    total = 0
    stack: list[tuple[Stmt, int]] = [(stmt, 1)]
    while stack:
        one, times = stack.pop()
        if isinstance(one, While):
            return None
        if isinstance(one, For):
            if not isinstance(one.extent, IntImm):
                return None
            times *= max(0, one.extent.value)
        inside = [child for child in one.children() if isinstance(child, Stmt)]
        stack += [(child, times) for child in inside]
        total += 0 if inside else times
    return total
