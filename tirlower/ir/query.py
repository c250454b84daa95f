"""Questions to a tree: iterators over its distinct nodes, for ``any``, sets and loops in place of a callback each."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import TypeVar, overload

from tirlower.ir.expr import BufferLoad, Call, Div, Expr, FloorDiv, FloorMod, IntImm, Mod, Var
from tirlower.ir.node import Node
from tirlower.ir.stmt import Stmt

__all__ = ["each", "has", "is_small", "may_divide_by_zero", "may_move", "mentions", "nodes", "reads_data", "statements"]

N = TypeVar("N", bound=Node)
M = TypeVar("M", bound=Node)
K = TypeVar("K", bound=Node)


@overload
def nodes(*roots: Expr) -> Iterator[Expr]: ...
@overload
def nodes(*roots: Node) -> Iterator[Node]: ...
def nodes(*roots: Node) -> Iterator[Node]:
    """Every distinct node under (and including) roots, each before its children."""
    seen: set[int] = set()
    stack = list(reversed(roots))
    while stack:
        op = stack.pop()
        if id(op) not in seen:
            seen.add(id(op))
            yield op
            if not op.is_leaf:
                stack += reversed(list(op.children()))


@overload
def each(kind: type[N], *roots: Node) -> Iterator[N]: ...
@overload
def each(kind: tuple[type[N], type[M]], *roots: Node) -> Iterator[N | M]: ...
@overload
def each(kind: tuple[type[N], type[M], type[K]], *roots: Node) -> Iterator[N | M | K]: ...
@overload
def each(kind: tuple[type[N], ...], *roots: Node) -> Iterator[N]: ...
def each(kind: type[Node] | tuple[type[Node], ...], *roots: Node) -> Iterator[Node]:
    """The distinct nodes of one class, or of some, under (and including) roots.

    >>> from tirlower.ir.expr import Var
    >>> i, j = Var("i", "int32"), Var("j", "int32")
    >>> [var.name for var in each(Var, i * 4 + j)]
    ['i', 'j']
    """
    found = nodes(*roots)
    if all(issubclass(one, Stmt) for one in (kind if isinstance(kind, tuple) else (kind,))):
        found = statements(*roots)  # no expression holds a statement, and they are most nodes
    return (op for op in found if isinstance(op, kind))


def has(kind: type[Node] | tuple[type[Node], ...], *roots: Node) -> bool:
    """Whether a node of a class, or of some, stands under (or is) a root."""
    return any(isinstance(op, kind) for op in nodes(*roots))


def may_divide_by_zero(op: Node) -> bool:
    """Whether a node divides integers by what is no constant other than 0.

    >>> i = Var("i", "int32")
    >>> may_divide_by_zero(i // 4), may_divide_by_zero(4 % i)
    (False, True)
    """
    if not isinstance(op, (Div, Mod, FloorDiv, FloorMod)) or not op.dtype.is_integral:
        return False
    return not (isinstance(op.b, IntImm) and op.b.value)


def may_move(*exprs: Expr) -> bool:
    """Whether expressions can be computed anywhere: they read no memory, call nothing, and divide by nothing that may be 0.

    >>> n, d = Var("n", "int32"), Var("d", "int32")
    >>> may_move(n // 4, n + d), may_move(n // d)
    (True, False)
    """
    return not any(isinstance(op, (BufferLoad, Call)) or may_divide_by_zero(op) for op in nodes(*exprs))


def statements(*roots: Node) -> Iterator[Node]:
    """The distinct nodes that are no expressions, each before its children; expressions are not entered."""
    stack = [root for root in reversed(roots) if not isinstance(root, Expr)]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if id(op) not in seen:
            seen.add(id(op))
            yield op
            stack += [child for child in op.children() if not isinstance(child, Expr)][::-1]


def mentions(root: Node, variables: Collection[object]) -> bool:
    """Whether one of some variables stands under (or is) a node."""
    return any(var in variables for var in each(Var, root))


def reads_data(root: Node, data: Var) -> bool:
    """Whether the memory of a data variable is read under a node, or its address is taken."""
    return any(op is data or (isinstance(op, BufferLoad) and op.buffer.data is data) for op in nodes(root))


def is_small(limit: int, *roots: Node) -> bool:
    """Whether roots have at most so many distinct nodes together."""
    return sum(1 for _ in islice(nodes(*roots), limit + 1)) <= limit
