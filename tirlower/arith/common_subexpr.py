"""Subexpressions that an expression computes again and again."""

from __future__ import annotations

import heapq
import itertools

from tirlower import ir
from tirlower.arith.conditions import is_pure
from tirlower.arith.interner import Interner
from tirlower.ir import Expr, as_expr
from tirlower.ir.expr import ExprLike

__all__ = ["detect_common_subexpr"]


def detect_common_subexpr(expr: ExprLike, threshold: int = 2) -> dict[Expr, int]:
    """The largest subexpressions that occur at least ``threshold`` times, each with how often it does.

    Counted is what is computed: operations without effects that read no memory; variables, constants, ramps and
    broadcasts are no computations. Within a subexpression that is found nothing is counted again.

    >>> from tirlower.ir import Var
    >>> x, y = Var("x"), Var("y")
    >>> detect_common_subexpr((x + y) * 3 + (x + y) // 4 + (x + y), 3)
    {Add(x + y): 3}
    """
    interner = Interner()
    sizes: dict[Expr, int] = {}
    root = interner.representative(as_expr(expr))
    counts: dict[Expr, int] = {root: 1}
    ticket = itertools.count()
    queue = [(-_size(root, sizes), next(ticket), root)]
    found: dict[Expr, int] = {}
    while queue:
        _, _, op = heapq.heappop(queue)
        times = counts[op]
        if times >= threshold and _computes(op):
            found[op] = times
            continue
        for child in op.children():
            part = interner.representative(child)
            if part.is_leaf:
                continue
            if part not in counts:
                counts[part] = 0
                heapq.heappush(queue, (-_size(part, sizes), next(ticket), part))
            counts[part] += times
    return found


def _computes(op: Expr) -> bool:
    return not op.is_leaf and not isinstance(op, (ir.Ramp, ir.Broadcast, ir.BufferLoad)) and is_pure(op)


def _size(root: Expr, sizes: dict[Expr, int]) -> int:
    """How many nodes an expression has, written out."""
    stack = [root]
    while stack:
        op = stack[-1]
        waiting = [c for c in op.children() if c not in sizes]
        if op in sizes or not waiting:
            sizes[op] = sizes.get(op) or 1 + sum(sizes[c] for c in op.children())
            stack.pop()
        else:
            stack += waiting
    return sizes[root]
