"""Elements that one iteration of a loop writes and all of its iterations read: ``C[i, j] = min(C[i, j], C[i, k] + C[k, j])`` along j."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tirlower.ir import build
from tirlower.ir.cancel import cancelled, linear_difference
from tirlower.ir.expr import BufferLoad, Expr
from tirlower.ir.stmt import BufferStore
from tirlower.poly import Access, Loop, Statement
from tirlower.poly.forms import Form

__all__ = ["point_of"]


def point_of(statements: Iterable[Statement], loop: Loop) -> Expr | None:
    """The one iteration of a loop that writes elements which do not move with it; None where there is none, or several.

    >>> from tirlower.autoschedule.classify import nests_of
    >>> from tirlower.script import parse
    >>> [nest] = nests_of(parse('''
    ... def f(C: T.Buffer((9, 9), "int32"), k: T.int32):
    ...     for j in range(9):
    ...         C[0, j] = C[0, j] + C[0, k - 1]
    ... '''))
    >>> print(point_of(nest.statements, nest.loops[0]))
    k - 1
    """
    accesses = [access for statement in statements for access in statement.accesses]
    found: dict[object, Expr] = {}
    for written in accesses:
        if not written.is_write or not isinstance(written.node, BufferStore):
            continue
        for read in accesses:
            if not read.is_write and read.buffer is written.buffer and isinstance(read.node, BufferLoad):
                found.update(_points(written, read, loop))
    return next(iter(found.values())) if len(found) == 1 else None


def _points(written: Access, read: Access, loop: Loop) -> Iterator[tuple[object, Expr]]:
    """Those of a store and a load of one buffer, with the forms by which they are told apart."""
    if written.indices is None or read.indices is None:
        return
    assert isinstance(written.node, BufferStore) and isinstance(read.node, BufferLoad)
    for axis, (mine, other) in enumerate(zip(written.indices, read.indices, strict=True)):
        if mine.terms.get(loop.var) == 1 and not _moves(mine.without(loop.var), loop) and not _moves(other, loop):
            at = linear_difference(read.node.indices[axis], written.node.indices[axis])
            yield other.plus(mine.without(loop.var), -1).key, cancelled(build.add(at, loop.var))


def _moves(form: Form, loop: Loop) -> bool:
    """Whether an index depends on a loop."""
    return any(dim is loop.var or loop.var in getattr(dim, "deps", ()) for dim in form.terms)
