"""Guards that no iteration of a loop changes stand before the loop.

A guard that every iteration meets before it does anything is met by the first one, at the loop's first value, before
anything else in the loop: there it raises what it would have raised. Where the loop may run zero times it asks that too.
"""

from __future__ import annotations

from collections.abc import Collection

from tirlower.analysis.purity import side_effect
from tirlower.ir import build
from tirlower.ir.expr import Expr, IntImm, Var, const
from tirlower.ir.functor import pre_order_visit, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Purity
from tirlower.ir.query import may_divide_by_zero, nodes
from tirlower.ir.stmt import Assert, Bind, Block, DeclBuffer, For, ForKind, Seq, Stmt, seq

__all__ = ["is_pipelined", "lifted"]

_PIPELINED = "software_pipeline"


def lifted(loop: Stmt, guards: Collection[int]) -> tuple[list[Assert], Stmt]:
    """The guards (by their ids) that can stand before a loop, as they stand there, and the loop without them.

    Loops over threads stay as they are.
    """
    if not isinstance(loop, For) or loop.kind is ForKind.THREAD_BINDING:
        return [], loop
    if max(side_effect(loop.min), side_effect(loop.extent)) is not Purity.PURE:
        return [], loop
    body, values = loop.body, {loop.loop_var: loop.min}
    block = body if isinstance(body, Block) else None
    if block is not None:
        bound = [it.value for it in block.iters if it.value is not None]
        if block.init is not None or block.match_buffers or not _is_true(block.predicate) or not _ends(*bound):
            return [], loop
        values.update({it.var: substitute(it.value, values) for it in block.iters if it.value is not None})
        body = block.body
    found, rest = _leading(loop, body, values, guards)
    if not found:
        return [], loop
    return found, loop.with_(body=rest if block is None else block.with_(body=rest))


def _leading(loop: For, body: Stmt, values: dict[Var, Expr], guards: Collection[int]) -> tuple[list[Assert], Stmt]:
    """The guards at the head of a body that can leave it, and what is left of the body."""
    found: list[Assert] = []
    kept: list[Stmt] = []
    inner: set[Var] = set(values)
    stmts = list(body.stmts) if isinstance(body, Seq) else [body]
    while stmts:
        stmt = stmts[0]
        if isinstance(stmt, Assert):
            if id(stmt) not in guards or not _fixed(stmt.condition, inner, _runs(loop)):
                break
            condition = stmt.condition
            if not _runs(loop):
                condition = build.logical_or(build.le(loop.extent, const(0, loop.extent.dtype)), condition)
            shown = substitute(stmt.message, values)
            if _mentions(shown, inner - set(values)):
                break
            found.append(Assert(condition, shown, span=stmt.span))
        elif isinstance(stmt, Bind) and side_effect(stmt.value) <= Purity.READS and _ends(stmt.value):
            inner.add(stmt.var)
            kept.append(stmt)
        elif isinstance(stmt, DeclBuffer) and _ends(*stmt.buffer.children()):
            kept.append(stmt)
        else:
            break
        stmts.pop(0)
    return found, seq(*kept, *stmts)


def is_pipelined(loop: For) -> bool:
    """Whether the statements of a loop are counted, so that none may be added to them."""
    return any(key.startswith(_PIPELINED) for key in loop.annotations)


def _runs(loop: For) -> bool:
    return isinstance(loop.extent, IntImm) and loop.extent.value > 0


def _is_true(condition: Expr) -> bool:
    return isinstance(condition, IntImm) and bool(condition.value)


def _mentions(expr: Expr, variables: Collection[Var]) -> bool:
    found = False

    def look(op: Node) -> bool:
        nonlocal found
        found = found or (op.__class__ is Var and op in variables)
        return not found

    pre_order_visit(expr, look)
    return found


def _fixed(condition: Expr, inner: Collection[Var], runs: bool) -> bool:
    """Whether a condition is the same in every iteration, and can be asked where none may run."""
    if side_effect(condition) is not Purity.PURE or _mentions(condition, inner):
        return False
    return runs or _ends(condition)


def _ends(*values: Expr) -> bool:
    """Whether values raise no error of their own, which a guard behind them must not overtake."""
    return not any(may_divide_by_zero(op) for value in values for op in nodes(value))
