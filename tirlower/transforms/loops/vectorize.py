"""VectorizeLoop: vectorized loops become vector expressions.

The lanes of a loop run in step: each statement in turn is executed for all lanes, its loads before its store. The
loop variable becomes a ramp and every expression that depends on it a vector; allocations inside are replicated for
the lanes. A statement with no vector form (a condition that differs between lanes, a call with effects, a while
loop) becomes a serial loop over the lanes of that statement alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tirlower.analysis.aliasing import Aliases
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import Range, build
from tirlower.ir.annotations import NO_UNROLL, REDUCTION
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import And, Broadcast, Call, Expr, IntImm, Mul, Not, Ramp, Shuffle, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, StmtMutator, substitute
from tirlower.ir.op import Op
from tirlower.ir.query import each, statements
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import as_scope, jumps_out, returns, without_continues
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.loop_nests import bounds_once, strips
from tirlower.rewrite.options import option
from tirlower.rewrite.vectors.dead_lanes import DeadLanes
from tirlower.rewrite.vectors.expressions import ExprVectorizer, depends_on
from tirlower.rewrite.vectors.masks import Masker, Scalarize, always_read, mask_of, reads_memory, some_lane
from tirlower.rewrite.vectors.memory import LaneAllocation
from tirlower.rewrite.vectors.plain import gains_in_step

__all__ = ["VectorizeLoop"]

S = TypeVar("S", bound=Stmt)


class _Vectorizer(Mutator):
    """Rewrites the body of one vectorized loop."""

    def __init__(
        self,
        var: Var,
        extent: Expr,
        predicated: bool,
        func: PrimFunc,
        own: Callable[[Buffer, Expr], bool] | None = None,
        dead: Callable[[Buffer, Expr, Expr, Var], bool] = lambda buffer, index, condition, lane: False,
    ) -> None:
        self.var = var
        self.extent = extent
        self.predicated = predicated
        self.own = own
        self.dead = dead
        self.exprs = ExprVectorizer(var, extent.value if isinstance(extent, IntImm) else extent, predicated, func)

    def visit_expr(self, root: Expr) -> Expr:
        return self.exprs.rewrite(root)

    # -- statements without a vector form ----------------------------------------------------------------------------

    def or_serial(self, op: S, rewrite: Callable[[S], Stmt]) -> Stmt:
        """A rewritten statement, or a loop over its lanes where it has no vector form."""
        known = len(self.exprs.lets)
        try:
            return rewrite(op)
        except Scalarize:
            self.exprs.forget(known)
            return self.scalarize(op)

    def scalarize(self, op: Stmt) -> For:
        """The statement for each lane in turn; what was bound to vectors before it is taken lane by lane."""
        index = Var(f"{self.var.name}_s", self.var.dtype, span=self.var.span)
        values: dict[Var, Expr] = {self.var: index}
        for var, vector in self.exprs.lets.items():
            if depends_on(op, (var,)):
                values[var] = _lane_of(vector, var.dtype.lanes, index)
        body = refresh_binders(op, values)
        return For(index, const(0, index.dtype), self.extent, ForKind.SERIAL, None, {}, body, span=op.span)

    def scope(self, op: Stmt) -> Stmt:
        """A nested body: a scope of its own, scalarized whole where a declaration in it has no vector form."""
        return as_scope(self.or_serial(op, self.visit))

    # -- statements --------------------------------------------------------------------------------------------------

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return self.or_serial(op, self._store)

    def _store(self, op: BufferStore) -> Stmt:
        exprs = self.exprs
        if exprs.varies(op.buffer):
            raise Scalarize(f"the layout of {op.buffer.name!r} differs between lanes")
        value = exprs.rewrite(op.value)
        indices, predicate = exprs.access(op.buffer, op.indices, op.predicate, exprs.rewrite)
        same = all(a is b for a, b in zip(indices, op.indices, strict=True)) and predicate is op.predicate
        if same and value is op.value:
            return op
        if same:
            indices, predicate = exprs.access(op.buffer, op.indices, op.predicate, lambda e: e, wide=True)
        return op.with_(value=exprs.widen(op.value, value), indices=indices, predicate=predicate)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if isinstance(op.value, Call) and op.value.op is Op.get("tir.assume"):
            return self.or_serial(op, self._assume)
        return self.or_serial(op, lambda s: s.with_(value=self.visit(s.value)))

    def _assume(self, op: Evaluate) -> Stmt:
        assert isinstance(op.value, Call)
        if self.exprs.rewrite(op.value.args[0]) is not op.value.args[0]:
            raise Scalarize("an assumption for each lane")
        return op

    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.visit(op.value)
        if value.dtype is op.var.dtype:
            return op.with_(value=value)
        var = Var(op.var.name, value.dtype, span=op.var.span)
        self.exprs.lets[op.var] = var
        return op.with_(var=var, value=value)

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        for position, stmt in enumerate(op.stmts):
            rest = op.stmts[position:]
            known = len(self.exprs.lets)
            try:
                if isinstance(stmt, AllocBuffer):
                    return Seq((*done, *self._allocation(stmt, rest[1:])), span=op.span)
                made = self.visit(stmt)
                done += made.stmts if isinstance(stmt, Assert) and isinstance(made, Seq) else [made]
            except Scalarize:
                self.exprs.forget(known)
                # A declaration without a vector form: the rest of its scope runs lane by lane.
                return Seq((*done, self.scalarize(Seq(rest, span=op.span))), span=op.span)
        changed = len(done) != len(op.stmts) or any(a is not b for a, b in zip(done, op.stmts, strict=True))
        return op.with_(stmts=tuple(done)) if changed else op

    def _allocation(self, op: AllocBuffer, rest: tuple[Stmt, ...]) -> list[Stmt]:
        """The allocation and what follows it in its scope, with a part of the memory for each lane."""
        if depends_on(op, {self.var, *self.exprs.lets}) or self.exprs.varies(op.buffer):
            raise Scalarize(f"the shape of {op.buffer.name!r} differs between lanes")
        worker = LaneAllocation(op.buffer, self.var, self.extent)
        inner = Seq(tuple(worker.visit(stmt) for stmt in rest))
        after = self.visit_Seq(inner)
        return [op.with_(buffer=worker.new), *(after.stmts if isinstance(after, Seq) else (after,))]

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return op

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        return op

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        if self.exprs.varies(op.buffer):
            raise Scalarize(f"the view {op.buffer.name!r} differs between lanes")
        return op

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.VECTORIZED:
            # One dimension of lanes is all there is: the inner loop runs in turn, each time for all lanes.
            op = op.with_(kind=ForKind.SERIAL)
        return self.or_serial(op, self._for)

    def _for(self, op: For) -> Stmt:
        if self.visit(op.min) is not op.min or self.visit(op.extent) is not op.extent:
            raise Scalarize(f"the bounds of loop {op.loop_var.name!r} differ between lanes")
        if jumps_out(op.body):
            raise Scalarize(f"lanes may leave loop {op.loop_var.name!r} at different times")
        return op.with_(body=self.scope(op.body))

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.or_serial(op, self._if)

    def _if(self, op: IfThenElse) -> Stmt:
        condition = self.visit(op.condition)
        if condition is not op.condition:
            if self.predicated:
                return self._masked(op, mask_of(condition, self.exprs.wrapping))
            raise Scalarize(f"the condition {op.condition} differs between lanes")
        else_case = None if op.else_case is None else self.scope(op.else_case)
        return op.with_(then_case=self.scope(op.then_case), else_case=else_case)

    def _masked(self, op: IfThenElse, mask: Expr) -> Stmt:
        """Both branches for all lanes, every access of each under the mask of the lanes that take it."""
        done: list[Stmt] = []
        read = always_read(mask)
        some = some_lane(mask) if self.own is not None else None
        bound = op.else_case is not None or reads_memory(mask)
        if bound:
            # Computed once: the branches may store to what the condition reads.
            var = Var("mask", mask.dtype, span=op.condition.span)
            done.append(Bind(var, mask, span=op.span))
            mask = var

        def dead(buffer: Buffer, index: Expr) -> bool:
            return self.dead(buffer, index, op.condition, self.var)

        masker = Masker(mask, self.own, some is not None, dead, read)
        then = masker.visit(self.scope(op.then_case))
        if masker.asks and some is not None:
            if bound:
                first = Var("some", some.dtype, span=op.condition.span)
                done.append(Bind(first, some, span=op.span))
                some = first
            then = IfThenElse(some, then, span=op.span)
        done.append(then)
        if op.else_case is not None:
            done.append(Masker(Not(mask), read=read).visit(self.scope(op.else_case)))
        return as_scope(seq(*done))

    def visit_While(self, op: While) -> Stmt:
        return self.scalarize(op)

    def visit_Assert(self, op: Assert) -> Stmt:
        return self.or_serial(op, self._assert)

    def _assert(self, op: Assert) -> Stmt:
        condition = self.visit(op.condition)
        if condition is op.condition:
            return self._for_first_lane(op)
        if condition.dtype.scalable or op.condition.dtype.is_vector:
            raise Scalarize("an assertion for each lane")
        # One test for all lanes; which of them fails is looked for only then.
        steps, whole = _all_of(condition)
        search = self.scalarize(op).with_(annotations={NO_UNROLL: True})
        return Seq((*steps, IfThenElse(build.logical_not(whole), search, None, span=op.span)))

    def _for_first_lane(self, op: Assert) -> Stmt:
        """An assertion that fails in all lanes or none; its message may show values of the lane that failed first."""
        varying = {self.var, *self.exprs.lets}
        if not depends_on(op.message, varying):
            return op
        first = const(0, self.var.dtype)
        values: dict[Var, Expr] = {self.var: first}
        for var, vector in self.exprs.lets.items():
            values[var] = _lane_of(vector, var.dtype.lanes, first)
        return op.with_(message=substitute(op.message, values))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self.or_serial(op, self._attr)

    def _attr(self, op: AttrStmt) -> Stmt:
        if op.node is self.var:
            return self.scope(op.body)  # about the loop that is no more
        if self.visit(op.value) is not op.value:
            raise Scalarize(f"the value of attribute {op.key!r} differs between lanes")
        return op.with_(body=self.scope(op.body))

    def visit_Block(self, op: Block) -> Stmt:
        raise TransformError(
            f"block {op.name!r} inside vectorized loop {self.var.name!r}",
            span=op.span,
            help="run LowerOpaqueBlock and FlattenBuffer before VectorizeLoop",
        )


def _all_of(vector: Expr) -> tuple[list[Bind], Expr]:
    """Whether all lanes of a vector of booleans are true: halves are combined, step by step, until one lane is left."""
    if isinstance(vector, Broadcast):
        return [], vector.value
    steps: list[Bind] = []
    odd: list[Expr] = []
    while vector.dtype.lanes > 1:
        lanes = vector.dtype.lanes
        mask = Var("mask", vector.dtype)
        steps.append(Bind(mask, vector))
        half = lanes // 2
        if lanes % 2:
            odd.append(_lanes_of(mask, lanes - 1, 1))
        vector = And(_lanes_of(mask, 0, half), _lanes_of(mask, half, half))
    for lane in odd:
        vector = And(vector, lane)
    return steps, vector


def _lanes_of(vector: Expr, first: int, count: int) -> Expr:
    return Shuffle((vector,), tuple(const(first + lane, "int32") for lane in range(count)))


def _lane_of(vector: Var, inner: int, lane: Expr) -> Expr:
    """The part of a vector that belongs to one lane of the loop."""
    if inner == 1:
        return Shuffle((vector,), (lane,))
    first = build.mul(lane, const(inner, lane.dtype))
    return Shuffle((vector,), tuple(build.add(first, const(i, lane.dtype)) for i in range(inner)))


LINE_BITS = 512
"""A cache line, and the widest registers."""
MOST_GROUPS = 16
"""With ``tail``, loops of more lanes than so many lines hold run in groups, as those of symbolic extents do."""


class _Loops(StmtMutator):
    """Finds the vectorized loops."""

    def __init__(self, func: PrimFunc, target: Target | None, predicated: bool | None, tail: bool, plain: bool) -> None:
        self.func = func
        self.aliases = Aliases(func) if plain else None
        self.sizes = {extent for buffer in func.buffers for extent in buffer.shape}
        self.target = target
        self.asked = predicated
        self.tail = tail
        self.around: list[For] = []
        self.locals: dict[Stmt, set[Var]] = {}
        self.dead_lanes: DeadLanes | None = None

    def _is_own(self, buffer: Buffer, index: Expr) -> bool:
        """Whether no other thread has a buffer, and a vector of its elements is inside of it with all lanes."""
        if buffer.scope != "local" or len(buffer.shape) != 1 or not isinstance(index, Ramp):
            return False
        if not is_const_int(index.stride, 1) or not isinstance(index.lanes, int):
            return False
        threads = [loop for loop in self.around if loop.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING)]
        inside: Stmt = threads[-1] if threads else self.func.body
        if inside not in self.locals:
            self.locals[inside] = {op.buffer.data for op in each(AllocBuffer, inside) if op.buffer.scope == "local"}
        if buffer.data not in self.locals[inside]:
            return False
        analyzer = self._known()
        last = build.add(index.base, index.lanes)
        return analyzer.can_prove(build.ge(index.base, 0)) and analyzer.can_prove(build.le(last, buffer.shape[0]))

    def _is_dead(self, buffer: Buffer, index: Expr, condition: Expr, lane: Var) -> bool:
        """Whether nothing ever looks at a vector of a buffer of the function's own in the lanes in which a condition does not hold."""
        if self.dead_lanes is None:
            self.dead_lanes = DeadLanes(self.func)
        if not isinstance(index, Ramp) or not isinstance(index.lanes, int):
            return False
        whole = build.eq(build.floormod(index.base, index.lanes), 0)
        return self.dead_lanes.are_of(buffer, index.lanes, condition, lane) and self._known().can_prove(whole)

    def _known(self) -> Analyzer:
        """What is known of the loops around."""
        analyzer = Analyzer()
        for loop in self.around:
            analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
        return analyzer

    @property
    def predicated(self) -> bool:
        """Whether accesses under a condition that differs between lanes are masked."""
        return _has_scalable_vectors(self.target) if self.asked is None else self.asked

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key != "target":
            return self.generic(op)
        outer, self.target = self.target, Target(op.node)
        made = self.generic(op)
        self.target = outer
        return made

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.VECTORIZED and not (self.aliases and gains_in_step(op, self.aliases)):
            self.around.append(op)
            try:
                return self.generic(op)
            finally:
                self.around.pop()
        extent, var = op.extent, op.loop_var
        fixed = isinstance(extent, IntImm)
        if isinstance(extent, IntImm):
            if extent.value < 1:
                return seq()
        elif not self.tail and not (_is_scalable(extent) and _has_scalable_vectors(self.target)):
            raise TransformError(
                f"cannot vectorize loop {var.name!r}: its extent {extent} is not a constant",
                span=op.span,
                help="split the loop by a constant and vectorize the inner part",
            )
        named, once = bounds_once(op)
        if named:
            return as_scope(seq(*named, self.visit(once)))
        if op.annotations.get(REDUCTION):
            raise TransformError(
                f"the vectorized loop {var.name!r} carries reductions, whose updates lanes in step would lose",
                span=op.span,
                help="run PrivatizeReductions before VectorizeLoop",
            )
        body = without_continues(op.body)
        if body is None or returns(body):
            raise TransformError(
                f"cannot vectorize loop {var.name!r}: a lane may break, continue or return alone",
                span=op.span,
                help="make the loop serial",
            )
        if not is_const_int(op.min, 0):
            # Normalised to start at 0.
            var = Var(var.name, var.dtype, span=var.span)
            body = substitute(body, {op.loop_var: build.add(op.min, var)})
        if isinstance(extent, IntImm) and extent.value == 1:
            return as_scope(self.visit(substitute(body, {var: const(0, var.dtype)})))
        if not fixed and not (_is_scalable(extent) and _has_scalable_vectors(self.target)):
            return self._with_tail(op, var, body)
        if isinstance(extent, IntImm) and self.tail and extent.value > MOST_GROUPS * _lanes_for(body):
            return self._with_tail(op, var, body)
        return self._lanes(var, extent, body)

    def _lanes(self, var: Var, extent: Expr, body: Stmt) -> Stmt:
        own = self._is_own if self.tail else None
        return _Vectorizer(var, extent, self.predicated, self.func, own, self._is_dead).scope(body)

    def _with_tail(self, op: For, var: Var, body: Stmt) -> Stmt:
        """Vectors of a fixed width as long as there are whole ones, and the rest one by one.

        What the lanes of the loop may do in step, they may do in groups: groups in turn are nearer to the serial order.
        """
        names = [f"{var.name}_{part}" for part in ("o", "l", "t")]
        loop = op.with_(loop_var=var, min=const(0, var.dtype), body=body)
        whole, strip, rest = strips(loop, _lanes_for(body), names, nonneg=op.extent in self.sizes)
        vectors = self._lanes(strip.loop_var, strip.extent, strip.body)
        if op.kind is ForKind.SERIAL:
            rest = rest.with_(annotations={NO_UNROLL: True})  # no plain loop any more, which would be split again
        return as_scope(seq(whole.with_(body=vectors), rest))


def _lanes_for(body: Stmt) -> int:
    """How many lanes fill a cache line with the widest elements that a loop's body stores."""
    widths = (op.value.dtype.bits * op.value.dtype.lanes for op in statements(body) if isinstance(op, BufferStore))
    return max(2, LINE_BITS // max([8, *widths]))


def _is_scalable(extent: Expr) -> bool:
    """Whether an extent is as many lanes as scalable vectors have: a multiple of ``T.vscale()``."""
    if isinstance(extent, Mul):
        extent = extent.a if isinstance(extent.b, IntImm) else extent.b if isinstance(extent.a, IntImm) else extent
    return isinstance(extent, Call) and extent.op is Op.get("tir.vscale")


def _has_scalable_vectors(target: Target | None) -> bool:
    if target is None:
        return False
    features: tuple[str, ...] = target.get("mattr", ())
    return any(f in features for f in ("+sve", "+sve2", "+sme", "+v"))


class _Serializer(StmtMutator):
    """Vectorized loops become serial ones."""

    def visit_For(self, op: For) -> Stmt:
        op = self.generic(op)
        return op.with_(kind=ForKind.SERIAL) if op.kind is ForKind.VECTORIZED else op


class VectorizeLoop(FuncPass):
    """Vectorized loops become vector expressions; with ``enable_vectorize=False`` serial loops.

    Each statement has its own vector form: contiguous accesses are ramps, others gathers and scatters; vectors inside
    the loop become longer ones; allocations inside it get a part for each lane; statements without a vector form
    become a serial loop over their lanes. A vectorized loop inside another one becomes serial. With ``predicate``
    (``tir.enable_buffer_level_predication`` in the context overrides it; without either, where the target has scalable
    vectors, the function's, the current one's or that of an attribute ``target`` around) the accesses under a condition that differs between lanes are masked instead, of ``if`` and of
    ``T.if_then_else``. With ``tail`` a loop whose extent is not a constant becomes a loop of vectors of a cache line of
    its widest elements, and a serial loop over the rest, and so does one of more than 16 lines; and under a mask of the first lanes
    loads that do not depend on the lanes are made where there is some lane, and local arrays are updated whole. With ``plain`` serial loops
    that call ``sin``, ``cos``, ``tan`` or ``pow`` are vectorized too, where their iterations certainly may run in step:
    LLVM leaves those alone. The pipeline asks for all three.

    Needs LowerOpaqueBlock, and FlattenBuffer where the loop variable is in an index other than the last (such a
    statement stays serial otherwise). Raises :class:`TransformError` for a loop whose extent is neither a constant
    nor, for a target with scalable vectors, a multiple of ``T.vscale()``, without ``tail``; for blocks inside; and for
    a loop that a lane may leave alone.

    >>> from tirlower.script import parse
    >>> print(VectorizeLoop()(parse('''
    ... @T.prim_func
    ... def twice(A: T.Buffer((4,), "float32")):
    ...     for i in T.vectorized(4):
    ...         A[i] = A[i] * T.float32(2)
    ... ''')).script())
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32")):
        A[0:4] = A[0:4] * T.Broadcast(T.float32(2), 4)
    """

    name = "tir.VectorizeLoop"
    stage = Stage.FLAT
    needs = (Fact.LANES, Fact.DIVISIONS, Fact.CUSTOM_TYPES, Fact.UNMARKED, Fact.UNORDERED)
    breaks = (Fact.VECTOR_LOOPS, Fact.SINGLE_STATEMENTS)
    enable_vectorize: bool = option(default=True, kw_only=False)
    predicate: bool | None = option(default=None, about="mask accesses under conditions")
    tail: bool = False
    plain: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Vectorize every vectorized loop of a function."""
        if not self.enable_vectorize or ctx.option("tir.disable_vectorize"):
            return func.with_body(_Serializer().visit(func.body))
        stated = func.attrs.get("target")
        target = Target(stated) if stated else Target.current()
        asked = ctx.option("tir.enable_buffer_level_predication")
        predicated = self.predicate if asked is None else bool(asked)
        return func.with_body(_Loops(func, target, predicated, self.tail, self.plain).visit(func.body))
