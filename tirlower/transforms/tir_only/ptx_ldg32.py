"""InjectPTXLDG32: guarded 32-bit loads of global memory become predicated instructions."""

from __future__ import annotations

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import BOOL
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, BufferStore, Evaluate, Seq, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option

__all__ = ["InjectPTXLDG32"]

_LDG32 = Op.get("tir.ptx_ldg32")
_TYPES = ("float32", "int32", "uint32")


class _Written(Visitor):
    """The data variables behind which a function may write: stores, and pointers that are handed on."""

    def __init__(self) -> None:
        self.found: set[Var] = set()

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.found.add(op.buffer.data)
        self.generic(op)

    def visit_Var(self, op: Var) -> None:
        if op.dtype.is_handle:
            self.found.add(op)

    def visit_Call(self, op: Call) -> None:
        if op.op is Op.get("tir.address_of") and isinstance(op.args[0], BufferLoad):
            self.found.add(op.args[0].buffer.data)


class _Injector(StmtMutator):
    def __init__(self, written: set[Var]) -> None:
        self.written = written

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        value = op.value
        if not isinstance(value, Call) or value.op is not Op.get("tir.if_then_else"):
            return op
        guard, load, other = value.args
        if not (isinstance(load, BufferLoad) and isinstance(other, (IntImm, FloatImm)) and self.fits(op, load)):
            return op
        index = load.indices[0]
        address = Buffer("addr", (const(1),), index.dtype, scope="local")
        predicate = Buffer("predicate", (const(1),), BOOL, scope="local")
        zero = const(0)
        source = load.with_(indices=(BufferLoad(address, (zero,)),))
        arguments: tuple[Expr, ...] = (op.buffer.data, BufferLoad(predicate, (zero,)), source, op.indices[0])
        return Seq(
            (
                AllocBuffer(address),
                AllocBuffer(predicate),
                # Both may read the register that is written next.
                BufferStore(address, index, (zero,), span=op.span),
                BufferStore(predicate, build.cast(BOOL, guard), (zero,), span=op.span),
                op.with_(value=other),
                Evaluate(Call(_LDG32, arguments, op.buffer.dtype), span=op.span),
            )
        )

    def fits(self, op: BufferStore, load: BufferLoad) -> bool:
        """Whether a store is one of a 32-bit scalar from global memory, which nothing writes, to a register."""
        into, source = op.buffer, load.buffer
        return (
            into.scope == "local"
            and source.scope == "global"
            and str(into.dtype) in _TYPES
            and source.dtype is into.dtype
            and len(load.indices) == len(op.indices) == 1
            and load.indices[0].dtype.is_scalar
            and op.indices[0].dtype.is_scalar
            and load.predicate is None
            and op.predicate is None
            # The index of the register is read after its value was written.
            and not _reads(op.indices[0], into.data)
            and not into.strides
            and isinstance(into.elem_offset, IntImm)
            and into.elem_offset.value == 0
            and source.data not in self.written
        )


def _reads(root: Expr, data: Var) -> bool:
    found = _Loads()
    found.visit(root)
    return data in found.found


class _Loads(Visitor):
    def __init__(self) -> None:
        self.found: set[Var] = set()

    def visit_buffer(self, buffer: Buffer) -> None:
        self.found.add(buffer.data)


class InjectPTXLDG32(FuncPass):
    """A guarded load of a 32-bit element of global memory into a register becomes a predicated instruction.

    ``local[i] = T.if_then_else(guard, A[j], constant)`` becomes a store of the constant and ``T.ptx_ldg32(local, guard,
    A[j], i)``, which loads where the guard holds; the guard and ``j`` are computed into registers before. Loads of
    float32 and of 32-bit integers from memory that the function does not write are taken (the instruction reads through
    a cache that does not see writes); all others stay, and so do functions for a target that is no GPU.
    ``enable_inject_ptx_intrin=False`` leaves everything. TIR's takes float32 without a look at writes. Needs
    FlattenBuffer, raises nothing.

    >>> from tirlower.script import parse
    >>> print(InjectPTXLDG32()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         r = T.alloc_buffer((1,), "float32", scope="local")
    ...         r[0] = T.if_then_else(tx < 30, A[tx], T.float32(0))
    ...         B[tx] = r[0]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((30,), "float32"), B: T.Buffer((32,), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            r = T.alloc_buffer((1,), scope="local")
            with T.alloc_buffer((1,), "int32", scope="local") as addr:
                predicate = T.alloc_buffer((1,), "bool", scope="local")
                addr[0] = tx
                predicate[0] = tx < 30
                r[0] = T.float32(0)
                T.ptx_ldg32("float32", r.data, predicate[0], A[addr[0]], 0)
            B[tx] = r[0]
    """

    name = "tir.InjectPTXLDG32"
    stage = Stage.FLAT_1D
    enable_inject_ptx_intrin: bool = option(default=True, kw_only=False)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the guarded loads of a function."""
        bound = func.attrs.get("target")
        if not self.enable_inject_ptx_intrin or (bound is not None and not Target(bound).is_gpu):
            return func
        written = _Written()
        written.visit(func.body)
        return func.with_body(_Injector(written.found).visit(func.body))
