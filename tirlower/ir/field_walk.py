"""The walk over all fields of nodes in their order (:mod:`tirlower.ir.field_order`), with the scopes of what they define.

The structural hash and the printer's scan are this walk, and say what they do at each field; structural equality goes
through two trees at once and shares the tables. The rules of scope are those of :mod:`tirlower.ir.binding`, whose walk
asks what is visible where; here an attribute may name what is defined behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var
from tirlower.ir.field_order import RENAMING, plan_of
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node, Role
from tirlower.ir.stmt import AttrStmt, Block, Seq, Stmt

__all__ = ["FieldWalk", "Scopes"]

Item = TypeVar("Item")
Meaning = TypeVar("Meaning")


class Scopes(Generic[Item, Meaning]):
    """What variables and buffers stand for (``table``); leaving a scope brings back what they stood for before it.

    >>> scopes = Scopes()
    >>> scopes.bind("i", 1)
    >>> scopes.push()
    >>> scopes.bind("i", 2)
    >>> scopes.bind("j", 3)
    >>> [item for item, _ in scopes.pop()]
    ['i', 'j']
    >>> scopes.table
    {'i': 1}
    """

    def __init__(self) -> None:
        self.table: dict[Item, Meaning] = {}
        self._hidden: list[list[tuple[Item, Meaning | None]]] = [[]]

    @property
    def depth(self) -> int:
        """How many scopes are open inside the outermost one."""
        return len(self._hidden) - 1

    def push(self) -> None:
        """Enter a scope."""
        self._hidden.append([])

    def pop(self) -> list[tuple[Item, Meaning | None]]:
        """Leave a scope; what it bound, in order, each with what it stood for before."""
        bound = self._hidden.pop()
        table = self.table
        for item, before in reversed(bound):
            if before is None:
                table.pop(item, None)
            else:
                table[item] = before
        return bound

    def bind(self, item: Item, value: Meaning, depth: int = -1) -> None:
        """Let an item stand for a value, which is not None, till the end of the scope at hand, or of one around it."""
        self._hidden[depth].append((item, self.table.get(item)))
        self.table[item] = value


class FieldWalk(ABC):
    """Goes through a node; subclasses say what they do with expressions, buffers, definitions, attributes and data."""

    def __init__(self) -> None:
        self.scopes: Scopes[object, tuple[int, int]] = Scopes()
        """Of each variable and buffer two numbers: its place among all, and the depth of its scope, or the like."""
        self.naming = False
        """Inside the attribute of a region, which may name what the region defines."""

    # What is met

    @abstractmethod
    def expr(self, root: Expr) -> None:
        """An expression."""

    @abstractmethod
    def attr(self, value: object) -> None:
        """An attribute, or annotations."""

    @abstractmethod
    def use_var(self, var: Var) -> None:
        """A variable that an axis names, and does not define."""

    @abstractmethod
    def use_buffer(self, buffer: Buffer) -> None:
        """A use of a buffer."""

    @abstractmethod
    def define_var(self, var: Var) -> None:
        """A definition of a variable."""

    @abstractmethod
    def define_buffer(self, kind: str, buffer: Buffer) -> None:
        """A definition of a buffer, by a node of a class of this name."""

    def use_symbol(self, op: Node) -> None:  # noqa: B027
        """A use of a node that a field elsewhere defines."""

    def define_symbol(self, op: Node) -> None:  # noqa: B027
        """Such a definition."""

    def enter(self, op: Node) -> None:  # noqa: B027 - nothing, unless a subclass says so
        """A node that is no expression and no buffer, before its fields."""

    def data(self, value: object) -> None:  # noqa: B027
        """A field of plain data."""

    def shape(self, token: bytes) -> None:  # noqa: B027
        """How many nodes stand in a field, and the like."""

    # The walk

    def node(self, op: Node) -> None:
        """Go through a statement, an expression or another node."""
        cls = op.__class__
        if isinstance(op, Expr):
            self.expr(op)
        elif op.__class__ is Buffer:
            self.use_buffer(op)
        elif cls.is_symbol:
            self.use_symbol(op)
        else:
            self.enter(op)
            if cls.declares:
                self._fields(op)
                return
            self.scopes.push()
            if op.__class__ is PrimFunc:
                self._function(op)
            else:
                self._fields(op)
                if op.__class__ is Block:
                    self._init_and_body(op)
            self.scopes.pop()

    def _fields(self, op: Node) -> None:
        cls = op.__class__
        later: tuple[str, ...] = ()
        if op.__class__ is Block:
            later = ("init", "body", "match_buffers") if op.matches_own else ("init", "body")
        for field, role in plan_of(cls):
            if field in later:
                continue
            value = getattr(op, field)
            if role is Role.CHILD:
                self._child(value)
            elif role is Role.DATA:
                self.data(value)
            elif role is Role.BINDS and cls.binds_symbols:
                self.shape(b"%d" % len(value))
                for item in value:
                    self.define_symbol(item)
            elif role is Role.BINDS:
                self._define(cls.__name__, value)
            elif role is Role.BUFFER:
                self.use_buffer(value)
            else:
                before, self.naming = self.naming, self.naming or cls is AttrStmt
                self.attr(value)
                self.naming = before

    def _child(self, value: Node | tuple[Node, ...] | None) -> None:
        if value is None:
            self.shape(b"none")
        elif isinstance(value, Expr):
            self.expr(value)
        elif isinstance(value, tuple):
            self.shape(b"%d" % len(value))
            for item in value:
                if isinstance(item, Expr):
                    self.expr(item)
                else:
                    self.node(item)
        elif isinstance(value, Stmt):
            self.scopes.push()
            self.node(value)
            self.scopes.pop()
        else:
            self.node(value)

    def _define(self, kind: str, value: Var | Buffer | tuple[Var | Buffer, ...]) -> None:
        if isinstance(value, Buffer):
            self.define_buffer(kind, value)
        elif not isinstance(value, Var):
            self.shape(b"%d" % len(value))
            for item in value:
                self._define(kind, item)
        elif kind in RENAMING and (self.naming or value in self.scopes.table):
            self.use_var(value)
        else:
            self.define_var(value)

    def _init_and_body(self, op: Block) -> None:
        """The allocations that head the body, matched regions of them, the init (which sees them), the rest of the body."""
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        self.scopes.push()
        heads = len(op.alloc_buffers)
        self.shape(b"seq%d" % len(stmts) if isinstance(op.body, Seq) else b"one")
        for stmt in stmts[:heads]:
            self.node(stmt)
        if op.matches_own:
            self._child(op.match_buffers)
        self._child(op.init)
        for stmt in stmts[heads:]:
            self.node(stmt)
        self.scopes.pop()

    def _function(self, func: PrimFunc) -> None:
        self.shape(b"%d" % len(func.params))
        for param in func.params:
            self.define_var(param)
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                self.shape(b"scalar")
            else:
                self.define_buffer("PrimFunc", buffer)
        self.data(func.ret_type)
        self.attr(func.attrs)
        self._child(func.body)
