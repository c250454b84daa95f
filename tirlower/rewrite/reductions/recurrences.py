"""Sums whose products read the array that the sums go to: triangular solves, factorizations, recurrences of growing length.

No order of the loops lets a processor do something else while it waits for an addition, so the additions alone are to be waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, TypeAlias

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.cancel import linear_difference
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Mul, Var
from tirlower.ir.query import each, has, mentions, reads_data, statements
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, For, Stmt, While
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.reductions.chains import carried_by_all_loops, sums_of_updates

__all__ = ["apart_by_memory", "sums_apart", "sums_of_recurrences"]

_LOOPS: Final = (For, While)
_MOST: Final = 256
"""Statements of a nest that is looked at: in one of many, others are there to be done meanwhile."""

_Placed: TypeAlias = "tuple[BufferStore | Bind, tuple[For, ...]]"
"""A statement, and the loops around it, the outermost first."""


def sums_apart(body: Stmt) -> list[Expr]:
    """The operations of sums that stay apart from their products: what waits for them, waits for them alone.

    Where one is of a recurrence, all that go to its memory are: loops that were changed are then told by what they write.
    """
    apart = {id(op): op for op in sums_of_recurrences(body)}
    into: dict[Var, list[Expr]] = {}
    for store in statements(body) if apart else ():
        if isinstance(store, BufferStore):
            into.setdefault(store.buffer.data, []).extend(sums_of_updates(store))
    for sums in into.values():
        if any(id(one) in apart for one in sums):
            apart.update((id(op), op) for op in sums)
    return [*carried_by_all_loops(body), *apart.values()]


def apart_by_memory(body: Stmt) -> dict[str, bool]:
    """Whether the sums that go to memory of a name stay apart from their products; of two pieces of one name, where they agree."""
    apart = set(map(id, sums_apart(body)))
    found: dict[str, set[bool]] = {}
    for store in statements(body):
        if isinstance(store, BufferStore):
            found.setdefault(store.buffer.data.name, set()).update(id(op) in apart for op in sums_of_updates(store))
    return {name: said.pop() for name, said in found.items() if len(said) == 1}


def sums_of_recurrences(body: Stmt) -> list[Expr]:
    """The operations of the sums of nests whose products read the array that the sums go to, carried there by a loop:
    ``x[i] -= L[i, j] * x[j]``. A sum in a scalar goes where what is computed from it is stored.

    One in the array itself, next to which lanes of a vector could have theirs (``A[i, j] -= A[i, k] * A[k, j]``, along j), is none:
    the others are there to be done meanwhile. They are not where k reaches those lanes.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(L: T.Buffer((8, 8), "float32"), x: T.Buffer((8,), "float32"), A: T.Buffer((8, 8), "float32")):
    ...     for i in range(8):
    ...         for j in range(i):
    ...             x[i] -= L[i, j] * x[j]
    ...     for i in range(8):
    ...         for j in range(i, 8):
    ...             for k in range(i):
    ...                 A[i, j] -= A[i, k] * A[k, j]
    ... ''')
    >>> print(*sums_of_recurrences(func.body))
    x[i] - L[i, j] * x[j]
    """
    found: list[Expr] = []
    inner: set[int] = set()
    for nest in statements(body):
        if isinstance(nest, _LOOPS) and id(nest) not in inner:
            inner.update(id(stmt) for stmt in statements(nest.body) if isinstance(stmt, _LOOPS))
            own = {stmt.buffer.data for stmt in each(AllocBuffer, nest) if not _is_one_element(stmt.buffer)}
            placed = list(islice(_placed(nest, ()), _MOST + 1))
            for store, around in placed if len(placed) <= _MOST else ():
                if isinstance(store, BufferStore) and has(Mul, store.value) and store.buffer.data not in own:
                    chain = sums_of_updates(store)
                    if chain and _reads_where_it_goes(store, around, placed):
                        found += chain
    return found


def _placed(stmt: Stmt, around: tuple[For, ...]) -> Iterator[_Placed]:
    if isinstance(stmt, (BufferStore, Bind)):
        yield stmt, around
    elif isinstance(stmt, For):
        around = (*around, stmt)
    for inner in stmt.children():
        if isinstance(inner, Stmt):
            yield from _placed(inner, around)


def _reads_where_it_goes(update: BufferStore, around: tuple[For, ...], placed: Sequence[_Placed]) -> bool:
    """Whether what an update adds reads what another iteration stores the sum to."""
    loads = [load for load in each(BufferLoad, update.value) if not _is_of(load, update)]
    if not _is_one_element(update.buffer):
        if any(_is_lane(loop, update, loads, around[at + 1 :]) for at, loop in enumerate(around)):
            return False
        ends = [(update, around)]
    else:
        ends = list(_ends(update, placed))
    return any(
        load.buffer.data is store.buffer.data
        and _is_carried(load, store, [loop.loop_var for loop in around if loop in others])
        for store, others in ends
        for load in loads
    )


def _ends(update: BufferStore, placed: Sequence[_Placed]) -> Iterator[tuple[BufferStore, tuple[For, ...]]]:
    """The stores of what is computed from a scalar to arrays, through other scalars and names."""
    known: set[Var] = {update.buffer.data}
    before = 0
    while len(known) > before:
        before = len(known)
        for stmt, _ in placed:
            if _uses(stmt.value, known):
                if isinstance(stmt, Bind):
                    known.add(stmt.var)
                elif _is_one_element(stmt.buffer):
                    known.add(stmt.buffer.data)
    for stmt, around in placed:
        if isinstance(stmt, BufferStore) and not _is_one_element(stmt.buffer) and _uses(stmt.value, known):
            yield stmt, around


def _uses(value: Expr, known: set[Var]) -> bool:
    return mentions(value, known) or any(reads_data(value, data) for data in known)


def _is_carried(load: BufferLoad, store: BufferStore, common: Sequence[Var]) -> bool:
    """Whether iterations of loops around both may hand an element from one to another: no subscript alone tells them apart."""
    if load.buffer is not store.buffer:  # a view of it, whose subscripts are others
        return True
    pairs = list(zip(load.indices, store.indices, strict=True))
    return any(not any(a is var and structural_equal(a, b) for a, b in pairs) for var in common)


def _is_lane(loop: For, update: BufferStore, loads: Sequence[BufferLoad], inside: Sequence[For]) -> bool:
    """Whether a loop goes along the last dimension of all that moves with it, the sum first, and no loop inside of it through the sums
    of other iterations."""
    var = loop.loop_var
    if update.indices[-1] is not var:
        return False
    others = [index for one in (update.indices, *(load.indices for load in loads)) for index in one[:-1]]
    return not any(mentions(index, (var,)) for index in others) and not any(
        _is_row_of(load, update) and load.indices[-1] is one.loop_var and not _is_behind(loop, one)
        for one in inside
        for load in loads
    )


def _is_row_of(load: BufferLoad, update: BufferStore) -> bool:
    """Whether a load is of the row that a sum is in."""
    return load.buffer is update.buffer and all(map(structural_equal, load.indices[:-1], update.indices[:-1]))


def _is_behind(loop: For, inner: For) -> bool:
    """Whether a loop begins where one inside of it ends, or further on."""
    past = linear_difference(build.add(inner.min, inner.extent), loop.min, always=True)
    return isinstance(past, IntImm) and past.value <= 0


def _is_of(load: BufferLoad, update: BufferStore) -> bool:
    return load.buffer is update.buffer and all(map(structural_equal, load.indices, update.indices))


def _is_one_element(buffer: Buffer) -> bool:
    return all(isinstance(extent, IntImm) and extent.value == 1 for extent in buffer.shape)
