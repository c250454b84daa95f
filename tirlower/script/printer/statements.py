"""Statements as lines of a script.

Each node is printed in the classic form that means exactly it; where a form would come back as something else (a
loop whose extent the parser would simplify, a Seq that is no scope of a declaration), the exact form is printed
(``T.serial(T.Range(a, extent=b))``, ``with T.Seq():``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, IterVar
from tirlower.ir.digest import expr_deep_equal
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import Call, Expr, FloatImm, StringImm, Var, is_const_int
from tirlower.ir.functor import by_class
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BlockIter,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    true_condition,
)
from tirlower.script.printer.document import CLOSE, Piece, open_mark
from tirlower.script.printer.literals import annotation_text, bare_text, string_text, type_text
from tirlower.script.printer.regions import EXACT, RegionPrinter, stop_of

__all__ = ["StmtPrinter"]

_KINDS = {
    ForKind.SERIAL: "serial", ForKind.PARALLEL: "parallel", ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unroll", ForKind.THREAD_BINDING: "thread_binding",
}  # fmt: skip
_LETTERS = {IterKind.SPATIAL: "S", IterKind.REDUCE: "R", IterKind.SCAN: "C", IterKind.OPAQUE: "O"}
_DECLARATIONS = (Bind, AllocBuffer, AllocConst, DeclBuffer)


class StmtPrinter(RegionPrinter):
    """Prints statements into a document."""

    def statement(self, op: Stmt) -> None:
        """Print a statement into the scope at hand."""
        handler = _STATEMENTS.get(op.__class__)
        if handler is None:
            self.ill_formed(op, "this is no statement")
            return
        level, depth = self.doc.level, self.names.depth
        try:
            handler(self, op)
        except (AttributeError, LookupError, TirError, TypeError, ValueError) as err:
            # A node built of what its fields cannot hold: messages show it all the same.
            self.doc.level = level
            self.names.pop_to(depth)
            self.discard()
            self.ill_formed(op, f"{type(err).__name__}: {err}")

    def ill_formed(self, op: object, why: str) -> None:
        """Mark something that no script can say."""
        self.doc.line([f"# ill-formed: {type(op).__name__}: {' '.join(why.split())}"], op)

    def body(self, op: Stmt) -> None:
        """Print the body of a statement, indented, in a scope of its own."""
        self.doc.level += 1
        self.names.push()
        before = len(self.doc.lines)
        self.rest(op)
        self._need_line(before)
        self.names.pop()
        self.doc.level -= 1

    def _need_line(self, before: int) -> None:
        """A body has a line that is no comment."""
        if all(line.lstrip().startswith("#") for line in self.doc.lines[before:]):
            self.doc.line(["pass"])

    def rest(self, op: Stmt) -> None:
        """Print what fills the rest of a scope: the statements of a Seq stand in it directly."""
        if op.__class__ is Seq and len(op.stmts) > 1:
            for stmt in op.stmts:
                self.statement(stmt)
        else:
            self.statement(op)

    def print_other(self, op: object) -> NoReturn:
        """What is no expression of the dialect makes its statement ill-formed. Raises TypeError."""
        raise TypeError(f"{type(op).__name__} is no expression of the dialect")

    # Sequences and declarations

    def print_seq(self, op: Seq) -> None:
        """A Seq inside a scope is one of its own: a ``with`` of its first declaration, or ``with T.Seq():``."""
        self.names.push()
        rest = list(op.stmts)
        if rest and isinstance(rest[0], _DECLARATIONS) and self.declare(rest[0], op):
            first = rest.pop(0)
        else:
            first = None
            self.emit(["with T.Seq():"], op)
        self.doc.level += 1
        before = len(self.doc.lines)
        if first is not None:
            self._after(first)
        for stmt in rest:
            self.statement(stmt)
        self._need_line(before)
        self.doc.level -= 1
        self.names.pop()

    def _after(self, op: Stmt) -> None:
        """What follows a declaration: the buffer of a data variable, and views that can be declared now."""
        if isinstance(op, (AllocConst, AllocBuffer)) and op.buffer in self.claims:
            self.claim(op.buffer)
        for view in self.scan.views.get(id(op), ()):
            self.view(view)

    def declare(self, op: Bind | AllocBuffer | AllocConst | DeclBuffer, scope: Seq | None = None) -> bool:
        """Print a declaration; with ``scope``, as the head of a ``with``. Whether the dialect can say it."""
        if isinstance(op, Bind):
            self._bind(op, scope)
            return True
        made = self.declaration(op)
        if made is None:
            return False
        name, form, item = made
        if scope is None:
            self.emit([*self.mark(item, name), " = ", *form], op)
        else:
            self.emit(["with ", *form, " as ", *self.mark(item, name), ":"], scope, op)
        return True

    def print_declaration(self, op: Bind | AllocBuffer | AllocConst | DeclBuffer) -> None:
        """``x: T.int32 = value``, ``A = T.alloc_buffer(…)``, ``B = T.decl_buffer(…, data=…)`` …"""
        if self.declare(op):
            self._after(op)
        else:
            self.ill_formed(op, "the dialect has no form for this declaration")

    def _bind(self, op: Bind, scope: Seq | None) -> None:
        var = op.var
        value = self.pieces(op.value)
        nodes = (op,) if scope is None else (scope, op)
        early = var in self.scan.early and var in self.names.of
        if not early and scope is None:
            name = self.names.define(var, var.name)
            self.emit([*self.mark(var, name), f": {annotation_text(var)} = ", *value], op)
        elif early or var.nonneg or var.dtype.is_custom:
            # The variable is made first, for an attribute that names it or for what no annotation can say.
            if not early:
                self.make([var], [var.name])
            head = ["T.LetStmt(", *value, ", var=", *self.mark(var, self.var(var)), ")"]
            self.emit(head if scope is None else ["with ", *head, ":"], *nodes)
        else:
            kind = f", {type_text(var.type)}" if var.dtype.is_handle else ""
            target = self.mark(var, self.names.define(var, var.name))
            self.emit(["with T.LetStmt(", *value, f"{kind}) as ", *target, ":"], *nodes)

    # Loops and branches

    def print_for(self, op: For) -> None:
        """A loop; nested plain loops from 0 are one ``T.grid``."""
        nest = self._grid(op)
        header = self._grid_header(nest) if len(nest) > 1 else self._loop_header(op)
        for loop in nest:
            self.loops[loop.loop_var] = (loop.min, loop.extent)
        self.emit(header, *nest)
        self.doc.level += 1
        before = len(self.doc.lines)
        for loop in nest:
            for view in self.scan.views.get(id(loop), ()):
                self.view(view)
        self.names.push()
        self.rest(nest[-1].body)
        self._need_line(before)
        self.names.pop()
        self.doc.level -= 1
        self.names.pop()

    def _grid_header(self, nest: Sequence[For]) -> list[Piece]:
        """``for i, j in T.grid(m, n):``; opens the scope of the names."""
        extents = self.listed([loop.extent for loop in nest])
        self.names.push()
        names: list[Piece] = []
        for loop in nest:
            var = loop.loop_var
            names += ([", "] if names else []) + self.mark(var, self.names.define(var, var.name))
        return ["for ", *names, " in T.grid(", *extents, "):"]

    def _loop_header(self, op: For) -> list[Piece]:
        """``for i in T.parallel(n):``; opens the scope of the name."""
        var = op.loop_var
        bounds = self._bounds(op)
        options: list[Piece] = []
        if op.kind is ForKind.THREAD_BINDING:
            options.append(f", thread={string_text(op.thread_tag or '')}")
        if op.annotations:
            options += [", annotations=", *self.attr_pieces(op.annotations)]
        early = self.names.of.get(var) if var in self.scan.early else None
        self.names.push()
        if early is not None:
            options.append(f", var={early}")
        plain = self.style.sugar and op.kind is ForKind.SERIAL and not options and bounds[0] != EXACT
        name = self.mark(var, early or self.names.define(var, var.name))
        return ["for ", *name, f" in {'range' if plain else 'T.' + _KINDS[op.kind]}(", *bounds, *options, "):"]

    def _grid(self, op: For) -> list[For]:
        nest = [op]
        if not self.style.sugar or not self._plain(op):
            return nest
        inside = {op.loop_var}
        while isinstance(nest[-1].body, For) and self._plain(nest[-1].body):
            loop = nest[-1].body
            if loop.loop_var in inside or _mentions(loop.extent, inside):
                break
            nest.append(loop)
            inside.add(loop.loop_var)
        return nest

    def _plain(self, op: For) -> bool:
        return (
            op.kind is ForKind.SERIAL
            and not op.annotations
            and is_const_int(op.min, 0)
            and op.loop_var not in self.scan.early
        )

    def _bounds(self, op: For) -> list[Piece]:
        """The arguments that give a loop's range."""
        if is_const_int(op.min, 0):
            return self.pieces(op.extent)
        stop = stop_of(op.min, op.extent)
        if stop is not None:
            return [*self.pieces(op.min), ", ", *self.pieces(stop)]
        return self.exact_range(op.min, op.extent)

    def print_while(self, op: While) -> None:
        """``while condition:``."""
        self.emit(["while ", *self.pieces(op.condition), ":"], op)
        self.body(op.body)

    def print_if(self, op: IfThenElse) -> None:
        """``if``, ``elif`` and ``else``."""
        self.emit(["if ", *self.pieces(op.condition), ":"], op)
        self.body(op.then_case)
        while isinstance(op.else_case, IfThenElse):
            chained = op.else_case
            condition = self.pieces(chained.condition)
            if self.needs_lines:
                self.discard()  # the condition needs lines before it: it stands in an `else`
                break
            self.emit(["elif ", *condition, ":"], chained)
            self.body(chained.then_case)
            op = chained
        if op.else_case is not None:
            self.doc.line(["else:"])
            self.body(op.else_case)

    # Simple statements

    def print_store(self, op: BufferStore) -> None:
        """``A[i] = value``; with a predicate, ``A.vstore([i], value, predicate=p)``."""
        if op.value.__class__ is FloatImm and op.predicate is None and self.is_bare(op.value):
            value = self.mark(op.value, bare_text(op.value))
        else:
            value = self.pieces(op.value)
        name = self.mark(op.buffer, self.buffer(op.buffer))
        if op.predicate is None:
            target = self.flatten(self.indices(op.indices))
            self.emit([*name, "[", *target, "] = ", *value], op)
            return
        indices = self.listed(op.indices)
        mask = self.pieces(op.predicate)
        self.emit([*name, ".vstore([", *indices, "], ", *value, ", predicate=", *mask, ")"], op)

    def print_evaluate(self, op: Evaluate) -> None:
        """A call stands alone; other values are ``T.evaluate(x)``."""
        pieces = self.pieces(op.value)
        if isinstance(op.value, Call):
            self.emit(pieces, op)
        else:
            self.emit(["T.evaluate(", *pieces, ")"], op)

    def print_assert(self, op: Assert) -> None:
        """``assert condition, "message"``."""
        condition, message = self.pieces(op.condition), self.pieces(op.message)
        if isinstance(op.message, StringImm):
            self.emit(["assert ", *condition, ", ", *message], op)
        else:
            self.emit(["T.Assert(", *condition, ", ", *message, ")"], op)

    def print_attr(self, op: AttrStmt) -> None:
        """``with T.attr(node, "key", value):``."""
        self.names.push()
        for var in self._named_early(op.node):
            self.make([var], [var.name])
        node = self.attr_pieces(op.node)
        value = self.pieces(op.value)
        self.emit(["with T.attr(", *node, f", {string_text(op.key)}, ", *value, "):"], op)
        self.body(op.body)
        self.names.pop()

    def _named_early(self, node: object) -> list[Var]:
        if not self.scan.early:
            return []
        parts = node if isinstance(node, tuple) else (node,)
        found = [p.var if isinstance(p, IterVar) else p for p in parts]
        return [p for p in found if isinstance(p, Var) and p in self.scan.early and p not in self.names.of]

    # Blocks

    def print_block(self, op: Block) -> None:
        """``with T.block("name"):`` with its axes, regions, annotations, buffers, init and body."""
        self.emit([f"with T.block({string_text(op.name)}):"], op)
        self.doc.level += 1
        self.names.push()
        self.axes(op.iters)
        if not true_condition(op.predicate):
            self.emit(["T.where(", *self.pieces(op.predicate), ")"])
        for word, regions in (("reads", op.reads), ("writes", op.writes)):
            if regions is not None:
                listed: list[Piece] = []
                for region in regions:
                    listed += ([", "] if listed else []) + self.region(region)
                self.emit([f"T.{word}(", *listed, ")"])
        if op.annotations:
            self.emit(["T.block_attr(", *self.attr_pieces(op.annotations), ")"])
        own = op.matches_own
        if not own:
            self._matches(op)
        self.names.push()
        inner = op.body
        rest = list(inner.stmts) if isinstance(inner, Seq) and len(inner.stmts) > 1 else [inner]
        while rest and isinstance(rest[0], AllocBuffer):
            self.statement(rest.pop(0))
        if own:
            self._matches(op)
        if op.init is not None:
            self.doc.line(["with T.init():"])
            self.body(op.init)
        for stmt in rest:
            self.statement(stmt)
        if not rest and not op.alloc_buffers:
            self.doc.line(["pass"])
        self.names.pop()
        self.names.pop()
        self.doc.level -= 1

    def _matches(self, op: Block) -> None:
        """The matched regions, and the views that they need."""
        for match in op.match_buffers:
            self.match(match)
        for view in self.scan.views.get(id(op), ()):
            self.view(view)

    def axes(self, iters: Sequence[BlockIter]) -> None:
        """The axes; neighbours that are loop variables over their loop's range are one ``T.axis.remap``."""
        at = 0
        while at < len(iters):
            end = at
            while end < len(iters) and self._remaps(iters[end]):
                end += 1
            if end - at > 1:
                run = iters[at:end]
                values: list[Piece] = []
                for it in run:
                    assert it.value is not None
                    values += ([", "] if values else []) + self.pieces(it.value)
                names: list[Piece] = []
                for it in run:
                    names += ([", "] if names else []) + self.mark(it.var, self.names.define(it.var, it.var.name))
                letters = "".join(_LETTERS[it.kind] for it in run)
                self.emit([*names, f' = T.axis.remap("{letters}", [', *values, "])"], *run)
                at = end
            else:
                self.axis(iters[at])
                at += 1

    def _remaps(self, it: BlockIter) -> bool:
        if not self.style.sugar or not isinstance(it.value, Var):
            return False
        known = self.loops.get(it.value)
        return (
            known is not None
            and it.var.dtype is it.value.dtype
            and expr_deep_equal(known[0], it.domain.min)
            and expr_deep_equal(known[1], it.domain.extent)
        )

    def axis(self, it: BlockIter) -> None:
        """``vi = T.axis.spatial(extent, value)``."""
        # A bare number would take the type of the binding.
        typed = it.value is not None and it.value.dtype is not INT32
        domain = it.domain
        if is_const_int(domain.min, 0):
            text = self.pieces(domain.extent, explicit=typed)
        else:
            stop = build.add(domain.min, domain.extent)
            if expr_deep_equal(build.sub(stop, domain.min), domain.extent):
                text = ["(", *self.pieces(domain.min, explicit=typed), ", ", *self.pieces(stop, explicit=typed), ")"]
            else:
                text = self.exact_range(domain.min, domain.extent)
        if self.marks:
            text = [open_mark(domain), *text, CLOSE]
        value = [", ", *self.pieces(it.value)] if it.value is not None else []
        name = self.mark(it.var, self.names.define(it.var, it.var.name))
        self.emit([*name, f" = T.axis.{it.kind.value}(", *text, *value, ")"], it)


def _mentions(expr: Expr, variables: set[Var]) -> bool:
    stack = [expr]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if op in variables:
            return True
        if id(op) not in seen:
            seen.add(id(op))
            stack += op.children()
    return False


_STATEMENTS: dict[type, Callable[[StmtPrinter, object], None]] = by_class(
    {
        Seq: StmtPrinter.print_seq,
        For: StmtPrinter.print_for,
        While: StmtPrinter.print_while,
        IfThenElse: StmtPrinter.print_if,
        BufferStore: StmtPrinter.print_store,
        Bind: StmtPrinter.print_declaration,
        AllocBuffer: StmtPrinter.print_declaration,
        AllocConst: StmtPrinter.print_declaration,
        DeclBuffer: StmtPrinter.print_declaration,
        Evaluate: StmtPrinter.print_evaluate,
        Assert: StmtPrinter.print_assert,
        AttrStmt: StmtPrinter.print_attr,
        Block: StmtPrinter.print_block,
    }
)
