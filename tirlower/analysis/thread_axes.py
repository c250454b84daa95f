"""Thread axes: which loops are axes of a kernel, and what a kernel does outside of some of them.

A kernel is an outermost loop over a thread axis. Loops of virtual threads are no axes: they are expanded, each by itself.
Work that stands in a kernel but outside of the loops of an axis is done once; when the loop is moved around it, it is done by
every thread of the axis, which is the same where it writes the same again, and another thing where it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.functor import Substituter, Visitor
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import nodes, reads_data
from tirlower.ir.splice import as_scope, returns
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    Stmt,
)

__all__ = [
    "AxisMutator",
    "Survey",
    "is_thread_axis",
    "is_virtual_axis",
    "need_equal_extents",
    "on_unit_loop",
    "survey",
    "thread_loop",
]

_BARRIERS = frozenset((Op.get("tir.tvm_storage_sync"), Op.get("tir.assume")))


def is_thread_axis(op: Stmt) -> bool:
    """Whether a statement is a loop over a thread axis of a kernel (virtual threads are not).

    >>> from tirlower.ir import Evaluate, Var
    >>> is_thread_axis(For(Var("t"), 0, 4, "thread_binding", "threadIdx.x", {}, Evaluate(0)))
    True
    """
    return (
        isinstance(op, For)
        and op.kind is ForKind.THREAD_BINDING
        and not str(op.thread_tag).startswith(("vthread", "cthread"))
    )


def is_virtual_axis(op: Stmt) -> bool:
    """Whether a statement is a loop over virtual threads."""
    return isinstance(op, For) and op.kind is ForKind.THREAD_BINDING and not is_thread_axis(op)


def need_equal_extents(analyzer: Analyzer, first: For, other: For, extent: Expr) -> None:
    """Refuse two loops of one thread axis whose extents are not provably the same."""
    if extent is first.extent or analyzer.can_prove_equal(_wide(first.extent), _wide(extent)):
        return
    raise TransformError(
        f"{other.thread_tag} has the extents {first.extent} and {extent} in one kernel",
        span=other.span or first.span,
        help="give all loops that are bound to one thread axis of a kernel the same extent",
    )


def _wide(extent: Expr) -> Expr:
    return build.cast("int64", extent)


@dataclass
class _Work:
    """One statement with an effect: the axes that it stands in, and the loops around it."""

    axes: frozenset[str]
    path: tuple[For, ...]
    repeatable: bool


@dataclass
class Survey:
    """What a kernel is made of."""

    loops: dict[str, list[tuple[For, tuple[For, ...]]]] = field(default_factory=dict)
    """The loops of each axis, in order, each with the loops around it inside the kernel (itself last)."""
    bound: set[Var] = field(default_factory=set)
    """The variables that are defined inside, those of thread axes left out."""
    work: list[_Work] = field(default_factory=list)
    returns: bool = False

    def movable(self, tags: Sequence[str], below: For | None = None) -> bool:
        """Whether the work (inside the loop ``below``, when given) may be done by every thread of some axes.

        True where whatever stands outside of their loops can be repeated by each thread, and there is at least one.
        """
        wanted = frozenset(tags)
        if any(tag.startswith("blockIdx") and not self.nested(tag) for tag in tags):
            return False  # blocks do not wait for each other between two of their loops
        positive = all(_positive(self.loops[tag][0][0].extent) for tag in tags)
        for work in self.work:
            if below is not None and below not in work.path:
                continue
            if not wanted <= work.axes and not (work.repeatable and positive):
                return False
        return not self.returns

    def nested(self, tag: str) -> bool:
        """Whether all loops of an axis stand in its first one."""
        loops = self.loops[tag]
        return all(loops[0][0] in path for _, path in loops)

    def free_extent(self, tag: str, home: For | None = None) -> bool:
        """Whether the extent of an axis can be computed at the head of the kernel, or of a loop ``home`` around it."""
        extent, path = self.loops[tag][0][0].extent, self.loops[tag][0][1]
        outside: set[Var] = set()
        inside: set[Var] = set()
        if home is not None:
            depth = path.index(home) + 1
            outside = {loop.loop_var for loop in path[:depth]}
            inside = {loop.loop_var for loop in path[depth:]} - outside
        return side_effect(extent) is Purity.PURE and not any(
            op in inside or (op in self.bound and op not in outside) for op in nodes(extent)
        )


def _positive(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value > 0


class _Surveyor(Visitor):
    def __init__(self) -> None:
        self.found = Survey()
        self.axes: frozenset[str] = frozenset()
        self.path: tuple[For, ...] = ()
        self.private: set[Var] = set()

    def visit_expr(self, root: Expr) -> None:
        """An expression with an effect of its own, as a condition or a bound."""
        if side_effect(root) not in (Purity.PURE, Purity.READS):
            self.note(False)

    def note(self, repeatable: bool) -> None:
        self.found.work.append(_Work(self.axes, self.path, repeatable))

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        outer, path = self.axes, self.path
        self.path = (*path, op)
        if is_thread_axis(op):
            tag = str(op.thread_tag)
            self.found.loops.setdefault(tag, []).append((op, self.path))
            self.axes = outer | {tag}
        else:
            self.found.bound.add(op.loop_var)
        self.visit(op.body)
        self.axes, self.path = outer, path

    def visit_Bind(self, op: Bind) -> None:
        self.found.bound.add(op.var)
        self.visit(op.value)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.found.bound.add(op.buffer.data)
        if op.buffer.scope == "global":
            self.note(False)  # each thread would have its own
        elif op.buffer.scope == "local":
            self.private.add(op.buffer.data)
        self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> None:
        self.found.bound.add(op.buffer.data)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A view is no memory of its own."""

    def visit_Block(self, op: Block) -> None:
        self.found.bound.update(it.var for it in op.iters)
        for match in op.match_buffers:
            self.found.bound.add(match.buffer.data)
        self.visit(op.predicate)
        if op.init is not None:
            self.visit(op.init)
        self.visit(op.body)

    def visit_BufferStore(self, op: BufferStore) -> None:
        data = op.buffer.data
        parts = [op.value, *op.indices] + ([op.predicate] if op.predicate is not None else [])
        quiet = all(side_effect(part) in (Purity.PURE, Purity.READS) for part in parts)
        self.note(quiet and (data in self.private or not any(reads_data(part, data) for part in parts)))

    def visit_Evaluate(self, op: Evaluate) -> None:
        if isinstance(op.value, Call) and op.value.op in _BARRIERS:
            return
        self.visit(op.value)


def survey(kernel: For) -> Survey:
    """What stands where in a kernel, whose outermost thread loop is given."""
    worker = _Surveyor()
    worker.visit(kernel)
    worker.found.returns = returns(kernel.body)
    return worker.found


def on_unit_loop(op: For, body: Stmt) -> Stmt:
    """The body of a thread loop that goes away, in a loop of one iteration that keeps its annotations, if it has any."""
    if not op.annotations:
        return as_scope(body)
    dtype = op.loop_var.dtype
    return For(Var("var", dtype), const(0, dtype), const(1, dtype), ForKind.SERIAL, None, op.annotations, body)


class AxisMutator(Substituter):
    """Rewriting in which the loops of an axis come to share a variable that counts from 0."""

    def __init__(self) -> None:
        super().__init__({})

    @contextmanager
    def counting(self, op: For, var: Var, low: Expr) -> Iterator[None]:
        """Inside, the variable of a loop stands for the thread's index plus the loop's minimum."""
        value = build.cast(op.loop_var.dtype, var)
        if not is_const_int(low, 0):
            value = build.add(value, low)
        old, buffers = self.vmap.get(op.loop_var), self.buffers
        if value is old or (old is None and value is op.loop_var):
            yield
            return
        self.vmap[op.loop_var] = value
        # What was declared outside stays as it was made there.
        self.buffers = dict(buffers)
        yield
        self.buffers = buffers
        if old is None:
            del self.vmap[op.loop_var]
        else:
            self.vmap[op.loop_var] = old

    def map_var_def(self, var: Var) -> Var:
        """Variables of other definitions keep their names; those of the axes are placed by the pass."""
        return var

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """A buffer whose shape names a thread's index is rebuilt with it."""
        return self.map_buffer(buffer)


def thread_loop(first: For, var: Var, extent: Expr, body: Stmt, annotations: dict[str, object] | None = None) -> For:
    """A loop over an axis from 0, in the place of others."""
    return For(
        var,
        const(0, var.dtype),
        extent,
        ForKind.THREAD_BINDING,
        first.thread_tag,
        annotations or {},
        body,
        span=first.span,
    )
