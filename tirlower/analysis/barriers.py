"""Where barriers go: between accesses of different threads that meet, as few as can be, at the latest place.

A statement is summed up by the accesses that an earlier (``head``) or later (``tail``) one reaches without passing a
barrier. In a sequence the accesses since the last barrier are carried along, and a barrier is put before the first
statement that meets one of them; that is the fewest for a straight line (intervals, each to be cut). The body of a loop
is a circle of such intervals: each place for a first barrier is tried, then the same is done around the circle. Without
any barrier in the body all later iterations matter, with one only the next does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from tirlower.analysis.device_calls import is_object_wait
from tirlower.analysis.thread_conflicts import SAME, Meetings
from tirlower.analysis.uniformity import Uniformity
from tirlower.diagnostics import TransformError
from tirlower.ir.annotations import ASYNC_SCOPE
from tirlower.ir.expr import Call, StringImm, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch
from tirlower.ir.op import Op
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import (
    AttrStmt,
    Block,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    declares,
)
from tirlower.poly import Access, Loop, Scop

__all__ = ["BarrierPlanner", "is_barrier"]

_SYNC = Op.get("tir.tvm_storage_sync")
_SYNC_WARP = Op.get("tir.ptx_syncwarp")
_EVERY_LANE = 0xFFFFFFFF
_MAX_STARTS = 64
"""The places for a first barrier that are tried for a loop."""

Accesses = tuple[Access, ...]


def is_barrier(stmt: Stmt, scope: str) -> bool:
    """Whether a statement is a barrier that orders accesses of a storage scope.

    A barrier of the block orders memory of a block and of its warps, one of the grid all; one of a warp its own only.
    """
    if not (isinstance(stmt, Evaluate) and isinstance(stmt.value, Call)):
        return False
    if stmt.value.op is _SYNC_WARP:
        return scope == "warp" and is_const_int(stmt.value.args[0], _EVERY_LANE)
    if stmt.value.op is not _SYNC:
        return False
    own = stmt.value.args[0]
    have = own.value if isinstance(own, StringImm) else ""
    if scope == "global":
        return have == "global"
    return have != "warp" or scope == "warp"


@dataclass(frozen=True)
class _Summary:
    head: Accesses = ()
    tail: Accesses = ()
    through: bool = True
    """Whether a path leads through the statement without a barrier."""
    warp: bool = False
    """Whether it is a barrier of each warp: what stands on its two sides meets in threads of different warps only."""


@dataclass(frozen=True)
class _Part:
    """A statement of a sequence, as it will be; None for the condition of a while loop."""

    stmt: Stmt | None
    sum: _Summary


class BarrierPlanner(Dispatch[Stmt, tuple[Stmt, _Summary]]):
    """Puts barriers into a function: ``make()`` gives one, ``scope`` says whose accesses are ordered.

    ``copies`` are statements whose writes go on after them, ``waits`` those that hand on what such wrote: a copy only
    comes behind what was before it, a wait only before what follows. ``own`` says of which accesses a thread is taken to
    have the elements to itself where its ways part from the others'.
    """

    def __init__(
        self,
        func: PrimFunc,
        scop: Scop,
        meetings: Meetings,
        scope: str,
        wanted: Callable[[Access], bool],
        make: Callable[[], Stmt],
        copies: Collection[Stmt] = (),
        waits: Collection[Stmt] = (),
        own: Callable[[Access], bool] | None = None,
    ) -> None:
        self.meetings = meetings
        self.scope = scope
        self.scop = scop
        self.make = make
        self.body = func.body
        self.count = 0
        self._statements = iter(scop.statements)
        self._next = next(self._statements, None)
        self._loops = iter(scop.loops)
        self._wanted = wanted
        self._kernel = False
        self._asynchronous = False
        self._copies = copies
        self._waits = waits
        self._own_elements = own
        self._control: list[IfThenElse | For | While] = []
        self._apart: dict[Stmt, bool] = {}
        self._seen: list[Access] = []
        self._waited: Stmt | None = None

    def run(self, body: Stmt) -> Stmt:
        """The body with barriers, or itself. Raises TransformError where one is needed under a divergent condition."""
        return self._visit(body)[0]

    def _own(self, stmt: Stmt) -> Accesses:
        """The accesses that a statement makes itself (of a loop or branch: in its bounds or condition)."""
        found = self._next
        if found is None or found.node is not stmt:
            return ()
        self._next = next(self._statements, None)
        if not self._kernel:
            return ()
        accesses = tuple(access for access in found.accesses if self._wanted(access))
        own = self._own_elements
        if own is not None and any(map(own, accesses)) and self._divergent() is not None:
            accesses = tuple(access for access in accesses if not own(access))
        self._seen += accesses
        if self._asynchronous:
            self.meetings.asynchronous.update(access for access in accesses if access.is_write)
        return accesses

    def _visit(self, stmt: Stmt) -> tuple[Stmt, _Summary]:
        return self.dispatch(stmt)

    def on_AttrStmt(self, stmt: AttrStmt) -> tuple[Stmt, _Summary]:
        own = self._own(stmt)
        before = self._asynchronous
        self._asynchronous = before or stmt.key == ASYNC_SCOPE
        body, inner = self._visit(stmt.body)
        self._asynchronous = before
        return stmt.with_(body=body), self._joined((_Part(None, _Summary(own, own)), _Part(body, inner)))

    def on_Block(self, stmt: Block) -> tuple[Stmt, _Summary]:
        raise TransformError(f"block {stmt.name!r} is left", span=stmt.span, help="run LowerOpaqueBlock before")

    def otherwise(self, stmt: Stmt) -> tuple[Stmt, _Summary]:
        """A statement without others inside."""
        if self._kernel and is_barrier(stmt, self.scope):
            self._own(stmt)
            return stmt, _Summary(through=False)
        if self._kernel and self.scope.startswith("shared") and is_barrier(stmt, "warp"):
            self._own(stmt)
            return stmt, _Summary(warp=True)
        own = self._own(stmt)
        if self._kernel and is_object_wait(stmt):
            # Threads that go ways of their own meet at barrier objects, whose waits then stand for barriers.
            self._waited = self._waited or self._divergent()
            if self._waited is not None:
                return stmt, _Summary(through=False)
        if stmt in self._waits:
            return stmt, _Summary((), own)
        if stmt in self._copies:
            return stmt, _Summary(own, tuple(access for access in own if not access.is_write))
        return stmt, _Summary(own, own)

    # Sequences

    def _parts(self, stmt: Stmt) -> list[_Part]:
        stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
        return [_Part(*self._visit(each)) for each in stmts]

    def on_Seq(self, stmt: Seq) -> tuple[Stmt, _Summary]:
        parts = self._parts(stmt)
        cuts = self._line(parts) if self._kernel else []
        return self._built(stmt, parts, cuts)

    def _line(self, parts: Sequence[_Part]) -> list[int]:
        """The places (before which part) of the fewest barriers of a straight line."""
        cuts: list[int] = []
        since: list[Access] = []
        for at, part in enumerate(parts):
            if since and part.sum.head and self.meetings.any(since, part.sum.head, None, SAME):
                cuts.append(at)
                since = []
            if part.sum.warp:
                since = self.meetings.apart(since)
            since = [*since, *part.sum.tail] if part.sum.through else list(part.sum.tail)
        return cuts

    def _built(self, stmt: Stmt, parts: Sequence[_Part], cuts: Sequence[int]) -> tuple[Stmt, _Summary]:
        """A sequence with barriers before some parts (``len(parts)``: at the end), and its summary."""
        made: list[_Part] = []
        for at in range(len(parts) + 1):
            if at in cuts:
                made.append(_Part(self._barrier(), _Summary(through=False)))
            if at < len(parts):
                made.append(parts[at])
        old = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
        new = tuple(part.stmt for part in made if part.stmt is not None)
        if len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True)):
            return stmt, self._joined(made)
        if isinstance(stmt, Seq):
            return stmt.with_(stmts=new), self._joined(made)
        return (new[0] if len(new) == 1 and not declares(new[0]) else Seq(new)), self._joined(made)

    def _barrier(self) -> Stmt:
        where = self._divergent()
        if where is not None:
            what = "condition" if isinstance(where, IfThenElse) else "loop"
            raise TransformError(
                f"accesses of {self.scope!r} memory need a barrier inside a {what} that threads may pass differently: "
                f"{_title(where)}",
                origin="ThreadSync",
                span=where.span,
                help=f"move the accesses out of the {what}, or make it the same for all threads of a block",
            )
        self.count += 1
        return self.make()

    def _joined(self, parts: Sequence[_Part]) -> _Summary:
        """The summary of statements in sequence."""
        head: list[Access] = []
        tail: list[Access] = []
        through, apart = True, False
        for part in parts:
            if through:
                head += self.meetings.apart(part.sum.head) if apart else part.sum.head
            apart = apart or part.sum.warp
            before = self.meetings.apart(tail) if part.sum.warp else tail
            tail = [*before, *part.sum.tail] if part.sum.through else list(part.sum.tail)
            through = through and part.sum.through
        return _Summary(tuple(head), tuple(tail), through)

    # Control

    @cached_property
    def uniform(self) -> Uniformity:
        """What is the same for all threads; asked only where a barrier comes into a condition or loop."""
        return Uniformity(self.body)

    def _divergent(self) -> IfThenElse | For | While | None:
        """The outermost condition or loop around that threads of a block may pass differently."""
        for stmt in self._control:
            apart = self._apart.get(stmt)
            if apart is None:
                varies = isinstance(stmt, IfThenElse) and self.uniform.varies(stmt.condition)
                apart = varies or (not isinstance(stmt, IfThenElse) and self.uniform.diverges(stmt))
                self._apart[stmt] = apart
            if apart:
                return stmt
        return None

    def _left(self, stmt: IfThenElse | For | While, seen: int) -> _Summary | None:
        """Out of a condition or loop: its summary, if barriers in it were not for all threads.

        To the threads that do not pass it all that stands in it (accesses from the number ``seen``) may happen at any
        time.
        """
        self._control.pop()
        if self._waited is not stmt:
            return None
        self._waited = None
        inside = tuple(self._seen[seen:])
        return _Summary(inside, inside)

    def on_IfThenElse(self, stmt: IfThenElse) -> tuple[Stmt, _Summary]:
        own = self._own(stmt)
        seen = len(self._seen)
        self._control.append(stmt)
        cases: list[Stmt | None] = []
        sums: list[_Summary] = []
        arms: list[Sequence[Access]] = []
        for case in (stmt.then_case, stmt.else_case):
            if case is None:
                cases.append(None)
                sums.append(_Summary())
                continue
            before = len(self._seen)
            new, inner = self._visit(case)
            arms.append(self._seen[before:])
            if own and self.meetings.any(own, inner.head, None, SAME):
                new, inner = self._built(new, [_Part(new, inner)], [0])
            cases.append(new)
            sums.append(inner)
        if len(arms) == 2:
            self._need_apart(stmt, *arms)
        whole = self._left(stmt, seen)
        if whole is not None:
            sums = [whole]
        through = any(each.through for each in sums)
        head = (*own, *(access for each in sums for access in each.head))
        tail = (*(own if through else ()), *(access for each in sums for access in each.tail))
        return stmt.with_(then_case=cases[0], else_case=cases[1]), _Summary(head, tail, through)

    def _need_apart(self, stmt: IfThenElse, then: Sequence[Access], otherwise: Sequence[Access]) -> None:
        """Refuse two arms that threads of one block take at once and that meet: no barrier can stand between them.

        Where barrier objects order what threads on ways of their own do, it is left to those.
        """
        if self._waited is not None or not self._kernel or not then or not otherwise:
            return
        if not self.uniform.varies(stmt.condition):
            return
        if self.meetings.any(then, otherwise, None, SAME) or self.meetings.any(otherwise, then, None, SAME):
            raise TransformError(
                f"threads of a block may take both arms of a condition, whose accesses of {self.scope!r} memory meet, and "
                f"no barrier can stand between them: {_title(stmt)}",
                origin="ThreadSync",
                span=stmt.span,
                help="write the else as a second if, with the opposite condition: a barrier goes between the two",
            )

    def on_For(self, stmt: For | While) -> tuple[Stmt, _Summary]:
        if isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
            return self._threads(stmt)
        own = self._own(stmt) if isinstance(stmt, For) else ()
        loop = next(self._loops)
        cond = self._own(stmt) if isinstance(stmt, While) else ()
        seen = len(self._seen)
        self._control.append(stmt)
        parts = self._parts(stmt.body)
        cuts: list[int] = []
        if self._kernel:
            if own and self.meetings.any(own, self._joined(parts).head, None, SAME):
                parts = [_Part(self._barrier(), _Summary(through=False)), *parts]
            # The condition of a while loop comes first in each iteration; a barrier before it ends the one before.
            if cond:
                parts = [_Part(None, _Summary(cond, cond)), *parts]
            jumps = jumps_out(stmt.body)
            cuts = self._circle(parts, loop, jumps)
            if cond and 0 in cuts:
                cuts = [*(cut for cut in cuts if cut), len(parts)]
        body, inner = self._built(stmt.body, parts, cuts)
        whole = self._left(stmt, seen)
        if whole is not None:
            inner = whole
        elif self._kernel and jumps_out(stmt.body):
            every = tuple(access for part in parts for access in (*part.sum.head, *part.sum.tail))
            inner = _Summary(every, every)
        elif not inner.through and isinstance(stmt, For) and loop.regular:
            # A barrier stands between any two iterations: the first is reached from before, the last from behind.
            head = tuple(self.meetings.pinned(access, loop, False) for access in inner.head)
            inner = _Summary(head, tuple(self.meetings.pinned(access, loop, True) for access in inner.tail), False)
        runs = loop.extent is not None and self.scop.space.interval(loop.extent)[0] >= 1
        inner = _Summary(inner.head, (*inner.tail, *cond), inner.through or not runs)
        return stmt.with_(body=body), self._joined((_Part(None, _Summary(own, own)), _Part(None, inner)))

    on_While = on_For

    def _threads(self, stmt: For) -> tuple[Stmt, _Summary]:
        own = self._own(stmt)
        next(self._loops)
        outermost, self._kernel = not self._kernel, True
        body, inner = self._visit(stmt.body)
        self._kernel = not outermost
        new = stmt.with_(body=body)
        if outermost:
            return new, _Summary()  # a kernel ends with everything done
        return new, self._joined((_Part(None, _Summary(own, own)), _Part(None, inner)))

    def _circle(self, parts: Sequence[_Part], loop: Loop, jumps: bool) -> list[int]:
        """The places of the fewest barriers of a loop's body, 0 being the start of each iteration."""
        line = self._line(parts)
        held = [at for at, part in enumerate(parts) if not part.sum.through]
        if jumps:
            # A jump may pass by any barrier but one at the start.
            every = [access for part in parts for access in (*part.sum.head, *part.sum.tail)]
            carried = self.meetings.any(every, every, loop, None)
            return sorted({*line, 0}) if carried and 0 not in line else line
        if not line and not held:
            whole = self._joined(parts)
            if not self.meetings.any(whole.tail, whole.head, loop, None):
                return []
        if held:
            return self._around(parts, loop, held[-1] + 1, list(parts[held[-1]].sum.tail))
        best: list[int] | None = None
        starts = [*line[:1], *range(min(len(parts), _MAX_STARTS))]
        for start in dict.fromkeys(starts):
            found = sorted({start, *self._around(parts, loop, start, [])})
            if best is None or len(found) < len(best):
                best = found
                if len(best) == 1:
                    break
        return best or []

    def _around(self, parts: Sequence[_Part], loop: Loop, start: int, since: list[Access]) -> list[int]:
        """The barriers of a way around the circle from a place behind a barrier, to the part before it and into it."""
        cuts: list[int] = []
        earlier: list[Access] = []
        count = len(parts)
        for n in range(count):
            at = start + n
            if at == count:
                earlier, since = since, []
            place = at % count
            head = parts[place].sum.head
            if head and (
                (since and self.meetings.any(since, head, None, SAME))
                or (earlier and self.meetings.any(earlier, head, loop, 1))
            ):
                cuts.append(place)
                since, earlier = [], []
            if parts[place].sum.warp:
                since, earlier = self.meetings.apart(since), self.meetings.apart(earlier)
            if parts[place].sum.through:
                since = [*since, *parts[place].sum.tail]
            else:
                since, earlier = list(parts[place].sum.tail), []
        return cuts


def _title(stmt: Stmt) -> str:
    if isinstance(stmt, IfThenElse):
        return f"if {stmt.condition}"
    if isinstance(stmt, While):
        return f"while {stmt.condition}"
    return f"for {stmt.loop_var.name} in {stmt.extent}" if isinstance(stmt, For) else type(stmt).__name__
