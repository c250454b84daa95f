"""PointerValueTypeRewrite: memory that is always accessed as vectors gets the vector as its element type."""

from __future__ import annotations

from typing import Literal

from tirlower.arith import Analyzer
from tirlower.ir.buffer import Buffer, BufferRegion, pointer_dtype
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import BufferLoad, Call, Div, Expr, IntImm, Ramp, Shuffle, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, DeclBuffer, Stmt
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["PointerValueTypeRewrite", "rewrite_pointer_types"]

_ADDRESS_OF = Op.get("tir.address_of")


class _Memory:
    """How the memory of one data variable is accessed."""

    def __init__(self) -> None:
        self.buffers: dict[Buffer, None] = {}
        self.lanes: set[int] = set()
        self.moduli: set[int] = set()
        """For loads of one element whose remainder is known: modulo what."""
        self.fixed = False

    def width(self, analyzer: Analyzer) -> int:
        """The lanes of the element type that all accesses agree on, else 1."""
        if self.fixed or len(self.lanes) != 1:
            return 1
        (lanes,) = self.lanes
        kinds = {buffer.dtype for buffer in self.buffers}
        if lanes == 1 or len(kinds) != 1 or next(iter(kinds)).is_vector or next(iter(kinds)).is_handle:
            return 1
        if any(modulus % lanes for modulus in self.moduli):
            return 1
        for buffer in self.buffers:
            if buffer.strides or not buffer.shape or not is_const_int(buffer.elem_offset, 0) or buffer.axis_separators:
                return 1
            extent = analyzer.modular_set(buffer.shape[-1])
            if extent.coeff % lanes or extent.base % lanes:
                return 1
        return lanes


class _Accesses(Visitor):
    def __init__(self, func: PrimFunc, params: bool, shuffles: bool) -> None:
        self.analyzer, _ = analyzer_of(func)
        self.memory: dict[Var, _Memory] = {}
        self.shuffles = shuffles
        self.bound = params
        if params:
            for buffer in func.buffers:
                self.declare(buffer)

    def declare(self, buffer: Buffer) -> None:
        self.memory.setdefault(buffer.data, _Memory()).buffers[buffer] = None

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.declare(op.buffer)
        if op.annotations:
            self.memory[op.buffer.data].fixed = True
        self.visit(op.condition)

    def visit_Bind(self, op: Bind) -> None:
        """A pointer to some memory: what is behind it is accessed by the buffers on it."""
        kind = op.var.type
        if self.bound and isinstance(kind, PointerType) and kind.element.is_scalar and not kind.element.is_handle:
            self.memory.setdefault(op.var, _Memory())
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        if op.buffer.data in self.memory:
            self.declare(op.buffer)

    def visit_BufferRegion(self, op: BufferRegion) -> None:
        """A region names elements one by one."""
        self.note(op.buffer, None, False)
        self.generic(op)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if isinstance(op.node, (Buffer, Var)):
            data = op.node.data if isinstance(op.node, Buffer) else op.node
            if data in self.memory:
                self.memory[data].fixed = True
        self.generic(op)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.note(op.buffer, op.indices[-1] if op.indices else None, False, op.predicate is not None)
        self.generic(op)

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        self.note(op.buffer, op.indices[-1] if op.indices else None, True, op.predicate is not None)

    def visit_Call(self, op: Call) -> Literal[False] | None:
        if op.op is _ADDRESS_OF and isinstance(op.args[0], BufferLoad):
            self.note(op.args[0].buffer, None, False)
            for index in op.args[0].indices:
                self.visit(index)
            return False
        for arg in op.args:
            # The callee counts elements from there, in the type that the pointer has.
            if isinstance(arg, Var) and arg in self.memory:
                self.memory[arg].lanes.add(1)
        return None

    def note(self, buffer: Buffer, index: Expr | None, load: bool, masked: bool = False) -> None:
        memory = self.memory.get(buffer.data)
        if memory is None:
            return
        memory.buffers[buffer] = None
        memory.fixed = memory.fixed or masked
        if isinstance(index, Ramp) and is_const_int(index.stride, 1) and isinstance(index.lanes, int):
            base = self.analyzer.modular_set(index.base)
            if base.coeff % index.lanes == 0 and base.base % index.lanes == 0:
                memory.lanes.add(index.lanes)
                return
        if self.shuffles and load and index is not None and index.dtype.is_scalar:
            memory.moduli.add(self.analyzer.modular_set(index).coeff)
            return
        memory.lanes.add(1)


class _Rewriter(Mutator):
    def __init__(
        self, analyzer: Analyzer, memory: dict[Var, int], buffers: dict[Buffer, Buffer], vars: dict[Var, Var]
    ) -> None:
        self.memory = memory
        self.buffers = buffers
        self.vars = vars
        self.analyzer = analyzer

    def visit_Var(self, op: Var) -> Expr:
        return self.vars.get(op, op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        op = self.generic(op)
        return op.with_(buffer=self.buffers.get(op.buffer, op.buffer))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.buffers.get(op.buffer, op.buffer))

    def visit_Bind(self, op: Bind) -> Stmt:
        op = self.generic(op)
        return op.with_(var=self.vars.get(op.var, op.var))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        made = self.buffers.get(op.buffer)
        if made is None:
            return op
        return op.with_(buffer=made, indices=(*op.indices[:-1], self.wide(op.indices[-1], made.dtype)))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        made = self.buffers.get(op.buffer)
        if made is None:
            return op
        last = op.indices[-1]
        load = op.with_(buffer=made, indices=(*op.indices[:-1], self.wide(last, made.dtype)))
        if last.dtype.is_scalar:
            lane = self.analyzer.modular_set(last).base % made.dtype.lanes
            return Shuffle((load,), (IntImm(last.dtype, lane),), span=op.span)
        return load

    @staticmethod
    def wide(index: Expr, kind: DataType) -> Expr:
        """The index in vectors. TIR leaves the division of what is no constant as it is; Simplify resolves it."""
        base = index.base if isinstance(index, Ramp) else index
        if isinstance(base, IntImm):
            return IntImm(base.dtype, base.value // kind.lanes, span=index.span)
        return Div(base, const(kind.lanes, base.dtype), span=index.span)


def rewrite_pointer_types(func: PrimFunc, params: bool = True, shuffles: bool = True) -> PrimFunc:
    """Give vector element types to the memory of a function that is always accessed so.

    ``params``: parameter buffers too, whose callers then see a shorter last dimension of vectors, and bound pointers. ``shuffles``: loads of single elements become lanes of vector loads, where the lane is known.
    """
    accesses = _Accesses(func, params, shuffles)
    accesses.visit(func.body)
    widths = {data: memory.width(accesses.analyzer) for data, memory in accesses.memory.items()}
    widths = {data: lanes for data, lanes in widths.items() if lanes > 1}
    if not widths:
        return func
    buffers: dict[Buffer, Buffer] = {}
    variables: dict[Var, Var] = {}
    for data, lanes in widths.items():
        for buffer in accesses.memory[data].buffers:
            dtype = buffer.dtype.with_lanes(lanes)
            if data not in variables:
                variables[data] = Var(data.name, PointerType(pointer_dtype(dtype), buffer.scope), span=data.span)
            last = accesses.analyzer.simplify(buffer.shape[-1] // lanes)
            buffers[buffer] = buffer.with_(dtype=dtype, shape=(*buffer.shape[:-1], last), data=variables[data])
    body = _Rewriter(accesses.analyzer, widths, buffers, variables).visit(func.body)
    mapped = {param: buffers.get(buffer, buffer) for param, buffer in func.buffer_map.items()}
    return func.with_(buffer_map=mapped, body=body) if params else func.with_body(body)


class PointerValueTypeRewrite(FuncPass):
    """Memory that is accessed as vectors of one width everywhere, aligned to it, gets the vector as element type.

    The last dimension shrinks by the width, and indices count vectors. Parameter buffers are rewritten too, so that
    their arrays are of vectors from then on; and so are pointers that are bound to names. A load of a single element becomes a lane of a vector load (``Shuffle``)
    where the lane is known. A pointer that is given to a call or the address of an element keeps the scalar type, as do
    strides, offsets, masked accesses, views of several types, and constant arrays.

    Needs FlattenBuffer and VectorizeLoop in a pipeline. Raises nothing. After TIR's pass of the name.

    >>> from tirlower.script import parse
    >>> print(PointerValueTypeRewrite()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
    ...     for i in range(4):
    ...         B[i] = A[i * 4] + A[i * 4 + 3]
    ...         A[i * 4:i * 4 + 4] = T.Broadcast(T.float32(0), 4)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4,), "float32x4"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = T.Shuffle([A[T.Div(i * 4, 4)]], [0]) + T.Shuffle([A[T.Div(i * 4 + 3, 4)]], [3])
            A[T.Div(i * 4, 4)] = T.Broadcast(T.float32(0), 4)
    """

    name = "tir.PointerValueTypeRewrite"
    stage = Stage.FLAT_1D

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the memory of a function."""
        return rewrite_pointer_types(func)
