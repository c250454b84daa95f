"""An estimate of a kernel's work, by which a call decides whether to let other Python threads run."""

from __future__ import annotations

from typing import Final

from tirlower.call.extents import Compound, compound
from tirlower.diagnostics import LoweringError, deep_recursion
from tirlower.ir import build
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import Expr, IntImm, Var, const
from tirlower.ir.functor import post_order_visit
from tirlower.ir.stmt import BufferStore, Evaluate, For, IfThenElse, Stmt, While
from tirlower.llvm.codegen.kernel import Prototype

__all__ = ["estimate_work"]

#: what a loop of unknown length counts for
_UNKNOWN_TRIPS: Final = 64
_MOST: Final = 1 << 50
#: symbolic terms beyond so many are dropped: the estimate is computed in each call
_MOST_TERMS: Final = 8


def estimate_work(prototype: Prototype) -> int | Compound | None:
    """The scalar operations of a call: statement instances, by lanes; trip counts multiply.

    A number where all loops that count are constant, else an expression of the symbols.
    """
    names = {var: symbol.name for var, symbol in zip(prototype.symbols, prototype.signature.symbols, strict=True)}
    for param, described in zip(prototype.func.params, prototype.signature.params, strict=True):
        if param not in prototype.func.buffer_map and param.dtype in ("int32", "int64"):
            names[param] = described.name
    with deep_recursion():
        polynomial = _work(prototype.func.body, names)
    fixed = min(polynomial.pop((), 0), _MOST)
    if not polynomial:
        return fixed
    terms = sorted(polynomial.items(), key=lambda item: -len(item[0]))[:_MOST_TERMS]
    total: Expr = const(fixed, INT64)
    for extents, factor in terms:
        product: Expr = const(min(factor, 1 << 30), INT64)
        for extent in extents:
            product = build.mul(product, build.max_(build.cast(INT64, extent), const(0, INT64)))
        total = build.add(total, product)
    try:
        return compound(total, names, f"the work of `{prototype.name}`")
    except LoweringError:
        return None  # an extent with more in it than integer arithmetic: the arrays' sizes must do


_Polynomial = dict[tuple[Expr, ...], int]


def _work(stmt: Stmt, names: dict[Var, str]) -> _Polynomial:
    """Work as a sum: products of symbolic extents with a factor."""
    if isinstance(stmt, BufferStore):
        return {(): stmt.value.dtype.lanes}
    if isinstance(stmt, Evaluate):
        return {(): 1}
    total: _Polynomial = {}
    for child in stmt.children():
        if not isinstance(child, Stmt):
            continue
        inside = _work(child, names)
        if isinstance(stmt, IfThenElse):
            for key, factor in inside.items():
                total[key] = max(total.get(key, 0), factor)
        else:
            for key, factor in inside.items():
                total[key] = total.get(key, 0) + factor
    if isinstance(stmt, For):
        extent = stmt.extent
        if isinstance(extent, IntImm):
            return {key: min(factor * max(extent.value, 0), _MOST) for key, factor in total.items()}
        if _only_symbols(extent, names):
            return {(*key, extent): factor for key, factor in total.items() if len(key) < 6}
        return {key: min(factor * _UNKNOWN_TRIPS, _MOST) for key, factor in total.items()}
    if isinstance(stmt, While):
        return {key: min(factor * _UNKNOWN_TRIPS, _MOST) for key, factor in total.items()}
    return total


def _only_symbols(extent: Expr, names: dict[Var, str]) -> bool:
    found = True

    def look(node: object) -> None:
        nonlocal found
        if isinstance(node, Var):
            found = found and node in names
        elif node.__class__.__name__ in ("BufferLoad", "Call"):
            found = False

    post_order_visit(extent, look)
    return found
