"""Which subexpressions get a line of their own: those that nest too deeply, and shared ones that would explode.

Python's own parser gives up on deep nesting, and a shared ``e + e`` chain doubles with every level. A subexpression
that is cut out is printed before the statement as ``x = T.meta_var(…)``, which binds nothing in the program.
"""

from __future__ import annotations

from tirlower.ir.expr import Expr, Let, Var

__all__ = ["cuts"]

DEPTH = 100
"""The nesting at which an expression is broken."""

SMALL = 100
"""Expressions that expand to no more nodes than this are printed whole."""

SHARED = 48
"""A shared subexpression of more nodes than this is printed once, where the whole would be long."""


def _expands_beyond(root: Expr, limit: int) -> bool:
    stack = [root]
    for _ in range(limit):
        if not stack:
            return False
        op = stack.pop()
        if not getattr(op, "is_leaf", True):
            stack += op.children()
    return bool(stack)


def cuts(root: Expr, deep: bool = True) -> list[Expr]:
    """The subexpressions to print first, each after those inside it.

    Nothing is cut out of a Let that its variable reaches. Without ``deep`` only sharing is looked at.
    """
    if getattr(root, "is_leaf", True) or not _expands_beyond(root, SMALL):
        return []
    order: list[Expr] = []
    uses: dict[int, int] = {}
    bound: set[Var] = set()
    state: dict[int, bool] = {}
    stack = [root]
    while stack:
        op = stack[-1]
        if state.get(id(op)):
            stack.pop()
            continue
        if id(op) in state:
            state[id(op)] = True
            order.append(op)
            stack.pop()
            continue
        state[id(op)] = False
        if op.__class__ is Let:
            bound.add(op.var)
        for child in op.children():
            uses[id(child)] = uses.get(id(child), 0) + 1
            if id(child) not in state:
                stack.append(child)
    depth: dict[int, int] = {}
    size: dict[int, int] = {}
    total: dict[int, int] = {}
    closed: dict[int, bool] = {}
    found: list[Expr] = []
    for op in order:
        total[id(op)] = 1 + sum(total[id(c)] for c in op.children())
    explodes = total[id(root)] > max(2000, 2 * len(order))
    for op in order:
        key = id(op)
        parts = list(op.children())
        depth[key] = 1 + max((depth[id(c)] for c in parts), default=0)
        size[key] = 1 + sum(size[id(c)] for c in parts)
        closed[key] = op not in bound and all(closed[id(c)] for c in parts)
        if op is root or not closed[key]:
            continue
        if (deep and depth[key] >= DEPTH) or (explodes and uses[key] > 1 and size[key] > SHARED):
            found.append(op)
            depth[key] = size[key] = 1
    return found
