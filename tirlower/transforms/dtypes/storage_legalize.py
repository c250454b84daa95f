"""BF16StorageLegalize and FP8StorageLegalize: narrow floats in memory as the integers of their bits."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import (
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    Select,
    Shuffle,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.splice import split_head
from tirlower.ir.stmt import AllocConst, Bind, Block, BufferStore, DeclBuffer, Evaluate, Seq, Stmt
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.float_bits import bits_constant, narrow_to_bits, storage_dtype, widen_bits
from tirlower.rewrite.retype import Retyper, with_operands
from tirlower.transforms.dtypes.compute_legalize import BF16ComputeLegalize, FP8ComputeLegalize, has_native

__all__ = ["BF16StorageLegalize", "FP8StorageLegalize"]

_REINTERPRET = Op.get("tir.reinterpret")
_ADDRESS_OF = Op.get("tir.address_of")
_MARKERS = frozenset((Op.get("tir.type_annotation"), Op.get("tir.undef")))
_MOVES = frozenset(
    Op.get(f"tir.{name}") for name in ("if_then_else", "likely", "vectorlow", "vectorhigh", "vectorcombine")
)
"""Operations that hand their operands on."""


def _bits_of(value: Expr) -> Expr | None:
    """What a value reinterprets, or None."""
    return value.args[0] if value.__class__ is Call and value.op is _REINTERPRET else None


class _StorageLegalizer(Retyper):
    """Every value of a matched type is the unsigned integer of its bits; conversions become arithmetic on bits."""

    def __init__(self, matches: Callable[[DataType], bool], name: str) -> None:
        super().__init__()
        self.matches = matches
        self.name = name
        self.buffers: dict[Buffer, Buffer] = {}
        self.whole: set[Var] = set()
        """Variables that keep the matched type: scalar parameters."""

    # -- definitions -------------------------------------------------------------------------------------------------
    def define(self, var: Var) -> Var:
        """The definition of a variable: a pointer to matched elements points to integers, a matched value is one."""
        kind = var.type
        if isinstance(kind, PointerType):
            if not self.matches(kind.element):
                return var
            new: DataType | PointerType = PointerType(storage_dtype(kind.element), kind.scope)
        elif self.matches(kind):
            new = storage_dtype(kind)
        else:
            return var
        known = self.vars.get(var)
        if known is None:
            known = self.vars[var] = Var(var.name, new, var.nonneg, span=var.span)
        return known

    def map_var_def(self, var: Var) -> Var:
        return self.define(var)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with integer elements, over the renewed data variable where that was defined in the body."""
        known = self.buffers.get(buffer)
        if known is None:
            kind = buffer.dtype
            dtype = storage_dtype(kind) if self.matches(kind) else kind
            data = self.vars.get(buffer.data, buffer.data)
            known = self.buffers[buffer] = buffer.with_(dtype=dtype, data=data)
        return known

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        """An allocation (or a matched region) defines its data variable."""
        self.define(buffer.data)
        return self.map_buffer(buffer)

    # -- expressions -------------------------------------------------------------------------------------------------
    def back(self, old: Expr, new: Expr) -> Expr:
        """Bits as a value of the matched type again, for a callee that takes it."""
        if new.dtype is old.dtype:
            return new
        return old if _bits_of(old) is new else build.reinterpret(old.dtype, new, span=old.span)

    def leaf(self, op: Expr) -> Expr:
        """Constants as their bits; parameters are seen as bits."""
        if op.__class__ is FloatImm and self.matches(op.dtype):
            return bits_constant(op.value, op.dtype)
        if op.__class__ is Var and self.matches(op.dtype) and op not in self.vars:
            return build.reinterpret(storage_dtype(op.dtype), op, span=op.span)
        return super().leaf(op)

    def enter(self, op: Expr) -> Expr | None:
        """The address of an element is no value of it."""
        if op.__class__ is Call and op.op is _ADDRESS_OF and isinstance(op.args[0], BufferLoad):
            load: BufferLoad = op.args[0]
            indices = [self.visit(i) for i in load.indices]
            made = with_operands(load, [*indices, *(() if load.predicate is None else (self.visit(load.predicate),))])
            made = made.with_(buffer=self.map_buffer(load.buffer))
            return op if made is load else op.with_(args=(made,))
        return None

    def rebuild(self, op: Expr, operands: list[Expr]) -> Expr:
        """Moves work on bits, conversions are spelled out; arithmetic on the type must be gone."""
        if op.__class__ is Cast:
            return self._cast(op, operands[0])
        if op.__class__ is Call:
            return self._call(op, operands)
        if isinstance(op, (BinaryOp, CompareOp)) and self.matches(op.a.dtype):
            raise self.left_over(op, op.a.dtype)
        if op.__class__ in (Select, Broadcast, Shuffle, BufferLoad) or not self.matches(op.dtype):
            return super().rebuild(op, operands)
        raise self.left_over(op, op.dtype)

    def left_over(self, op: Expr, kind: DataType) -> TransformError:
        """The error for arithmetic on the type."""
        first = "BF16ComputeLegalize" if kind.is_bfloat16 else "FP8ComputeLegalize"
        return TransformError(
            f"{op} computes in {kind!s}, which is stored as {storage_dtype(kind)!s} from here on",
            span=op.span,
            help=f"run {first} first",
        )

    def _cast(self, op: Cast, value: Expr) -> Expr:
        source, target = op.value.dtype, op.dtype
        if self.matches(source):
            if source is target:
                return value
            value = widen_bits(value, source)
        if self.matches(target):
            return narrow_to_bits(value, target)
        return build.cast(target, value, span=op.span) if value is not op.value else op

    def _call(self, op: Call, operands: list[Expr]) -> Expr:
        callee, kind = op.op, op.dtype
        if callee is _REINTERPRET:
            value = operands[0]
            wanted = storage_dtype(kind) if self.matches(kind) else kind
            if wanted is kind and (value is op.args[0] or _bits_of(value) is op.args[0]):
                return op
            return build.reinterpret(wanted, value, span=op.span)
        if callee in _MARKERS:
            return op.with_(dtype=storage_dtype(kind)) if self.matches(kind) else op
        if callee in _MOVES:
            moved = with_operands(op, operands)
            return moved.with_(dtype=storage_dtype(kind)) if self.matches(kind) else moved
        touched = self.matches(kind) or any(self.matches(arg.dtype) for arg in op.args)
        if touched and isinstance(callee, Op) and callee.elementwise:
            raise self.left_over(op, kind if self.matches(kind) else op.args[0].dtype)
        made = super().rebuild(op, [self.back(old, new) for old, new in zip(op.args, operands, strict=True)])
        return build.reinterpret(storage_dtype(kind), made, span=op.span) if self.matches(kind) else made

    # -- statements --------------------------------------------------------------------------------------------------
    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.visit(op.value)
        return op.with_(var=self.define(op.var), value=value)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        operands = [self.visit(part) for part in op.children()]
        value, rest = operands[0], operands[1:]
        count = len(op.indices)
        same = all(a is b for a, b in zip(op.indices, rest, strict=False))
        return op.with_(
            buffer=self.map_buffer(op.buffer),
            value=value,
            indices=op.indices if same else tuple(rest[:count]),
            predicate=rest[count] if op.predicate is not None else None,
        )

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        buffer = self.map_buffer_def(op.buffer)
        if buffer.dtype is op.buffer.dtype:
            return op.with_(buffer=buffer)
        data = op.data.astype(op.buffer.dtype.element.numpy).view(buffer.dtype.element.numpy)
        return op.with_(buffer=buffer, data=data)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer))

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        value = op.value
        if value.__class__ is Call and self.matches(value.dtype) and value.op not in _MOVES:
            # Evaluated for its effect: nobody looks at the bits of the result.
            made = self.visit(value)
            inner = made.args[0] if made.__class__ is Call and made.op is _REINTERPRET else made
            return op.with_(value=inner)
        return op.with_(value=self.visit(value))


def _legalized(func: PrimFunc, worker: _StorageLegalizer) -> PrimFunc:
    params = tuple([worker.define(p) if p.dtype.is_handle and p not in func.buffer_map else p for p in func.params])
    if all(a is b for a, b in zip(params, func.params, strict=True)):
        params = func.params
    body = worker.visit(func.body)
    views = [worker.buffers.get(buffer, buffer) for buffer in func.buffers]
    heads: list[Stmt] = [
        DeclBuffer(view) for view, buffer in zip(views, func.buffers, strict=True) if view is not buffer
    ]
    return func.with_(params=params, body=_with_heads(body, heads))


def _with_heads(body: Stmt, heads: list[Stmt]) -> Stmt:
    """A body with declarations in front; inside the root block, where there is one."""
    if not heads:
        return body
    if isinstance(body, Block) and not (body.iters or body.reads or body.writes):
        head, rest = split_head(body.body)
        return body.with_(body=Seq((*head, *heads, *rest)))
    if isinstance(body, Block):
        # Its regions name the views, so they stand in a root block around it.
        return Block("root", (), const(True, "bool"), (), (), None, (), {}, Seq((*heads, body)))
    return Seq((*heads, *(body.stmts if isinstance(body, Seq) else (body,))))


class _StorageLegalize(FuncPass):
    """What the two passes share."""

    native_arch: ClassVar[int]

    @staticmethod
    @abc.abstractmethod
    def matched(kind: DataType) -> bool:
        """Whether a type is one that the pass legalizes."""

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite the storage of a function."""
        if has_native(func, self.native_arch):
            return func
        return _legalized(func, _StorageLegalizer(self.matched, self.name))


class BF16StorageLegalize(_StorageLegalize):
    """bfloat16 is stored as uint16, and converted by arithmetic on the bits.

    To float32 the bits are shifted; from it they are rounded to nearest, halves to even, NaNs kept quiet, exactly as
    ml_dtypes does; from float64 and integers it is rounded once. Allocations, constants, views and bindings become
    uint16, pointer parameters point to it. A parameter buffer keeps its dtype in the signature, and the body works on a
    uint16 view of its data; scalar parameters, and what calls take and give, keep their type too and are reinterpreted.

    Needs BF16ComputeLegalize before: raises :class:`TransformError` for arithmetic on bfloat16 that is left. In a
    pipeline it stands after the passes that reason about floats. A function whose target computes in bfloat16 stays as
    it is, as there.

    >>> from tirlower.script import parse
    >>> print(BF16StorageLegalize()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         B[i] = T.Cast("float32", A[i])
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "float32")):
        A_1 = T.decl_buffer((8,), "uint16", data=A.data)
        for i in range(8):
            B[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", A_1[i]), T.uint32(16)))
    """

    name = "tir.BF16StorageLegalize"
    needs = ("tir.BF16ComputeLegalize",)
    matched = staticmethod(lambda kind: kind.is_bfloat16)
    native_arch = BF16ComputeLegalize.native_arch


class FP8StorageLegalize(_StorageLegalize):
    """The float8 types are stored as uint8, and converted by arithmetic on the bits.

    As :class:`BF16StorageLegalize`, for every float8 kind: conversions agree with ml_dtypes to the bit, subnormals and
    overflow included.

    Needs FP8ComputeLegalize before: raises :class:`TransformError` for arithmetic on float8 that is left.

    >>> from tirlower.script import parse
    >>> print(FP8StorageLegalize()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float8_e5m2"), B: T.Buffer((8,), "float8_e5m2")):
    ...     for i in range(8):
    ...         B[i] = A[7 - i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float8_e5m2"), B: T.Buffer((8,), "float8_e5m2")):
        A_1 = T.decl_buffer((8,), "uint8", data=A.data)
        B_1 = T.decl_buffer((8,), "uint8", data=B.data)
        for i in range(8):
            B_1[i] = A_1[7 - i]
    """

    name = "tir.FP8StorageLegalize"
    needs = ("tir.FP8ComputeLegalize",)
    matched = staticmethod(lambda kind: kind.is_float8)
    native_arch = FP8ComputeLegalize.native_arch
