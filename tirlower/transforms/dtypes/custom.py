"""LowerCustomDatatypes: operations of registered types become calls on the unsigned integers of their bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.custom_datatype import custom_name, find_op, get_type_registered, python_symbol, storage_dtype
from tirlower.ir.dtype import INT32, DataType, PointerType
from tirlower.ir.expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Ramp,
    Shuffle,
    StringImm,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocConst, Bind, BufferStore, DeclBuffer, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.retype import Retyper

__all__ = ["LowerCustomDatatypes"]

_REINTERPRET = Op.get("tir.reinterpret")
_CALL_PURE = Op.get("tir.call_pure_extern")
_ARITHMETIC = frozenset(Op.get(f"tir.{name}") for name in ("atomic_add", "atomic_max", "atomic_min"))
"""Calls that compute with their operands, and would add bit patterns."""


def _c_type(kind: DataType) -> DataType:
    """The type in which a number travels to and from a function: one that C has."""
    element = kind.element
    if element.is_float:
        return element if element.code == "float" and element.bits >= 32 else DataType("float64")
    if element.is_bool or not element.is_integral:
        return element
    return element.with_bits(next(width for width in (8, 16, 32, 64) if width >= element.bits))


class _Lowerer(Retyper):
    """Every value of a custom type is the unsigned integer of its bits."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target
        self.buffers: dict[Buffer, Buffer] = {}

    # -- definitions -------------------------------------------------------------------------------------------------
    def define(self, var: Var) -> Var:
        """The definition of a variable: of a custom type, or a pointer to elements of one."""
        kind = var.type
        if isinstance(kind, PointerType):
            if not kind.element.is_custom:
                return var
            new: DataType | PointerType = PointerType(storage_dtype(kind.element), kind.scope)
        elif kind.is_custom:
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
        """The buffer with elements of the storage type, over the renewed data variable."""
        known = self.buffers.get(buffer)
        if known is None:
            made = buffer.map_children(self.visit_expr)
            known = made.with_(dtype=storage_dtype(buffer.dtype), data=self.vars.get(buffer.data, buffer.data))
            self.buffers[buffer] = known
        return known

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        self.define(buffer.data)
        return self.map_buffer(buffer)

    # -- calls of functions ------------------------------------------------------------------------------------------
    def call(
        self,
        node: Expr,
        result: DataType,
        operands: Sequence[Expr],
        names: tuple[str, str, str | None, str | None],
        bits: tuple[int, int, int],
    ) -> Expr:
        """The call, for scalars, of the function registered under ``names`` (operation, source, target, intrinsic).

        ``bits`` are those of the type that owns the operation, of the first operand and of the result.
        """
        op_name, source, target_type, intrinsic = names
        found = find_op(op_name, self.target, source, target_type, intrinsic)
        owner, operand_bits, result_bits = bits
        symbol: str | None = None
        if found is not None:
            if found.extern is not None:
                symbol = found.extern.symbol(operand_bits, result_bits)
            elif found.meaning(owner) is not None:
                symbol = python_symbol(found.key, result, tuple([value.dtype for value in operands]))
        if symbol is None:
            raise self._unknown(node, names, operand_bits, result_bits)
        return Call(_CALL_PURE, (StringImm(symbol), *operands), result, span=node.span)

    def _unknown(
        self, node: Expr, names: tuple[str, str, str | None, str | None], taken: int, given: int
    ) -> TransformError:
        op_name, source, target_type, intrinsic = names
        owner = target_type if target_type is not None and get_type_registered(target_type) else source
        if not get_type_registered(owner):
            return TransformError(
                f"the custom type {owner!r} is not registered: {node}",
                span=node.span,
                help=f"custom_datatype.register({owner!r}), and its operations with register_op",
            )
        what = {"Cast": f"cast from {source!r} to {target_type!r}", "Call": f"{intrinsic} of {source!r}"}.get(
            op_name, f"{op_name} of {source!r}"
        )
        to = f" to {given}" if op_name == "Cast" else ""
        rest = "".join(f", {name}={value!r}" for name, value in (("dest_type_name", target_type),
                       ("intrinsic_name", intrinsic)) if value is not None)  # fmt: skip
        return TransformError(
            f"no {what} ({taken} bits{to}) is registered for target {self.target!r}: {node}",
            span=node.span,
            help=f"custom_datatype.register_op(function, {op_name!r}, {self.target!r}, {source!r}{rest})",
        )

    def lanewise(self, node: Expr, operands: Sequence[Expr], make: Callable[[Sequence[Expr]], Expr]) -> Expr:
        """A scalar function applied to each lane: functions take scalars."""
        dtype = node.dtype
        if dtype.is_scalar:
            return make(operands)
        if dtype.scalable:
            raise TransformError(
                f"a function of a custom type takes scalars, and {dtype!s} has an unknown number of lanes: {node}",
                span=node.span,
                help="use a fixed number of lanes",
            )
        if all(isinstance(value, Broadcast) for value in operands):
            return Broadcast(
                make([value.value for value in operands if isinstance(value, Broadcast)]), dtype.lanes, span=node.span
            )
        bound: list[tuple[Var, Expr]] = []
        columns: list[list[Expr]] = []
        for value in operands:
            held = value.value if isinstance(value, Broadcast) else value
            if not held.is_leaf:
                var = Var("lanes", held.dtype)
                bound.append((var, held))
                held = var
            if held.dtype.is_scalar:
                columns.append([held] * dtype.lanes)
            else:
                columns.append([Shuffle((held,), (const(lane, INT32),)) for lane in range(dtype.lanes)])
        lanes = tuple([make(row) for row in zip(*columns, strict=True)])
        made: Expr = Shuffle(lanes, tuple([const(lane, INT32) for lane in range(dtype.lanes)]), span=node.span)
        for var, value in reversed(bound):
            made = Let(var, value, made, span=node.span)
        return made

    # -- expressions -------------------------------------------------------------------------------------------------
    def leaf(self, op: Expr) -> Expr:
        """Constants are their bits."""
        if op.__class__ is FloatImm and op.dtype.is_custom:
            return self._constant(op)
        return super().leaf(op)

    def _constant(self, op: FloatImm) -> Expr:
        dtype = op.dtype
        name, storage, number = custom_name(dtype), storage_dtype(dtype), FloatImm(DataType("float64"), op.value)
        whole = find_op("FloatImm", self.target, name)
        found = whole or find_op("Cast", self.target, "float", name)
        function = None if found is None else found.meaning(dtype.bits)
        if function is not None:
            made = int(function(op.value))  # type: ignore[call-arg,arg-type]  # which is of a number
            return IntImm(storage, made & ((1 << dtype.bits) - 1), span=op.span)
        names = ("FloatImm", name, None, None) if whole is not None else ("Cast", "float", name, None)
        return self.call(op, storage, (number,), names, (dtype.bits, 64, dtype.bits))

    def rebuild(self, op: Expr, operands: list[Expr]) -> Expr:
        """Operations become calls; what only moves values moves their bits."""
        if op.__class__ is Cast:
            if op.value.dtype.is_custom or op.dtype.is_custom:
                return self._cast(op, operands[0])
        elif isinstance(op, (BinaryOp, CompareOp)):
            custom = op.a.dtype
            if custom.is_custom:
                names = (op.__class__.__name__, custom_name(custom), None, None)
                result = storage_dtype(op.dtype.element)
                bits = (custom.bits, custom.bits, result.bits)
                return self.lanewise(op, operands, lambda row: self.call(op, result, row, names, bits))
        elif op.__class__ is Call:
            return self._call(op, operands)
        elif op.__class__ is Ramp and op.dtype.is_custom:
            raise TransformError(
                f"a ramp of {op.dtype!s} is not lowered: {op}", span=op.span, help="convert a ramp of integers"
            )
        return super().rebuild(op, operands)

    def _cast(self, op: Cast, value: Expr) -> Expr:
        source, target = op.value.dtype.element, op.dtype.element
        if source is target:
            return value
        names = ("Cast", custom_name(source), custom_name(target), None)
        taken, given = storage_dtype(source), storage_dtype(target)
        if not source.is_custom:
            taken = _c_type(source)
        if not target.is_custom:
            given = _c_type(target)
        owner = target.bits if target.is_custom else source.bits

        def convert(row: Sequence[Expr]) -> Expr:
            (one,) = row
            one = build.cast(taken, one, span=op.span)
            made = self.call(op, given, (one,), names, (owner, taken.bits, given.bits))
            return build.cast(storage_dtype(target), made, span=op.span)

        return self.lanewise(op, [value], convert)

    def _call(self, op: Call, operands: list[Expr]) -> Expr:
        callee, kind = op.op, op.dtype
        custom = next((arg.dtype for arg in op.args if arg.dtype.is_custom), kind)
        if not custom.is_custom:
            return super().rebuild(op, operands)
        storage = storage_dtype(kind)
        if callee is _REINTERPRET:
            return build.reinterpret(storage, operands[0], span=op.span)
        if callee in _ARITHMETIC:
            assert isinstance(callee, Op)
            raise TransformError(f"{callee.name} has no meaning on {custom!s}: {op}", span=op.span)
        if isinstance(callee, Op) and callee.elementwise:
            names = ("Call", custom_name(custom), None, callee.name)
            result = storage.element
            bits = (custom.bits, operands[0].dtype.bits, result.bits)
            return self.lanewise(op, operands, lambda row: self.call(op, result, row, names, bits))
        return super().rebuild(op, operands).with_(dtype=storage)

    # -- statements --------------------------------------------------------------------------------------------------
    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.visit(op.value)
        return op.with_(var=self.define(op.var), value=value)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        value, *rest = [self.visit(part) for part in op.children()]
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
        if op.data.dtype.kind not in "iu":
            raise TransformError(
                f"the constant {op.buffer.name!r} of {op.buffer.dtype!s} has data of {op.data.dtype}, not its bits",
                span=op.span,
                help="give the bit patterns, as integers",
            )
        return op.with_(buffer=buffer, data=op.data.astype(buffer.dtype.element.numpy))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer))


class LowerCustomDatatypes(FuncPass):
    """Values of registered custom types become unsigned integers, and their operations calls of functions.

    Each arithmetic operation, comparison, conversion and mathematical function on ``custom[name]bits`` becomes a
    ``call_pure_extern`` of what :func:`tirlower.ir.custom_datatype.register_op` registered for it and the function's
    target: the symbol of an external function, or the symbol under which machine code finds a Python function.
    Constants become their bits where the conversion is known to Python. Loads, stores, selects and calls that just hand
    values on move the integers ``uint<bits>``; buffers, pointers, variables and parameters have that type from then on, so
    arrays are passed as their bits. Operations on vectors are taken apart into their lanes; numbers of types that C does not
    have (float16, odd integers) travel in the next wider type and are converted on this side.

    As TIR's, but that parameters are retyped too, and that the functions may be written in Python. Needs nothing; passes that
    fold or reason on numbers leave custom types alone, and CommonSubexprElimTIR merges equal calls. Raises
    :class:`TransformError` for an operation that nobody registered, for scalable vectors, ramps and atomics of a custom type.
    Source of the idea: Bring Your Own Datatypes (Gus Smith, TVM).

    >>> from tirlower.ir import custom_datatype
    >>> from tirlower.ir.posit import register_posit
    >>> from tirlower.script import parse
    >>> _ = register_posit("posit8")
    >>> print(LowerCustomDatatypes()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "custom[posit8]8"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         B[i] = T.Cast("float32", A[i] * T.FloatImm("custom[posit8]8", 1.5))
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.call_pure_extern("float32", "custom.posit8.to_float.llvm.float32.uint8", T.call_pure_extern("uint8", "custom.posit8.Mul.llvm.uint8.uint8.uint8", A[i], T.uint8(68)))
    >>> custom_datatype.unregister("posit8")
    """

    name = "tir.LowerCustomDatatypes"
    breaks = (Fact.CUSTOM_TYPES,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Rewrite a function: signature and body."""
        if not DataType.any_custom:
            return func
        bound = func.attrs.get("target")
        kind = "llvm" if bound is None else Target(bound).kind
        worker = _Lowerer("llvm" if kind == "c" else kind)
        params = tuple([worker.define(param) for param in func.params])
        buffer_map = {worker.define(param): worker.map_buffer_def(buffer) for param, buffer in func.buffer_map.items()}
        body = worker.visit(func.body)
        if (
            body is func.body
            and all(a is b for a, b in zip(params, func.params, strict=True))
            and all(a is b for a, b in zip(buffer_map.values(), func.buffer_map.values(), strict=True))
        ):
            return func
        ret_type = func.ret_type
        if isinstance(ret_type, DataType) and ret_type.is_custom:
            ret_type = storage_dtype(ret_type)
        return func.with_(params=params, buffer_map=buffer_map, ret_type=ret_type, body=body)
