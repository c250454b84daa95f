"""Visitor and mutator: one table on the node's type, built when the class is made.

A method ``visit_For`` handles For nodes; a name that is no node (``visit_Fro``) fails when the class is created.
Statements recurse, as deep as the program nests. Expressions are walked with an explicit stack and a memo for each
root, so that a chain of any length fits, and a shared operand is handled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, ClassVar, Generic, Never, TypeVar, TypeVarTuple, cast

from tirlower.diagnostics import TirError, deep_recursion, nearest_name
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar, Range
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Sub,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.node import NODES, Node, Role
from tirlower.ir.query import may_divide_by_zero, nodes
from tirlower.ir.stmt import BlockIter, Stmt

__all__ = [
    "Dispatch",
    "Mutator",
    "StmtMutator",
    "Substituter",
    "Visitor",
    "by_class",
    "fold",
    "ir_transform",
    "post_order_visit",
    "pre_order_visit",
    "substitute",
]


Kept = TypeVar("Kept", Expr, Stmt, Buffer, BlockIter, Range, BufferRegion, Node)
"""What a rewrite keeps: an expression becomes an expression, a statement a statement."""
Tree = TypeVar("Tree", Expr, Node)
"""Expressions have expressions inside, other nodes any."""
NodeT = TypeVar("NodeT", bound=Node)
Owner = TypeVar("Owner")
Op = TypeVar("Op", bound=Node)
Result = TypeVar("Result")
Rest = TypeVarTuple("Rest")


def _handlers(cls: type, prefix: str) -> dict[type, FunctionType]:
    found: dict[type, FunctionType] = {}
    for name, fn in vars(cls).items():
        if not name.startswith(prefix) or not callable(fn):
            continue
        target = NODES.get(name[len(prefix) :])
        if target is None:
            if name[len(prefix) :][:1].isupper():
                raise TypeError(f"{cls.__name__}.{name}: there is no node {name[len(prefix) :]!r}")
            continue
        subclasses = target.__subclasses__()
        if not subclasses:
            found[target] = fn
            continue
        for kind in NODES.values():
            # A handler of a base class (BinaryOp) serves its subclasses, unless the class has a closer one.
            if issubclass(kind, target):
                closer = next((k for k in kind.__mro__ if prefix + k.__name__ in vars(cls)), target)
                if closer is target:
                    found[kind] = fn
    return found


def by_class(
    table: Mapping[type, Callable[[Owner, Never, *Rest], Result]],
) -> dict[type, Callable[[Owner, object, *Rest], Result]]:
    """Methods by the class of what they take first: the table promises each of them an object of its class."""
    return cast("dict[type, Callable[[Owner, object, *Rest], Result]]", dict(table))


class Dispatch(Generic[Op, Result, *Rest]):
    """Call the method ``on_For`` for a For node (and what else it takes); for a node without one :meth:`otherwise`.

    ``Dispatch[Stmt, int, str]`` takes statements, each with a string, and gives integers.
    """

    _on: ClassVar[dict[type, FunctionType]] = {}

    def __init_subclass__(cls) -> None:
        """Collect the ``on_*`` methods into the table."""
        super().__init_subclass__()
        cls._on = {**cls._on, **_handlers(cls, "on_")}

    def dispatch(self, op: Op, *rest: *Rest) -> Result:
        """What the method of the node's class gives."""
        method = self._on.get(op.__class__)
        result: Result = self.otherwise(op, *rest) if method is None else method(self, op, *rest)
        return result

    def otherwise(self, op: Op, *rest: *Rest) -> Result:
        """For a node of another class."""
        raise TypeError(f"{type(self).__name__} has no method for {type(op).__name__}")


class Visitor:
    """Look at every node. A handler that wants its node's children visited calls :meth:`generic`.

    Expression handlers are called before their operands (pre-order); the operands follow unless the handler
    returns False. Buffers of accesses, regions and declarations go through :meth:`visit_buffer`.
    """

    _table: ClassVar[dict[type, FunctionType]] = {}

    def __init_subclass__(cls) -> None:
        """Collect the ``visit_*`` methods into the table."""
        super().__init_subclass__()
        cls._table = {**cls._table, **_handlers(cls, "visit_")}

    def visit(self, op: Node) -> None:
        """Visit a statement, expression or other node."""
        if isinstance(op, Expr):
            self.visit_expr(op)
        else:
            method = self._table.get(op.__class__)
            if method is not None:
                method(self, op)
            else:
                self.generic(op)

    def generic(self, op: Node) -> None:
        """Visit the buffers and children of a node that is no expression."""
        for field in op.fields:
            role = field.role
            if role is Role.CHILD:
                value = getattr(op, field.name)
                if value.__class__ is tuple:
                    for item in value:
                        self.visit(item)
                elif value is not None:
                    self.visit(value)
            elif role is Role.BUFFER:
                self.visit_buffer(getattr(op, field.name))

    def visit_expr(self, root: Expr) -> None:
        """Visit an expression and, once each, its distinct subexpressions."""
        table = self._table
        if root.is_leaf:
            method = table.get(root.__class__)
            if method is not None:
                method(self, root)
            return
        seen: set[int] = set()
        stack: list[Expr] = [root]
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            method = table.get(op.__class__)
            if method is not None and method(self, op) is False:
                continue
            if op.__class__ is BufferLoad:
                self.visit_buffer(op.buffer)
            if not op.is_leaf:
                stack += reversed(list(op.children()))

    def visit_buffer(self, buffer: Buffer) -> None:
        """Called for each use of a buffer. Does nothing."""


class Mutator:
    """Rewrite bottom-up. Unchanged subtrees come back as the same object.

    Statement handlers own their recursion (``self.generic(op)`` rewrites the children); expression handlers get the
    node with its operands rewritten already. ``enter_*`` handlers see an expression before its operands and may
    return a replacement (which is taken as it is), or None to go on. Buffers used go through :meth:`map_buffer`,
    variables and buffers defined through :meth:`map_var_def` and :meth:`map_buffer_def`, attribute values through
    :meth:`map_attr`; by default all three stay. A subclass with ``folds`` set folds the expressions whose operands
    changed as the operators do.
    """

    _table: ClassVar[dict[type, FunctionType]] = {}
    _enter: ClassVar[dict[type, FunctionType]] = {}
    maps_buffers: ClassVar[bool] = False
    maps_definitions: ClassVar[bool] = False
    maps_attrs: ClassVar[bool] = False
    folds: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Collect the ``visit_*`` and ``enter_*`` methods into the tables."""
        super().__init_subclass__()
        cls._table = {**cls._table, **_handlers(cls, "visit_")}
        cls._enter = {**cls._enter, **_handlers(cls, "enter_")}
        cls.maps_buffers = cls.map_buffer is not Mutator.map_buffer
        cls.maps_definitions = (
            cls.map_var_def is not Mutator.map_var_def or cls.map_buffer_def is not Mutator.map_buffer_def
        )
        cls.maps_attrs = cls.map_attr is not Mutator.map_attr

    def visit(self, op: Kept) -> Kept:
        """Rewrite a statement, expression or other node."""
        if isinstance(op, Expr):
            return self.visit_expr(op)
        method = self._table.get(op.__class__)
        new: Kept = method(self, op) if method is not None else self.generic(op)
        return new

    def generic(self, op: NodeT) -> NodeT:
        """Rewrite the children (and, where a subclass asks for it, buffers, definitions and attributes)."""
        if not (self.maps_buffers or self.maps_definitions or self.maps_attrs):
            return op.map_children(self.visit)
        changes: dict[str, object] = {}
        # Definitions first: what they bind is in scope in the children.
        for field in op.fields:
            role = field.role
            old = getattr(op, field.name)
            if role is Role.BINDS:
                if self.maps_definitions or self.maps_buffers:
                    changes[field.name] = self._map_definition(old)
            elif role is Role.BUFFER:
                if self.maps_buffers:
                    changes[field.name] = self.map_buffer(old)
        for name in op.child_names:
            old = getattr(op, name)
            if old.__class__ is tuple:
                new = [self.visit(item) for item in old]
                if any(a is not b for a, b in zip(old, new, strict=True)):
                    changes[name] = tuple(new)
            elif old is not None:
                changes[name] = self.visit(old)
        if self.maps_attrs:
            # Attributes last: they may name what is defined inside.
            for field in op.fields:
                if field.role is Role.ATTRS:
                    old = getattr(op, field.name)
                    changes[field.name] = None if old is None else self.map_attr(old)
        return op.with_(**changes) if changes else op

    def _map_definition(self, old: object) -> object:
        if isinstance(old, Var):
            return self.map_var_def(old)
        if isinstance(old, Buffer):
            return self.map_buffer_def(old)
        if isinstance(old, tuple):
            new = tuple(self._map_definition(item) for item in old)
            return old if all(a is b for a, b in zip(old, new, strict=True)) else new
        if isinstance(old, dict):
            made = {self._map_definition(k): self._map_definition(v) for k, v in old.items()}
            same = all(a is b and old[a] is made[b] for a, b in zip(old, made, strict=True))
            return old if same else made
        return old

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer to use in place of one. Itself by default."""
        return buffer

    def map_var_def(self, var: Var) -> Var:
        """The variable to define in place of one. Itself by default."""
        return var

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """The buffer to define in place of one; by default as it is used."""
        return self.map_buffer(buffer)

    def map_attr(self, value: object) -> object:
        """The attribute value to put in place of one. Itself by default."""
        return value

    def map_named(self, value: object) -> object:
        """An attribute value in which buffers, expressions and other nodes are rewritten, for a ``map_attr`` of that kind."""
        if isinstance(value, Buffer):
            return self.map_buffer(value)
        if isinstance(value, Node):
            return self.visit(value)
        if isinstance(value, tuple):
            new = tuple([self.map_attr(v) for v in value])
            return value if all(a is b for a, b in zip(value, new, strict=True)) else new
        if isinstance(value, dict):
            made = {k: self.map_attr(v) for k, v in value.items()}
            return value if all(made[k] is v for k, v in value.items()) else made
        return value

    def visit_expr(self, root: Expr) -> Expr:
        """Rewrite an expression, its operands first."""
        table, enter = self._table, self._enter
        if root.is_leaf and not enter:
            method = table.get(root.__class__)
            if method is not None:
                made: Expr = method(self, root)
                return made
            if root.__class__ is not BufferLoad:
                return root
        memo: dict[int, Expr] = {}
        entered: set[int] = set()
        definitions: dict[int, Var] = {}
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            key = id(op)
            if key in memo:
                stack.pop()
                continue
            if key not in entered and (enter or op.__class__ is Let):
                entered.add(key)
                before = enter.get(op.__class__)
                if before is not None:
                    replaced = before(self, op)
                    if replaced is not None:
                        memo[key] = replaced
                        stack.pop()
                        continue
                if self.maps_definitions and op.__class__ is Let:
                    # Before the body, which uses what is defined.
                    definitions[key] = self.map_var_def(op.var)
            if not op.is_leaf:
                waiting = []
                for c in op.children():
                    if id(c) not in memo:
                        if c.is_leaf and not enter and c.__class__ not in table:
                            memo[id(c)] = c  # most leaves: nothing asks for them
                        else:
                            waiting.append(c)
                if waiting:
                    waiting.reverse()
                    stack += waiting
                    continue
            stack.pop()
            new = op if op.is_leaf else op.map_children(lambda c: memo[id(c)])
            if new is not op and self.folds:
                new = fold(new)
            if self.maps_buffers and new.__class__ is BufferLoad:
                new = new.with_(buffer=self.map_buffer(new.buffer))
            elif key in definitions:
                new = new.with_(var=definitions[key])
            elif self.maps_attrs and new.__class__ is Call and new.annotations:
                new = new.with_(annotations=self.map_attr(new.annotations))
            method = table.get(new.__class__)
            memo[key] = new if method is None else method(self, new)
        return memo[id(root)]


class StmtMutator(Mutator):
    """Rewrite statements alone: expressions, most of a program's nodes, come back without being entered."""

    def visit_expr(self, root: Expr) -> Expr:
        """The expression itself."""
        return root


_FOLDS: dict[type, BinaryBuilder] = {
    Add: build.add, Sub: build.sub, Mul: build.mul, Min: build.min_, Max: build.max_, EQ: build.eq, NE: build.ne,
    LT: build.lt, LE: build.le, GT: build.gt, GE: build.ge, And: build.logical_and, Or: build.logical_or,
}  # fmt: skip
_LOGICAL = frozenset((And, Or))
_DIVISIONS: dict[type, BinaryBuilder] = {
    FloorDiv: build.floordiv, FloorMod: build.floormod, Div: build.truncdiv, Mod: build.truncmod,
}  # fmt: skip


def fold(expr: Expr) -> Expr:
    """An expression folded at its root as the operators of ``ir.build`` fold; the same object where nothing folds, or where
    a division by what may be zero would be gone."""
    kind = expr.__class__
    fn = _FOLDS.get(kind)
    if fn is None:
        fn = _DIVISIONS.get(kind)
        if fn is None:
            if expr.__class__ is Not and expr.a.__class__ is IntImm:
                return build.logical_not(expr.a)
            if expr.__class__ is Cast and expr.value.__class__ is IntImm:
                return build.cast(expr.dtype, expr.value)
            return expr
        if TYPE_CHECKING:
            assert isinstance(expr, BinaryOp)
        # A division by zero is left for its place to report; a division of floats does not fold here.
        if is_const_int(expr.b, 0) or not expr.dtype.is_integral:
            return expr
    if TYPE_CHECKING:
        assert isinstance(expr, BinaryOp)
    folded = fn(expr.a, expr.b, expr.span)
    if folded.__class__ is IntImm and not (
        expr.a.__class__ is IntImm and (kind in _LOGICAL or expr.b.__class__ is IntImm)
    ):
        lost = nodes(expr.a if kind in _LOGICAL else expr)
        return expr if any(map(may_divide_by_zero, lost)) else folded
    if folded.__class__ is not kind:
        return folded
    if TYPE_CHECKING:
        assert isinstance(folded, BinaryOp)
    # An operand of the same kind may be what is left: x + y of (x + y) + 0.
    return expr if folded.a is expr.a and folded.b is expr.b else folded


class Substituter(Mutator):
    """Replace free variables by expressions (or variables), buffers consistently with them.

    ``vmap`` maps variables to expressions; ``buffers`` maps buffers to buffers. A buffer whose shape, strides,
    offset or data mentions a replaced variable is rebuilt once and used everywhere. What changes is folded.
    """

    folds = True

    def __init__(
        self, vmap: Mapping[Var, Expr | IterVar | float], buffers: Mapping[Buffer, Buffer] | None = None
    ) -> None:
        self.vmap: dict[Var, Expr] = {var: _to_expr(value, var) for var, value in vmap.items()}
        self.buffers: dict[Buffer, Buffer] = dict(buffers or {})

    def visit_Var(self, op: Var) -> Expr:
        """The replacement."""
        return self.vmap.get(op, op)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with its expressions replaced."""
        known = self.buffers.get(buffer)
        if known is None:
            known = buffer.map_children(self._buffer_part)
            self.buffers[buffer] = known
        return known

    def _buffer_part(self, part: Expr) -> Expr:
        return self.visit_expr(part)

    def map_var_def(self, var: Var) -> Var:
        """A definition is renamed where the replacement is a variable."""
        new = self.vmap.get(var)
        return new if isinstance(new, Var) else var

    def map_attr(self, value: object) -> object:
        """Expressions and buffers inside attribute values are replaced too."""
        return self.map_named(value)


def _to_expr(value: Expr | IterVar | float, var: Var) -> Expr:
    if isinstance(value, Expr):
        return value
    if not isinstance(var, Var):
        raise TirError(
            f"substitute takes the place of variables, got {type(var).__name__} {var!r}", help="give the Var itself"
        )
    return value.var if isinstance(value, IterVar) else const(value, var.dtype)


def substitute(
    node: Kept, vmap: Mapping[Var, Expr | IterVar | float], buffers: Mapping[Buffer, Buffer] | None = None
) -> Kept:
    """``node`` (an expression, statement, region or buffer) with free variables replaced.

    ``vmap`` maps variables to expressions or numbers (of the variable's dtype); a definition of a mapped variable is
    renamed only when the replacement is itself a variable. ``buffers`` maps buffers to buffers. Raises
    :class:`TirError` for a key that is no variable.
    """
    if not vmap and not buffers:
        return node
    worker = Substituter(vmap, buffers)
    with deep_recursion():
        if isinstance(node, Buffer):
            return worker.map_buffer(node)
        return worker.visit(node)


def post_order_visit(node: Tree, fn: Callable[[Tree], object]) -> None:
    """Call ``fn`` on every distinct node under (and including) ``node``, operands and bodies first."""
    seen: set[int] = set()
    stack: list[tuple[Tree, bool]] = [(node, False)]
    while stack:
        op, ready = stack.pop()
        if ready:
            fn(op)
        elif id(op) not in seen:
            seen.add(id(op))
            if op.is_leaf:  # half of all nodes
                fn(op)
                continue
            stack.append((op, True))
            stack += [(c, False) for c in reversed(list(op.children()))]


def pre_order_visit(node: Tree, fn: Callable[[Tree], object]) -> None:
    """Call ``fn`` on every distinct node, before its children; a node for which it returns False is not entered."""
    seen: set[int] = set()
    stack: list[Tree] = [node]
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if fn(op) is not False:
            stack += reversed(list(op.children()))


def ir_transform(
    stmt: Kept,
    preorder: Callable[[Node], object] | None,
    postorder: Callable[[Node], object] | None,
    only_enable: Iterable[str | type] | None = None,
) -> Kept:
    """Rewrite by two functions.

    ``preorder(node)`` runs before a node's children and may return a replacement, which is not entered;
    ``postorder(node)`` runs after them on the rewritten node; None from either means no change. ``only_enable``
    restricts both to node classes, given as classes or names (``"tir.For"`` or ``"For"``). Raises :class:`TirError`
    for the name of none.
    """
    kinds: set[type] | None = None
    if only_enable is not None:
        kinds = {kind if isinstance(kind, type) else _class_of(kind) for kind in only_enable}

    with deep_recursion():
        return _Transformer(kinds, preorder, postorder).visit(stmt)


def _class_of(name: str) -> type:
    found = NODES.get(name.removeprefix("tir."))
    if found is None:
        near = nearest_name(name.removeprefix("tir."), NODES)
        raise TirError(f"there is no node {name!r}", help=f"did you mean {near!r}?" if near else None)
    return found


class _Transformer(Mutator):
    """Rewrite by two functions (see :func:`ir_transform`)."""

    def __init__(
        self,
        kinds: set[type] | None,
        preorder: Callable[[Node], object] | None,
        postorder: Callable[[Node], object] | None,
    ) -> None:
        self.kinds = kinds
        self.preorder = preorder
        self.postorder = postorder

    def visit(self, op: Kept) -> Kept:
        """What the functions give for a node, or the node with its children rewritten."""
        chosen = self.kinds is None or op.__class__ in self.kinds
        if chosen and self.preorder is not None:
            replaced = self.preorder(op)
            if replaced is not None:
                return cast(Kept, replaced)
        new = op.map_children(self.visit)
        if chosen and self.postorder is not None:
            replaced = self.postorder(new)
            if replaced is not None:
                return cast(Kept, replaced)
        return new
