"""ConvertSSA: every variable and buffer of a module has one definition."""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer, MatchBufferRegion
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, Let, Var
from tirlower.ir.field_walk import Scopes
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Substituter
from tirlower.ir.node import Node
from tirlower.ir.refresh import copy_var
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
from tirlower.rewrite.base import ModulePass
from tirlower.rewrite.context import PassContext

__all__ = ["ConvertSSA"]


class _Converter(Substituter):
    """Walks the functions of a module in order. ``taken`` are the variables and buffers defined so far, ``scopes`` what
    stands for each variable in the scope at hand, ``declared`` what stands for each buffer."""

    folds = False

    def __init__(self) -> None:
        super().__init__({})
        self.taken: set[Var | Buffer] = set()
        self.scopes: Scopes[Var, Expr] = Scopes()
        self.vmap = self.scopes.table
        self.declared: Scopes[Buffer, Buffer] = Scopes()
        self.axes: dict[tuple[str, DataType], Var] = {}
        # What a name last stood for: an attribute may name what its region defined.
        self.latest: dict[Var, Var] = {}
        self.latest_buffers: dict[Buffer, Buffer] = {}
        self.in_attr = False
        # The buffers whose cached rewriting depends on a variable.
        self.uses: dict[Var, list[Buffer]] = {}

    # Scopes

    def begin(self) -> None:
        self.scopes.push()
        self.declared.push()

    def leave(self) -> None:
        for var, _ in self.scopes.pop():
            self.forget(var)
        self.declared.pop()

    def forget(self, var: Var) -> None:
        for buffer in self.uses.pop(var, ()):
            self.buffers.pop(buffer, None)

    def define(self, var: Var, as_: Var | None = None) -> Var:
        """A definition in the scope at hand; ``as_`` is the variable that it must get."""
        new = as_
        if new is None:
            new = var if var not in self.taken else copy_var(var)
        self.taken.add(new)
        self.scopes.bind(var, new)
        self.latest[var] = new
        self.forget(var)
        return new

    def define_bare(self, parts: Iterable[object]) -> None:
        for part in parts:
            if part.__class__ is Var and part not in self.vmap:
                self.define(part)

    def define_buffer(self, buffer: Buffer) -> Buffer:
        new = buffer.map_children(self.visit_expr)
        if new in self.taken:
            new = Buffer(*[getattr(buffer, field.name) for field in buffer.fields])
        self.taken.add(new)
        self.declared.bind(buffer, new)
        self.latest_buffers[buffer] = new
        return new

    def scoped(self, stmt: Stmt) -> Stmt:
        """A statement that is a scope of its own."""
        self.begin()
        new = self.visit(stmt)
        self.leave()
        return new

    def named(self, value: object) -> object:
        """An attribute's value, after its region."""
        outer, self.in_attr = self.in_attr, True
        new = self.map_attr(value)
        self.in_attr = outer
        return new

    # Uses

    def visit_Var(self, op: Var) -> Expr:
        if self.in_attr and op not in self.vmap:
            return self.latest.get(op, op)
        return self.vmap.get(op, op)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        known = self.declared.table.get(buffer)
        if known is not None:
            return known
        if self.in_attr:
            known = self.latest_buffers.get(buffer)
            return known if known is not None else buffer.map_children(self.visit_expr)
        known = self.buffers.get(buffer)
        if known is None:
            known = self.buffers[buffer] = buffer.map_children(self.visit_expr)
            for var in buffer_variables(buffer):
                self.uses.setdefault(var, []).append(buffer)
        return known

    def enter_Let(self, op: Let) -> object:
        value = self.visit_expr(op.value)
        self.begin()
        var = self.define(op.var)
        body = self.visit_expr(op.body)
        self.leave()
        return op.with_(var=var, value=value, body=body)

    # Statements

    def visit_Seq(self, op: Seq) -> Stmt:
        self.begin()
        done = tuple([self.visit(stmt) for stmt in op.stmts])
        self.leave()
        return op if all(a is b for a, b in zip(done, op.stmts, strict=True)) else op.with_(stmts=done)

    def visit_Stmt(self, op: Stmt) -> Stmt:
        """Statements inside are scopes of their own."""
        buffer = {"buffer": self.map_buffer(op.buffer)} if isinstance(op, BufferStore) else {}

        def visit(part: Node) -> Node:
            return self.scoped(part) if isinstance(part, Stmt) else self.visit(part)

        return op.map_children(visit).with_(**buffer)

    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.visit_expr(op.value)
        return op.with_(value=value, var=self.define(op.var))

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        condition = self.visit_expr(op.condition)
        return op.with_(condition=condition, buffer=self._allocate(op.buffer), annotations=self.named(op.annotations))

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        return op.with_(buffer=self._allocate(op.buffer), annotations=self.named(op.annotations))

    def _allocate(self, buffer: Buffer) -> Buffer:
        self.define(buffer.data)
        self.define_bare((*buffer.strides, buffer.elem_offset))
        return self.define_buffer(buffer)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.define_buffer(op.buffer))

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.visit_expr(op.min), self.visit_expr(op.extent)
        self.begin()
        if is_thread_axis(op):
            # The loops over one thread axis of a function share their variable.
            key = (str(op.thread_tag), op.loop_var.dtype)
            var = self.axes[key] = self.define(op.loop_var, self.axes.get(key))
        else:
            var = self.define(op.loop_var)
        body = self.scoped(op.body)
        annotations = self.named(op.annotations)
        self.leave()
        return op.with_(loop_var=var, min=low, extent=extent, body=body, annotations=annotations)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        value, body = self.visit_expr(op.value), self.scoped(op.body)
        return op.with_(value=value, body=body, node=self.named(op.node))

    def visit_Block(self, op: Block) -> Stmt:
        outside = [(self.visit(it.domain), None if it.value is None else self.visit_expr(it.value)) for it in op.iters]
        predicate = self.visit_expr(op.predicate)
        self.begin()
        iters = tuple(
            it.with_(var=self.define(it.var), domain=domain, value=value)
            for it, (domain, value) in zip(op.iters, outside, strict=True)
        )
        changes: dict[str, object] = {"predicate": predicate}
        if any(a is not b for a, b in zip(iters, op.iters, strict=True)):
            changes["iters"] = iters
        own = op.matches_own
        for name in ("reads", "writes"):
            old = getattr(op, name) or ()
            new = tuple([self.visit(part) for part in old])
            if any(a is not b for a, b in zip(old, new, strict=True)):
                changes[name] = new
        matches = () if own else tuple([self._match(match) for match in op.match_buffers])
        # The allocations that head the body are in scope in the init, and in matched regions of them.
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        head = len(op.alloc_buffers)
        done = [self.visit(stmt) for stmt in stmts[:head]]
        if own:
            matches = tuple([self._match(match) for match in op.match_buffers])
        if any(a is not b for a, b in zip(op.match_buffers, matches, strict=True)):
            changes["match_buffers"] = matches
        if op.init is not None:
            changes["init"] = self.scoped(op.init)
        if not isinstance(op.body, Seq):
            changes["body"] = done[0] if head else self.visit(op.body)
        else:
            done += [self.visit(stmt) for stmt in stmts[head:]]
            if any(a is not b for a, b in zip(done, stmts, strict=True)):
                changes["body"] = op.body.with_(stmts=tuple(done))
        changes["annotations"] = self.named(op.annotations)
        self.leave()
        return op.with_(**changes)

    def _match(self, match: MatchBufferRegion) -> MatchBufferRegion:
        source = self.visit(match.source)
        buffer = match.buffer
        self.define_bare((buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset))
        return match.with_(source=source, buffer=self.define_buffer(buffer))

    # Functions

    def function(self, func: PrimFunc) -> PrimFunc:
        self.begin()
        self.axes = {}
        self.latest = {}
        self.latest_buffers = {}
        params = tuple([self.define(param) for param in func.params])
        for buffer in func.buffers:
            self.define_bare((buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset))
        made = {
            self.vmap.get(param, param): self.define_buffer(func.buffer_map[param])
            for param in func.params
            if param in func.buffer_map
        }
        changes: dict[str, object] = {"body": self.scoped(func.body)}
        if any(a is not b for a, b in zip(params, func.params, strict=True)):
            changes["params"] = params
        if any(made.get(param) is not buffer for param, buffer in func.buffer_map.items()):
            changes["buffer_map"] = made
        changes["attrs"] = self.named(func.attrs)
        self.leave()
        return func.with_(**changes)


class ConvertSSA(ModulePass):
    """Every variable and buffer of a module gets one definition: repeated ones are renamed.

    The first definition keeps its variable, later ones (in the same function or another) get a new one of the same
    name and type, and every use, in indices, buffers, attributes and annotations, follows the definition in whose
    scope it stands. Buffers are treated alike: a second allocation, view or parameter of one buffer becomes a buffer
    of its own. The loops over one thread axis of a function are brought to share one variable. A module whose
    definitions are unique comes back as it is.

    Takes any stage, also programs that are ill-formed only in that they repeat definitions, which is what passes that
    copy statements may leave. Raises nothing. The idea is the renaming half of static single assignment (Cytron et
    al., 1991): no joins are needed, because variables are not reassigned.

    >>> from tirlower.ir import For, Seq, verify_well_formed
    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = i
    ... ''')
    >>> twice = func.with_body(Seq((func.body, func.body)))
    >>> verify_well_formed(twice, assert_mode=False), verify_well_formed(ConvertSSA()(twice))
    (False, True)
    >>> print(ConvertSSA()(twice).script())
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = i
        for i in range(4):
            A[i] = i
    """

    name = "tir.ConvertSSA"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Rename what a module defines twice."""
        return mod.map_functions(_Converter().function) if len(mod) else mod
