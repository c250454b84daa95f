"""LiftThreadBinding: equal thread bindings go to the loop that is common to them."""

from __future__ import annotations

from tirlower.analysis.thread_axes import (
    AxisMutator,
    Survey,
    is_thread_axis,
    need_equal_extents,
    on_unit_loop,
    survey,
    thread_loop,
)
from tirlower.ir.expr import Expr, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Evaluate, For, ForKind, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["LiftThreadBinding"]


class _Plan:
    """Where the loops of an axis go: into the loop ``home``, in place of those in ``gone``."""

    def __init__(self, home: For, loops: list[For]) -> None:
        self.home = home
        self.gone = set(loops) - {home}
        self.first = loops[0]
        self.lifts = home is not loops[0]
        notes = self.first.annotations
        same = self.lifts and all(structural_equal(_values(loop), _values(self.first)) for loop in loops)
        self.annotations: dict[str, object] = dict(notes) if same else {}


def _values(loop: For) -> For:
    """A loop of which nothing but the annotations is left, to compare them."""
    return For(Var("i"), const(0), const(1), ForKind.SERIAL, None, loop.annotations, Evaluate(const(0)))


def _common(paths: list[tuple[For, ...]]) -> For:
    """The innermost loop that is around (or is) the last one of every path."""
    shortest = min(len(path) for path in paths)
    depth = 0
    while depth < shortest and all(path[depth] is paths[0][depth] for path in paths):
        depth += 1
    return paths[0][depth - 1]


class _Lifter(AxisMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.analyzer, _ = analyzer_of(func)
        self.in_kernel = False
        self.into: dict[For, list[_Plan]] = {}
        self.plans: dict[For, _Plan] = {}

    def visit_expr(self, root: Expr) -> Expr:
        """Without a variable to replace, expressions stay."""
        return super().visit_expr(root) if self.vmap else root

    def plan(self, found: Survey) -> None:
        """Decide for each axis of a kernel."""
        self.into, self.plans = {}, {}
        for tag, places in found.loops.items():
            loops = [loop for loop, _ in places]
            home = _common([path for _, path in places])
            if len(loops) == 1:
                continue
            for other in loops[1:]:
                need_equal_extents(self.analyzer, loops[0], other, other.extent)
            plan = _Plan(home, loops)
            if plan.lifts:
                inner = found.free_extent(tag, home)
                if not inner or not found.movable([tag], home):
                    continue
                self.into.setdefault(home, []).append(plan)
            for loop in plan.gone:
                self.plans[loop] = plan

    def visit_For(self, op: For) -> Stmt:
        begins = is_thread_axis(op) and not self.in_kernel
        if begins:
            self.in_kernel = True
            self.plan(survey(op))
        low, extent = self.visit(op.min), self.visit(op.extent)
        plan = self.plans.get(op)
        if plan is not None:
            with self.counting(op, self.variable(plan), self.offset(plan, low)):
                body = self.lifted(op)
            bare = op.with_(annotations={}) if plan.annotations else op
            made: Stmt = on_unit_loop(bare, body)
        else:
            made = op.with_(min=low, extent=extent, body=self.lifted(op))
        if begins:
            self.in_kernel = False
        return made

    def lifted(self, op: For) -> Stmt:
        """A loop's body, inside the axes that are lifted to it."""
        body: Stmt = self.visit(op.body)
        for plan in reversed(self.into.get(op, ())):
            body = thread_loop(plan.first, self.variable(plan), self.visit(plan.first.extent), body, plan.annotations)
        return body

    @staticmethod
    def variable(plan: _Plan) -> Var:
        """The variable of the loop that stays or is made."""
        return plan.first.loop_var

    def offset(self, plan: _Plan, low: Expr) -> Expr:
        """A loop's minimum, counted from that of the loop that takes its place."""
        if plan.lifts or is_const_int(plan.home.min, 0):
            return low
        return self.analyzer.rewrite_simplify(low - plan.home.min)


class LiftThreadBinding(FuncPass):
    """The loops of one thread axis go to the innermost loop that is around all of them.

    In a kernel (an outermost thread loop) several loops of one axis become one, from 0, around the whole body of their
    innermost common loop; where that is one of them, the others go. Equal annotations go along; different ones stay,
    on a loop of one iteration. An axis with one loop stays where it is.

    Work between the loops is then done by each thread; where that is not the same (see UnifyThreadBinding), the loops
    stay. Loops of one axis with different extents are a :class:`TransformError`. Virtual threads stay.

    >>> from tirlower.script import parse
    >>> print(LiftThreadBinding()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
    ...     for bx in T.thread_binding(4, thread="blockIdx.x"):
    ...         for k in range(2):
    ...             for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...                 B[bx, k * 32 + tx] = A[bx, k * 32 + tx]
    ...             for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...                 A[bx, k * 32 + tx] = B[bx, k * 32 + tx] * T.float32(2)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4, 64), "float32"), B: T.Buffer((4, 64), "float32")):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for k in range(2):
                for tx in T.thread_binding(32, thread="threadIdx.x"):
                    B[bx, k * 32 + tx] = A[bx, k * 32 + tx]
                    A[bx, k * 32 + tx] = B[bx, k * 32 + tx] * T.float32(2)
    """

    name = "tir.LiftThreadBinding"
    stage = Stage.BLOCK
    needs = (Fact.WHOLE_BUFFERS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lift the thread loops of every kernel of a function."""
        body = func.body
        while True:
            lifted = _Lifter(func).visit(body)
            if lifted is body:
                return func.with_body(body)
            # A lifted axis may be what kept another one, whose extent depends on it; there are a handful of axes.
            body = lifted
