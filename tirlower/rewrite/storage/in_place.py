"""Whether a statement may write a buffer into the memory of another that it reads for the last time.

It may where each element of the source is read only to compute the same element of the target, and no other iteration
touches that element: ``B[i] = A[i] + 1`` over ``i``, but not ``B[0] = A[0] + i``, whose second iteration would read
what the first one wrote.
"""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.arith import IterMapLevel, detect_iter_map
from tirlower.arith.linear import linear_coefficients
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var, const, is_const_int
from tirlower.ir.functor import Visitor
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, AttrStmt, BufferStore, DeclBuffer, For, IfThenElse, Seq, Stmt, While

__all__ = ["injective", "works_in_place"]


class _Refused(Exception):
    """The statement does not work in place."""


class _Checker(Visitor):
    def __init__(self, target: Var, source: Var) -> None:
        self.target = target
        self.source = source
        self.loops: dict[Var, Range] = {}
        self.stores = 0
        self.reading = 0
        self.inner: set[Var] = set()

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self.loops[op.loop_var] = Range(op.min, op.extent)
        self.visit(op.body)
        del self.loops[op.loop_var]

    def visit_While(self, op: While) -> None:
        raise _Refused

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if op.key in ("extern_scope", "volatile_scope") or op.key.startswith("async"):
            raise _Refused
        self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """Its data variable is no use of memory."""

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A view touches nothing by itself."""

    def visit_BufferStore(self, op: BufferStore) -> None:
        for index in op.indices:
            self.visit(index)
        if op.predicate is not None:
            self.visit(op.predicate)
        if op.buffer.data is not self.target:
            if op.buffer.data is self.source:
                raise _Refused
            self.visit(op.value)
            return
        self.stores += 1
        if self.loads(op.value, op):
            self.reading += 1
            if op.predicate is not None or not injective(op.indices, self.loops):
                raise _Refused

    def visit_Var(self, op: Var) -> None:
        if op is self.target or op is self.source:
            raise _Refused  # a pointer: no telling where it is used

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        if op.buffer.data is self.target or op.buffer.data is self.source:
            raise _Refused

    def loads(self, value: Expr, store: BufferStore) -> bool:
        """Whether the value of a store to the target reads the source: directly, where it stores."""
        found = False
        stack: list[Expr] = [value]
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            if isinstance(op, BufferLoad):
                if op.buffer.data is self.source:
                    if not _same_element(op, store):
                        raise _Refused
                    found = True
                elif op.buffer.data is self.target:
                    raise _Refused
                for index in op.indices:
                    self.visit(index)
                if op.predicate is not None:
                    self.visit(op.predicate)
                continue
            if isinstance(op, Var):
                self.visit_Var(op)
            if not op.is_leaf:
                if isinstance(op, Call) and any(_names_memory(a) for a in op.args):
                    self.visit(op)  # an address is no read of the element
                    continue
                stack += list(op.children())
        return found


def _names_memory(arg: Expr) -> bool:
    return isinstance(getattr(arg, "type", None), PointerType) or arg.dtype.is_handle


def _same_element(load: BufferLoad, store: BufferStore) -> bool:
    a, b = load.buffer, store.buffer
    return (
        load.dtype is store.value.dtype
        and load.predicate is None
        and a.dtype is b.dtype
        and _layout(a) == _layout(b)
        and len(load.indices) == len(store.indices)
        and all(expr_key(x) == expr_key(y) for x, y in zip(load.indices, store.indices, strict=True))
    )


def _layout(buffer: Buffer) -> object:
    """What, with the indices, says where an element lies. The outermost extent does not."""
    return (
        tuple(map(expr_key, buffer.shape[1:])),
        tuple(map(expr_key, buffer.strides)),
        expr_key(buffer.elem_offset),
        buffer.axis_separators,
    )


def injective(indices: Sequence[Expr], loops: dict[Var, Range]) -> bool:
    """Whether different iterations of loops give different indices."""
    iterators = {var: dom for var, dom in loops.items() if not is_const_int(dom.extent, 1)}
    scalars: list[Expr] = []
    for index in indices:
        if isinstance(index, Ramp) and isinstance(index.lanes, int):
            # The lanes are one more loop.
            lane = Var("lane", index.base.dtype)
            iterators[lane] = Range(const(0, lane.dtype), const(index.lanes, lane.dtype))
            scalars.append(build.add(index.base, build.mul(lane, index.stride)))
        elif index.dtype.is_vector:
            return False
        else:
            scalars.append(index)
    if not iterators:
        return True
    if len(scalars) == 1 and _spread(scalars[0], iterators):
        return True
    if any(mentions(bound, iterators) for dom in iterators.values() for bound in (dom.min, dom.extent)):
        return False
    return bool(detect_iter_map(scalars, iterators, True, IterMapLevel.BIJECTIVE).indices)


def _spread(index: Expr, iterators: dict[Var, Range]) -> bool:
    """Whether each coefficient of a linear index is larger than all that the smaller ones reach."""
    form = linear_coefficients(index, list(iterators))
    if form is None:
        return False
    steps = []
    for var, dom in iterators.items():
        factor = form.get(var)
        if not isinstance(factor, IntImm):
            return False
        # Only the outermost step may be over an unknown number of iterations.
        steps.append((abs(factor.value), dom.extent.value if isinstance(dom.extent, IntImm) else None))
    reach = 0
    for position, (step, extent) in enumerate(sorted(steps, key=lambda s: s[0])):
        if step <= reach:
            return False
        if extent is None:
            return position == len(steps) - 1
        reach += step * max(extent - 1, 0)
    return True


def works_in_place(stmt: Stmt, target: Var, source: Var) -> bool:
    """Whether ``target`` (a buffer's data) may lie in the memory of ``source`` while a statement writes the one and
    reads the other for the last time. The statement is a store, loop, branch, or what contains them."""
    if not isinstance(stmt, (BufferStore, For, IfThenElse, AttrStmt, Seq)):
        return False
    checker = _Checker(target, source)
    try:
        checker.visit(stmt)
    except _Refused:
        return False
    # A second store to an element could come before the source is read there.
    return checker.reading == checker.stores == 1
