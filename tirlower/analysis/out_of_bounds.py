"""Accesses outside their buffers, found from bounds and confirmed by an iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tirlower.analysis.bounds_search import Loop, Step, Test, Undecided, Value, search, used_by
from tirlower.analysis.purity import side_effect
from tirlower.arith import Analyzer, eval_set
from tirlower.diagnostics import Span
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import (
    And,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Let,
    Or,
    Ramp,
    Select,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import Assert, Bind, Block, BufferStore, Evaluate, For, IfThenElse, Seq, Stmt, While

__all__ = ["OutOfBounds", "find_out_of_bounds"]

MAX_ITERATIONS = 20_000
"""How many iterations the search for one access may look at."""

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_ADDRESS_OF = Op.get("tir.address_of")
_ASSUME = Op.get("tir.assume")


@dataclass(frozen=True)
class OutOfBounds:
    """An index that leaves its dimension.

    ``low`` and ``high`` bound its values (numbers, or expressions in symbolic sizes). ``iteration`` is one in which the
    index is outside, as ``{loop variable's name: value}``, where one was found; without it the bounds alone say so.
    """

    buffer: Buffer
    axis: int
    index: Expr
    extent: Expr
    low: Expr
    high: Expr
    iteration: dict[str, int] | None
    is_store: bool
    span: Span | None

    def __str__(self) -> str:
        verb = "store to" if self.is_store else "load of"
        at = ""
        if self.iteration:
            at = ", for instance at " + ", ".join(f"{name} = {value}" for name, value in self.iteration.items())
        return (
            f"{verb} {self.buffer.name!r}: index {self.index} of dimension {self.axis} runs from {self.low} to "
            f"{self.high}, outside 0 <= index < {self.extent}{at}"
        )


class _Finder(Visitor):
    """Walks the statements with the loops and conditions around each, and looks at every access."""

    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = Analyzer()
        self.steps: list[Step] = []
        self.found: list[OutOfBounds] = []
        self.bounded: set[Var] = set()
        """What has a range: loop variables, iterators, and variables that depend on those only."""
        self.data: set[Var] = set()
        """What is loaded, and what has its value or its range from that."""
        self.numbers: set[Var] = set()
        """Those of them whose range is of numbers."""
        self.span: Span | None = None
        for buffer in func.buffers:
            for extent in buffer.shape:
                if not isinstance(extent, IntImm):
                    self.analyzer.enter_constraint(build.ge(extent, const(0, extent.dtype)))

    # -- the places ------------------------------------------------------------------------------------------------
    @contextmanager
    def place(self, step: Step) -> Iterator[None]:
        """Inside stands what the step leads to."""
        self.steps.append(step)
        try:
            if isinstance(step, Test) and side_effect(step.condition) is Purity.PURE:
                with self.analyzer.constraint_scope(step.condition):
                    yield
            else:
                yield
        finally:
            self.steps.pop()

    def visit_For(self, op: For) -> None:
        """The variable has its range; the loop runs at all only where its extent is positive."""
        self.visit_expr(op.min)
        self.visit_expr(op.extent)
        runs = build.gt(op.extent, const(0, op.extent.dtype))
        with ExitStack() as stack:
            # Of an empty range nothing may be left to the statements after the loop.
            stack.enter_context(
                self.analyzer.constraint_scope(const(True, "bool") if isinstance(runs, IntImm) else runs)
            )
            self._know_range(op.loop_var, Range(op.min, op.extent))
            with self.place(Loop(op.loop_var, op.min, op.extent)):
                self.visit(op.body)

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        """Each branch under its condition."""
        self.visit_expr(op.condition)
        with self.place(Test(op.condition)):
            self.visit(op.then_case)
        if op.else_case is not None:
            with self.place(Test(build.logical_not(op.condition))):
                self.visit(op.else_case)

    def visit_While(self, op: While) -> None:
        """Whether the body runs is not known."""
        self.visit_expr(op.condition)
        with self.place(Test(op.condition)):
            self.visit(op.body)

    def visit_Seq(self, op: Seq) -> None:
        """A binding, an assert or an assumption holds in what follows."""
        depth = len(self.steps)
        with ExitStack() as facts:
            for stmt in op.stmts:
                self.visit(stmt)
                self._declare(stmt, facts)
        del self.steps[depth:]

    def _declare(self, stmt: Stmt, facts: ExitStack) -> None:
        fact: Expr | None = None
        if isinstance(stmt, Bind):
            if stmt.value.dtype.is_integral and stmt.value.dtype.is_scalar:
                self._bind(stmt.var, stmt.value)
                self.steps.append(Value(stmt.var, stmt.value))
        elif isinstance(stmt, Assert):
            fact = stmt.condition
        elif isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _ASSUME:
            fact = stmt.value.args[0]
        if fact is not None:
            self.steps.append(Test(fact))
            if side_effect(fact) is Purity.PURE:
                facts.enter_context(self.analyzer.constraint_scope(fact))

    def _bind(self, var: Var, value: Expr) -> None:
        if self._is_data(value):
            self.data.add(var)
        if side_effect(value) is Purity.PURE:
            self.analyzer.bind(var, value, allow_override=True)
            for known in (self.bounded, self.numbers):
                if used_by([value]) <= known:
                    known.add(var)

    def _is_data(self, *values: Expr) -> bool:
        return not used_by(values).isdisjoint(self.data) or any(
            side_effect(value) is not Purity.PURE for value in values
        )

    def _know_range(self, var: Var, domain: Range) -> None:
        if self._is_data(domain.min, domain.extent):
            self.data.add(var)
            return
        self.analyzer.bind(var, domain, allow_override=True)
        self.bounded.add(var)
        if used_by([domain.min, domain.extent]) <= self.numbers:
            self.numbers.add(var)

    def visit_Block(self, op: Block) -> None:
        """An iterator lies in its domain and has its value; the body runs where the predicate holds."""
        for it in op.iters:
            if it.value is not None:
                self.visit_expr(it.value)
        depth = len(self.steps)
        # What follows from domains that are not empty holds inside the block.
        with self.analyzer.constraint_scope(const(True, "bool")):
            for it in op.iters:
                self._know_range(it.var, it.domain)
                if it.value is None:
                    self.steps.append(Loop(it.var, it.domain.min, it.domain.extent))
                else:
                    self.steps.append(Value(it.var, it.value))
            with self.place(Test(op.predicate)):
                for match in op.match_buffers:
                    self.visit(match.source)
                if op.init is not None:
                    self.visit(op.init)
                self.visit(op.body)
        del self.steps[depth:]

    # -- the accesses ----------------------------------------------------------------------------------------------
    def visit_BufferStore(self, op: BufferStore) -> None:
        """A store, after what it evaluates."""
        self.span = op.span
        self.visit_expr(op.value)
        for index in op.indices:
            self.visit_expr(index)
        if op.predicate is None:
            self.access(op.buffer, op.indices, True, op.span)
        else:
            self.visit_expr(op.predicate)

    def visit_expr(self, root: Expr) -> None:
        """The loads of an expression, each under the conditions that it is evaluated under."""
        stack: list[Expr] = [root]
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            if id(op) in seen or op.is_leaf:
                continue
            seen.add(id(op))
            if isinstance(op, (And, Or)) and op.dtype.is_scalar:
                stack.append(op.a)
                with self.place(Test(op.a if op.__class__ is And else build.logical_not(op.a))):
                    self.visit_expr(op.b)
            elif (op.__class__ is Select and op.condition.dtype.is_scalar) or (
                op.__class__ is Call and op.op is _IF_THEN_ELSE
            ):
                condition, then_value, else_value = op.children()
                stack.append(condition)
                with self.place(Test(condition)):
                    self.visit_expr(then_value)
                with self.place(Test(build.logical_not(condition))):
                    self.visit_expr(else_value)
            elif op.__class__ is Let:
                stack.append(op.value)
                self.steps.append(Value(op.var, op.value))
                if op.value.dtype.is_integral and op.value.dtype.is_scalar:
                    self._bind(op.var, op.value)
                self.visit_expr(op.body)
                self.steps.pop()
            elif op.__class__ is Call and op.op is _ADDRESS_OF and isinstance(op.args[0], BufferLoad):
                stack += op.args[0].indices  # the element is named, not read
            else:
                if op.__class__ is BufferLoad and op.predicate is None:
                    self.access(op.buffer, op.indices, False, op.span or self.span)
                stack += reversed(list(op.children()))

    def access(self, buffer: Buffer, indices: Sequence[Expr], is_store: bool, span: Span | None) -> None:
        """Check each index of an access; of a ramp both ends."""
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            for scalar in _ends(index):
                found = self.outside(scalar, extent)
                if found is not None:
                    low, high, iteration = found
                    named = None if iteration is None else {var.name: value for var, value in iteration.items()}
                    self.found.append(OutOfBounds(buffer, axis, index, extent, low, high, named, is_store, span))
                    break

    def outside(self, index: Expr, extent: Expr) -> tuple[Expr, Expr, dict[Var, int] | None] | None:
        """The bounds of an index that leaves its dimension, and an iteration where it does; None where it does not."""
        index, extent = build.match_types(index, extent)
        zero = const(0, index.dtype)
        bound, size = self.analyzer.const_int_bound(index), self.analyzer.const_int_bound(extent)
        if bound.min_value >= 0 and bound.max_value < size.min_value:
            return None
        inside = build.logical_and(build.ge(index, zero), build.lt(index, extent))
        if self.analyzer.can_prove(inside):
            return None
        if side_effect(index) is not Purity.PURE:
            return None
        low, high = self._range(index)
        try:
            iteration = search(self.steps, build.logical_not(inside), MAX_ITERATIONS)
        except Undecided:
            return (low, high, None) if self._leaves(index, extent, low, high) else None
        if iteration is None:
            return None
        shown = {step.var: iteration[step.var] for step in self.steps if isinstance(step, Loop)}
        return low, high, shown

    def _range(self, index: Expr) -> tuple[Expr, Expr]:
        """The values of an index: as numbers where it is bounded, else in terms of the symbols."""
        bound = self.analyzer.const_int_bound(index)
        dtype = index.dtype
        if (
            used_by([index]) <= self.numbers
            and dtype.min_value <= bound.min_value
            and bound.max_value <= dtype.max_value
        ):
            return const(bound.min_value, dtype), const(bound.max_value, dtype)
        loops = {step.var: Range(step.start, step.extent) for step in self.steps if isinstance(step, Loop)}
        found = eval_set(index, loops, self.analyzer)
        if isinstance(found.min_value, Expr) and isinstance(found.max_value, Expr):
            return found.min_value, found.max_value
        return index, index

    def _leaves(self, index: Expr, extent: Expr, low: Expr, high: Expr) -> bool:
        """Whether the ends of an index's range are certainly outside, no condition being in the way."""
        if any(isinstance(step, Test) and not isinstance(step.condition, IntImm) for step in self.steps):
            # Something not known decides whether the access runs: outside in all iterations, or not certain.
            wholly = build.logical_or(build.lt(index, const(0, index.dtype)), build.ge(index, extent))
            return self.analyzer.can_prove(wholly)
        if not used_by([index, low, high]) - used_by([extent]) <= self.bounded:
            return False
        if not _once(self.analyzer.simplify(index)):
            return False  # ``i % 4 - i % 4 // 2`` does not reach the ends that its parts have
        return self.analyzer.can_prove(build.lt(low, const(0, low.dtype))) or self.analyzer.can_prove(
            build.ge(*build.match_types(high, extent))
        )


def _once(index: Expr) -> bool:
    """Whether each variable stands in one place: what its range gives for the parts, their combinations reach."""
    mentioned: list[Var] = []
    stack = [index]
    while stack:
        op = stack.pop()
        if isinstance(op, Var):
            mentioned.append(op)
        stack += op.children()
    return len(mentioned) == len(set(mentioned))


def _ends(index: Expr) -> list[Expr]:
    """The scalars that decide of an index: itself, or both ends of a ramp."""
    if index.dtype.is_scalar:
        return [index]
    if isinstance(index, Broadcast) and index.value.dtype.is_scalar:
        return [index.value]
    if isinstance(index, Ramp) and isinstance(index.lanes, int) and index.base.dtype.is_scalar:
        last = build.add(index.base, build.mul(index.stride, const(index.lanes - 1, index.base.dtype)))
        return [index.base, last]
    return []


def find_out_of_bounds(func: PrimFunc) -> list[OutOfBounds]:
    """The accesses of a function whose index leaves its dimension, in the order of evaluation.

    An index is reported when an iteration is found in which it is outside (``iteration``; loops of constant extents are
    searched, the conditions around the access respected), or when its bounds are outside, no variable standing twice in
    it, and the loops around it depend on symbolic sizes. An index that may only be outside for some value of an
    argument, or that is loaded or runs over what is, is not reported; nor are accesses with a mask, and addresses that
    are taken and not accessed. An empty list is therefore no proof that all accesses are inside.

    >>> from tirlower.script import parse
    >>> for one in find_out_of_bounds(parse('''
    ... @T.prim_func
    ... def shift(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         if i < 7:
    ...             B[i] = A[i * 2 + 1]
    ... ''')):
    ...     print(one)
    load of 'A': index i * 2 + 1 of dimension 0 runs from 1 to 13, outside 0 <= index < 8, for instance at i = 4
    """
    finder = _Finder(func)
    finder.visit(func.body)
    return finder.found
