"""May iterations of a loop run once more, behind all of them, and nothing changes?

Tails of tiles that begin earlier repeat iterations (Halide's ``ShiftInwards``). Where each iteration touches what no other one writes,
and reads of what it writes itself only what it has written before, running it again stores what is there.
"""

from __future__ import annotations

from tirlower.ir import ForKind, Var
from tirlower.poly.boxes import at_first
from tirlower.poly.legality import LoopLike, is_parallel
from tirlower.poly.moved_group import are_alike
from tirlower.poly.scop import Access, Loop, Scop

__all__ = ["is_repeatable"]


def is_repeatable(scop: Scop, loop: LoopLike) -> bool:
    """Whether iterations of a loop may certainly run again, right behind the loop; False also where that is not known.

    What is allocated in an iteration is new in each. Of other memory that the loop writes, every read comes behind a write of the same element
    in the same iteration, or behind the init of its block, and no two iterations touch one element.

    >>> from tirlower.poly import extract
    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = 0
    ...         for k in range(4):
    ...             B[i] = B[i] + A[k]
    ...     for j in range(8):
    ...         C[j] = C[j] + A[j]
    ... '''))
    >>> is_repeatable(scop, "i"), is_repeatable(scop, "j")
    (True, False)
    """
    found = scop.loop(loop)
    inside = scop.inside(found)
    written = {access.data for access in inside if access.is_write}
    if scop.irregular or not found.regular:
        return False
    if any(one.kind is ForKind.THREAD_BINDING for one in scop.loops if found in one.nest):
        return False
    for data in written:
        mine = [access for access in inside if access.data is data]
        if found in scop.homes.get(data, ()):
            continue
        if any(access.indices is None or access.buffer is not mine[0].buffer for access in mine):
            return False
        writes = [access for access in mine if access.is_write]
        if not all(
            any(_comes_first(scop, one, access, found) for one in writes) for access in mine if not access.is_write
        ):
            return False
    return is_parallel(scop, found).proved


def _comes_first(scop: Scop, write: Access, read: Access, loop: Loop) -> bool:
    """Whether a write certainly stores the element of a read before it, in the same iteration of a loop."""
    if write.order >= read.order or not write.regular:
        return False
    mine, theirs = write.indices, read.indices
    assert mine is not None and theirs is not None
    if [form.key for form in mine] != [form.key for form in theirs]:
        return False
    if not all(getattr(dim, "exact", True) for form in mine for dim in form.terms):
        return False
    depth = len(write.loops)
    if read.loops[:depth] != write.loops:
        return False
    used = frozenset[Var]().union(*map(scop.space.deps, mine))
    # What runs in the first iteration of loops that its element does not move with, as an init, is before all later ones.
    firsts = {one.var: one.start for one in write.loops if loop in one.outer and one.var not in used}
    inside = write.conditions[loop.given :]
    given = [at_first(one, firsts) for one in inside]
    return all(
        one.is_true or (one.is_exact and any(are_alike(one, other) for other in read.conditions)) for one in given
    )
