"""InjectDoubleBuffer: a marked buffer gets two copies, and is filled one iteration ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tirlower.analysis.access_summary import Access, Box, Summarizer, Summary, contains, disjoint
from tirlower.analysis.undefined import undefined_vars
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Expr, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Substituter, Visitor, substitute
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope, jumps_out, returns
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    DeclBuffer,
    For,
    IfThenElse,
    Seq,
    Stmt,
    While,
    is_no_op,
    seq,
)
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.copies import CopyAccesses
from tirlower.rewrite.double_buffer_marks import (
    DOUBLE_BUFFER_SCOPE,
    DOUBLE_BUFFER_WRITE,
    ORIGIN,
    Marked,
    data_of,
    marked_loops,
)
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.loop_nests import bounds_once
from tirlower.rewrite.options import integer, option

__all__ = ["InjectDoubleBuffer"]


@dataclass(eq=False)
class _Piece:
    """A statement of the loop's body, bindings put in: a producer, or one of the rest."""

    stmt: Stmt
    summary: Summary
    marked: Marked | None = None


class _Ahead(StmtMutator):
    """The body with each producer replaced by that of the next iteration, and its allocations taken out."""

    def __init__(self, fills: dict[Var, Stmt], gone: set[Var], condition: Expr | None) -> None:
        self.fills = fills
        self.gone = gone
        self.condition = condition

    def visit_For(self, op: For) -> Stmt:
        return op

    def visit_While(self, op: While) -> Stmt:
        return op

    def visit_Seq(self, op: Seq) -> Stmt:
        kept = [s for s in op.stmts if not (isinstance(s, AllocBuffer) and s.buffer.data in self.gone)]
        done = [self.visit(stmt) for stmt in kept]
        return Seq(tuple(stmt for stmt in done if not is_no_op(stmt)))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != DOUBLE_BUFFER_SCOPE or data_of(op) not in self.fills:
            return op.with_(body=self.visit(op.body))
        data = data_of(op)
        if self.condition is None:
            return seq()
        made = AttrStmt(data, DOUBLE_BUFFER_WRITE, const(1), self.fills[data], span=op.span)
        return made if is_const_int(self.condition, 1) else IfThenElse(self.condition, made, span=op.span)


class _Loop:
    """One loop and the buffers to double-buffer in it."""

    def __init__(self, loop: For, marked: list[Marked], analyzer: Analyzer, split: int) -> None:
        self.loop = loop
        self.analyzer = analyzer
        self.split = split
        self.var = loop.loop_var
        self.marked = {entry.data: entry for entry in marked}
        self.copied = {entry.data: entry.copied for entry in marked if entry.copied is not None}
        analyzer.bind(self.var, Range(loop.min, loop.extent), allow_override=True)
        self.summarizer = Summarizer(analyzer)
        self.pieces: list[_Piece] = []
        self.defined: set[Var] = {self.var}
        self.inline = Substituter({})
        self.views: dict[Buffer, DeclBuffer] = {}
        self.allocs: list[AllocBuffer] = []

    def emit(self) -> Stmt:
        """The loop with its prologue, and the allocations that were inside it in front."""
        loop = self.loop
        if jumps_out(loop.body) or returns(loop.body):
            self._refuse("it may be left early, when the next iteration is under way", "leave it at its end only")
        self._collect(loop.body)
        self._check()
        extent = loop.extent
        accesses = CopyAccesses(self.copied, lambda data: self._parity(), ORIGIN)
        body: Stmt = accesses.visit(loop.body)
        fills: dict[Var, Stmt] = {}
        for piece in self.pieces:
            if piece.marked is not None:
                fills[piece.marked.data] = accesses.visit(piece.stmt)
        prologue = [self._at(stmt, loop.min) for stmt in fills.values()]
        filled: Stmt = Seq((*prologue, *self._iterations(body, fills)))
        runs = build.gt(extent, const(0, extent.dtype))
        if not self.analyzer.can_prove(runs):
            filled = IfThenElse(runs, filled, span=loop.span)
        if not self.allocs:
            return filled
        return Seq((*[a.with_(buffer=self.copied[a.buffer.data].enlarged) for a in self.allocs], filled))

    # What the body is made of

    def _collect(self, stmt: Stmt) -> None:
        """Take the body apart into producers and the rest, in order."""
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                self._collect(part)
        elif isinstance(stmt, AttrStmt) and stmt.key == DOUBLE_BUFFER_SCOPE and data_of(stmt) in self.marked:
            self._add(stmt.body, self.marked[data_of(stmt)])
        elif isinstance(stmt, (AttrStmt, IfThenElse)) and self._holds_mark(stmt):
            if isinstance(stmt, IfThenElse):
                self._refuse("its producer stands in a condition", "put the condition inside the producer")
            self._collect(stmt.body)
        elif isinstance(stmt, AllocBuffer) and stmt.buffer.data in self.marked:
            self._move_out(stmt)
        else:
            if isinstance(stmt, Bind):
                self.defined.add(stmt.var)
            elif isinstance(stmt, (AllocBuffer, AllocConst)):
                self.defined.add(stmt.buffer.data)
            elif isinstance(stmt, DeclBuffer):
                self.views[stmt.buffer] = stmt
            self._add(stmt, None)
            if isinstance(stmt, Bind) and not stmt.var.dtype.is_handle:
                self.inline.vmap[stmt.var] = self.inline.visit_expr(stmt.value)

    def _holds_mark(self, stmt: Stmt) -> bool:
        stack: list[Stmt] = [stmt]
        while stack:
            op = stack.pop()
            if isinstance(op, AttrStmt):
                if op.key == DOUBLE_BUFFER_SCOPE and data_of(op) in self.marked:
                    return True
                stack.append(op.body)
            elif isinstance(op, Seq):
                stack += op.stmts
            elif isinstance(op, IfThenElse):
                stack += [op.then_case, *([op.else_case] if op.else_case is not None else [])]
        return False

    def _add(self, stmt: Stmt, marked: Marked | None) -> None:
        if marked is not None:
            uses = _BuffersUsed()
            uses.visit(stmt)
            views = [decl for buffer, decl in self.views.items() if buffer in uses.found]
            stmt = Seq((*views, stmt)) if views else stmt
        plain: Stmt = self.inline.visit(stmt)
        if marked is not None:
            free = set(undefined_vars(plain)) & (self.defined - {self.var} - self.marked.keys())
            if free:
                names = ", ".join(sorted(repr(var.name) for var in free))
                self._refuse(f"its producer uses {names}, defined in the loop", "define it outside the loop")
        self.pieces.append(_Piece(plain, self.summarizer.of(plain), marked))

    def _move_out(self, alloc: AllocBuffer) -> None:
        inner = {var for part in (*alloc.buffer.shape, alloc.condition) for var in undefined_vars(part)} & self.defined
        if inner:
            self._refuse(
                f"the size of its buffer {alloc.buffer.name!r} depends on {min(v.name for v in inner)!r}",
                "allocate it outside the loop with the largest size",
            )
        self.allocs.append(alloc)

    # Whether the producer may run an iteration early

    def _check(self) -> None:
        producers = [at for at, piece in enumerate(self.pieces) if piece.marked is not None]
        for at in producers:
            one = self.pieces[at]
            marked = one.marked
            assert marked is not None
            if one.summary.opaque and not one.summary.pointers:
                self._refuse("its producer may do anything", "mark the statements that fill the buffer only")
            for position, other in enumerate(self.pieces):
                if other.marked is not None:
                    continue  # the producers keep their order
                before = position < at
                if before and any(a.buffer.data is marked.data for a in _all(other.summary)):
                    self._refuse(
                        f"{marked.data.name!r} is used before its producer in the iteration",
                        "put the producer first: it fills the buffer for its own iteration",
                    )
                self._check_pair(one.summary, other.summary, 0 if before else 1)
            if not marked.inside:
                self._check_filled(marked, at)

    def _check_pair(self, fill: Summary, other: Summary, distance: int) -> None:
        """The producer of an iteration runs before what stood before it (distance 0), or in the iteration before it."""
        if fill.opaque and other.opaque:
            self._refuse("its producer and another statement may do anything", "mark plain statements only")
        for data in (fill.pointers | other.pointers) - self.marked.keys():
            written = _touches(fill, data, fill.opaque, True) or _touches(other, data, other.opaque, True)
            if written and _touches(fill, data, True, False) and _touches(other, data, True, False):
                self._refuse(f"its producer and another statement both access {data.name!r}", _HELP)
        pairs = [(w, a) for w in fill.writes for a in _all(other)] + [(r, w) for r in fill.reads for w in other.writes]
        for x, y in pairs:
            if x.buffer.data is not y.buffer.data or x.buffer.data in self.marked:
                continue
            if x.buffer is y.buffer and disjoint(self.analyzer, self._moved(x.box, distance), y.box):
                continue
            self._refuse(f"its producer and another statement both access {x.buffer.name!r}", _HELP)

    def _moved(self, box: Box, by: int) -> Box:
        if not by:
            return box
        later = {self.var: build.add(self.var, const(by, self.var.dtype))}
        return tuple(
            type(part)(
                None if part.min_value is None else substitute(part.min_value, later),
                None if part.max_value is None else substitute(part.max_value, later),
            )
            for part in box
        )

    def _check_filled(self, marked: Marked, at: int) -> None:
        """A buffer that outlives the iteration must be filled anew in each: what is read was written in it."""
        whole: list[Access] = []
        producer = self.pieces[at].stmt
        parts = list(producer.stmts) if isinstance(producer, Seq) else [producer]
        for part in [*parts, *[piece.stmt for piece in self.pieces[at + 1 :]]]:
            made = self.summarizer.of(part)
            reads = [r for r in made.reads if r.buffer.data is marked.data]
            for read in reads:
                if not any(w.buffer is read.buffer and contains(self.analyzer, w.box, read.box) for w in whole):
                    self._refuse(
                        f"{marked.data.name!r} is allocated outside the loop, and may be read where this iteration did "
                        "not write it",
                        "allocate the buffer in the loop, or fill all of it in the producer",
                    )
            if marked.data in made.pointers:
                self._refuse(
                    f"{marked.data.name!r} is allocated outside the loop, and its pointer is passed on",
                    "allocate the buffer in the loop",
                )
            whole += [w for w in made.writes if w.must and w.buffer.data is marked.data]

    # The new loop

    def _parity(self) -> Expr:
        """Which copy belongs to an iteration."""
        count = build.sub(self.var, self.loop.min)
        return build.floormod(count, const(2, count.dtype))

    def _at(self, stmt: Stmt, time: Expr) -> Stmt:
        """A fresh copy of a statement at an iteration."""
        return as_scope(refresh_binders(stmt, {self.var: time}))

    def _number(self, value: int) -> Expr:
        return const(value, self.var.dtype)

    def _iterations(self, body: Stmt, fills: dict[Var, Stmt]) -> list[Stmt]:
        loop, low, extent = self.loop, self.loop.min, self.loop.extent
        end = build.add(low, extent)
        later = build.add(self.var, self._number(1))
        inside = build.lt(later, end)
        gone = {alloc.buffer.data for alloc in self.allocs}
        ahead = {data: self._at(stmt, later) for data, stmt in fills.items()}
        always = _Ahead(ahead, gone, const(True, "bool")).visit(body)
        guarded = _Ahead(ahead, gone, build.likely(inside)).visit(body)
        never = _Ahead(ahead, gone, None).visit(body)
        if self.split == 0:
            return [loop.with_(body=guarded)]
        last = build.sub(extent, self._number(1))
        if self.split == 1:
            final = self._at(never, build.add(low, last))
            return self._looped(loop.with_(extent=self._simple(last), body=always), final)
        factor = self._number(self.split)
        outer = build.floordiv(last, factor)
        var = Var(f"{self.var.name}_outer", self.var.type)
        steps = [build.add(low, build.add(build.mul(var, factor), self._number(j))) for j in range(self.split)]
        copies = Seq(tuple(self._at(always, step) for step in steps))
        main = loop.with_(loop_var=var, min=self._number(0), extent=self._simple(outer), body=copies)
        tail: list[Stmt] = []
        for j in range(self.split):
            time = self._simple(build.add(low, build.add(build.mul(outer, factor), self._number(j))))
            here = self.analyzer.simplify(build.lt(time, end))
            if j == 0:
                here = const(True, "bool")
            if is_const_int(here, 0):
                break
            # The last of them has no next iteration: there are fewer left than the factor.
            more = self.analyzer.simplify(build.lt(build.add(time, self._number(1)), end))
            chosen = (
                never if j == self.split - 1 or is_const_int(more, 0) else always if is_const_int(more, 1) else guarded
            )
            stmt = self._at(chosen, time)
            tail.append(stmt if is_const_int(here, 1) else IfThenElse(here, stmt))
        return self._looped(main, *tail)

    def _simple(self, expr: Expr) -> Expr:
        return self.analyzer.simplify(expr)

    @staticmethod
    def _looped(main: For, *tail: Stmt) -> list[Stmt]:
        return [*(() if is_const_int(main.extent, 0) else (main,)), *tail]

    def _refuse(self, why: str, help: str) -> NoReturn:
        raise TransformError(
            f"the loop {self.var.name!r} cannot be double-buffered: {why}",
            origin=ORIGIN,
            span=self.loop.span,
            help=help,
        )


class _BuffersUsed(Visitor):
    """The buffers that a statement names."""

    def __init__(self) -> None:
        self.found: set[Buffer] = set()

    def visit_buffer(self, buffer: Buffer) -> None:
        self.found.add(buffer)


_HELP = "the producer of the next iteration runs early: it may not read what this iteration writes, nor the other way"


def _all(summary: Summary) -> list[Access]:
    return [*summary.reads, *summary.writes]


def _touches(summary: Summary, data: Var, pointers: bool, writes: bool) -> bool:
    """Whether a statement accesses (or writes) memory, through pointers too."""
    accesses = summary.writes if writes else _all(summary)
    return (pointers and data in summary.pointers) or any(a.buffer.data is data for a in accesses)


class _Injector(FactMutator, StmtMutator):
    def __init__(self, func: PrimFunc, targets: dict[For | While, list[Marked]], split: int) -> None:
        super().__init__(func)
        self.targets = targets
        self.split = split
        self.enlarged: dict[Var, Buffer] = {}

    def visit_For(self, op: For) -> Stmt:
        marked = self.targets.get(op)
        made = super().visit_For(op)
        if not marked:
            return made
        assert isinstance(made, For)
        for entry in marked:
            if not entry.inside and entry.copied is not None:
                self.enlarged[entry.data] = entry.copied.enlarged
        named, once = bounds_once(made)
        emitted = _Loop(once, marked, self.analyzer, self.split).emit()
        return as_scope(seq(*named, emitted)) if named else emitted

    def visit_Seq(self, op: Seq) -> Stmt:
        made = super().visit_Seq(op)
        if not self.enlarged or not isinstance(made, Seq):
            return made
        stmts: list[Stmt] = []
        for stmt in made.stmts:
            if isinstance(stmt, AllocBuffer) and stmt.buffer.data in self.enlarged:
                stmt = stmt.with_(buffer=self.enlarged[stmt.buffer.data])
            stmts.append(stmt)
        return Seq(tuple(stmts))


class InjectDoubleBuffer(FuncPass):
    """A buffer marked ``double_buffer_scope`` gets twice its size, and is filled one iteration ahead.

    The mark is ``T.attr(B.data, "double_buffer_scope", 1)`` around the statements that fill ``B`` in a serial loop (a
    block's annotation of that name, the index of the written buffer, becomes it in LowerOpaqueBlock). What fills it for
    the first iteration moves in front of the loop; in the loop stands, within the attribute ``double_buffer_write``,
    what fills it for the next one. Iteration ``i`` uses the copy ``i % 2``, and its producer with it. ``B`` is 1-D,
    allocated in the loop (the allocation moves in front of it) or around it (then the producer must write whatever is
    read). Where the loop may have no iteration, all is under ``if extent > 0``.

    ``split_loop``: 1 takes the last iteration, which has no next one, out of the loop; an even number also unrolls by
    it, so that the parities are constants, with a guarded tail; 0 leaves the loop whole, the producer under
    ``likely(i + 1 < extent)``.

    Needs FlattenBuffer. A mark outside a loop, in one whose iterations have no order, or of a buffer that is not
    allocated here is left, with a warning. Raises :class:`TransformError` for a buffer that is not flat, has several
    producers or is used outside the loop or before its producer; for a loop that is left early; where the producer
    stands in a condition, or reads what the rest of the loop writes (or the other way), so that it cannot run early.

    >>> from tirlower.script import parse
    >>> print(InjectDoubleBuffer()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    ...     for i in range(8):
    ...         B = T.alloc_buffer((8,), "float32")
    ...         with T.attr(B.data, "double_buffer_scope", 1):
    ...             for j in range(8):
    ...                 B[j] = A[i * 8 + j]
    ...         for j in range(8):
    ...             C[i * 8 + j] = B[j] + T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
        B = T.alloc_buffer((16,))
        for j in range(8):
            B[j] = A[j]
        for i in range(7):
            with T.attr(B.data, "double_buffer_write", 1):
                for j in range(8):
                    B[(i + 1) % 2 * 8 + j] = A[(i + 1) * 8 + j]
            for j in range(8):
                C[i * 8 + j] = B[i % 2 * 8 + j] + T.float32(1)
        for j in range(8):
            C[56 + j] = B[8 + j] + T.float32(1)
    """

    name = ORIGIN
    stage = Stage.FLAT_1D
    needs = (
        "tir.FlattenBuffer",
        Fact.OWN_STORAGE,
        Fact.DIVISIONS,
        Fact.PLAIN_EXPRESSIONS,
        Fact.UNMARKED,
        Fact.UNORDERED,
    )
    breaks = (Fact.LANES, Fact.ONE_BUFFER, Fact.SINGLE_STATEMENTS)
    # With an odd number the parities of the copies would differ between the unrolled rounds.
    split_loop: int = option(
        default=1, takes="0, 1 or an even number", fits=lambda n: integer(1).fits(n) and (n == 1 or n % 2 == 0)
    )

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Double-buffer the marked buffers of a function."""
        targets = marked_loops(func)
        return func.with_body(_Injector(func, targets, self.split_loop).visit(func.body)) if targets else func
