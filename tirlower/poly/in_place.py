"""Which arrays of a function may be one: those that are read where, and only where, the other is written.

``C[i] = A[i] + B[i]`` computes the same when ``C`` is the memory of ``A``, in any order of the iterations, though
machine code was made for arrays that share no memory: every use of the old value leads to the store that ends it.
"""

from __future__ import annotations

import copy

from tirlower.ir import BufferStore, PrimFunc, Var
from tirlower.ir.structural import structural_equal
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.digit_test import Sign, disjoint
from tirlower.poly.extract import extract
from tirlower.poly.forms import Form
from tirlower.poly.scop import Access, Scop

__all__ = ["in_place"]

MAX_ASKED = 64
"""The pairs of accesses that are asked about for one function; the pairs of arrays left over are not proved."""


def in_place(func: PrimFunc | Scop) -> tuple[tuple[int, int], ...]:
    """The pairs of parameters, by position, of which one is read and the other written, and which may be one array.

    They have one shape, type and layout. Each element of the first is read by no other statement instance than the
    ones that write this element of the second, as part of what is stored: an element that is read in another
    iteration, in another statement, or through a pointer may be written before, and is no such.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         C[i] = A[i] + B[7 - i]
    ... ''')
    >>> in_place(func)
    ((0, 2),)
    """
    scop = extract(func)
    if scop.pointers.any_wild:
        return ()
    asked = _Asked(Conflicts(scop))
    places = {buffer.data: n for n, p in enumerate(scop.func.params) if (buffer := scop.func.buffer_map.get(p))}
    touched: dict[int, list[Access]] = {}
    for access in scop.accesses:
        if access.data in places:
            touched.setdefault(places[access.data], []).append(access)
    found = []
    for read, reads in touched.items():
        if any(a.is_write for a in reads) or not all(_plain(scop, a, read) for a in reads):
            continue
        for written, accesses in touched.items():
            writes = [a for a in accesses if a.is_write]
            if writes and _alike(scop, read, written) and all(_plain(scop, a, written) for a in writes):
                if all(asked.only_there(a, b) for a in reads for b in writes):
                    found.append((read, written))
    return tuple(found)


def _plain(scop: Scop, access: Access, position: int) -> bool:
    """Whether an access is of elements of the parameter's own buffer, and part of a store."""
    buffer = scop.func.buffer_map[scop.func.params[position]]
    own = access.site[0] if access.site is not None else access.buffer
    return (
        isinstance(access.statement.node, BufferStore)
        and own is buffer
        and access.indices is not None
        and not access.atomic
    )


def _alike(scop: Scop, read: int, written: int) -> bool:
    """Whether two parameters have one type, shape and layout, so that at one address their elements coincide."""
    a, b = (scop.func.buffer_map[scop.func.params[n]] for n in (read, written))
    if a.dtype is not b.dtype or len(a.shape) != len(b.shape) or not (a.is_compact and b.is_compact):
        return False
    return all(structural_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))


class _Asked:
    """Questions about pairs of accesses of different buffers, as if these were one; a limited number of them.

    They are answered by the cheap test alone: arrays for which it would take more may not be one.
    """

    def __init__(self, conflicts: Conflicts) -> None:
        self.conflicts = conflicts
        self.left = MAX_ASKED

    def only_there(self, read: Access, write: Access) -> bool:
        """Whether the two meet in one element only where they are parts of one instance of one statement."""
        self.left -= 1
        if self.left < 0:
            return False
        a, b = _subscripts(read), _subscripts(write)
        b.data = a.data
        if _split(read) != _split(write):
            a.digits = b.digits = None
        if read.statement is not write.statement or _keys(a.coordinates) != _keys(b.coordinates):
            return self.apart(a, b, {})
        return all(
            self.apart(a, b, {**{outer.var: "=" for outer in read.loops[:depth]}, loop.var: "!"})
            for depth, loop in enumerate(read.loops)
        )

    def apart(self, a: Access, b: Access, signs: dict[Var, Sign]) -> bool:
        """Whether two accesses meet in no element in iterations that relate as the signs say."""
        forms = self.conflicts.forms(a, b)
        return forms is None or (bool(forms) and disjoint(self.conflicts.scop.space, forms, signs))


def _keys(forms: tuple[Form, ...] | None) -> list[object] | None:
    return None if forms is None else [lin.key for lin in forms]


def _split(access: Access) -> object:
    """Into what, and by what, a flattened subscript was taken apart."""
    return _keys(access.digits), None if access.stride is None else access.stride.key, access.base


def _subscripts(access: Access) -> Access:
    """An access told apart from others by its subscripts."""
    made = copy.copy(access)
    made.coordinates = access.site[1] if access.site is not None else access.indices or ()
    return made
