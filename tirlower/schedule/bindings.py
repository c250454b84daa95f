"""What is done to the blocks below a loop that changes: their bindings simplified, a condition in their predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tirlower.arith import Analyzer
from tirlower.arith.iter_detect import iter_map_simplify
from tirlower.ir import build
from tirlower.ir.buffer import Range
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.query import may_move
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import Block, For, IfThenElse, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.loop_nests import nest, nested
from tirlower.schedule.sites import Forward

__all__ = ["forward_predicated", "only_blocks", "predicated", "with_simple_bindings"]


def _map_inner(stmt: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """A statement with each statement directly in it replaced."""
    return stmt.map_children(lambda child: fn(child) if isinstance(child, Stmt) else child)


def with_simple_bindings(
    stmt: Stmt, ranges: Mapping[Var, Range], analyzer: Analyzer, preserve_unit_iters: bool = True
) -> Stmt:
    """A statement in which the blocks of this scope bind their iterators to simple sums of digits of the loops.

    ``ranges`` are the loops around it in this scope. Blocks without iterators are part of the scope for this.
    """
    known = dict(ranges)

    def visit(op: Stmt) -> Stmt:
        if isinstance(op, For):
            known[op.loop_var] = Range(op.min, op.extent)
            made = _map_inner(op, visit)
            del known[op.loop_var]
            return made
        if not isinstance(op, Block) or not op.iters:
            return _map_inner(op, visit)
        values = [it.value for it in op.iters if it.value is not None]
        if len(values) < len(op.iters):
            return op
        simple = iter_map_simplify(values, known, op.predicate, "surjective", not preserve_unit_iters, analyzer)
        if all(map(structural_equal, values, simple)):
            return op
        # An iterator keeps its type whatever its value became.
        fixed = [build.cast(a.dtype, b) for a, b in zip(values, simple, strict=True)]
        iters = tuple(it.with_(value=value) for it, value in zip(op.iters, fixed, strict=True))
        return op.with_(iters=iters)

    return visit(stmt)


def predicated(body: Stmt, condition: Expr) -> Stmt:
    """A body where a condition holds: in the predicate of each block where blocks are all that it does, else in an ``if``
    inside the loops that stand directly in each other, which can then change places.

    What stands between the body and its blocks, or the ``if``, is computed also where the condition does not hold.
    """
    if only_blocks(body):
        return _in_blocks(body, condition)
    loops, inner = nested(body, _bounds_are_free)
    return nest(loops, IfThenElse(condition, as_scope(inner)))


def forward_predicated(forward: Forward, old: Stmt, new: Stmt) -> None:
    """Move what stands in a body to where :func:`predicated` put it."""
    if not only_blocks(old):
        while isinstance(old, For) and isinstance(new, For):
            forward.keep(old, new)
            old, new = old.body, new.body
        assert isinstance(new, IfThenElse)
        new = new.then_case
        if isinstance(new, Seq) and not isinstance(old, Seq):
            new = new.stmts[0]  # a declaration, in a scope of its own
    forward.like(old, new)


def _bounds_are_free(loop: For) -> bool:
    """Whether the bounds of a loop can be computed anywhere."""
    return may_move(loop.min, loop.extent)


def only_blocks(stmt: Stmt) -> bool:
    """Whether all that happens happens in blocks, and what stands around these can be computed anywhere."""
    if isinstance(stmt, Block):
        return True
    if isinstance(stmt, Seq):
        return all(only_blocks(one) for one in stmt.stmts)
    if isinstance(stmt, For):
        return _bounds_are_free(stmt) and only_blocks(stmt.body)
    return False


def _in_blocks(stmt: Stmt, condition: Expr) -> Stmt:
    if isinstance(stmt, Block):
        old = stmt.predicate
        return stmt.with_(predicate=condition if is_const_int(old, 1) else build.logical_and(old, condition))
    return _map_inner(stmt, lambda inner: _in_blocks(inner, condition))
