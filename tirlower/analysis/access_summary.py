"""What a statement reads and writes, as boxes: bounds that cover every access, and those certainly written whole.

Boxes are in terms of the variables around the statement; leaving a loop relaxes its variable. A box is exact (``must``)
when every element in it is written whenever the statement runs; relaxing keeps that only where the boxes of successive
iterations tile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tirlower.analysis.condition_ranges import Interval, Solver
from tirlower.arith import Analyzer, IntervalSet
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Let, Ramp, Var, const
from tirlower.ir.functor import Dispatch, Visitor, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.stmt import (
    AllocBuffer,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    Seq,
    While,
)

__all__ = ["Access", "Box", "Summary", "Summarizer", "contains", "disjoint"]

Box = tuple[IntervalSet, ...]
"""One interval for each dimension; an end that is None is unknown."""

MAX_ACCESSES = 64
"""Accesses of one kind that a summary holds before it is taken as opaque."""

_ADDRESS = Op.get("tir.address_of")
_CONTROL = frozenset(Op.get(name) for name in ("tir.ret", "tir.thread_return", "tir.break_loop", "tir.continue_loop"))
_PREFETCH = Op.get("tir.prefetch")
_HARMLESS = frozenset((Op.get("tir.assume"), _PREFETCH))


@dataclass(frozen=True, eq=False)
class Access:
    """A buffer and the box of it that is touched; ``must``: all of it, whenever the statement runs."""

    buffer: Buffer
    box: Box
    must: bool = False


@dataclass
class Summary:
    """What a statement does to memory. ``opaque``: anything, or it leaves the normal order of execution."""

    reads: list[Access] = field(default_factory=list)
    writes: list[Access] = field(default_factory=list)
    opaque: bool = False
    pointers: set[Var] = field(default_factory=set)
    """Data variables used other than by loads and stores."""

    def add(self, other: Summary) -> None:
        """Both, in either order."""
        self.reads += other.reads
        self.writes += other.writes
        self.pointers |= other.pointers
        self.opaque = self.opaque or other.opaque
        if max(len(self.reads), len(self.writes)) > MAX_ACCESSES:
            # Too many to compare: they are not carried any further.
            self.opaque, self.reads, self.writes = True, [], []


def contains(analyzer: Analyzer, outer: Box, inner: Box) -> bool:
    """Whether a box certainly lies in another one."""
    return all(_within(analyzer, a, b) for a, b in zip(outer, inner, strict=True))


def _within(analyzer: Analyzer, outer: IntervalSet, inner: IntervalSet) -> bool:
    pairs = ((outer.min_value, inner.min_value), (inner.max_value, outer.max_value))
    return all(a is not None and b is not None and analyzer.can_prove(build.le(a, b)) for a, b in pairs)


def disjoint(analyzer: Analyzer, a: Box, b: Box) -> bool:
    """Whether two boxes of one buffer certainly have no element in common."""
    for x, y in zip(a, b, strict=True):
        for low, high in ((x, y), (y, x)):
            if low.max_value is not None and high.min_value is not None:
                if analyzer.can_prove(build.lt(low.max_value, high.min_value)):
                    return True
    return False


class _Loads(Visitor):
    """The loads of an expression, and what else it may do."""

    def __init__(self, owner: Summarizer) -> None:
        self.owner = owner
        self.summary = Summary()
        self.bound: set[Var] = set()

    def visit_Let(self, op: Let) -> None:
        self.bound.add(op.var)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.summary.reads.append(Access(op.buffer, self.owner.box(op.buffer, op.indices)))

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.summary.pointers.add(op)

    def visit_Call(self, op: Call) -> bool | None:
        if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
            self.summary.pointers.add(op.args[0].buffer.data)
            for index in op.args[0].indices:
                self.visit(index)
            return False
        if (
            isinstance(op.op, GlobalVar)
            or op.op in _CONTROL
            or (op.op.purity > Purity.READS and op.op not in _HARMLESS)
        ):
            self.summary.opaque = True
        return None


class Summarizer(Dispatch[Node, Summary]):
    """Summaries of statements, each computed once from those inside it; ``analyzer`` knows the loops around."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.known: dict[Node, Summary] = {}

    def box(self, buffer: Buffer, indices: Iterable[Expr]) -> Box:
        """The box of one access."""
        return tuple(_interval(index) for index in indices)

    def of(self, op: Node) -> Summary:
        """The summary of a statement."""
        found = self.known.get(op)
        if found is None:
            found = self.known[op] = self.dispatch(op)
        return found

    def expression(self, *roots: Expr | None) -> Summary:
        """What evaluating expressions does."""
        loads = _Loads(self)
        for root in roots:
            if root is not None:
                loads.visit(root)
        if loads.bound:
            # What a Let binds means nothing outside it.
            loads.summary.reads = [_forget(access, loads.bound) for access in loads.summary.reads]
        return loads.summary

    def on_BufferStore(self, op: BufferStore) -> Summary:
        made = self.expression(op.value, *op.indices, op.predicate)
        made.writes.append(self._written(op))
        return made

    def on_Seq(self, op: Seq) -> Summary:
        made = Summary()
        for stmt in op.stmts:
            made.add(self.of(stmt))
        local = {stmt.buffer.data for stmt in op.stmts if isinstance(stmt, AllocBuffer)}
        bound = {stmt.var for stmt in op.stmts if isinstance(stmt, Bind)}
        return self._leave(made, local, bound)

    def on_IfThenElse(self, op: IfThenElse) -> Summary:
        made = self.expression(op.condition)
        for case in (op.then_case, op.else_case):
            if case is not None:
                inner = self.of(case)
                made.add(replace(inner, writes=[replace(w, must=False) for w in inner.writes]))
        return made

    def on_While(self, op: While) -> Summary:
        made = self.expression(op.condition)
        made.add(self.of(op.body))
        everything = [replace(a, box=_unknown(a.box), must=False) for a in made.writes]
        return replace(made, reads=[replace(a, box=_unknown(a.box)) for a in made.reads], writes=everything)

    def on_Assert(self, op: Assert) -> Summary:
        return Summary(opaque=True)  # what follows may not come to pass

    def otherwise(self, op: Node) -> Summary:
        """A statement of another class: what is inside it."""
        made = Summary(opaque=isinstance(op, AttrStmt) and op.key == "volatile_scope")
        for child in op.children():
            made.add(self.expression(child) if isinstance(child, Expr) else self.of(child))
        if isinstance(op, AllocBuffer):
            made.add(self.expression(*op.buffer.shape))
        return made

    def on_Block(self, op: Block) -> Summary:
        """A block by what its body does; by its stated regions where that cannot be seen."""
        values = {it.var: it.value for it in op.iters if it.value is not None}
        made = self.expression(op.predicate, *values.values())
        for part in (op.init, op.body):
            if part is not None:
                inner = self.of(substitute(part, values) if values else part)
                made.add(replace(inner, writes=[replace(w, must=False) for w in inner.writes]))
        if op.match_buffers or made.opaque or made.pointers:
            stated = [
                [Access(r.buffer, tuple(_range(part, values) for part in r.region)) for r in regions or ()]
                for regions in (op.reads, op.writes)
            ]
            return Summary(stated[0] + stated[1] if op.init is not None else stated[0], stated[1])
        return made

    def _written(self, op: BufferStore) -> Access:
        box = self.box(op.buffer, op.indices)
        whole = all(
            not isinstance(i, Ramp) or (isinstance(i.stride, IntImm) and i.stride.value == 1) for i in op.indices
        )
        known = all(part.min_value is not None for part in box)
        return Access(op.buffer, box, must=whole and known and op.predicate is None)

    @staticmethod
    def _leave(made: Summary, local: set[Var], bound: set[Var]) -> Summary:
        """The summary outside a Seq: its own allocations are gone, its bindings unknown."""
        if local:
            made.reads = [a for a in made.reads if a.buffer.data not in local]
            made.writes = [a for a in made.writes if a.buffer.data not in local]
            made.pointers -= local
        if bound:
            made.reads = [_forget(a, bound) for a in made.reads]
            made.writes = [_forget(a, bound) for a in made.writes]
        return made

    def on_For(self, op: For) -> Summary:
        bounds = self.expression(op.min, op.extent)
        body, domain = op.body, (op.min, op.extent)
        narrowed: Interval | None = None
        if isinstance(body, IfThenElse) and body.else_case is None:
            # `for i: if i < n: ...` runs over fewer values.
            narrowed = Solver(self.analyzer, op.loop_var).holds(body.condition)
        inner = self.of(body.then_case if narrowed is not None and isinstance(body, IfThenElse) else body)
        if narrowed is not None and isinstance(body, IfThenElse):
            inner = replace(inner, reads=inner.reads + self.expression(body.condition).reads)
            domain = self._narrowed(op, narrowed)
        made = Summary(pointers=set(inner.pointers), opaque=inner.opaque)
        relax = _Relaxation(self.analyzer, op.loop_var, *domain)
        made.reads = [replace(a, box=relax.box(a.box)) for a in inner.reads]
        parts = op.kind is not ForKind.THREAD_BINDING
        made.writes = [
            relax.written(a) if parts else replace(a, box=relax.box(a.box), must=False) for a in inner.writes
        ]
        made.add(bounds)
        return made

    def _narrowed(self, op: For, interval: Interval) -> tuple[Expr, Expr]:
        low, high = interval
        one = const(1, op.min.dtype)
        first, end = op.min, build.add(op.min, op.extent)
        if low is not None:
            first = build.max_(first, low)
        if high is not None:
            end = build.min_(end, build.add(high, one))
        return self.analyzer.simplify(first), self.analyzer.simplify(build.sub(end, first))


class _Relaxation:
    """Takes the variable of a loop out of boxes."""

    def __init__(self, analyzer: Analyzer, var: Var, low: Expr, extent: Expr) -> None:
        self.analyzer = analyzer
        self.var = var
        self.domain = {var: Range(low, extent)}
        self.runs = analyzer.can_prove_greater_equal(extent, 1)

    def box(self, box: Box) -> Box:
        return tuple(self.interval(part) for part in box)

    def interval(self, part: IntervalSet) -> IntervalSet:
        low, high = part.min_value, part.max_value
        if low is not None and self._uses(low):
            low = self.analyzer.int_set(low, self.domain).min_value
        if high is not None and self._uses(high):
            high = self.analyzer.int_set(high, self.domain).max_value
        return IntervalSet(low, high)

    def written(self, access: Access) -> Access:
        """A write over all iterations: still all of its box, if the boxes of successive iterations lie side by side."""
        exact = self._exact(access.box) if access.must else None
        if exact is None:
            return replace(access, box=self.box(access.box), must=False)
        return replace(access, box=exact)

    def _exact(self, box: Box) -> Box | None:
        moving = [part for part in box if self._uses(part.min_value) or self._uses(part.max_value)]
        if not moving:
            return box if self.runs else None
        low, high = moving[0].min_value, moving[0].max_value
        if len(moving) > 1 or low is None or high is None:
            return None
        one = const(1, self.var.dtype)
        step = {self.var: build.add(self.var, one)}
        prove, unit = self.analyzer.can_prove_equal, const(1, low.dtype)
        domain = self.domain[self.var]
        first, last = domain.min, build.sub(build.add(domain.min, domain.extent), one)
        if prove(substitute(low, step), build.add(high, unit)):
            ends = substitute(low, {self.var: first}), substitute(high, {self.var: last})
        elif prove(build.add(substitute(high, step), unit), low):
            ends = substitute(low, {self.var: last}), substitute(high, {self.var: first})
        else:
            return None
        whole = IntervalSet(*[self.analyzer.simplify(end) for end in ends])
        return tuple(whole if part is moving[0] else part for part in box)

    def _uses(self, expr: Expr | None) -> bool:
        return expr is not None and self.var in _variables(expr)


def _interval(index: Expr) -> IntervalSet:
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm) and isinstance(index.lanes, int):
        last = build.add(index.base, const(index.stride.value * (index.lanes - 1), index.base.dtype))
        return IntervalSet(index.base, last) if index.stride.value >= 0 else IntervalSet(last, index.base)
    if not index.dtype.is_scalar or not index.dtype.is_int or _reads(index):
        return IntervalSet.everything()
    return IntervalSet.single_point(index)


def _range(part: Range, values: dict[Var, Expr]) -> IntervalSet:
    low, extent = (substitute(e, values) if values else e for e in (part.min, part.extent))
    if _reads(low) or _reads(extent):
        return IntervalSet.everything()
    return IntervalSet(low, build.sub(build.add(low, extent), const(1, low.dtype)))


def _reads(expr: Expr) -> bool:
    return any(isinstance(op, (BufferLoad, Call)) for op in _nodes(expr))


def _nodes(root: Expr) -> list[Expr]:
    seen: set[Expr] = set()
    stack: list[Expr] = [root]
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack += list(op.children())
    return list(seen)


def _variables(expr: Expr) -> set[Var]:
    return {op for op in _nodes(expr) if isinstance(op, Var)}


def _unknown(box: Box) -> Box:
    return tuple(IntervalSet.everything() for _ in box)


def _forget(access: Access, bound: set[Var]) -> Access:
    """An access outside the scope of bindings: ends that mention them are unknown."""
    parts = []
    for part in access.box:
        ends = [None if end is None or _variables(end) & bound else end for end in (part.min_value, part.max_value)]
        parts.append(IntervalSet(*ends))
    same = all(
        a.min_value is b.min_value and a.max_value is b.max_value for a, b in zip(access.box, parts, strict=True)
    )
    return access if same else replace(access, box=tuple(parts), must=False)
