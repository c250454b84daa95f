"""LowerDeviceStorageAccessInfo: allocations of special memories, and access pointers, become addresses."""

from __future__ import annotations

from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Ramp, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, Bind, Seq, Stmt, seq
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.scalar_overflow import analyzer_of
from tirlower.rewrite.storage.tagged import MemoryInfo, is_special, memory_info, register_memory_info

__all__ = ["LowerDeviceStorageAccessInfo", "MemoryInfo", "register_memory_info"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")


class _Lowerer(Mutator):
    def __init__(self, func: PrimFunc) -> None:
        self.analyzer, _ = analyzer_of(func)
        self.infos: dict[Var, MemoryInfo] = {}
        self.span: Span | None = None

    # ------------------------------------------------------------ allocations

    def visit_Seq(self, op: Seq) -> Stmt:
        """Special allocations become bindings of their addresses, or go."""
        made: list[Stmt] = []
        changed = False
        for stmt in op.stmts:
            new = self.allocation(stmt) if isinstance(stmt, AllocBuffer) else self.visit(stmt)
            changed = changed or new is not stmt
            if new is not None:
                made.append(new)
        if not changed:
            return op
        return Seq(tuple(made)) if made else seq()

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        """One that stands alone declares for nothing."""
        made = self.allocation(op)
        return op if made is op else seq()

    def allocation(self, op: AllocBuffer) -> Stmt | None:
        """What stands for an allocation: itself, the binding of its address, or nothing."""
        made: AllocBuffer = self.generic(op)
        scope = op.buffer.scope
        if not is_special(scope):
            return made
        info = memory_info(scope)
        if info is None:
            raise TransformError(
                f"buffer {op.buffer.name!r} is in the memory {scope!r}, of which nothing is known",
                span=op.span,
                help=f"say what it is like: register_memory_info({scope!r}, MemoryInfo(…))",
            )
        self.infos[op.buffer.data] = info
        if info.head_address is None:
            return None
        return Bind(op.buffer.data, info.head_address(), span=op.span)

    # ------------------------------------------------------------ accesses

    def visit_Var(self, op: Var) -> Expr:
        self.need_address(op)
        return op

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """An access by index needs an address."""
        self.need_address(buffer.data)
        return buffer

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """A definition is no access."""
        return buffer

    def need_address(self, data: Var) -> None:
        """Refuse a pointer to memory that has no address."""
        info = self.infos.get(data)
        if info is not None and info.head_address is None:
            raise TransformError(
                f"{data.name!r} is not addressable: its memory has no head address",
                help="access it through access pointers of an integer type, or give its MemoryInfo a head_address",
            )

    def enter_Call(self, op: Call) -> Expr | None:
        """An access pointer is an address: a number in the units of its memory, or that of an element."""
        if op.op is not _ACCESS_PTR or not isinstance(op.args[1], Var):
            return None
        data, kind = op.args[1], op.args[0].dtype
        offset = self.visit(op.args[2])
        if op.dtype.is_handle:
            self.need_address(data)
            return _address(data, kind, offset, op)
        info = self.infos.get(data)
        if info is None:
            raise TransformError(
                f"the access pointer to {data.name!r} is {op.dtype!s}, and its memory counts in no units",
                span=op.span,
                help="make the access pointer a handle, or allocate the buffer in a memory with a MemoryInfo",
            )
        bits = kind.bits * (kind.lanes if isinstance(kind.lanes, int) else 1)
        if info.unit_bits % bits:
            raise TransformError(
                f"an access pointer to {kind!s} in {data.name!r}, whose memory counts in {info.unit_bits} bits",
                span=op.span,
                help="access it in a type that divides the unit",
            )
        units = build.truncdiv(offset, const(info.unit_bits // bits, offset.dtype))
        return build.cast(op.dtype, self.analyzer.simplify(units))


def _address(data: Var, kind: DataType, offset: Expr, op: Call) -> Expr | None:
    """The address of an element of a type behind a data variable."""
    element = kind.element
    if getattr(getattr(data.type, "element", element), "element", element) is not element:
        return None if offset is op.args[2] else op.with_(args=(*op.args[:2], offset, *op.args[3:]))
    lanes = kind.lanes if isinstance(kind.lanes, int) else 1
    if lanes != 1:
        offset = build.mul(offset, const(lanes, offset.dtype))
    size = build.add(offset, const(lanes, offset.dtype))
    index: Expr = offset if lanes == 1 else Ramp(offset, const(1, offset.dtype), lanes)
    # The buffer says no more than that the element is in it.
    view = Buffer(data.name, (size,), element, data)
    return Call(Op.get("tir.address_of"), (BufferLoad(view, (index,)),), op.dtype, span=op.span)


class LowerDeviceStorageAccessInfo(FuncPass):
    """Allocations in special memories become their addresses, and access pointers the addresses that they stand for.

    A special memory is a scope with a tag (``local.l0a``; not ``shared.dyn``, ``global.workspace``, ``global.vtcm``) of
    which :func:`register_memory_info` says what it is like. Its allocation becomes the binding of its head address, or
    goes where the memory has none. ``tvm_access_ptr`` becomes ``address_of`` an element, or, where it is of an integer
    type, the offset in the units of the special memory.

    Whether the memory has room is not judged here: StorageRewrite, which merges its allocations, does. Raises
    :class:`TransformError` for a memory of which nothing is known, a pointer into memory without an address, and a
    type that does not divide its unit. Needs FlattenBuffer.

    >>> from tirlower.script import parse
    >>> print(LowerDeviceStorageAccessInfo()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "float32")):
    ...     T.evaluate(T.call_extern("int32", "fill", A.access_ptr("w", offset=4)))
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "float32")):
        A_1 = T.Buffer((5,), "float32", data=A.data)
        T.call_extern("int32", "fill", T.address_of(A_1[4]))
    """

    name = "tir.LowerDeviceStorageAccessInfo"
    stage = Stage.FLAT_1D

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the storage accesses of a function."""
        return func.with_body(_Lowerer(func).visit(func.body))
