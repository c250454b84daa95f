"""Does a thread read what another one wrote into a copy of its own? Memory that is allocated around thread loops.

A loop that is bound to a thread axis gives each of its iterations the memory that its scope makes it one's own: ``local``
memory each thread, ``shared`` memory each block of threads. In the order of the script there is one memory for all. Both are the
same where what is read was written by the same thread (or block); all loops of one axis number the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from tirlower.ir import For, Var
from tirlower.poly.conflicts import Conflicts, Relation
from tirlower.poly.constraint_system import Outcome
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops, ways_before
from tirlower.poly.forms import single
from tirlower.poly.isl import Solver
from tirlower.poly.privatization import covered_within
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.verdict import Verdict

__all__ = ["OtherCopy", "other_copies"]

_BLOCKS = ("blockIdx", "clusterIdx")
_THREADS = ("threadIdx", *_BLOCKS)


@dataclass(frozen=True)
class OtherCopy:
    """A read of memory that may have been written in another copy of it: by iterations of ``loop`` (a thread axis), in a scope
    of which each iteration has its own."""

    loop: Loop
    scope: str
    write: Access
    read: Access
    verdict: Verdict


def other_copies(
    scop: Scop, *, solver: Solver | None = None, reduced: Mapping[For, Collection[Var]] | None = None
) -> Iterator[OtherCopy]:
    """The reads of ``local`` and ``shared`` memory that are not proved to see what the same thread, or block, wrote.

    ``reduced`` says into which data the threads of a loop combine their terms: all of them get the result. What a callee
    touches is taken to be its thread's own.

    >>> from tirlower.poly import extract
    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def turned(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     D = T.alloc_buffer((8,), "int32", scope="local")
    ...     for i in T.thread_binding(8, thread="threadIdx.x"):
    ...         D[i] = A[i]
    ...     for j in T.thread_binding(8, thread="threadIdx.x"):
    ...         B[j] = D[7 - j]
    ... '''))
    >>> [str(found.verdict.witness) for found in other_copies(scop)]
    ['iteration (i = 3) writes D[3] and iteration (i = 4) reads D[3]']
    """
    by_data: dict[Var, list[Access]] = {}
    for access in scop.accesses:
        if access.data in scop.homes and _axes(scop.scopes.get(access.data, "")):
            by_data.setdefault(access.data, []).append(access)
    for data, accesses in by_data.items():
        asked = _Copies(scop, data, accesses, reduced or {}, solver)
        for read in accesses:
            if not read.is_write and read.must:
                found = asked.of(read)
                if found is not None:
                    yield found


def _axes(scope: str) -> tuple[str, ...]:
    """The thread axes (their beginnings) whose iterations each have their own memory of a scope."""
    return _THREADS if scope == "local" else _BLOCKS if scope.startswith("shared") else ()


class _Copies:
    """Questions about one buffer."""

    def __init__(
        self,
        scop: Scop,
        data: Var,
        accesses: list[Access],
        reduced: Mapping[For, Collection[Var]],
        solver: Solver | None,
    ) -> None:
        self.scop = scop
        self.scope = scop.scopes[data]
        self.axes, self.home = _axes(self.scope), scop.homes[data]
        self.data, self.reduced = data, reduced
        self.writes = [access for access in accesses if access.is_write and access.must]
        self.conflicts = Conflicts(scop, solver)

    def of(self, read: Access) -> OtherCopy | None:
        """A write in another copy, whose value a read may be of; nothing where it certainly sees its own copy's."""
        inside = {loop.tag: loop for loop in self._copying(read)}
        for write in self.writes:
            for loop in self._copying(write):
                own = inside.get(loop.tag)
                if own is not None and not (self._several(loop) or self._several(own)):
                    continue  # both are in the one iteration that there is
                found = self._meets(write, read, loop, own)
                if found is not None:
                    return OtherCopy(loop, self.scope, write, read, found)
        return None

    def _copying(self, access: Access) -> list[Loop]:
        """The loops around an access whose iterations have copies of the memory, and share it in the script."""
        return [
            loop
            for loop in access.loops
            if loop.tag.startswith(self.axes) and loop not in self.home and not self._given(loop)
        ]

    def _several(self, loop: Loop) -> bool:
        low, high = self.scop.space.interval_of_dim(loop.var)
        return high > low

    def _given(self, loop: Loop) -> bool:
        """Whether the threads of a loop combine what they have in this memory, or somebody else answers for it."""
        node = loop.node
        return isinstance(node, For) and self.data in self.reduced.get(node, ())

    def _meets(self, write: Access, read: Access, loop: Loop, own: Loop | None) -> Verdict | None:
        """How a read, of the iteration of ``own`` (all of them where it is in none), meets a write of another one of ``loop``."""
        common = common_loops(write, read)
        # Each iteration of the loops around the allocation has other memory.
        one: dict[Loop, Sign] = dict.fromkeys((each for each in common if each in self.home), "=")
        for signs in ways_before(write, read, common[len(one) :]):
            for case in self._cases({**one, **signs}, loop, own):
                found = self.conflicts.ask(write, read, *case)
                if found.status == "empty":
                    continue
                if own is not None and covered_within(self.scop, read, self.writes, own, self.conflicts.solver):
                    return None
                return self._verdict(write, read, *case, found)
        return None

    @staticmethod
    def _cases(
        signs: dict[Loop, Sign], loop: Loop, own: Loop | None
    ) -> Iterator[tuple[Mapping[Loop, Sign], tuple[Relation, ...]]]:
        """The ways in which the write's iteration of an axis is not the read's."""
        if own is None:
            yield signs, ()
        elif own is not loop:
            mine, other = single(loop.var) - loop.start, single(own.var) - own.start
            for sign in ("<", ">"):
                yield signs, ((mine, other, sign),)
        elif loop not in signs:
            for sign in ("<", ">"):
                yield {**signs, loop: sign}, ()
        elif signs[loop] != "=":
            yield signs, ()

    def _verdict(
        self, write: Access, read: Access, signs: Mapping[Loop, Sign], relations: tuple[Relation, ...], found: Outcome
    ) -> Verdict:
        reason = f"{read.text} may be of what {write.text} wrote in another one's"
        if found.status == "found" and found.exact:
            witness = self.conflicts.witness(write, read, signs, relations, found)
            if witness is not None and witness.sink is not None:
                first, second = witness.points
                reason = (
                    f"at {first.iteration} one {first.action}, and at {second.iteration} another one {second.action}"
                )
            return Verdict("refuted", reason, witness)
        return Verdict("unknown", f"{reason}: {found.reason}" if found.reason else reason)
