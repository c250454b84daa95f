"""The init of reduction blocks in a loop whose reductions are privatized: it moves ahead of the loop.

A block's init runs in the iteration in which all its reduction iterators are at their start. With partial results in
between, the element must be set before the first of them is combined into it; so the loops that lead to the init are
copied ahead, those that count a reduction fixed at their first iteration, which is where the init must be.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.functor import StmtMutator, Substituter, substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope, split_head
from tirlower.ir.stmt import Bind, Block, BufferStore, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.reductions.updates import mentions, refuse

__all__ = ["InitNest", "finished", "init_nest", "opaque_blocks", "ranged"]


@contextmanager
def ranged(analyzer: Analyzer, var: Var, low: Expr, extent: Expr) -> Iterator[None]:
    """A variable lies in a range: only inside, where the range is not empty."""
    with analyzer.constraint_scope(const(True, "bool")):
        analyzer.ranges.pop(var, None)  # of a scope that was left: its facts are gone
        analyzer.bind(var, Range(low, extent), allow_override=True)
        yield


@dataclass(frozen=True)
class InitNest:
    """What sets the accumulators before the loop.

    ``starts`` are, for each init inside, pairs of a reduction iterator's binding and its first value.
    """

    stmt: Stmt
    starts: tuple[tuple[tuple[Expr, Expr], ...], ...]

    def past(self, loop: For, analyzer: Analyzer) -> InitNest | None:
        """The nest for all of a loop around it, or None where its init is not proved to be in the first iteration."""
        var = loop.loop_var
        one = const(1, var.dtype)
        runs = analyzer.simplify(build.ge(loop.extent, one))
        rest = Var(var.name, var.dtype)
        with ranged(analyzer, rest, build.add(loop.min, one), build.sub(loop.extent, one)):
            for starts in self.starts:
                if not any(_after(analyzer, substitute(value, {var: rest}), first) for value, first in starts):
                    return None
        fixed = {var: loop.min}
        stmt = substitute(self.stmt, fixed)
        if not is_const_int(runs, 1):
            stmt = IfThenElse(runs, as_scope(stmt))
        moved = tuple(tuple((substitute(value, fixed), first) for value, first in each) for each in self.starts)
        return InitNest(stmt, moved)

    @property
    def reads(self) -> set[Var]:
        """The data variables of the buffers that it loads from."""
        return {load.buffer.data for load in each(BufferLoad, self.stmt)}

    def counts(self, var: Var) -> bool:
        """Whether a variable is in the binding of a reduction iterator."""
        return any(mentions(value, var) for starts in self.starts for value, _ in starts)


def _after(analyzer: Analyzer, value: Expr, first: Expr) -> bool:
    return analyzer.can_prove(build.gt(value, build.cast(value.dtype, first)))


def init_nest(loop: For, data: Collection[Var], analyzer: Analyzer) -> InitNest | None:
    """The inits of the accumulators ``data`` in a loop's body, for the whole loop; None where there are none.

    Raises :class:`LegalityError` where an init is not in the first iteration of the loop.
    """
    maker = _Maker(loop, frozenset(data), analyzer)
    with ranged(analyzer, loop.loop_var, loop.min, loop.extent):
        inner = maker.nest(loop.body)
    if inner is None:
        return None
    if inner.reads & _written(loop.body):
        maker.lost("it reads what the loop writes")
    if _calls(inner.stmt):
        maker.lost("it calls a function that may have effects")
    return maker.over(loop, inner)


class _Maker:
    def __init__(self, loop: For, data: frozenset[Var], analyzer: Analyzer) -> None:
        self.loop = loop
        self.data = data
        self.analyzer = analyzer

    def over(self, loop: For, inner: InitNest) -> InitNest:
        """The nest with a loop around it."""
        if loop is self.loop or inner.counts(loop.loop_var):
            made = inner.past(loop, self.analyzer)
            if made is None:
                refuse(
                    self.loop,
                    f"an accumulator is set anew, not in the first iteration of {loop.loop_var.name!r} alone",
                    "set it in a loop of its own before the reduction, in place of the block's init",
                )
            return made
        around = loop.with_(kind=ForKind.SERIAL, annotations={}, body=as_scope(inner.stmt), thread_tag=None)
        return InitNest(around, inner.starts)

    def nest(self, op: Stmt) -> InitNest | None:
        if isinstance(op, Seq):
            return self.of_seq(op)
        if isinstance(op, For):
            with ranged(self.analyzer, op.loop_var, op.min, op.extent):
                inner = self.nest(op.body)
            return None if inner is None else self.over(op, inner)
        if isinstance(op, Block):
            return self.of_block(op)
        if isinstance(op, IfThenElse):
            then = self.nest(op.then_case)
            other = None if op.else_case is None else self.nest(op.else_case)
            if then is None and other is None:
                return None
            if side_effect(op.condition) is not Purity.PURE:
                self.lost(f"it stands under the condition {op.condition}, which reads memory")
            cases = [case.stmt if case else None for case in (then, other)]
            stmt = IfThenElse(op.condition, cases[0] or seq(), cases[1])
            return InitNest(stmt, (*(then.starts if then else ()), *(other.starts if other else ())))
        for child in op.children():
            if isinstance(child, Stmt) and self.nest(child) is not None:
                self.lost(f"it stands inside a {type(op).__name__}")
        return None

    def of_seq(self, op: Seq) -> InitNest | None:
        found: list[Stmt] = []
        starts: list[tuple[tuple[Expr, Expr], ...]] = []
        values: dict[Var, Expr] = {}
        for stmt in op.stmts:
            if isinstance(stmt, Bind) and side_effect(stmt.value) is Purity.PURE:
                values[stmt.var] = substitute(stmt.value, values)
                continue
            inner = self.nest(substitute(stmt, values) if values else stmt)
            if inner is not None:
                found.append(inner.stmt)
                starts += inner.starts
        return InitNest(seq(*found), tuple(starts)) if found else None

    def of_block(self, op: Block) -> InitNest | None:
        values = {it.var: build.cast(it.var.dtype, it.value) for it in op.iters if it.value is not None}
        inner = self.nest(substitute(op.body, values) if values else op.body)
        if inner is not None:
            return InitNest(_guarded(op.predicate, inner.stmt), inner.starts)
        if op.init is None or not _moves(op, self.data):
            return None
        if not _written(op.init) <= self.data:
            self.lost("it sets other buffers too")
        starts = tuple(
            (values[it.var], it.domain.min) for it in op.iters if it.kind is IterKind.REDUCE and it.var in values
        )
        condition = op.predicate
        for value, first in starts:
            condition = build.logical_and(condition, build.eq(value, build.cast(value.dtype, first)))
        return InitNest(_guarded(condition, as_scope(substitute(op.init, values))), (starts,))

    def lost(self, why: str) -> NoReturn:
        refuse(
            self.loop,
            f"the init of a block cannot be moved ahead of the loop: {why}",
            "set the accumulator in a loop of its own before the reduction, in place of the block's init",
        )


def _guarded(condition: Expr, stmt: Stmt) -> Stmt:
    return stmt if is_const_int(condition, 1) else IfThenElse(condition, stmt)


def _written(stmt: Stmt) -> set[Var]:
    return {store.buffer.data for store in each(BufferStore, stmt)}


def _calls(stmt: Stmt) -> bool:
    return any(not isinstance(op.op, Op) or op.op.purity >= Purity.WRITES for op in each(Call, stmt))


def _moves(block: Block, data: frozenset[Var]) -> bool:
    """Whether the init of a block sets accumulators, and so moves ahead of the loop."""
    return block.init is not None and bool(_written(block.init) & data)


def finished(nest: InitNest, analyzer: Analyzer) -> Stmt:
    """The nest as a statement with binders of its own; conditions that hold are gone."""
    return refresh_binders(_Decided(analyzer).visit(nest.stmt))


class _Decided(Substituter, StmtMutator):
    """Drops the conditions that are proved."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__({})
        self.analyzer = analyzer

    def visit_For(self, op: For) -> Stmt:
        with ranged(self.analyzer, op.loop_var, op.min, op.extent):
            return op.with_(body=as_scope(self.visit(op.body)))

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        condition = self.analyzer.simplify(op.condition)
        then_case = as_scope(self.visit(op.then_case))
        else_case = None if op.else_case is None else as_scope(self.visit(op.else_case))
        if is_const_int(condition, 1):
            return then_case
        return op.with_(condition=condition, then_case=then_case, else_case=else_case)


class _Opaque(Substituter):
    """Blocks without iterators; an init of accumulators is dropped, any other becomes a condition in the body."""

    def __init__(self, data: frozenset[Var]) -> None:
        super().__init__({})
        self.data = data

    def visit_expr(self, root: Expr) -> Expr:
        return super().visit_expr(root) if self.vmap else root

    def visit_Block(self, op: Block) -> Stmt:
        body = op.body
        if op.init is not None and not _moves(op, self.data):
            condition: Expr = const(True, "bool")
            for it in op.iters:
                if it.kind is IterKind.REDUCE:
                    condition = build.logical_and(condition, build.eq(it.var, build.cast(it.var.dtype, it.domain.min)))
            head, rest = split_head(body)
            body = seq(*head, _guarded(condition, as_scope(op.init)), *rest)
        predicate = self.visit(op.predicate)
        values = [(it.var, self.visit(it.value).astype(it.var.dtype)) for it in op.iters if it.value is not None]
        self.vmap.update(values)
        return self.generic(op.with_(iters=(), predicate=predicate, init=None, body=body))


def opaque_blocks(body: Stmt, data: Collection[Var]) -> Stmt:
    """A loop's body with its blocks' iterators replaced by their bindings, and the inits of accumulators left out."""
    return as_scope(_Opaque(frozenset(data)).visit(body))
