"""UnrollLoop: loops of constant extent become copies of their body."""

from __future__ import annotations

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.annotations import NO_UNROLL
from tirlower.ir.expr import (
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Ramp,
    Sub,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, may_divide_by_zero, mentions, nodes, statements
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope, jumps_out, still_about
from tirlower.ir.stmt import Assert, AttrStmt, BufferStore, Evaluate, For, ForKind, Seq, Stmt, seq
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.loop_nests import bounds_once, strips
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["UnrollLoop"]

MAX_STEP = "pragma_auto_unroll_max_step"
EXPLICIT = "pragma_unroll_explicit"
BUDGET = 1_000_000
"""Statements that one loop may unroll to, before the pass refuses rather than exhaust memory."""


MOST_STATEMENTS = 2048
"""With ``grouped``, what a loop is unrolled to at most: 100,000 statements in a row are no faster, and take a minute."""
GROUP = 32


_LEAST_COPIES = 8
_MOST_COPIES = 256
"""With ``by_llvm``, how many copies a nest that is left to LLVM makes: fewer cost nothing here."""
_MOST_NODES = 64
"""How large its statements are at most: LLVM refuses to write out 16,000 instructions, where a wide vector counts as several."""
_FMA = Op.get("tir.fma")
_PLAIN = (Add, Sub, Mul, Div, Min, Max, Broadcast, Ramp, BufferLoad, Var, IntImm, FloatImm)


def _updates_of_vectors(stmt: Stmt) -> int:
    """How many copies a nest makes that only updates vectors in place, whose copies leave nothing to fold; 0: another one.

    What is not updated, but filled or copied, LLVM would take for a call of memset or memcpy before it unrolls.
    """
    if isinstance(stmt, For):
        plain = stmt.kind is ForKind.UNROLLED and not stmt.annotations and is_const_int(stmt.min)
        return stmt.extent.value * _updates_of_vectors(stmt.body) if plain and isinstance(stmt.extent, IntImm) else 0
    if isinstance(stmt, Seq):
        counts = [_updates_of_vectors(each) for each in stmt.stmts]
        return sum(counts) if all(counts) else 0
    if not isinstance(stmt, BufferStore) or not stmt.value.dtype.is_vector or stmt.predicate is not None:
        return 0
    parts = list(nodes(stmt))
    old = BufferLoad(stmt.buffer, stmt.indices)
    if (
        len(parts) > _MOST_NODES
        or not all(isinstance(part, _PLAIN) or _is_fused(part) for part in parts if part is not stmt)
        or any(map(may_divide_by_zero, parts))
    ):
        return 0
    return int(any(part.__class__ is BufferLoad and structural_equal(part, old) for part in parts))


def _is_fused(part: Node) -> bool:
    return isinstance(part, Call) and part.op is _FMA


def _indexes_local(body: Stmt, var: Var) -> bool:
    """Whether a variable stands in an index of local (register) memory."""
    accesses = (op for op in each((BufferLoad, BufferStore), body) if op.buffer.scope in ("local", "warp"))
    return any(mentions(index, {var}) for op in accesses for index in op.indices)


class _Unroller(StmtMutator):
    """Counts, bottom-up, the steps, unrolled loops and ordinary loops below each loop, and decides."""

    def __init__(self, func: PrimFunc, options: UnrollLoop) -> None:
        self.options = options
        # What pragmas around a loop say of it.
        self.max_step, self.explicit = options.auto_max_step, options.explicit_unroll
        self.steps = 0
        self.unrolled_depth = 0
        self.loop_depth = 0
        self.analyzer, _ = analyzer_of(func)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key == MAX_STEP:
            return self._with(op.body, max_step=_number(op.value, op))
        if op.key == EXPLICIT:
            return self._with(op.body, explicit=bool(_number(op.value, op)))
        return still_about(op, self.visit(op.body))

    def _with(self, body: Stmt, **options: object) -> Stmt:
        before = {name: getattr(self, name) for name in options}
        for name, value in options.items():
            setattr(self, name, value)
        made: Stmt = self.visit(body)
        for name, value in before.items():
            setattr(self, name, value)
        return made

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        self.steps += 1
        return op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        self.steps += 1
        return op

    def visit_Assert(self, op: Assert) -> Stmt:
        self.steps += 1
        return op

    def visit_Seq(self, op: Seq) -> Stmt:
        steps = unrolled = loops = 0
        outer = (self.steps, self.unrolled_depth, self.loop_depth)
        done = []
        for stmt in op.stmts:
            self.steps = self.unrolled_depth = self.loop_depth = 0
            done.append(self.visit(stmt))
            steps += self.steps
            unrolled, loops = max(unrolled, self.unrolled_depth), max(loops, self.loop_depth)
        self.steps = outer[0] + steps
        self.unrolled_depth, self.loop_depth = max(outer[1], unrolled), max(outer[2], loops)
        return op.with_(stmts=tuple(done)) if any(a is not b for a, b in zip(done, op.stmts, strict=True)) else op

    def visit_For(self, op: For) -> Stmt:
        pragmas: dict[str, object] = {}
        kept = dict(op.annotations)
        if MAX_STEP in kept:
            pragmas["max_step"] = _number(kept.pop(MAX_STEP), op)
        if EXPLICIT in kept:
            pragmas["explicit"] = bool(_number(kept.pop(EXPLICIT), op))
        if pragmas:
            return self._with(op.with_(annotations=kept), **pragmas)
        if (
            self.options.by_llvm
            and self.explicit
            and _LEAST_COPIES <= (copies := _updates_of_vectors(op)) <= _MOST_COPIES
        ):
            self.steps += copies
            self.unrolled_depth += 1
            return op
        extent = self.analyzer.simplify(op.extent)
        count = extent.value if isinstance(extent, IntImm) else -1
        op = op.with_(body=self.visit(op.body))
        if count >= 0 and extent is not op.extent and op.kind is ForKind.UNROLLED:
            op = op.with_(extent=extent)
        # A loop that is left early cannot be copied: there is nothing for the break to leave.
        serial = (
            op.kind is ForKind.SERIAL and count >= 0 and not op.annotations.get(NO_UNROLL) and not jumps_out(op.body)
        )
        wanted = (
            serial
            and self.loop_depth == 0
            and self.unrolled_depth <= self.options.auto_max_depth
            and (count * self.steps <= self.max_step or count <= self.options.auto_max_extent)
        )
        if serial and self.options.unroll_local_access and not wanted:
            wanted = _indexes_local(op.body, op.loop_var)
        if op.kind is ForKind.UNROLLED and not jumps_out(op.body):
            if count < 0:
                raise TransformError(
                    f"cannot unroll loop {op.loop_var.name!r}: its extent {op.extent} is not a constant",
                    span=op.span,
                    help="use a serial loop, or split it by a constant and unroll the inner part",
                )
            wanted = True
        if wanted:
            self.steps *= max(count, 1)
            self.unrolled_depth += 1
        else:
            self.loop_depth += 1
        trivial = self.options.auto_max_extent == 1 and serial and count <= 1
        if (wanted and self.explicit) or trivial:
            named, once = bounds_once(op.with_(extent=const(count, op.extent.dtype)))
            return as_scope(seq(*named, self._unroll(once, count)))
        if wanted and op.kind is not ForKind.UNROLLED:
            return op.with_(kind=ForKind.UNROLLED)
        return op

    def _in_groups(self, op: For, count: int) -> Stmt:
        """A serial loop over groups of iterations, which are copied, as the iterations that are left over are."""
        name = op.loop_var.name
        width = max(2, min(GROUP, MOST_STATEMENTS // max(_size(op.body), 1)))
        groups, group, rest = strips(op, width, (f"{name}_g", name, name))
        inside = self._unroll(group, width)
        left = [self._unroll(rest, count % width)] if count % width else []
        return seq(groups.with_(annotations={}, body=inside), *left)

    def _unroll(self, op: For, count: int) -> Stmt:
        if self.options.grouped and count > 2 and count * _size(op.body) > MOST_STATEMENTS:
            return self._in_groups(op, count)
        if count > 1 and count * _size(op.body) > BUDGET:
            raise TransformError(
                f"unrolling loop {op.loop_var.name!r} ({count} iterations) would make more than {BUDGET} statements",
                span=op.span,
                help="unroll an inner loop only, or use a serial loop",
            )
        copies = []
        for i in range(count):
            value = build.add(op.min, const(i, op.loop_var.dtype))
            values = {op.loop_var: value}
            copies.append(as_scope(refresh_binders(op.body, values) if i else substitute(op.body, values)))
        return seq(*copies)


def _size(stmt: Stmt) -> int:
    """The number of statements below one."""
    return sum(1 for _ in statements(stmt))


def _number(value: object, op: Stmt) -> int:
    if isinstance(value, IntImm):
        value = value.value
    if not isinstance(value, (int, bool)):
        raise TransformError(f"the value of an unroll pragma is a constant, got {value}", span=op.span)
    return int(value)


class UnrollLoop(FuncPass):
    """Loops marked ``unroll``, and those short enough by the options, become one copy of their body per iteration.

    ``auto_max_step``: a serial loop is unrolled when extent times the statements below is at most this;
    ``auto_max_extent``: or when its extent is at most this; ``auto_max_depth``: the most nested unrolled loops;
    ``explicit_unroll=False``: loops are marked for the code generator instead of copied; ``unroll_local_access``:
    loops whose variable indexes local memory too. The pragmas ``pragma_auto_unroll_max_step`` and
    ``pragma_unroll_explicit`` set the first and fourth for a region.

    ``grouped``: a loop that would make more than 2,048 statements is copied in groups of iterations, with a serial loop
    over them (the CPU's pipeline asks for that).

    ``by_llvm``: marked nests that only update vectors in place, such as the accumulators of a product, stay marked: LLVM
    makes the same code of them, and sooner than of as many copies, which every later pass would walk (the CPU's pipeline
    asks for that too).

    A loop with a break or continue of its own stays as it is. Needs nothing; in a pipeline it stands after
    VectorizeLoop. Raises :class:`TransformError` for a marked loop whose extent is not constant, and for one that would
    make more than a million statements.

    >>> from tirlower.script import parse
    >>> print(UnrollLoop()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in T.unroll(2):
    ...         A[i * 4] = i
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        A[0] = 0
        A[4] = 1
    """

    name = "tir.UnrollLoop"
    needs = (Fact.DIVISIONS, Fact.PLAIN_EXPRESSIONS, Fact.UNMARKED, Fact.UNORDERED)
    breaks = (Fact.LANES, Fact.SINGLE_STATEMENTS)
    auto_max_step: int = 0
    auto_max_depth: int = 8
    auto_max_extent: int = 0
    explicit_unroll: bool = True
    unroll_local_access: bool = False
    grouped: bool = False
    by_llvm: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Unroll the loops of a function."""
        return func.with_body(_Unroller(func, self).visit(func.body))
