"""What is in scope where: one walk over the IR that follows its rules of scope.

Checks that ask "is this variable defined here?" derive from :class:`ScopeWalker` and say in hooks what to do at a
definition, and at a use of something that is not in scope. The rules, in one place:

- a declaration (``Bind``, ``AllocBuffer``, ``AllocConst``, ``DeclBuffer``) is in scope in the rest of its ``Seq``; one
  that is a body on its own is in scope nowhere;
- a loop variable is in scope in the loop's body; the variable of a ``Let`` in the expression's body;
- the values, domains and predicate of a block are outside its iterators; regions, matched buffers, init and body are
  inside; the allocations that head the body are in scope in the init too, and in matched regions of theirs;
- an allocation defines its data variable, and the variables that stand bare as its strides or offset; a matched or
  parameter buffer also those that stand bare in its shape (in parameter order: shape, strides, offset);
- a buffer needs no declaration: it is usable where the variables of its data, shape, strides and offset are;
- an attribute may name what is in scope, or what is bound inside its region.

The walk is linear in the distinct nodes of each expression, and in the statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import ClassVar

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar, MatchBufferRegion, Range
from tirlower.ir.expr import BufferLoad, Call, Expr, Let, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node, Role
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    Seq,
    Stmt,
)

__all__ = ["ScopeWalker", "buffer_variables", "names_in"]


def buffer_variables(buffer: Buffer) -> Iterator[Var]:
    """The variables of a buffer's data, shape, strides and offset, in that order."""
    yield buffer.data
    for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        if isinstance(part, Var):
            yield part
        elif not part.is_leaf:
            yield from _variables_of(part)


def _variables_of(root: Node) -> Iterator[Var]:
    stack = [root]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.__class__ is Var:
            yield op
        elif not op.is_leaf:
            stack += reversed(list(op.children()))


def names_in(value: object) -> Iterator[Var | Buffer]:
    """The variables and buffers that an attribute value names without binding them itself."""
    stack = [value]
    seen: set[int] = set()
    bound: set[Var] = set()
    while stack:
        op = stack.pop()
        if isinstance(op, (tuple, list)):
            stack += reversed(op)
        elif isinstance(op, Mapping):
            stack += reversed(list(op.values()))
        elif isinstance(op, Node) and id(op) not in seen:
            seen.add(id(op))
            if isinstance(op, Var):
                if op not in bound:
                    yield op
            elif isinstance(op, Buffer):
                yield op
            else:
                for field in op.fields:
                    part = getattr(op, field.name)
                    if field.role is Role.BINDS and not isinstance(op, IterVar):
                        # A reducer or an index map has variables of its own.
                        bound.update(part if isinstance(part, tuple) else (part,))
                    elif field.role is Role.BUFFER or field.role is Role.BINDS:
                        stack.append(part)
                if not op.is_leaf:
                    stack += reversed(list(op.children()))


class ScopeWalker:
    """Walks functions, statements and expressions and keeps what is visible (see the module's docstring).

    ``visible`` holds the variables and buffers in scope; ``order`` numbers everything ever defined; ``stmt`` is the
    innermost statement at hand. A use of a variable in ``watched`` is reported to :meth:`on_watched`.
    """

    _methods: ClassVar[dict[type[Stmt], str]] = {
        Seq: "visit_seq",
        Bind: "visit_bind",
        AllocBuffer: "visit_alloc",
        AllocConst: "visit_declaration",
        DeclBuffer: "visit_declaration",
        BufferStore: "visit_store",
        For: "visit_loop",
        AttrStmt: "visit_attr",
        Block: "visit_block",
    }
    _table: ClassVar[dict[type, FunctionType]]

    def __init_subclass__(cls) -> None:
        """Look the methods up once, for the class with its overrides."""
        super().__init_subclass__()
        cls._table = {kind: getattr(cls, name) for kind, name in ScopeWalker._methods.items()}

    def __init__(self) -> None:
        self.visible: set[Var | Buffer] = set()
        self.order: dict[Var | Buffer, int] = {}
        self.watched: dict[Var, int] = {}
        self.stmt: Stmt | None = None
        self._undo: list[list[Var | Buffer]] = [[]]

    # Hooks

    def on_define(self, item: Var | Buffer, site: Node) -> None:
        """Called at each definition, before the item becomes visible."""

    def on_missing(self, item: Var | Buffer, site: Node, through: Buffer | None = None) -> None:
        """Called at a use of what is not in scope; ``through`` is the buffer whose part it is."""

    def on_undeclared(self, buffer: Buffer, site: Node) -> None:
        """Called at the first use in a scope of a buffer that no declaration in scope defines."""

    def on_watched(self, var: Var, site: Node) -> None:
        """Called at a use of a watched variable."""

    def on_stmt(self, stmt: Stmt, field: str, owner: Node) -> None:
        """Called before a statement that is a child of another node is visited."""

    def on_load(self, load: BufferLoad) -> None:
        """Called at each load."""

    def on_call(self, call: Call) -> None:
        """Called at each call, before its arguments."""

    # Scopes

    def push(self) -> None:
        """Enter a scope."""
        self._undo.append([])

    def pop(self) -> None:
        """Leave a scope: what it defined is visible no more."""
        self.visible.difference_update(self._undo.pop())

    def define(self, item: Var | Buffer, site: Node) -> None:
        """Bring a variable or buffer into scope."""
        self.on_define(item, site)
        self.order[item] = len(self.order)
        self.show(item)

    def show(self, item: Var | Buffer) -> None:
        """Make an item visible until the end of the scope at hand."""
        if item not in self.visible:
            self.visible.add(item)
            self._undo[-1].append(item)

    # Buffers

    def use_buffer(self, buffer: Buffer, site: Node) -> None:
        """A use of a buffer, declared or not."""
        if buffer in self.visible:
            return
        whole = True
        for var in buffer_variables(buffer):
            if var not in self.visible:
                whole = False
                self.on_missing(var, site, buffer)
        if whole:
            self.on_undeclared(buffer, site)
            self.show(buffer)

    def define_buffer(self, buffer: Buffer, site: Node) -> None:
        """A declaration of a buffer by a statement or block."""
        parts: Iterable[Expr]
        if isinstance(site, (AllocBuffer, AllocConst)):
            for extent in buffer.shape:
                self.use(extent, site)
            self.define(buffer.data, site)
            parts = (*buffer.strides, buffer.elem_offset)
        elif isinstance(site, DeclBuffer):
            for part in buffer.children():
                if part.__class__ is Var and part not in self.visible:
                    self.on_missing(part, site, buffer)
                elif part.__class__ is not Var:
                    self.use(part, site)
            parts = ()
        else:
            self._define_bare((buffer.data,), site)
            parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
        self._define_bare(parts, site)
        for part in parts:
            self.use(part, site)
        self.define(buffer, site)

    def _define_bare(self, parts: Iterable[Expr], site: Node) -> None:
        for part in parts:
            if part.__class__ is Var and part not in self.visible:
                self.define(part, site)

    # Entry points

    def walk(self, node: Node) -> None:
        """Walk a function, statement, expression, buffer or region."""
        with deep_recursion():
            if isinstance(node, PrimFunc):
                self.visit_func(node)
            elif isinstance(node, Stmt):
                self.visit(node)
            elif isinstance(node, Expr):
                self.use(node, node)
            elif isinstance(node, Buffer):
                self.use_buffer(node, node)
            else:
                self.visit_part(node)

    def visit_func(self, func: PrimFunc) -> None:
        """A function: parameters, then what their buffers bind, then the body."""
        self.push()
        for param in func.params:
            self.define(param, func)
        buffers = func.buffers
        for buffer in buffers:
            self._define_bare((buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset), func)
        for buffer in buffers:
            # What no buffer binds bare must have been a parameter.
            for part in buffer.children():
                self.use(part, func)
            self.define(buffer, func)
        if func.attrs:
            self.body_with_names(func.attrs, func, lambda: self.body(func.body, "body", func))
        else:
            self.body(func.body, "body", func)
        self.pop()

    # Statements

    def visit(self, op: Stmt) -> None:
        """Walk a statement."""
        outer, self.stmt = self.stmt, op
        method = self._table.get(op.__class__)
        if method is not None:
            method(self, op)
        else:
            self.generic(op)
        self.stmt = outer

    def generic(self, op: Node) -> None:
        """The children of a node in order; statements among them are scopes of their own."""
        for name in op.child_names:
            value = getattr(op, name)
            for item in value if value.__class__ is tuple else (value,):
                if item is None:
                    continue
                if isinstance(item, Expr):
                    self.use(item, op)
                elif isinstance(item, Stmt):
                    self.body(item, name, op)
                else:
                    self.visit_part(item)

    def body(self, stmt: Stmt, field: str, owner: Node) -> None:
        """A statement that is a scope of its own."""
        self.on_stmt(stmt, field, owner)
        self.push()
        self.visit(stmt)
        self.pop()

    def body_with_names(self, value: object, site: Node, body: Callable[[], None]) -> None:
        """A region with an attribute value; what it names is in scope around, or defined in the region."""
        named = [item for item in names_in(value) if item not in self.visible]
        start = len(self.order)
        body()
        for item in named:
            if self.order.get(item, -1) >= start:
                continue
            if isinstance(item, Var):
                self.on_missing(item, site)
            else:
                for var in buffer_variables(item):
                    if var not in self.visible and self.order.get(var, -1) < start:
                        self.on_missing(var, site, item)

    def visit_part(self, op: Node) -> None:
        """A data object: a region, range or the like."""
        if isinstance(op, BufferRegion):
            self.use_buffer(op.buffer, op)
            for part in op.region:
                self.use(part.min, op)
                self.use(part.extent, op)
        elif isinstance(op, Range):
            self.use(op.min, op)
            self.use(op.extent, op)
        else:
            self._names(op, op)

    def visit_seq(self, op: Seq) -> None:
        self.push()
        for stmt in op.stmts:
            self.on_stmt(stmt, "stmts", op)
            self.visit(stmt)
        self.pop()

    def visit_bind(self, op: Bind) -> None:
        self.use(op.value, op)
        self.define(op.var, op)

    def visit_alloc(self, op: AllocBuffer) -> None:
        self.use(op.condition, op)
        self.define_buffer(op.buffer, op)
        self._names(op.annotations, op)

    def visit_declaration(self, op: AllocConst | DeclBuffer) -> None:
        self.define_buffer(op.buffer, op)
        if isinstance(op, AllocConst):
            self._names(op.annotations, op)

    def _names(self, value: object, site: Node) -> None:
        if value:
            for item in names_in(value):
                if item not in self.visible and isinstance(item, Var):
                    self.on_missing(item, site)
                elif isinstance(item, Buffer):
                    self.use_buffer(item, site)

    def visit_store(self, op: BufferStore) -> None:
        self.use_buffer(op.buffer, op)
        self.use(op.value, op)
        for index in op.indices:
            self.use(index, op)
        if op.predicate is not None:
            self.use(op.predicate, op)

    def visit_loop(self, op: For) -> None:
        self.use(op.min, op)
        self.use(op.extent, op)
        self.push()
        self.define(op.loop_var, op)
        self.enter_loop(op)
        if op.annotations:
            self.body_with_names(op.annotations, op, lambda: self.body(op.body, "body", op))
        else:
            self.body(op.body, "body", op)
        self.leave_loop(op)
        self.pop()

    def enter_loop(self, op: For) -> None:
        """Called inside a loop's scope, before its body."""

    def leave_loop(self, op: For) -> None:
        """Called after a loop's body."""

    def visit_attr(self, op: AttrStmt) -> None:
        self.use(op.value, op)
        # An IterVar brings a variable of its own, which nothing else need define.
        named = op.node.dom if isinstance(op.node, IterVar) else op.node
        self.body_with_names(named, op, lambda: self.body(op.body, "body", op))

    def visit_block(self, op: Block) -> None:
        for it in op.iters:
            self.visit_part(it.domain)
            if it.value is not None:
                self.use(it.value, it)
        self.use(op.predicate, op)
        self.push()
        for it in op.iters:
            self.define(it.var, it)
        self.enter_block(op)
        if op.annotations:
            self.body_with_names(op.annotations, op, lambda: self._inside(op))
        else:
            self._inside(op)
        self.leave_block(op)
        self.pop()

    def enter_block(self, op: Block) -> None:
        """Called inside a block's scope, before its regions."""

    def leave_block(self, op: Block) -> None:
        """Called after a block's body."""

    def _inside(self, op: Block) -> None:
        for region in (*(op.reads or ()), *(op.writes or ())):
            self.visit_part(region)
        own = op.matches_own
        if not own:
            for match in op.match_buffers:
                self.visit_match(match)
        if op.init is None and not own:
            self.body(op.body, "body", op)
            return
        # The allocations that head the body are in scope in the init too, and in matched regions of them.
        self.on_stmt(op.body, "body", op)
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        self.push()
        done = 0
        while done < len(stmts) and stmts[done].__class__ is AllocBuffer:
            self.visit(stmts[done])
            done += 1
        if own:
            for match in op.match_buffers:
                self.visit_match(match)
        if op.init is not None:
            self.body(op.init, "init", op)
        for stmt in stmts[done:]:
            self.on_stmt(stmt, "stmts", op.body)
            self.visit(stmt)
        self.pop()

    def visit_match(self, match: MatchBufferRegion) -> None:
        """A matched buffer: its source is outside, its own variables are defined with it."""
        self.visit_part(match.source)
        self.define_buffer(match.buffer, match)

    # Expressions

    def use(self, root: Expr, site: Node) -> None:
        """Walk an expression; its places are reported at the expression's node, or at ``site``."""
        if root.is_leaf:
            if root.__class__ is Var:
                self._use_var(root, site)
            return
        seen: set[int] = set()
        inner: list[list[int]] = []  # for each Let entered, what was first seen inside it
        # None: the value of the last of `lets` is done, or (None there) the body of one is.
        stack: list[Expr | None] = [root]
        lets: list[Let | None] = []
        visible = self.visible
        while stack:
            op = stack.pop()
            if op.__class__ is Var:
                if op not in visible or op in self.watched:
                    self._use_var(op, site)
                continue
            if op is None:
                let = lets.pop()
                if let is None:
                    self.pop()
                    seen.difference_update(inner.pop())
                else:
                    self.push()
                    self.define(let.var, let)
                    inner.append([])
                    lets.append(None)
                    stack += (None, let.body)
                continue
            if id(op) in seen:
                continue
            seen.add(id(op))
            if inner:
                inner[-1].append(id(op))
            if op.__class__ is Let:
                lets.append(op)
                stack += (None, op.value)
                continue
            if op.__class__ is BufferLoad:
                self.use_buffer(op.buffer, op)
                self.on_load(op)
            elif op.__class__ is Call:
                self.on_call(op)
                if op.annotations:
                    self._names(op.annotations, op)
            if not op.is_leaf:
                stack += reversed(list(op.children()))

    def _use_var(self, var: Var, site: Node) -> None:
        if var not in self.visible:
            self.on_missing(var, site)
        elif var in self.watched:
            self.on_watched(var, site)
