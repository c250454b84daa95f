"""Digests: structural hashing, and the quick test that two expressions are the same.

Two kinds. The digest of an expression (:func:`expr_digest`) names variables and buffers by their identity, so it
needs no context and is kept in the expression: :func:`expr_deep_equal` compares digests. The structural hash
(:func:`structural_hash`) numbers what is bound in the order of binding, so that it agrees with
:func:`tirlower.ir.structural.structural_equal`; a statement's depends on what is bound around it and is not kept.

A digest is 128 bits of BLAKE2b over a node's class, data and operands' digests: expressions of equal digests are
taken as equal.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Let, Var
from tirlower.ir.field_order import DEFINES, data_key, plan_of
from tirlower.ir.field_walk import FieldWalk
from tirlower.ir.func import IRModule
from tirlower.ir.node import Node, Role
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.stmt import normalize_attr

__all__ = ["expr_deep_equal", "expr_digest", "structural_hash", "variables_of_buffer"]

ExprToken: TypeAlias = Callable[[Expr], bytes]
OtherToken: TypeAlias = Callable[[object], bytes]
"""What stands in a digest for an expression, and for another object."""


def _short(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).digest()


_PLAIN = (str, int, float, bool, tuple, list, dict, type(None), np.ndarray, GlobalVar, PointerType, Op, enum.Enum)


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN)


def _data_token(value: object) -> bytes:
    """Bytes for plain data; of an object of another kind, the name of its class."""
    kind = value.__class__
    if value.__class__ is Op:
        return value.name.encode()
    if kind is GlobalVar or kind is PointerType:
        return repr(value).encode()
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}".encode()
    if _is_plain(value):
        return repr(data_key(value)).encode()
    token: bytes = getattr(value, "structural_token", b"")
    return kind.__name__.encode() + token


def _attr_token(value: object, expr: ExprToken, other: OtherToken) -> bytes:
    """Bytes of an annotation value; expressions and other nodes by the functions given."""
    value = normalize_attr(value)
    if isinstance(value, Expr):
        return b"e" + expr(value)
    if isinstance(value, Node):
        return b"n" + other(value)
    if isinstance(value, tuple):
        return b"(%d" % len(value) + b"".join([_attr_token(v, expr, other) for v in value])
    if isinstance(value, dict):
        parts = [k.encode() + b"=" + _attr_token(value[k], expr, other) for k in sorted(value)]
        return b"{%d" % len(parts) + b",".join(parts)
    if _is_plain(value):
        return b"d" + _data_token(value)
    return b"o" + other(value)


def _combine(
    op: Expr,
    digest_of: ExprToken,
    buffer: Callable[[Buffer], bytes],
    var: Callable[[Var], bytes],
    other: OtherToken,
) -> bytes:
    """The digest of an expression node from those of its operands."""
    cls = op.__class__
    parts = [cls.__name__.encode()]
    if cls is Call:
        parts.append(op.dtype.encode())
    for name, role in plan_of(cls):
        value = getattr(op, name)
        if role is Role.CHILD:
            if value.__class__ is tuple:
                parts.append(b"%d" % len(value))
                parts += [digest_of(item) for item in value]
            else:
                parts.append(b"-" if value is None else digest_of(value))
        elif role is Role.DATA:
            parts.append(digest_of(value) if isinstance(value, Expr) else _data_token(value))
        elif role is Role.BUFFER:
            parts.append(buffer(value))
        elif role is Role.BINDS:
            parts.append(var(value))
        elif value:
            parts.append(_attr_token(value, digest_of, other))
    return _short(b"\0".join(parts))


def _identity(value: object) -> bytes:
    return b"@%d" % id(value)


def _pending(op: Expr) -> list[Expr]:
    """The operands that must have digests first (those in data and annotations too)."""
    found: list[Expr] = [] if op.is_leaf else list(op.children())
    lanes = getattr(op, "lanes", None)
    if isinstance(lanes, Expr):
        found.append(lanes)
    if op.__class__ is Call and op.annotations:
        _collect(op.annotations, found)
    return found


def _collect(value: object, into: list[Expr]) -> None:
    if isinstance(value, Expr):
        into.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, into)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, into)


def _known_digest(op: Expr) -> bytes:
    # Only annotation values are normalised into new expressions on the way; all others are filled in already.
    return op.digest if op.digest is not None else expr_digest(op)


def expr_digest(root: Expr) -> bytes:
    """The digest of an expression, variables and buffers by identity; kept in the node."""
    if root.digest is not None:
        return root.digest
    stack: list[Expr] = [root]
    while stack:
        op = stack[-1]
        if op.digest is not None:
            stack.pop()
            continue
        if op.__class__ is Var:
            op.digest = b"v@%d" % id(op)
        elif op.__class__ is IntImm:
            op.digest = b"i" + op.dtype.encode() + b"%d" % op.value
        else:
            waiting = [c for c in _pending(op) if c.digest is None]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            op.digest = _combine(op, _known_digest, _identity, _identity, _identity)
        stack.pop()
    assert root.digest is not None
    return root.digest


_WALK = 48  # pairs compared directly before digests are made: most unequal pairs part within a few


def expr_deep_equal(a: Expr, b: Expr) -> bool:
    """Whether two expressions are the same tree over the same variables and buffers (nothing is renamed).

    >>> from tirlower.ir import Add, Var
    >>> x, y = Var("x"), Var("y")
    >>> expr_deep_equal(Add(x, 1), Add(x, 1)), expr_deep_equal(Add(x, 1), Add(y, 1))
    (True, False)
    """
    if a is b:
        return True
    stack: list[tuple[Expr, Expr]] = [(a, b)]
    left = _WALK
    while stack:
        x, y = stack.pop()
        if x is y:
            continue
        cls = x.__class__
        if cls is not y.__class__ or cls is Var or x.dtype is not y.dtype:
            return False
        if cls is IntImm:
            if TYPE_CHECKING:
                assert isinstance(x, IntImm) and isinstance(y, IntImm)
            if x.value != y.value:
                return False
            continue
        left -= 1
        if left < 0 or x.is_leaf or (x.digest is not None and y.digest is not None):
            if expr_digest(x) != expr_digest(y):
                return False
            continue
        for name, role in plan_of(cls):
            p, q = getattr(x, name), getattr(y, name)
            if p is q:
                continue
            if role is Role.CHILD:
                if p.__class__ is tuple:
                    if len(p) != len(q):
                        return False
                    stack += zip(p, q, strict=True)
                elif p is None or q is None:
                    return False
                else:
                    stack.append((p, q))
            elif role is Role.DATA and isinstance(p, Expr) and isinstance(q, Expr):
                stack.append((p, q))
            elif role is Role.ATTRS:
                if (p or q) and expr_digest(x) != expr_digest(y):
                    return False
            elif role is not Role.DATA or data_key(p) != data_key(q):
                return False
    return True


_CLOSED = 1 << 20
"""Where the numbers of what a closed node binds begin: behind those of variables around it."""


class _Hasher(FieldWalk):
    """Feeds a node to a hash, with bound variables and buffers numbered in the order of their binding.

    What is used without a definition around it is numbered at its first use; its type or contents go into the
    stream at that moment, and every use is its number, so that sharing subexpressions changes nothing.
    """

    def __init__(self, map_free_vars: bool) -> None:
        super().__init__()
        self.stream = blake2b(digest_size=8)
        self.map_free_vars = map_free_vars
        self.numbers = self.scopes.table  # object -> (number, depth of its scope)
        self.count = 0
        self.lets = 0
        self.defining = False
        self.closed: dict[int, bytes] = {}
        """The hashes of closed nodes."""

    def bind(self, item: object, depth: int | None = None) -> None:
        if depth is None:
            depth = self.scopes.depth
        self.scopes.bind(item, (self.count, depth), depth)
        self.count += 1

    def var_token(self, var: Var) -> bytes:
        known = self.numbers.get(var)
        if known is None:
            if self.naming:
                return b"later" + _data_token(var.type)
            if not (self.defining or self.map_free_vars):
                return _identity(var)
            self.stream.update(self.var_type(var))
            self.bind(var, None if self.defining else 0)
            known = self.numbers[var]
        return b"#%d" % known[0]

    def var_type(self, var: Var) -> bytes:
        return b"var" + _data_token(var.type) + (b"+" if var.nonneg else b"")

    def buffer_token(self, buffer: Buffer) -> bytes:
        known = self.numbers.get(buffer)
        if known is None:
            if self.naming:
                return b"later" + buffer.dtype.encode()
            self.contents(buffer, frozenset())
            depth = max((self.numbers[v][1] for v in variables_of_buffer(buffer) if v in self.numbers), default=0)
            self.bind(buffer, depth)
            known = self.numbers[buffer]
        return b"#%d" % known[0]

    def contents(self, buffer: Buffer, defines: frozenset[str]) -> None:
        self.stream.update(b"buffer")
        for name, _ in plan_of(Buffer):
            before = self.defining
            self.defining = name in defines
            value = getattr(buffer, name)
            if isinstance(value, Expr):
                self.expr(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], Expr):
                self.stream.update(b"%d" % len(value))
                for item in value:
                    self.expr(item)
            else:
                self.stream.update(_data_token(value))
            self.defining = before

    def digest_of(self, root: Expr) -> bytes:
        memo: dict[int, bytes] = {}
        memos = [memo]
        # An entry is (node, stage): 0 to be entered, 1 the value of a Let is done, 2 its body is.
        stack: list[tuple[Expr, int]] = [(root, 0)]
        while stack:
            op, stage = stack[-1]
            memo = memos[-1]
            if id(op) in memo:
                stack.pop()
                continue
            if op.__class__ is Var:
                memo[id(op)] = self.var_token(op)
            elif op.__class__ is IntImm or op.__class__ is FloatImm:
                memo[id(op)] = expr_digest(op)
            elif op.__class__ is Let:
                if not self.let_stage(op, stage, stack, memos):
                    continue
            else:
                waiting = [c for c in _pending(op) if id(c) not in memo]
                if waiting:
                    stack += [(c, 0) for c in reversed(waiting)]
                    continue
                memo[id(op)] = _combine(
                    op,
                    lambda e: memos[-1].get(id(e)) or self.digest_of(e),
                    self.buffer_token,
                    self.var_token,
                    self.other,
                )
            stack.pop()
        return memos[0][id(root)]

    def let_stage(self, op: Let, stage: int, stack: list[tuple[Expr, int]], memos: list[dict[int, bytes]]) -> bool:
        """One step of a Let; whether it is done. Its variable is numbered by how many Lets stand around it."""
        if stage == 0:
            stack[-1] = (op, 1)
            stack.append((op.value, 0))
            return False
        if stage == 1:
            self.lets += 1
            self.scopes.push()
            self.scopes.bind(op.var, (-self.lets, self.scopes.depth))
            memos.append({})
            stack[-1] = (op, 2)
            stack.append((op.body, 0))
            return False
        body = memos.pop()[id(op.body)]
        self.scopes.pop()
        self.lets -= 1
        memos[-1][id(op)] = _short(b"let" + self.var_type(op.var) + memos[-1][id(op.value)] + body)
        return True

    def other(self, value: object) -> bytes:
        """A node inside an annotation is fed to the stream; an object of an unknown kind counts by its class."""
        if isinstance(value, Buffer):
            return self.buffer_token(value)
        if not isinstance(value, Node):
            return _data_token(value)
        self.node(value)
        return b"node"

    def expr(self, root: Expr) -> None:
        if root.__class__ is Var:
            self.stream.update(self.var_token(root))
        else:
            self.stream.update(expr_digest(root) if root.__class__ is IntImm else self.digest_of(root))

    def attr(self, value: object) -> None:
        self.stream.update(_attr_token(value, self.digest_of, self.other))

    def use_var(self, var: Var) -> None:
        self.stream.update(self.var_token(var))

    def use_buffer(self, buffer: Buffer) -> None:
        self.stream.update(self.buffer_token(buffer))

    def define_var(self, var: Var) -> None:
        self.stream.update(self.var_type(var))
        self.bind(var)

    def define_buffer(self, kind: str, buffer: Buffer) -> None:
        if kind in ("AllocBuffer", "AllocConst"):
            self.define_var(buffer.data)
        self.contents(buffer, DEFINES[kind])
        self.bind(buffer)

    def node(self, op: Node) -> None:
        """A closed node goes into the stream by a hash of its own, with numbers that do not depend on where it stands."""
        if not op.is_closed:
            super().node(op)
            return
        known = self.closed.get(id(op))
        if known is None:
            outer, count = self.stream, self.count
            self.stream, self.count = blake2b(digest_size=16), _CLOSED
            super().node(op)
            known = self.closed[id(op)] = self.stream.digest()
            self.stream, self.count = outer, count
        self.stream.update(known)

    def use_symbol(self, op: Node) -> None:
        known = self.numbers.get(op)
        if known is None and self.map_free_vars:
            self._fields(op)
            self.bind(op, 0)
        self.stream.update(_identity(op) if known is None else b"#%d" % known[0])

    def define_symbol(self, op: Node) -> None:
        self._fields(op)
        self.bind(op)

    def enter(self, op: Node) -> None:
        self.shape(op.__class__.__name__.encode())

    def data(self, value: object) -> None:
        self.stream.update(_data_token(value))

    def shape(self, token: bytes) -> None:
        self.stream.update(token)

    def root(self, value: object) -> None:
        if isinstance(value, IRModule):
            for name in sorted(value.functions):
                self.stream.update(name.encode())
                self.node(value.functions[name])
            self.attr(value.attrs)
        elif isinstance(value, Expr) or not isinstance(value, Node):
            self.attr(value)
        else:
            self.node(value)


def variables_of_buffer(buffer: Buffer) -> list[Var]:
    """The variables of a buffer's data, shape, strides and offset."""
    found: list[Var] = []
    stack: list[Expr] = list(buffer.children())
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.__class__ is Var:
            found.append(op)
        else:
            stack += op.children()
            if op.__class__ is BufferLoad:
                stack += op.buffer.children()
    return found


def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """A 64-bit hash that agrees with ``structural_equal(…, map_free_vars)``.

    Takes what ``structural_equal`` takes. What has no free variables (a function, a module) hashes alike in every
    process.
    """
    hasher = _Hasher(map_free_vars)
    with deep_recursion():
        hasher.root(node)
    return int.from_bytes(hasher.stream.digest(), "little")
