"""Packed calls, shapes and array descriptors, made on stacks: what LowerTVMBuiltin does to one statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, INT32, INT64, DataType, PointerType
from tirlower.ir.expr import And, BufferLoad, Call, Expr, Let, Or, StringImm, Var, const
from tirlower.ir.functor import Mutator, post_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, BufferStore, DeclBuffer, Evaluate, IfThenElse, Seq, Stmt
from tirlower.ir.struct_field import ArgumentCode, StructField, dlpack_bits, dlpack_code

__all__ = ["DEVICES", "CallLowerer", "Uses", "largest_uses"]

DEVICES = {1: None, 2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 12: "hexagon", 15: "webgpu"}
"""The devices by DLPack's numbers; None is the processor, whose memory the host handles itself."""
_STRING_CODE = 11

_SHAPE, _ARRAY = Op.get("tir.tvm_stack_make_shape"), Op.get("tir.tvm_stack_make_array")
_PACKED = {Op.get("tir.tvm_call_packed"): Op.get("tir.tvm_call_packed_lowered"),
           Op.get("tir.tvm_call_cpacked"): Op.get("tir.tvm_call_cpacked_lowered")}  # fmt: skip
_SET_ITEM = {Op.get("tir.anylist_setitem_call_packed"): Op.get("tir.tvm_call_packed"),
             Op.get("tir.anylist_setitem_call_cpacked"): Op.get("tir.tvm_call_cpacked")}  # fmt: skip
_GET_ITEM, _RESET_ITEM = Op.get("tir.anylist_getitem"), Op.get("tir.anylist_resetitem")
_DMA = frozenset(Op.get(f"tir.{name}") for name in ("dma_copy", "dma_wait", "dma_start_group", "dma_end_group"))
_LOWERED = frozenset((_SHAPE, _ARRAY, *_PACKED, *_SET_ITEM))
_STRUCT_GET = Op.get("tir.tvm_struct_get")
_ALLOC_ND = Op.get("tir.nd_mem_alloc_with_scope")
_ALLOC_ND_SLOTS = 8
"""Room for the call of an allocator: device type and number, type code, bits, dimensions, shape, scope, and the result."""
_IF = Op.get("tir.if_then_else")


@dataclass
class Uses:
    """Room on the stacks: 64-bit integers of shapes, array descriptors, and packed values with their type codes."""

    shapes: int = 0
    arrays: int = 0
    values: int = 0

    def add(self, op: Call) -> None:
        """The room that a call takes, its result included."""
        if op.op is _SHAPE:
            self.shapes += len(op.args)
        elif op.op is _ARRAY:
            self.arrays += 1
        elif op.op in _PACKED:
            self.values += len(op.args)  # without the name, with the result
        elif op.op in _SET_ITEM:
            self.values += len(op.args) - 2
        elif op.op in _DMA:
            self.values += len(op.args) + 1
        elif op.op is _ALLOC_ND:
            self.values += _ALLOC_ND_SLOTS


def largest_uses(body: Stmt) -> tuple[int, int, int]:
    """The most room that any statement takes on the three stacks."""
    most = [0, 0, 0]
    stack: list[Node] = [body]
    while stack:
        stmt = stack.pop()
        uses = Uses()
        for part in stmt.children():
            if isinstance(part, Expr):
                for call in each(Call, part):
                    uses.add(call)
            else:
                stack.append(part)
        most = [max(a, b) for a, b in zip(most, (uses.shapes, uses.arrays, uses.values), strict=True)]
    return most[0], most[1], most[2]


@dataclass
class _Stack:
    """The stacks of a function, or of an iteration of a parallel loop; a variable exists once it is used."""

    room: tuple[int, int, int]
    declared: dict[str, tuple[Var, Buffer | None, Stmt]] = field(default_factory=dict)

    def memory(self, name: str, kind: str, count: int, element: str | None = None) -> tuple[Var, Buffer | None]:
        """A stack's variable, and the buffer on it."""
        known = self.declared.get(name)
        if known is None:
            var = Var(name, HANDLE if element is None else PointerType(DataType(element)))
            call = build.call("tir.tvm_stack_alloca", StringImm(kind), const(count, INT32))
            buffer = None
            if element is not None:
                buffer = Buffer(name, (const(count, INT32),), DataType(element), var)
            known = self.declared[name] = (var, buffer, Bind(var, call))
        return known[0], known[1]

    def declare(self, body: Stmt) -> Stmt:
        """A body after the declarations of the stacks that it uses."""
        if not self.declared:
            return body
        head: list[Stmt] = []
        for _, buffer, bind in self.declared.values():
            head.append(bind)
            if buffer is not None:
                head.append(DeclBuffer(buffer))
        return Seq((*head, *(body.stmts if isinstance(body, Seq) else (body,))))


class CallLowerer(Mutator):
    """Rewrites the calls of statements; what must happen first stands in front of the statement."""

    def __init__(self, *room: int) -> None:
        self.room = (room[0], room[1], room[2])
        self.stack = _Stack(self.room)
        self.prepared: list[Stmt] = []
        self.used = Uses()
        self.opaque = 0
        self.device_type: int | None = None
        self.device_id: Expr | None = None

    @property
    def device(self) -> str | None:
        """The device at hand, or None for the processor, which it is where nothing is said."""
        if self.device_type is None:
            return None
        if self.device_type not in DEVICES:
            return f"ext_dev{self.device_type}"
        return DEVICES[self.device_type]

    def device_numbers(self) -> tuple[Expr, Expr]:
        """The device's type and number, as arguments. There is one processor; another device needs its number."""
        if self.device_type is None:
            raise TransformError(
                "memory is asked for, or described, without a 'device_type'",
                help='say of which device: with T.attr("default", "device_type", 1) around it, as MakePackedAPI does',
            )
        number = self.device_id
        if number is None:
            if self.device is not None:
                raise TransformError(
                    f"memory of {self.device} is asked for without a 'device_id'",
                    help='say which device: with T.attr("default", "device_id", 0) around it',
                )
            number = const(0, INT32)
        return const(self.device_type, INT32), build.cast(INT32, number)

    @staticmethod
    def type_code(kind: DataType) -> Expr:
        """DLPack's code of a type, as an argument."""
        return const(dlpack_code(kind), INT32)

    @contextmanager
    def own_stack(self) -> Iterator[_Stack]:
        """Inside, statements use stacks of their own."""
        outer, self.stack = self.stack, _Stack(self.room)
        yield self.stack
        self.stack = outer

    # -- statements --------------------------------------------------------------------------------------------------
    def statement(self, op: Stmt) -> Stmt:
        """A statement after what its expressions need; the same object where they need nothing."""
        outer = self.prepared, self.used, self.opaque
        self.prepared, self.used, self.opaque = [], Uses(), 0
        made = self.generic(op)
        prepared = self.prepared
        self.prepared, self.used, self.opaque = outer
        return Seq((*prepared, made), span=op.span) if prepared else made

    def visit_Bind(self, op: Bind) -> Stmt:
        return self.statement(op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return self.statement(op)

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        return self.statement(op)

    def visit_Assert(self, op: Stmt) -> Stmt:
        return self.statement(op)

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return self.statement(op)

    # -- expressions -------------------------------------------------------------------------------------------------
    def refuse_calls(self, root: Expr, where: str) -> None:
        """Raise TransformError for an expression that needs something done before it."""
        found: list[Call] = []
        post_order_visit(root, lambda op: found.append(op) if isinstance(op, Call) and self._lowers(op) else None)
        if found:
            raise TransformError(
                f"{found[0]} stands in {where}: its arguments cannot be packed ahead of it",
                span=found[0].span,
                help="evaluate it in a statement of its own, inside an if where needed",
            )

    def _lowers(self, op: Call) -> bool:
        return op.op in _LOWERED or (op.op in _DMA and self.device is not None)

    def enter_And(self, op: And) -> None:
        self.refuse_calls(op.b, "an operand that is evaluated only where the first one holds")

    def enter_Or(self, op: Or) -> None:
        self.refuse_calls(op.b, "an operand that is evaluated only where the first one fails")

    def enter_Let(self, op: Let) -> None:
        self.refuse_calls(op.body, f"the body of a let, where {op.var.name!r} is known")

    def enter_Call(self, op: Call) -> None:
        if op.op is _IF:
            for arm in op.args[1:]:
                self.refuse_calls(arm, "an arm of an if_then_else")
        elif (op.op in _PACKED or op.op in _SET_ITEM) and self.opaque:
            for arg in op.args[3 if op.op in _SET_ITEM else 1 :]:
                if side_effect(arg) > Purity.PURE and not _is_descriptor(arg):
                    raise TransformError(
                        f"{op} follows another call in its statement, which may change what its argument {arg} reads",
                        span=op.span,
                        help="bind the first call to a variable",
                    )

    def visit_Call(self, op: Call) -> Expr:
        made: Expr = op
        if op.op is _SHAPE:
            made = self._shape(op)
        elif op.op is _ARRAY:
            made = self._array(op)
        elif op.op in _PACKED:
            made = self._packed(op)
        elif op.op in _SET_ITEM:
            made = self._set_item(op)
        elif op.op is _RESET_ITEM:
            made = build.call("tir.call_extern", StringImm("TVMBackendAnyListResetItem"), *op.args, dtype=op.dtype)
        elif op.op in _DMA and self.device is not None:
            name = StringImm(f"device_api.{self.device}.{op.op.short}")  # type: ignore[union-attr]
            made = self._packed(build.call("tir.tvm_call_packed", name, *op.args, span=op.span))  # type: ignore[arg-type]
        if op.op not in (_SHAPE, _ARRAY) and (not isinstance(op.op, Op) or op.op.purity >= Purity.WRITES):
            self.opaque += 1
        return made

    def _shape(self, op: Call) -> Expr:
        """The integers are stored one after another."""
        _, buffer = self.stack.memory("stack_shape", "shape", max(self.room[0], 1), "int64")
        assert buffer is not None
        begin = self.used.shapes
        self.used.shapes += len(op.args)
        for number, arg in enumerate(op.args):
            self.prepared.append(BufferStore(buffer, build.cast(INT64, arg), (const(begin + number, INT32),)))
        return build.call("tir.address_of", BufferLoad(buffer, (const(begin, INT32),)))

    def _array(self, op: Call) -> Expr:
        """The fields of a descriptor are set."""
        data, shape, strides, ndim, element, offset = op.args
        stack, _ = self.stack.memory("stack_array", "array", max(self.room[1], 1))
        index = self.used.arrays
        self.used.arrays += 1
        dtype = element.dtype
        size = dtype.bytes * dtype.lanes
        device_type, device_id = self.device_numbers()
        null = build.reinterpret(HANDLE, const(0, DataType("uint64")))
        for what, value in (
            (StructField.DATA, data),
            (StructField.SHAPE, shape),
            (StructField.STRIDES, strides if strides.dtype.is_handle else null),
            (StructField.NDIM, build.cast(INT32, ndim)),
            (StructField.TYPE_CODE, const(dlpack_code(dtype), DataType("uint8"))),
            (StructField.TYPE_BITS, const(dlpack_bits(dtype), DataType("uint8"))),
            (StructField.TYPE_LANES, const(dtype.lanes, DataType("uint16"))),
            (StructField.BYTE_OFFSET, build.mul(build.cast("uint64", offset), const(size, "uint64"))),
            (StructField.DEVICE_ID, device_id),
            (StructField.DEVICE_TYPE, device_type),
        ):
            self._set(stack, index, what, value)
        return build.call("tir.tvm_struct_get", stack, index, int(StructField.ADDRESS), dtype=HANDLE)

    def _set(self, stack: Var, index: int, what: StructField, value: Expr) -> None:
        self.prepared.append(Evaluate(build.call("tir.tvm_struct_set", stack, index, int(what), value)))

    def _packed(self, op: Call) -> Call:
        """The arguments and their type codes are stored; the call names their range."""
        name, *args = op.args
        stack, _ = self.stack.memory("stack_value", "arg_value", self.room[2])
        _, codes = self.stack.memory("stack_tcode", "arg_tcode", self.room[2], "int32")
        assert codes is not None
        begin = self.used.values
        end = begin + len(args)
        self.used.values = end + 1  # the result stands after the arguments
        for number, arg in enumerate(args, begin):
            if isinstance(arg, Call) and arg.op is _GET_ITEM:
                place = (*arg.args, stack, codes.data, const(number, INT32))
                self._extern("TVMBackendAnyListSetPackedArg", place)
                continue
            value, code = self._argument(op, arg)
            self._set(stack, number, StructField.VALUE, value)
            self.prepared.append(BufferStore(codes, const(code, INT32), (const(number, INT32),)))
        return Call(
            _PACKED.get(op.op, Op.get("tir.tvm_call_packed_lowered")),  # type: ignore[arg-type]
            (name, stack, codes.data, const(begin, INT32), const(end, INT32)),
            op.dtype,
            span=op.span,
        )

    def _set_item(self, op: Call) -> Expr:
        """The call is made ahead; its result is moved from the stack into the list."""
        at, called = op.args[:2], _SET_ITEM[op.op]  # type: ignore[index]
        call = self._packed(Call(called, op.args[2:], op.dtype, span=op.span))
        self.prepared.append(Evaluate(call))
        _, stack, codes, _, end = call.args
        name = StringImm("TVMBackendAnyListMoveFromPackedReturn")
        return build.call("tir.call_extern", name, *at, stack, codes, end, dtype=op.dtype)

    def _extern(self, name: str, args: tuple[Expr, ...]) -> None:
        """A function of the host is called ahead of the statement."""
        self.prepared.append(Evaluate(build.call("tir.call_extern", StringImm(name), *args, dtype=INT32)))

    def _argument(self, op: Call, arg: Expr) -> tuple[Expr, int]:
        """A packed value, and its type code."""
        dtype = arg.dtype
        if isinstance(arg, StringImm):
            return arg, _STRING_CODE
        if dtype.is_handle:
            return arg, int(ArgumentCode.TENSOR if _is_descriptor(arg) else ArgumentCode.HANDLE)
        if dtype.is_vector or not (dtype.is_integral or dtype.is_float):
            raise TransformError(
                f"a packed function takes scalars and pointers, not {dtype!s}: {arg}", span=arg.span or op.span
            )
        if dtype.is_integral:
            return build.cast(INT64, arg), int(ArgumentCode.INT)
        return build.cast("float64", arg), int(ArgumentCode.FLOAT)


def _is_descriptor(arg: Expr) -> bool:
    """Whether an argument is an array descriptor, lowered or not."""
    if not isinstance(arg, Call):
        return False
    field_of = arg.args[2] if arg.op is _STRUCT_GET else None
    return arg.op is _ARRAY or getattr(field_of, "value", None) == StructField.ADDRESS
