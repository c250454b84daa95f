"""UnifyThreadBinding: one variable and one loop for each thread axis of a kernel."""

from __future__ import annotations

from collections.abc import Collection

from tirlower.analysis.thread_axes import (
    AxisMutator,
    is_thread_axis,
    is_virtual_axis,
    need_equal_extents,
    on_unit_loop,
    survey,
    thread_loop,
)
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import For, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["UnifyThreadBinding"]


class _Unifier(AxisMutator):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__()
        self.analyzer, _ = analyzer_of(func)
        self.vars: dict[tuple[str, DataType], Var] = {}
        self.first: dict[str, tuple[For, Var]] = {}
        self.open: set[str] = set()
        self.in_kernel = False
        self.hoists = False
        self.raised: list[tuple[For, Var, Expr]] = []
        self.noted: list[For] = []

    def visit_expr(self, root: Expr) -> Expr:
        """Without a variable to replace, expressions stay."""
        return super().visit_expr(root) if self.vmap else root

    def visit_For(self, op: For) -> Stmt:
        if not is_thread_axis(op):
            return self.generic(op)
        return self.axis(op) if self.in_kernel else self.kernel(op)

    def kernel(self, op: For) -> Stmt:
        """An outermost thread loop, with all axes inside."""
        found = survey(op)
        later = self.later(op, list(found.loops))
        self.hoists = found.movable(later) and all(found.free_extent(tag) for tag in later)
        self.first, self.open, self.in_kernel = {}, set(), True
        made = self.axis(op, head=True)
        self.in_kernel = False
        return made

    @staticmethod
    def later(op: For, tags: list[str]) -> list[str]:
        """The axes whose first loop does not stand directly in that of the axis before."""
        inner: Stmt = op
        seen: list[str] = []
        while isinstance(inner, For) and (is_virtual_axis(inner) or _is_new(inner, seen)):
            if not is_virtual_axis(inner):
                seen.append(str(inner.thread_tag))
            inner = inner.body
        return [tag for tag in tags if tag not in seen]

    def axis(self, op: For, head: bool = False) -> Stmt:
        """A loop over an axis; ``head`` is that of a loop with nothing but axes around it."""
        tag = str(op.thread_tag)
        outermost = head and not self.first
        low, extent = self.visit(op.min), self.visit(op.extent)
        known = self.first.get(tag)
        if known is None:
            var = self.vars.setdefault((tag, op.loop_var.dtype), op.loop_var)
            known = self.first[tag] = (op.with_(extent=extent), var)
            new = True
        else:
            need_equal_extents(self.analyzer, known[0], op, extent)
            new = False
        var = known[1]
        place = tag not in self.open and (head or not self.hoists)
        if self.hoists and not head and new:
            self.raised.append((op, var, extent))
        self.open.add(tag)
        with self.counting(op, var, low):
            inner = op.body
            if head and op.annotations and not outermost:
                self.noted.append(op)
            body: Stmt = self.head(inner) if head else self.visit(inner)
        if not place:
            return on_unit_loop(op, body)
        self.open.discard(tag)
        if op.annotations and not head:
            body = on_unit_loop(op, body)
        kept = op.annotations if outermost else {}
        if var is op.loop_var and is_const_int(low, 0) and len(kept) == len(op.annotations):
            return op.with_(min=low, extent=extent, body=body)
        return thread_loop(op, var, known[0].extent if var.dtype is not extent.dtype else extent, body, kept)

    def head(self, inner: Stmt) -> Stmt:
        """What stands in an axis that begins a kernel: more of them, virtual threads (which stay), or the body."""
        if isinstance(inner, For) and is_virtual_axis(inner):
            made: Stmt = inner.with_(
                min=self.visit(inner.min), extent=self.visit(inner.extent), body=self.head(inner.body)
            )
            return made
        if isinstance(inner, For) and _is_new(inner, self.first):
            return self.axis(inner, head=True)
        return self.head_body(inner)

    def head_body(self, inner: Stmt) -> Stmt:
        """What stands in the innermost of the axes that begin a kernel: the axes met later, and all annotations."""
        noted, self.noted = self.noted, []
        body: Stmt = self.visit(inner)
        for op in reversed(noted):
            body = on_unit_loop(op, body)
        for first, var, extent in reversed(self.raised):
            body = thread_loop(first, var, extent, body)
        self.raised = []
        return body


def _is_new(op: For, seen: Collection[str]) -> bool:
    return is_thread_axis(op) and op.thread_tag not in seen


class UnifyThreadBinding(FuncPass):
    """Each kernel has one loop for each of its thread axes, and one variable for each.

    A kernel is an outermost thread loop. All of its axes come to stand around its body, in the order in which they are
    met, and count from 0; a loop that goes away leaves its annotations on a loop of one iteration, and so does one that
    stays, but for the outermost, which keeps them. Loops of one axis in a kernel need the same extent: :class:`TransformError` otherwise. Different kernels may
    have different extents.

    Work that stands outside the loops of an axis is then done by each of its threads. Where that is not the same (it
    counts, calls something, allocates global memory, or an extent depends on the place) the loops stay where they
    are, and only loops inside a loop of the same axis go. Virtual threads are left alone (TIR unifies ``vthread.x``
    with itself): nested ones are different threads until InjectVirtualThread expands them. The variable kept is
    the first loop's.

    >>> from tirlower.script import parse
    >>> print(UnifyThreadBinding()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
    ...     for bx in T.thread_binding(8, thread="blockIdx.x"):
    ...         tile = T.alloc_buffer((64,), scope="shared")
    ...         for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...             for k in range(2):
    ...                 tile[k * 32 + tx] = A[bx, k * 32 + tx]
    ...         for ty in T.thread_binding(32, thread="threadIdx.x", annotations={"pragma_hint": 1}):
    ...             for k in range(2):
    ...                 B[bx, k * 32 + ty] = tile[63 - k * 32 - ty]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8, 64), "float32"), B: T.Buffer((8, 64), "float32")):
        for bx in T.thread_binding(8, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                tile = T.alloc_buffer((64,), scope="shared")
                for k in range(2):
                    tile[k * 32 + tx] = A[bx, k * 32 + tx]
                for var in T.serial(1, annotations={"pragma_hint": 1}):
                    for k in range(2):
                        B[bx, k * 32 + tx] = tile[63 - k * 32 - tx]
    """

    name = "tir.UnifyThreadBinding"
    stage = Stage.BLOCK
    breaks = (Fact.AXES_APART,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Unify the axes of every kernel of a function."""
        return func.with_body(_Unifier(func).visit(func.body))
