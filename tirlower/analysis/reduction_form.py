"""What a reduction block reduces: its results as a commutative reducer of what it has and what comes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tirlower.analysis import expr_deep_equal
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer, CommReducer
from tirlower.ir.expr import Add, BufferLoad, Cast, Expr, FloatImm, IntImm, Max, Min, Mul, Select, Var
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.query import nodes
from tirlower.ir.stmt import Bind, Block, BufferStore, Seq, Stmt

__all__ = ["ReductionForm", "reduction_form"]

_UNITS: dict[type, int] = {Add: 0, Mul: 1}


@dataclass(frozen=True)
class ReductionForm:
    """The buffers that hold the results, at which indices; what each instance contributes; how the two combine."""

    buffers: tuple[Buffer, ...]
    indices: tuple[tuple[Expr, ...], ...]
    values: tuple[Expr, ...]
    reducer: CommReducer


def reduction_form(block: Block) -> ReductionForm:
    """The reduction of a block with an init. Raises TransformError where it is none that threads can share."""
    starts = {store.buffer: store for store in _stores(block, block.init)}
    results = _results(block)
    if len(results) != len(starts) or any(store.buffer not in starts for store, _ in results):
        _refuse(block, "its init and its update do not store the same buffers")
    lhs: list[Var] = []
    rhs: list[Var] = []
    loads: list[BufferLoad] = []
    for store, value in results:
        start = starts[store.buffer]
        if not _same_all(start.indices, store.indices):
            _refuse(block, "its init and its update store different elements")
        lhs.append(Var(f"x{len(lhs)}", value.dtype))
        rhs.append(Var(f"y{len(rhs)}", value.dtype))
        loads.append(BufferLoad(store.buffer, store.indices))
    incoming = [_incoming(block, value, load) for (_, value), load in zip(results, loads, strict=True)]
    table = [*zip(loads, lhs, strict=True), *zip(incoming, rhs, strict=True)]
    combined = [_Replacer(table).visit_expr(value) for _, value in results]
    allowed = {*lhs, *rhs}
    for result in combined:
        for node in nodes(result):
            if node.__class__ is BufferLoad or (node.__class__ is Var and node not in allowed):
                _refuse(block, f"its update is no function of what it has and what comes in: {result}")
    units = [starts[store.buffer].value for store, _ in results]
    if len(results) == 1:
        unit = _UNITS.get(type(results[0][1]))
        if unit is not None and not _is_number(units[0], unit):
            _refuse(block, f"it starts from {units[0]}, which each thread would count")
    reducer = CommReducer(tuple(lhs), tuple(rhs), tuple(combined), tuple(units))
    return ReductionForm(
        tuple(store.buffer for store, _ in results),
        tuple(store.indices for store, _ in results),
        tuple(incoming),
        reducer,
    )


def _is_number(expr: Expr, value: int) -> bool:
    while isinstance(expr, Cast):
        expr = expr.value
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == value


def _stores(block: Block, stmt: Stmt | None) -> list[BufferStore]:
    stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    found = [each for each in stmts if isinstance(each, BufferStore)]
    if not found or len(found) < len(stmts):
        _refuse(block, "its init is not a sequence of stores")
    return found


def _results(block: Block) -> list[tuple[BufferStore, Expr]]:
    """The stores of the body with their values, bindings substituted; all read what was there before.

    Where values are bound first, the results are in the order of the bindings.
    """
    stmts = block.body.stmts if isinstance(block.body, Seq) else (block.body,)
    bound: dict[Var, Expr] = {}
    found: list[tuple[BufferStore, Expr]] = []
    order: list[int] = []
    for stmt in stmts:
        if isinstance(stmt, Bind) and not found:
            bound[stmt.var] = substitute(stmt.value, bound)
        elif isinstance(stmt, BufferStore) and stmt.predicate is None:
            value: Expr = substitute(stmt.value, bound)
            if found and any(node.__class__ is BufferLoad for node in nodes(stmt.value)):
                _refuse(block, "a store reads what an earlier one may have changed: bind the new values first")
            found.append((stmt, value))
            order.append(list(bound).index(stmt.value) if stmt.value in bound else len(bound))
        else:
            _refuse(block, "its body is more than the update of a reduction")
    return [found[at] for at in sorted(range(len(found)), key=order.__getitem__)]


def _incoming(block: Block, value: Expr, load: BufferLoad) -> Expr:
    """What an update combines with the value that is there."""
    if isinstance(value, (Add, Mul, Min, Max)):
        pair = (value.a, value.b)
    elif isinstance(value, Select):
        pair = (value.true_value, value.false_value)
    else:
        _refuse(block, f"its update is no reduction: {value}")
    for mine, other in (pair, pair[::-1]):
        if expr_deep_equal(mine, load):
            if any(n.__class__ is BufferLoad and n.buffer.data is load.buffer.data for n in nodes(other)):
                break
            return other
    _refuse(block, f"its update is no reduction: {value}")


def _same_all(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    return len(a) == len(b) and all(expr_deep_equal(x, y) for x, y in zip(a, b, strict=True))


class _Replacer(Mutator):
    """Replaces expressions that equal given ones, the outermost first."""

    def __init__(self, table: Sequence[tuple[Expr, Expr]]) -> None:
        self.table = table

    def visit_expr(self, root: Expr) -> Expr:
        for old, new in self.table:
            if old.dtype is new.dtype and expr_deep_equal(root, old):
                return new
        return root.map_children(self.visit_expr) if not root.is_leaf else root


def _refuse(block: Block, why: str) -> NoReturn:
    raise TransformError(
        f"block {block.name!r} reduces over threads, but {why}",
        origin="LowerCrossThreadReduction",
        span=block.span,
        help="write it as init and update of a sum, product, minimum, maximum, or a selection of one of two tuples",
    )
