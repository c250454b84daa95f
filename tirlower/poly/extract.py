"""``extract``: a function of any stage as loops, statements and accesses with quasi-affine forms.

One walk in the order of the text. Guards, block predicates, assumptions and assertions become conditions of what
stands in their scope; bindings and block iterators are substituted; matched regions are resolved to their sources. What
is not affine makes an access a may-access over the smallest set that its bounds allow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from tirlower.arith.intervals import INF, union
from tirlower.diagnostics import deep_recursion
from tirlower.ir import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    Buffer,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    IfThenElse,
    IntImm,
    IRModule,
    IterKind,
    Op,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    While,
)
from tirlower.ir.data import data_parameters, stop_of
from tirlower.ir.functor import by_class
from tirlower.poly.affine import Space
from tirlower.poly.conditions import Condition, all_of, at_least, equal, negate
from tirlower.poly.constraint_system import BOTH, System
from tirlower.poly.expressions import Converter
from tirlower.poly.extract_accesses import Accesses
from tirlower.poly.extract_calls import PureFunctions
from tirlower.poly.forms import Form, constant, single
from tirlower.poly.implied import implied
from tirlower.poly.layouts import settle
from tirlower.poly.pointers import Pointers
from tirlower.poly.points import may_happen
from tirlower.poly.reductions import Reduction, guarded_extremum, reduction_of, used_again
from tirlower.poly.scop import Loop, Scop, Statement
from tirlower.poly.words import WordLimit

__all__ = ["extract"]

MAX_QUESTIONS = 200
"""How often isl is asked whether arithmetic on data stays in its type; after that it is taken not to."""

_JUMPS = ("tir.ret", "tir.thread_return", "tir.break_loop", "tir.continue_loop")


def extract(
    func: PrimFunc | Scop,
    module: IRModule | None = None,
    *,
    wrapping: bool = True,
    strides_checked: bool = False,
    around: Sequence[For] = (),
    written: Collection[Var] = (),
) -> Scop:
    """The polyhedral view of a function (a Scop is returned as it is). Does not need islpy.

    With its ``module``, calls of the module's functions that have no effects are seen as such. ``wrapping=False`` takes
    arithmetic on data not to overflow, as TIR does. ``strides_checked`` says that each call is refused whose extents let
    the rows of a parameter overlap though its strides are numbers (what is asserted of symbolic strides, always).
    ``around`` are loops, outermost first, of one iteration of which the function is the body: their variables are parameters. ``written`` is memory that changes while the function runs, by what is not shown of it.

    >>> from tirlower.script import parse
    >>> scop = extract(parse('''
    ... @T.prim_func
    ... def shift(A: T.Buffer((9,), "float32")):
    ...     for i in range(8):
    ...         A[i + 1] = A[i]
    ... '''))
    >>> [(a.is_write, a.indices) for a in scop.accesses]
    [(False, (i,)), (True, (i + 1,))]
    """
    if isinstance(func, Scop):
        return func
    with deep_recursion():
        scop = _Extractor(func, module, wrapping, strides_checked, written).run(around)
    scop.again = lambda other: extract(
        other, module, wrapping=wrapping, strides_checked=strides_checked, around=around, written=written
    )
    return scop


def _repeats(buffer: Buffer) -> bool:
    """Whether constant strides certainly give two subscripts one element, where unknown extents are 2 or more."""
    if not buffer.strides or not all(isinstance(stride, IntImm) for stride in buffer.strides):
        return any(isinstance(stride, IntImm) and stride.value == 0 for stride in buffer.strides)
    reach = 0
    sizes = [(abs(s.value), e) for s, e in zip(buffer.strides, buffer.shape, strict=True) if isinstance(s, IntImm)]
    for size, extent in sorted(sizes, key=lambda pair: pair[0]):
        if not size:
            return True
        if isinstance(extent, IntImm) and extent.value <= 1:
            continue
        if size <= reach:
            return True
        reach += size * (extent.value - 1 if isinstance(extent, IntImm) else 1)
    return False


class _Extractor:
    _table: ClassVar[dict[type, Callable[[_Extractor, object], None]]]

    def __init__(
        self,
        func: PrimFunc,
        module: IRModule | None,
        wrapping: bool,
        strides_checked: bool,
        written: Collection[Var],
    ) -> None:
        self.func = func
        self.functions = PureFunctions(module)
        self.space = Space()
        if wrapping:
            self.space.data = data_parameters(func)
        self.scop = Scop(func, self.space, Pointers(func, also=written))
        self.pointers = self.scop.pointers
        self.conv = Converter(self.space, self.pointers.changing, wrapping)
        self.conv.returned = self.functions.returned
        self.conv.facts = self.facts
        self.conv.infeasible = self.infeasible
        self.words = WordLimit(self.scop)
        self.questions = MAX_QUESTIONS
        self.loops: tuple[Loop, ...] = ()
        self.conditions: tuple[Condition, ...] = ()
        self.entered = 0  # the conditions around the loop at hand
        self.passed: tuple[Condition, ...] = ()  # that no jump before the place at hand was taken
        self.leaves: list[tuple[Loop, Evaluate, tuple[Condition, ...]]] = []
        self.order = 0
        self.bound: dict[Var, Bind] = {}
        self.bound_at: dict[Var, Statement] = {}
        self.through: dict[Var, list[Statement]] = {}
        self.accesses = Accesses(self)
        self.strides_checked = strides_checked
        self.space.is_digit = self.is_digit

    def run(self, around: Sequence[For]) -> Scop:
        func = self.func
        for param in func.params:
            if param.dtype.is_integral:
                self.conv.lin(param)
        for buffer in func.buffers:
            self.scop.scopes[buffer.data] = buffer.scope
            told = (*buffer.shape, *buffer.strides) if self.strides_checked else buffer.strides
            symbolic = not all(isinstance(part, IntImm) for part in told)
            repeats = buffer.buffer_type == "auto_broadcast" or _repeats(buffer)
            if buffer.strides and symbolic and not repeats:
                self.scop.stated_strides.add(buffer)
            for extent in buffer.shape:
                lin = self.conv.lin(extent)
                if isinstance(extent, Var) and extent in self.space.ranges:
                    low, high = self.space.ranges[extent]
                    self.space.ranges[extent] = (max(low, 0), high)
                elif lin.terms:
                    self.scop.context.append(at_least(lin))
        self.conv.admits = self.words.admits  # of the shapes a call computes each itself
        for loop in around:
            self.iteration(loop)
        self.visit(func.body)
        for var in used_again(func.body, self.through):
            for statement in self.through[var]:
                statement.reduction = None  # the running value is seen
        settle(self.scop)
        self.settle_jumps()
        self.scop.reaches = tuple(self.words.reaches.values())
        return self.scop

    def iteration(self, loop: For) -> None:
        """One iteration of a loop around the function's body."""
        start, extent = self.conv.lin(loop.min), self.conv.lin(loop.extent)
        end = (start + extent).shifted(-1)
        self.space.ranges[loop.loop_var] = (self.space.interval(start)[0], self.space.interval(end)[1])
        if not (start.is_constant and extent.is_constant):
            own = single(loop.loop_var)
            self.scop.context += (at_least(own - start), at_least(end - own))

    def settle_jumps(self) -> None:
        """Leave out the jumps that never happen: their conditions hold in no iteration."""
        for loop, op, conditions in self.leaves:
            if not may_happen(self.scop, loop.nest, conditions):
                self.scop.idle_jumps.append((loop, op))
            else:
                leaves = op.value.op is _BREAK  # type: ignore[attr-defined]
                (loop.leaves if leaves else loop.continues).append(op)
                loop.regular = loop.regular and not leaves

    def facts(self) -> list[Condition]:
        """The conditions at this place."""
        return [*self.conditions, *(c for loop in self.loops for c in loop.conditions)]

    def infeasible(self, violation: Form) -> bool:
        """Whether ``violation >= 0`` certainly holds nowhere at this place."""
        self.questions -= 1
        if self.questions < 0:
            return False
        system = System(self.space, frozenset(self.space.iterated))
        for condition in (*self.scop.context, *self.conv.here()):
            system.add(condition, BOTH)
        system.add(at_least(violation), BOTH)
        return system.is_empty()

    def is_digit(self, lin: Form, divisor: Form) -> bool:
        """Whether ``0 <= lin < divisor`` stands in a condition here."""
        above = (divisor - lin).shifted(-1)
        here = self.facts()
        return (self.space.interval(lin)[0] >= 0 or implied(here, lin)) and implied(here, above)

    # Statements

    def visit(self, stmt: Stmt) -> None:
        """A statement."""
        method = self._table.get(stmt.__class__)
        if method is not None:
            method(self, stmt)

    def inside(self, stmt: Stmt, *conditions: Condition) -> None:
        """A statement that is a scope of its own, under further conditions."""
        before = self.conditions
        if conditions:
            self.conditions = (*before, *[c for c in conditions if not c.is_true])
        self.visit(stmt)
        self.conditions = before

    def statement(self, node: Stmt) -> Statement:
        """A new statement at this place."""
        made = Statement(node, self.loops, (*self.conditions, *self.passed), self.order)
        self.order += 1
        return made

    def fixture(self, node: Stmt) -> None:
        """A statement that stands at its place though it may access no memory."""
        self.scop.fixtures.append((self.order, self.loops, node))
        self.order += 1

    def keep(self, statement: Statement) -> None:
        """Enter a statement that accesses memory."""
        if statement.accesses:
            self.scop.statements.append(statement)
            self.scop.accesses += statement.accesses

    def visit_seq(self, op: Seq) -> None:
        before = self.conditions
        for stmt in op.stmts:
            self.visit(stmt)
        self.conditions = before

    def visit_for(self, op: For) -> None:
        self.header(op, op.min, op.extent)
        var = op.loop_var
        start, extent = self.conv.lin(op.min), self.conv.lin(op.extent)
        overflows, stop = False, stop_of(op)
        exact = extent if stop is None else self.conv.lin(stop) - start
        low = self.space.interval(exact)[0]
        if stop is not None and (self.space.is_data(extent) or -INF < low < op.extent.dtype.min_value):
            overflows, extent = not self.conv.fits(op.extent.dtype, exact), exact
        elif not (start.is_constant and extent.is_constant):
            overflows = not self.conv.stays_below(op.loop_var.dtype, (start + extent).shifted(-1))
        values = (self.space.interval(start)[0], self.space.interval((start + extent).shifted(-1))[1])
        known = self.space.ranges.get(var) if var in self.space.iterated else None
        if known is not None:  # the loops of one thread axis share their variable
            values = union(values, known)
        self.space.iterated.add(var)
        self.space.ranges[var] = values
        own = single(var)
        # Split at minima: v < start + min(a, b).
        conditions = (at_least(own - start), at_least((start + extent - own).shifted(-1)))
        loop = Loop(op, var, start, extent, conditions, self.loops, self.order)
        loop.overflows = overflows
        self.enter(loop)

    def visit_while(self, op: While) -> None:
        var = Var("while")
        self.space.iterated.add(var)
        self.space.ranges[var] = (0, INF)
        loop = Loop(op, var, constant(0), None, (at_least(single(var)),), self.loops, self.order)
        self.enter(loop)

    def enter(self, loop: Loop) -> None:
        """The body of a loop (of a while loop: its condition too)."""
        self.order += 1
        self.scop.loops.append(loop)
        before, self.loops = self.loops, loop.nest
        outer = self.entered, self.passed
        self.entered = loop.given = len(self.conditions)
        self.conv.loops = tuple(each.var for each in self.loops)
        if isinstance(loop.node, While):
            self.header(loop.node, loop.node.condition)
        self.inside(loop.node.body)
        self.loops = before
        self.entered, self.passed = outer
        self.conv.loops = tuple(each.var for each in before)

    def header(self, node: Stmt, *values: Expr) -> None:
        """The loads of the expressions that steer a statement."""
        if all(value.is_leaf for value in values):
            return
        statement = self.statement(node)
        for value in values:
            self.accesses.read(statement, value)
        self.keep(statement)

    def visit_if(self, op: IfThenElse) -> None:
        first = len(self.scop.statements)
        self.header(op, op.condition)
        condition = self.conv.condition(op.condition)
        found = guarded_extremum(op)
        self.inside(op.then_case, condition)
        if found is not None:
            for statement in self.scop.statements[first:]:
                statement.reduction = found[1]
        if op.else_case is not None:
            self.inside(op.else_case, negate(condition))

    def visit_store(self, op: BufferStore) -> None:
        statement = self.statement(op)
        statement.reduction = self.reduction(statement, op)
        for index in op.indices:
            self.accesses.read(statement, index)
        if op.predicate is not None:
            self.accesses.read(statement, op.predicate)
        self.accesses.read(statement, op.value)
        self.accesses.add(statement, op, op.buffer, op.indices, True, (), op.predicate)
        self.keep(statement)

    def reduction(self, statement: Statement, op: BufferStore) -> Reduction | None:
        """What a store reduces; ``t = a + x; a = t`` too."""
        value = op.value
        binding = self.bound.get(value) if value.__class__ is Var else None
        if binding is None:
            return reduction_of(op)
        found = reduction_of(op, binding.value)
        source = self.bound_at[binding.var]
        if found is None or source.loops != statement.loops:
            return None
        source.reduction = found
        self.through.setdefault(binding.var, []).extend((source, statement))
        return found

    def visit_bind(self, op: Bind) -> None:
        statement = self.statement(op)
        self.accesses.read(statement, op.value)
        self.keep(statement)
        self.bound[op.var] = op
        self.bound_at[op.var] = statement
        self.accesses.bind(op.var, op.value)

    def visit_evaluate(self, op: Evaluate) -> None:
        call = op.value
        args = call.args if isinstance(call, Call) else ()
        name = call.op.name if isinstance(call, Call) and isinstance(call.op, Op) else ""
        if name in _JUMPS:
            self.jump(op, name, args)
            return
        statement = self.statement(op)
        self.accesses.read(statement, call)
        self.keep(statement)
        if name == "tir.assume":
            self.conditions = (*self.conditions, self.conv.condition(args[0]))
        elif name in ("tir.tvm_storage_sync", "tir.tvm_global_barrier_kinit"):
            scope = str(getattr(args[0], "value", "global")) if args else "global"
            self.scop.barriers.append((statement.order, self.loops, scope))

    def jump(self, op: Evaluate, name: str, args: tuple[Expr, ...]) -> None:
        """A statement that leaves a loop or the function, or ends an iteration."""
        statement = self.statement(op)
        for arg in args:
            self.accesses.read(statement, arg)
        self.keep(statement)
        self.fixture(op)
        here = (*self.conditions, *self.passed)
        if name in ("tir.ret", "tir.thread_return"):
            if self.loops or self.conditions:
                self.scop.irregular = "the function may return early"
                for loop in self.loops:
                    loop.leaves.append(op)
        elif self.loops:
            self.leaves.append((self.loops[-1], op, here))
            # What stands behind in the body runs where the way to the jump was not taken.
            self.passed = (*self.passed, negate(all_of(self.conditions[self.entered :])))

    def visit_assert(self, op: Assert) -> None:
        self.header(op, op.condition)
        stated = self.conv.condition(op.condition)
        self.scop.asserted.append((self.order, self.loops, stated))
        self.fixture(op)
        self.conditions = (*self.conditions, stated)

    def visit_alloc(self, op: AllocBuffer) -> None:
        self.fixture(op)
        self.header(op, *op.buffer.shape, op.condition)
        self.allocate(op.buffer)

    def allocate(self, buffer: Buffer) -> None:
        """New memory: each iteration around it has its own."""
        self.scop.homes[buffer.data] = self.loops
        self.scop.scopes[buffer.data] = buffer.scope

    def visit_const(self, op: AllocConst) -> None:
        self.fixture(op)
        self.allocate(op.buffer)

    def visit_decl(self, op: DeclBuffer) -> None:
        self.header(op, *op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset)

    def visit_attr(self, op: AttrStmt) -> None:
        self.header(op, op.value)
        self.inside(op.body)

    def visit_block(self, op: Block) -> None:
        values = [it.value for it in op.iters if it.value is not None]
        self.header(op, *values, op.predicate)
        for it in op.iters:
            if it.value is not None:
                self.conv.bind(it.var, it.value)
            else:
                self.conv.bound_deps[it.var] = frozenset(self.conv.loops)
        before = self.conditions
        predicate = self.conv.condition(op.predicate)
        if not predicate.is_true:
            self.conditions = (*before, predicate)
        for match in op.match_buffers:
            self.accesses.match(match)
        stmts = op.body.stmts if isinstance(op.body, Seq) else (op.body,)
        heads = 0
        while heads < len(stmts) and isinstance(stmts[heads], AllocBuffer):
            self.visit(stmts[heads])
            self.scop.planned.add(stmts[heads].buffer.data)  # type: ignore[attr-defined]
            heads += 1
        before_init = len(self.scop.statements)
        if op.init is not None:
            starts = [
                equal(self.conv.lin(it.var) - self.conv.lin(it.domain.min))
                for it in op.iters
                if it.kind is IterKind.REDUCE
            ]
            self.inside(op.init, *starts)
        first = len(self.scop.statements)
        for stmt in stmts[heads:]:
            self.visit(stmt)
        if op.init is not None:
            self.join_init(before_init, first)
        self.conditions = before

    def join_init(self, start: int, body: int) -> None:
        """The init of a reduction block is part of the reduction: partial results begin with it."""
        found = {s.reduction.buffer.data: s.reduction for s in self.scop.statements[body:] if s.reduction is not None}
        for statement in self.scop.statements[start:body]:
            statement.starts = True
            if isinstance(statement.node, BufferStore) and statement.reduction is None:
                statement.reduction = found.get(statement.node.buffer.data)


_Extractor._table = by_class(
    {
        Seq: _Extractor.visit_seq,
        For: _Extractor.visit_for,
        While: _Extractor.visit_while,
        IfThenElse: _Extractor.visit_if,
        BufferStore: _Extractor.visit_store,
        Bind: _Extractor.visit_bind,
        Evaluate: _Extractor.visit_evaluate,
        Assert: _Extractor.visit_assert,
        AllocBuffer: _Extractor.visit_alloc,
        AllocConst: _Extractor.visit_const,
        DeclBuffer: _Extractor.visit_decl,
        AttrStmt: _Extractor.visit_attr,
        Block: _Extractor.visit_block,
    }
)
_BREAK = Op.get("tir.break_loop")
