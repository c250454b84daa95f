"""Choices between parts by a condition: a select, an if_then_else, an and, an or.

The condition is a fact in the part that it chooses. How many facts hold at once, and how many are taken one after
another, has budgets: past them a choice is a node like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from tirlower import ir
from tirlower.ir import BOOL, Call, Expr, FloatImm, IntImm, Select, Var
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.arith.rewrite import Rewriter

__all__ = ["Choice", "Simplify", "choice", "is_choice"]

MAX_SCOPES = 24
"""How many conditions of nested selects count as facts at once."""

MAX_OPENED = 100
"""How many conditions are taken as facts, one after another, in simplifying one expression: where the condition of each
choice holds a choice, their number doubles with each."""

_FACTLESS = frozenset(
    (ir.Add, ir.Sub, ir.Mul, Var, IntImm, FloatImm, ir.StringImm, ir.BufferLoad, ir.Broadcast, ir.Ramp)
)
_LOGICAL = frozenset((ir.And, ir.Or))
_ITE = Op.get("tir.if_then_else")
_DIVIDES = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)

Simplify: TypeAlias = Callable[[Expr], Expr]
Choice: TypeAlias = ir.And | ir.Or | Select | Call


def is_choice(op: Expr, rewriter: Rewriter) -> TypeGuard[Choice]:
    """Whether a node chooses between parts by a scalar condition, which is a fact in each of them.

    Past the budgets of facts it is a node like any other.
    """
    if rewriter.scopes >= MAX_SCOPES or rewriter.opened >= MAX_OPENED:
        return False
    if op.__class__ in _LOGICAL:
        return rewriter.branch_facts and op.dtype is BOOL
    if op.__class__ is Select:
        return op.condition.__class__ is not IntImm and op.condition.dtype is BOOL
    return op.__class__ is Call and op.op is _ITE and op.args[0].__class__ is not IntImm


def choice(op: Choice, rewriter: Rewriter, simplify: Simplify) -> Expr:
    """A select or if_then_else: each arm is simplified (by ``simplify``) under its condition."""
    if isinstance(op, (ir.And, ir.Or)):
        return _logical_choice(op, rewriter, simplify)
    if isinstance(op, Select):
        condition, yes, no = op.condition, op.true_value, op.false_value
    else:
        condition, yes, no = op.args
    test = simplify(condition)
    if test.__class__ is IntImm:
        return simplify(yes if test.value else no)
    if isinstance(op, Select) and (_may_fault(yes) or _may_fault(no)):
        # A select evaluates both arms: an index that is inside only under the condition must not become one.
        yes, no = simplify(yes), simplify(no)
        if _may_fault(yes) or _may_fault(no):
            return rewriter.ternary(op, test, yes, no)
    yes_new = _under(rewriter, test, yes, simplify)
    no_new = _under(rewriter, rewriter.make_not(test) if _asks_facts(no) else None, no, simplify, test)
    if isinstance(op, Select):
        return rewriter.ternary(op, test, yes_new, no_new)
    same = test is condition and yes_new is yes and no_new is no
    return rewriter.call(_ITE, (test, yes_new, no_new), op if same else None, op)


def _under(rewriter: Rewriter, fact: Expr | None, expr: Expr, simplify: Simplify, failed: Expr | None = None) -> Expr:
    """An expression simplified where a fact holds; a scope is opened only if facts could tell.

    ``failed`` is the condition that the fact negates.
    """
    if fact is None or not _asks_facts(expr):
        return simplify(expr)
    rewriter.opened += 1
    rewriter.scopes += 1
    try:
        with rewriter.analyzer.constraint_scope(fact):
            if failed.__class__ is ir.And:
                rewriter.analyzer.facts.deny(failed)
            return simplify(expr)
    finally:
        rewriter.scopes -= 1


def _asks_facts(root: Expr) -> bool:
    """Whether an expression has a node that facts might simplify: sums and products alone have none."""
    if root.is_leaf:
        return False
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if type(op) not in _FACTLESS:
            return True
        stack.extend(op.children())
    return False


def _logical_choice(op: ir.And | ir.Or, rewriter: Rewriter, simplify: Simplify) -> Expr:
    """And, or: each side is simplified knowing that the other one leaves the question open."""
    conjunction = op.__class__ is ir.And
    a = simplify(op.a)
    b = _under(rewriter, a if conjunction else rewriter.make_not(a), op.b, simplify)
    if not _may_fault(a):
        # The left side runs first: an index of it that is inside only where the right one lets it must not be made.
        a = _under(rewriter, b if conjunction else rewriter.make_not(b), a, simplify)
    return rewriter.binary(op.__class__, a, b, op if a is op.a and b is op.b else None)


def _may_fault(root: Expr) -> bool:
    """Whether evaluating an expression may fail: it loads, or divides by what may be zero."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.__class__ is ir.BufferLoad:
            return True
        if op.__class__ in _DIVIDES and op.dtype.is_integral and not isinstance(op.b, IntImm):
            return True
        stack += op.children()
    return False
