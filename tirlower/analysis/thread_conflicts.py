"""Whether accesses of different threads can meet in one element: the question behind every barrier.

Two accesses are asked about as instances of the polyhedral view: in one iteration of the serial loops around both, or
in successive iterations of one of them, by threads that differ in an axis. What only one thread does to an element
needs no barrier; what cannot be decided counts as a meeting.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, StringImm, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import post_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import While
from tirlower.poly import Access, Loop, Scop
from tirlower.poly.conditions import equal
from tirlower.poly.conflicts import Conflicts, Relation
from tirlower.poly.constraint_system import Outcome
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops
from tirlower.poly.forms import Form, constant, single

__all__ = ["SAME", "Meetings", "is_block_loop", "is_thread_loop"]

_COMMUTING = frozenset(Op.get(f"tir.atomic_{name}") for name in ("add", "max", "min", "and", "or", "xor"))
_ATOMICS = _COMMUTING | {Op.get("tir.atomic_exchange"), Op.get("tir.atomic_cas")}
_OF_ZERO = frozenset(Op.get(f"tir.atomic_{name}") for name in ("add", "or", "xor"))
"""The updates by which 0 changes nothing: a way to read."""
_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")

SAME = 0
"""The steps of the carrying loop between two accesses: none (one iteration), 1 (the next), or None (any later one)."""

MAX_QUESTIONS = 20_000
"""The questions asked for one function; beyond, accesses of one buffer are taken to meet."""


def _is_flat(buffer: Buffer | None) -> bool:
    return buffer is not None and len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0)


def _by_subscripts(access: Access) -> bool:
    indices = access.indices
    return indices is not None and [form.key for form in access.coordinates] == [form.key for form in indices]


def _width(buffer: Buffer | None) -> int:
    return 0 if buffer is None else buffer.dtype.bits * buffer.dtype.lanes


def _memory_of(atomic: Call) -> list[Var]:
    """The data variables of the memory that an atomic operation updates."""
    address = atomic.args[0]
    found = [load.buffer.data for load in each(BufferLoad, address)]
    return found or list(each(Var, address))


def _says_its_order(atomic: Call) -> bool:
    """Whether an atomic operation acquires or releases."""
    stated = [arg.value for arg in atomic.args if isinstance(arg, StringImm)]
    return bool(stated) and stated[0] != "relaxed"


def _only_reads(atomic: Call) -> bool:
    return atomic.op in _OF_ZERO and is_const_int(atomic.args[1], 0)


def is_thread_loop(loop: Loop) -> bool:
    """Whether the iterations of a loop are threads of one block."""
    return loop.tag.startswith(("threadIdx", "vthread", "cthread"))


def is_block_loop(loop: Loop) -> bool:
    """Whether the iterations of a loop are blocks of threads."""
    return loop.tag.startswith(("blockIdx", "clusterIdx", "clusterCtaIdx"))


class Meetings:
    """Answers about the accesses of one function, each once.

    ``across`` says that threads of other blocks count (memory of the device), ``warp`` is the number of threads that
    share memory (None: all of a block). ``overlaps`` are pairs of data variables that come to share bytes, so that any
    accesses of theirs meet; of those that are ``alike`` too, elements of one number are the same bytes, and no others
    are. ``warp_size`` is that of the warps whose own barriers count (:meth:`apart`).
    """

    def __init__(
        self,
        scop: Scop,
        func: PrimFunc,
        *,
        across: bool = False,
        warp: int | None = None,
        overlaps: Iterable[tuple[Var, Var]] = (),
        alike: Iterable[tuple[Var, Var]] = (),
        warp_size: int = 32,
    ) -> None:
        self.scop = scop
        self.conflicts = Conflicts(scop)
        self.across = across
        self.warp = warp
        self.warp_size = warp_size
        self.overlaps = {frozenset(pair) for pair in overlaps}
        self.alike = {frozenset(pair) for pair in alike}
        self.only_overlaps = bool(self.overlaps)
        self.atomic: dict[int, Call] = {}
        self.polled: set[Var] = set()
        self.asynchronous: set[Access] = set()
        self.asked = 0
        self._known: dict[object, bool] = {}
        self._kinds: dict[Access, object] = {}
        self._racing: dict[Access, bool] = {}
        self._pinned: dict[tuple[Access, Loop, bool], Access] = {}
        self._origins: dict[Access, Access] = {}
        self._apart: dict[Access, Access] = {}
        self._is_apart: set[Access] = set()
        post_order_visit(func.body, self._note_atomic)

    def _note_atomic(self, op: Node) -> None:
        if isinstance(op, Call) and op.op in _ATOMICS and isinstance(op.args[0], Call):
            self.atomic[id(op.args[0].args[0])] = op
            self.atomic[id(op.args[0])] = op
        elif isinstance(op, While):
            self.polled |= {var for call in each(Call, op) if call.op in _ATOMICS for var in _memory_of(call)}

    def _atomic_kind(self, access: Access) -> object:
        """What tells an atomic update from others: nothing but what :meth:`_commute` asks of it."""
        call = self.atomic.get(id(access.node))
        if call is None or call.op not in _COMMUTING:
            return call
        return call.op, _says_its_order(call), _only_reads(call)

    def _commute(self, a: Access, b: Access) -> bool:
        """Whether two atomic accesses may come in any order, or are ordered by what the program makes of them.

        Two updates of one kind may; so may one of threads that wait for each other in loops, or say what they acquire
        and release, for which a barrier of the block would be another meeting than theirs.
        """
        one, other = self.atomic.get(id(a.node)), self.atomic.get(id(b.node))
        if one is None or other is None:
            return False
        if one is other or a.data in self.polled or (one.op is other.op and one.op in _COMMUTING):
            return True
        return any(_says_its_order(call) or _only_reads(call) for call in (one, other))

    def any(self, before: Sequence[Access], after: Sequence[Access], carrier: Loop | None, steps: int | None) -> bool:
        """Whether one of ``before`` meets one of ``after``, ``steps`` iterations of ``carrier`` later."""
        by_data: dict[Var, list[Access]] = {}
        for access in self._distinct(after):
            by_data.setdefault(access.data, []).append(access)
        for access in self._distinct(before):
            for data, others in by_data.items():
                if data is not access.data and frozenset((data, access.data)) not in self.overlaps:
                    continue
                if any(self.meet(access, other, carrier, steps) for other in others):
                    return True
        return False

    def _distinct(self, accesses: Sequence[Access]) -> Iterable[Access]:
        """One access of each kind: what touches the same elements under the same conditions is asked about once."""
        return {self._kind(access): access for access in accesses}.values()

    def _kind(self, access: Access) -> object:
        found = self._kinds.get(access)
        if found is None:
            forms = access.digits if access.digits is not None else access.coordinates
            found = self._kinds[access] = (
                access.data,
                access.is_write,
                access.indices is None,
                access.digits is None,
                tuple(form.key for form in forms),
                access.loops,
                access.conditions,
                self._atomic_kind(access),
                access in self.asynchronous,
                access in self._is_apart,
            )
        return found

    def meet(self, a: Access, b: Access, carrier: Loop | None, steps: int | None) -> bool:
        """Whether instances of ``a``, then ``b``, of different threads can touch one element, one of them writing."""
        if not (a.is_write or b.is_write):
            return False
        if a.data is not b.data:
            pair = frozenset((a.data, b.data))
            if pair not in self.overlaps or pair not in self.alike or {a, b} & self.asynchronous:
                return pair in self.overlaps
            key: object = (self._kind(a), self._kind(b), carrier, steps)
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = self._meet_alike(a, b, carrier, steps)
            return found
        if self.only_overlaps:
            return False
        if self._commute(a, b):
            return False
        if a in self.asynchronous and not b.is_write:
            return False  # a wait orders it, and the barrier behind the wait
        origin = self._origin(a)
        if origin is self._origin(b) and self._races_with_itself(origin):
            return False
        key = (self._kind(a), self._kind(b), origin is self._origin(b), carrier, steps)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._ask(a, b, carrier, steps)
        return found

    def _meet_alike(self, a: Access, b: Access, carrier: Loop | None, steps: int | None) -> bool:
        """Whether accesses of memory that shares its bytes element by element meet: as if it were one buffer."""
        if not (_is_flat(a.buffer) and _is_flat(b.buffer)) or _width(a.buffer) != _width(b.buffer):
            return True
        if not (_by_subscripts(a) and _by_subscripts(b)):
            return True  # compared by address, which numbers no elements of the other one
        one, other = copy.copy(a), copy.copy(b)
        other.data = one.data
        # What a subscript was taken apart into belongs to its own buffer.
        one.digits = other.digits = None
        for access, made in ((a, one), (b, other)):
            if access in self._is_apart:
                self._is_apart.add(made)
        return self._ask(one, other, carrier, steps)

    def pinned(self, access: Access, loop: Loop, last: bool) -> Access:
        """An access in the first, or the last, iteration of a loop only."""
        if loop.extent is None:
            return access
        key = (access, loop, last)
        found = self._pinned.get(key)
        if found is None:
            found = copy.copy(access)
            at = loop.start + loop.extent.shifted(-1) if last else loop.start
            found.conditions = (*access.conditions, equal(single(loop.var) - at))
            self._pinned[key] = found
            self._origins[found] = self._origin(access)
            if access in self.asynchronous:
                self.asynchronous.add(found)
            if access in self._is_apart:
                self._is_apart.add(found)
        return found

    def apart(self, accesses: Iterable[Access]) -> list[Access]:
        """Accesses with a barrier of each warp between them and those that they are asked about.

        They meet what threads of other warps do only.
        """
        made: list[Access] = []
        for access in accesses:
            found = self._apart.get(access)
            if found is None:
                found = access if access in self._is_apart else copy.copy(access)
                self._apart[access] = found
                if found is not access:
                    self._is_apart.add(found)
                    self._origins[found] = self._origin(access)
                    if access in self.asynchronous:
                        self.asynchronous.add(found)
            made.append(found)
        return made

    def _origin(self, access: Access) -> Access:
        return self._origins.get(access, access)

    def _races_with_itself(self, a: Access) -> bool:
        """Whether two threads write one element in one instance: no barrier can help that, so none is asked for.

        Of memory that threads share it has to be certain. Elsewhere they keep to elements of their own, whoever vouched for
        them, where it is not known.
        """
        found = self._racing.get(a)
        if found is None:
            shared = a.buffer is None or a.buffer.scope.startswith(("shared", "warp"))
            outcomes = self._outcomes(a, a, None, SAME)
            found = self._racing[a] = any(x.exact and x.status == "found" if shared else True for x in outcomes)
        return found

    def _ask(self, a: Access, b: Access, carrier: Loop | None, steps: int | None) -> bool:
        return any(True for _ in self._outcomes(a, b, carrier, steps))

    def _outcomes(self, a: Access, b: Access, carrier: Loop | None, steps: int | None) -> Iterator[Outcome]:
        """The ways in which they meet, or may; one that tells nothing where too much was asked."""
        signs: dict[Loop, Sign] = {}
        relations: list[Relation] = []
        inside_carrier = False
        for loop in common_loops(a, b):
            if is_thread_loop(loop):
                continue
            if is_block_loop(loop):
                if not self.across:
                    signs[loop] = "="
            elif loop is carrier and steps != SAME:
                inside_carrier = True
                if steps is None:
                    signs[loop] = "<"
                else:
                    relations.append((single(loop.var).shifted(steps), single(loop.var), "="))
            elif not inside_carrier:
                signs[loop] = "="
        for extra_signs, extra in self._different(a, b):
            self.asked += 1
            if self.asked > MAX_QUESTIONS:
                yield Outcome("unknown")
                return
            found = self.conflicts.ask(a, b, {**signs, **extra_signs}, (*relations, *extra))
            if found.status != "empty":
                yield found

    def _different(self, a: Access, b: Access) -> Iterator[tuple[dict[Loop, Sign], tuple[Relation, ...]]]:
        """The ways in which two threads that share memory differ: in one axis, the others free."""
        mine, others = self._axes(a), self._axes(b)
        if self.warp is not None:
            yield from self._in_lanes(mine, others)
            return
        one = other = None
        if a in self._is_apart or b in self._is_apart:
            one, other = self._warp_of(mine), self._warp_of(others)
        if one is None or other is None:
            yield from self._in_an_axis(mine, others, ())
        else:
            for sign in ("<", ">"):
                yield {}, ((one, other, sign),)

    def _in_lanes(
        self, mine: dict[str, Loop], others: dict[str, Loop]
    ) -> Iterator[tuple[dict[Loop, Sign], tuple[Relation, ...]]]:
        """The ways in which two lanes that share a warp's memory differ: along threadIdx.x, in one row of that, and in one
        warp of it."""
        signs: dict[Loop, Sign] = {}
        relations: list[Relation] = []
        for tag in (tag for tag in mine if tag in others and tag.startswith(("threadIdx.y", "threadIdx.z"))):
            one, other = mine[tag], others[tag]
            if one is other:
                signs[one] = "="
            else:
                relations.append((single(one.var) - one.start, single(other.var) - other.start, "="))
        warp, other_warp = self._warp_of(mine), self._warp_of(others)
        if warp is not None and other_warp is not None:
            relations.append((warp, other_warp, "="))
        lanes = [{tag: loop for tag, loop in axes.items() if not tag.startswith("threadIdx") or tag == "threadIdx.x"}
                 for axes in (mine, others)]  # fmt: skip
        for more, extra in self._in_an_axis(lanes[0], lanes[1], tuple(relations)):
            yield {**signs, **more}, extra

    def _in_an_axis(
        self, mine: dict[str, Loop], others: dict[str, Loop], same_warp: tuple[Relation, ...]
    ) -> Iterator[tuple[dict[Loop, Sign], tuple[Relation, ...]]]:
        for tag in dict.fromkeys((*mine, *others)):
            one, other = mine.get(tag), others.get(tag)
            if one is None or other is None:
                yield {}, same_warp  # done by every thread of the axis
            elif one is other:
                yield {one: "!"}, same_warp
            else:
                x, y = single(one.var) - one.start, single(other.var) - other.start
                yield {}, (*same_warp, (x, y, "<"))
                yield {}, (*same_warp, (x, y, ">"))

    def _axes(self, access: Access) -> dict[str, Loop]:
        """The thread loops around an access; of nested ones of a tag the outermost, which numbers the threads."""
        found: dict[str, Loop] = {}
        for loop in access.loops:
            if is_thread_loop(loop) or (self.across and is_block_loop(loop)):
                found.setdefault(loop.tag, loop)
        return found

    def _warp_of(self, axes: dict[str, Loop]) -> Form | None:
        """The number of a thread's warp, where the extents are constant."""
        index, step = constant(0), 1
        for tag in _AXES:
            loop = axes.get(tag)
            if loop is None:
                continue
            index = index + (single(loop.var) - loop.start).scaled(step)
            if loop.extent is None or not loop.extent.is_constant:
                return None
            step *= loop.extent.const
        return self.scop.space.floordiv(index, self.warp or self.warp_size)
