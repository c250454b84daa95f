"""BF16ComputeLegalize and FP8ComputeLegalize: arithmetic of narrow floats in a wider type."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, CommReducer, MatchBufferRegion
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
    IntImm,
    Let,
    Select,
    Shuffle,
    Var,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, BufferStore, DeclBuffer, Evaluate, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option
from tirlower.rewrite.retype import Retyper, with_operands

__all__ = ["BF16ComputeLegalize", "FP8ComputeLegalize", "has_native"]

_IF_THEN_ELSE = Op.get("tir.if_then_else")
_REINTERPRET = Op.get("tir.reinterpret")
_ADDRESS_OF = Op.get("tir.address_of")
_ALLREDUCE = Op.get("tir.tvm_thread_allreduce")
_MOVES = (Select, Broadcast, Shuffle)

Matches = Callable[[DataType], bool]


def has_native(func: PrimFunc, least_arch: int) -> bool:
    """Whether a function's target computes in the type: CUDA devices do from an architecture (``sm_80`` …) on."""
    target = func.attrs.get("target")
    if target is None:
        return False
    bound = Target(target)
    arch = re.match(r"sm_(\d+)", str(bound.get("arch") or ""))
    return bound.kind in ("cuda", "nvptx") and arch is not None and int(arch[1]) >= least_arch


def _is_constant(expr: Expr) -> bool:
    while expr.__class__ is Broadcast:
        expr = expr.value
    return expr.__class__ is FloatImm


def _results(op: AttrStmt) -> list[list[Expr]]:
    """The results of the allreduces that a reducer's scope holds, for each value of the reducer; [] for another scope."""
    if op.key != "reduce_scope" or not isinstance(op.node, CommReducer):
        return []
    calls = [call for call in each(Call, op.body) if call.op is _ALLREDUCE]
    count = len(op.node.lhs)
    return [[call.args[2 + count + at] for call in calls] for at in range(count)]


class _Temporaries(Visitor):
    """The data variables of local temporaries that may hold the promoted type: nobody else looks at their memory."""

    def __init__(self, matches: Matches) -> None:
        self.matches = matches
        self.allocated: dict[Var, Buffer] = {}
        self.opaque: set[Var] = set()
        self.together: list[set[object]] = []
        """Results that one reducer serves: they have one type."""

    def promotable(self) -> dict[Var, Buffer]:
        """The temporaries of a visited body that may hold the promoted type."""
        found = {data: buffer for data, buffer in self.allocated.items() if data not in self.opaque}
        while apart := [g for g in self.together if not g <= found.keys() and not g.isdisjoint(found.keys())]:
            for group in apart:
                found = {data: buffer for data, buffer in found.items() if data not in group}
        return found

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        for row in _results(op):
            self.together.append({getattr(getattr(result, "buffer", None), "data", None) for result in row})
        self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        buffer = op.buffer
        if self.matches(buffer.dtype) and all(isinstance(extent, IntImm) for extent in buffer.shape):
            self.allocated[buffer.data] = buffer
        self.generic(op)

    def visit_Var(self, op: Var) -> None:
        """A data variable in an expression is an address that leaves."""
        if op.dtype.is_handle:
            self.opaque.add(op)

    def visit_Call(self, op: Call) -> None:
        element = op.args[0] if op.op is _ADDRESS_OF else None
        if isinstance(element, BufferLoad):
            self.opaque.add(element.buffer.data)

    def visit_buffer(self, buffer: Buffer) -> None:
        """A view of another type sees the bytes."""
        if not self.matches(buffer.dtype):
            self.opaque.add(buffer.data)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self.visit_buffer(op.buffer)

    def visit_MatchBufferRegion(self, op: MatchBufferRegion) -> None:
        """The matched buffer has a data variable of its own, for the same bytes."""
        self.opaque.add(op.source.buffer.data)
        self.generic(op)


class _ComputeLegalizer(Retyper):
    """Expressions of a matched type are rewritten to the promoted type; those that only hold a value stay."""

    def __init__(self, matches: Matches, promoted: DataType, body: Stmt) -> None:
        super().__init__()
        self.matches = matches
        self.promoted = promoted
        self.buffers: dict[Buffer, Buffer] = {}
        found = _Temporaries(matches)
        found.visit(body)
        for data, buffer in found.promotable().items():
            element = promoted.with_lanes(buffer.dtype.lanes, buffer.dtype.scalable)
            self.vars[data] = Var(data.name, PointerType(element, buffer.scope), span=data.span)

    def promote(self, value: Expr) -> Expr:
        """A value in the promoted type; one of another type stays."""
        dtype = value.dtype
        if not self.matches(dtype):
            return value
        if self.promoted.bits == 16 and dtype.element == "float8_e8m0fnu":
            raise TransformError(
                f"float16 does not hold the numbers of {dtype!s}: {value}",
                span=value.span,
                help='use promote_dtype="float32"',
            )
        return build.cast(self.promoted.with_lanes(dtype.lanes, dtype.scalable), value, span=value.span)

    def back(self, old: Expr, new: Expr) -> Expr:
        """A rewritten value in the type that it had, rounded to nearest even."""
        if new.dtype is old.dtype:
            return new
        if _is_constant(old):
            return old
        if new.__class__ is Cast and new.value.dtype is old.dtype:
            return new.value
        return build.cast(old.dtype, new, span=old.span)

    def leaf(self, op: Expr) -> Expr:
        """A constant is one of the promoted type."""
        if op.__class__ is FloatImm and self.matches(op.dtype):
            return FloatImm(self.promoted, op.value, span=op.span)
        return super().leaf(op)

    def let_value(self, op: Let, value: Expr) -> Expr:
        """Variables are of the promoted type."""
        return self.promote(value)

    def rebuild(self, op: Expr, operands: list[Expr]) -> Expr:
        """Arithmetic on promoted operands; what takes a value as it is gets it back in its own type."""
        if isinstance(op, _MOVES):
            return with_operands(op, self._moved(op.children(), operands))
        if isinstance(op, (BinaryOp, CompareOp)):
            return with_operands(op, [self.promote(v) for v in operands])
        if op.__class__ is Cast:
            # A conversion that is written stays, rounding included; of a value that was computed, it starts there.
            made = with_operands(op, operands)
            return made.value if made.value.dtype is made.dtype else made
        if op.__class__ is Call:
            return self._call(op, operands)
        return super().rebuild(op, operands)

    def _moved(self, olds: Iterable[Expr], operands: list[Expr]) -> list[Expr]:
        """The operands of what only hands them on: promoted if one of them was computed."""
        pairs = list(zip(olds, operands, strict=True))
        if any(self.matches(old.dtype) and new.dtype is not old.dtype and not _is_constant(old) for old, new in pairs):
            return [self.promote(new) for new in operands]
        return [self.back(old, new) if self.matches(old.dtype) else new for old, new in pairs]

    def _call(self, op: Call, operands: list[Expr]) -> Expr:
        callee, kind = op.op, op.dtype
        if callee is _ALLREDUCE:
            return self._allreduce(op, operands)
        if callee is _IF_THEN_ELSE:
            operands = self._moved(op.args, operands)
            return with_operands(op, operands).with_(dtype=operands[1].dtype)
        if isinstance(callee, Op) and callee.elementwise and callee is not _REINTERPRET:
            made = with_operands(op, [self.promote(v) for v in operands])
            if self.matches(kind):
                made = made.with_(dtype=self.promoted.with_lanes(kind.lanes, kind.scalable))
            return made
        return super().rebuild(op, [self.back(old, new) for old, new in zip(op.args, operands, strict=True)])

    def _allreduce(self, op: Call, operands: list[Expr]) -> Expr:
        """Each value in the type of its result, which is promoted where its memory is; the reducer follows."""
        count = op.args[0].value if isinstance(op.args[0], IntImm) else 0
        made = list(operands)
        for at in range(1, 1 + count):
            to = made[at + 1 + count]
            if self.matches(op.args[at].dtype):
                made[at] = self.promote(made[at]) if self._promoted(to) else self.back(op.args[at], made[at])
        return with_operands(op, made)

    def _promoted(self, result: Expr) -> bool:
        """Whether a result of an allreduce stands in promoted memory."""
        return isinstance(result, BufferLoad) and (
            result.buffer.data in self.vars or any(result.buffer is new for new in self.buffers.values())
        )

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        node = op.node
        if op.key != "reduce_scope" or not isinstance(node, CommReducer):
            return self.generic(op)
        promoted = [any(map(self._promoted, results)) for results in _results(op)]
        return op.with_(node=self._reducer(node, promoted), value=self.visit(op.value), body=self.visit(op.body))

    def _reducer(self, reducer: CommReducer, promoted: list[bool]) -> CommReducer:
        """A reducer that computes in the types of the memory of its results."""

        def renewed(variables: tuple[Var, ...]) -> tuple[Var, ...]:
            for var, wide in zip(variables, promoted, strict=True):
                if wide and self.matches(var.dtype):
                    self.vars[var] = Var(var.name, self.promoted, span=var.span)
            return tuple(self.vars.get(var, var) for var in variables)

        def fitted(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
            made: list[Expr] = []
            for value, wide in zip(values, promoted, strict=True):
                new = self.visit(value)
                if self.matches(value.dtype):
                    new = self.promote(new) if wide else self.back(value, new)
                made.append(new)
            return tuple(made)

        lhs, rhs = renewed(reducer.lhs), renewed(reducer.rhs)
        return CommReducer(lhs, rhs, fitted(reducer.result), fitted(reducer.identity), span=reducer.span)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """A promoted temporary's buffer; any other stays."""
        data = self.vars.get(buffer.data)
        if data is None:
            return buffer
        known = self.buffers.get(buffer)
        if known is None:
            dtype = buffer.dtype
            element = self.promoted.with_lanes(dtype.lanes, dtype.scalable)
            known = self.buffers[buffer] = buffer.with_(data=data, dtype=element)
        return known

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        buffer, value = self.map_buffer(op.buffer), self.visit(op.value)
        if self.matches(op.value.dtype):
            value = self.back(op.value, value) if buffer is op.buffer else self.promote(value)
        indices = [self.visit(i) for i in op.indices]
        same = all(a is b for a, b in zip(indices, op.indices, strict=True))
        predicate = None if op.predicate is None else self.visit(op.predicate)
        return op.with_(buffer=buffer, value=value, indices=op.indices if same else tuple(indices), predicate=predicate)

    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.promote(self.visit(op.value))
        if value.dtype is op.var.dtype:
            return op.with_(value=value)
        var = self.vars[op.var] = Var(op.var.name, value.dtype, op.var.nonneg, span=op.var.span)
        return op.with_(var=var, value=value)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return op.with_(value=self.back(op.value, self.visit(op.value)))


class _ComputeLegalize(FuncPass):
    """What the two passes share."""

    native_arch: ClassVar[int]

    @staticmethod
    @abc.abstractmethod
    def matched(kind: DataType) -> bool:
        """Whether a type is one that the pass legalizes."""

    def promoted(self) -> DataType:
        """The type to compute in."""
        return DataType("float32")

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Promote the arithmetic of a function."""
        if has_native(func, self.native_arch):
            return func
        worker = _ComputeLegalizer(self.matched, self.promoted(), func.body)
        return func.with_body(worker.visit(func.body))


class BF16ComputeLegalize(_ComputeLegalize):
    """Arithmetic on bfloat16 is done in float32; buffers and parameters stay bfloat16.

    Loads are widened (exactly), results rounded to nearest, halves to even, where they are stored or passed to a call
    that is no arithmetic. Between operations nothing is rounded: bindings, and local temporaries of constant size
    whose address nobody takes, hold float32. A conversion that the program writes rounds where it stands.

    Needs nothing, raises nothing. A function whose target computes in bfloat16 (CUDA from sm_80 on) stays as it is.

    >>> from tirlower.script import parse
    >>> print(BF16ComputeLegalize()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
    ...     for i in range(8):
    ...         B[i] = T.exp(A[i]) + B[i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
        for i in range(8):
            B[i] = T.Cast("bfloat16", T.exp(T.Cast("float32", A[i])) + T.Cast("float32", B[i]))
    """

    name = "tir.BF16ComputeLegalize"
    matched = staticmethod(lambda kind: kind.is_bfloat16)
    native_arch = 80


class FP8ComputeLegalize(_ComputeLegalize):
    """Arithmetic on the float8 types is done in a wider float; buffers and parameters stay float8.

    As :class:`BF16ComputeLegalize`, for every float8 kind; rounding back is to nearest, halves to even, and what is too
    large becomes the infinity of the kind, or its NaN. ``promote_dtype`` is ``"float32"`` (the default) or
    ``"float16"``, which holds every float8 number exactly but those of float8_e8m0fnu.

    Needs nothing; raises :class:`TransformError` for another ``promote_dtype`` (``promote_dtype_str`` is the same
    option), and for float8_e8m0fnu in float16. A function whose target computes in float8 (CUDA from sm_89 on) stays as
    it is.

    >>> from tirlower.script import parse
    >>> print(FP8ComputeLegalize("float16")(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float8_e4m3fn"), B: T.Buffer((8,), "float8_e4m3fn")):
    ...     for i in range(8):
    ...         B[i] = A[i] * B[i]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "float8_e4m3fn"), B: T.Buffer((8,), "float8_e4m3fn")):
        for i in range(8):
            B[i] = T.Cast("float8_e4m3fn", T.Cast("float16", A[i]) * T.Cast("float16", B[i]))
    """

    name = "tir.FP8ComputeLegalize"
    promote_dtype: Literal["float32", "float16"] = option(
        default="float32", about="the type that is computed in", kw_only=False
    )
    matched = staticmethod(lambda kind: kind.is_float8)
    native_arch = 89

    def __init__(self, *args: object, **kwargs: object) -> None:
        # TIR's parameter has this name.
        if "promote_dtype_str" in kwargs and "promote_dtype" not in kwargs:
            kwargs["promote_dtype"] = kwargs.pop("promote_dtype_str")
        super().__init__(*args, **kwargs)

    def promoted(self) -> DataType:
        """The type to compute in, as the option says."""
        return DataType(self.promote_dtype)
