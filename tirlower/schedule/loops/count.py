"""``count``: a ``while`` that does nothing but count becomes the loop over its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tirlower.analysis.overflow import Wrapping, leaves, may_overflow
from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument, NotFound
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.cancel import range_between
from tirlower.ir.expr import GT, LT, Add, BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.functor import Mutator
from tirlower.ir.path import Path
from tirlower.ir.query import each, has, may_move, mentions, nodes
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, DeclBuffer, For, ForKind, Seq, Stmt, While, seq
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.places import headers, reading, writing
from tirlower.schedule.sites import Change, Edit, Forward, Site, Steps
from tirlower.schedule.step import Step

__all__ = ["COUNT", "counter_of"]


def counter_of(loop: While) -> Buffer | None:
    """The variable that a ``while`` compares with where it ends; None for another condition.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     i = 0
    ...     while i < 8:
    ...         A[i] = i
    ...         i += 1
    ... ''')
    >>> counter_of(next(each(While, func.body)))
    Buffer('i', (1,), 'int32')
    """
    asked = _asked(loop)
    if asked is None:
        return None
    buffer = asked[0].buffer
    return buffer if len(buffer.shape) == 1 and is_const_int(buffer.shape[0], 1) and buffer.dtype.is_int else None


def _asked(loop: While) -> tuple[BufferLoad, Expr] | None:
    """What a ``while`` compares: what certainly is less where it goes on, and what is more."""
    asked = loop.condition
    less, more = (
        (asked.a, asked.b) if isinstance(asked, LT) else (asked.b, asked.a) if isinstance(asked, GT) else (None, None)
    )
    return (less, more) if isinstance(less, BufferLoad) and isinstance(more, Expr) else None


class _Numbers(Mutator):
    """The loop's variable in the place of what the counter holds."""

    def __init__(self, buffer: Buffer, var: Var) -> None:
        self.buffer, self.var = buffer, var

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        """What the counter holds."""
        return self.var if op.buffer is self.buffer else op


@dataclass
class _Counted:
    """A ``while`` that counts: where it stands among the statements of a scope, the store in front that it begins with, and whether
    anything else looks at the counter, or writes it."""

    loop: While
    buffer: Buffer
    limit: Expr
    scope: Seq
    path: Steps
    at: int
    begins: BufferStore
    seen: bool
    written: bool


def _named(step: Step) -> tuple[Steps, While]:
    """The loop whose counter has the name, by its number among these (``"i#1"``)."""
    name, _, number = str(step["name"]).partition("#")
    if "#" in str(step["name"]) and not number.isdecimal():
        raise BadArgument(f"{step['name']!r} has no number behind #", help='"i#1" is the second loop that counts in i')
    func = step.func(Site(function_of(step.state)))
    found: list[tuple[Steps, While]] = []
    counters: list[str] = []
    for way, stmt in step.facts.inside(func.body):
        counter = counter_of(stmt) if isinstance(stmt, While) else None
        if counter is not None:
            assert isinstance(stmt, While)
            counters.append(counter.name)
            found += [(("body", *way), stmt)] if counter.name == name else []
    at = int(number or 0)
    if at >= len(found):
        known = ", ".join(dict.fromkeys(counters)) or "none"
        raise NotFound(f"no `while` compares {step['name']!r} with where it ends", help=f"such counters are: {known}")
    return found[at]


def _counted(step: Step) -> _Counted:
    """The loop, where it does nothing but count. Refused where it may do more."""
    path, loop = _named(step)
    func, asked, depth = step.func(Site(function_of(step.state))), _asked(loop), len(path)
    assert asked is not None
    buffer, limit = asked[0].buffer, asked[1]
    stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    reads, writes = reading(step.facts, func, buffer), writing(step.facts, func, buffer)
    last = stmts[-1]
    if [one for way, one in writes if way[:depth] == path] != [last] or not _is_next(last, buffer):
        step.refuse(f"`{buffer.name}` is not counted by `{buffer.name} += 1` at the end of the loop alone", loop)
    if jumps_out(loop.body):
        step.refuse("a statement leaves the loop early, or goes on with it before it has counted", loop)
    if has((BufferLoad, Call), limit):
        step.refuse(f"where the loop ends, {limit}, reads memory", loop, "bind it to a name in front of the loop")
    own = [op.buffer for op in each(AllocBuffer, func.body)]
    views = any(op.buffer.data is buffer.data for op in each(DeclBuffer, func.body))
    if buffer not in own or views or buffer.data in step.facts.uses(func.body).pointers:
        step.refuse(f"`{buffer.name}` is not memory of the function's own, without views and pointers", loop)
    scope, at = Path(path[:-2]).chain(func)[-1], path[-1]
    if not isinstance(scope, Seq) or not isinstance(at, int):
        step.refuse("nothing stands in front of the loop", loop, f"`{buffer.name} = 0` does")
    outside = [(way, one) for way, one in (*reads, *writes) if way[:depth] != path]
    before = [way[depth - 1] for way, _ in writes if way[: depth - 1] == path[:-1] and cast("int", way[depth - 1]) < at]
    begins = scope.stmts[max(before)] if before else None  # type: ignore[index]
    if not isinstance(begins, BufferStore) or begins.buffer is not buffer or has((BufferLoad, Call), begins.value):
        step.refuse(f"where `{buffer.name}` begins is not known: no statement in front of the loop says it", loop)
    if not step.analyzer(Site(function_of(step.state), path)).can_prove(build.ge(begins.value, 0)):
        step.refuse(
            f"where `{buffer.name}` begins, {begins.value}, is not known to be 0 or more: it may run more often than it counts",
            loop,
            "state it with T.assume(…)",
        )
    mine = any(isinstance(one, AllocBuffer) and one.buffer is buffer for one in scope.stmts)
    seen = any(way[:depth] != path for way, _ in reads) or not mine
    return _Counted(
        loop, buffer, limit, scope, path[:-2], at, begins, seen, any(one is not begins for _, one in outside)
    )


def _is_next(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement adds 1 to the counter."""
    value = stmt.value if isinstance(stmt, BufferStore) else None
    if not isinstance(value, Add):
        return False
    one, other = (value.b, value.a) if isinstance(value.a, BufferLoad) else (value.a, value.b)
    return is_const_int(one, 1) and isinstance(other, BufferLoad) and other.buffer is buffer


def _stays_exact(step: Step, found: _Counted, made: For) -> None:
    """Refuse arithmetic on the counter that may leave its type: on what a variable holds it wraps, on the number of a loop it does not."""
    known, exact = step.analyzer(Site(function_of(step.state), (*found.path, "stmts", found.at))), Wrapping(Analyzer())
    known.bind(made.loop_var, Range(made.min, made.extent))
    made_of = {made.loop_var}
    for stmt in each(Stmt, made.body):
        if isinstance(stmt, For) and may_move(stmt.min, stmt.extent):
            known.bind(stmt.loop_var, Range(stmt.min, stmt.extent))
        # How often a loop runs never wraps, whatever its ends are made of.
        ends = {stmt.extent} if isinstance(stmt, For) else set()
        for op in nodes(*headers(stmt)):
            if op in ends or not may_overflow(op) or not mentions(op, made_of) or exact.is_data(op):
                continue
            if leaves(known.const_int_bound(op), op.dtype.element):
                step.refuse(
                    f"{op} may be past {op.dtype}, where it wraps as long as `{found.buffer.name}` is a variable",
                    stmt,
                    "state with T.assume(…) how far the loop goes",
                )
        if isinstance(stmt, Bind) and mentions(stmt.value, made_of):
            made_of.add(stmt.var)
            known.bind(stmt.var, stmt.value)


def _check(step: Step) -> Verdict:
    found = _counted(step)
    _stays_exact(step, found, _made(found, Forward()))
    return PROVED


def _made(found: _Counted, forward: Forward) -> For:
    """The loop over the numbers."""
    loop, numbers = found.loop, range_between(found.begins.value, found.limit)
    var = Var(found.buffer.name, found.buffer.dtype)
    stmts = loop.body.stmts[:-1] if isinstance(loop.body, Seq) else ()
    new = [_Numbers(found.buffer, var).visit(stmt) for stmt in stmts]
    for old, one in zip(stmts, new, strict=True):
        forward.like(old, one)
    made = For(var, numbers.min, numbers.extent, ForKind.SERIAL, None, {}, seq(*new), span=loop.span)
    forward.end(loop, made)
    return made


def _rewrite(step: Step) -> Change:
    found, forward = _counted(step), Forward()
    made, buffer = _made(found, forward), found.buffer
    parts: list[Stmt] = []
    for at, stmt in enumerate(found.scope.stmts):
        gone = stmt is found.begins or (isinstance(stmt, AllocBuffer) and stmt.buffer is buffer and not found.written)
        if at == found.at:
            parts.append(made)
            if found.seen:
                parts.append(BufferStore(buffer, build.max_(found.begins.value, found.limit), (const(0, "int32"),)))
        elif found.seen or not gone:
            parts.append(stmt)
        else:
            forward.end(stmt, made)
    whole = found.scope.with_(stmts=tuple(parts)) if len(parts) > 1 else made
    forward.keep(found.scope, whole)
    return Change(Edit(Site(function_of(step.state), found.path), whole), forward, (made,))


COUNT = Kind(
    "Count",
    "count",
    (Slot("name", Takes.STRING, attr=True),),
    _rewrite,
    """Make a loop over its numbers of a ``while`` that counts: ``while i < n: …; i += 1``, after ``i = 0``. ``name`` is that of the
    counter; of several of one name ``"i#1"`` is the second one that is a ``while`` still.

    Legal where the counter, a variable of the function, begins at 0 or more and is written in the loop by ``i += 1`` at its end alone, no
    statement leaves the loop or goes on with it before that, and where it ends does not read memory; and where no
    arithmetic on it may leave its type, for on variables it wraps. A counter that nothing else looks at goes; one that
    something does holds where the loop ended. Returns the loop.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(n: T.int32, A: T.Buffer((n,), "int32")):
    ...     i = 0
    ...     while i < n:
    ...         A[i] = i
    ...         i += 1
    ... '''))
    >>> sch.count("i")
    LoopRV('i')
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(n: T.int32, A: T.Buffer((n,), "int32")):
        for i in range(n):
            A[i] = i
    """,
    check=_check,
    returns="one",
    tvm=False,
)
