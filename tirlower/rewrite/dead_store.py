"""Dead stores: values that are overwritten, or whose memory ends, before anything reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.analysis.access_summary import Access, Summarizer, Summary, contains, disjoint
from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Purity
from tirlower.ir.splice import as_scope
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["BackwardMutator", "Liveness", "eliminate_dead_stores"]

MAX_BOXES = 8
"""Boxes remembered of one buffer; beyond them, reads cover it whole and writes are forgotten."""


@dataclass
class _After:
    """What is known of one data variable at a point, of what comes after it."""

    overwritten: list[Access] = field(default_factory=list)
    """Boxes that are written whole before they are read."""
    read: list[Access] | None = None
    """All reads until the memory ends; None where it outlives the scope at hand."""


_Known: TypeAlias = "tuple[dict[Var, _After], dict[Var, None]]"
"""What is known after a point, and of what memory from elsewhere."""


class Liveness:
    """What happens to memory after a point of a Seq, walked backward.

    ``shared``: reads are those of other threads or lanes too, which no box of this one bounds.
    """

    def __init__(self, func: PrimFunc, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.aliases = Aliases(func)
        self.shared = False
        self.after: dict[Var, _After] = {}
        # Those of them that are not allocations of the function: one read may be of any of these.
        self._outside: dict[Var, None] = {}

    def begin(self, local: set[Var]) -> _Known:
        """A new Seq, whose own allocations end with it; returns what :meth:`end` takes back."""
        outer = self.after, self._outside
        self.after, self._outside = {data: _After(read=[]) for data in local}, {}
        return outer

    def end(self, outer: _Known) -> None:
        """Out of the Seq."""
        self.after, self._outside = outer

    def _aliased(self, data: Var) -> list[Var]:
        """The data variables of which something is known and that may point to the same memory."""
        if self.aliases.is_known(data):
            # Allocations are apart from each other: many of them do not make this long.
            found = [other for other in self._outside if other is not data and self.aliases.may_alias(data, other)]
            return [data, *found] if data in self.after else found
        return [other for other in self.after if self.aliases.may_alias(data, other)]

    def dead(self, access: Access) -> bool:
        """Whether what an access writes here is never read."""
        known = self.after.get(access.buffer.data)
        if known is None:
            return False
        if known.read is not None and all(self._apart(access, read) for read in known.read):
            return True
        return any(a.buffer is access.buffer and contains(self.analyzer, a.box, access.box) for a in known.overwritten)

    def _apart(self, a: Access, b: Access) -> bool:
        return a.buffer is b.buffer and not self.shared and disjoint(self.analyzer, a.box, b.box)

    def before(self, stmt: Stmt, summary: Summary) -> None:
        """Step over a statement, to the point before it."""
        if summary.opaque:
            self.clear()  # it may read anything before it writes, or never come to write
            return
        # A store reads before it writes; inside other statements the order is not known.
        ordered = isinstance(stmt, BufferStore)
        for access in summary.writes:
            data = access.buffer.data
            if access.must and (ordered or not any(self.aliases.may_alias(data, r.buffer.data) for r in summary.reads)):
                known = self.after.setdefault(data, _After())
                if data not in self.aliases.local:
                    self._outside[data] = None
                known.overwritten = [*known.overwritten, access][-MAX_BOXES:]
        for access in summary.reads:
            self._read(access)
        for pointer in summary.pointers:
            self._escape(pointer)

    def clear(self) -> None:
        """Nothing is known of what comes after; memory of this scope may be read by whatever it is."""
        self.after, self._outside = {}, {}

    def _escape(self, data: Var) -> None:
        for other in self._aliased(data):
            del self.after[other]
            self._outside.pop(other, None)

    def _read(self, access: Access) -> None:
        data = access.buffer.data
        for other in self._aliased(data):
            known = self.after[other]
            known.overwritten = [a for a in known.overwritten if other is data and self._apart(a, access)]
        known_here = self.after.get(data)
        if known_here is not None and known_here.read is not None:
            known_here.read.append(access)
            if len(known_here.read) > MAX_BOXES:
                known_here.read = None


class _Remover(StmtMutator):
    """Removes the stores to some buffers from a statement; what they evaluate for its effects stays."""

    def __init__(self, buffers: set[Buffer]) -> None:
        self.buffers = buffers

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        if op.buffer not in self.buffers:
            return op
        return seq(*[Evaluate(v, span=v.span) for v in (op.value, *op.indices) if side_effect(v) > Purity.READS])

    def visit_Seq(self, op: Seq) -> Stmt:
        done = [self.visit(stmt) for stmt in op.stmts]
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))


class BackwardMutator(FactMutator, StmtMutator):
    """Rewrites the statements of every Seq from the last to the first, knowing what comes after each.

    Inner Seqs come first. Subclasses define :meth:`rewrite`.
    """

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self.summaries = Summarizer(self.analyzer)
        self.liveness = Liveness(func, self.analyzer)

    def rewrite(self, stmt: Stmt) -> Stmt:
        """The statement to put in the place of one; ``self.liveness`` is what comes after it."""
        return stmt

    def visit_Block(self, op: Block) -> Stmt:
        return op

    def visit_For(self, op: For) -> Stmt:
        outer = self.liveness.shared
        self.liveness.shared = outer or op.kind not in (ForKind.SERIAL, ForKind.UNROLLED)
        made = super().visit_For(op)
        self.liveness.shared = outer
        return made

    def visit_Seq(self, op: Seq) -> Stmt:
        # Inner statements first: their summaries are those of what is left of them.
        local = {stmt.buffer.data for stmt in op.stmts if isinstance(stmt, AllocBuffer)}
        inner = [self.visit(stmt) for stmt in op.stmts]
        outer = self.liveness.begin(local)
        done: list[Stmt] = []
        for stmt in reversed(inner):
            stmt = self.rewrite(stmt)
            self.liveness.before(stmt, self.summaries.of(stmt))
            done.append(stmt)
        self.liveness.end(outer)
        done.reverse()
        if all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))


class _Eliminator(BackwardMutator):
    def __init__(self, func: PrimFunc, steps: int) -> None:
        super().__init__(func)
        self.steps = steps
        self.tried = 0

    def rewrite(self, stmt: Stmt) -> Stmt:
        """A statement without its stores to buffers of which nothing that it writes is read, in it or later."""
        if not isinstance(stmt, (BufferStore, For, IfThenElse, Seq)):
            return stmt
        summary = self.summaries.of(stmt)
        if isinstance(stmt, BufferStore) and summary.writes and (summary.opaque or summary.pointers):
            # What its value does comes before it is stored.
            if self.steps and self.tried >= self.steps:
                return stmt
            self.tried += 1
            return _Remover({stmt.buffer}).visit(stmt) if self.liveness.dead(summary.writes[-1]) else stmt
        if summary.opaque:
            return stmt
        dead: set[Buffer] = set()
        kept = set() if isinstance(stmt, BufferStore) else {access.buffer.data for access in summary.reads}
        kept |= summary.pointers
        for access in summary.writes:
            if access.buffer.data in kept or (self.steps and self.tried >= self.steps):
                continue
            self.tried += 1
            if self.liveness.dead(access):
                dead.add(access.buffer)
            else:
                kept.add(access.buffer.data)
        dead = {buffer for buffer in dead if buffer.data not in kept}
        return _Remover(dead).visit(stmt) if dead else stmt


def eliminate_dead_stores(func: PrimFunc, steps: int = 0) -> PrimFunc:
    """A function without the stores whose values nothing reads.

    A store is dead where every element that it writes is written again before it is read, or belongs to an
    allocation whose scope ends before it is read. Elements are compared as boxes of indices, over the loops and
    conditions inside the statements of one Seq; what certainly overwrites must fill its box. Parameter buffers may
    overlap unless the function says ``tir.noalias``. Calls with pointers, jumps, asserts and blocks end what is known.
    ``steps`` bounds the stores looked at; 0 is no bound. Effects of the values stay. Linear in the statements.

    The source of the idea is backward liveness over array regions (Creusillet and Irigoin, 1996).

    >>> from tirlower.script import parse
    >>> print(eliminate_dead_stores(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         if i < 10:
    ...             A[i] = 1
    ...     for i in range(16):
    ...         if i < 12:
    ...             A[i] = 2
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        for i in range(16):
            if i < 10:
                T.evaluate(0)
        for i in range(16):
            if i < 12:
                A[i] = 2
    """
    return func.with_body(_Eliminator(func, steps).visit(func.body))
