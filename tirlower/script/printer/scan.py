"""A look at a tree before it is printed: what a script has to state although the IR does not.

Buffers used without a declaration are declared where their variables come into scope (``T.Buffer(…, data=…)``);
variables that nothing binds are declared at the top; variables that an attribute names before they are bound are
declared before the attribute.
"""

from __future__ import annotations

from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import variables_of_buffer
from tirlower.ir.expr import BufferLoad, Expr, FloatImm, IntImm, Let, Var
from tirlower.ir.field_order import DEFINES
from tirlower.ir.field_walk import FieldWalk
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.stmt import Block, Stmt

__all__ = ["Scan"]

_ENTER, _LEAVE = object(), object()
ROOT = 0
"""The key of what stands outside all binders."""


class Scan(FieldWalk):
    """What was found; binders are keyed by the id of the statement (or function) that binds."""

    def __init__(self) -> None:
        super().__init__()
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
        self._bound: dict[object, tuple[int, int]] = self.scopes.table  # object -> (depth, key of its binder)
        self._key = ROOT

    def _bind(self, item: object, key: int | None = None, depth: int | None = None) -> None:
        if depth is None:
            depth = self.scopes.depth
        self.scopes.bind(item, (depth, self._key if key is None else key), depth)

    def use_var(self, var: Var) -> None:
        self.used.add(var)
        if var not in self._bound:
            if self.naming:
                self.early.add(var)
                return
            self.free.append(var)
            self._bind(var, ROOT, 0)

    def use_buffer(self, buffer: Buffer) -> None:
        if buffer in self._bound:
            return
        depth, key = 0, ROOT
        for var in variables_of_buffer(buffer):
            if var is not buffer.data and var not in self._bound:
                self.use_var(var)
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
        stack: list[Expr | tuple[object, Let]] = [root]
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            cls = op.__class__
            if op.__class__ is Var:
                if op not in bound or op not in self.used:
                    self.use_var(op)
                continue
            if cls is IntImm or cls is FloatImm:
                continue
            if isinstance(op, tuple):
                mark, let = op
                if mark is _ENTER:
                    self.scopes.push()
                    self._bind(let.var)
                else:
                    self.scopes.pop()
                continue
            if id(op) in seen or not issubclass(cls, Expr):
                continue
            seen.add(id(op))
            if op.__class__ is Let:
                stack += ((_LEAVE, op), op.body, (_ENTER, op), op.value)
                continue
            if op.__class__ is BufferLoad:
                self.use_buffer(op.buffer)
            if not op.is_leaf:
                stack += reversed(list(op.children()))

    def attr(self, value: object) -> None:
        """Look at an attribute."""
        if isinstance(value, Node):
            self.node(value)
        elif isinstance(value, (tuple, list)):
            for item in value:
                self.attr(item)
        elif isinstance(value, dict):
            for item in value.values():
                self.attr(item)

    def define_var(self, var: Var) -> None:
        self._bind(var)

    def define_buffer(self, kind: str, buffer: Buffer) -> None:
        defines = DEFINES[kind]
        if kind in ("AllocBuffer", "AllocConst") or ("data" in defines and buffer.data not in self._bound):
            self._bind(buffer.data)
        made: list[Var] = []
        for var in variables_of_buffer(buffer)[::-1]:
            if var in self._bound:
                continue
            if "strides" in defines:
                made.append(var)
                self._bind(var)
            else:
                self.use_var(var)
        if made:
            self.symbolic[id(buffer)] = made
        self._bind(buffer)

    def node(self, op: object) -> None:
        """Look at a statement or another node."""
        before = self._key
        if isinstance(op, Node):
            super().node(op)
        self._key = before

    def enter(self, op: object) -> None:
        if isinstance(op, Stmt | PrimFunc):
            self._key = id(op)
        self.blocks += op.__class__ is Block
