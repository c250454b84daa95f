"""``set_scope``: a buffer is kept in another kind of memory."""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.ir.buffer import Buffer
from tirlower.poly.conflicts import Conflicts, Relation
from tirlower.poly.digit_test import Sign
from tirlower.poly.forms import single
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.caches import cache_name
from tirlower.schedule.memory.other_buffer import instead
from tirlower.schedule.places import allocation_of, loops_at, using
from tirlower.schedule.sites import Change
from tirlower.schedule.step import Step

__all__ = ["SET_SCOPE"]


def _apart(scope: str, tag: str) -> bool:
    """Whether iterations along an axis of threads have memory of a scope each of their own."""
    if tag.startswith("blockIdx"):
        return scope != "global"
    if tag.startswith("threadIdx") or tag.startswith("vthread"):
        return scope.split(".")[0] not in ("global", "shared")
    return False


def _check(step: Step) -> Verdict:
    buffer, scope = step.buffer("buffer"), str(step["storage_scope"])
    func = step.func(step.stage("block").site)
    if allocation_of(step.facts, func, buffer) is None:
        step.refuse(
            f"{buffer.name} is not allocated by the function", None, "cache it: a parameter's scope is the caller's"
        )
    places = [("body", *way) for way, _ in using(step.facts, func.body, buffer)]
    loops = [loop for place in places for _, loop in loops_at(func, place)]
    tags = {loop.thread_tag for loop in loops if loop.thread_tag is not None}
    if not any(_apart(scope, tag) for tag in tags) and buffer.data not in step.facts.uses(func.body).pointers:
        return PROVED  # one memory for all that use it
    scop = step.facts.scop(func)
    accesses = [access for access in scop.accesses if access.data is buffer.data]
    conflicts = Conflicts(scop)
    for a in accesses:
        for b in accesses:
            if not (a.is_write or b.is_write):
                continue
            for signs, relations in _crossings(scop, scope, a, b):
                found = conflicts.ask(a, b, signs, relations)
                if found.status == "empty":
                    continue
                reason = f"{a.text} and {b.text} are of different threads, which have memory of scope {scope!r} each"
                if found.status == "found" and found.exact:
                    witness = conflicts.witness(a, b, signs, relations, found)
                    return Verdict("refuted", reason, witness, "use a scope that the threads share")
                return Verdict("unknown", f"whether {reason} is not known: {found.reason}")
    return PROVED


def _crossings(scop: Scop, scope: str, a: Access, b: Access) -> Iterator[tuple[dict[Loop, Sign], tuple[Relation, ...]]]:
    """The ways in which two accesses are of different threads that do not share the scope."""
    home = scop.homes.get(a.data, ())
    for mine in a.loops:
        if not _apart(scope, mine.tag) or mine in home:
            continue
        for other in b.loops:
            if other is mine:
                yield {mine: "<"}, ()
                yield {mine: ">"}, ()
            elif other.tag == mine.tag:
                for sign in ("<", ">"):
                    yield {}, ((single(mine.var), single(other.var), sign),)


def _rewrite(step: Step) -> Change:
    buffer, scope = step.buffer("buffer"), str(step["storage_scope"])
    if buffer.scope == scope:
        return Change()
    new = Buffer(
        cache_name(buffer, scope), buffer.shape, buffer.dtype, strides=buffer.strides, scope=scope, align=buffer.align,
        axis_separators=buffer.axis_separators,
    )  # fmt: skip
    return instead(step, step.stage("block").site, buffer, new)


SET_SCOPE = Kind(
    "SetScope",
    "set_scope",
    (
        Slot("block", Takes.STAGE),
        Slot("buffer", Takes.BUFFER, attr=True, keyword="buffer_index", side="write"),
        Slot("storage_scope", Takes.SCOPE, attr=True),
    ),
    _rewrite,
    """Keep an allocated buffer that a block writes in memory of another scope; it is named ``B_shared`` then.

    Legal where no thread reads or overwrites in it what another one wrote that has such memory of its own.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    ...     B = T.alloc_buffer((8,), "int32")
    ...     for i in range(8):
    ...         B[i] = A[i]
    ...     for i in range(8):
    ...         C[i] = B[i]
    ... '''))
    >>> sch.set_scope("B", 0, "shared")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        B_shared = T.alloc_buffer((8,), "int32", scope="shared")
        for i in range(8):
            B_shared[i] = A[i]
        for i in range(8):
            C[i] = B_shared[i]
    """,
    check=_check,
)
