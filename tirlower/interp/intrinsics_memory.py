"""Addresses, host structures and copies."""

from __future__ import annotations

import math

from tirlower.diagnostics import BoundsError, InterpreterError, RuntimeAssertError, TirError, UnboundError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic, pointer_value
from tirlower.interp.memory import Memory, OutsideMemory, Pointer, ReadOnlyMemory, UnwrittenMemory
from tirlower.interp.scope import Frame, Place, Value
from tirlower.interp.structs import ResultSlot, Struct, int64_array, stack_memory
from tirlower.interp.values import Datum
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.expr import BufferLoad, Call, Var
from tirlower.ir.struct_field import StructField

__all__ = ["memory_error"]


@intrinsic("tir.address_of", own_arguments=True)
def _address_of(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    element = call.args[0]
    if isinstance(element, BufferLoad):
        indices = [compiler.expression(index, exact=True) for index in element.indices]
        return compiler.access(element.buffer, indices, None, compiler.place(call.span)).address
    if isinstance(element, Var) and element.dtype.is_handle:
        return compiler.expression(element)
    raise InterpreterError(f"the address of {element} has no meaning: it is no buffer element", span=call.span)


@intrinsic("tir.tvm_access_ptr")
def _access_ptr(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    dtype = call.args[0].dtype
    size = element_numpy(dtype).itemsize * dtype.lanes
    place = compiler.place(call.span)
    _, data, offset, extent, _ = args

    def run(frame: Frame) -> Pointer:
        pointer: Pointer = pointer_value(data(frame), "tvm_access_ptr", place) + offset(frame) * size
        count = extent(frame)
        if pointer.offset < 0 or (count > 0 and pointer.offset + count * size > pointer.memory.size):
            raise BoundsError(
                f"an access pointer to {count} elements of {dtype!s} from byte {pointer.offset} on reaches outside "
                f"its memory {pointer.memory.name!r} of {pointer.memory.size} bytes",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
                help="correct the offset or the extent of tvm_access_ptr",
            )
        return pointer

    return run


@intrinsic("tir.isnullptr")
def _isnullptr(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (value,) = args
    return lambda frame: value(frame) is None


@intrinsic("tir.tvm_tuple")
def _tuple(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return lambda frame: [arg(frame) for arg in args]


@intrinsic("tir.tvm_static_handle", "tir.tvm_context_id")
def _static_handle(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    held = Struct("a static handle")
    return lambda frame: held


@intrinsic("tir.lookup_param")
def _lookup_param(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (name,) = args
    place = compiler.place(call.span)
    return lambda frame: compiler.program.call_extern("lookup_param", [name(frame)], call.dtype, place)


# ---------------------------------------------------------------- structures


def _struct(value: Datum, place: Place) -> Struct | ResultSlot:
    if isinstance(value, (Struct, ResultSlot)):
        return value
    raise InterpreterError(
        f"a structure of the host ABI is expected, got {value!r}",
        origin="interpret",
        span=place.span,
        help="pass the arguments of a packed function as arrays and numbers; interpret packs them",
    )


@intrinsic("tir.tvm_struct_get")
def _struct_get(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    handle, index, kind = args
    place = compiler.place(call.span)
    return lambda frame: _struct(handle(frame), place).get(index(frame), kind(frame))


@intrinsic("tir.tvm_struct_set")
def _struct_set(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    handle, index, kind, value = args
    place = compiler.place(call.span)

    def run(frame: Frame) -> int:
        _struct(handle(frame), place).set(index(frame), kind(frame), value(frame))
        return 0

    return run


@intrinsic("tir.tvm_stack_alloca")
def _stack_alloca(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    kind, count = args
    return lambda frame: stack_memory(str(kind(frame)), count(frame))


@intrinsic("tir.tvm_stack_make_shape")
def _stack_make_shape(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return lambda frame: int64_array([arg(frame) for arg in args], "a stack shape")


@intrinsic("tir.tvm_stack_make_array")
def _stack_make_array(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    data, shape, strides, ndim, _, offset = args
    dtype = call.args[4].dtype

    def run(frame: Frame) -> Struct:
        fields = {
            StructField.DATA: data(frame),
            StructField.SHAPE: shape(frame),
            StructField.STRIDES: strides(frame) or None,
            StructField.NDIM: ndim(frame),
            StructField.TYPE_BITS: dtype.bits,
            StructField.TYPE_LANES: dtype.lanes,
            StructField.BYTE_OFFSET: offset(frame) * dtype.bytes * dtype.lanes,
            StructField.DEVICE_ID: 0,
            StructField.DEVICE_TYPE: 1,
        }
        return Struct("a stack array", {(0, key): value for key, value in fields.items()})

    return run


# ---------------------------------------------------------------- workspaces and copies


@intrinsic("tir.TVMBackendAllocWorkspace")
def _alloc_workspace(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    size = args[2]
    return lambda frame: Pointer(Memory.allocate(size(frame), "a workspace"))


@intrinsic("tir.TVMBackendFreeWorkspace")
def _free_workspace(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    pointer = args[2]
    place = compiler.place(call.span)

    def run(frame: Frame) -> int:
        pointer_value(pointer(frame), "TVMBackendFreeWorkspace", place)
        return 0

    return run


@intrinsic("tir.tvm_throw_last_error")
def _throw_last_error(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    place = compiler.place(call.span)

    def run(frame: Frame) -> Datum:
        raise RuntimeAssertError(
            "the runtime refused what the program asked for",
            origin="interpret",
            span=place.span,
            notes=place.notes(frame),
            help="free memory, or ask for less",
        )

    return run


@intrinsic("tir.nd_mem_alloc_with_scope")
def _alloc_with_scope(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(scope, dimensions, shape): memory whose element type the call does not say, so 8 bytes for each."""
    scope, count, shape = args[:3]
    place = compiler.place(call.span)

    def run(frame: Frame) -> Pointer:
        extents = pointer_value(shape(frame), "nd_mem_alloc_with_scope", place).view("int64")
        total = math.prod(extents.get(extents.start + axis) for axis in range(count(frame)))
        return Pointer(Memory.allocate(8 * total, str(scope(frame))))

    return run


@intrinsic("tir.tvm_check_return")
def _check_return(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    expected, _, result = args
    place = compiler.place(call.span)

    def run(frame: Frame) -> int:
        want, got = expected(frame), result(frame)
        if got != want:
            raise InterpreterError(f"a checked call returned {got}, not {want}", origin="interpret", span=place.span)
        return 0

    return run


@intrinsic("tir.dma_copy")
def _dma_copy(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """An asynchronous copy that is complete at once."""
    _, target, source, size, _ = args
    place = compiler.place(call.span)

    def run(frame: Frame) -> int:
        into = pointer_value(target(frame), "dma_copy", place)
        into.copy_from(pointer_value(source(frame), "dma_copy", place), size(frame))
        return 0

    return run


def memory_error(error: Exception, pointer: Pointer, place: Place, frame: Frame) -> TirError:
    """The public error for an access through a pointer."""
    where = f"byte {pointer.offset} of {pointer.memory.name!r} ({pointer.memory.size} bytes)"
    kind, text = {
        OutsideMemory: (BoundsError, "is outside the allocation"),
        UnwrittenMemory: (UnboundError, "is read before it is written"),
        ReadOnlyMemory: (InterpreterError, "is read-only"),
    }.get(type(error), (InterpreterError, str(error)))
    return kind(f"{where} {text}", origin="interpret", span=place.span, notes=place.notes(frame))
