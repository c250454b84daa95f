"""A look at a tree before it is printed: what a script has to state although the IR does not.

Buffers used without a declaration are declared where their variables come into scope (``T.Buffer(…, data=…)``);
variables that nothing binds are declared at the top; variables that an attribute names before they are bound are
declared before the attribute.
"""

from __future__ import annotations

from typing import Any

from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import variables_of_buffer
from tirlower.ir.expr import BufferLoad, Expr, FloatImm, IntImm, Let, Var
from tirlower.ir.field_order import DECLARING, DEFINES, plan_of
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node, Role
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, Seq, Stmt

__all__ = ["Scan"]

_ENTER, _LEAVE = object(), object()
ROOT = 0
"""The key of what stands outside all binders."""


class Scan:
    """What was found; binders are keyed by the id of the statement (or function) that binds."""

    def __init__(self) -> None:
        self.views: dict[int, list[Buffer]] = {}
        """Undeclared buffers by the binder after which they can be declared."""
        self.symbolic: dict[int, list[Var]] = {}
        """Variables that a buffer's definition defines, by the buffer's id."""
        self.free: list[Var] = []
        """Variables that nothing binds, in order of their first use."""
        self.used: set[Var] = set()
        """Variables used outside the definitions of buffers."""
        self.early: set[Var] = set()
        """Variables that an attribute names before a binder inside it binds them."""
        self.blocks = 0
        self._bound: dict[Any, tuple[int, int]] = {}  # object -> (depth, key of its binder)
        self._scopes: list[list[tuple[Any, tuple[int, int] | None]]] = [[]]
        self._naming = False
        self._key = ROOT

    def _bind(self, item: Any, key: int | None = None, depth: int | None = None) -> None:
        if depth is None:
            depth = len(self._scopes) - 1
        self._scopes[depth].append((item, self._bound.get(item)))
        self._bound[item] = (depth, self._key if key is None else key)

    def _pop(self) -> None:
        for item, before in reversed(self._scopes.pop()):
            if before is None:
                self._bound.pop(item, None)
            else:
                self._bound[item] = before

    def _use_var(self, var: Var) -> None:
        self.used.add(var)
        if var not in self._bound:
            if self._naming:
                self.early.add(var)
                return
            self.free.append(var)
            self._bind(var, ROOT, 0)

    def _use_buffer(self, buffer: Buffer) -> None:
        if buffer in self._bound:
            return
        depth, key = 0, ROOT
        for var in variables_of_buffer(buffer):
            if var is not buffer.data and var not in self._bound:
                self._use_var(var)
            found = self._bound.get(var)
            if found is not None and found[0] >= depth:
                depth, key = found
        listed = self.views.setdefault(key, [])
        if not any(buffer is b for b in listed):
            listed.append(buffer)
        self._bind(buffer, key, depth)

    def expr(self, root: Expr) -> None:
        """Look at an expression."""
        bound = self._bound
        stack: list[Any] = [root]
        seen: set[int] = set()
        while stack:
            op: Any = stack.pop()
            cls = op.__class__
            if cls is Var:
                if op not in bound or op not in self.used:
                    self._use_var(op)
                continue
            if cls is IntImm or cls is FloatImm:
                continue
            if cls is tuple:
                mark, let = op
                if mark is _ENTER:
                    self._scopes.append([])
                    self._bind(let.var)
                else:
                    self._pop()
                continue
            if id(op) in seen or not issubclass(cls, Expr):
                continue
            seen.add(id(op))
            if cls is Let:
                stack += ((_LEAVE, op), op.body, (_ENTER, op), op.value)
                continue
            if cls is BufferLoad:
                self._use_buffer(op.buffer)
            if not op.is_leaf:
                stack += reversed(list(op.children()))

    def _attr(self, value: Any) -> None:
        if isinstance(value, Expr):
            self.expr(value)
        elif isinstance(value, Buffer):
            self._use_buffer(value)
        elif isinstance(value, Node):
            self.node(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self._attr(item)
        elif isinstance(value, dict):
            for item in value.values():
                self._attr(item)

    def _define(self, kind: str, value: Any) -> None:
        if isinstance(value, Var):
            if kind == "IterVar" and (self._naming or value in self._bound):
                self._use_var(value)
            else:
                self._bind(value)
        elif isinstance(value, Buffer):
            defines = DEFINES[kind]
            if kind in ("AllocBuffer", "AllocConst") or ("data" in defines and value.data not in self._bound):
                self._bind(value.data)
            made: list[Var] = []
            for var in variables_of_buffer(value)[::-1]:
                if var in self._bound:
                    continue
                if "strides" in defines:
                    made.append(var)
                    self._bind(var)
                else:
                    self._use_var(var)
            if made:
                self.symbolic[id(value)] = made
            self._bind(value)
        else:
            for item in value:
                self._define(kind, item)

    def _child(self, value: Any) -> None:
        if value is None:
            return
        if value.__class__ is tuple:
            for item in value:
                if isinstance(item, Expr):
                    self.expr(item)
                else:
                    self.node(item)
        elif isinstance(value, Expr):
            self.expr(value)
        elif isinstance(value, Stmt):
            self._scopes.append([])
            self.node(value)
            self._pop()
        else:
            self.node(value)

    def node(self, op: Any) -> None:
        """Look at a statement or another node."""
        if isinstance(op, Expr):
            self.expr(op)
            return
        if op.__class__ is Buffer:
            self._use_buffer(op)
            return
        cls: Any = op.__class__
        if not issubclass(cls, Node):
            return
        name = cls.__name__
        before = self._key
        if isinstance(op, Stmt) or cls is PrimFunc:
            self._key = id(op)
        scoped = name not in DECLARING
        if scoped:
            self._scopes.append([])
        if cls is PrimFunc:
            self._function(op)
        else:
            for field, role in plan_of(cls):
                if cls is Block and (field in ("init", "body") or (field == "match_buffers" and op.matches_own)):
                    continue
                value = getattr(op, field)
                if role is Role.CHILD:
                    self._child(value)
                elif role is Role.BINDS:
                    self._define(name, value)
                elif role is Role.BUFFER:
                    self._use_buffer(value)
                elif role is Role.ATTRS and value is not None:
                    was, self._naming = self._naming, self._naming or cls is AttrStmt
                    self._attr(value)
                    self._naming = was
            if cls is Block:
                self._block(op)
        if scoped:
            self._pop()
        self._key = before

    def _block(self, op: Block) -> None:
        self.blocks += 1
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        heads = 0
        while heads < len(stmts) and isinstance(stmts[heads], AllocBuffer):
            self.node(stmts[heads])
            heads += 1
        if op.matches_own:
            self._child(op.match_buffers)
        self._child(op.init)
        for stmt in stmts[heads:]:
            self.node(stmt)

    def _function(self, func: PrimFunc) -> None:
        for param in func.params:
            self._bind(param)
        for param in func.params:
            if param in func.buffer_map:
                self._define("PrimFunc", func.buffer_map[param])
        self._attr(func.attrs)
        self._child(func.body)
