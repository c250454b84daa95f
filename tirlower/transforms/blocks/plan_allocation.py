"""PlanAndUpdateBufferAllocationLocation: each allocation moves to the lowest common ancestor of its accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from tirlower.analysis.lca import detect_buffer_access_lca
from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.regions import block_access_regions
from tirlower.ir.splice import split_head
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    seq,
)
from tirlower.poly import Scop, extract
from tirlower.poly.privatization import is_private
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["PlanAndUpdateBufferAllocationLocation"]

_ADDRESS_OF = Op.get("tir.address_of")
_ALLREDUCE = Op.get("tir.tvm_thread_allreduce")
_JUMPS = (Op.get("tir.break_loop"), Op.get("tir.continue_loop"))


class _Collector(Visitor):
    """The allocations at the heads of blocks, in order; which scope defines each variable; how each buffer is first
    accessed."""

    def __init__(self) -> None:
        self.allocations: dict[AllocBuffer, Block] = {}
        self.path: list[Stmt] = []
        # What stands around each loop and block, and itself.
        self.chains: dict[Stmt, tuple[Stmt, ...]] = {}
        self.defined_in: dict[Var, tuple[Stmt, ...]] = {}
        # What stands around a grid of thread blocks, by its loops.
        self.around: dict[Stmt, Stmt] = {}
        self.bound: set[Var] = set()
        # Data variables whose memory a loop may carry values in, and those of matched regions with their source's.
        self.carried: set[Var] = set()
        self.source: dict[Var, Var] = {}
        # What was surely stored, in order: the buffer and the keys of the indices.
        self.stored: dict[tuple[Buffer, object], None] = {}
        self.jumped = False
        self.instances = 0
        self.conditions = 0
        # The elements that a reduction over threads stores: its call names them as loads.
        self.results: set[Expr] = set()

    def _enter(self, op: Stmt) -> None:
        self.path.append(op)
        self.chains[op] = tuple(self.path)

    def _define(self, var: Var) -> None:
        self.defined_in[var] = tuple(self.path)

    def visit_For(self, op: For) -> None:
        if self.path and op.kind is ForKind.THREAD_BINDING and (op.thread_tag or "").startswith("blockIdx"):
            self.around[op] = self.around.get(self.path[-1], self.path[-1])
        self._enter(op)
        self._define(op.loop_var)
        known, jumped = len(self.stored), self.jumped
        self.jumped = False
        self.visit(op.body)
        # After a loop that may not run, or not to its end, nothing that it stores is sure.
        if self.jumped or not (isinstance(op.extent, IntImm) and op.extent.value > 0):
            while len(self.stored) > known:
                self.stored.popitem()
        self.jumped = jumped
        self.path.pop()

    def visit_Block(self, op: Block) -> None:
        self._enter(op)
        for it in op.iters:
            self._define(it.var)
        head, _ = split_head(op.body)
        self.allocations.update((stmt, op) for stmt in head if isinstance(stmt, AllocBuffer))
        for match in op.match_buffers:
            data = match.source.buffer.data
            self.source[match.buffer.data] = self.source.get(data, data)
        # What a block with iterators accesses is stated by their kinds.
        self.instances += bool(op.iters)
        if op.init is not None:
            self.visit(op.init)
        self.visit(op.body)
        self.instances -= bool(op.iters)
        self.path.pop()

    def visit_IfThenElse(self, op: IfThenElse) -> None:
        self.visit(op.condition)
        self.conditions += 1
        self.visit(op.then_case)
        if op.else_case is not None:
            self.visit(op.else_case)
        self.conditions -= 1

    def visit_While(self, op: While) -> None:
        self.visit(op.condition)
        self.conditions += 1
        self.visit(op.body)
        self.conditions -= 1

    def visit_Bind(self, op: Bind) -> None:
        self._define(op.var)
        self.bound.add(op.var)
        self.visit(op.value)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.generic(op)
        if not self.instances and not self.conditions and op.predicate is None:
            if all(side_effect(index) is Purity.PURE for index in op.indices):
                self.stored.setdefault(_element(op))

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        if op in self.results:
            if not self.instances and not self.conditions:
                self.stored.setdefault(_element(op))
            return
        # A loop may carry what is read, unless the same element was surely stored before.
        if not self.instances and _element(op) not in self.stored:
            self._carry(op.buffer.data)

    def visit_Var(self, op: Var) -> None:
        # A callee may read all that is behind a pointer.
        if isinstance(op.type, PointerType) and not self.instances:
            self._carry(op)

    def visit_Call(self, op: Call) -> None:
        self.jumped = self.jumped or op.op in _JUMPS
        if op.op is _ALLREDUCE and isinstance(op.args[0], IntImm):
            count = op.args[0].value
            self.results.update(op.args[2 + count : 2 + 2 * count])
        if op.op is _ADDRESS_OF and isinstance(op.args[0], BufferLoad) and not self.instances:
            self._carry(op.args[0].buffer.data)

    def _carry(self, data: Var) -> None:
        self.carried.add(self.source.get(data, data))


def _element(op: BufferLoad | BufferStore) -> tuple[Buffer, object]:
    return op.buffer, tuple(map(expr_key, op.indices))


def _named(func: PrimFunc) -> set[Var]:
    """The data variables of buffers that anything but an allocation names."""
    found: set[Var] = set()

    def look(op: Node) -> None:
        if isinstance(op, (BufferLoad, BufferStore, DeclBuffer)):
            found.add(op.buffer.data)
        elif isinstance(op, Var):
            found.add(op)
        elif isinstance(op, Block):
            found.update(region.buffer.data for region in (*op.reads, *op.writes))
            found.update(match.source.buffer.data for match in op.match_buffers)
        elif isinstance(op, AttrStmt):
            if isinstance(op.node, (Buffer, Var)):
                found.add(op.node.data if isinstance(op.node, Buffer) else op.node)

    pre_order_visit(func.body, look)
    return found


def _variables(buffer: Buffer) -> list[Var]:
    """The variables of a buffer's shape, strides and offset."""
    return list(each(Var, *buffer.shape, *buffer.strides, buffer.elem_offset))


class _Placer(StmtMutator):
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        collector = _Collector()
        collector.visit(func.body)
        ancestors = detect_buffer_access_lca(func)
        self.named = _named(func)
        self.at: dict[Stmt, list[AllocBuffer]] = {}
        self.visible: dict[Var, Buffer] = {buffer.data: buffer for buffer in func.buffers}
        for alloc, home in collector.allocations.items():
            if alloc.buffer not in ancestors:
                continue  # never accessed: no memory is needed
            place = self._place(alloc, home, ancestors[alloc.buffer], collector)
            place = self._outside_of_carriers(alloc.buffer.data, collector.chains[home], collector.chains[place])
            self.at.setdefault(place, []).append(alloc)

    @staticmethod
    def _place(alloc: AllocBuffer, home: Block, ancestor: Stmt | None, collector: _Collector) -> Stmt:
        buffer = alloc.buffer
        if ancestor is None:
            raise TransformError(
                f"the accesses of buffer {buffer.name!r} have no common loop or block",
                span=alloc.span,
                help="put them into one root block",
            )
        if buffer.data in collector.carried:
            return home
        if buffer.scope == "global":
            # A kernel does not allocate what its blocks may share.
            ancestor = collector.around.get(ancestor, ancestor)
        needed: tuple[Stmt, ...] = ()
        for var in _variables(buffer):
            if var in collector.bound:
                return home  # the binding stands between the loop's head and the allocation
            path = collector.defined_in.get(var, ())
            needed = max(needed, path, key=len)
        return needed[-1] if ancestor in needed[:-1] else ancestor

    @cached_property
    def _scop(self) -> Scop:
        return extract(self.func)

    def _outside_of_carriers(self, data: Var, home: Sequence[Stmt], place: Sequence[Stmt]) -> Stmt:
        """The innermost of what stands around a place that is in no loop which may carry values in some memory: iterators that
        are said to be spatial may be those of a ring. What a call does there is known by its block's word alone."""
        inner = [
            (n, stmt) for n, stmt in enumerate(place) if n >= len(home) and isinstance(stmt, For) and _in_order(stmt)
        ]
        if not inner:
            return place[-1]
        if all(one.indices is not None for one in self._scop.accesses if one.data is data):
            loops = {one.node: one for one in self._scop.loops}
            for number, stmt in inner:
                if stmt in loops and not is_private(self._scop, data, loops[stmt]):
                    return place[number - 1]
        return place[-1]

    @contextmanager
    def _seeing(self, *buffers: Buffer) -> Iterator[None]:
        """The buffers can be named inside."""
        new: dict[Var, Buffer] = {}
        for buffer in buffers:
            if buffer.data not in self.visible:
                new.setdefault(buffer.data, buffer)  # views of one allocation share its data variable
        self.visible.update(new)
        yield
        for data in new:
            del self.visible[data]

    def visit_Block(self, op: Block) -> Stmt:
        if op.init is not None:
            raise TransformError(
                f"block {op.name!r} still has an init",
                span=op.span,
                help="run LowerInitBlock before PlanAndUpdateBufferAllocationLocation",
            )
        head, rest = split_head(op.body)
        placed = self.at.get(op, [])
        with self._seeing(*[a.buffer for a in placed], *[match.buffer for match in op.match_buffers]):
            body = self._statements(rest)
        reads, writes = self._outside(op.reads), self._outside(op.writes)
        same = len(placed) == len(head) and all(a is b for a, b in zip(placed, head, strict=True)) and _same(body, rest)
        return op.with_(reads=reads, writes=writes, body=op.body if same else _sequence([*placed, *body]))

    def _statements(self, stmts: list[Stmt]) -> list[Stmt]:
        """Statements of one scope: what one of them declares is visible in those after it."""
        stmts = [s for s in stmts if not isinstance(s, AllocBuffer) or s.buffer.data in self.named]
        declared = [s.buffer for s in stmts if isinstance(s, (AllocBuffer, AllocConst, DeclBuffer))]
        with self._seeing(*declared):
            return [self.visit(stmt) for stmt in stmts]

    def visit_Seq(self, op: Seq) -> Stmt:
        done = self._statements(list(op.stmts))
        if _same(done, op.stmts):
            return op
        return op.with_(stmts=tuple(done)) if len(done) > 1 else _sequence(done)

    def _outside(self, regions: tuple[BufferRegion, ...]) -> tuple[BufferRegion, ...]:
        """The regions of buffers that exist outside the block."""
        kept = tuple(r for r in regions if r.buffer.data in self.visible)
        return regions if len(kept) == len(regions) else kept

    def visit_For(self, op: For) -> Stmt:
        placed = self.at.get(op)
        if not placed:
            return op.with_(body=self.visit(op.body))
        with self._seeing(*[alloc.buffer for alloc in placed]):
            body = self.visit(op.body)
        opaque = Block("", (), const(True, "bool"), (), (), None, (), {}, _sequence([*placed, body]), span=op.span)
        regions = block_access_regions(opaque, self.visible)
        return op.with_(body=opaque.with_(reads=regions.reads, writes=regions.writes))


def _in_order(loop: For) -> bool:
    """Whether an iteration of a loop may use what the one before has left."""
    return loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)


def _same(new: Sequence[Stmt], old: Sequence[Stmt]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))


def _sequence(stmts: list[Stmt]) -> Stmt:
    return Seq(tuple(stmts)) if len(stmts) > 1 else stmts[0] if stmts else seq()


class PlanAndUpdateBufferAllocationLocation(FuncPass):
    """The allocations of blocks move to the lowest common ancestor of their buffer's accesses.

    The ancestor is a loop or a block. At a block the allocation heads its body; at a loop the body is wrapped in a
    block without iterators that owns it. Loops that carry a buffer's values stay inside: those of reduction, scan and
    opaque iterators, those in which a read is not proved to be of what the same iteration has written, and, outside blocks
    with iterators, any loop around a pointer to it or a read of an element that was not surely stored before. So do the loops
    over a grid for global buffers. A buffer that nothing accesses is dropped.

    Needs LowerInitBlock. Raises :class:`TransformError` for a block with an init, and where the accesses have no
    common loop or block.

    >>> from tirlower.script import parse
    >>> print(PlanAndUpdateBufferAllocationLocation()(parse('''
    ... @T.prim_func
    ... def twice(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     B = T.alloc_buffer((8,), "float32")
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(8, i)
    ...             B[vi] = A[vi] + A[vi]
    ...         with T.block("C"):
    ...             vi = T.axis.spatial(8, i)
    ...             C[vi] = B[vi]
    ... ''')).script())
    @T.prim_func
    def twice(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block(""):
                T.reads(A[i])
                T.writes(C[i])
                B = T.alloc_buffer((8,))
                with T.block("B"):
                    vi = T.axis.spatial(8, i)
                    T.reads(A[vi])
                    T.writes(B[vi])
                    B[vi] = A[vi] + A[vi]
                with T.block("C"):
                    vi = T.axis.spatial(8, i)
                    T.reads(B[vi])
                    T.writes(C[vi])
                    C[vi] = B[vi]
    """

    name = "tir.PlanAndUpdateBufferAllocationLocation"
    stage = Stage.BLOCK
    needs = ("tir.LowerInitBlock", Fact.ITERATORS)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Move the allocations of a function."""
        return func.with_body(_Placer(func).visit(func.body))
