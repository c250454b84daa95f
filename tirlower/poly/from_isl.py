"""Functions of isl as expressions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from tirlower.ir import Expr, IntImm, Var, build, const
from tirlower.ir.cancel import linear_difference, terms_of
from tirlower.poly.isl import isl

__all__ = ["ast_of", "expression_of", "from_ast", "function_of"]


def ast_of(piecewise: isl.PwAff, known: isl.Set) -> isl.AstExpr:
    """How an isl piecewise affine function of parameters is computed, where these are in a set."""
    return isl.AstBuild.from_context(known).expr_from_pw_aff(piecewise)


def expression_of(piecewise: isl.PwAff, known: isl.Set, names: Mapping[str, Var]) -> Expr:
    """An isl piecewise affine function of parameters as an expression; ``known`` is where it is asked for."""
    return from_ast(ast_of(piecewise, known), names)


def function_of(expr: isl.AstExpr, names: Mapping[str, isl.PwAff]) -> isl.PwAff:
    """What a computation of isl gives, also where it was not asked for, as a function of what its names stand for."""
    kind: object = expr.get_type()
    if kind == isl.ast_expr_type.int:
        some = next(iter(names.values()))
        return isl.PwAff.val_on_domain(isl.Set.universe(some.get_domain_space()), expr.get_val())
    if kind == isl.ast_expr_type.id:
        return names[expr.get_id().get_name()]
    op: object = expr.get_op_type()
    parts = [expr.get_op_arg(n) for n in range(expr.get_op_n_arg())]
    kinds = isl.ast_expr_op_type
    if op in (kinds.select, kinds.cond):
        held = _set_of(parts[0], names)
        then, other = (function_of(part, names) for part in parts[1:])
        return then.intersect_domain(held).union_add(other.intersect_domain(held.complement()))
    args = [function_of(part, names) for part in parts]
    if op == kinds.minus:
        return args[0].neg()
    if op in (kinds.pdiv_r, kinds.zdiv_r):
        return args[0].mod_val(parts[1].get_val())
    folds: dict[object, Callable[[isl.PwAff, isl.PwAff], isl.PwAff]] = {
        kinds.add: lambda a, b: a.add(b), kinds.sub: lambda a, b: a.sub(b), kinds.mul: lambda a, b: a.mul(b),
        kinds.min: lambda a, b: a.min(b), kinds.max: lambda a, b: a.max(b),
        kinds.div: lambda a, b: a.div(b).floor(), kinds.fdiv_q: lambda a, b: a.div(b).floor(),
        kinds.pdiv_q: lambda a, b: a.div(b).floor(),
    }  # fmt: skip
    return functools.reduce(folds[op], args)


def _set_of(expr: isl.AstExpr, names: Mapping[str, isl.PwAff]) -> isl.Set:
    """Where a condition of isl holds."""
    op: object = expr.get_op_type()
    parts = [expr.get_op_arg(n) for n in range(expr.get_op_n_arg())]
    kinds = isl.ast_expr_op_type
    if op in (kinds["and_"], kinds["or_"], kinds.and_then, kinds.or_else):
        one, two = (_set_of(part, names) for part in parts)
        return one.intersect(two) if op in (kinds["and_"], kinds.and_then) else one.union(two)
    a, b = (function_of(part, names) for part in parts)
    compared: dict[object, Callable[[isl.PwAff, isl.PwAff], isl.Set]] = {
        kinds.eq: lambda a, b: a.eq_set(b), kinds.le: lambda a, b: a.le_set(b), kinds.lt: lambda a, b: a.lt_set(b),
        kinds.ge: lambda a, b: a.ge_set(b), kinds.gt: lambda a, b: a.gt_set(b),
    }  # fmt: skip
    return compared[op](a, b)


def from_ast(expr: isl.AstExpr, names: Mapping[str, Expr]) -> Expr:
    """A computation of isl as an expression."""
    kind: object = expr.get_type()  # a number, say the stubs of islpy: it is of the enumeration
    if kind == isl.ast_expr_type.int:
        value = expr.get_val().to_python()
        return const(value, "int64" if value >> 31 not in (0, -1) else "int32")
    if kind == isl.ast_expr_type.id:
        return names[expr.get_id().get_name()]
    op: object = expr.get_op_type()
    args = [from_ast(expr.get_op_arg(n), names) for n in range(expr.get_op_n_arg())]
    kinds = isl.ast_expr_op_type
    if op == kinds.minus:
        return build.sub(const(0, args[0].dtype), args[0])
    if op in (kinds.select, kinds.cond):
        return build.select(args[0], args[1], args[2])
    if op in (kinds.and_then, kinds.or_else):
        return (build.logical_and if op == kinds.and_then else build.logical_or)(args[0], args[1])
    folds: dict[object, Callable[[Expr, Expr], Expr]] = {
        kinds.add: build.add, kinds.sub: build.sub, kinds.mul: build.mul, kinds.min: build.min_, kinds.max: build.max_,
        kinds.div: build.floordiv, kinds.fdiv_q: _quotient, kinds.pdiv_q: _quotient,
        kinds.pdiv_r: _remainder, kinds.zdiv_r: _remainder, kinds.eq: build.eq, kinds.le: build.le,
        kinds.lt: build.lt, kinds.ge: build.ge, kinds.gt: build.gt, kinds["and_"]: build.logical_and,
        kinds["or_"]: build.logical_or,
    }  # fmt: skip
    result = args[0]
    for arg in args[1:]:
        result = folds[op](result, arg)
    return result


def _quotient(a: Expr, by: Expr) -> Expr:
    """``floor(a / by)`` for a number ``by`` from 1 on."""
    a, by = build.match_types(a, by)
    assert isinstance(by, IntImm)
    if _leads_down(a):  # as people write it: isl has `floor((2 - n) / 3)` where it means `-(n // 3)`
        return build.sub(const(0, a.dtype), build.floordiv(_from(a, by.value - 1), by))
    return build.floordiv(a, by)


def _remainder(a: Expr, by: Expr) -> Expr:
    """The remainder of the same division; isl makes ``a`` positive by multiples of ``by``, in its own way in each place."""
    a, by = build.match_types(a, by)
    assert isinstance(by, IntImm)
    c = by.value
    terms: dict[object, tuple[int, Expr]] = {}
    constant = terms_of(a, 1, terms)
    least = const(constant % c, a.dtype)
    for factor, term in terms.values():
        near = (factor + (c - 1) // 2) % c - (c - 1) // 2
        least = build.add(least, build.mul(term, const(near, a.dtype)))
    if _leads_down(least):
        return build.sub(const(c - 1, a.dtype), build.floormod(_from(least, c - 1), by))
    return build.floormod(linear_difference(least, const(0, a.dtype), always=True), by)


def _leads_down(a: Expr) -> bool:
    """Whether the first term of a sum, by name, is taken away."""
    terms: dict[object, tuple[int, Expr]] = {}
    terms_of(a, 1, terms)
    moving = [(str(term), factor) for factor, term in terms.values() if factor]
    return bool(moving) and min(moving)[1] < 0


def _from(a: Expr, most: int) -> Expr:
    """``most - a``."""
    return linear_difference(const(most, a.dtype), a)
