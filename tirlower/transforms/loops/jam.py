"""JamReductions: several iterations of a loop run side by side, so that their sums need not wait for each other.

``for j: acc = 0.0; for p: acc += A[i, p] * B[p, j]; C[i, j] = acc`` adds one product after the other, and each addition
waits for the one before: a core that adds eight numbers a cycle adds one in three or four. Four iterations of ``j`` at
once have four sums in flight, and load ``A[i, p]`` once. Each sum keeps its order: the results are the same to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tirlower.analysis.aliasing import Aliases
from tirlower.analysis.purity import side_effect
from tirlower.ir import build
from tirlower.ir.annotations import NO_UNROLL
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Max, Min, Select, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.op import Purity
from tirlower.ir.query import each, may_divide_by_zero
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.stmt import AllocBuffer, Bind, BufferStore, DeclBuffer, For, ForKind, Seq, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["JamReductions"]

#: the sums in flight that hide an addition's latency
_IN_FLIGHT = 4

#: LLVM unrolls loops of fewer iterations whole, and finds by itself what may run side by side then
_LEAST_ITERATIONS = 128

#: larger bodies have enough to do while a sum waits
_MOST_NODES = 120


class _No(Exception):
    """The loop stays as it is."""


@dataclass
class _Body:
    """What the body of a loop does: its variables, the memory it writes and reads, and the sums it waits for."""

    variables: set[Buffer]
    declared: set[Buffer]
    written: set[Var]
    read: set[Var]
    sums: set[Buffer]
    nodes: int = 0


def _plain(loop: For) -> bool:
    return loop.kind is ForKind.SERIAL and not loop.annotations and loop.thread_tag is None


def _statements(body: Stmt) -> tuple[Stmt, ...]:
    return body.stmts if isinstance(body, Seq) else (body,)


class _Look:
    """Reads the body of a loop; raises :class:`_No` for what iterations side by side may change."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        self.found = _Body(set(), set(), set(), set(), set())
        self.own: set[Var] = {loop.loop_var}
        top = _statements(loop.body)
        self.last = max((at for at, stmt in enumerate(top) if isinstance(stmt, For)), default=-1)
        if self.last < 0:
            raise _No
        fresh: set[Buffer] = set()
        for at, stmt in enumerate(top):
            if isinstance(stmt, For):
                self.inner(stmt, fresh)
            elif (
                isinstance(stmt, AllocBuffer) and at < self.last and _is_variable(stmt.buffer) and not stmt.annotations
            ):
                self.found.declared.add(stmt.buffer)
            else:
                self.straight(stmt, fresh, ends=at > self.last)
                if isinstance(stmt, BufferStore) and stmt.buffer in self.found.variables:
                    fresh.add(stmt.buffer)

    def inner(self, loop: For, fresh: set[Buffer]) -> None:
        """A loop inside, which all the iterations side by side share: its bounds are the same for them."""
        if not _plain(loop):
            raise _No
        if isinstance(loop.extent, IntImm) and loop.extent.value < _LEAST_ITERATIONS:
            raise _No
        for bound in (loop.min, loop.extent):
            self.expression(bound, fresh)
            if any(isinstance(node, BufferLoad) or node in self.own for node in _nodes(bound)):
                raise _No
        for stmt in _statements(loop.body):
            if isinstance(stmt, For):
                self.inner(stmt, fresh)
                continue
            self.straight(stmt, fresh, ends=False)
            if isinstance(stmt, BufferStore) and _waits(stmt):
                self.found.sums.add(stmt.buffer)

    def straight(self, stmt: Stmt, fresh: set[Buffer], ends: bool) -> None:
        """A binding, or a store: to a variable, or, behind the loops (``ends``), to memory that nothing here reads."""
        if isinstance(stmt, Bind):
            self.expression(stmt.value, fresh)
            self.own.add(stmt.var)
            return
        if not isinstance(stmt, BufferStore) or stmt.predicate is not None:
            raise _No
        for part in (stmt.value, *stmt.indices):
            self.expression(part, fresh)
        if _is_variable(stmt.buffer):
            self.found.variables.add(stmt.buffer)
        elif ends:
            self.found.written.add(stmt.buffer.data)
        else:
            raise _No

    def expression(self, expr: Expr, fresh: set[Buffer]) -> None:
        """An expression reads only variables that this iteration has set, and cannot fail."""
        if side_effect(expr) > Purity.READS:
            raise _No
        for node in _nodes(expr):
            self.found.nodes += 1
            if node.dtype.is_vector or may_divide_by_zero(node):
                raise _No
            if isinstance(node, BufferLoad):
                if node.predicate is not None:
                    raise _No
                if not _is_variable(node.buffer):
                    self.found.read.add(node.buffer.data)
                elif node.buffer not in fresh:
                    raise _No
        if self.found.nodes > _MOST_NODES:
            raise _No


def _nodes(expr: Expr) -> list[Expr]:
    return list(each(Expr, expr))


def _is_variable(buffer: Buffer) -> bool:
    return buffer.scope == "local" and len(buffer.shape) == 1 and is_const_int(buffer.shape[0], 1)


def _waits(store: BufferStore) -> bool:
    """Whether a float takes its next value from its last by operations that must keep their order."""
    if not store.buffer.dtype.is_float or isinstance(store.value, (Max, Min, Select)):
        return False
    return any(isinstance(node, BufferLoad) and node.buffer is store.buffer for node in _nodes(store.value))


def _uses(stmt: Stmt) -> Iterator[Var]:
    """The memory that a statement accesses, views or passes on, each as often as it is written down."""
    if isinstance(stmt, (BufferStore, DeclBuffer)):
        yield stmt.buffer.data
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _uses(child)
        elif isinstance(child, Expr):
            for node in _nodes(child):
                if isinstance(node, BufferLoad):
                    yield node.buffer.data
                elif isinstance(node, Var) and isinstance(node.type, PointerType):
                    yield node


class _Jammer(StmtMutator):
    """Rewrites the loops of a function, and declares the variables of the copies beside the ones they are of."""

    def __init__(self, func: PrimFunc) -> None:
        self.aliases = Aliases(func)
        self.uses = Counter(_uses(func.body))
        self.copies: dict[Buffer, list[Buffer]] = {}

    def visit_Seq(self, op: Seq) -> Stmt:
        new = self.generic(op)
        stmts: list[Stmt] = []
        for stmt in _statements(new):
            stmts.append(stmt)
            if isinstance(stmt, AllocBuffer):
                stmts += [AllocBuffer(made, span=stmt.span) for made in self.copies.pop(stmt.buffer, ())]
        return Seq(tuple(stmts), span=op.span) if len(stmts) > len(_statements(new)) else new

    def visit_For(self, op: For) -> Stmt:
        if not _plain(op):
            return self.generic(op)
        try:
            found = self.jammable(op)
        except _No:
            return self.generic(op)
        count = _IN_FLIGHT // len(found.sums)
        if isinstance(op.extent, IntImm) and op.extent.value < count:
            return op
        return self.jammed(op, found.variables - found.declared, count)

    def jammable(self, op: For) -> _Body:
        """What is in a loop whose iterations may run side by side, and gain by it; raises :class:`_No` otherwise."""
        found = _Look(op).found
        if not 1 <= len(found.sums) <= _IN_FLIGHT // 2:
            raise _No
        inside = Counter(_uses(op.body))
        for variable in found.variables:
            # Nothing outside looks at a variable, or at its memory by another name, for which it would be declared.
            if variable.data not in self.aliases.local or self.uses[variable.data] != inside[variable.data]:
                raise _No
        apart = self.aliases.may_alias
        if any(apart(a, b) for a in found.written for b in found.read):
            raise _No
        return found

    def jammed(self, op: For, variables: set[Buffer], count: int) -> Stmt:
        """``count`` iterations at once, then the rest one by one."""
        dtype = op.loop_var.dtype
        copies = []
        group = copy_var(op.loop_var)
        for at in range(count):
            index = build.add(build.add(build.mul(group, const(count, dtype)), const(at, dtype)), op.min)
            renamed: dict[Buffer, Buffer] = {}
            if at:
                for variable in sorted(variables, key=lambda buffer: buffer.name):
                    renamed[variable] = _like(variable, at)
                    self.copies.setdefault(variable, []).append(renamed[variable])
            copies.append(refresh_binders(substitute(op.body, {op.loop_var: index}, renamed)))
        groups = build.floordiv(op.extent, const(count, dtype))
        done = build.max_(build.mul(groups, const(count, dtype)), const(0, dtype))
        main = op.with_(
            loop_var=group, min=const(0, dtype), extent=groups, body=Seq(tuple(_side_by_side(copies, ends=True)))
        )
        if isinstance(op.extent, IntImm) and op.extent.value % count == 0:
            return main
        var = copy_var(op.loop_var)
        rest = op.with_(
            loop_var=var,
            min=build.add(op.min, done),
            extent=build.sub(op.extent, done),
            annotations={NO_UNROLL: True},
            body=_as_it_is(refresh_binders(op.body, {op.loop_var: var})),
        )
        return Seq((main, rest), span=op.span)


def _as_it_is(body: Stmt) -> Stmt:
    """A body whose loops are not unrolled: one sum waits for itself however the loop is written, and code costs time to make."""
    notes = {NO_UNROLL: True}
    stmts = [s.with_(annotations=notes, body=_as_it_is(s.body)) if isinstance(s, For) else s for s in _statements(body)]
    return seq(*stmts)


def _like(variable: Buffer, at: int) -> Buffer:
    return Buffer(f"{variable.name}_{at}", variable.shape, variable.dtype, scope=variable.scope, align=variable.align)


def _side_by_side(copies: Sequence[Stmt], ends: bool = False) -> list[Stmt]:
    """The statements of copies of a body, each for all copies before the next one; loops are one loop for all.

    ``ends``: what stands behind the last loop may store to memory, and stays in the order of the copies.
    """
    rows = list(zip(*(_statements(copy) for copy in copies), strict=True))
    last = max((at for at, row in enumerate(rows) if isinstance(row[0], For)), default=-1) if ends else len(rows)
    made: list[Stmt] = []
    for row in rows[: last + 1]:
        first = row[0]
        if isinstance(first, For):
            bodies = [first.body]
            for other in row[1:]:
                assert isinstance(other, For)
                bodies.append(substitute(other.body, {other.loop_var: first.loop_var}))
            made.append(first.with_(body=Seq(tuple(_side_by_side(bodies)))))
        else:
            made += row
    for copy in copies:
        made += _statements(copy)[last + 1 :]
    return made


class JamReductions(FuncPass):
    """Loops around a sum in a variable run four iterations side by side: four sums are in flight, each in its order.

    The loop's iterations share nothing but what they read: sums stand in variables (local buffers of one element) that
    each iteration sets first and nothing outside reads, and memory is stored to behind the loops inside, where none of
    it is read. Loops whose bounds depend on the iteration, conditions, and whatever may fail leave a loop as it is;
    so do short constant loops inside, and two sums halve the iterations. Parameters may overlap unless the function
    says ``tir.noalias``. Needs flat loops and statements as folding left them. Raises nothing.

    >>> from tirlower.script import parse
    >>> print(JamReductions()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 256), "float32"), y: T.Buffer((8,), "float32")):
    ...     T.func_attr({"tir.noalias": True})
    ...     acc = T.alloc_buffer((1,), "float32", scope="local")
    ...     for i in range(8):
    ...         acc[0] = T.float32(0)
    ...         for k in range(256):
    ...             acc[0] += A[i, k]
    ...         y[i] = acc[0]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8, 256), "float32"), y: T.Buffer((8,), "float32")):
        T.func_attr({"tir.noalias": True})
        acc = T.alloc_buffer((1,), scope="local")
        acc_1 = T.alloc_buffer((1,), scope="local")
        acc_2 = T.alloc_buffer((1,), scope="local")
        acc_3 = T.alloc_buffer((1,), scope="local")
        for i in range(2):
            acc[0] = T.float32(0)
            acc_1[0] = T.float32(0)
            acc_2[0] = T.float32(0)
            acc_3[0] = T.float32(0)
            for k in range(256):
                acc[0] = acc[0] + A[i * 4, k]
                acc_1[0] = acc_1[0] + A[i * 4 + 1, k]
                acc_2[0] = acc_2[0] + A[i * 4 + 2, k]
                acc_3[0] = acc_3[0] + A[i * 4 + 3, k]
            y[i * 4] = acc[0]
            y[i * 4 + 1] = acc_1[0]
            y[i * 4 + 2] = acc_2[0]
            y[i * 4 + 3] = acc_3[0]
    """

    name = "tir.JamReductions"
    stage = Stage.FLAT
    needs = (Fact.DIVISIONS,)
    breaks = (Fact.SINGLE_STATEMENTS,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Jam the loops of a function."""
        return func.with_body(_Jammer(func).visit(func.body))
